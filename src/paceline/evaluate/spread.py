"""Spread: the episodes of a run over workers, from one budget; results as they come.

jobs ── auto: the first ones here, to see what they take ──► here, or a Pool of workers ──► (job, Episode, notes)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from paceline.engine import Outcome, Plan, Pool, Trace, wire
from paceline.engine.budget import current
from paceline.engine.plan import TWO_CORES_ARE_NOT_TWICE_ONE, WAITS_BELOW
from paceline.errors import NotSendable
from paceline.evaluate.playing import Note, Patience, TooLong, in_words, lost, play_episode
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
        levels: What may run side by side: "missions", "episodes", or both.
        notes: What happened to workers.
    """

    run: Run
    plan: Plan
    seats: Sequence[Sequence[Seat]]
    deadline: float | None = None
    restarts: int = 3
    trace: Trace | None = None
    levels: Sequence[str] = ("missions", "episodes")
    notes: list[Note] = field(default_factory=list)

    def play(self, jobs: Sequence[Job]) -> Iterator[Played]:
        """Plays all of them; gives each when it has ended."""
        if self.plan.backend != "auto":
            yield from self._on(self.plan, list(jobs))
            return
        left = list(jobs)
        width = max((len(wave) for wave in waves(left, self.levels)), default=0)
        plan = self._without_measuring(width)
        if plan is None:
            patience, took = Patience(max(0.25, 1.0 / len(left))), list[float]()
            for played in self._here_until(left, patience, took):
                yield played
                if patience.wall > _LOOK:
                    break
            width = max((len(wave) for wave in waves(left, self.levels)), default=0)
            plan = self._decide(patience, took, len(jobs) - len(left), len(left), width)
        self.plan = plan
        if left:
            yield from self._on(plan, left)

    def _without_measuring(self, jobs: int) -> Plan | None:
        slots = current().workers_for(max(1, jobs))
        if self.plan.workers is not None or self.plan.isolate or self.deadline is not None:
            workers = self.plan.workers if self.plan.workers is not None else slots
            return replace(self.plan, backend="process", workers=max(1, workers))
        if jobs < 2:
            return self._chosen("inline", 1, "there is one episode to play at a time: it is played here")
        if slots < 2:
            return self._chosen("inline", 1, "there is one CPU slot: episodes are played here, one after another")
        return None

    def _here_until(self, left: list[Job], patience: Patience, took: list[float]) -> Iterator[Played]:
        """Plays here until it gets late; an episode that is not done by then is left to the others."""
        run = self.run
        if run.setting.call_deadline is None:
            run = run.with_agents({"auto": "off"})  # what an episode takes must not be lost in moving its agents
        with Pool([], seed=run.seed) as pool:
            while left and not patience.over:
                play, begin = partial(play_episode, run, patience=patience), patience.wall
                ((_, outcome),) = pool.stream(play, [left[0]], keys=[self.run.key(left[0])])
                took.append(patience.wall - begin)
                if isinstance(outcome.error, TooLong):
                    return
                yield self._played(left.pop(0), outcome)

    def _decide(self, patience: Patience, took_each: list[float], done: int, left: int, width: int) -> Plan:
        share, each = min(1.0, patience.cpu / max(patience.wall, 1e-9)), _cost(took_each)
        took = f"an episode takes about {each * 1e3:.0f} ms" if done else f"an episode takes more than {each:.2f} s"
        if left == 0:
            return self._chosen("inline", 1, f"{took}: all were played before workers could have been of use")
        waits = share < WAITS_BELOW
        slots = current().slots
        workers = min(width, slots * (_WAITERS_PER_SLOT if waits else 1))
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
            try:
                for wave in waves(jobs, self.levels):
                    keys = [self.run.key(job) for job in wave]
                    play, deadline = partial(play_episode, self.run), self.deadline or math.inf
                    for number, outcome in pool.stream(play, wave, keys=keys, deadline=deadline):
                        yield self._played(wave[number], outcome)
            finally:  # also if nobody wants the rest
                texts = [in_words(event.text) for event in pool.events]
                self.notes += [(text, text) for text in texts]

    def _played(self, job: Job, outcome: Outcome) -> Played:
        if outcome.error is None:
            episode, notes = outcome.answer
            return job, episode, notes
        return job, lost(self.run, job, self.run.names(job, self.seats[job.mission]), outcome.error), []


def waves(jobs: Sequence[Job], levels: Sequence[str]) -> list[list[Job]]:
    """The jobs in the order in which they are begun: those of a wave side by side, waves one after another.

    Without "missions" a wave is a mission; without "episodes" it is an episode of each mission; without both, one job.
    """
    found: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        key = (0 if "missions" in levels else job.mission, 0 if "episodes" in levels else job.index)
        found.setdefault(key, []).append(job)
    return [found[key] for key in sorted(found)]


def _cost(took: Sequence[float]) -> float:
    """What an episode takes. The first is not asked if there is another: its clock started after it was built, and the
    next ones may have to be built just so."""
    later = took[1:] or took
    return sum(later) / len(later)
