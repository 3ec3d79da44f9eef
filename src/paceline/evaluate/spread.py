"""Spread: the episodes of a run as items of a schedule, wave by wave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
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
        is_result=partial(_is_record, run),
        deadline=deadline,
        restarts=restarts,
        trace=trace,
        here=here,
    )


def _is_record(run: Run, job: Job, answer: Any) -> bool:
    return fits(answer, Played) and (answer[0].mission, answer[0].index) == run.key(job)


def waves(jobs: Sequence[Job], levels: Sequence[str]) -> list[list[Job]]:
    """The jobs in the order in which they are begun: those of a wave side by side, waves one after another.

    Without "missions" a wave is a mission; without "episodes" it is an episode of each mission; without both, one job.
    """
    found: dict[tuple[int, int], list[Job]] = {}
    for job in jobs:
        key = (0 if "missions" in levels else job.mission, 0 if "episodes" in levels else job.index)
        found.setdefault(key, []).append(job)
    return [found[key] for key in sorted(found)]
