"""Plays an env slowed down, beside other work, on a clock that leaps ahead: nothing that its steps may depend on.

    reset, step ──► a pause, and a day more on the clock ──► the other steps, beside threads that are busy

It runs in a process of its own, where the clock is another one before anything of the env is imported.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from paceline.engine.transport import codec
from paceline.testing.elsewhere import another_hash_seed, run_elsewhere
from paceline.testing.envs import Trial
from paceline.testing.findings import Finding
from paceline.testing.playing import Moment, make_player

_CLOCKS = [
    (f"{name}{ns}", unit) for name in ("time", "monotonic", "perf_counter") for ns, unit in (("", 1), ("_ns", 10**9))
]
_PAUSE = 0.5  # seconds that other clocks see (datetime, those of C)
_LEAP = 86_400
_BUSY = 2
_ADVICE = "It depends on the clock: count steps, or let the caller cut episodes off (Mission(steps=…), TimeLimit)."


def slowed(trial: Trial) -> Finding:
    """Does it give the same slowed down, beside other work, and a day later?"""
    if not trial.verdicts.get("process"):
        sentence = "Whether time moves it cannot be seen: it was not played in another process, or not the same there."
        return Finding("slowed", "warning", sentence)
    finding = trial.compare(
        "slowed",
        "Slowed down, beside other work and with a day between two steps",
        lambda: {trial.seed: _played(trial)},
    )
    return replace(finding, advice=_ADVICE) if "first_difference" in finding.numbers else finding


def _played(trial: Trial) -> list[Moment]:
    recipe = pickle.dumps(codec.settle(codec.pack(trial.recipe)))  # opened where the clock is another one already
    patience = max(60.0, 20 * trial.longest)
    moments: list[Moment] = run_elsewhere(
        play_slowed, recipe, trial.seed, trial.steps, hash_seed=another_hash_seed(), patience=patience
    )
    return moments


def play_slowed(recipe: bytes, seed: int, steps: int) -> list[Moment]:
    """Builds an env and plays it; in the process that is there for nothing else."""
    leap = leaping_clock()
    with _beside_work(), closing(make_player(codec.unpack(pickle.loads(recipe)), seed)) as player:
        player.start()
        player.go_on(1)
        time.sleep(_PAUSE)
        leap(_LEAP)
        player.go_on(steps - 1)
        return player.episode


def leaping_clock() -> Callable[[int], None]:
    """Replaces the clocks of `time`. Gives a function that sets them ahead by so many seconds."""
    ahead = [0]

    def later(clock: Callable[[], Any], unit: int) -> Callable[[], Any]:
        return lambda: clock() + ahead[0] * unit

    for name, unit in _CLOCKS:
        setattr(time, name, later(getattr(time, name), unit))
    return lambda seconds: ahead.__setitem__(0, ahead[0] + seconds)


@contextmanager
def _beside_work() -> Iterator[None]:
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(_BUSY)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
