"""Agents of meta-RL by name: what actor and critic see, and whether they are shown the task.

markov          the observation                 memory          what has happened since the task began: RL²
oracle          the observation and the task    memory_markov   the actor the observation, the critic what memory sees
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from paceline.collect.agents import named_agent
from paceline.errors import BadInput
from paceline.learning import Markov, Memory, MemoryMarkov
from paceline.spaces import Array
from paceline.team import Player
from paceline.types import Seat

SAMPLED = "sampled"
"""Stands among weights that are given to agents: whether actions are drawn, as in training, or the likeliest ones."""


class _Told(Markov):
    """A policy that is told with its weights whether it draws its actions."""

    def load(self, version: int, weights: Mapping[str, Array]) -> None:
        """Takes another version of the weights, and `SAMPLED` if that is among them."""
        given = dict(weights)
        self.sampled = bool(given.pop(SAMPLED, self.sampled))
        super().load(version, given)


class MarkovAgent(_Told, Markov):
    """See `Markov`."""


class MemoryAgent(_Told, Memory):
    """See `Memory`."""


class MemoryMarkovAgent(_Told, MemoryMarkov):
    """See `MemoryMarkov`."""


AGENTS = {
    "memory": MemoryAgent,
    "markov": MarkovAgent,
    "oracle": MarkovAgent,
    "memory_markov": MemoryMarkovAgent,
}
"""Name → the policy that it has."""


@dataclass(frozen=True)
class Agent:
    """Who learns.

    Attributes:
        name: As it was written.
        player: Its policy, as rollouts are collected with it.
        oracle: Whether it is shown the task.
    """

    name: str
    player: Player
    oracle: bool

    def build(self, seat: Seat) -> Any:
        """Its policy, for learning: with the first weights."""
        try:
            return self.player.factory(seat)
        except TypeError as error:
            raise BadInput(f"agent {self.name!r} cannot be built: {error}") from error


def agent_of(written: str, seed: int) -> Agent:
    """The agent that is meant.

    Args:
        written: A name of `AGENTS`, with options of its policy: "memory,cell=lstm,memory=128".
        seed: What its first weights follow from, unless an option says it.

    Raises:
        BadInput: there is none, or it has no such option.
    """
    player = named_agent(written, AGENTS)
    if player is None:
        raise BadInput(f"agent={written!r}: give {', '.join(AGENTS)}, with options (memory,cell=lstm,memory=128)")
    make = player.factory
    options = {"seed": seed, **(make.keywords if isinstance(make, partial) else {})}
    kind = make.func if isinstance(make, partial) else make
    return Agent(written, Player(player.name, partial(kind, **options)), written.partition(",")[0].strip() == "oracle")
