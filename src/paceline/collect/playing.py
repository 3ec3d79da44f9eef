"""Some rollouts of a collection, played by one worker with its own copy of the policy.

chunk ── together, lanes filled ──► recordings
      └─ alone, each under streams of its own: those in play when one raised; all, if one has drawn from
         process-wide generators
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

from paceline.collect.clock import Clock, this_worker
from paceline.collect.jobs import Job, Spec
from paceline.collect.lanes import Columns, Crew, Here, Lane, Lanes, Team, queues_of
from paceline.engine import Pool, data_record, draws_of, kept
from paceline.lasting import LASTING
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
        clock: Where the time went.
        busy: Worker → seconds in which it played.
        draws: Which process-wide generators were drawn from, if any: those rollouts were played one at a time.
        unclosed: What `close()` of an environment raised, in words; empty: none did.
        lasting: What changed in play that belongs to the process, in words.
    """

    played: list[Played]
    clock: Clock = field(default_factory=Clock)
    busy: dict[int, float] = field(default_factory=dict)
    draws: tuple[str, ...] = ()
    unclosed: str = ""
    lasting: tuple[str, ...] = ()


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while rollouts were played in this process.

    Args:
        played: Those that were finished.
    """

    def __init__(self, played: Sequence[Played]) -> None:
        super().__init__()
        self.played = list(played)


class Drew(Exception):
    """Something drew from process-wide generators where it has no streams of its own."""


class Broken(Exception):
    """Something raised while rollouts were played together: its cause.

    Args:
        finished: The rollouts that had ended before.
        suspects: Those that were in play.
    """

    def __init__(self, finished: Sequence[Played], suspects: Sequence[Job]) -> None:
        super().__init__()
        self.finished, self.suspects = list(finished), list(suspects)


data_record(Failure)
data_record(Played)
data_record(Chunk)


def play_chunk(spec: Spec, jobs: Sequence[Job], patience: Patience | None = None, clock: Clock | None = None) -> Chunk:
    """Plays some rollouts, and never raises what an environment or a policy raises: it becomes a `Failure`.

    Args:
        spec: What is collected.
        jobs: The rollouts.
        patience: How long it may take; None: as long as it likes.
        clock: Is told where the time goes, also if patience is over; None: a new one.

    Raises:
        TooLong: patience was over.
    """
    begin = perf_counter()
    known = kept(("draws", *_recipes(spec)), dict[str, tuple[str, ...]])
    chunk = Chunk([], Clock() if clock is None else clock, draws=known.get("draws", ()))
    if not chunk.draws:
        together, alone = partial(_together, spec, chunk, patience), partial(_alone, spec, chunk)
        try:
            with draws_of() as drawn:
                chunk.played = play_all(jobs, together, alone)
            chunk.draws = drawn()
        except Interrupted as interrupt:
            interrupt.played = [] if drawn() else interrupt.played  # what has drawn is to be played alone
            raise
    if chunk.draws:
        known["draws"] = chunk.draws
        chunk.played = _alone(spec, chunk, jobs)
    chunk.clock.wall += perf_counter() - begin
    chunk.busy[this_worker()], chunk.lasting = chunk.clock.wall, tuple(LASTING.news())
    return chunk


def _recipes(spec: Spec) -> tuple[str, str]:
    return spec.mission.recipe or "", spec.player.recipe or ""


def play_all(
    jobs: Sequence[Job],
    together: Callable[[Sequence[Job]], list[Played]],
    alone: Callable[[Sequence[Job]], list[Played]],
) -> list[Played]:
    """Plays rollouts together; those that were in play when something raised are played alone, to see which it was.

    Args:
        jobs: The rollouts.
        together: Plays some side by side.
        alone: Plays some one by one, and gives failures for those that raise.

    Raises:
        Interrupted: Ctrl-C; it has those that were finished.
        TooLong: patience was over.
    """
    left, played = list(jobs), list[Played]()
    try:
        while left:
            try:
                return played + together(left)
            except (TooLong, Drew):
                raise
            except Broken as broken:
                played += broken.finished
                played += alone(broken.suspects)
            except Exception:  # before any of them had begun
                played += alone(left)
            done = {each.index for each in played}
            left = [job for job in left if job.index not in done]
    except KeyboardInterrupt as interrupt:
        raise Interrupted([*played, *getattr(interrupt, "played", ())]) from interrupt
    return played


def _together(spec: Spec, chunk: Chunk, patience: Patience | None, jobs: Sequence[Job]) -> list[Played]:
    """Plays rollouts side by side; notes in the chunk where the time went, and what closing raised."""
    lanes, clock = {_FIRST: Lane(spec)}, chunk.clock
    try:
        seats = lanes[_FIRST].seats()
        queues = queues_of(jobs, spec.side_by_side())
        for row in queues:
            lanes[row] = lanes.pop(_FIRST) if _FIRST in lanes else Lane(spec)
        return play_through(spec, Lanes(Here(lanes), queues, clock), seats, jobs, clock, patience)
    finally:
        clock.building += sum(each.building() for each in lanes.values())
        for each in lanes.values():
            each.end()
            chunk.unclosed = chunk.unclosed or each.unclosed


def play_through(
    spec: Spec,
    world: Lanes,
    seats: Sequence[Seat],
    jobs: Sequence[Job],
    clock: Clock,
    patience: Patience | None = None,
) -> list[Played]:
    """Plays all rollouts of the lanes, with a copy of the policy in this process.

    Raises:
        Interrupted: Ctrl-C; it has those that were finished.
        Broken: An environment or the policy raised.
        TooLong: patience was over.
    """
    begin = perf_counter()
    with LocalTeam(_chairs_of(spec, world, seats), Setting(seed=spec.seed, lanes=spec.lanes)) as team:
        clock.seating += perf_counter() - begin
        crew = _crew_of(spec, world, team, seats, clock)
        try:
            play(world, crew if patience is None else Impatient(crew, patience), None, None, crew.tape)
        except KeyboardInterrupt as interrupt:
            raise Interrupted(_filed(crew)) from interrupt
        except TooLong:
            raise
        except Exception as error:
            raise Broken(_filed(crew), [*world.playing.values()] or jobs) from error
        crew.turn()
    return [Played(job.index, *crew.filed[job.index]) for job in jobs]


def _filed(crew: Crew) -> list[Played]:
    return [Played(index, *filed) for index, filed in crew.filed.items()]


def _chairs_of(spec: Spec, world: Lanes, seats: Sequence[Seat]) -> list[Any]:
    """The chairs of all lanes, in their first rollouts."""
    return [
        spec.chair((lane, seat.agent), job, seat, len(seats)) for lane, job in world.first.items() for seat in seats
    ]


def _crew_of(spec: Spec, lanes: Lanes, team: Team, seats: Sequence[Seat], clock: Clock) -> Crew:
    """The mind half of the loop."""
    room = _ROOM if spec.mission.steps is None else spec.mission.steps * spec.episodes
    return Crew(spec, lanes, team, seats, room, clock)


def _alone(spec: Spec, chunk: Chunk, jobs: Sequence[Job]) -> list[Played]:
    """Each rollout for itself, as an item with random streams of its own."""
    with Pool([], seed=spec.seed) as pool:
        outcomes = pool.map(partial(_one, spec), jobs, keys=[job.key for job in jobs], outcomes=True)
    for outcome in outcomes:
        if outcome.ok:
            chunk.clock.include(outcome.answer.clock)
            chunk.unclosed = chunk.unclosed or outcome.answer.unclosed
    return [
        outcome.answer.played[0] if outcome.ok else Played(job.index, failure=failure_of(outcome.error))
        for job, outcome in zip(jobs, outcomes, strict=True)
    ]


def _one(spec: Spec, job: Job) -> Chunk:
    chunk = Chunk([])
    chunk.played = _together(spec, chunk, None, [job])
    return chunk


def failure_of(error: BaseException | None) -> Failure:
    """What is kept of what a rollout raised."""
    if isinstance(error, Broken) and error.__cause__ is not None:
        error = error.__cause__
    assert error is not None
    return Failure.of(error)


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
