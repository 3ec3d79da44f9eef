"""The pilot of a pool under `auto`: watches the rounds, decides where they go on, and says why.

It only ever acts between two rounds, when nothing is under way, so that what it does can be seen in times alone.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

from paceline.engine.host.thread_errors import in_a_line
from paceline.engine.planning import budget
from paceline.engine.planning.plan import FIRST_PROCESS, MEASURE_SECONDS, Choice, Measured, Meter, Plan, choose
from paceline.engine.supervisor.roster import HERE, Member
from paceline.engine.workers.process import fork_client
from paceline.errors import NotSendable, PlanNotMet, WorkerLost

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew

_LONGEST_DOUBT = 1.0  # seconds of rounds in a new place; who is not clearly slower by then stays
_log = logging.getLogger("paceline")


class Pilot:
    """Decides for one pool. `plan` is what is in force."""

    def __init__(self, crew: Crew, workers: int | None) -> None:
        self._crew = crew
        self.workers = workers
        self._meter = Meter()
        self._here: Meter | None = None  # what it was like before the move
        self.final = False
        self.building = 0.0  # seconds that it took to build a member here
        self._rests_until = 0.0  # nothing is measured before that: a look at the clock is all that a round pays
        self._rested = 0  # rounds meanwhile
        self.plan = Plan(backend="inline", workers=1, why="measuring the first calls here")

    def begin(self, *, through_port: bool = False) -> None:
        """A round is about to be asked for."""
        if self.resting():
            self._watch_calls_here(False)
            return
        if self._meter.through_port != through_port:
            if not through_port:
                self._watch_calls_here(False)
                return  # a reset, say: what goes through the port is the work, and is measured by itself
            if self._here is not None:  # moved for the sake of calls, which rounds cannot be compared with
                self.final = True
                return
            self._meter = Meter(through_port=True)
        if self._meter.enough and not self._crew.busy and not self._crew.rung:
            self._decide()
        measuring = not self.resting()
        self._watch_calls_here(measuring and not through_port)
        if measuring:
            self._meter.begin()

    def _watch_calls_here(self, on: bool) -> None:
        here = self._crew.slots[HERE].worker
        if here is not None:
            here.meter = self._meter if on else None

    def resting(self, rounds: int = 1) -> bool:
        """Whether there is nothing to measure or to decide now; so many rounds have passed since it was last asked."""
        if self.final:
            return True
        if perf_counter() >= self._rests_until:
            return False
        self._rested += rounds
        return True

    @property
    def rests(self) -> bool:
        """Whether there is nothing to measure or to decide now. Only looks: no round has passed."""
        return self.final or perf_counter() < self._rests_until

    def end(self, members: int, nbytes: int = 0, *, whole: bool = True) -> None:
        """A round has been answered, as a whole or as far as it was waited for."""
        self._meter.end(members, nbytes, whole=whole)

    def settle(self, backend: str, workers: int, why: str) -> None:
        """The members have had to go there; that is final."""
        self.plan = Plan(backend=backend, workers=workers, why=why)
        self.final = True

    def begin_on(self, backend: str, workers: int, why: str, threads: int = 1) -> None:
        """Goes where it is known to be quickest, without measuring."""
        if self._crew.never_here:
            return
        choice = Choice(backend, workers, why, threads=threads)
        self.plan = _planned(choice)
        self._move(choice)
        self.final = True

    def reconsider(self) -> None:
        """Measures and decides anew; for a job that stands between two episodes, or at a full reset."""
        if self._crew.never_here:
            return
        self.final, self._meter, self._rests_until, self._rested = False, Meter(), 0.0, 0

    def choice(self, members: int) -> Choice:
        """What would be chosen for rounds of so many members, from what has been measured here."""
        return choose(self._measured(members), self.budget())

    def _measured(self, members: int | None = None) -> Measured:
        measured = self._meter.measured(sendable=self._sendable(), touches_globals=self._touches_globals())
        measured = replace(measured, crowded=budget.crowded(), capped=self.workers is not None)
        return measured if members is None else replace(measured, members=members)

    def _decide(self) -> None:
        if self._here is not None and self._here is not self._meter:
            self._keep_or_return()
            return
        measured = self._measured()
        choice = choose(measured, self.budget())
        if not all(member.portable for member in self._crew.members):
            choice = Choice("inline", 1, f"{choice.why}; but a member that is not deterministic cannot be moved")
        self.plan = _planned(choice)
        spent = self._meter.spent + self._rested * measured.round
        if choice.backend == self._crew.place:
            self.final = not measured.crowded
            self._rest(spent)
        elif choice.pays(
            measured.round,
            spent,
            members=len(self._crew.members),
            building=self.building,
            cold=not fork_client.is_running(),
            replays=choice.threads > 1 and not self._crew.moving.can_save(self._crew.members[0]),
        ):
            self._move(choice)
        else:
            self.plan = Plan(backend="inline", workers=1, why=f"{choice.why}; it is too early for that to pay")
            if choice.backend == "process" and spent >= FIRST_PROCESS:
                self._prepare()
            self._rest(0.25 * spent)

    @staticmethod
    def _prepare() -> None:
        """Has the process started from which workers are forked, on a core that is idle: the move need not wait for it.
        Not before what has been spent is as much: who ends soon would wait for its end."""
        with suppress(OSError):  # the move would say so
            fork_client.server()

    def _rest(self, seconds: float) -> None:
        """Measures afresh after so many seconds."""
        self._rests_until = perf_counter() + seconds
        self._rested += self._meter.rounds
        self._meter = Meter(self._meter.through_port)

    def _move(self, choice: Choice) -> None:
        stood = [member for member in self._crew.members if member.stands]
        try:
            self._crew.moving.relocate(choice.backend, choice.workers, own=choice.own, threads=choice.threads)
        except PlanNotMet as error:
            self._crew.note("shrunk", f"{choice.workers} workers could not be had ({error}): staying here")
            self.plan = Plan(backend="inline", workers=1, why=f"{choice.why}; but {error}: staying here")
            self.final = True
            return
        except WorkerLost:  # what kills a worker must not be built in the caller's process
            raise
        except Exception as error:  # of a member that was built there
            if self._crew.aside.cannot_arrive(error):
                self._crew.aside.leave_threads()
            else:
                self._come_back(choice, error, stood)
            return
        self._here, self._meter = self._meter, Meter(self._meter.through_port)
        self._rests_until = perf_counter() + MEASURE_SECONDS  # the first rounds in a new place are slow
        _log.info("%s", choice.why)

    def _come_back(self, choice: Choice, error: Exception, stood: list[Member]) -> None:
        """A member that stood here cannot be built in the new place: all members are built here again, and stay."""
        why = f"a member cannot be built on {choice.backend} ({in_a_line(error)}): staying here"
        self._crew.note("stayed", why)
        self._crew.moving.relocate("inline", 1)
        if not all(member.stands for member in stood):  # nor here, any more
            raise error
        self.settle("inline", 1, why)

    def _keep_or_return(self) -> None:
        """The model said that the new place is faster; the clock has the last word, if it is sure of it.

        Where a few calls take most of the time, rounds differ so much that a good place looks bad for a while.
        """
        assert self._here is not None
        there, here = self._meter.seconds_per_call, self._here.seconds_per_call
        in_doubt = there - here < math.hypot(self._meter.doubt, self._here.doubt)
        if there > here and in_doubt and self._meter.spent < _LONGEST_DOUBT:
            return
        self.final = True
        if there <= here or in_doubt or not self._here.clocked:
            return
        text = f"a call took {there * 1e6:.0f} µs on {self.plan.backend} and {here * 1e6:.0f} µs here: back here"
        self._crew.moving.relocate("inline", 1)
        self.plan = Plan(backend="inline", workers=1, why=text)

    def budget(self) -> budget.Budget:
        """What may be used: as many workers as were asked for, else what the job has."""
        mine = budget.current()
        return mine if self.workers is None else budget.Budget(self.workers, mine.memory, mine.waiting)

    def _sendable(self) -> bool:
        try:
            for member in self._crew.members:
                member.recipe(in_process=False)
        except NotSendable:
            return False
        return True

    def _touches_globals(self) -> bool:
        return any(member.isolated for member in self._crew.members)


def _planned(choice: Choice) -> Plan:
    return Plan(choice.backend, choice.workers, why=choice.why, helps=choice.own > 0, threads=choice.threads)
