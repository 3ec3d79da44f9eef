"""A run that came from another person runs no code of theirs unless the user says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline import BadInput
from paceline.cli._trust import check_trusted
from paceline.cli.app import run as run_here
from paceline.records import checked

ENV = """
from pathlib import Path

import gymnasium
import numpy as np

Path(__file__).with_name("was_run").touch()


class World(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {}
"""


def told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["paceline", *words])
    code = run_here()
    page = capsys.readouterr()
    return code, page.out + page.err


@pytest.fixture
def their_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The file of an env, beside a run of it; the user is in another directory."""
    place, mine = tmp_path / "theirs", tmp_path / "mine"
    place.mkdir()
    mine.mkdir()
    world = f"world_{tmp_path.name}"  # a module of a test of its own
    (place / f"{world}.py").write_text(ENV)
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [*sys.path])
    run = ("eval", "-m", f"{world}.py:World", "-p", "random", "-e", "2", "-j", "0", "--out", "run")
    assert told(capsys, monkeypatch, *run)[0] == 0
    (place / "was_run").unlink()
    monkeypatch.delitem(sys.modules, world, raising=False)
    monkeypatch.chdir(mine)
    return place / f"{world}.py"


@pytest.mark.parametrize("words", [("rerun", "RUN", "EPISODE"), ("eval", "--resume", "RUN", "-j", "0")])
def test_code_of_another_place_is_run_if_it_is_trusted(
    words: tuple[str, ...], their_world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, names = their_world.parent, {"EPISODE": f"{their_world.name}:World/1"}
    asked = [names.get(word, word) if word != "RUN" else str(place / "run") for word in words]
    code, page = told(capsys, monkeypatch, *asked)
    assert code == 2
    assert f"would run {their_world} (not in this directory)" in page
    assert "--trust" in page
    assert not (their_world.parent / "was_run").exists()
    assert told(capsys, monkeypatch, *asked, "--trust")[0] == 0
    assert (their_world.parent / "was_run").exists()


def test_code_that_has_changed_is_played_again_if_it_is_trusted(
    their_world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(their_world.parent)
    episode = f"{their_world.name}:World/1"
    assert told(capsys, monkeypatch, "rerun", "run", episode)[0] == 0
    their_world.write_text(ENV.replace("1.0, True", "2.0, True"))
    (their_world.parent / "was_run").unlink()
    monkeypatch.delitem(sys.modules, their_world.stem, raising=False)
    code, page = told(capsys, monkeypatch, "rerun", "run", episode)
    assert (code, f"{their_world.name} (it has changed since the run was begun)" in page) == (2, True)
    assert not (their_world.parent / "was_run").exists()


STRANGE = [
    ("os:system", "os:system"),
    ("mine.py:World,then=subprocess:run", "subprocess:run"),
    ("class=subprocess.Popen,data=x", "subprocess.Popen"),
    ("/elsewhere/evil.py:World:2", "/elsewhere/evil.py"),
    ("../evil.py:World", "evil.py"),
    ("torch:/elsewhere/net.py:Net,weights=net.pt", "/elsewhere/net.py"),
    ("text:/elsewhere/words.py:Words", "/elsewhere/words.py"),
    ("gym:antigravity:Env-v0", "antigravity"),
    ("sb3:PPO,weights=/elsewhere/m.zip,trust=true", "/elsewhere/m.zip"),
    ("sb3:PPO,weights=m.zip,normalize=/elsewhere/vec.pkl", "/elsewhere/vec.pkl"),
    ("/elsewhere/bundle.zip", "/elsewhere/bundle.zip"),
    ("run/evil.py:World", "it came with the run"),
    ("config.yaml", "/elsewhere/words.py"),
]
FINE = [
    "forage,agents=2", "random", "memory:3", "gym:CartPole-v1", "CartPole-v1", "mine.py:World:2", "mine:World",
    "paceline.policies.memory:Memory", "sb3:PPO,weights=/elsewhere/m.zip", "http://127.0.0.1:8000/v1", "bandit,x=8",
    "sb3:PPO,weights=m.zip,trust=true", "pz:mpe2.simple_spread_v3", "mettagrid:arena", "nowhere.at_all:X",
]  # fmt: skip


def a_run(path: Path, word: str) -> Path:
    run: Any = {"identity": {}, "asked": {"missions": [word], "policies": ["random"]}, "directory": str(path)}
    (path / "run").mkdir()
    (path / "run" / "plan.json").write_text(json.dumps(checked(run)))
    (path / "mine.py").touch()
    (path / "config.yaml").write_text("custom_envs: {Words: {env_type: '/elsewhere/words.py:Words'}}\n")
    return path / "run"


@pytest.mark.parametrize(("word", "named"), STRANGE)
def test_what_is_not_of_this_directory_is_asked_about(
    word: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run(tmp_path, word)
    with pytest.raises(BadInput, match=r"would run .*--trust") as caught:
        check_trusted(run, False)
    assert named in str(caught.value)
    check_trusted(run, True)


@pytest.mark.parametrize("word", FINE)
def test_what_is_of_this_directory_or_ours_is_not(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_trusted(a_run(tmp_path, word), False)
