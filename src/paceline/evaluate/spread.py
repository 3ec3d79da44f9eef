"""Spread: the episodes of a run as items of a schedule, wave by wave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from paceline.engine import Plan, Pool, Trace, fits
from paceline.evaluate.playing import Played, lost, play_episode
from paceline.evaluate.run import Job, Run
from paceline.schedule import Schedule
from paceline.types import Seat


def schedule_of(
    run: Run,
    plan: Plan,
    seats: Sequence[Sequence[Seat]],
    *,
    deadline: float | None = None,
    restarts: int = 3,
    trace: Trace | None = None,
    levels: Sequence[str] = ("missions", "episodes"),
    here: Pool | None = None,
) -> Schedule[Job, Played]:
    """The schedule of a run.

    Args:
        run: What is played.
        plan: Where.
        seats: The seats of each mission, as the survey found them.
        deadline: Seconds that an episode may take before its worker is killed; None: as long as it likes.
        restarts: How often an episode that kills its worker is tried.
        trace: Records where the time goes.
        levels: What may run side by side: "missions", "episodes", or both.
        here: The pool of this process, with the policies and environments that live here between episodes.
    """
    # What an episode takes must not be lost in moving its agents.
    measured = run.with_agents({"auto": "off"}) if run.setting.call_deadline is None else run
    return Schedule(
        partial(play_episode, run),
        run.key,
        lambda job, error: (lost(run, job, run.names(job, seats[job.mission]), error), []),
        plan,
        run.seed,
        partial(play_episode, measured),
        waves=partial(waves, levels=levels),
        width=(len(run.missions) if "missions" in levels else 1) * (run.episodes if "episodes" in levels else 1),
        is_result=partial(_is_record, run),
        deadline=deadline,
        restarts=restarts,
        trace=trace,
        here=here,
    )


def _is_record(run: Run, job: Job, answer: Any) -> bool:
    return fits(answer, Played) and (answer[0].mission, answer[0].index) == run.key(job)


def waves(jobs: Iterable[Job], levels: Sequence[str]) -> Iterator[Iterator[Job]]:
    """Cuts jobs, which come in the order of the plan or `by_episode`, into waves: one is played after another.

    Without "missions" a wave is a mission; without "episodes" it is an episode of each mission; without both, one job.
    """
    for _, wave in groupby(jobs, lambda job: ("missions" in levels or job.mission, "episodes" in levels or job.index)):
        yield wave


def by_episode(levels: Sequence[str]) -> bool:
    """Whether a wave is an episode of each mission, so that jobs are begun in that order."""
    return "missions" in levels and "episodes" not in levels
