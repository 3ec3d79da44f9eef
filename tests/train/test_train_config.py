"""What a file may say about a training."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from paceline import train
from paceline.errors import BadInput
from paceline.train.config import Config, read_config

NOT_IN_FILES = {"resume", "trace", "watcher", "recorder", "asked"}


def test_a_file_has_the_keywords_of_train() -> None:
    """All of them but those that are objects, or that go on with a run."""
    assert set(Config.model_fields) == set(inspect.signature(train).parameters) - NOT_IN_FILES


def test_only_what_a_file_says_is_given(tmp_path: Path) -> None:
    """Defaults stay those of `train`."""
    file = tmp_path / "hunt.yaml"
    file.write_text("mission: treasure_hunt\nepochs: 3\npriority: {agent_0: 2}\n")
    assert read_config(file) == {"mission": "treasure_hunt", "epochs": 3, "priority": {"agent_0": 2.0}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mission: a\nlags: 1", "train.lags is not known; did you mean lag?"),
        ("mission: a\nseed: -1", "train.seed is -1"),
        ("mission: a\nlearners: [dqn]", "train.learners"),
        ("epochs: 3", "has no mission"),
        ("- 3", "holds a list"),
        ("", "is empty"),
        ("a: [", "is not YAML"),
    ],
)
def test_what_does_not_fit_is_named_with_its_file(tmp_path: Path, text: str, why: str) -> None:
    """The message has the file and the key."""
    file = tmp_path / "hunt.yaml"
    file.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_config(file)
    assert str(file) in str(refused.value)
    assert why in str(refused.value)
