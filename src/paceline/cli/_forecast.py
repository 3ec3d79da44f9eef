"""`--dry-run`: what would be played, where, for how long, and what would fail at once.

each mission: its first episode, for a few seconds ──► Tried ──► a table, or one JSON object ──► exit 0, or 2
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TextIO

from paceline.engine import TWO_CORES_ARE_NOT_TWICE_ONE, current_budget
from paceline.evaluate.driver import Evaluation
from paceline.evaluate.playing import play_episode
from paceline.evaluate.run import Job
from paceline.schedule import Patience, TooLong
from paceline.team import first_episodes
from paceline.types import Episode

_LOOK = 2.0  # seconds of a mission's first episode that are played to see what it takes
_GLANCE = 0.1  # … and of those in which somebody sits for the first time


@dataclass(frozen=True)
class Tried:
    """What was seen of a mission.

    Attributes:
        seconds: What an episode takes.
        more: Whether it takes longer than that: it was given up.
        failed: The episode that failed, if one did.
    """

    seconds: float
    more: bool
    failed: Episode | None


def forecast(evaluation: Evaluation, page: TextIO | None = None) -> int:
    """Tries every mission, and prints the plan; nothing is kept.

    Args:
        evaluation: What is planned.
        page: Where to print one JSON object; None: a table, for people.

    Returns:
        The exit code: 2 if something failed.
    """
    tried = [_try(evaluation, number) for number in range(len(evaluation.run.missions))]
    if page is not None:
        print(json.dumps(_as_dict(evaluation, tried)), file=page)
    else:
        _show(evaluation, tried)
    return 2 if any(each.failed is not None for each in tried) else 0


def _try(evaluation: Evaluation, number: int) -> Tried:
    """Plays the first episode, and as much of others as it takes for everybody to sit once."""
    first = first_episodes(evaluation.run.cast(number), len(evaluation.seats[number]))
    indices = sorted({0, *(index for index in first if index is not None and index < evaluation.run.episodes)})
    found = _an_episode(evaluation, Job(number, 0), _LOOK)
    for index in indices[1:]:
        if found.failed is None:
            found = Tried(found.seconds, found.more, _an_episode(evaluation, Job(number, index), _GLANCE).failed)
    return found


def _an_episode(evaluation: Evaluation, job: Job, seconds: float) -> Tried:
    begin = perf_counter()
    try:
        episode, _ = play_episode(evaluation.run, job, Patience(seconds))
    except TooLong:
        return Tried(perf_counter() - begin, True, None)
    return Tried(perf_counter() - begin, False, episode if episode.failure is not None else None)


# -- for people --------------------------------------------------------------------------------------------


def _show(evaluation: Evaluation, tried: list[Tried]) -> None:
    from paceline.cli._failures import own_frames, told
    from paceline.cli._tables import console, table

    run, page = evaluation.run, console()
    made = table("mission", "seats", "episodes", "an episode", "all of them")
    for mission, seats, each in zip(run.missions, evaluation.seats, tried, strict=True):
        sign = "> " if each.more else "~ "
        times = [f"{sign}{each.seconds:.2f} s", f"{sign}{each.seconds * run.episodes:.1f} s"]
        made.add_row(
            mission.name, str(len(seats)), str(run.episodes), *(times if each.failed is None else ["fails", "–"])
        )
    page.print(made)
    page.print()
    for number, mission in enumerate(run.missions):
        page.print(f"{mission.name}: {_who(evaluation, number)}")
    for note in evaluation.notes:
        page.print(f"note: {note}")
    page.print(_where(evaluation, sum(each.seconds for each in tried) * run.episodes))
    for each in tried:
        if each.failed is not None and each.failed.failure is not None:
            print(f"error: {told(each.failed)}", own_frames(each.failed.failure.traceback), sep="\n", file=sys.stderr)


def _who(evaluation: Evaluation, number: int) -> str:
    seating = evaluation.run.names(Job(number, 0), evaluation.seats[number])
    found: dict[str, list[str]] = {}
    for agent, policy in seating.items():
        found.setdefault(policy, []).append(agent)
    parts = [f"{policy} plays {len(agents)} of {len(seating)} seats" for policy, agents in found.items()]
    return f"{', '.join(parts)}; in episode 0: {', '.join(f'{a[0]} … {p}' for p, a in found.items())}"


def _where(evaluation: Evaluation, total: float) -> str:
    plan: Any = evaluation.plan
    jobs = evaluation.run.planned
    workers = _workers(evaluation)
    alone = f"{jobs} episodes, about {total:.1f} s one after another"
    if plan.backend == "inline" or workers < 2:
        return f"{alone}, here"
    together = total / min(workers, jobs, current_budget().slots) * TWO_CORES_ARE_NOT_TWICE_ONE
    auto = "auto decides after the first 0.1 s; with " if plan.backend == "auto" else ""
    why = f" ({plan.why})" if plan.why != "as asked" else ""
    return f"{alone}; {auto}{workers} workers{why} about {together:.1f} s, agents {evaluation.run.setting.agents}"


def _workers(evaluation: Evaluation) -> int:
    workers = evaluation.plan.workers
    return workers if workers is not None else current_budget().workers_for(evaluation.run.planned)


# -- for programs ------------------------------------------------------------------------------------------


def _as_dict(evaluation: Evaluation, tried: list[Tried]) -> dict[str, Any]:
    run, plan = evaluation.run, evaluation.plan
    return {
        "dry_run": True,
        "run": run.identity(),
        "planned": run.planned,
        "seconds": round(sum(each.seconds for each in tried) * run.episodes, 3),
        "missions": [_mission(evaluation, number, each) for number, each in enumerate(tried)],
        "plan": {
            "backend": plan.backend,
            "workers": _workers(evaluation) if plan.backend != "inline" else 1,
            "why": plan.why,
            "agents": run.setting.agents,
        },
        "notes": evaluation.notes,
    }


def _mission(evaluation: Evaluation, number: int, tried: Tried) -> dict[str, Any]:
    failure = tried.failed.failure if tried.failed is not None else None
    return {
        "name": evaluation.run.missions[number].name,
        "seats": evaluation.run.names(Job(number, 0), evaluation.seats[number]),
        "episode_seconds": round(tried.seconds, 3),
        "takes_longer": tried.more,
        "failure": None if failure is None else vars(failure),
    }
