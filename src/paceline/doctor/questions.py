"""The questions that only the doctor asks: of envs side by side, of Paceline, and of what things cost."""

from __future__ import annotations

import os
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from paceline.engine import Pool, budget, wire
from paceline.errors import NotSendable, PacelineError
from paceline.testing.envs import Trial
from paceline.testing.findings import Finding
from paceline.testing.playing import Moment, Player, difference, make_player
from paceline.testing.same import same_everywhere

PLANNED = 8
"""How many envs the plan is made for."""

_WAITS_BELOW = 0.5
_MESSAGES = 100
_CHUNKS = 8


def twin(trial: Trial) -> Finding:
    """Do two of them, stepped in turn, each give what it gives alone?"""
    seeds = (trial.seed, trial.seed + 1)

    def in_turn() -> dict[int, list[Moment]]:
        players = {seed: make_player(trial.factory, seed) for seed in seeds}
        moments = {seed: [player.begin()] for seed, player in players.items()}
        for _ in range(trial.steps):
            for seed, player in players.items():
                moments[seed] += player.go_on(1)
        _close(*players.values())
        return moments

    return trial.compare("twin", "Stepped in turn with another one", in_turn)


def order(trial: Trial) -> Finding:
    """Does it give the same when another one was built and stepped before it?"""

    def after_another() -> dict[int, list[Moment]]:
        first = make_player(trial.factory, trial.seed + 2)
        first.play(min(trial.steps, 20))
        second = make_player(trial.factory, trial.seed)
        moments = second.play(trial.steps)
        _close(first, second)
        return {trial.seed: moments}

    return trial.compare("order", "Built after another one", after_another)


def paceline(trial: Trial) -> Finding:
    """Does a pool give the same on inline and on processes?"""
    if trial.sendable.verdict != "ok":
        return Finding(
            "paceline", "warning", "Processes cannot run it, because it cannot be sent; inline and threads can."
        )
    try:
        with_digest = same_everywhere(partial(_in_pool, trial), places=[("process", 2)])
    except AssertionError as error:
        return Finding("paceline", "problem", f"In Paceline, {error}.", advice="See the other findings for the cause.")
    except Exception as error:
        return Finding("paceline", "problem", f"In Paceline it raised {type(error).__name__}: {error}.")
    return Finding("paceline", "ok", _paceline_says(trial), {"digest": with_digest})


def _paceline_says(trial: Trial) -> str:
    same = "In a pool it gives the same on inline and on processes"
    if not trial.look.watch.touched:
        return f"{same}."
    return f"{same}, for there each member draws from streams of its own; threads refuse it."


def _in_pool(trial: Trial, backend: str, workers: int) -> list[dict[int, Any]]:
    factories = [partial(make_player, trial.factory, trial.seed + number) for number in range(2)]
    patience = None if backend == "inline" else max(60.0, 20 * trial.longest)
    with Pool(factories, backend=backend, workers=workers, seed=trial.seed, deadline=patience) as pool:
        answers = [pool.call("begin")]
        # In pieces, so that the members take turns where they share a process.
        for size in (len(piece) for piece in np.array_split(range(trial.steps), _CHUNKS) if len(piece)):
            answers.append(pool.call("go_on", dict.fromkeys(range(len(pool)), (size,))))
        return answers


def snapshot(trial: Trial) -> Finding:
    """Can it be saved in mid-play by pickling it, and does the copy go on the same?"""
    advice = "Paceline does without: it rebuilds an env from its recipe and replays what it was asked."
    player = make_player(trial.factory, trial.seed)
    try:
        return Finding("snapshot", "ok", *trial.run(lambda: _saved(player, trial.steps)))
    except (_CannotBeSaved, NotSendable) as error:
        return Finding("snapshot", "warning", f"It cannot be saved in mid-play: {error}.", advice=advice)
    except Exception as error:
        sentence = f"It can be pickled, but the copy cannot go on: {type(error).__name__}: {error}."
        return Finding("snapshot", "warning", sentence, advice=advice)
    finally:
        player.close()


