"""`paceline describe`: options with their defaults and meanings."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from paceline.cli import listing
from paceline.cli._options import Option, arguments, options_of
from paceline.cli.app import run as run_here


def told(capsys: pytest.CaptureFixture[str], name: str) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paceline", "describe", name])
        assert run_here() == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_the_options_of_a_built_in_mission(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "forage-duel,regrow=9")
    assert "agents=2 How many agents there are." in lines
    assert "steps=300 How long an episode is." in lines
    assert "regrow=9 How many steps a bush needs to be ripe again." in lines
    assert not any(line.startswith("render_mode") for line in lines)


def test_the_options_of_a_game_in_ordered_turns(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "treasure_hunt,turn=ordered")
    assert 'turn=\'ordered\' "simultaneous" or "ordered".' in lines
    assert any(line.startswith("gems=None How many gems") for line in lines)


def test_the_options_of_policies(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "torch,kw.sharpness=2")
    assert "kw.sharpness=2 Likelihoods are raised to this power; None: always the likeliest action." in lines
    assert any(line.startswith("weights=None An .npz file") for line in lines)
    assert not any(line.startswith(("seat", "kw.seat")) for line in lines)
    assert told(capsys, "random")[-1] == "none"
    assert "weights='' The file that the model was saved to." in told(capsys, "sb3:PPO")


def test_gymnasiums_own_keywords_count_before_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert "map_name='8x8'" in told(capsys, "gym:FrozenLake8x8-v1")


def test_a_world_is_described_by_its_first_line_and_an_environment_that_begins_with_a_heading_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(capsys, "Wind-v0")[0].startswith("mission gym:Wind-v0: Go from the origin to (0, 1)")
    assert told(capsys, "gym:CartPole-v1")[0] == "mission gym:CartPole-v1: no description"


def test_an_environment_that_ends_its_process_or_never_comes_back_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text("import time\ndef make():\n    time.sleep(1000)\n")
    monkeypatch.setattr(listing, "_PATIENCE", 1.0)
    for name in ("deadly_worlds:DiesWhenBuilt", f"{tmp_path}/slow.py:make"):
        monkeypatch.setattr(sys, "argv", ["paceline", "describe", name])
        assert run_here() == 2
        said = capsys.readouterr().err
        assert "makes no environment: to make it ends the process, or takes too long: the attempt" in said, said


def test_worlds_with_tasks_are_listed_with_the_missions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paceline", "missions"])
        assert run_here() == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert "with tasks, for collect and meta: PointRobot-v0, PointRobot-H20-v0" in listed


def makes(first: int, second: str = "b", *, third: object = None) -> None:
    """Makes something.

    Args:
        first: The first of
            all of them: it goes on.
        second (str): The second.

    Returns:
        nothing: at all.
    """


def test_meanings_are_read_from_the_docstring() -> None:
    assert arguments(makes.__doc__.replace("\n    ", "\n")) == {  # type: ignore[union-attr]
        "first": "The first of all of them: it goes on.",
        "second": "The second.",
    }
    assert arguments("No arguments at all.") == {}
    assert options_of(partial(makes, second="c"), {"first": 1}) == [
        Option("first", "1", "The first of all of them: it goes on."),
        Option("second", "'c'", "The second."),
        Option("third", "None", ""),
    ]
    assert options_of(makes, {"more": 1})[0] == Option("first", "", "The first of all of them: it goes on.")
    assert options_of(makes, {"more": 1})[-1] == Option("more", "1", "")
