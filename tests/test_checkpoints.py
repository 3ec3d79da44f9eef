"""A checkpoint is whole or not there, and takes no memory beside what it is of."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.checkpoints import FILE, Checkpoints
from paceline.errors import BadInput

BYTES = 16 << 20


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a call takes, at the most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_arrays_are_written_and_read_without_copies(tmp_path: Path) -> None:
    """Rows may be most of what there is memory for."""
    checkpoints, whole = Checkpoints(tmp_path), np.random.default_rng(0).integers(256, size=2 * BYTES, dtype=np.uint8)
    state = {"rows": [whole[:BYTES], whole[BYTES:]], "count": 3}
    assert peak(lambda: checkpoints.save(state, 0.0)) < BYTES / 4
    assert peak(checkpoints.load) < 2.25 * BYTES
    found = checkpoints.load()
    assert (found["count"], [rows.tobytes() for rows in found["rows"]]) == (3, [r.tobytes() for r in state["rows"]])


def test_its_size_is_told(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).save([1, 2], 0.0) == (tmp_path / FILE).stat().st_size


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).load() is None


@pytest.mark.parametrize("place", [3, 40, -1])
def test_one_that_is_damaged_is_told(tmp_path: Path, place: int) -> None:
    """In its digest, in what follows, and if the end is missing."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(list(range(50)), 0.0)
    content = bytearray((tmp_path / FILE).read_bytes())
    content[place] ^= 1
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(BadInput, match=r"checkpoint.pkl is damaged: remove it"):
        checkpoints.load()
    (tmp_path / FILE).write_bytes(bytes(content[:place]))
    with pytest.raises(BadInput, match=r"checkpoint.pkl is damaged"):
        checkpoints.load()


def test_what_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    """Nothing half written is left."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save([1], 0.0)
    with pytest.raises((AttributeError, TypeError)):
        checkpoints.save([np.zeros(1000), (line for line in ())], 0.0)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
    assert checkpoints.load() == [1]
