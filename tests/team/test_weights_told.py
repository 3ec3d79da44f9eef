"""Weights that do not fit a network: the error says which layers, not only that there are some."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from gymnasium import spaces

import paceline
from paceline.adapters.torch_module import Module
from paceline.types import Seat

SEAT = Seat("agent_0", 0, spaces.Box(-1, 1, (3,)), spaces.Discrete(2), "mission")


def test_layers_that_do_not_fit_are_named(tmp_path: Path) -> None:
    torch.save(torch.nn.Linear(4, 2).state_dict(), tmp_path / "net.pt")
    with pytest.raises(paceline.BadInput, match=r"size mismatch for weight.*\[2, 4\].*\[2, 3\]"):
        Module(SEAT, partial(torch.nn.Linear, 3, 2), str(tmp_path / "net.pt"))


def test_a_long_complaint_is_cut_and_says_so(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "net.pt")
    layers = [torch.nn.Linear(3, 3) for _ in range(200)]
    with pytest.raises(paceline.BadInput, match=r"Missing key.* …$") as no:
        Module(SEAT, lambda: torch.nn.Sequential(*layers), str(tmp_path / "net.pt"))
    assert len(str(no.value)) < 2000
