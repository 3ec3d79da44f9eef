"""Reruns: an episode of a run played again, and what of its record is not as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from paceline.engine import Plan, Pool, check_sendable, temporary_directory
from paceline.errors import BadInput
from paceline.evaluate.playing import apart, play_episode, survey, understood
from paceline.evaluate.report import plain
from paceline.evaluate.run import Job, Run
from paceline.evaluate.spread import schedule_of
from paceline.evaluate.store import read_episodes
from paceline.types import Episode, typed_name

_OF_ONE_PLAY = ("tries", "seconds", "late", "replay")
"""What follows from the clock, or from where it was played; another play may have it otherwise."""
_FAILED = ("kind", "agent", "policy", "step")  # texts may hold addresses


def play_here(run: Run, job: Job, plan: Plan | None = None) -> Episode:
    """Plays one episode in this process; in another, if the plan trusts it with data only."""
    with apart(plan or Plan(), run.seed) as pool:
        ((_, outcome),) = pool.stream(partial(play_episode, run.here()), [job], keys=[run.key(job)], deadline=math.inf)
    if outcome.error is not None:
        raise outcome.error
    episode: Episode = outcome.answer[0]
    return episode


def play_apart(run: Run, job: Job, deadline: float | None) -> Episode:
    """Plays one episode once, in a worker, which may die of it or be killed for it.

    Args:
        run: What it belongs to.
        job: Which episode.
        deadline: Seconds that it may take; None: as long as it likes.

    Raises:
        NotSendable: the run cannot be sent to a worker.
        BadInput: the mission or a policy cannot be built.
    """
    check_sendable(run)
    with temporary_directory() as boxes:
        run = run.with_blackbox(boxes)
        with Pool([], seed=run.seed, backend="process", workers=1) as pool:
            found = survey(run, pool, deadline=math.inf if deadline is None else deadline)
        run, seats = run.with_found([each for _, each in found]), [seats for seats, _ in found]
        with schedule_of(run, Plan("process", 1), seats, deadline=deadline, restarts=1) as schedule:
            ((_, (episode, _)),) = schedule.run([job], 1)
    return episode


def rerun(
    run: Run, out: Path, name: str, deadline: float | None = None, *, here: bool = False
) -> tuple[Episode, Episode]:
    """Plays one episode of a run again, in a worker. Returns the record on disk and the new one.

    Args:
        run: The run, as it was.
        out: Where its results are.
        name: MISSION/EPISODE.
        deadline: Seconds that the episode may take; None: as long as it likes.
        here: Whether it is played in this process instead, which dies and hangs with it.

    Raises:
        BadInput: the run has no such episode.
        NotSendable: the run cannot be sent to a worker.
    """
    mission, slash, number = name.rpartition("/")
    known = read_episodes(out)
    mission = next((full for full, _ in known if mission in (full, typed_name(full))), mission)
    if not slash or not number.isdigit() or (mission, int(number)) not in known:
        some = ", ".join(f"{m}/{i}" for m, i in list(known)[:5])
        raise BadInput(f"{out} has no episode {name!r}; write MISSION/EPISODE, one of {some} …")
    if mission not in {each.name for each in run.missions} or int(number) >= run.episodes:
        raise BadInput(f"{out} is damaged: {name} is on disk, and its plan.json does not ask for it")
    job = run.job(mission, int(number))
    return known[run.key(job)], play_here(understood(run), job) if here else play_apart(run, job, deadline)


def unlike(before: Episode, now: Episode) -> list[str]:
    """What of two records of an episode is not the same, in words; nothing: they are the same."""
    return list(_differences(_record(before), _record(now)))


def _record(episode: Episode) -> dict[str, Any]:
    found = {name: value for name, value in asdict(episode).items() if name not in _OF_ONE_PLAY}
    if episode.failure is not None:
        # What was counted before it failed depends on where it was noticed.
        found = {name: found[name] for name in ("mission", "index", "seed", "seats", "digest")}
        found["failure"] = {name: getattr(episode.failure, name) for name in _FAILED}
    as_read: dict[str, Any] = json.loads(json.dumps(plain(found)))
    return as_read


def _differences(before: Any, now: Any, name: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {**before, **now}:
            yield from _differences(before.get(key), now.get(key), f"{name} {key}".lstrip())
    elif before != now:
        yield f"{name} was {before!r}, and is {now!r}"
