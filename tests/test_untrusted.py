"""Vectors, evaluations and groups with trust="data": the same results, and no code of theirs in main."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gadgets import GADGETS, Failed, sprung_here
from gymnasium import spaces
from typer.testing import CliRunner

from paceline import BadInput, Groups, make_vec, register_env_type
from paceline.cli.app import app
from paceline.engine import Plan
from paceline.errors import NotData
from paceline.evaluate import evaluate
from paceline.types import Mission

NAMES = list(GADGETS)
DATA = Plan("process", 1, trust="data")

MODULE = """
import os
from pathlib import Path

Path({where!r}, str(os.getpid())).touch()  # to import it is to run it

import numpy as np
import gymnasium


class World(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=4):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(2), {{}}

    def step(self, action):
        self.steps += 1
        return self.np_random.random(2), float(action), self.steps >= self.length, False, {{}}


class Picky:
    def act(self, seen):
        return int(seen[0] > 0.5)


class Batched:
    def act_batch(self, seen, seats, mask, rngs):
        return [int(each[0] > 0.5) for each in seen]
"""


@pytest.fixture(autouse=True)
def where(tmp_path: Path) -> Iterator[Path]:
    """Where gadgets leave their traces; none may be of this process."""
    traces = tmp_path / "traces"
    traces.mkdir()
    yield traces
    assert not sprung_here(traces)


@pytest.fixture
def module(where: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of a user's that leaves a trace where it is imported; its name."""
    (tmp_path / "their_world.py").write_text(MODULE.format(where=str(where)))
    monkeypatch.chdir(tmp_path)
    return "their_world.py"


# -- vectors ---------------------------------------------------------------------------------------------


class Bearer(gymnasium.Env[Any, Any]):
    """Puts into its infos what its actions name."""

    observation_space = spaces.Dict(
        here=spaces.Box(-np.inf, np.inf, (2,)), kind=spaces.Discrete(3, start=1), flags=spaces.MultiBinary(4)
    )
    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, where: str = "") -> None:
        self._where = where
        self.action_space = spaces.Discrete(len(NAMES) + 2, seed=7)

    def _seen(self) -> dict[str, Any]:
        draw = self.np_random
        return {"here": draw.random(2, np.float32), "kind": 1 + draw.integers(3), "flags": draw.integers(0, 2, 4, "i1")}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if options and "gadget" in options:
            return self._seen(), {"it": GADGETS[options["gadget"]](self._where)}
        return self._seen(), {"text": "begun", "array": np.arange(3)}

    def step(self, action: Any) -> Any:
        number = int(action)
        if number < len(NAMES):
            info: dict[str, Any] = {"it": GADGETS[NAMES[number]](self._where)}
        else:
            info = {"x": 0.5, "alive": True, "n": np.int32(3)} if number == len(NAMES) else {"words": ["a", {"b": 1}]}
        return self._seen(), 1.0, False, False, info

    def gadget(self, name: str) -> Any:
        return GADGETS[name](self._where)


class Odd(spaces.Box):
    """A space of a user's own."""


class OddlySpaced(Bearer):
    observation_space = Odd(-1, 1, (2,))  # type: ignore[assignment]


def played(plan: Plan) -> str:
    """Everything that a vector gives, in words."""
    with make_vec(Bearer, 3, seed=1, plan=plan) as envs:
        told = [envs.reset(), envs.single_action_space.sample(), repr(envs.single_observation_space), envs.metadata]
        for number in (0, 1, 0, 1):
            told.append(envs.step(np.full(3, len(NAMES) + number)))
        return repr(told)


@pytest.mark.parametrize("plan", [Plan("process", 2, trust="data"), Plan(trust="data")], ids=["process", "auto"])
def test_a_vector_of_data_is_the_same(plan: Plan) -> None:
    assert played(plan) == played(Plan("inline"))


def test_a_vector_on_ray_is_the_same(ray_cluster: str) -> None:
    assert played(Plan("ray", 1, trust="data")) == played(Plan("inline"))


