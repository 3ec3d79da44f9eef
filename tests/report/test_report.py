"""Learning curves, and what TensorBoard shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paceline import train
from paceline.errors import BadInput
from paceline.report import Board, draw_agents, draw_seeds
from paceline.report.curves import can_draw, smoothed


def test_a_curve_is_a_moving_mean_over_a_twentieth() -> None:
    """Few epochs are drawn as they are; of forty, two at a time are averaged."""
    few, many = np.array([[1.0], [3.0]]), np.arange(40.0)[:, None]
    np.testing.assert_array_equal(smoothed(few), few)
    np.testing.assert_array_equal(smoothed(many), np.arange(39.0)[:, None] + 0.5)


def test_curves_are_pictures(tmp_path: Path) -> None:
    """One for agents, one for seeds with a band: something is drawn in each, and not the same."""
    agents, seeds = tmp_path / "agents.png", tmp_path / "seeds.png"
    draw_agents(np.arange(10.0).reshape(5, 2), ["a", "b"], agents)
    draw_seeds([[1.0, 2.0], [3.0, 4.0]], lambda values: max(values) - min(values), seeds)
    pictures = [np.asarray(Image.open(path).convert("RGB")) for path in (agents, seeds)]
    assert [picture.shape for picture in pictures] == [(600, 960, 3)] * 2
    assert all(len(np.unique(picture.reshape(-1, 3), axis=0)) > 10 for picture in pictures)
    assert not np.array_equal(*pictures)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agents.png", "seeds.png"]


def test_what_is_missing_for_pictures_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setattr("paceline.report.curves.find_spec", lambda name: None)
    assert not can_draw()
    with pytest.raises(BadInput, match=r"paceline\[report\]"):
        draw_agents(np.ones((5, 2)), ["a", "b"], tmp_path / "agents.png")
    monkeypatch.setattr("paceline.report.board.find_spec", lambda name: None)
    with pytest.raises(BadInput, match="pip install tensorboard"):
        Board(tmp_path)


def test_tensorboard_shows_each_epoch_and_update_once(tmp_path: Path) -> None:
    """Also if a training is written a second time: with the numbers of the training."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):
        board = Board(tmp_path)
        words = ("treasure_hunt,size=9,steps=10", "dqn,hidden=16")
        training = train(*words, epochs=4, train_interval=2, plan="inline", watcher=board.tell)
        board.finish(training)
    shown = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in shown.Scalars("reward/mean")] == [0, 1, 2, 3]
    assert [event.step for event in shown.Scalars("loss/agent_3")] == [0, 1]
    assert [event.value for event in shown.Scalars("loss/agent_3")] == pytest.approx(training.losses["agent_3"])
    assert [event.value for event in shown.Scalars("reward/agent_0")] == pytest.approx(training.rewards[:, 0].tolist())
