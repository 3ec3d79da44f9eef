"""What is trained: a world, a bank for every agent, and a timetable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from paceline.errors import BadInput
from paceline.ordered import ordered
from paceline.seeds import env_seed
from paceline.train.banks import Recipe
from paceline.train.timetable import Timetable
from paceline.types import Mission


@dataclass(frozen=True)
class Job:
    """What is trained: all that the result follows from.

    Attributes:
        mission: The world.
        recipes: The banks of all agents.
        timetable: When updates are due.
        warmup: How many rows an agent must have before it is updated.
        capacity: How many rows of an agent are kept; None: all.
        worlds: How many worlds are played at once.
        turn: "simultaneous", or "ordered": agents act one after another.
        free_running: Whether agents act with the newest weights that are there, as the clock has it.
        seed: Root of everything random.
        device: Where networks learn; agents act on the CPU.
        lanes: Rows of a batch of policies that answer in rows, and do not learn.
    """

    mission: Mission
    recipes: tuple[Recipe, ...]
    timetable: Timetable
    warmup: int = 0
    capacity: int | None = None
    worlds: int = 1
    turn: str = "simultaneous"
    free_running: bool = False
    seed: int = 0
    device: str = "cpu"
    lanes: int = 8

    @property
    def agents(self) -> list[str]:
        """All of them, in the environment's order."""
        seats = sorted((seat for recipe in self.recipes for seat in recipe.seats), key=lambda seat: seat.index)
        return [seat.agent for seat in seats]

    @property
    def rows_per_epoch(self) -> int | None:
        """The most rows that an agent can have of an epoch; None: that is not known."""
        return None if self.mission.steps is None else self.mission.steps * self.worlds

    def starts(self, epoch: int) -> list[int]:
        """The seeds that the worlds of an epoch are reset with."""
        return [env_seed(self.seed, "world", epoch, world) for world in range(self.worlds)]

    def check_capacity(self, rows: int, agents: Iterable[str]) -> None:
        """Sees to it that the rings of agents hold what there is between two updates.

        Args:
            rows: How many rows of an agent an epoch has.
            agents: Whose.

        Raises:
            BadInput: one does not.
        """
        for agent in agents:
            epochs = self.timetable.epochs_apart(agent)
            if self.capacity is not None and self.capacity < rows * epochs:
                raise BadInput(
                    f"capacity={self.capacity} rows are fewer than an interval of {epochs} epochs makes, "
                    f"{rows * epochs}: an update of {agent!r} would not see all that is new; give more, or None "
                    "for all"
                )


def in_turns(mission: Mission, turn: str) -> Mission:
    """The mission as it is played: where turns are ordered its environment is stepped agent by agent."""
    return mission if turn == "simultaneous" else replace(mission, make=partial(ordered, mission.make, mission.name))


def shortened(mission: Mission, max_turns: int | None) -> Mission:
    """The mission with a limit of turns, if one is given."""
    return mission if max_turns is None else replace(mission, steps=max_turns)
