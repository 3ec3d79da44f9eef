"""What a file may say about a training."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.cli._training import asked_now
from paceline.errors import BadInput


def given(file: Path) -> dict[str, object]:
    """The flags of `paceline train FILE`."""
    return {"mission": str(file), **dict.fromkeys(("plan", "jobs", "seeds", "turns", "tensorboard"))}


def test_only_what_a_file_says_is_given(tmp_path: Path) -> None:
    """Defaults stay those of `train`."""
    file = tmp_path / "hunt.yaml"
    file.write_text("mission: treasure_hunt\nepochs: 3\npriority: {agent_0: 2}\nout: here\nplan: 2\n")
    asked, out = asked_now(given(file))
    assert asked.settings == {"mission": "treasure_hunt", "epochs": 3, "priority": {"agent_0": 2.0}}
    assert (asked.jobs, out) == ("2", "here")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mission: a\nlags: 1", "lags is not known; did you mean lag?"),
        ("mission: a\nresume: true", "resume is not known"),
        ("mission: a\nseed: -1", "seed=-1; give a whole number, 0 or more"),
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
        asked_now(given(file))
    assert str(file) in str(refused.value)
    assert why in str(refused.value)
