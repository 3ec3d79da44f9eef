"""The ids of the meta-RL worlds: `gymnasium.make` knows them once Paceline is imported, in every worker too."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest

import paceline
from paceline.catalog.registry import _registered
from paceline.errors import BadInput
from paceline.worlds.meta import VariBadWrapper
from paceline.worlds.meta.registration import WORLDS, register

ROOT = Path(__file__).parents[2]


def printed(program: str) -> str:
    """What a program prints, in a Python of its own."""
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    return answer.stdout.strip()


@pytest.mark.parametrize("imports", ["import gymnasium, paceline", "import paceline, gymnasium"])
def test_to_import_paceline_registers_them_in_whichever_order(imports: str) -> None:
    program = f"""
import sys
{imports}
light = not any(name.startswith("paceline.worlds.meta.") and not name.endswith(".registration") for name in sys.modules)
env = gymnasium.make("PointRobot-v0")
print(light, env.reset(seed=0)[0].shape, gymnasium.__spec__.loader is gymnasium.__loader__,
      type(gymnasium.__loader__).__name__, [type(finder).__name__ for finder in sys.meta_path].count("_Finder"))
"""
    assert printed(program) == "True (2,) True SourceFileLoader 0"


def test_where_nothing_imports_paceline_the_name_before_the_id_does() -> None:
    """Gymnasium reads no entry points since 1.0."""
    program = """
import sys, gymnasium
try:
    gymnasium.make("PointRobot-v0")
except gymnasium.error.NameNotFound:
    print("paceline" in sys.modules, end=" ")
print(gymnasium.make("paceline:PointRobot-v0").spec.id, gymnasium.make("PointRobot-v0").spec.id)
"""
    assert printed(program) == "False PointRobot-v0 PointRobot-v0"


def test_to_look_for_gymnasium_without_importing_it_changes_nothing() -> None:
    program = """
import importlib.util, sys, paceline
spec = importlib.util.find_spec("gymnasium")
found = spec.origin.endswith("gymnasium/__init__.py") and "gymnasium" not in sys.modules
import gymnasium
print(found, "AntDir-v0" in gymnasium.registry)
"""
    assert printed(program) == "True True"


def test_an_id_that_is_taken_is_left_to_its_owner() -> None:
    program = """
import gymnasium
gymnasium.register("AntDir-v0", entry_point="mine:Ant")
import paceline
print(gymnasium.registry["AntDir-v0"].entry_point)
"""
    assert printed(program) == "mine:Ant"


def test_the_entry_point_names_the_registration() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["gymnasium.envs"]
    assert EntryPoint("__root__", points["__root__"], "gymnasium.envs").load() is register


def test_every_id_is_registered_and_none_is_sent_to_workers() -> None:
    assert set(WORLDS) <= gymnasium.registry.keys()
    assert not set(WORLDS) & _registered().keys()


def test_workers_know_the_ids(backend: str) -> None:
    def start(task: Any) -> Any:
        import gymnasium  # a worker that has not imported it yet

        return gymnasium.make("PointRobot-v0").reset(seed=1, options={"task": task})

    with paceline.Pool([], backend=backend, workers=2) as pool:
        answers = pool.map(start, [(0.0, 1.0), (1.0, 0.0)])
    assert paceline.digest(answers) == paceline.digest([start((0.0, 1.0)), start((1.0, 0.0))])


def test_workers_know_them_also_when_main_has_not_imported_gymnasium() -> None:
    program = """
import sys, paceline
def start(seed):
    import gymnasium
    return gymnasium.make("PointRobot-v0").reset(seed=seed)[0].shape
if __name__ == "__main__":
    with paceline.Pool([], backend="process", workers=1) as pool:
        print(pool.map(start, [1]), "gymnasium" in sys.modules)
