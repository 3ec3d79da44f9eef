"""One episode of an evaluation, here or in a worker; `cohorts` steps several of them together by the same rules.

Run, Job ──► Rollout + Team ──► play ──► Episode, with a failure in it if there was one
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.engine import Plan, Pool, data_record
from paceline.errors import BadInput, MemberExit, WorkerLost, attempt
from paceline.evaluate.run import Job, Run
from paceline.lasting import LASTING
from paceline.rollout import Rollout, play
from paceline.schedule import Impatient, Note, Patience, TooLong, in_words
from paceline.seeds import digest
from paceline.spaces import noop_of
from paceline.team import Mishap, Player, Team, closing_mark, first_episodes, last_words, plainly_acts, with_parts
from paceline.team import understood as understood_player
from paceline.types import Episode, Failure, Mission, Seat

Played = tuple[Episode, list[Note]]
"""The record of an episode, and what there is to tell about how it was played."""

data_record(Episode)
data_record(Failure)
data_record(Seat)


def play_episode(run: Run, job: Job, patience: Patience | None = None) -> Played:
    """Plays one episode, and never raises what a policy or an environment raises: it becomes a `Failure`.

    Args:
        run: What it belongs to.
        job: Which episode.
        patience: When it is over, the episode is given up; None: never.

    Raises:
        TooLong: patience was over.
    """
    begin = perf_counter()
    episode, notes = Episode(*run.key(job), run.seed_of(job)), list[Note]()
    rollout: Rollout | None = None
    try:
        rollout = rollout_of(run, job)
        episode.seats = dict(rollout.players)
        _play(run, job, rollout, notes, patience)
    except TooLong:
        raise
    except Mishap as mishap:
        episode.failure = Failure.of(mishap.error, mishap.agent, mishap.policy)
    except SystemExit as error:
        episode.failure = Failure.of(MemberExit(f"the episode called sys.exit(), with {error.code!r}"))
    except Exception as error:
        episode.failure = Failure.of(error)
    finally:
        if rollout is not None:
            notes += _closed(rollout, episode, closing_mark(run.setting.blackbox, run.key(job)))
    notes += [(text, text) for text in LASTING.news()]
    if rollout is not None and rollout.nan_seen is not None:
        notes.append(nan_note(episode.mission, rollout.nan_seen))
    if rollout is not None and rollout.begun:
        failure, episode = episode.failure, rollout.episode
        episode.failure = failure and replace(failure, step=episode.steps)
    return finished(episode, job, perf_counter() - begin), notes


def nan_note(mission: str, where: str) -> Note:
    """What there is to tell of an observation that held NaN."""
    return f"nan {mission}", f"an observation held NaN, first of {where}"


def _closed(rollout: Rollout, episode: Episode, mark: Path | None = None) -> list[Note]:
    """Ends a rollout; what its environment does then changes nothing of what was played.

    Args:
        rollout: What ends.
        episode: What was played.
        mark: A file that is there while it is being closed. It is there before that if the worker in which the episode
            was played before was lost in `close()`: then it is left open.
    """
    what = ""
    if mark is not None and mark.exists():
        what = "ended its process"
    else:
        try:
            if mark is not None:
                mark.touch()
            rollout.close()
        except (Exception, SystemExit) as error:
            what = f"raised {type(error).__name__}: {error}"
    if mark is not None:
        mark.unlink(missing_ok=True)
    if not what:
        return []
    told = f"mission {episode.mission!r}: close() of its environment {what}; its episodes count"
    return [(f"close {episode.mission}", told)]


def rollout_of(run: Run, job: Job) -> Rollout:
    """The rollout of an episode, ready to begin."""
    rollout = Rollout(run.missions[job.mission], job.index, device=run.device, finite=True)
    rollout.players = run.names(job, rollout.seats())
    replay = run.replay_of(job)
    if replay is not None:
        rollout.save_replay(replay, rollout.players)
    return rollout


def _play(run: Run, job: Job, rollout: Rollout, notes: list[Note], patience: Patience | None) -> None:
    seats = rollout.seats()
    cast, most = run.cast(job.mission), run.most(job.mission, len(seats))
    seating, setting = run.seating(job, len(seats)), run.setting_of(job.mission)
    with Team.seated(seats, cast, seating, setting, run.key(job), most) as team:
        try:
            play(rollout, team if patience is None else Impatient(team, patience), run.seed_of(job))
        finally:
            rollout.episode.late = {str(name): count for name, count in team.late.items()}
            notes += team.notes


def finished(episode: Episode, job: Job, seconds: float) -> Episode:
    """Completes the record: a failure has a digest too."""
    episode.tries, episode.seconds = job.tries, round(seconds, 6)
    if episode.failure is not None:
        failure = episode.failure
        episode.digest = digest(["failed", failure.kind, failure.agent, failure.policy, failure.step])
    return episode


# -- before the first episode ----------------------------------------------------------------------------


def apart(plan: Plan, seed: int = 0) -> Pool:
    """A pool without members, to play something in: here, unless the plan trusts what is played with data only."""
    if plan.trust == "all":
        return Pool([], seed=seed)
    return Pool([], seed=seed, backend="process" if plan.backend == "auto" else plan.backend, trust=plan.trust)


_NO_EPISODE = -1
Found = tuple[bool | None, list[tuple[list[int], str]] | None]
"""What is found of a player, as plain data: see `Player.acts` and `Player.parts`."""
Surveyed = tuple[list[Seat], list[Found]]
"""The seats of a mission, and what is found of its players."""


def understood(run: Run) -> Run:
    """The run with every player understood, for what is played without an evaluation around it."""
    casts = [run.cast(number) for number in range(len(run.missions))]
    if all(plainly_acts(player) is not None for cast in casts for player in cast):
        return run
    with apart(Plan(), run.seed) as pool:
        return run.with_found([found for _, found in survey(run, pool)])


def survey(run: Run, pool: Pool, spaces: bool = True, deadline: float = math.inf) -> list[Surveyed]:
    """Builds every mission once, and every policy for its first seats, so that a mistake is told before work begins.

    Args:
        run: What is to be played.
        pool: Where. What may serve again stays in its store; what is drawn from process-wide generators is put back.
        spaces: Whether seats come with their spaces, which are not data.
        deadline: Seconds that it may take to build those of a mission; only a worker can be ended.

    Returns:
        The seats of each mission, and what is found of its players.

    Raises:
        BadInput: a mission or a policy cannot be built; says which, and why.
    """
    keys = [("survey", mission.name) for mission in run.missions]
    seats = partial(_seats if spaces else _seats_as_data, run)
    outcomes = pool.map(seats, range(len(run.missions)), keys=keys, outcomes=True, deadline=deadline)
    for mission, outcome in zip(run.missions, outcomes, strict=True):
        if isinstance(outcome.error, WorkerLost | MemberExit):
            words = in_words(str(outcome.error), "attempt").splitlines()[0]
            raise BadInput(
                f"mission {mission.name!r} cannot be looked at: to build its environment, or a policy for it, ends the "
                f"process or does not come back: {words}"
            ) from outcome.error
        if outcome.error is not None:
            outcome.error.__notes__ = []  # where it was tried out is of no interest
            raise outcome.error
    return [outcome.answer for outcome in outcomes]


def _seats_as_data(run: Run, number: int) -> Surveyed:
    seats, found = _seats(run, number)
    return [replace(seat, observation_space=None, action_space=None) for seat in seats], found


def _seats(run: Run, number: int) -> Surveyed:
    mission = run.missions[number]
    rollout = attempt(lambda: Rollout(mission, device=run.device), f"mission {mission.name!r}")
    try:
        seats: list[Seat] = rollout.seats()
        if run.replays is not None:
            rollout.save_replay(Path(run.replays), {})  # tells now if it keeps none
    finally:
        _closed_after_a_look(run, mission.name, rollout)
    if not seats:
        raise BadInput(f"mission {mission.name!r} has no seats: nobody can play it")
    cast = list(run.cast(number))
    for who, index in enumerate(first_episodes(cast, len(seats))):
        if index is not None and index < run.episodes:
            seating = run.seating(Job(number, index), len(seats))
            player, seat = cast[who], seats[seating.index(who) if who in seating else 0]
            what = f"policy {player.name!r} for seat {seat.agent!r} of mission {mission.name!r}"
            cast[who] = attempt(partial(_looked_at, run, number, player, seat, seats), what)
    _check_noop(run, mission, seats)
    return seats, [_found(player) for player in cast]


def _looked_at(run: Run, number: int, player: Player, seat: Seat, seats: list[Seat]) -> Player:
    return with_parts(understood_player(player, seat, partial(_observed, run, number)), seats)


def _found(player: Player) -> Found:
    return player.acts, None if player.parts is None else [(list(part), shared) for part, shared in player.parts]


def _observed(run: Run, number: int, seat: Seat) -> tuple[Seat, Any]:
    """What a seat sees first in the mission; if it is not due then, what another one sees, and which."""
    rollout = Rollout(run.missions[number], device=run.device)
    try:
        seats = {each.agent: each for each in rollout.seats()}
        seen = rollout.begin(run.seed)
        agent = seat.agent if seat.agent in seen else next(iter(seen))
        return seats[agent], seen[agent]
    finally:
        _closed_after_a_look(run, run.missions[number].name, rollout)


def _closed_after_a_look(run: Run, mission: str, rollout: Rollout) -> None:
    """Ends a rollout that was only looked at; it is left open if `close()` ended the worker that looked before."""
    mark = closing_mark(run.setting.blackbox, (mission, _NO_EPISODE))
    if mark is None or not mark.exists():
        _closed(rollout, rollout.episode, mark)  # what goes wrong is told when episodes are played


def _check_noop(run: Run, mission: Mission, seats: list[Seat]) -> None:
    if run.setting.timeout_action == "noop" and any(noop_of(seat.action_space) is None for seat in seats):
        raise BadInput(
            f"mission {mission.name!r} does not say which action does nothing, so a late one cannot be replaced by it: "
            "use --timeout-action late"
        )


def lost(run: Run, job: Job, seats: Mapping[str, str], error: BaseException) -> Episode:
    """The record of an episode whose worker was lost with it: its black box says whose policy was being asked."""
    name, index = run.key(job)
    words = last_words(run.setting.blackbox, run.key(job))
    failure = Failure.of(error, words.agent, words.policy, words.step)
    message, traceback = (in_words(text, "episode") for text in (failure.message, failure.traceback))
    failure = replace(failure, message=message, traceback=traceback)
    episode = Episode(name, index, run.seed_of(job), seats=dict(seats), failure=failure)
    return finished(episode, job, 0.0)
