"""Shared arrays: written here, read where members live, gone with the last that uses them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline
from paceline.engine import Pool, Published, SharedArrays


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
