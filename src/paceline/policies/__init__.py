"""The built-in policies: `POLICIES` by name, and what to say `ABOUT` each.

random    any action space                                 paceline.policies.chance
noop      any action space that names its noop             paceline.policies.noop
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
from paceline.policies.noop import Noop
from paceline.policies.torchnet import TorchNet
from paceline.types import Seat

__all__ = ["ABOUT", "DEFAULT", "POLICIES", "Noop", "Random", "TorchNet", "greedy", "memory"]

POLICIES: Mapping[str, Callable[[Seat], Any]] = MappingProxyType(
    {"random": Random, "noop": Noop, "greedy": greedy, "memory": memory, "torch": TorchNet}
)
"""Name → factory, which builds the policy for a seat."""

ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "random": "Uniformly random actions; plays any world.",
        "noop": "Does nothing; plays worlds whose action spaces say which action that is.",
        "greedy": "Scripted: walks to the nearest thing worth having in sight. Plays the built-in worlds.",
        "memory": "Scripted, with memory: maps what it has seen and comes back for it. Plays the built-in worlds.",
        "torch": "A small network with shipped weights; all seats in one pass. Needs PyTorch: 'paceline[train]'.",
    }
)
"""Name → one sentence for listings."""

DEFAULT = "greedy"
"""The policy that plays when none is named."""
