"""Cohorts: which episodes of an evaluation are stepped together, by their numbers; `lockstep` plays them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from time import perf_counter
from typing import Any

from paceline.engine import Plan, Pool, Trace
from paceline.evaluate.playing import Played, finished, rollout_of
from paceline.evaluate.run import Job, Run
from paceline.evaluate.spread import schedule_of
from paceline.lockstep import Survivors, Worlds
from paceline.rollout import play
from paceline.schedule import Note
from paceline.team import Chair, Team
from paceline.types import Episode, Seat


def cohorts(run: Run, jobs: Iterable[Job], seats: Sequence[Sequence[Seat]]) -> Iterator[list[Job]]:
    """Which jobs, in the order of the plan, are stepped together: as many episodes of a mission as fill the lanes, by
    their numbers."""
    together = [max(1, run.setting.lanes // max(run.most(number, len(each)))) for number, each in enumerate(seats)]
    for _, cohort in groupby(jobs, lambda job: (job.mission, job.index // together[job.mission])):
        yield list(cohort)


def play_in_cohorts(
    run: Run,
    plan: Plan,
    jobs: Iterable[Job],
    seats: Sequence[Sequence[Seat]],
    trace: Trace | None = None,
    here: Pool | None = None,
) -> Iterator[tuple[Job, Played]]:
    """Plays all jobs, a cohort at a time; those that a shared step has failed for are played again, alone."""
    for together in cohorts(run, jobs, seats):
        played, apart, notes = _play_cohort(run, plan, together, seats[together[0].mission], trace)
        yield from played
        with schedule_of(run, Plan("inline", 1), seats, trace=trace, here=here) as alone:
            # Each gets the notes of the cohort: it may be that none of it was played to the end together.
            yield from ((job, (episode, [*notes, *more])) for job, (episode, more) in alone.run(apart, len(apart)))


def _play_cohort(
    run: Run, plan: Plan, jobs: Sequence[Job], seats: Sequence[Seat], trace: Trace | None
) -> tuple[list[tuple[Job, Played]], list[Job], list[Note]]:
    """Returns what was played, the jobs that must be played alone, and what there is to tell."""
    begin = perf_counter()
    makers, keys = [partial(rollout_of, run, job) for job in jobs], [run.key(job) for job in jobs]
    blank = [Episode(*run.key(job), run.seed_of(job), seats=run.names(job, seats)) for job in jobs]
    told = any(player.is_told for player in run.cast(jobs[0].mission))
    worlds = Worlds(makers, keys, blank, plan, run.seed, outcomes=told, trace=trace)
    with worlds, _team(run, jobs, seats, trace) as team:
        episodes = play(worlds, Survivors(team, worlds), [run.seed_of(job) for job in jobs])
        notes, late = list(team.notes), dict[Any, int](team.late)
    each = (perf_counter() - begin) / len(jobs)
    for (table, agent), count in late.items():
        episodes[table].late[agent] = count
    for table in sorted(worlds.apart):
        name = episodes[table].name
        notes.append((f"apart {name}", f"{name} is played alone: a step that it shared with others failed"))
    done = [(job, (finished(e, job, each), notes)) for job, e in zip(jobs, episodes, strict=True)]
    together = [each_done for table, each_done in enumerate(done) if table not in worlds.apart]
    return together, [jobs[table] for table in sorted(worlds.apart)], notes


def _team(run: Run, jobs: Sequence[Job], seats: Sequence[Seat], trace: Trace | None) -> Team:
    cast, most = run.cast(jobs[0].mission), run.most(jobs[0].mission, len(seats))
    chairs = [
        Chair((table, seat.agent), run.key(job), seat, cast[who], most[who])
        for table, job in enumerate(jobs)
        for seat, who in zip(seats, run.seating(job, len(seats)), strict=True)
    ]
    return Team(chairs, run.setting_of(jobs[0].mission), trace)
