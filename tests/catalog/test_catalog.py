"""Missions and policies by what users write, and what other packages add."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import paceline
from paceline.catalog import find_missions, find_policies, known_missions, known_policies
from paceline.catalog.text_policies import find_text_policy
from paceline.catalog.words import share_of, split
from paceline.evaluate import evaluate
from paceline.policies import POLICIES
from paceline.rollout import Rollout
from paceline.worlds import MISSIONS


def seats(spec: str, agents: int | None = None) -> int:
    (mission,) = find_missions([spec], agents=agents)
    return len(Rollout(mission).seats())


# -- words ---------------------------------------------------------------------------------------------------


def test_options_are_read_as_json_and_else_as_text() -> None:
    assert split("forage,agents=4,name=x,deep=[1],flag=true,ratio=0.5") == (
        "forage",
        {"agents": 4, "name": "x", "deep": [1], "flag": True, "ratio": 0.5},
    )
    assert split(" forage , agents=4 ") == ("forage", {"agents": 4})
    assert split("plain") == ("plain", {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("forage,agents", "'agents' in 'forage,agents' is no option: write key=value"),
        ("forage,=4", "is no option"),
        ("forage,a=1,a=2", "'a' is given twice"),
        (",a=1", "has no name before its options"),
    ],
)
def test_what_is_no_option_is_told(text: str, complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        split(text)


def test_shares() -> None:
    assert share_of("greedy:3") == ("greedy", 3)
    assert share_of("file.py:Class:12") == ("file.py:Class", 12)
    assert share_of("file.py:Class") == ("file.py:Class", 1)


# -- missions ------------------------------------------------------------------------------------------------


def test_names_wildcards_and_options() -> None:
    assert [mission.name for mission in find_missions(["forage", "cleanup", "forage"])] == ["forage", "cleanup"]
    every = [mission.name for mission in find_missions(["forage*"])]
    assert every == [name for name in MISSIONS if name.startswith("forage")]
    assert [mission.name for mission in find_missions(["courier*,steps=9"])] == [
        "courier,steps=9",
        "courier-maze,steps=9",
    ]
    assert [mission.options["steps"] for mission in find_missions(["courier*,steps=9"])] == [9, 9]
    assert seats("forage,agents=5") == 5


@pytest.mark.parametrize("spec", ["forage", "machina_1", "cleanup", "forage-64", "pz:mpe2.simple_spread_v3"])
def test_the_number_of_agents_whatever_the_mission_calls_it(spec: str) -> None:
    assert seats(spec, agents=4) == 4


def test_an_id_of_gymnasium_needs_no_prefix() -> None:
    """It is the same mission, so that its episodes have the same digest."""
    bare, prefixed = (
        evaluate(find_missions([name], steps=3), "random", plan=0) for name in ("CartPole-v1", "gym:CartPole-v1")
    )
    assert bare.digest == prefixed.digest


def test_steps_are_a_limit_of_ours() -> None:
    (mission,) = find_missions(["gym:CartPole-v1"], steps=3)
    assert evaluate(mission, "random", plan=0).episodes[0].steps == 3


@pytest.mark.parametrize(
    ("spec", "agents", "complaint"),
    [
        ("forrage", None, "there is no mission 'forrage'; close to it: forage.*give a name of `paceline missions`"),
        ("zzz*", None, r"no mission matches 'zzz\*'; there are forage,"),
        ("CartPol-v1", None, "Gymnasium knows no env 'CartPol-v1'; close to it: CartPole-v1"),
        ("gym:CartPol-v1", None, "Gymnasium knows no env 'CartPol-v1'; close to it: CartPole-v1"),
        ("pz:mpe2.nothing_v0", None, "there is no PettingZoo env 'mpe2.nothing_v0'; tried .*write pz:family.name_vN"),
        ("nowhere.py:make", None, r"there is no file nowhere\.py \(looked in .*check the path"),
        ("nowhere:make", None, "there is no module 'nowhere'"),
        ("paceline.worlds:make_forge", None, "there is no 'make_forge' in paceline.worlds; close to it: make_forage"),
        ("paceline.worlds:__all__", None, "is a list, which cannot be called: name a function that makes an env"),
        ("gym:CartPole-v1", 4, "has no option for the number of agents: leave --agents away"),
    ],
)
def test_a_mission_that_does_not_exist_is_told_with_what_to_do(spec: str, agents: int | None, complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        find_missions([spec], agents=agents)


def test_steps_that_make_no_sense() -> None:
    with pytest.raises(paceline.BadInput, match="steps=0; give 1 or more"):
        find_missions(["forage"], steps=0)


FILE = """
from paceline.types import Mission
from paceline.worlds import make_forage
small = Mission("small", make_forage, {"agents": 2}, steps=4)

