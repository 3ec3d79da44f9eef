"""What lives in a worker between the items of a map, the same on every backend."""

from __future__ import annotations

import os
import random
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

import paceline
from paceline import Pool
from paceline.engine import kept, put_back, take
from paceline.engine.host.store import MOST_IDLE
from paceline.errors import BadInput


class Thing:
    """Writes down where it was built and closed."""

    def __init__(self, log: Path | None = None, draws: int = 0) -> None:
        self._log = log
        self.drawn = [random.random() for _ in range(draws)]
        self.uses = 0
        self._write("built")

    def use(self) -> int:
        self.uses += 1
        return self.uses

    def close(self) -> None:
        self._write("closed")

    def _write(self, what: str) -> None:
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(f"{what} {os.getpid()} {threading.get_ident()}\n")


def events(log: Path, what: str) -> list[str]:
    """The workers that wrote so, in order."""
    return [line.partition(" ")[2] for line in log.read_text().splitlines() if line.startswith(what)]


def keep(log: Path, item: int) -> tuple[int, int]:
    thing = kept("thing", partial(Thing, log))
    assert kept("thing", partial(Thing, log)) is thing
    thing.use()
    return item, os.getpid()


def test_a_kept_object_is_built_once_per_worker_and_closed_with_the_pool(backend: str, tmp_path: Path) -> None:
    """Thirty items of three maps find one object per worker, which is closed when the pool is."""
    log = tmp_path / "log"
    with Pool([], backend=backend, workers=2) as pool:
        for _ in range(3):
            assert [item for item, _ in pool.map(partial(keep, log), range(10))] == list(range(10))
        built = events(log, "built")
        assert len(built) <= 2
        assert events(log, "closed") == []
    assert sorted(events(log, "closed")) == sorted(built)


def borrow(log: Path, item: int) -> int:
    thing = take(("thing", b"recipe"), partial(Thing, log))
    if item % 3 == 0:
        thing.close()
        raise RuntimeError("left halfway")
    uses = thing.use()
    put_back(("thing", b"recipe"), thing)
    return uses


def test_what_is_not_put_back_is_forgotten(backend: str, tmp_path: Path) -> None:
    """An item that does not put its object back leaves none behind, and the next item builds another."""
    log = tmp_path / "log"
    with Pool([], backend=backend, workers=1) as pool:
        outcomes = pool.map(partial(borrow, log), range(7), outcomes=True)
        assert [outcome.error is None and outcome.answer for outcome in outcomes] == [False, 1, 2, False, 1, 2, False]
        assert len(events(log, "built")) == len(events(log, "closed")) == 3


def keep_and_fail(log: Path, item: int) -> int:
    uses = kept("thing", partial(Thing, log)).use()
    if item == 1:
        raise RuntimeError("left halfway")
    return uses


def test_what_a_failed_item_kept_is_closed(backend: str, tmp_path: Path) -> None:
    """A kept object may be in the middle of something when its item raises, so that no later item gets it."""
    log = tmp_path / "log"
    with Pool([], backend=backend, workers=1) as pool:
        outcomes = pool.map(partial(keep_and_fail, log), range(4), outcomes=True)
        assert [outcome.error is None and outcome.answer for outcome in outcomes] == [1, False, 1, 2]
        assert len(events(log, "closed")) == 1
    assert len(events(log, "closed")) == len(events(log, "built")) == 2


def draw_around(item: int) -> tuple[float, list[float], float]:
    before = random.random()
    return before, kept("thing", partial(Thing, None, 3)).drawn, random.random()


@pytest.mark.parametrize("swapping", ["inline", "process", "ray"])
def test_building_does_not_show_in_the_streams_of_items(swapping: str, request: pytest.FixtureRequest) -> None:
    """An item draws the same whether it found the object or built it, and the object is the same everywhere."""
    if swapping == "ray":
        request.getfixturevalue("ray_cluster")
    with Pool([], seed=5) as pool:
        one_by_one = [pool.map(draw_around, [item], keys=[item])[0] for item in range(6)]
    alone = []
    for item in range(6):
        with Pool([], seed=5) as pool:  # here every item builds
            alone += pool.map(draw_around, [item], keys=[item])
    with Pool([], backend=swapping, workers=2, seed=5) as pool:
        shared = pool.map(draw_around, range(6))
    assert paceline.digest(shared) == paceline.digest(one_by_one) == paceline.digest(alone)
    assert len({before for before, _, _ in shared}) == 6
    random.seed(1)
    outside = take("thing", partial(Thing, None, 3)).drawn
    assert outside == shared[0][1]
    assert random.random() == random.Random(1).random()


