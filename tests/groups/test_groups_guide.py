"""What docs/groups.md shows, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from text_worlds import config

from paceline.catalog.text_envs import find_text_env

GUIDE = (Path(__file__).parents[2] / "docs" / "groups.md").read_text(encoding="utf-8")


def block(of: str) -> str:
    """The Python block that has these words in it."""
    return next(code for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if of in code)


def test_an_environment_of_ones_own_needs_nothing_that_is_not_shown() -> None:
    exec(block("class Guess"), {})
    env = find_text_env("guess")({"most": 1})
    assert env.reset(seed=1) == "Guess."
    assert env.step("0") == ("Right.", 1.0, True, {"success": True})


def test_a_test_server_plays_as_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {**config({"SimpleSokoban": 1}, base=5), "agent_proxy": {"max_turn": 10}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.chdir(tmp_path)
    shown: dict[str, Any] = {}
    exec(block("LlmServer(answer=ExpertChat()"), shown)
    assert [state["metrics"]["SimpleSokoban/success"] for state in shown["played"].states] == [1.0, 1.0]