def test_infos_and_attributes_are_data_or_an_error_of_that_env(where: Path) -> None:
    with make_vec([lambda: Bearer(str(where))] * 2, seed=1, plan=DATA) as envs:
        assert envs.plan.trust == "data"
        envs.reset()
        for number, name in enumerate(NAMES):
            with pytest.raises(NotData, match="is not data") as caught:
                envs.step(np.array([len(NAMES), number]))
            assert any("member 1" in note for note in caught.value.__notes__)
            with pytest.raises(NotData, match="is not data"):
                envs.call("gadget", name)
            with pytest.raises(NotData, match="is not data"):
                envs.reset(options={"gadget": name})
        envs.reset()
        assert envs.step(np.full(2, len(NAMES) + 1))[-1]["words"].tolist() == [["a", {"b": 1}]] * 2


def test_a_space_of_a_user_s_own_is_no_data() -> None:
    with pytest.raises(NotData, match="only Gymnasium's own come back"):
        make_vec(OddlySpaced, 1, plan=DATA)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.iinfo(np.int16).min, 5, (2, 1), np.int16),
        spaces.MultiDiscrete([2, 3], start=[1, 0], seed=3),
        spaces.Text(5, min_length=2, charset="xyz"),
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple([spaces.MultiBinary([2, 2]), spaces.Text(3)])}),
        spaces.Sequence(spaces.Box(-1, 1, (2,)), stack=True),
        spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
        spaces.OneOf([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_a_described_space_is_the_same(space: spaces.Space[Any]) -> None:
    from paceline.engine.transport import plain_data
    from paceline.vector.described import described, space_of

    space.seed(4)
    again = space_of(plain_data.from_bytes(plain_data.to_bytes(described(space))))
    assert again == space
    assert repr([again.sample() for _ in range(3)]) == repr([space.sample() for _ in range(3)])


@pytest.mark.parametrize(
    "description",
    [None, (), ("data", 1), ("space", "EnvSpec", {}), ("dtype", "O"), ("spring",), ("space", "Box", 3), ("dict", 1)],
)
def test_a_description_that_says_no_space_is_refused(description: Any) -> None:
    from paceline.vector.described import space_of

    with pytest.raises(NotData):
        space_of(description)


# -- evaluations -----------------------------------------------------------------------------------------


class Counting(Bearer):
    """Tells gadgets at every step, or raises one."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(where)
        self._name, self._steps = name, 0

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._name == "raises":
            raise Failed(self._where)
        return self._seen(), 1.0, self._steps > 2, False, {"it": GADGETS[self._name](self._where)}


def test_what_an_episode_says_is_data_or_its_failure(where: Path) -> None:
    missions = [Mission(name, Counting, {"where": str(where), "name": name}) for name in [*NAMES, "raises"]]
    report = evaluate(missions, "random", plan=DATA)
    assert len(report.episodes) == len(missions)
    for episode in report.episodes[:-1]:
        assert episode.failure is None  # infos stay where they are
        assert json.dumps(asdict(episode))
    assert report.episodes[-1].failure is not None
    assert report.episodes[-1].failure.kind.endswith("Failed")


@pytest.mark.parametrize("policy", ["Picky", "Batched"])
def test_evaluate_imports_missions_and_policies_in_workers_only(module: str, policy: str, where: Path) -> None:
    """The same digest as in a process that has imported them: a child, for this one must not."""
    asked = [f"{module}:World", "their_world:World,length=2"]
    report = evaluate(asked, f"{module}:{policy}", episodes=2, plan=DATA, verify=1)
    assert not report.failures
    assert all(report.verified.values())
    assert "their_world" not in sys.modules
    assert any(where.iterdir())  # it was imported elsewhere
    call = f"evaluate({asked!r}, '{module}:{policy}', episodes=2, plan=0)"
    code = f"from paceline.evaluate import evaluate; print({call}.digest)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == report.digest


def test_the_command_imports_missions_and_policies_in_workers_only(module: str, where: Path) -> None:
    command = [
        "eval",
        "-m",
        f"{module}:World",
        "-p",
        "their_world:Picky",
        "-e",
        "2",
        "-j",
        "1",
        "--untrusted",
        "--json",
    ]
    done = CliRunner().invoke(app, [*command, "--out", "results"])
    assert done.exit_code == 0, done.output
    plan = json.loads(Path("results", "plan.json").read_text())
    assert {name.partition(" of ")[0] for name in plan["files"]} == {module}
    assert "their_world" not in sys.modules


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-m", "their_world.py:Word"], "there is no 'Word' in their_world.py; close to it: World"),
        (["-m", "their_world.py:World", "-p", "their_world:Piky"], "close to it: Picky"),
        (["-m", "nowhere.py:World"], "there is no file nowhere.py"),
        (["-m", "their_world.py:World", "-c", "2"], "is not loaded in this process"),
        (["-m", "their_world.py"], "is code that is run in this process"),
        (["--dry-run"], "do not go together"),
        (["--parallel-policy=gpu"], "keeps policies in this process"),
        (["-j", "0"], "--untrusted needs workers"),
    ],
)
def test_what_cannot_be_kept_is_refused(module: str, words: list[str], complaint: str) -> None:
    jobs = [] if "-j" in words else ["-j", "1"]
    done = CliRunner().invoke(app, ["eval", "-e", "1", "--no-save", "--untrusted", *jobs, *words])
    assert isinstance(done.exception, BadInput)
    assert complaint in str(done.exception)


def test_a_mission_with_settings_of_its_own_is_refused(module: str, tmp_path: Path) -> None:
    text = "from paceline.types import Mission\nfrom their_world import World\nlong = Mission('long', World, steps=2)\n"
    (tmp_path / "their_mission.py").write_text(text)
    with pytest.raises(BadInput, match="is a Mission with options"):
        evaluate("their_mission.py:long", "random", plan=DATA)


# -- groups ----------------------------------------------------------------------------------------------


class Whisperer:
    """A text environment that tells gadgets."""

    action_lookup = {number + 1: f"act {number}" for number in range(len(NAMES) + 1)}  # noqa: RUF012

    def __init__(self, config: dict[str, Any]) -> None:
        self._where = config["where"]

    def reset(self, seed: int, mode: str = "train") -> str:
        return "begun"

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        info = {"score": 1} if action > len(NAMES) else {"it": GADGETS[NAMES[action - 1]](self._where)}
        return "on", 1.0, False, info

    def render(self) -> str:
        return "on"


def test_turns_of_groups_are_data_or_a_failure_of_that_trajectory(where: Path) -> None:
    register_env_type("whisperer", Whisperer)
    count = len(NAMES) + 1
    config = {
        "es_manager": {
            "format_penalty": 0.0,
            "train": {"env_groups": count, "group_size": 1, "env_configs": {"tags": ["Whisper"], "n_groups": [count]}},
        },
        "custom_envs": {
            "Whisper": {
                "env_type": "whisperer",
                "max_actions_per_traj": 100,
                "env_config": {"where": str(where)},
            }
        },
    }
    with Groups(config, plan=DATA) as groups:
        assert groups.plan.trust == "data"
        groups.reset(seed=1)
        words = {"llm_response": "", "llm_raw_response": ""}
        groups.step([{"env_id": number, **words, "actions": [f"act {number}"]} for number in range(count)])
        failures = [trajectory.status.failure for trajectory in groups.trajectories]
    assert [failure and failure.kind.rpartition(".")[2] for failure in failures] == ["NotData"] * len(NAMES) + [None]


@pytest.mark.parametrize(
    ("manager", "complaint"),
    [
        ({"use_multiprocessing": False}, "needs workers, and there are none"),
        ({"sequential_env_types": ["bandit"]}, "cannot stay in the caller's process"),
    ],
)
def test_a_configuration_that_keeps_environments_here_is_refused(manager: dict[str, Any], complaint: str) -> None:
    tags = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": ["Bandit"], "n_groups": [1]}}
    with pytest.raises(BadInput, match=complaint):
        Groups({"es_manager": {"train": tags, **manager}}, plan=Plan(trust="data"))


def test_groups_are_not_switched_home_from_workers_that_are_not_trusted() -> None:
    tags = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": ["Bandit"], "n_groups": [1]}}
    with Groups({"es_manager": {"train": tags}}, plan=DATA) as groups, pytest.raises(BadInput, match="trust='data'"):
        groups.use_multiprocessing = False
