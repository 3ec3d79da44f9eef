"""Cohorts: several episodes stepped together, so that their seats fill the rows of one forward pass.

    worlds, in workers ──► what everybody sees ──► one Team here, which owns the model ──► actions ──► worlds

Which episodes are together follows from their numbers, and a seat has the row that it would have had alone: the bits
are the same as one episode at a time. Where something goes wrong that several episodes share, a forward pass say, each
of them is played once more, alone: it fails there if it is the one to blame.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from paceline.engine import Plan, Pool, Trace
from paceline.engine.budget import current
from paceline.errors import BadInput
from paceline.evaluate.playing import Note, failure_of, finished
from paceline.evaluate.run import Job, Run
from paceline.evaluate.spread import Played, Spread
from paceline.rollout import Observations, Rollout
from paceline.team import Setting, Team
from paceline.team.minds import Chair
from paceline.types import Episode, Seat


class World:
    """A rollout as a member of a pool."""

    def __init__(self, run: Run, job: Job) -> None:
        self._rollout = Rollout(run.missions[job.mission], job.index, run.seed_of(job), device=run.device)
        replay = run.replay_of(job)
        if replay is not None:
            self._rollout.save_replay(replay, run.names(job, self._rollout.seats()))

    def reset(self) -> tuple[Observations, Episode | None]:
        """Begins. Returns what is seen, and the record if that was all."""
        return self._told(self._rollout.reset())

    def step(self, actions: dict[str, Any]) -> tuple[Observations, Episode | None]:
        """Plays one step."""
        return self._told(self._rollout.step(actions))

    def close(self) -> None:
        """Ends the environment."""
        self._rollout.close()

    def _told(self, observations: Observations) -> tuple[Observations, Episode | None]:
        return observations, self._rollout.episode if self._rollout.over else None


def cohorts(run: Run, jobs: Sequence[Job], seats: Sequence[Sequence[Seat]]) -> list[list[Job]]:
    """Who is stepped together: as many episodes of a mission as fill the lanes, by their numbers."""
    found: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        most = max(run.most(job.mission, len(seats[job.mission])))
        found.setdefault((job.mission, job.index // max(1, run.setting.lanes // most)), []).append(job)
    return list(found.values())


def play_in_cohorts(
    run: Run, plan: Plan, jobs: Sequence[Job], seats: Sequence[Sequence[Seat]], trace: Trace | None = None
) -> Iterator[Played]:
    """Plays all jobs, a cohort at a time."""
    for jobs_together in cohorts(run, jobs, seats):
        cohort = _Cohort(run, plan, jobs_together, seats[jobs_together[0].mission], trace)
        yield from cohort.play()
        # Each gets the notes of the cohort: it may be that nobody of it was played to the end together.
        yield from (
            (job, e, [*cohort.notes, *n])
            for job, e, n in Spread(run, Plan("inline", 1), seats, trace=trace).play(cohort.apart)
        )


class _Cohort:
    def __init__(self, run: Run, plan: Plan, jobs: list[Job], seats: Sequence[Seat], trace: Trace | None) -> None:
        self._run, self._plan, self._jobs, self._seats, self._trace = run, plan, jobs, seats, trace
        self._episodes = [self._blank(job) for job in jobs]
        self._seen: dict[int, Observations] = {}
        self.apart: list[Job] = []
        """Those that have to be played alone."""
        self.notes: list[Note] = []

    def play(self) -> list[Played]:
        begin = perf_counter()
        with self._pool() as pool, self._team() as team:
            self._take(pool.call("reset", outcomes=True))
            while self._seen:
                actions = self._ask(team)
                self._take(pool.call("step", {table: (mine,) for table, mine in actions.items()}, outcomes=True))
                for table in self._seen:
                    self._episodes[table].steps += 1
            self.notes += team.notes
            late: dict[Any, int] = dict(team.late)
        each = (perf_counter() - begin) / len(self._jobs)
        for (table, agent), count in late.items():
            self._episodes[table].late[agent] = count
        done = [finished(episode, job, each) for episode, job in zip(self._episodes, self._jobs, strict=True)]
        together = [pair for pair in zip(self._jobs, done, strict=True) if pair[0] not in self.apart]
        return [(job, episode, self.notes) for job, episode in together]

    def _pool(self) -> Pool:
        backend = "process" if self._plan.backend == "auto" else self._plan.backend
        workers = self._plan.workers if self._plan.workers is not None else current().workers_for(len(self._jobs))
        if self._plan.backend == "auto" and self._plan.workers is None:
            backend = "inline"  # a message per step pays only for dear environments, and nobody has said so
        return Pool(
            [partial(World, self._run, job) for job in self._jobs],
            backend=backend,
            workers=1 if backend == "inline" else min(workers, len(self._jobs)),
            seed=self._run.seed,
            keys=[("map", self._run.key(job)) for job in self._jobs],  # the streams of an episode that is mapped
            deadline=math.inf,
            failed_builds="keep",
            trace=self._trace,
        )

    def _team(self) -> Team:
        cast = self._run.cast(self._jobs[0].mission)
        chairs, most = [], self._run.most(self._jobs[0].mission, len(self._seats))
        for table, job in enumerate(self._jobs):
            for seat, who in zip(self._seats, self._run.seating(job, len(self._seats)), strict=True):
                chairs.append(Chair((table, seat.agent), self._run.key(job), seat, cast[who], most[who]))
        setting: Setting = self._run.setting_of(self._jobs[0].mission)
        return Team(chairs, setting, self._trace)

    def _ask(self, team: Team) -> dict[int, dict[str, Any]]:
        due = {(table, agent): obs for table, seen in self._seen.items() for agent, obs in seen.items()}
        try:
            answers, mishaps = team.ask(due)
        except BadInput:  # an environment has shown what its space does not declare: nobody could be asked
            answers, mishaps = {}, []
        for mishap in mishaps:
            table = mishap.chair.name[0]  # type: ignore[index]
            if table in self._seen and mishap.chair.player.declares("act_batch") is None:
                self._fail(table, mishap.error, mishap.agent, mishap.policy)
        for table in [t for t, seen in self._seen.items() if any((t, agent) not in answers for agent in seen)]:
            self.apart.append(self._jobs[table])
            del self._seen[table]
            name = self._episodes[table].name
            self.notes.append((f"apart {name}", f"{name} is played alone: a step that it shared with others failed"))
        return {table: {agent: answers[table, agent] for agent in seen} for table, seen in self._seen.items()}

    def _take(self, outcomes: dict[int, Any]) -> None:
        for table, outcome in outcomes.items():
            if outcome.error is not None:
                self._fail(table, outcome.error)
                continue
            seen, episode = outcome.answer
            self._seen[table] = seen
            if episode is not None:
                episode.seats = self._episodes[table].seats
                self._episodes[table] = episode
                del self._seen[table]

    def _fail(self, table: int, error: BaseException, agent: str = "", policy: str = "") -> None:
        episode = self._episodes[table]
        episode.failure = failure_of(error, agent, policy, episode.steps)
        self._seen.pop(table, None)

    def _blank(self, job: Job) -> Episode:
        name, index = self._run.key(job)
        return Episode(name, index, self._run.seed_of(job), seats=self._run.names(job, self._seats))
