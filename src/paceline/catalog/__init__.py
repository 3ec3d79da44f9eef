"""Catalog: missions and policies by the names that users write."""

from paceline.catalog.missions import find_missions, known_missions
from paceline.catalog.policies import find_policies, known_policies

__all__ = ["find_missions", "find_policies", "known_missions", "known_policies"]
