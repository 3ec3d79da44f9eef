"""The directory of a run: what is damaged in it is told in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import BadInput
from paceline.records import PLAN, Records, read_plan

ASKED = {"identity": {"seed": 1, "policy": {"model": "m", "top_p": 0.5}}, "files": {"a.py": "1"}}


@pytest.mark.parametrize("written", ["[]", "3", "null", '{"identity": 3}', '{"identity": {}, "files": []}'])
def test_a_plan_that_is_none_is_told(tmp_path: Path, written: str) -> None:
    (tmp_path / PLAN).write_text(written)
    with pytest.raises(BadInput, match=r"plan\.json is damaged"):
        read_plan(tmp_path)
    with pytest.raises(BadInput, match=r"plan\.json is damaged"):
        Records(tmp_path, "lines.jsonl", ASKED, resume=True)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"seed": 2}, "there seed is 1, and here 2; ask for the same again, or begin afresh"),
        ({"policy": {"model": "m", "top_p": 0.9}}, r"there policy\.top_p is 0\.5, and here 0\.9"),
        ({"policy": {"model": "m"}}, r"there policy\.top_p is 0\.5, and here None"),
        ({"policy": "random"}, "and here 'random'"),
        ({"more": 1}, "there more is None, and here 1"),
    ],
)
def test_what_differs_is_told_by_its_name(tmp_path: Path, asked: dict[str, object], told: str) -> None:
    Records(tmp_path, "lines.jsonl", ASKED).close()
    Records(tmp_path, "lines.jsonl", ASKED, resume=True).close()
    with pytest.raises(BadInput, match=told):
        Records(tmp_path, "lines.jsonl", {"identity": {**ASKED["identity"], **asked}}, resume=True)