def make(agents=3):
    return make_forage(agents=agents)

class Agent:
    def __init__(self, seat, depth=1):
        self.depth = depth

    def act(self, obs):
        return self.depth
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A user's file; what was imported from it is forgotten afterwards."""
    path = tmp_path / f"own_{tmp_path.name}.py"
    path.write_text(FILE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield str(path)
    sys.modules.pop(path.stem, None)


def test_factories_and_missions_of_a_file(file: str) -> None:
    assert seats(f"{file}:make") == 3
    assert seats(f"{file}:make,agents=6") == 6
    assert seats(f"{file}:make", agents=2) == 2
    (mission,) = find_missions([f"{file}:small"])
    assert (mission.name, mission.steps, mission.options) == (f"{file}:small", 4, {"agents": 2})
    with pytest.raises(paceline.BadInput, match=r"there is no 'nothing' in .*it has make, Agent"):
        find_missions([f"{file}:nothing"])


def test_a_pettingzoo_env_is_played() -> None:
    report = evaluate(find_missions(["pz:mpe2.simple_spread_v3,N=2"], steps=5), "random", episodes=2, plan=2)
    assert report.failures == []
    assert [len(episode.seats) for episode in report.episodes] == [2, 2]


# -- policies ------------------------------------------------------------------------------------------------


def test_shares_names_modes_and_keywords_of_policies(file: str) -> None:
    first, second, third = find_policies(
        ["greedy:3,agents=thread", f"{file}:Agent:2,kw.depth=4,name=deep", "greedy,name=other"]
    )
    assert (first.name, first.share, first.agents) == ("greedy", 3, "thread")
    assert (second.name, second.share) == ("deep", 2)
    assert second.factory(None).depth == 4
    assert (third.name, third.factory) == ("other", POLICIES["greedy"])


def test_the_second_of_a_name_gets_a_number() -> None:
    assert [player.name for player in find_policies(["random", "random", "greedy", "random"])] == [
        "random",
        "random#2",
        "greedy",
        "random#3",
    ]


def test_without_a_name_the_default_plays() -> None:
    assert [player.name for player in find_policies([])] == ["greedy"]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("gredy", "there is no policy 'gredy'; close to it: greedy; give a name of `paceline policies`"),
        ("greedy,depth=2", "'depth' in 'greedy,depth=2' is no option of a policy: give weights, .* or kw.depth"),
        ("greedy,weights=none.pt", r"there is no file none\.pt \(looked in .*check weights= in"),
        ("nowhere.py:Agent", r"there is no file nowhere\.py"),
        ("torch:nowhere:Net", "there is no module 'nowhere'"),
    ],
)
def test_a_policy_that_does_not_exist_is_told_with_what_to_do(spec: str, complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        find_policies([spec])


SAYS = """
class Says:
    def __init__(self, word): self.word = word
    def answer(self, turn): return self.word

def says(turn): return "Up"

built = Says("Up")
"""


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("talking.py:Says", "missing 1 required positional argument: 'word'"),
        ("talking.py:says,kw.volume=3", "unexpected keyword argument 'volume'"),
        ("talking.py:built,kw.word=Up", "is a Says, which cannot be called"),
        ("random,kw.actions=none", "actions='none'; give a whole number from 1"),
        ("expert,kw.actions=0", "actions=0; give a whole number from 1"),
        ("expert,kw.options=3", "options=3; give a mapping from tags"),
        ("expert,depth=3", "'depth' in 'expert,depth=3' is no option of a policy: give kw.depth"),
    ],
)
def test_a_policy_of_text_that_cannot_be_built_is_told_with_what_to_do(
    spec: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talking.py").write_text(SAYS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "talking", raising=False)
    with pytest.raises(paceline.BadInput, match=complaint):
        find_text_policy(spec, actions=2, separator="||")


def test_a_policy_for_other_worlds_is_told_before_anything_is_played() -> None:
    with pytest.raises(paceline.BadInput, match="greedy"):
        evaluate("gym:CartPole-v1", "greedy")
    with pytest.raises(paceline.BadInput, match="forage has no option agentz"):
        evaluate("forage,agentz=3", "random")
    with pytest.raises(paceline.BadInput, match="policy 'random' for seat 'agent_0' of mission 'forage' cannot be"):
        evaluate("forage", "random,kw.depth=3")


# -- what other packages add ---------------------------------------------------------------------------------

PACKAGE = '''
from paceline.engine.workers.inline import BACKEND
from paceline.team import Mode
from paceline.types import Mission
from paceline.worlds import make_forage

def meadow(agents=2, steps=5):
    """A meadow of another package."""
    return make_forage(agents=agents, steps=steps)

ready = Mission("any name", make_forage, {"agents": 3, "steps": 5}, about="Ready made.")

class Lazy:
    """Stays where it is."""
    def __init__(self, seat):
        pass
    def act(self, obs):
        return 0

crowd = Mode("process", workers=2)
no_mode = "process"
five = 5

def backend():
    return BACKEND
'''
ENTRY_POINTS = """
[paceline.missions]
meadow = other_package:meadow
ready = other_package:ready
broken = other_package_that_is_not_there:mission
five = other_package:five

[paceline.policies]
lazy = other_package:Lazy
broken = other_package:nothing
five = other_package:five

[paceline.agents]
crowd = other_package:crowd
no_mode = other_package:no_mode

[paceline.backends]
elsewhere = other_package:backend
"""


def install(directory: Path) -> Path:
    """Lies there as pip leaves a package behind."""
    (directory / "other_package.py").write_text(PACKAGE)
    about = directory / "other_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return directory


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(install(tmp_path)))
    yield tmp_path
    sys.modules.pop("other_package", None)


