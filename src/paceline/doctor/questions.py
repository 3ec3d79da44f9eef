"""The questions that only the doctor asks: of envs side by side, of Paceline, and of what things cost."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from paceline.doctor.costs import Costs, duration, message_seconds
from paceline.engine import Pool, budget, wire
from paceline.errors import NotSendable, PacelineError
from paceline.seeds import digest
from paceline.testing.envs import Trial
from paceline.testing.findings import Finding
from paceline.testing.playing import Moment, Player, difference, make_player

PLANNED = 8
"""How many envs the plan is made for."""

_WAITS_BELOW = 0.5
_PIECES = 8
_REPLAYED = "Paceline does without: it rebuilds an env from its recipe and replays what it was asked."


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
        here, there = _in_pool(trial, "inline", 1), _in_pool(trial, "process", 2)
    except Exception as error:
        return Finding("paceline", "problem", f"In a pool it raised {type(error).__name__}: {error}.")
    for differs in filter(None, map(difference, here, there)):
        sentence = f"In a pool it gives one thing on inline and another on processes: {differs} differs."
        advice = "The findings above say why."
        return Finding("paceline", "problem", sentence, {"first_difference": differs.moment}, advice)
    return Finding("paceline", "ok", _paceline_says(trial), {"digest": digest(here)})


def _paceline_says(trial: Trial) -> str:
    same = "In a pool it gives the same on inline and on processes"
    if not trial.look.watch.touched:
        return f"{same}."
    return f"{same}, for there each member draws from streams of its own; threads refuse it."


def _in_pool(trial: Trial, backend: str, workers: int) -> list[list[Moment]]:
    factories = [partial(make_player, trial.factory, trial.seed + number) for number in range(2)]
    patience = None if backend == "inline" else max(60.0, 20 * trial.longest)
    with Pool(factories, backend=backend, workers=workers, seed=trial.seed, deadline=patience) as pool:
        moments = [[moment] for moment in pool.call("begin").values()]
        # In pieces, so that the members take turns where they share a process.
        for piece in filter(len, np.array_split(range(trial.steps), _PIECES)):
            answers = pool.call("go_on", dict.fromkeys(range(len(pool)), (len(piece),)))
            moments = [before + after for before, after in zip(moments, answers.values(), strict=True)]
        return moments


def snapshot(trial: Trial) -> Finding:
    """Can it be saved in mid-play by pickling it, and does the copy go on the same?"""
    if not all(trial.verdicts.values()):
        sentence = "Whether a pickled copy goes on the same cannot be seen, for it does not give the same twice."
        return Finding("snapshot", "warning", sentence)
    player = make_player(trial.factory, trial.seed)
    try:
        return Finding("snapshot", "ok", *trial.run(lambda: _saved(player, trial.steps)))
    except (_CannotBeSaved, NotSendable) as error:
        return Finding("snapshot", "warning", f"It cannot be saved in mid-play: {error}.", advice=_REPLAYED)
    except Exception as error:
        sentence = f"It can be pickled, but the copy cannot go on: {type(error).__name__}: {error}."
        return Finding("snapshot", "warning", sentence, advice=_REPLAYED)
    finally:
        player.close()


class _CannotBeSaved(Exception):
    """The copy is another one."""


def _saved(player: Player, steps: int) -> tuple[str, dict[str, Any]]:
    player.play(steps // 2)
    packed = wire.settle(wire.pack(player.env))
    other = player.with_env(wire.fresh(packed))
    if player.go_on(steps) != other.go_on(steps):
        raise _CannotBeSaved("it can be pickled, but the copy goes another way")
    return "Pickled in mid-play, the copy goes on the same.", {"bytes": wire.size(packed)}


def cost(trial: Trial, costs: Costs) -> Finding:
    """What do a step, a reset, and a message to a worker take?"""
    look = trial.look
    numbers = {
        "step_seconds": costs.step,
        "reset_seconds": costs.reset,
        "build_seconds": costs.build,
        "observation_bytes": wire.size(wire.pack(look.observation)),
    }
    sentence = (
        f"A step takes {duration(costs.step)}, a reset {duration(costs.reset)}, building it {duration(costs.build)}"
    )
    try:
        numbers["message_seconds"] = message_seconds(look.observation, look.action)
    except PacelineError as error:
        return Finding("cost", "warning", f"{sentence}; a message could not be timed: {error}.", numbers)
    message = f"with {numbers['observation_bytes']} bytes of observation, {duration(numbers['message_seconds'])}"
    return Finding("cost", "ok", f"{sentence}; a message to a worker and back, {message}.", numbers)


def waiting(costs: Costs) -> Finding:
    """Does a step wait rather than compute?"""
    share = costs.cpu_share
    numbers = {"cpu_share": share}
    if share >= _WAITS_BELOW:
        return Finding("waiting", "ok", f"A step computes for {share:.0%} of its time.", numbers)
    advice = "Such steps can run side by side on threads, many more of them than there are CPUs."
    return Finding("waiting", "ok", f"A step waits for {1 - share:.0%} of its time.", numbers, advice)


def plan(trial: Trial, costs: Costs) -> Finding:
    """Which plan would auto choose for several of them?"""
    from paceline.engine.plan import Measured, choose

    look = trial.look
    measured = Measured(
        members=PLANNED,
        seconds=costs.step,
        cpu_share=costs.cpu_share,
        message_bytes=wire.size(wire.pack((look.observation, look.action))),
        sendable=trial.sendable.verdict == "ok",
        touches_globals=bool(look.watch.touched),
    )
    choice = choose(measured, budget.current())
    place = choice.backend if choice.backend == "inline" else f"{choice.backend} with {choice.workers} workers"
    numbers = {"envs": PLANNED, "backend": choice.backend, "workers": choice.workers, "cpus": budget.current().slots}
    return Finding("plan", "ok", f"For {PLANNED} of them auto would choose {place}: {choice.why}.", numbers)


def _close(*players: Player) -> None:
    for player in players:
        player.close()
