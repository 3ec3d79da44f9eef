"""Shared arrays: written here, read where members live, gone with the last that uses them."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline
from paceline.engine import Pool, Published, SharedArrays
from paceline.engine.transport import machine
from paceline.engine.workers.ray.array_server import ArrayServer, ArraySource


class Reads:
    """Reads what it is given a place of."""

    def __init__(self) -> None:
        self.kept: Any = None

    def total(self, shared: SharedArrays) -> tuple[float, bool]:
        self.kept = shared
        return float(shared.arrays["rows"].sum()), bool(shared.arrays["rows"].flags.writeable)

    def later(self) -> float:
        return float(self.kept.arrays["rows"].sum())


def test_what_is_written_here_is_read_by_members(backend: str) -> None:
    """A member reads the memory itself: what is written after the call is seen without another."""
    shared = SharedArrays({"rows": ((10, 3), "<f4"), "flags": ((10,), "|b1")})
    shared.arrays["rows"][2] = 7
    with Pool([Reads, Reads], backend=backend, workers=1 if backend == "inline" else 2) as pool:
        assert pool.call("total", {0: (shared,), 1: (shared,)}) == {0: (21.0, False), 1: (21.0, False)}
        shared.arrays["rows"][3] = 1
        assert pool.call("later", record=False) == {0: 24.0, 1: 24.0}


def test_room_that_is_not_written_takes_no_memory() -> None:
    shared = SharedArrays({"rows": ((10**9,), "<f8")})
    assert shared.nbytes == 0
    shared.arrays["rows"][:1000] = 1
    assert 8000 <= shared.nbytes <= 64_000


def test_memory_that_is_gone_is_named() -> None:
    shared = SharedArrays({"rows": ((3,), "<f8")})
    place = pickle.dumps(shared)
    assert pickle.loads(place).arrays["rows"].tolist() == [0, 0, 0]
    shared.close()
    with pytest.raises(paceline.BadInput, match=f"shared arrays of process {os.getpid()}"):
        pickle.loads(place)


def test_nothing_is_left_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        shared = SharedArrays({"rows": ((3,), "<f8")})
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(shared)).arrays["rows"], np.zeros(3))
        shared.close()
        shared.close()
        del shared
    assert len(list(Path("/proc/self/fd").iterdir())) == before


# -- on another machine: workers of Ray are where main is, and are told that main is somewhere else --------------------


class Fetches:
    """Fetches rows of what it is given a place of."""

    def fetch(self, shared: SharedArrays, start: int, stop: int) -> Any:
        shared.fetch({"rows": [(start, stop)]})
        self.kept = shared
        return shared.arrays["rows"].tolist(), shared.mapped, shared.arrays["rows"].flags.writeable

    def reads(self, shared: SharedArrays) -> list[str]:
        return list(shared.arrays)

    def total(self, published: Published) -> float:
        return float(published.get().sum())


def servers() -> int:
    return sum(thread.name == "paceline-arrays" for thread in threading.enumerate())


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Main is on a machine on which none of its workers is."""
    monkeypatch.setattr(machine, "this_machine", lambda: ("another kernel", "pid:[1]"))


def test_workers_on_another_machine_have_the_rows_that_they_fetch(ray_cluster: str, elsewhere: None) -> None:
    """Before the first fetch there are no rows; in place of a worker that is killed another one fetches them again."""
    shared = SharedArrays({"rows": ((5,), "<i4"), "none": ((0, 3), "|b1")})
    shared.arrays["rows"][:] = range(1, 6)
    with Pool([Fetches, Fetches], backend="ray", workers=2) as pool:
        assert pool.call("reads", {0: (shared,)}, record=False) == {0: []}
        assert pool.call("fetch", {0: (shared, 1, 3)}) == {0: ([0, 2, 3, 0, 0], False, False)}
        assert pool.call("fetch", {0: (shared, 4, 5), 1: (shared, 0, 2)}) == {
            0: ([0, 2, 3, 0, 5], False, False),
            1: ([1, 2, 0, 0, 0], False, False),
        }
        os.kill(pool.workers[0].pid, 9)
        assert pool.call("fetch", {0: (shared, 0, 1)}) == {0: ([1, 2, 3, 0, 5], False, False)}
        assert [event.kind for event in pool.events] == ["lost"]
        assert pool.call("total", {1: (Published(np.ones(100_000)),)}, record=False) == {1: 100_000.0}
        place = pickle.dumps(shared)
        shared.close()
        with pytest.raises(paceline.BadInput, match=r"on another machine: .* gone"):
            pool.call("fetch", {1: (shared, 2, 3)}, record=False)
    assert servers() == 0
    with pytest.MonkeyPatch.context() as here:
        here.setattr(machine, "this_machine", lambda: ("this kernel", "pid:[1]"))
        with pytest.raises(paceline.BadInput, match="that process is on another machine"):
            pickle.loads(place)


def test_workers_on_this_machine_need_no_server(ray_cluster: str) -> None:
    shared = SharedArrays({"rows": ((3,), "<i4")})
    with Pool([Fetches], backend="ray", workers=1) as pool:
        assert pool.call("fetch", {0: (shared, 0, 1)}) == {0: ([0, 0, 0], True, False)}
        assert servers() == 0


def test_rows_are_for_those_who_know_the_key() -> None:
    shared = SharedArrays({"rows": ((3,), "<i4")})
    shared.arrays["rows"][:] = 7
    name, rows = shared._place, np.zeros(3, np.int32)
    server = ArrayServer("127.0.0.1")
    try:
        with pytest.raises(paceline.BadInput, match="does not answer"):
            ArraySource(server.address, b"another key").fetch(name, [("rows", 0, 3, rows)])
        assert rows.tolist() == [0, 0, 0]
        source = ArraySource(server.address, server.key)
        with pytest.raises(paceline.BadInput, match="KeyError: 'columns'"):
            source.fetch(name, [("columns", 0, 3, rows)])
        source.fetch(name, [("rows", 0, 3, rows)])
        assert rows.tolist() == [7, 7, 7]
    finally:
        server.close()
    with pytest.raises(paceline.BadInput, match="does not answer"):
        source.fetch(name, [("rows", 0, 3, rows)])


class Loads:
    """Takes a published value, and writes into its copy."""

    def load(self, published: Published) -> tuple[float, float]:
        mine, again = published.get(), published.get()
        mine["large"][:] = -1
        return float(again["large"].sum()), float(mine["large"][0] + len(mine["small"]))


def test_a_published_value_is_a_copy_for_all_who_get_it(backend: str) -> None:
    """What one member writes into its copy is seen by no other, and what main changes later is not seen at all."""
    value = {"large": np.ones(100_000), "small": [1, 2, 3], "odd": np.array(5.0)}
    published = Published(value)
    value["large"][:] = 7
    assert len(pickle.dumps(published)) < 2000
    with Pool([Loads, Loads], backend=backend, workers=1 if backend == "inline" else 2) as pool:
        for _ in range(2):
            assert pool.call("load", {0: (published,), 1: (published,)}) == {0: (100_000.0, 2.0), 1: (100_000.0, 2.0)}
    assert Published("small").get() == "small"
