"""The built-in policies: `POLICIES` by name, and what to say `ABOUT` each.

random    any action space                                 paceline.policies.chance
greedy    the nearest thing in sight; the default          paceline.policies.greedy
memory    keeps a map, and knows where to go back to       paceline.policies.memory
torch     a small network, trained to act like greedy      paceline.policies.torchnet
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from paceline.policies.chance import Random
from paceline.policies.greedy import greedy
from paceline.policies.memory import memory
from paceline.types import Seat

__all__ = ["ABOUT", "POLICIES", "Random", "greedy"]

POLICIES: Mapping[str, Callable[[Seat], Any]] = MappingProxyType(
    {"random": Random, "greedy": greedy, "memory": memory}
)