"""
    assert printed(program) == "[(2,)] False"


@pytest.mark.parametrize("plan", [0, 2])
def test_a_vector_gives_a_task_to_each_env(plan: int) -> None:
    tasks = [(0.0, 1.0), (1.0, 0.0)]
    with paceline.make_vec("PointRobot-v0", 2, seed=0, plan=plan) as envs:
        observations, infos = envs.reset(seed=3, options={"tasks": tasks})
        assert [tuple(task) for task in infos["task"]] == tasks
        there, rewards, *_ = envs.step(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(observations, there)
    np.testing.assert_allclose(rewards, -np.linalg.norm(there - np.array(tasks), axis=1), rtol=1e-6)


def test_evaluate_plays_them() -> None:
    report = paceline.evaluate("gym:PointRobot-H20-v0", "paceline:random", episodes=2, plan=0)
    assert report.failures == []
    assert [episode.steps for episode in report.episodes] == [20, 20]


# -- Meta-World --------------------------------------------------------------------------------------------


def test_without_meta_world_its_id_says_what_to_do() -> None:
    with pytest.raises(BadInput, match=r"pip install metaworld .* virtual environment of its own"):
        gymnasium.make("MetaWorldML1-v0")


class Task(NamedTuple):
    """As Meta-World's tasks are."""

    env_name: str
    data: bytes


class Reach:
    """As much of a manipulation as the world asks for."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    action_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    max_path_length = 2

    def set_task(self, task: Task) -> None:
        self.goal, self.steps = np.array(pickle.loads(task.data)["rand_vec"]), 0

    def reset(self) -> Any:
        self.steps = 0
        return self.goal.copy(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return self.goal + self.steps, np.float64(1), False, self.steps >= 2, {"success": 0.0}


@pytest.fixture
def meta_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package, which cannot be installed beside Gymnasium's MuJoCo."""

    def tasks(first: float) -> list[Task]:
        return [Task("reach-v3", pickle.dumps({"rand_vec": [first, number, 0.5]})) for number in range(3)]

    def ml1(name: str, seed: int) -> Any:
        classes = {"reach-v3": Reach}
        if name not in classes:
            raise ValueError(name)
        return SimpleNamespace(train_tasks=tasks(seed), test_tasks=tasks(seed + 1), train_classes=classes)

    package = ModuleType("metaworld")
    package.ML1 = ml1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "metaworld", package)


@pytest.mark.usefixtures("meta_world")
def test_meta_world_is_a_world_with_tasks() -> None:
    env: Any = gymnasium.make("MetaWorldML1-v0", name="reach-v3").unwrapped
    assert (env.n_tasks, env.horizon) == (6, 2)
    assert not {*env.train_tasks} & {*env.eval_tasks}
    observation, _ = env.reset(seed=0, options={"task": env.eval_tasks[2]})
    assert observation.tolist() == env.get_current_task().tolist() == [1.0, 2.0, 0.5]
    assert env.reset()[0].tolist() == [1.0, 2.0, 0.5]
    assert env.reset(seed=5)[0].tolist() == env.reset(seed=5)[0].tolist()
    assert env.task in env.train_tasks
    wrapper = VariBadWrapper(env, 2, oracle=True)
    observation, _ = wrapper.reset(seed=0, options={"task": env.eval_tasks[1]})
    assert observation.tolist() == [1.0, 1.0, 0.5, 1.0, 1.0, 0.5, 0.0]
    assert [wrapper.step(np.zeros(4, np.float32))[3] for _ in range(4)] == [False, False, False, True]


@pytest.mark.usefixtures("meta_world")
def test_what_meta_world_does_not_have_is_refused() -> None:
    with pytest.raises(BadInput, match="no manipulation 'juggle-v3'"):
        gymnasium.make("MetaWorldML1-v0", name="juggle-v3")
    with pytest.raises(BadInput, match="is no task of reach-v3"):
        gymnasium.make("MetaWorldML1-v0").unwrapped.reset(options={"task": 3})