def keep_and_die(log: Path, flag: Path, item: int) -> int:
    kept("thing", partial(Thing, log)).use()
    if item == 3 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def test_the_worker_after_a_killed_one_builds_again(killable: str, tmp_path: Path) -> None:
    """A killed worker loses its store; items are run again with a new one, and the results are those of inline."""
    log, flag = tmp_path / "log", tmp_path / "flag"
    with Pool([], backend=killable, workers=1) as pool:
        results = pool.map(partial(keep_and_die, log, flag), range(6))
        assert any(event.kind == "lost" for event in pool.events)
    with Pool([]) as pool:
        assert paceline.digest(results) == paceline.digest(
            pool.map(partial(keep_and_die, tmp_path / "here", flag), range(6))
        )
    built = events(log, "built")
    assert len(built) == 2
    assert events(log, "closed") == built[1:]


def nested(log: Path, item: int) -> list[tuple[int, int]]:
    kept("thing", partial(Thing, log))
    with Pool([]) as inner:
        inside = inner.map(partial(keep, log), range(3))
    assert kept("thing", partial(Thing, log)).uses == 0, "the inner pool used the outer pool's object"
    return [(number, 0) for number, _ in inside]


def test_pools_never_share(backend: str, tmp_path: Path) -> None:
    """A pool within an item has a store of its own, which ends with it; so have two pools side by side."""
    log = tmp_path / "log"
    with Pool([], backend=backend, workers=1) as one, Pool([], backend=backend, workers=1) as two:
        for pool in (one, two):
            pool.map(partial(nested, log), range(2))
        assert len(events(log, "built")) == 2 + 4
        assert len(events(log, "closed")) == 4
    assert len(events(log, "closed")) == 6


def keep_many(log: Path, item: int) -> None:
    for key in range(MOST_IDLE + 10):
        put_back(key, take(key, partial(Thing, log)))


def test_a_store_does_not_grow_for_ever(tmp_path: Path) -> None:
    """What has waited longest is closed when there are more idle objects than a store holds."""
    log = tmp_path / "log"
    with Pool([]) as pool:
        pool.map(partial(keep_many, log), range(1))
        assert len(events(log, "closed")) == 10
    assert len(events(log, "closed")) == len(events(log, "built")) == MOST_IDLE + 10


def take_of(key: object) -> list[float]:
    thing = take(key, partial(Thing, None, 1))
    put_back(key, thing)
    return thing.drawn


def test_keys_that_are_equal_and_not_the_same() -> None:
    """1, True and "1" name three recipes."""
    with Pool([]) as pool:
        assert len({tuple(drawn) for drawn in pool.map(take_of, [1, True, "1", b"1", (1,), 1])}) == 5


def test_outside_of_a_map_nothing_is_kept(tmp_path: Path) -> None:
    """There is no worker that would close it: taking builds, putting back closes, and keeping is an error."""
    log = tmp_path / "log"
    for _ in range(2):
        put_back("thing", take("thing", partial(Thing, log)))
    assert len(events(log, "built")) == len(events(log, "closed")) == 2
    with pytest.raises(BadInput, match="outside of a function"):
        kept("thing", Thing)
    with pytest.raises(BadInput, match="cannot be a key"):
        take(("thing", 1.5), Thing)  # type: ignore[arg-type]


class Stubborn(Thing):
    def close(self) -> None:
        raise RuntimeError("not now")


def keep_stubborn(item: int) -> int:
    kept("stubborn", Stubborn)
    return item


def test_an_error_in_close_is_told_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with Pool([]) as pool:
        assert pool.map(keep_stubborn, range(2)) == [0, 1]
    assert "'stubborn' raised in close(): RuntimeError: not now" in caplog.text
