"""Items of maps whose function draws from process-wide generators: run once each, on every backend that can swap."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

import pytest
import torch

import paceline
from paceline import Pool
from paceline.engine import kept


@pytest.fixture(params=("inline", "process", "ray"))
def swapping(request: pytest.FixtureRequest) -> str:
    """The name of a backend whose workers swap generators; threads refuse a function that draws."""
    name: str = request.param
    if name == "ray":
        request.getfixturevalue("ray_cluster")
    return name


def note(log: Path, item: int) -> None:
    with log.open("a") as file:
        file.write(f"{item}\n")


def runs(log: Path) -> list[int]:
    return sorted(int(line) for line in log.read_text().split())


def draw(log: Path, item: int) -> float:
    note(log, item)
    torch.manual_seed(item)
    return random.random() + float(torch.rand(1))


def test_an_item_that_draws_is_run_once(swapping: str, tmp_path: Path) -> None:
    """No item is run twice to find out that its function draws: not in the first map, nor in another worker."""
    with Pool([], backend=swapping, workers=2, seed=3) as pool:
        for turn in range(3):
            log = tmp_path / str(turn)
            results = pool.map(partial(draw, log), range(6))
            assert runs(log) == list(range(6))
    with Pool([], seed=3) as pool:
        alone = [pool.map(partial(draw, tmp_path / "alone"), [item], keys=[item])[0] for item in range(6)]
    assert paceline.digest(results) == paceline.digest(alone)


def draw_late(log: Path, item: int) -> float:
    note(log, item)
    return random.random() if item >= 4 else 0.0


def test_a_function_that_was_seen_to_draw_is_known_from_then_on(swapping: str, tmp_path: Path) -> None:
    """The first item that draws after others did not is run again; in later maps of the pool none is."""
    with Pool([], backend=swapping, workers=1, seed=3) as pool:
        results = [pool.map(partial(draw_late, tmp_path / str(turn)), range(8)) for turn in range(3)]
        assert runs(tmp_path / "0") == [0, 1, 2, 3, 4, 4, 5, 6, 7]
        assert runs(tmp_path / "1") == runs(tmp_path / "2") == list(range(8))
    assert results[0] == results[1] == results[2]
    with Pool([], seed=3) as pool:
        assert results[0] == pool.map(partial(draw_late, tmp_path / "alone"), range(8))


def test_a_new_worker_is_told_that_a_function_draws(killable: str, tmp_path: Path) -> None:
    """What one worker found out holds for the worker that comes after it."""
    with Pool([], backend=killable, workers=1, seed=3) as pool:
        first = pool.map(partial(draw_late, tmp_path / "0"), range(8))
        pool.move({}, workers=0)
        pool.move({}, workers=1)
        assert pool.map(partial(draw_late, tmp_path / "1"), range(8)) == first
        assert runs(tmp_path / "1") == list(range(8))


class Drawer:
    def draw(self) -> float:
        return random.random()


def draw_inside(log: Path, item: int) -> float:
    note(log, item)
    with Pool([Drawer], seed=item) as inner:
        return float(inner.call("draw")[0])


def test_what_a_pool_within_an_item_swaps_is_no_draw_of_the_item(swapping: str, tmp_path: Path) -> None:
    """Members of an inner pool draw from their own streams, with torch imported, too: the item is only watched."""
    assert torch is not None
    with Pool([], backend=swapping, workers=1) as pool:
        results = pool.map(partial(draw_inside, tmp_path / "log"), range(4))
        assert runs(tmp_path / "log") == list(range(4))
        assert set(pool._crew.draws.values()) == {False}
    assert len(set(results)) == 4


class Lazy:
    """Draws its weight at first use."""

    def __init__(self) -> None:
        self.weight: float | None = None
        self.closed = False

    def use(self) -> float:
        self.weight = random.random() if self.weight is None else self.weight
        return self.weight

    def close(self) -> None:
        self.closed = True


def use_late(item: int) -> float:
    lazy = kept("lazy", Lazy)
    return lazy.use() if item >= 2 else os.getpid() * 0.0


def test_what_a_discarded_run_used_is_forgotten(swapping: str) -> None:
    """An item that is run again does not find what its first run, with another's numbers, left in the store."""
    with Pool([], backend=swapping, workers=1, seed=3) as pool:
        results = pool.map(use_late, range(4))
    with Pool([], seed=3) as pool:
        expected = pool.map(lambda _: random.random(), [2], keys=[2])[0]
    assert results == [0.0, 0.0, expected, expected]