class _CannotBeSaved(Exception):
    """The copy is another one."""


def _saved(player: Player, steps: int) -> tuple[str, dict[str, Any]]:
    player.play(steps // 2)
    packed = wire.settle(wire.pack(player.env))
    moments = player.go_on(steps)
    copied = player_copy.go_on(steps) if (player_copy := player.with_env(wire.fresh(packed))) else []
    differs = difference(moments, copied)
    if differs is not None:
        raise _CannotBeSaved(f"the pickled copy goes another way, first in the {differs[1]} of step {differs[0] + 1}")
    return "Pickled in mid-play, the copy goes on the same.", {"bytes": wire.size(packed)}


def cost(trial: Trial) -> Finding:
    """What do a step, a reset, and a message to a worker take?"""
    look = trial.look
    numbers = {
        "step_seconds": look.stepping.seconds,
        "reset_seconds": look.resetting.seconds,
        "build_seconds": look.building.seconds,
        "observation_bytes": wire.size(wire.pack(look.observation)),
    }
    sentence = (
        f"A step takes {duration(look.stepping.seconds)}, a reset {duration(look.resetting.seconds)}, "
        f"building it {duration(look.building.seconds)}"
    )
    try:
        numbers["message_seconds"] = _message_seconds(look.observation, look.action)
    except PacelineError as error:
        return Finding("cost", "warning", f"{sentence}; a message could not be timed: {error}.", numbers)
    message = duration(numbers["message_seconds"])
    size = f"{numbers['observation_bytes']} bytes"
    return Finding(
        "cost", "ok", f"{sentence}; a message to a worker and back, with {size} of observation, {message}.", numbers
    )


class Postman:
    """A member that does nothing but answer."""

    def __init__(self, letter: Any) -> None:
        self._letter = letter

    def deliver(self, _: Any) -> Any:
        """Answers with the letter."""
        return self._letter


def _message_seconds(observation: Any, action: Any) -> float:
    with Pool([partial(Postman, observation)], backend="process", workers=1) as pool:
        walls = []
        for _ in range(_MESSAGES):
            start = perf_counter()
            pool.call("deliver", {0: (action,)}, record=False)
            walls.append(perf_counter() - start)
    return float(np.median(walls))


def waiting(trial: Trial) -> Finding:
    """Does a step wait rather than compute?"""
    share = trial.look.stepping.cpu_share
    numbers = {"cpu_share": share}
    if share >= _WAITS_BELOW:
        return Finding("waiting", "ok", f"A step computes for {share:.0%} of its time.", numbers)
    advice = "Such steps can run side by side on threads, many more of them than there are CPUs."
    return Finding("waiting", "ok", f"A step waits for {1 - share:.0%} of its time.", numbers, advice)


def plan(trial: Trial) -> Finding:
    """Which plan would auto choose for several of them?"""
    from paceline.engine.plan import Measured, choose

    look = trial.look
    measured = Measured(
        members=PLANNED,
        seconds=look.stepping.seconds,
        cpu_share=look.stepping.cpu_share,
        message_bytes=wire.size(wire.pack((look.observation, look.action))),
        sendable=trial.sendable.verdict == "ok",
        touches_globals=bool(look.watch.touched),
    )
    choice = choose(measured, budget.current())
    place = choice.backend if choice.backend == "inline" else f"{choice.backend} with {choice.workers} workers"
    numbers = {"envs": PLANNED, "backend": choice.backend, "workers": choice.workers, "cpus": budget.current().slots}
    return Finding("plan", "ok", f"For {PLANNED} of them auto would choose {place}: {choice.why}.", numbers)


def duration(seconds: float) -> str:
    """A time as people read it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _close(*players: Player) -> None:
    for player in players:
        player.close()
