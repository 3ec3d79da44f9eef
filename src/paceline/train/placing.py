"""Where the halves of a training live: banks in parts, one for each worker.

    here             worlds, acting and learning in one process: what defines the result
    thread, process  learners in workers, while main plays on as far as the lag allows
    auto             here, until the first updates say that workers pay

A device other than the CPU has one owner, the process in which all learners are; agents act on the CPU, wherever
learners are, so that no bit depends on it.

How agents are grouped in parts changes no bit of them (see `learning.bank`), so it may follow from the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from paceline.engine import TWO_CORES_ARE_NOT_TWICE_ONE, Plan, current_budget
from paceline.errors import BadInput
from paceline.train.banks import OneAgent, Recipe

if TYPE_CHECKING:
    from paceline.train.job import Job
    from paceline.train.trainer import Trainer
    from paceline.types import Seat

_LOOK = 2  # points at which updates are due, before auto decides
_STARTING = 3.0  # seconds that a worker takes to be of use: start, imports of networks, first update
_AGENTS = ("off", "thread", "process")


class Places:
    """Who lives where.

    Args:
        plan: What was asked.
        job: What is trained.
        deadline: Seconds that an update may take; None: as long as it likes.

    Attributes:
        plan: Where learners live, and why.
        learners: The banks that learn, in parts.
        actors: All banks.
    """

    def __init__(self, plan: Plan, job: Job, deadline: float | None = None) -> None:
        if plan.agents not in (None, "auto", *_AGENTS):
            raise BadInput(
                f"agents={plan.agents!r}; agents of a training act 'off' (here), in a 'thread' or a 'process'"
            )
        self.plan, self._slots, self._lag = plan, current_budget().slots, job.timetable.lag
        self._asked, self._free_running = plan, job.free_running
        here = plan.backend == "inline" or plan.workers == 0
        if deadline is not None and (here or plan.backend == "thread"):
            raise BadInput(
                f"deadline={deadline:g}: an update can be ended in a process only; give plan='process' or 'auto'"
            )
        if plan.backend == "auto" and not here and (plan.workers is not None or deadline is not None):
            why = "as many workers as asked" if deadline is None else "an update can be ended in a process only"
            self.plan = replace(plan, backend="process", why=why)
        elif here:
            self.plan = replace(plan, backend="inline", workers=1)
        if not here and job.device != "cpu" and plan.workers != 1:
            self.plan = replace(self.plan, workers=1, why=f"one process owns {job.device}")
        self.learners = [
            part for recipe in job.recipes if recipe.learns for part in _split(recipe, 1 if here else self.workers)
        ]
        apart = plan.agents in ("thread", "process")
        acting = [replace(recipe, seats=_on_cpu(recipe.seats)) for recipe in job.recipes]
        self.actors = [part for recipe in acting for part in _split(recipe, len(recipe.seats) if apart else 1)]

    @property
    def workers(self) -> int:
        """How many workers learners have, or would have under auto: one slot is main's while it collects."""
        if self.plan.workers is not None:
            return self.plan.workers
        return max(1, self._slots - 1 if self._lag else self._slots)

    @property
    def for_learners(self) -> dict[str, Any]:
        """For the pool of learners."""
        if self.plan.backend in ("auto", "inline"):
            return {}
        return {"backend": self.plan.backend, "workers": min(self.workers, len(self.learners))}

    @property
    def for_actors(self) -> dict[str, Any]:
        """For the pool of those who act."""
        if self._asked.agents in ("thread", "process"):
            return {"backend": self._asked.agents, "workers": min(self._slots, len(self.actors))}
        return {}

    @property
    def for_worlds(self) -> Plan:
        """Worlds are stepped here: a message per turn costs more than most turns."""
        return Plan("inline", 1)

    @property
    def beside_threads(self) -> bool:
        """Whether learners are on threads of this process while worlds are stepped and agents act."""
        return self.plan.backend == "thread" and (bool(self._lag) or self._free_running)

    def reconsider(self, trainer: Trainer) -> None:
        """Decides, under auto, once the first updates have been run here."""
        table = trainer.job.timetable
        # Seconds are of this process: intervals before it went on from a checkpoint took none of them.
        points = trainer.epoch // table.train_interval - trainer.begun // table.train_interval
        if self.plan.backend != "auto" or points < _LOOK:
            return
        trainer.updates.drain()
        seconds = trainer.phases.seconds
        learning, collecting = (seconds["train"] + seconds["wait"]) / points, seconds["collect"] / points
        left = (table.epochs - trainer.epoch) // table.train_interval
        workers = min(self.workers, len(self.learners))
        gain = min(learning, collecting) if self._lag else learning * (1 - TWO_CORES_ARE_NOT_TWICE_ONE / workers)
        took = f"an interval takes {collecting * 1e3:.0f} ms to collect and {learning * 1e3:.0f} ms to learn"
        if self._slots < 2 or gain * left <= _STARTING:
            why = f"{took}, with {left} to go: workers would not pay for their start"
            self.plan = replace(self.plan, backend="inline", workers=1, why=why)
            return
        self.plan = replace(self.plan, backend="process", workers=workers, why=f"{took}: {workers} processes learn")
        trainer.save_learners()
        trainer.move_learners(_in_turn(len(self.learners), workers), backend="process", workers=workers)


def _in_turn(members: int, workers: int) -> list[int]:
    return [member % workers for member in range(members)]


def _on_cpu(seats: Sequence[Seat]) -> tuple[Seat, ...]:
    return tuple(replace(seat, device="cpu") for seat in seats)


def _split(recipe: Recipe, parts: int) -> Sequence[Recipe]:
    """A bank as several, of nearly equal size; a learner of the user's own is one already."""
    if isinstance(recipe.make, OneAgent):
        return [recipe]
    count, parts = len(recipe.seats), max(1, min(parts, len(recipe.seats)))
    bounds = [count * part // parts for part in range(parts + 1)]
    return [replace(recipe, seats=recipe.seats[lo:hi]) for lo, hi in pairwise(bounds)]
