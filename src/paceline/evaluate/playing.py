"""One episode of an evaluation, here or in a worker; `cohorts` steps several of them together by the same rules.

Run, Job ──► Rollout + Team ──► play ──► Episode, with a failure in it if there was one
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from paceline.catalog.loading import place
from paceline.engine import Pool
from paceline.engine.plan import wanted_cpu
from paceline.errors import BadInput
from paceline.evaluate.run import Job, Run
from paceline.rollout import Actions, Observations, Rollout, play
from paceline.seeds import digest
from paceline.team import Mishap, Player, Team, first_episodes
from paceline.team.blackbox import last_words
from paceline.team.minds import built
from paceline.team.spaces import noop_of
from paceline.types import Episode, Failure, Mission, Seat

_TRACEBACK_LIMIT = 8000


class TooLong(Exception):
    """An episode was given up because it takes longer than somebody wanted to wait here."""


class Patience:
    """How long somebody waits for episodes here, and how long it has been.

    The clock starts when the first action has been given: to import, to load and to warm up is done once, and says
    nothing of what the next episode takes.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: tuple[float, float] | None = None

    def begin(self) -> None:
        """An action has been given: from now on, if it was the first."""
        if self._since is None:
            self._since = perf_counter(), wanted_cpu()

    @property
    def wall(self) -> float:
        """Seconds since then."""
        return 0.0 if self._since is None else perf_counter() - self._since[0]

    @property
    def cpu(self) -> float:
        """Seconds since then in which this thread computed, or wanted to."""
        return 0.0 if self._since is None else wanted_cpu() - self._since[1]

    @property
    def over(self) -> bool:
        """Whether it has been too long."""
        return self.wall > self._seconds


Note = tuple[str, str]
"""A topic, and what there is to tell of it: once per topic is enough."""


def play_episode(run: Run, job: Job, patience: Patience | None = None) -> tuple[Episode, list[Note]]:
    """Plays one episode, and never raises what a policy or an environment raises: it becomes a `Failure`.

    Args:
        run: What it belongs to.
        job: Which episode.
        patience: When it is over, the episode is given up; None: never.

    Returns:
        The record, and what there is to tell about how it was played.

    Raises:
        TooLong: patience was over.
    """
    begin = perf_counter()
    mission = run.missions[job.mission]
    episode, notes = Episode(mission.name, job.index, run.seed_of(job)), list[Note]()
    rollout: Rollout | None = None
    try:
        rollout = Rollout(mission, job.index, run.seed_of(job), device=run.device)
        episode = rollout.episode
        _play(run, job, rollout, notes, patience)
    except TooLong:
        raise
    except Mishap as mishap:
        episode.failure = failure_of(mishap.error, mishap.agent, mishap.policy, episode.steps)
    except Exception as error:
        episode.failure = failure_of(error, "", "", episode.steps)
    finally:
        if rollout is not None:
            rollout.close()
    return finished(episode, job, perf_counter() - begin), notes


def _play(run: Run, job: Job, rollout: Rollout, notes: list[Note], patience: Patience | None) -> None:
    seats = rollout.seats()
    seating = run.seating(job, len(seats))
    episode = rollout.episode
    episode.seats = run.names(job, seats)
    replay = run.replay_of(job)
    if replay is not None:
        rollout.save_replay(replay, episode.seats)
    cast, most = run.cast(job.mission), run.most(job.mission, len(seats))
    with Team.seated(seats, cast, seating, run.setting_of(job.mission), run.key(job), most) as team:
        try:
            play(rollout, team if patience is None else _Impatient(team, patience))
        finally:
            episode.late = {str(name): count for name, count in team.late.items()}
            notes += team.notes


class _Impatient:
    """A team that gives up when it gets too late."""

    def __init__(self, team: Team, patience: Patience) -> None:
        self._team, self._patience = team, patience

    def act(self, observations: Observations) -> Actions:
        if self._patience.over:
            raise TooLong
        actions = self._team.act(observations)
        self._patience.begin()
        return actions


def finished(episode: Episode, job: Job, seconds: float) -> Episode:
    """Completes the record: a failure has a digest too."""
    episode.tries, episode.seconds = job.tries, round(seconds, 6)
    if episode.failure is not None:
        failure = episode.failure
        episode.digest = digest(["failed", failure.kind, failure.agent, failure.policy, failure.step])
    return episode


