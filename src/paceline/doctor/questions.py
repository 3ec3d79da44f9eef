"""The questions that only the doctor asks: of envs side by side, of Paceline, and of what things cost."""

from __future__ import annotations

from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import numpy as np

from paceline.doctor.costs import Costs, duration, message_seconds
from paceline.engine import Pool
from paceline.engine.planning import budget
from paceline.engine.planning.plan import MOST_OWN, Measured, choose
from paceline.engine.transport import codec
from paceline.errors import NotSendable, PacelineError
from paceline.lasting import Lasting
from paceline.seeds import digest
from paceline.testing.elsewhere import sendable
from paceline.testing.envs import Trial
from paceline.testing.findings import Finding, lasting_findings
from paceline.testing.playing import Moment, difference, make_player, played

PLANNED = 8
"""How many envs the plan is made for."""

_WAITS_BELOW = 0.5
_PIECES = 8
_REPLAYED = "Paceline does without: it rebuilds an env from its recipe and replays what it was asked."


def twin(trial: Trial) -> Finding:
    """Do two of them, stepped in turn, each give what it gives alone?"""
    seeds = (trial.seed, trial.seed + 1)

    def in_turn() -> dict[int, list[Moment]]:
        with ExitStack() as stack:
            players = {seed: stack.enter_context(closing(make_player(trial.factory, seed))) for seed in seeds}
            for player in players.values():
                player.start()
            for _ in range(trial.steps):
                for player in players.values():
                    player.go_on(1)
            return {seed: player.episode for seed, player in players.items()}

    return trial.compare("twin", "Stepped in turn with another one", in_turn)


def order(trial: Trial) -> Finding:
    """Does it give the same when another one was built and stepped before it?"""

    def after_another() -> dict[int, list[Moment]]:
        with closing(make_player(trial.factory, trial.seed + 2)) as other:
            other.play(min(trial.steps, 20))
            return {trial.seed: played(trial.factory, trial.seed, trial.steps)}

    return trial.compare("order", "Built after another one", after_another)


def lasting(trial: Trial) -> list[Finding]:
    """What of its classes and modules changes in play? There is a finding for each thing, and none if nothing does."""

    def look_at(watch: Lasting) -> None:
        for number in range(2):
            with closing(make_player(trial.factory, trial.seed + number)) as player:
                watch.meet(player.env)
                watch.look()
                player.play(min(trial.steps, 20))
                watch.look()

    return lasting_findings(look_at)


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
    if trial.look.draws_with_pygame:
        return f"{same}; threads cannot run it, as it draws with pygame, whose display belongs to all of a process."
    if not trial.look.watch.touched:
        return f"{same}."
    return f"{same}, for there each member draws from streams of its own; threads refuse it."


def _in_pool(trial: Trial, backend: str, workers: int) -> list[list[Moment]]:
    factories = [partial(make_player, trial.factory, trial.seed + number) for number in range(2)]
    patience = None if backend == "inline" else max(60.0, 20 * trial.longest)
    with Pool(factories, backend=backend, workers=workers, seed=trial.seed, deadline=patience) as pool:
        moments = [[moment] for moment in pool.call("start").values()]
        # In pieces, so that the members take turns where they share a process.
        for piece in filter(len, np.array_split(range(trial.steps), _PIECES)):
            answers = pool.call("go_on", dict.fromkeys(range(len(pool)), (len(piece),)))
            moments = [before + after for before, after in zip(moments, answers.values(), strict=True)]
        return moments


