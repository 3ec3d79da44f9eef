"""The turns of a training as a table."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from paceline.errors import BadInput
from paceline.tape import Tape
from paceline.train.turns import TurnLog
from paceline.types import Seat, Step

BOTH = spaces.Dict({"move": spaces.Discrete(3), "push": spaces.Box(-1, 1, (2,), np.float32)})


def tape_of(rewards: list[float], space: Any = None, action: Any = 2) -> Tape:
    seat = Seat("a", 0, spaces.Discrete(2), spaces.Discrete(3) if space is None else space, "m")
    tape = Tape({(0, "a"): seat})
    for reward in rewards:
        tape.act({(0, "a"): 1}, {(0, "a"): action}, {})
        name = (0, "a")
        tape.step(Step({}, {name: reward}, {name: False}, {name: False}, {}, {}))
    return tape


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_epochs_that_are_played_again_are_written_once(tmp_path: Path) -> None:
    """A log that begins with an epoch cuts off what is there of it and of later ones, and half a line."""
    log = TurnLog(tmp_path)
    for epoch in range(3):
        log(epoch, tape_of([0.5, epoch]))
    log.close()
    with (tmp_path / "turns.csv").open("a") as file:
        file.write("3,0,")
    again = TurnLog(tmp_path)
    again(1, tape_of([7.0]))
    again.finish()
    assert rows_of(tmp_path / "turns.csv") == [
        ["epoch", "world", "turn", "agent", "action", "reward"],
        ["0", "0", "0", "a", "2", "0.5"],
        ["0", "0", "1", "a", "2", "0.0"],
        ["1", "0", "0", "a", "2", "7.0"],
    ]


def test_actions_with_parts_are_json(tmp_path: Path) -> None:
    """A number stays a number; everything else is written as JSON."""
    log = TurnLog(tmp_path)
    log(0, tape_of([1.0], BOTH, {"move": 1, "push": np.array([0.5, -1], np.float32)}))
    log.finish()
    assert rows_of(tmp_path / "turns.csv")[1][4] == '{"move": 1, "push": [0.5, -1.0]}'


def test_parquet_has_the_same_rows(tmp_path: Path) -> None:
    """The table is rewritten in the end, with numbers as numbers; to finish again changes nothing."""
    from pyarrow import parquet

    log = TurnLog(tmp_path, "parquet")
    log(0, tape_of([1, 2]))
    log.finish()
    TurnLog(tmp_path, "parquet").finish()
    assert [path.name for path in tmp_path.iterdir()] == ["turns.parquet"]
    columns = parquet.read_table(tmp_path / "turns.parquet").to_pydict()
    assert columns == {
        "epoch": [0, 0],
        "world": [0, 0],
        "turn": [0, 1],
        "agent": ["a", "a"],
        "action": [2, 2],
        "reward": [1.0, 2.0],
    }


def test_other_forms_are_refused(tmp_path: Path) -> None:
    """The message lists the forms that there are."""
    with pytest.raises(BadInput, match="csv or parquet"):
        TurnLog(tmp_path, "xls")
