"""Agents of meta-RL by name: what actor and critic see, and whether they are shown the task.

markov          the observation                 memory          what has happened since the task began: RL²
oracle          the observation and the task    memory_markov   the actor the observation, the critic what memory sees
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from gymnasium import spaces

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


_OF_AMOUNTS = {"squash", "log_std"}  # options that only actions of a Box have a use for

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

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of its policy that were written, and its seed."""
        return self.player.factory.keywords if isinstance(self.player.factory, partial) else {}

    def check(self, seat: Seat) -> None:
        """Sees to it that each option has an effect in this world.

        Raises:
            BadInput: one has none.
        """
        if isinstance(seat.action_space, spaces.Discrete):
            for name in sorted(_OF_AMOUNTS & set(self.options)):
                raise BadInput(
                    f"{name} in agent={self.name!r} has no effect: {seat.mission!r} has numbered actions "
                    f"({seat.action_space}), and {name} is about amounts; leave it away"
                )

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
        BadInput: there is none, or it has no such option, or one that would have no effect.
    """
    player = named_agent(written, AGENTS) if isinstance(written, str) else None
    if player is None:
        raise BadInput(f"agent={written!r}: give {', '.join(AGENTS)}, with options (memory,cell=lstm,memory=128)")
    make = player.factory
    told = make.keywords if isinstance(make, partial) else {}
    if "sampled" in told:
        raise BadInput(
            f"sampled in agent={written!r} has no effect: actions are drawn in training, and the likeliest ones in "
            "evaluation; leave it away"
        )
    if {"weights", "seed"} <= set(told):
        raise BadInput(
            f"seed in agent={written!r} has no effect: it is what first weights follow from, and weights says them; "
            "leave one of them away"
        )
    options = dict(told) if "weights" in told else {"seed": seed, **told}
    kind = make.func if isinstance(make, partial) else make
    return Agent(written, Player(player.name, partial(kind, **options)), written.partition(",")[0].strip() == "oracle")
