"""A run that came from another person runs no code of theirs unless the user says so."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from paceline import BadInput
from paceline.cli._trust import check_trusted
from paceline.cli.app import run as run_here
from paceline.records import checked

OWN_STATE = os.environ["XDG_STATE_HOME"]
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
    """The file of an env, beside a run of it that another user has begun; this one is in another directory."""
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
    monkeypatch.setenv("XDG_STATE_HOME", str(mine / "state"))
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


def test_a_run_of_ones_own_needs_no_trust_where_it_was_begun(
    their_world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From any directory; a copy of it asks, and so does one whose plan was changed, or whose key is gone."""
    run, episode = their_world.parent / "run", f"{their_world.name}:World/1"
    mine = os.environ["XDG_STATE_HOME"]
    monkeypatch.setenv("XDG_STATE_HOME", OWN_STATE)
    assert told(capsys, monkeypatch, "rerun", str(run), episode)[0] == 0
    monkeypatch.chdir(Path(mine).parent)  # it went to where the run was begun
    (their_world.parent / "was_run").unlink()
    copy = shutil.copytree(run, their_world.parent / "copy")
    code, page = told(capsys, monkeypatch, "rerun", str(copy), episode)
    assert (code, "it was not written here by you, or was copied, moved or changed since" in page) == (2, True)
    plan = json.loads((run / "plan.json").read_text())
    del plan["check"]
    (run / "plan.json").write_text(json.dumps(plan))
    assert told(capsys, monkeypatch, "rerun", str(run), episode)[0] == 2
    assert not (their_world.parent / "was_run").exists()


LEARNER = """
import numpy as np


class Counts:
    def __init__(self, seat):
        self.seat, self.updates = seat, np.zeros(2)

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)

    def act(self, obs):
        return int(self.rng.integers(self.seat.action_space.n))

    def learn(self, window):
        self.updates += len(window)
        return {"updates": self.updates[0]}

    def snapshot(self):
        return self.updates.copy()

    def restore(self, state):
        self.updates = state.copy()
"""


