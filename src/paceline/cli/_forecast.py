"""`--dry-run`: what would be played, where, and for how long."""

from __future__ import annotations

from time import monotonic, perf_counter
from typing import Any

from paceline.engine.budget import current
from paceline.engine.plan import TWO_CORES_ARE_NOT_TWICE_ONE
from paceline.evaluate.driver import Evaluation
from paceline.evaluate.playing import TooLong, play_episode
from paceline.evaluate.run import Job

_LOOK = 2.0  # seconds of a mission's first episode that are played to see what it takes


def forecast(evaluation: Evaluation) -> int:
    """Prints the plan; nothing is kept."""
    from paceline.cli._tables import console, table

    run, page = evaluation.run, console()
    made = table("mission", "seats", "episodes", "an episode", "all of them")
    total = 0.0
    for number, mission in enumerate(run.missions):
        seconds, more = _an_episode(evaluation, number)
        total += seconds * run.episodes
        sign = "> " if more else "~ "
        seats = str(len(evaluation.seats[number]))
        made.add_row(
            mission.name, seats, str(run.episodes), f"{sign}{seconds:.2f} s", f"{sign}{seconds * run.episodes:.1f} s"
        )
    page.print(made)
    page.print()
    for number, mission in enumerate(run.missions):
        page.print(f"{mission.name}: {_who(evaluation, number)}")
    page.print(_where(evaluation, total))
    return 0


def _an_episode(evaluation: Evaluation, number: int) -> tuple[float, bool]:
    begin = perf_counter()
    try:
        play_episode(evaluation.run, Job(number, 0), give_up_at=monotonic() + _LOOK)
    except TooLong:
        return perf_counter() - begin, True
    return perf_counter() - begin, False


def _who(evaluation: Evaluation, number: int) -> str:
    run = evaluation.run
    seating = run.seating(Job(number, 0), len(evaluation.seats[number]))
    found: dict[str, list[str]] = {}
    for seat, who in zip(evaluation.seats[number], seating, strict=True):
        found.setdefault(run.players[who].name, []).append(seat.agent)
    parts = [f"{policy} plays {len(agents)} of {len(seating)} seats" for policy, agents in found.items()]
    return f"{', '.join(parts)}; in episode 0: {', '.join(f'{a[0]} … {p}' for p, a in found.items())}"


def _where(evaluation: Evaluation, total: float) -> str:
    plan: Any = evaluation.plan
    jobs = len(evaluation.run.jobs())
    workers = plan.workers if plan.workers is not None else current().workers_for(jobs)
    alone = f"{jobs} episodes, about {total:.1f} s one after another"
    if plan.backend == "inline" or workers < 2:
        return f"{alone}, here"
    together = total / min(workers, jobs, current().slots) * TWO_CORES_ARE_NOT_TWICE_ONE
    auto = "auto decides after the first 0.1 s; with " if plan.backend == "auto" else ""
    return f"{alone}; {auto}{workers} workers about {together:.1f} s, agents {evaluation.run.setting.agents}"
