"""Learning curves, and what TensorBoard shows."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from paceline import train
from paceline.errors import BadInput
from paceline.report import Board, draw_agents, draw_seeds
from paceline.report.curves import smoothed

PNG = b"\x89PNG\r\n"


def test_a_curve_is_a_moving_mean_over_a_twentieth() -> None:
    """Few epochs are drawn as they are; of forty, two at a time are averaged."""
    few, many = np.array([[1.0], [3.0]]), np.arange(40.0)[:, None]
    np.testing.assert_array_equal(smoothed(few), few)
    np.testing.assert_array_equal(smoothed(many), np.arange(39.0)[:, None] + 0.5)


def test_curves_are_pictures(tmp_path: Path) -> None:
    """One for agents, one for seeds with a band; without matplotlib the error says what to install."""
    agents, seeds, rewards = tmp_path / "agents.png", tmp_path / "seeds.png", np.ones((5, 2))
    if find_spec("matplotlib") is None:
        with pytest.raises(BadInput, match=r"paceline\[report\]"):
            draw_agents(rewards, ["a", "b"], agents)
        return
    draw_agents(rewards, ["a", "b"], agents)
    draw_seeds([[1.0, 2.0], [3.0, 4.0]], lambda values: max(values) - min(values), seeds)
    assert [path.read_bytes()[:6] for path in (agents, seeds)] == [PNG, PNG]


def test_tensorboard_shows_each_epoch_and_update_once(tmp_path: Path) -> None:
    """Also if a training is written a second time; without TensorBoard the error says what to install."""
    if find_spec("tensorboard") is None:
        with pytest.raises(BadInput, match="pip install tensorboard"):
            Board(tmp_path)
        return
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        board = Board(tmp_path)
        words = ("treasure_hunt,size=9,steps=10", "dqn,hidden=16")
        board.finish(train(*words, epochs=4, train_interval=2, plan="inline", watcher=board.tell))
    shown = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in shown.Scalars("reward/mean")] == [0, 1, 2, 3]
    assert [event.step for event in shown.Scalars("loss/agent_3")] == [0, 1]
