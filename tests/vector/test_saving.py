"""Envs that a pickle, or a seed, does not bring back whole: they are replayed, and nothing shows."""

from __future__ import annotations

import inspect
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs import Count
from gymnasium import spaces
from gymnasium.wrappers import NormalizeObservation

from paceline import BadInput, Plan
from paceline.vector import make_vec
from paceline.vector.saving import _is_plain, _spelled_out, begins_afresh, pickled


class Plain(gymnasium.Env[Any, Any]):
    """Counts by its gain."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.gain, self.count, self.secret = 1.0, 0.0, [0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0.0
        return np.array([self.count]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += self.gain
        return np.array([self.count]), 0.0, False, self.count >= 20, {"count": self.count}


class Forgetting(Plain):
    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "secret": None}


class Configured(Plain):
    def __reduce__(self) -> Any:
        return Configured, ()


class Shared(Plain):
    def __init__(self) -> None:
        super().__init__()
        world = bytes(1 << 20)
        self.things = [[world] for _ in range(600)]


class Holds(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.part = Forgetting()


class Database(sqlite3.Connection):
    """Most of it lies in C, where no pickle looks."""


class Remembers(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.part = Database(":memory:")


@pytest.mark.parametrize("kind", [Forgetting, Configured, Shared, Holds, Remembers])
def test_a_pickle_that_may_lack_something_is_none(kind: Any) -> None:
    assert pickled(Plain()) is not None
    assert pickled(kind()) is None


def test_envs_of_gymnasium_can_be_saved_and_those_of_mujoco_not() -> None:
    for name in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1"):
        env = gymnasium.make(name)
        env.reset(seed=1)
        env.step(env.action_space.sample())
        assert pickled(env) is not None
    assert pickled(gymnasium.make("Ant-v5")) is None


def test_a_set_whose_order_matters_is_seen_when_it_is_saved() -> None:
    env: Any = Plain()
    env.free = set(range(1000, 0, -7))
    env.free -= {value for value in env.free if value % 3}
    env.free |= set(range(64))
    packed = pickled(env)
    assert packed is None or list(env.free) == list(pickle.loads(packed).free)


def test_attributes_keep_their_order() -> None:
    env: Any = Plain()
    env.zeal, env.age = 1.0, 2.0
    packed = pickled(env)
    assert packed is not None
    assert list(vars(pickle.loads(packed))) == list(vars(env))


class Told:
    """A descriptor that keeps its value under its own name, and counts who sets it."""

    count = 0

    def __set__(self, thing: Any, value: Any) -> None:
        Told.count += 1
        vars(thing)["told"] = value


class Telling(Plain):
    told = Told()

    def __init__(self) -> None:
        super().__init__()
        self.told = 1


class Mortal(Plain):
    deaths = 0

    def __del__(self) -> None:
        Mortal.deaths += 1


class OwnDict(Plain):
    @property
    def __dict__(self) -> dict[Any, Any]:  # type: ignore[override]
        return {1: 2, (3, 4): 5}


def test_a_descriptor_does_not_hear_of_copies() -> None:
    env = Telling()
    packed = pickled(env)
    assert packed is not None
    assert vars(pickle.loads(packed)) == vars(env)
    assert Told.count == 1


def test_nobody_is_made_only_to_be_looked_at() -> None:
    env = Mortal()
    assert pickled(env) is not None
    assert Mortal.deaths == 1  # that of the copy with which the pickle is compared


def test_who_has_a_dict_of_its_own_is_not_read_in_memory() -> None:
    assert not _is_plain(OwnDict)
    assert pickled(OwnDict()) is None


def test_a_cycle_is_found_out() -> None:
    env: Any = Plain()
    env.part = Plain()
    env.part.whole = env
    with pytest.raises(ValueError, match="cyclic"):  # and not by running out of stack, which a user may have raised
        _spelled_out(env)
    assert pickled(env) is None


def test_wrappers_that_remember_do_not_begin_afresh() -> None:
    assert begins_afresh(gymnasium.make("CartPole-v1"))
    assert not begins_afresh(NormalizeObservation(gymnasium.make("CartPole-v1")))


def played(make: Any, plan: Any, *, kill: bool = False, gain: float | None = None, **options: Any) -> list[Any]:
    with make_vec(make, 2, plan=plan, seed=1, **options) as envs:
        envs.reset()
        if gain is not None:
            envs.set_attr("gain", gain)
        seen = []
        for turn in range(12):
            if turn == 4:
                envs.reset(seed=3)
            if kill and turn in (4, 9):
                for worker in envs.pool.workers:
                    os.kill(worker.pid, signal.SIGKILL)
            observations, _, _, _, infos = envs.step(envs.action_space.sample() * 0)
            seen.append((observations.tolist(), infos["count"].tolist() if "count" in infos else None))
        return seen


@pytest.mark.parametrize("options", [{}, {"reseed": "episode"}])
@pytest.mark.parametrize("make", [Plain, Forgetting])
def test_what_was_set_outlives_a_seed_and_a_death(make: Any, options: dict[str, Any]) -> None:
    assert played(make, 1, kill=True, gain=7.0, **options) == played(make, 0, gain=7.0, **options)


def test_what_a_wrapper_remembers_outlives_a_seed_and_a_death() -> None:
    def make() -> Any:
        return NormalizeObservation(gymnasium.make("Pendulum-v1"))

    actions = np.zeros((2, 1), np.float32)
    with make_vec(make, 2, plan=1, seed=1) as envs, make_vec(make, 2, plan=0, seed=1) as here:
        for turn in range(10):
            if turn in (0, 5):
                assert envs.reset(seed=turn)[0].tobytes() == here.reset(seed=turn)[0].tobytes()
            if turn in (5, 8):
                os.kill(envs.pool.workers[0].pid, signal.SIGKILL)
            assert envs.step(actions)[0].tobytes() == here.step(actions)[0].tobytes()


def test_a_refused_action_changes_nothing() -> None:
    with make_vec(partial(Count, 0), 2, plan=0) as envs, make_vec(partial(Count, 0), 2, plan=0) as other:
        for each in (envs, other):
            each.reset(seed=1)
            each.send(np.zeros(2, np.int64))
        with pytest.raises(BadInput, match="have been asked to step"):
            envs.send(np.ones(1, np.int64), [0])
        with pytest.raises(BadInput, match="have been asked to step"):
            envs.step(np.ones(2, np.int64))
        assert envs.recv()[0].tobytes() == other.recv()[0].tobytes()


class Ball:
    """A part of an env, of a class of its own."""

    def __init__(self) -> None:
        self.height = 0.0


def kinds_of_a_script() -> tuple[Any, Any]:
    """Two envs of classes that no module has, as those of a script: they travel by value."""

    class Bare(Plain):
        pass

    class Bouncing(Plain):
        def reset(self, **given: Any) -> Any:
            self.ball = Heavy()
            return super().reset(**given)

        def step(self, action: Any) -> Any:
            self.ball.height += 0.5
            seen, *rest = super().step(action)
            return seen + self.ball.height, *rest

    class Heavy(Ball):
        pass

    return Bare, Bouncing


def seen_with_a_death(kind: Any, backend: str) -> list[Any]:
    """What two envs show; in a process, they are saved, the process dies, and others go on from there."""
    seen = []
    with make_vec(kind, 2, plan=Plan(backend, workers=1)) as envs:
        envs.reset(seed=3)
        for step in range(12):
            if step == 6:
                envs.pool.snapshot()
            if step == 8 and backend == "process":
                os.kill(envs.pool.workers[0].pid, signal.SIGKILL)
            seen.append(envs.step([0, 1])[0].tolist())
        assert all(len(member.journal) <= 6 for member in envs.pool._crew.members)
    return seen


@pytest.mark.parametrize("kind", kinds_of_a_script(), ids=["bare", "with a part"])
def test_an_env_whose_class_is_in_no_module_goes_on_from_its_snapshot_elsewhere(kind: Any) -> None:
    assert seen_with_a_death(kind, "process") == seen_with_a_death(kind, "inline")


def test_an_env_of_a_script_goes_on_from_its_snapshot_elsewhere(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, gymnasium, numpy as np\nfrom typing import Any\nfrom gymnasium import spaces\n"
        "from paceline import Plan, make_vec\n\n"
        + "\n\n".join(inspect.getsource(each) for each in (Plain, seen_with_a_death))
        + "\n\nassert seen_with_a_death(Plain, 'process') == seen_with_a_death(Plain, 'inline')\nprint('the same')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert done.stdout == "the same\n", done.stderr


def test_two_classes_of_one_name_cannot_be_told_apart() -> None:
    """A pickle that names one of them might come back as the other."""

    def made(gain: float) -> Any:
        class Part(Ball):
            unit = gain

        return Part

    class Twofold(Plain):
        kinds = (made(1.0), made(2.0))

        def parts(self) -> Any:
            return first, second

    first, second = Twofold.kinds
    env = Twofold()
    assert pickled(env) is not None
    env.part = first()  # type: ignore[attr-defined]
    assert pickled(env) is None
