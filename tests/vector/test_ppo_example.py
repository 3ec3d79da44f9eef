"""The PPO example learns from steps that were played, and knows what was cut off from what has ended."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

FILE = Path(__file__).parents[2] / "examples" / "ppo_cartpole.py"


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("ppo_cartpole", FILE)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def test_steps_that_begin_an_episode_are_not_learnt_from(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[Any] = []
    threads = torch.get_num_threads()
    monkeypatch.setattr(example, "update", lambda agent, optimizer, obs, *_: learnt.append(obs))
    monkeypatch.setattr(sys, "argv", ["ppo_cartpole.py", "--plan", "0", "--steps", "1024"])
    example.main()
    torch.set_num_threads(threads)
    angles = learnt[0][:, 2].abs()  # an episode ends beyond 0.2095; its last state is followed by no action
    assert 0.15 < angles.max() <= 0.2095
    assert len(learnt[0]) < 1024


def test_what_was_cut_off_is_worth_what_its_last_state_is(example: Any) -> None:
    rewards, values, last = torch.ones(3, 1), torch.zeros(3, 1), torch.tensor([[5.0], [5.0], [5.0]])
    no, at_two = torch.zeros(3, 1), torch.tensor([[0.0], [1.0], [0.0]])
    ended = example.advantages(rewards, values, last, at_two, at_two)
    cut = example.advantages(rewards, values, last, no, at_two)
    assert ended[1] == 1
    assert cut[1] == pytest.approx(1 + example.GAMMA * 5)
    assert cut[0] == pytest.approx(float(cut[2]) + example.GAMMA * example.LAMBDA * float(cut[1]))
