"""Some rollouts of a collection, played by one worker with its own copy of the policy.

chunk ── together, lanes filled ──► recordings
      └─ alone, each under streams of its own: if one has drawn from process-wide generators, or raised
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from paceline.collect.jobs import Job, Spec
from paceline.collect.lanes import Columns, Crew, Here, Lane, Lanes, Team, queues_of
from paceline.engine import Pool, data_record, draws_of, kept
from paceline.rollout import play
from paceline.schedule import Impatient, Patience, TooLong
from paceline.seeds import digest
from paceline.team import LocalTeam, Setting
from paceline.types import Failure, Seat

_FIRST = -1  # the lane that is asked who sits there, before it has a row
_ROOM = 64  # rows that a tape gets at first, where no horizon says how many it will have


@dataclass
class Played:
    """A rollout as it was played.

    Attributes:
        index: Its number.
        columns: Agent → name → rows, as `tape.Track` gives them.
        seconds: Wall time, shared with its neighbours.
        failure: Why there are no columns, if there are none.
    """

    index: int
    columns: Columns = field(default_factory=dict)
    seconds: float = 0.0
    failure: Failure | None = None


@dataclass
class Chunk:
    """What a worker gives back.

    Attributes:
        played: The rollouts.
        seconds: Wall time.
        building: Seconds of it in which environments were built.
        worker: The process.
        draws: Which process-wide generators were drawn from, if any: those rollouts were played one at a time.
    """

    played: list[Played]
    seconds: float = 0.0
    building: float = 0.0
    worker: int = 0
    draws: tuple[str, ...] = ()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while rollouts were played in this process.

    Args:
        played: Those that were finished.
    """

    def __init__(self, played: Sequence[Played]) -> None:
        super().__init__()
        self.played = list(played)


data_record(Failure)
data_record(Played)
data_record(Chunk)


def play_chunk(spec: Spec, jobs: Sequence[Job], patience: Patience | None = None) -> Chunk:
    """Plays some rollouts, and never raises what an environment or a policy raises: it becomes a `Failure`.

    Raises:
        TooLong: patience was over.
    """
    begin = perf_counter()
    known = kept(("draws", *_recipes(spec)), dict[str, tuple[str, ...]])
    chunk = Chunk([], worker=os.getpid(), draws=known.get("draws", ()))
    if not chunk.draws:
        try:
            with draws_of() as drawn:
                chunk.played, chunk.building = _together(spec, jobs, patience)
            chunk.draws = drawn()
        except TooLong:
            raise
        except Interrupted as interrupt:
            interrupt.played = [] if drawn() else interrupt.played  # what has drawn is to be played alone
            raise
        except Exception:  # who is to blame is found out alone
            chunk.played = []
    if chunk.draws or not chunk.played:
        if chunk.draws:
            known["draws"] = chunk.draws
        chunk.played, chunk.building = _alone(spec, jobs)
    chunk.seconds = perf_counter() - begin
    return chunk


def _recipes(spec: Spec) -> tuple[str, str]:
    return spec.mission.recipe or "", spec.player.recipe or ""


def _together(spec: Spec, jobs: Sequence[Job], patience: Patience | None = None) -> tuple[list[Played], float]:
    lanes = {_FIRST: Lane(spec)}
    try:
        seats = lanes[_FIRST].seats()
        queues = queues_of(jobs, spec.side_by_side(len(seats)))
        for row in queues:
            lanes[row] = lanes.pop(_FIRST) if _FIRST in lanes else Lane(spec)
        world = Lanes(Here(lanes), queues)
        with LocalTeam(chairs_of(spec, queues, seats), Setting(seed=spec.seed, lanes=spec.lanes)) as team:
            crew = crew_of(spec, world, team, seats)
            played = play_through(world, crew, jobs, patience)
        building = sum(each.building() for each in lanes.values())
    finally:
        for each in lanes.values():
            each.close()
    return played, building


def play_through(world: Lanes, crew: Crew, jobs: Sequence[Job], patience: Patience | None = None) -> list[Played]:
    """Plays all rollouts of the lanes.

    Raises:
        Interrupted: Ctrl-C; it has those that were finished.
        TooLong: patience was over.
    """
    try:
        play(world, crew if patience is None else Impatient(crew, patience), None, None, crew.tape)
    except KeyboardInterrupt as interrupt:
        finished = [Played(index, *filed) for index, filed in crew.filed.items()]
        raise Interrupted(finished) from interrupt
    crew.turn()
    return [Played(job.index, *crew.filed[job.index]) for job in jobs]


def chairs_of(spec: Spec, queues: dict[int, list[Job]], seats: Sequence[Seat]) -> list[Any]:
    """The chairs of all lanes, in their first rollouts."""
    return [
        spec.chair((lane, seat.agent), jobs[0], seat, len(seats)) for lane, jobs in queues.items() for seat in seats
    ]


def crew_of(spec: Spec, lanes: Lanes, team: Team, seats: Sequence[Seat]) -> Crew:
    """The mind half of the loop."""
    room = _ROOM if spec.mission.steps is None else spec.mission.steps * spec.episodes
    return Crew(spec, lanes, team, seats, room)


def _alone(spec: Spec, jobs: Sequence[Job]) -> tuple[list[Played], float]:
    """Each rollout for itself, as an item with random streams of its own."""
    with Pool([], seed=spec.seed) as pool:
        outcomes = pool.map(partial(_one, spec), jobs, keys=[job.key for job in jobs], outcomes=True)
    played = [
        outcome.answer[0][0] if outcome.ok else Played(job.index, failure=Failure.of(outcome.error))
        for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    return played, sum(outcome.answer[1] for outcome in outcomes if outcome.ok)


def _one(spec: Spec, job: Job) -> tuple[list[Played], float]:
    return _together(spec, [job])


def digest_of(jobs: Sequence[Job], played: Sequence[Played]) -> str:
    """The digest of a collection: what was asked and what came of it, rollout by rollout."""
    return digest([_asked_and_played(job, each) for job, each in zip(jobs, played, strict=True)])


def rollout_digest(job: Job, played: Played) -> str:
    """The digest of one rollout."""
    return digest(_asked_and_played(job, played))


def _asked_and_played(job: Job, played: Played) -> list[Any]:
    task = None if job.task is None else [job.task.key, dict(job.task.options)]
    return [job.index, task, _content(played)]


def _content(played: Played) -> Any:
    return played.columns if played.failure is None else ["failed", played.failure.kind]