@pytest.mark.usefixtures("installed")
def test_missions_and_policies_of_another_package() -> None:
    ready, meadow = find_missions(["ready", "meadow"])
    assert (ready.name, ready.about) == ("ready", "Ready made.")
    assert (meadow.name, meadow.about) == ("meadow", "A meadow of another package.")
    assert [mission.name for mission in find_missions(["mead*"])] == ["meadow"]
    assert seats("meadow", agents=4) == 4
    report = evaluate([ready, meadow], "lazy", episodes=2, plan=2)
    assert report.failures == []
    assert {policy for episode in report.episodes for policy in episode.seats.values()} == {"lazy"}


def test_what_is_installed_is_looked_through_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It takes as long as a small evaluation; but a package that is installed meanwhile is found."""
    looks: list[str] = []
    look = metadata.entry_points

    def counted(**wanted: str) -> object:
        looks.append(wanted["group"])
        return look(**wanted)

    monkeypatch.setattr(metadata, "entry_points", counted)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(3):
        find_policies(["greedy"])
        find_missions(["forage"])
    assert looks == ["paceline.policies", "paceline.missions"]
    with pytest.raises(paceline.BadInput, match="there is no policy 'lazy'"):
        find_policies(["lazy"])
    install(tmp_path)
    assert find_policies(["lazy"])[0].name == "lazy"
    sys.modules.pop("other_package", None)


@pytest.mark.usefixtures("installed")
def test_modes_and_backends_of_another_package() -> None:
    plain = evaluate("forage,steps=5", "random", episodes=2, plan=0, agents="off")
    assert evaluate("forage,steps=5", "random", episodes=2, plan=0, agents="crowd").digest == plain.digest
    assert evaluate("forage,steps=5", "random", episodes=2, plan="elsewhere", agents="off").digest == plain.digest
    with pytest.raises(paceline.BadInput, match=r"'no_mode' of paceline.agents is a str; it must be a Mode"):
        evaluate("forage", "random", agents="no_mode")
    with pytest.raises(paceline.BadInput, match=r"give one of off, thread, .*crowd"):
        evaluate("forage", "random", agents="nowhere")


@pytest.mark.usefixtures("installed")
def test_a_broken_package_hurts_only_those_who_ask_for_it() -> None:
    assert [mission.name for mission in find_missions(["forage", "ready"])] == ["forage", "ready"]
    assert [player.name for player in find_policies(["random", "lazy"])] == ["random", "lazy"]
    remedy = "repair or uninstall that package"
    with pytest.raises(paceline.BadInput, match=f"'broken' of the package other-package .*{remedy}"):
        find_missions(["broken"])
    with pytest.raises(paceline.BadInput, match=f"'broken' of the package other-package .*{remedy}"):
        find_policies(["broken"])
    with pytest.raises(paceline.BadInput, match=r"'five' of paceline.missions is a int; it must make an env"):
        find_missions(["five"])
    with pytest.raises(paceline.BadInput, match=r"'five' of paceline.policies is a int; it must make a policy"):
        find_policies(["five"])


def test_everything_built_in_has_a_name() -> None:
    assert set(MISSIONS) <= set(known_missions())
    assert set(POLICIES) <= set(known_policies())
