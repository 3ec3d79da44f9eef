"""Frozen data that jobs pass around: what is played, who sits where, what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mission:
    """A recipe for an environment: picklable, and the same wherever it is built.

    Attributes:
        name: How reports name it; part of what seeds follow from.
        make: Builds the environment: a Gymnasium `Env` or a PettingZoo `ParallelEnv`.
        options: Keyword arguments for `make`.
        steps: The most steps that an episode may have; None: as long as the environment lets it.
        reuse: Whether one environment may serve several episodes, one after another. By default each gets a new one.
        about: One sentence for listings.
    """

    name: str
    make: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None
    reuse: bool = False
    about: str = ""

    def build(self) -> Any:
        """Makes a new environment."""
        return self.make(**self.options)


@dataclass(frozen=True)
class Seat:
    """One agent's place in a mission, as its policy gets to know it.

    Attributes:
        agent: The agent's name in the environment.
        index: Its number, in the environment's order.
        observation_space: What it will see.
        action_space: What it may do.
        mission: The mission's name.
    """

    agent: str
    index: int
    observation_space: Any
    action_space: Any
    mission: str