def failure_of(error: BaseException, agent: str, policy: str, step: int) -> Failure:
    """What is kept of an exception; the traceback's end, where the cause stands, if it is long."""
    text = "".join(traceback.format_exception(error))
    return Failure(type(error).__name__, str(error), agent, policy, step, text[-_TRACEBACK_LIMIT:])


# -- before the first episode ----------------------------------------------------------------------------


def survey(run: Run) -> list[list[Seat]]:
    """Builds every mission once, and every policy for its first seats, so that a mistake is told before work begins.

    Returns:
        The seats of each mission.

    Raises:
        BadInput: a mission or a policy cannot be built; says which, and why.
    """
    with Pool([]) as pool:  # so that what is drawn from process-wide generators there is put back
        outcomes = pool.map(lambda number: _seats(run, number), range(len(run.missions)), outcomes=True)
    for outcome in outcomes:
        if outcome.error is not None:
            outcome.error.__notes__ = []  # where it was tried out is of no interest
            raise outcome.error
    return [outcome.answer for outcome in outcomes]


def _seats(run: Run, number: int) -> list[Seat]:
    mission = run.missions[number]
    rollout = attempt(lambda: Rollout(mission, 0, run.seed, device=run.device), f"mission {mission.name!r}")
    try:
        seats: list[Seat] = rollout.seats()
        if run.replays is not None:
            rollout.save_replay(Path(run.replays), {})  # tells now if it keeps none
    finally:
        rollout.close()
    if not seats:
        raise BadInput(f"mission {mission.name!r} has no seats: nobody can play it")
    cast = run.cast(number)
    for who, index in enumerate(first_episodes(cast, len(seats))):
        if index is not None and index < run.episodes:
            seating = run.seating(Job(number, index), len(seats))
            player, seat = cast[who], seats[seating.index(who) if who in seating else 0]
            what = f"policy {player.name!r} for seat {seat.agent!r} of mission {mission.name!r}"
            _check_policy(attempt(partial(built, player.factory, seat), what), player, what)
    _check_noop(run, mission, seats)
    return seats


def _check_noop(run: Run, mission: Mission, seats: list[Seat]) -> None:
    if run.setting.timeout_action == "noop" and any(noop_of(seat.action_space) is None for seat in seats):
        raise BadInput(
            f"mission {mission.name!r} does not say which action does nothing, so a late one cannot be replaced by it: "
            "use --timeout-action late"
        )


def attempt(build: Callable[[], Any], what: str) -> Any:
    try:
        return build()
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{what} cannot be built: {type(error).__name__}: {error}{place(error)}") from error


def _check_policy(policy: Any, player: Player, what: str) -> None:
    in_batches = hasattr(policy, "act_batch") and not hasattr(policy, "act")
    if in_batches and player.declares("act_batch") is None:
        raise BadInput(
            f"{what} has act_batch(…) and no act(obs), but its factory does not say so before it is called: give the "
            f"class {type(policy).__name__} itself, or set act_batch = True on the factory"
        )
    if not (callable(policy) or hasattr(policy, "act") or hasattr(policy, "act_batch")):
        raise BadInput(f"{what} is a {type(policy).__name__}: it has no act(obs), no act_batch(…) and cannot be called")
    close = getattr(policy, "close", None)
    if callable(close):
        close()


def lost(run: Run, job: Job, seats: Mapping[str, str], error: BaseException) -> Episode:
    """The record of an episode whose worker was lost with it: its black box says whose policy was being asked."""
    name, index = run.key(job)
    words = last_words(run.setting.blackbox, run.key(job))
    failure = failure_of(error, words.agent, words.policy, words.step)
    failure = replace(failure, message=in_words(failure.message), traceback=in_words(failure.traceback))
    episode = Episode(name, index, run.seed_of(job), seats=dict(seats), failure=failure)
    return finished(episode, job, 0.0)


_WORDS = (
    (re.compile(r"\bitem \d+ lost its worker in the mapped function"), "the episode lost its worker"),
    (re.compile(r"\bitem \d+ did not answer the mapped function within"), "the episode did not end within"),
    (re.compile(r"\bitem \d+ called"), "the episode called"),
    (re.compile(r"\bwhile it ran the mapped function"), "while it played an episode"),
)


def in_words(text: str) -> str:
    """The engine knows of items and mapped functions; here they are episodes."""
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
