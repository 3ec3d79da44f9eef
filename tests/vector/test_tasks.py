"""A task that was given stays until another one is: with `set_task` or without, anywhere, and after any death."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import numpy as np
import pytest
from envs import Count, Settable

from paceline import BadInput
from paceline.vector import make_vec


class Told(Count):
    """Does what the options of its last reset say, and forgets what those before it said. Uses its task up."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.task = None
        seen, _ = super().reset(seed=seed, options=options)
        return seen, {"task": str(self.task) if not isinstance(self.task, list) else self.task.pop()}


class Set(Settable):
    """Says of its task what `Told` says."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        seen, _ = super().reset(seed=seed, options=options)
        return seen, {"task": str(self.task)}


def kill_all(envs: Any) -> None:
    for worker in envs.pool.workers:
        os.kill(worker.pid, signal.SIGKILL)


def stepped(envs: Any, kills: bool, steps: int = 15) -> list[Any]:
    """What envs say of their tasks, and show, over two beginnings of episodes; their workers die before and after."""
    told = []
    for turn in range(steps):
        if kills and turn in (2, 8, 9):
            kill_all(envs)
        seen, _, _, _, infos = envs.step(np.zeros(2, int))
        told.append((seen.tolist(), list(infos.get("task", []))))
    return told


def played(make: Any, plan: int, kills: bool = False, **options: Any) -> list[Any]:
    with make_vec([partial(make, n) for n in range(2)], plan=plan, seed=4, **options) as envs:
        said = [list(envs.reset(seed=1, options={"tasks": ["a", "b"]})[1]["task"]), stepped(envs, kills)]
        said += [list(envs.reset(seed=2)[1]["task"]), stepped(envs, kills)]
        said += [list(envs.reset()[1]["task"])]
        envs.set_tasks(["c", "d"])
        said += [stepped(envs, kills), list(envs.reset(seed=3)[1]["task"]), stepped(envs, kills)]
        return said


def tasks_of(steps: list[Any]) -> list[Any]:
    return [task for _, task in steps if task]


@pytest.mark.parametrize("options", [{}, {"reseed": "episode"}, {"autoreset": "SameStep"}], ids=str)
@pytest.mark.parametrize("make", [Told, Set])
def test_a_task_stays_until_another_one_is_given(make: Any, options: dict[str, Any]) -> None:
    said = played(make, 0, **options)
    for beginning, steps, expected in ((0, 1, ["a", "b"]), (2, 3, ["a", "b"]), (6, 7, ["c", "d"])):
        assert said[beginning] == expected
        assert tasks_of(said[steps]) == [expected] * 2
    assert tasks_of(said[5]) == [["c", "d"]] * 2
    assert played(make, 2, **options) == said
    assert played(make, 2, kills=True, **options) == said


@pytest.mark.parametrize("make", [Told, Set])
def test_a_task_is_in_a_snapshot(make: Any) -> None:
    with make_vec([partial(make, n) for n in range(2)], plan=1, seed=4) as envs:
        envs.reset(seed=1, options={"tasks": ["a", "b"]})
        envs.pool.snapshot()
        assert all(len(member.journal) == 0 for member in envs.pool._crew.members)
        kill_all(envs)
        assert tasks_of(stepped(envs, kills=False)) == [["a", "b"]] * 2


def test_a_task_that_the_env_uses_up_is_whole_again_in_the_next_episode() -> None:
    with make_vec([partial(Told, n) for n in range(2)], plan=0, seed=4) as envs:
        envs.reset(seed=1, options={"tasks": [["x"], ["y"]]})
        assert tasks_of(stepped(envs, kills=False)) == [["x", "y"]] * 2


def test_an_option_of_ones_own_counts_before_a_task_of_long_ago() -> None:
    with make_vec([partial(Told, n) for n in range(2)], plan=0, seed=4) as envs:
        envs.reset(seed=1, options={"tasks": ["a", "b"]})
        assert list(envs.reset(options={"task": "z"})[1]["task"]) == ["z", "z"]
        assert list(envs.reset()[1]["task"]) == ["a", "b"]


@pytest.mark.parametrize("plan", [0, 2])
def test_the_rules_give_the_next_episode_another_task(plan: int) -> None:
    with make_vec([partial(Told, n) for n in range(2)], plan=plan, seed=4, tasks=["r"]) as envs:
        assert list(envs.reset(seed=1, options={"tasks": ["a", "b"]})[1]["task"]) == ["a", "b"]
        assert tasks_of(stepped(envs, kills=False)) == [["r", "r"]] * 2
        with pytest.raises(BadInput, match=r"env 0 has no set_task, .* give it another with reset"):
            envs.set_tasks(["c", "d"])