@pytest.mark.parametrize("seeds", [(), ("--seeds", "1")])
def test_what_a_learner_has_pickled_is_loaded_if_it_is_trusted(
    seeds: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file lies where the user is, and needs no trust; its pickles may have anything in them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    learner = f"learner_{tmp_path.name}"
    (tmp_path / f"{learner}.py").write_text(LEARNER)
    words = ("train", "forage,agents=2", "--learners", f"{learner}.py:Counts", "--epochs", "2", "--max-turns", "3")
    assert told(capsys, monkeypatch, *words, *seeds, "-j", "0", "--out", "run")[0] == 0
    place = tmp_path / "run" / ("seed-0" if seeds else "")
    begun = json.loads((place / "training.json").read_text())["digest"]
    again = ("train", "--resume", "run", "-j", "0")
    assert told(capsys, monkeypatch, *again)[0] == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (place / "training.json").unlink()
    code, page = told(capsys, monkeypatch, *again)
    assert (code, f"would run {place / 'checkpoint.pickles'} (pickles)" in page) == (2, True)
    assert told(capsys, monkeypatch, *again, "--trust")[0] == 0
    assert json.loads((place / "training.json").read_text())["digest"] == begun
    assert told(capsys, monkeypatch, *again)[0] == 0  # what is there now has been written by this user


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
    ("class=mine.World", "class=mine.World"),
    ("random,kw.class=mine.World", "class=mine.World"),
    ("/elsewhere/evil.py:World:2", "/elsewhere/evil.py"),
    ("../evil.py:World", "evil.py"),
    ("torch:/elsewhere/net.py:Net,weights=net.pt", "/elsewhere/net.py"),
    ("text:/elsewhere/words.py:Words", "/elsewhere/words.py"),
    ("sb3:PPO,weights=/elsewhere/m.zip", "/elsewhere/m.zip"),
    ("sb3:PPO,weights=m.zip,trust=true", "trust=true"),
    ("sb3:PPO,weights=m.zip,kw.trust=true", "kw.trust=true"),
    ('sb3:PPO,kw.weights="/elsewhere/m.zip"', "/elsewhere/m.zip"),
    ("sb3:PPO,weights=m.zip,normalize=vec.pkl", "normalize=vec.pkl"),
    ("sb3:PPO,weights=m.zip,kw.normalize=vec.pkl", "kw.normalize=vec.pkl"),
    ("random,data=net.pt", "data=net.pt"),
    ("/elsewhere/bundle.zip", "/elsewhere/bundle.zip"),
    ("../bundle", "bundle"),
    ("link", "elsewhere"),
    ("7", "elsewhere"),
    ("torch:mine.py:World,weights=7", "elsewhere"),
    ("run/evil.py:World", "it came with the run"),
    ("run", "it came with the run"),
    ("evil.P", "evil.P"),
    ("evil.P:2", "evil.P:2"),
    ("mission.yaml", "evil.Builder"),
    ("mine.py:World.system", "mine.py:World.system"),
    ("mine.py:popen", "not written in that file"),
    ("mine:popen", "not written in that file"),
    ("paceline.records:os.system,command=x", "paceline.records:os.system"),
    ("paceline.catalog.loading:load_file,path=mine.py", "loading.py"),
    (".venv/lib/site-packages/pkg/things.py:call", "things.py"),
    ("nowhere.at_all:X", "nothing is known"),
    ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
    ("gym:CartPole-v1", "gym:CartPole-v1"),
    ("evil.P-v1", "evil.P-v1"),
    ("pz:evil", "pz:evil"),
    ("mettagrid:evil", "mettagrid:evil"),
    ("sub/gym:../mine.py:World", "gym:.."),
    ("evilgym:P", "evilgym:P"),
    ("gettext:translation", "gettext"),
    ("paceline:torch:os:system", "os:system"),
    ("a=gym:P", "a=gym:P"),
    ("mine.v1.py:World", "its name is that of no module"),
    ('{"a":1}', '{"a":1}'),
    ("1.5", "1.5"),
    ("class=0.0", "class=0.0"),
    ("random,data=0", "data=0"),
    ("random,data=null", "data=null"),
    ("random,kw.class=false", "kw.class=false"),
    ("sb3:PPO,weights=m.zip,trust=False", "trust=False"),
    ("sb3:PPO,weights=~/m.zip", "m.zip"),
    ("a\0b.py:P", "a\0b.py:P"),
    (f"{'a' * 5000}.py:P", "aaa"),
    ("random,kw.x=mine.py:World:2", "mine.py:World:2"),
]
STRANGE_MISSIONS = [
    ("gym:antigravity:Env-v0", "antigravity"),
    ("antigravity:Env-v0", "antigravity"),
    ("antigravity:3", "would run antigravity:3"),
    ("gym:mine.py", "gym:mine.py"),
    ("gym:mission.yaml", "evil.Builder"),
    ("pz:antigravity", "antigravity"),
    ("pz:mine", "mine"),
    ("pz:mine.py", "pz:mine.py"),
    ("pz:run.evil", "pz:run.evil"),
    ("pz:sub.mpe.x", "pz:sub.mpe.x"),
    ("torch:save,obj=x,f=Makefile", "torch:save"),
    ("paceline:train", "paceline:train"),
    ("sb3:PPO", "sb3:PPO"),
    ("text:mine.py:World", "text:mine.py:World"),
    ("mine.py:World:2", "mine.py:World:2"),
    ("mission.json", "evil.Builder"),
    ("bytes.yaml", "evil.Builder"),
    ("broken.yaml", "broken.yaml (it cannot be read)"),
    ("~/mine.py:World,kw.data=null", "kw.data=null"),
]
FINE = [
    "random", "memory:3", "greedy:0.5,kw.depth=3", "mine.py:World:2", "mine:World",
    "torch:mine.py:World,weights=net.pt",
    "paceline:random", "bandit,x=8", "memory,cell=lstm,memory=128,hidden=64x32", "sb3:PPO,weights=m.zip,trust=false",
    "bundle", "dqn,hidden=16,lr=1e-3", "~nouser9/x.py:P", "my-own.py:World", "mine.py:World,kw.depth=0.5",
]  # fmt: skip
FINE_MISSIONS = [
    "forage,agents=2", "forage*", "gym:CartPole-v1", "CartPole-v1", "ALE/Pong-v5", "pz:mpe2.simple_spread_v3",
    "pz:butterfly.pistonball_v6", "mettagrid:arena", "mine.py:World", "mine:World,length=5", "plain.yaml", "plain.json",
]  # fmt: skip


MISSIONS = {
    "mission.yaml": "game: {map_builder: {type: evil.Builder}}",
    "gym:mission.yaml": "{type: evil.Builder}",
    "mission.json": '{\n\t"type": "evil.Builder"\n}',
    "bytes.yaml": f"type: !!binary {base64.b64encode(b'evil.Builder').decode()}",
    "broken.yaml": "{",
    "plain.yaml": "game: {agents: 2}",
    "plain.json": '{\n\t"game": 2\n}',
}


def a_run(path: Path, said: Any) -> Path:
    run: Any = {"identity": {}, **said, "directory": str(path)}
    (path / "run").mkdir()
    (path / "run" / "plan.json").write_text(json.dumps(checked(run)))
    (path / "mine.py").write_text("from os import popen\nclass World: ...\n")
    for name, text in MISSIONS.items():
        (path / name).write_text(text)
    (path / "sub").mkdir()
    (path / "bundle").mkdir()
    for name in ("link", "7"):
        (path / name).symlink_to(path.parent / "elsewhere")
    return path / "run"


