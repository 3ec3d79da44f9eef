"""Directories of runs that an attacker has made: nothing in them runs code of his unless the user says `--trust`.

Each payload leaves a mark where it is run. The attacker knows everything but the user's key: plan.json and checkpoint
carry the checks of their content that they must have.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pickle
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_directories import READERS, called, of_another_user

from paceline.checkpoints import ARRAYS, FILE, PICKLES, Checkpoints
from paceline.records import checked
from paceline.trees import Apart

EVIL = "import os\nos.mkdir({mark!r})\nclass P: ...\ndef make(*_, **__): ...\n"


class Payload:
    """Leaves a mark where its pickle is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


class Attack:
    """A run of an attacker's, in a directory of his with more in it, and the mark that his code would leave.

    Args:
        run: The run.
        mark: What must not be there.
    """

    def __init__(self, run: Path, mark: Path) -> None:
        self.run, self.mark, self.home = run, mark, run.parent
        self.module = f"evil_{os.path.basename(self.home)}".replace("-", "_")
        (self.home / f"{self.module}.py").write_text(EVIL.format(mark=str(mark)))

    def plan(self, **changes: Any) -> None:
        """Writes a plan that asks for something else, with the check that it must have."""
        plan = json.loads((self.run / "plan.json").read_text())
        plan = {key: value for key, value in plan.items() if key not in ("check", "mark")}
        for kind in ("asked", "command", "collect", "train", "meta"):
            if kind in plan:
                plan[kind].update(changes.get(kind, {}))
        plan["directory"] = changes.get("directory", str(self.home))
        (self.run / "plan.json").write_text(json.dumps(checked(plan)))

    def file(self, name: str) -> str:
        """Another file with his code, from the directory in which the user is."""
        path = Path.cwd() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.home / f"{self.module}.py", path)
        return name

    def bundle(self, name: str) -> str:
        """A bundle of mettagrid whose class is the attacker's."""
        shutil.copytree(self.home, self.home / name, ignore=lambda *_: ["run", "mark"])
        (self.home / name / "policy_spec.json").write_text(json.dumps({"class_path": f"{self.module}.P"}))
        return name

    def model(self, name: str) -> str:
        """A model of Stable-Baselines3 with a pickle in it."""
        code = base64.b64encode(pickle.dumps(Payload(self.mark))).decode()
        with zipfile.ZipFile(self.home / name, "w") as file:
            file.writestr("data", json.dumps({"policy_class": {":type:": "x", ":serialized:": code}}))
            file.writestr("_stable_baselines3_version", "2.0")
        return name

    def weights(self, name: str) -> str:
        torch.save(Payload(self.mark), self.home / name)
        return name