def snapshot(trial: Trial) -> Finding:
    """Can it be saved in mid-play by pickling it, and does the copy go on the same?"""
    if not trial.verdicts["again"]:
        sentence = "Whether a pickled copy goes on the same cannot be seen, for it does not give the same twice."
        return Finding("snapshot", "warning", sentence)
    try:
        size, same = trial.run(lambda: _saved(trial))
    except NotSendable as error:
        return Finding("snapshot", "warning", f"It cannot be pickled in mid-play: {error}.", advice=_REPLAYED)
    except Exception as error:
        sentence = f"Pickled in mid-play, the copy cannot go on: {type(error).__name__}: {error}."
        return Finding("snapshot", "warning", sentence, advice=_REPLAYED)
    if not same:
        sentence = "Pickled in mid-play, the copy goes another way."
        return Finding("snapshot", "warning", sentence, {"bytes": size}, _REPLAYED)
    return Finding("snapshot", "ok", "Pickled in mid-play, the copy goes on the same.", {"bytes": size})


def _saved(trial: Trial) -> tuple[int, bool]:
    with closing(make_player(trial.factory, trial.seed)) as player:
        player.play(trial.steps // 2)
        packed = codec.settle(codec.pack(player.env))
        with closing(player.with_env(codec.fresh(packed))) as copy:
            return codec.size(packed), player.go_on(trial.steps) == copy.go_on(trial.steps)


def cost(trial: Trial, costs: Costs) -> Finding:
    """What do a step, a reset, and a message to a worker take?"""
    numbers: dict[str, Any] = {
        "step_seconds": costs.step,
        "reset_seconds": costs.reset,
        "build_seconds": costs.build,
    }
    step = "A turn of one action" if trial.look.text else "A step"
    sentence = (
        f"{step} takes {duration(costs.step)}, a reset {duration(costs.reset)}, building it {duration(costs.build)}"
    )
    try:
        size = numbers["observation_bytes"] = codec.size(codec.pack(trial.look.observation))
        numbers["message_seconds"] = message_seconds(trial.look.observation, trial.look.action)
    except PacelineError as error:
        return Finding("cost", "warning", f"{sentence}; a message could not be timed: {error}.", numbers)
    message = (
        f"a message to a worker and back, with {size} bytes of observation, {duration(numbers['message_seconds'])}"
    )
    return Finding("cost", "ok", f"{sentence}; {message}.", numbers)


def waiting(trial: Trial, costs: Costs) -> Finding:
    """Does a step wait rather than compute?"""
    share = costs.cpu_share
    numbers = {"cpu_share": share}
    if share >= _WAITS_BELOW:
        return Finding("waiting", "ok", f"A step computes for {share:.0%} of its time.", numbers)
    advice = "Such steps can run side by side on threads, many more of them than there are CPUs."
    if trial.look.draws_with_pygame:
        advice = "Such steps can run side by side in more processes than there are CPUs."
    return Finding("waiting", "ok", f"A step waits for {1 - share:.0%} of its time.", numbers, advice)


def plan(trial: Trial, costs: Costs) -> Finding:
    """Which plan would auto choose for several of them? What comes as numbers goes through a port, as in `make_vec`."""
    shown = trial.look.observation, trial.look.action
    sent = sendable(shown)
    by_rows = _are_numbers(shown)
    measured = Measured(
        members=PLANNED,
        seconds=costs.step,
        own=0.0 if by_rows else MOST_OWN,
        cpu_share=costs.cpu_share,
        message_bytes=sent.numbers.get("bytes", 0),
        sendable=trial.sendable.verdict == sent.verdict == "ok",
        touches_globals=bool(trial.look.watch.touched),
        through_port=by_rows,
    )
    choice = choose(measured, budget.current())
    workers = f"{choice.workers} worker{'s' if choice.workers > 1 else ''}"
    place = choice.backend if choice.backend == "inline" else f"{choice.backend} with {workers}"
    numbers = {"envs": PLANNED, "backend": choice.backend, "workers": choice.workers, "cpus": budget.current().slots}
    return Finding("plan", "ok", f"For {PLANNED} of them auto would choose {place}: {choice.why}.", numbers)


def _are_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_are_numbers, value.values()))
    if isinstance(value, tuple | list):
        return all(map(_are_numbers, value))
    return isinstance(value, int | float | np.number | np.bool_) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    )