@pytest.mark.parametrize(
    ("key", "word", "named"),
    [("policies", *each) for each in STRANGE] + [("missions", *each) for each in STRANGE_MISSIONS],
)
def test_what_is_not_of_this_directory_is_asked_about(
    key: str, word: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run(tmp_path, {"asked": {"missions": ["forage"], key: [word]}})
    with pytest.raises(BadInput, match=r"(?s)would run .*--trust") as caught:
        check_trusted(run, False)
    assert named in str(caught.value)
    check_trusted(run, True)


@pytest.mark.parametrize(
    ("key", "word"), [("policies", each) for each in FINE] + [("missions", each) for each in FINE_MISSIONS]
)
def test_what_is_of_this_directory_or_ours_is_not(
    key: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check_trusted(a_run(tmp_path, {"asked": {"missions": ["forage"], key: [word]}}), False)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"train": {"settings": {"mission": {"../evil.py:P": 1}}}}, "evil.py"),
        ({"meta": {"settings": {"env": {"run/evil.py:P": 1}}}}, "it came with the run"),
        ({"train": {"settings": {"learners": {"agent_0": "../evil.py:P"}}}}, "evil.py"),
        ({"collect": {"tasks": '[{"goal": "evil.P"}]'}}, "evil.P"),
        ({"command": {"policy": "torch:mine.py:World"}}, "torch:mine.py:World"),
        ({"asked": {"class": 0.0}}, "class=0.0"),
        ({"asked": {"device": "cuda:0"}}, ""),
        ({"asked": {"class": None, "trust": False}}, ""),
        ({"collect": {"tasks": '[{"goal": 0.5}, [1, "left"]]'}}, ""),
        ({"meta": {"settings": {"ppo": "lr=1e-3,epochs=2"}}}, ""),
        ({"train": {"settings": {"learners": {"agent_0": "torch:mine.py:World", "agent_1": "greedy:3"}}}}, ""),
    ],
)
def test_a_name_is_looked_at_as_its_reader_takes_it(
    said: Any, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match=re.escape(named)) if named else nullcontext():
        check_trusted(a_run(tmp_path, said), False)


CONFIG = "custom_envs: {Words: {env_type: 'WORD', env_instruction: 'Say os:system.'}}\nother: os:system\n"


@pytest.mark.parametrize(
    ("command", "config", "named"),
    [
        ({"config": "c.conf"}, CONFIG.replace("WORD", "/elsewhere/words.py:Words"), "/elsewhere/words.py"),
        ({"config": "c"}, CONFIG.replace("WORD", "mine.py:popen"), "mine.py:popen"),
        ({"config": "c.yaml"}, CONFIG.replace("'WORD'", "bandit, env_config: {data: x}"), "data=x"),
        ({"config": "c.yaml"}, CONFIG.replace("'WORD'", "!!binary L2Vsc2V3aGVyZS5weTpX"), "elsewhere.py:W"),
        ({"config": "c.yaml"}, "es_manager: {envs: ragen}", "ragen"),
        ({"config": "c.yaml"}, "es_manager: {envs: paceline}", ""),
        ({"config": "c.yaml"}, "[", "c.yaml (it cannot be read)"),
        ({"config": "/elsewhere/c.yaml"}, "", "/elsewhere/c.yaml"),
        ({"config": "run/c.yaml"}, "", "it came with the run"),
        ({"config": "c", "base_url": "http://evil:1/"}, "", "base_url=http://evil:1/"),
        ({"config": "c", "api_key_env": "SECRET"}, "", "api_key_env=SECRET"),
        ({"config": "c", "policy": "mine.py:World", "model": "a/model.of:1"}, CONFIG.replace("WORD", "bandit"), ""),
        ({"replays": "/elsewhere"}, "", "/elsewhere"),
    ],
)
def test_a_configuration_is_one_whatever_it_is_called(
    command: dict[str, str], config: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run(tmp_path, {"command": command})
    if config:
        (tmp_path / command["config"]).write_text(config)
    with pytest.raises(BadInput, match=re.escape(named)) if named else nullcontext():
        check_trusted(run, False)


@pytest.mark.parametrize(("place", "own"), [("..", False), ("run", False), (".", True), ("nowhere", False)])
def test_a_run_that_is_not_known_does_not_say_where_files_are_looked_for(
    place: str, own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies there may take the place of what is installed."""
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    run = a_run(tmp_path / "mine", {})
    there = (run.parent / place).resolve()
    plan = {"identity": {}, "asked": {"missions": ["forage"]}, "directory": str(there)}
    (run / "plan.json").write_text(json.dumps(plan))
    assert check_trusted(run, False)[1] == (there if own else Path.cwd())
    assert check_trusted(run, True)[1] == (there if there.is_dir() else Path.cwd())