@pytest.fixture
def attack(
    their_runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Attack]]:
    """Makes the attacker's copy of a run of a kind; the user is in a directory of his own."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "mine").mkdir()
    shutil.copy(their_runs["rollout"].parent / "config.yaml", tmp_path / "theirs")
    monkeypatch.chdir(tmp_path / "mine")
    known = set(sys.modules)
    yield lambda kind: Attack(shutil.copytree(their_runs[kind], tmp_path / "theirs" / "run"), tmp_path / "mark")
    for name in set(sys.modules) - known:
        if "evil" in name:
            del sys.modules[name]


def asked(attack: Attack, *words: str) -> None:
    """Sees to it that a command asks, names what would run, and has run nothing."""
    code, page = called(*(str(attack.run) if word == "RUN" else word for word in words))
    assert (code, "--trust" in page, "Traceback" in page) == (2, True, False), page
    assert not attack.mark.exists()


NAMES: dict[str, Callable[[Attack], str]] = {
    "a file": lambda attack: f"{attack.module}.py:make",
    "a file of the run": lambda attack: shutil.copy(attack.home / f"{attack.module}.py", attack.run) + ":make",
    "a module": lambda attack: f"{attack.module}:make",
    "a module and a number": lambda attack: f"{attack.module}:1",
    "an id of a module": lambda attack: f"gym:{attack.module}:Env-v0",
    "an id of a module, bare": lambda attack: f"{attack.module}:Env-v0",
    "an env of PettingZoo": lambda attack: f"pz:{attack.module}",
    "a function behind one of ours": lambda attack: f"paceline.records:os.mkdir,path={attack.mark}",
    "a function of ours that imports": lambda attack: (
        f"paceline.catalog.loading:load_file,path={attack.module}.py,target=x"
    ),
}
IN_THE_RUN: dict[str, tuple[str, Callable[[Attack], str]]] = {
    "a kind inside of a word": ("theirs", lambda attack: attack.file("run/gym:../x.py") + ":make"),
    "a kind behind a name": ("theirs/run", lambda attack: attack.file("evilgym.py")[:-3] + ":make"),
    "a file whose name is JSON": ("theirs/run", lambda attack: attack.file('{"a".py')[:-3] + ":1}"),
    "an option for a name": ("theirs/run", lambda attack: attack.file("a=gym.py")[:-3] + ":P"),
    "an option that is a number": ("theirs/run", lambda attack: "class=" + attack.file("0.py")[:-2] + "0"),
    "a package without a file": ("theirs", lambda attack: "pz:" + attack.file("run/x.py")[:-3].replace("/", ".")),
    "a module of PettingZoo": ("theirs/run", lambda attack: "pz:" + attack.file("evil_z.py")[:-3]),
}
ENVS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "eval": lambda name: {"asked": {"missions": [name]}},
    "collect": lambda name: {"collect": {"env": name}},
    "train": lambda name: {"train": {"settings": {"mission": name, "epochs": 2}}},
    "meta": lambda name: {"meta": {"settings": {"env": name}}},
}


@pytest.mark.parametrize("named", NAMES)
@pytest.mark.parametrize(
    ("kind", "words"), [(kind, words) for kind in ENVS for words in READERS[kind] if words[0] != "compare"]
)
def test_a_world_is_code(attack: Callable[[str], Attack], kind: str, words: tuple[str, ...], named: str) -> None:
    mine = attack(kind)
    mine.plan(**ENVS[kind](NAMES[named](mine)))
    asked(mine, *words)


@pytest.mark.parametrize("named", IN_THE_RUN)
@pytest.mark.parametrize("key", ["missions", "policies"])
def test_what_lies_in_a_run_is_code_in_whatever_words(
    attack: Callable[[str], Attack], key: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user has gone there, or to the directory above it, and modules are found."""
    mine, (place, name) = attack("eval"), IN_THE_RUN[named]
    monkeypatch.chdir(mine.home.parent / place)
    monkeypatch.syspath_prepend("")
    mine.plan(asked={key: [name(mine)]}, directory=str(Path.cwd()))
    code, page = called("rerun", str(mine.run), "forage,agents=2/1")
    assert (code, "Traceback" in page) == (2, False), page
    assert not mine.mark.exists()


@pytest.mark.parametrize("kind", ["train", "meta"])
def test_a_mapping_is_looked_at_with_its_keys(attack: Callable[[str], Attack], kind: str) -> None:
    mine = attack(kind)
    mine.plan(**ENVS[kind]({f"{mine.home / mine.module}.py:make": 1}))
    code, page = called(kind, "--resume", str(mine.run), "-j", "0")
    assert (code, "Traceback" in page) == (2, False), page
    assert not mine.mark.exists()


def test_a_module_that_is_installed_is_no_world(attack: Callable[[str], Attack]) -> None:
    """It is called with the options that the plan says, and may write files."""
    mine = attack("eval")
    Path("Makefile").write_text("all:")
    mine.plan(asked={"missions": ["torch:save,obj=boo,f=Makefile"]}, directory=str(Path.cwd()))
    asked(mine, *READERS["eval"][0])
    assert Path("Makefile").read_text() == "all:"


