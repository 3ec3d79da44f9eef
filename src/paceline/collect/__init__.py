"""Collect: rollouts for (meta-)RL, a task each, with policies that remember; one digest wherever they are played."""

from paceline.collect.collection import Collection, Recording, Timing
from paceline.collect.collector import Collector, collect
from paceline.collect.leaks import Leaks

__all__ = ["Collection", "Collector", "Leaks", "Recording", "Timing", "collect"]
