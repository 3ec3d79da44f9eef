"""Who sets a process-wide generator is counted, whichever of its names is called; and the names stay what they were."""

from __future__ import annotations

import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import paceline
from paceline import Pool
from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.seed_watch import SEEDINGS, Seedings

NAMES = [
    (random, "seed"),
    (random, "setstate"),
    (np.random, "seed"),
    (np.random, "set_state"),
    (np.random.mtrand, "seed"),
    (np.random.mtrand, "set_state"),
    (torch, "manual_seed"),
    (torch, "set_rng_state"),
    (torch.random, "manual_seed"),
    (torch.random, "set_rng_state"),
]
every_name = pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{m.__name__}.{name}" for m, name in NAMES])
STATES: dict[str, Callable[[], Any]] = {
    "setstate": random.getstate,
    "set_state": np.random.get_state,
    "set_rng_state": torch.get_rng_state,
}


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    states = GENERATORS.save()
    yield
    GENERATORS.load(states)


class Held:
    """Holds a function; seeds a generator for a while, and puts back what was there."""

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.function = function

    def holds(self, name: str) -> bool:
        return getattr(self.function, "__name__", None) == name

    def borrow(self) -> None:
        state = np.random.get_state()
        np.random.seed(3)
        np.random.set_state(state)


@every_name
def test_every_name_counts(module: Any, name: str) -> None:
    SEEDINGS.watch()
    before = SEEDINGS.count
    getattr(module, name)(STATES[name]() if name in STATES else 7)
    assert SEEDINGS.count != before


@every_name
def test_what_is_wrapped_can_be_sent_as_before(module: Any, name: str) -> None:
    SEEDINGS.watch()
    function = getattr(module, name)
    assert hasattr(function, "__wrapped__")
    assert pickle.loads(pickle.dumps(function)) is function
    with Pool([partial(Held, function)], backend="process") as pool:
        assert pool.call("holds", {0: (name,)}) == {0: True}


def test_who_seeds_and_puts_back_is_told_so() -> None:
    with (
        Pool([Held], backend="thread") as pool,
        pytest.raises(paceline.SharedRandomness, match="was drawn from or set while these members were in flight"),
    ):
        pool.call("borrow")


def test_threads_that_begin_at_once_wrap_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (*NAMES, (torch, "seed"), (torch.random, "seed")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back at the end
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            seedings, together = Seedings(), threading.Barrier(4)

            def watch(seedings: Seedings = seedings, together: threading.Barrier = together) -> None:
                together.wait(60)
                seedings.watch()
                random.seed(1)

            threads = [threading.Thread(target=watch) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert next(seedings._numbers) == 5
    finally:
        sys.setswitchinterval(interval)


class Drawer:
    """Tells where the process-wide generator stands, and draws from it."""

    def look(self) -> object:
        return random.getstate()

    def draw(self) -> float:
        return random.random()


def test_members_beside_threads_have_no_streams_swapped_in() -> None:
    """Threads of another pool would take a swap for a draw; so to draw is an error, in the caller's process too."""
    with Pool([Drawer]) as alone, Pool([Drawer], beside_threads=True) as beside:
        assert alone.call("look") != {0: random.getstate()}
        assert beside.call("look") == {0: random.getstate()}
        with pytest.raises(paceline.SharedRandomness, match="was drawn from or set"):
            beside.call("draw")