@pytest.mark.parametrize("kind", ["eval", "collect", "train", "meta", "rollout"])
def test_the_plan_that_was_looked_at_is_gone_on_with(
    attack: Callable[[str], Attack], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one is put in its place as soon as it is read."""
    mine = attack(kind)
    monkeypatch.chdir(mine.home)
    mine.plan()
    harmless = (mine.run / "plan.json").read_text()
    name = mine.file("run/evil_late.py") + ":make"
    mine.plan(**(ENVS[kind](name) if kind in ENVS else {"command": {"policy": name}}))
    (mine.run / "plan.json").replace(mine.home / "evil.json")
    (mine.run / "plan.json").write_text(harmless)
    read = Path.read_text

    def exchanged(path: Path, *args: Any, **kwargs: Any) -> str:
        text = read(path, *args, **kwargs)
        if path.name == "plan.json" and (mine.home / "evil.json").exists():
            (mine.home / "evil.json").replace(path)
        return text

    monkeypatch.setattr(Path, "read_text", exchanged)
    _, page = called(*(str(mine.run) if word == "RUN" else word for word in READERS[kind][-1 if kind != "eval" else 1]))
    assert "Traceback" not in page
    assert not (mine.home / "evil.json").exists()
    assert not mine.mark.exists()


POLICIES: dict[str, Callable[[Attack], str]] = {
    "a class path of mettagrid": lambda attack: f"{attack.module}.P",
    "a class": lambda attack: f"class={attack.module}.P",
    "a class, last": lambda attack: f"random,class={attack.module}.P",
    "a bundle without a slash": lambda attack: attack.bundle("bundle"),
    "a bundle that is a number": lambda attack: attack.bundle("7"),
    "a model": lambda attack: f"sb3:PPO,weights={attack.model('m.zip')},trust=true",
    "a model, by a keyword": lambda attack: f"sb3:PPO,weights={attack.model('m.zip')},kw.trust=true",
    "a network": lambda attack: f"torch:{attack.module}.py:P",
    "weights": lambda attack: f"torch:torch.nn:Identity,weights={attack.weights('w.pt')},kw.trust=true",
}


@pytest.mark.parametrize("named", POLICIES)
@pytest.mark.parametrize("words", READERS["eval"][:2])
def test_a_policy_is_code(attack: Callable[[str], Attack], words: tuple[str, ...], named: str) -> None:
    pytest.importorskip("mettagrid")
    mine, policy = attack("eval"), POLICIES[named]
    mission = "CartPole-v1" if "sb3:" in policy(mine) else "mettagrid:empty_room"
    shutil.rmtree(mine.home / "bundle", ignore_errors=True)
    shutil.rmtree(mine.home / "7", ignore_errors=True)
    mine.plan(asked={"missions": [mission], "policies": [policy(mine)]})
    asked(mine, *words)


@pytest.mark.parametrize("kind", ["collect", "train"])
@pytest.mark.parametrize("named", ["a class", "a model, by a keyword", "a network"])
def test_who_collects_and_who_learns_is_code(attack: Callable[[str], Attack], kind: str, named: str) -> None:
    mine = attack(kind)
    name = POLICIES[named](mine)
    settings = {"mission": "forage,agents=2", "learners": {"agent_0": name, "agent_1": "dqn"}, "epochs": 2}
    mine.plan(collect={"policy": name, "random": False}, train={"settings": settings})
    asked(mine, *READERS[kind][0])


@pytest.mark.parametrize("config", ["config.yaml", "config.conf", "config"])
def test_a_configuration_names_code_whatever_it_is_called(attack: Callable[[str], Attack], config: str) -> None:
    """Also if the file itself lies where the user is."""
    mine = attack("rollout")
    text = (mine.home / "config.yaml").read_text()
    evil = text.replace("env_type: bandit", f"env_type: '{mine.home / mine.module}.py:make'")
    for place in (mine.home, Path.cwd()):
        (place / config).write_text(evil)
        mine.plan(command={"config": str(place / config)})
        asked(mine, *READERS["rollout"][0])


@pytest.mark.parametrize(
    ("old", "new"),
    [("env_type: bandit", "env_type: !!binary {}"), ("format_penalty: -0.1", "envs: ragen")],
    ids=["bytes for text", "registries of ragen"],
)
def test_a_configuration_of_ones_own_directory_is_looked_at(
    attack: Callable[[str], Attack], old: str, new: str
) -> None:
    """What its reader makes of it counts."""
    mine = attack("rollout")
    text = (mine.home / "config.yaml").read_text()
    word = base64.b64encode(f"{mine.home / mine.module}.py:make".encode()).decode()
    Path("config.yaml").write_text(text.replace(old, new.format(word)))
    Path("ragen").mkdir()
    mine.file("ragen/env.py")
    mine.plan(command={"config": "config.yaml"}, directory=str(Path.cwd()))
    asked(mine, *READERS["rollout"][0])


def test_a_mission_of_json_is_read_as_json(attack: Callable[[str], Attack]) -> None:
    """Tabs are no YAML."""
    mine = attack("eval")
    mission = {"game": {"map_builder": {"type": f"{mine.module}.P"}}}
    Path("mission.json").write_text(json.dumps(mission, indent="\t"))
    mine.plan(asked={"missions": ["mission.json"]}, directory=str(Path.cwd()))
    asked(mine, *READERS["eval"][0])


def test_what_is_shown_of_a_plan_does_nothing_to_a_terminal(attack: Callable[[str], Attack]) -> None:
    mine = attack("eval")
    mine.plan(directory="/nowhere\x1b]0;evil\x07")
    _, page = called("eval", "--resume", str(mine.run), "-j", "0")
    assert ("was begun in /nowhere\\x1b" in page, "\x1b" in page) == (True, False)


def test_a_policy_of_text_is_code_and_an_endpoint_is_sent_a_key(attack: Callable[[str], Attack]) -> None:
    mine = attack("rollout")
    for changes in (
        {"policy": f"{mine.module}.py:P"},
        {"policy": f"{mine.module}:3"},
        {"policy": None, "model": "m", "base_url": "http://127.0.0.1:9/"},
        {"policy": None, "model": "m", "api_key_env": "PATH"},
    ):
        mine.plan(command={"config": "config.yaml", **changes})
        asked(mine, *READERS["rollout"][0])


@pytest.mark.parametrize("place", ["theirs", "theirs/run"])
def test_a_directory_that_a_run_names_is_not_gone_to(attack: Callable[[str], Attack], place: str) -> None:
    """What lies there might be found before what is installed."""
    mine = attack("eval")
    mine.plan(directory=str(mine.home.parent / place))
    code, page = called(*(str(mine.run) if word == "RUN" else word for word in READERS["eval"][0]))
    assert (code, "files are looked for here" in page) == (0, True), page


# -- checkpoints ---------------------------------------------------------------------------------------------


def rewritten(attack: Attack, text: str) -> None:
    """Gives a checkpoint the check that it must have, and its files the digests."""
    for name in (ARRAYS, PICKLES):
        if (attack.run / name).exists():
            digest = hashlib.sha256((attack.run / name).read_bytes()).hexdigest()
            text = re.sub(rf'"{name}": "\w+"', f'"{name}": "{digest}"', text)
    check = hashlib.sha256(text[text.index('"files"') : -2].encode()).hexdigest()
    (attack.run / FILE).write_text(re.sub(r'"check": "\w+"', f'"check": "{check}"', text))


def with_pickles(attack: Attack) -> None:
    with of_another_user(attack.home / "state"):
        Checkpoints(attack.run).save([Apart(Payload(attack.mark))], 0.0)


def with_objects_for_arrays(attack: Attack) -> None:
    np.savez(attack.run / ARRAYS, **{"0": np.array([Payload(attack.mark)], object)})
    rewritten(attack, (attack.run / FILE).read_text())


def with_a_pickle_for_arrays(attack: Attack) -> None:
    (attack.run / ARRAYS).write_bytes(pickle.dumps(Payload(attack.mark)))
    rewritten(attack, (attack.run / FILE).read_text())


def of_an_older_release(attack: Attack) -> None:
    content = pickle.dumps(Payload(attack.mark))
    (attack.run / FILE).unlink()
    (attack.run / "checkpoint.pkl").write_bytes(hashlib.sha256(content).digest() + content)


def of_an_older_release_beside_it(attack: Attack) -> None:
    content = pickle.dumps(Payload(attack.mark))
    (attack.run / "checkpoint.pkl").write_bytes(hashlib.sha256(content).digest() + content)


def with_a_mark_of_his_own(attack: Attack) -> None:
    with_pickles(attack)
    text = (attack.run / FILE).read_text()
    (attack.run / FILE).write_text(re.sub(r'"mark": "\w+"', f'"mark": "{"0" * 64}"', text))


def with_pickles_of_a_guest_among_streams(attack: Attack) -> None:
    """What numpy's process-wide generator is put back from is a pickle if a user's stood in its place."""
    text, code = (attack.run / FILE).read_text(), pickle.dumps(Payload(attack.mark)).hex()
    state = {"tuple": ["x", {"bytes": code}, None]}
    streams = json.dumps({"dict": [["numpy.random"], [state]]})
    found = re.sub(r'("worlds"[^]]*"streams"\], \[)', r"\1", text)
    place = found.rindex('{"dict": [["worlds", "learn", "act"], [')
    begin = found.index('[{"dict": [[0], [', place) + len('[{"dict": [[0], [')
    rewritten(attack, found[:begin] + streams + found[found.index("]", begin) :])


def with_copies_that_are_pickles(attack: Attack) -> None:
    """What acting has changed in a user's own policy is a pickle."""
    text, code = (attack.run / FILE).read_text(), pickle.dumps([Payload(attack.mark)]).hex()
    copies = '{"dict": [["copies", "loaded"], [{"dict": [[], []]}, {"dict": [[], []]}]]}'
    assert copies in text
    rewritten(attack, text.replace(copies, copies.replace("[[], []]", f'[["agent_0"], [{{"bytes": "{code}"}}]]', 1)))


def with_streams_of_another_module(attack: Attack) -> None:
    """A generator that is not there yet is imported."""
    sys.path.append(str(attack.home))
    text = (attack.run / FILE).read_text()
    place = text.rindex('{"dict": [["worlds", "learn", "act"], [')
    begin = text.index('[{"dict": [[0], [', place) + len('[{"dict": [[0], [')
    streams = json.dumps({"dict": [[attack.module], [None]]})
    rewritten(attack, text[:begin] + streams + text[text.index("]", begin) :])


OF_ALL = (
    with_pickles,
    with_a_mark_of_his_own,
    with_objects_for_arrays,
    with_a_pickle_for_arrays,
    of_an_older_release,
)
OF_TRAIN = (with_pickles_of_a_guest_among_streams, with_copies_that_are_pickles, with_streams_of_another_module)


@pytest.mark.parametrize(
    ("kind", "change"),
    [(kind, change) for kind in ("train", "meta", "seeds") for change in OF_ALL]
    + [("train", change) for change in OF_TRAIN],
)
def test_a_checkpoint_runs_nothing(
    attack: Callable[[str], Attack],
    kind: str,
    change: Callable[[Attack], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    mine = attack(kind)
    monkeypatch.chdir(mine.home)  # so that nothing else is asked about
    mine.plan()
    if kind == "seeds":
        place = mine.run / "seed-0"
        change(_at(mine, place))
    else:
        change(mine)
    code, page = called(*(str(mine.run) if word == "RUN" else word for word in READERS[kind][0]))
    assert (code, "Traceback" in page) == (2, False), page
    assert re.search(r"checkpoint.pickles \(pickles\).*--trust|checkpoint.* is damaged|of an older release", page)
    assert not mine.mark.exists()


def _at(attack: Attack, place: Path) -> Attack:
    """The same attack on another directory."""
    attack.run, whole = place, attack.run
    other = Attack(place, attack.mark)
    attack.run = whole
    return other


def test_an_old_checkpoint_beside_a_new_one_is_not_looked_at(
    attack: Callable[[str], Attack], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = attack("train")
    monkeypatch.chdir(mine.home)
    of_an_older_release_beside_it(mine)
    mine.plan()
    assert called("train", "--resume", str(mine.run), "-j", "0")[0] == 0
    assert not mine.mark.exists()


def test_a_run_of_catalog_names_needs_no_trust_from_anyone(
    attack: Callable[[str], Attack], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint holds data only."""
    for kind in ("eval", "collect", "train"):
        mine = attack(kind)
        monkeypatch.chdir(mine.home)
        mine.plan()
        code, page = called(*(str(mine.run) if word == "RUN" else word for word in READERS[kind][0]))
        assert code == 0, page
        shutil.rmtree(mine.run)
