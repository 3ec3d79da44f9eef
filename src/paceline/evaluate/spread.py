"""Spread: the episodes of a run over workers, from one budget; results as they come.

jobs ── auto: the first ones here, to see what they take ──► here, or a Pool of workers ──► (job, Episode, notes)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic, perf_counter

from paceline.engine import Outcome, Plan, Pool, Trace, wire
from paceline.engine.budget import current
from paceline.engine.plan import TWO_CORES_ARE_NOT_TWICE_ONE, WAITS_BELOW, wanted_cpu
from paceline.errors import NotSendable
from paceline.evaluate.playing import Note, TooLong, lost, play_episode
from paceline.evaluate.run import Job, Run
from paceline.types import Episode, Seat

Played = tuple[Job, Episode, list[Note]]

_LOOK = 0.1  # seconds of episodes that auto plays here before it decides
_STARTING = 0.3  # seconds that workers take to be of use: start, imports, first build
_WAITERS_PER_SLOT = 4


@dataclass
class Spread:
    """Plays the jobs of a run where the plan says.

    Attributes:
        run: What is played.
        plan: Where; after an auto plan has decided, what it decided and why.
        seats: The seats of each mission, as the survey found them.
        deadline: Seconds that an episode may take before its worker is killed; None: as long as it likes.
        restarts: How often an episode that kills its worker is tried.
        trace: Records where the time goes.
        notes: What happened to workers.
    """

    run: Run
    plan: Plan
    seats: Sequence[Sequence[Seat]]
    deadline: float | None = None
    restarts: int = 3
    trace: Trace | None = None
    notes: list[Note] = field(default_factory=list)

    def play(self, jobs: Sequence[Job]) -> Iterator[Played]:
        """Plays all of them; gives each when it has ended."""
        if self.plan.backend != "auto":
            yield from self._on(self.plan, list(jobs))
            return
        left = list(jobs)
        plan = self._without_measuring(len(left))
        if plan is None:
            begin, cpu, done = perf_counter(), wanted_cpu(), 0
            limit = monotonic() + max(0.25, 1.0 / len(left))
            for played in self._here_until(left, limit):
                done += 1
                yield played
                if perf_counter() - begin > _LOOK:
                    break
            plan = self._decide(perf_counter() - begin, wanted_cpu() - cpu, done, len(left))
        self.plan = plan
        if left:
            yield from self._on(plan, left)

    def _without_measuring(self, jobs: int) -> Plan | None:
        slots = current().workers_for(max(1, jobs))
        if self.plan.workers is not None or self.plan.isolate or self.deadline is not None:
            workers = self.plan.workers if self.plan.workers is not None else slots
            return replace(self.plan, backend="process", workers=max(1, workers), why="as asked")
        if jobs < 2:
            return self._chosen("inline", 1, "there is one episode to play: it is played here")
        if slots < 2:
            return self._chosen("inline", 1, "there is one CPU slot: episodes are played here, one after another")
        return None

    def _here_until(self, left: list[Job], limit: float) -> Iterator[Played]:
        """Plays here until it gets late; an episode that is not done by then is left to the others."""
        run = self.run
        if run.setting.call_deadline is None:
            run = run.with_agents({"auto": "off"})  # what an episode takes must not be lost in moving its agents
        with Pool([], seed=run.seed) as pool:
            while left and monotonic() < limit:
                play = partial(play_episode, run, give_up_at=limit)
                ((_, outcome),) = pool.stream(play, [left[0]], keys=[self.run.key(left[0])])
                if isinstance(outcome.error, TooLong):
                    return
                yield self._played(left.pop(0), outcome)

    def _decide(self, wall: float, cpu: float, done: int, left: int) -> Plan:
        if done == 0:
            share, each = 1.0 if cpu > wall * WAITS_BELOW else 0.0, wall
            took = f"an episode takes more than {each:.2f} s"
        else:
            share, each = min(1.0, cpu / max(wall, 1e-9)), wall / done
            took = f"an episode takes about {each * 1e3:.0f} ms"
        waits = share < WAITS_BELOW
        slots = current().slots
        workers = min(left, slots * (_WAITERS_PER_SLOT if waits else 1))
        gain = left * each * (1 - (1.0 if waits else TWO_CORES_ARE_NOT_TWICE_ONE) / max(1, workers)) - _STARTING
        if workers < 2 or (done and gain <= 0):
            return self._chosen("inline", 1, f"{took}, with {left} to go: starting workers would take longer")
        if (culprit := self._unsendable()) is not None:
            return self._chosen("inline", 1, f"{took}, with {left} to go; but {culprit}: played here")
        why = f"{took}{', most of it waiting' if waits else ''}, with {left} to go: {workers} processes"
        return self._chosen("process", workers, why)

    def _unsendable(self) -> str | None:
        try:
            wire.pack(self.run)
        except NotSendable as error:
            return str(error)
        return None

    def _chosen(self, backend: str, workers: int, why: str) -> Plan:
        return replace(self.plan, backend=backend, workers=workers, why=why)

    def _on(self, plan: Plan, jobs: list[Job]) -> Iterator[Played]:
        backend, workers = plan.backend, plan.workers
        if backend != "inline" and workers is None:
            workers = current().workers_for(len(jobs))
        workers = 1 if workers is None else max(1, min(workers, len(jobs)))
        pool = Pool([], backend=backend, workers=workers, seed=self.run.seed, restarts=self.restarts, trace=self.trace)
        with pool:
            keys = [self.run.key(job) for job in jobs]
            stream = pool.stream(partial(play_episode, self.run), jobs, keys=keys, deadline=self.deadline or math.inf)
            try:
                for number, outcome in stream:
                    yield self._played(jobs[number], outcome)
            finally:  # also if nobody wants the rest
                self.notes += [(event.text, event.text) for event in pool.events]

    def _played(self, job: Job, outcome: Outcome) -> Played:
        if outcome.error is None:
            episode, notes = outcome.answer
            return job, episode, notes
        seating = self.run.seating(job, len(self.seats[job.mission]))
        seats = {
            seat.agent: self.run.players[who].name for seat, who in zip(self.seats[job.mission], seating, strict=True)
        }
        return job, lost(self.run, job, seats, outcome.error), []
