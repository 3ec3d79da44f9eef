"""Whatever makes no sense is refused at once, in words that say what to give."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs import Count

from paceline import BadInput
from paceline.adapters.agent_rows import agent_rows
from paceline.vector import make_vec

count = partial(Count, 0)


def nothing() -> Any:
    return None


def five() -> Any:
    return 5


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((Count(0), 2), {}, "is an env.*give a function that makes an env"),
        (([Count(0)],), {}, "is no recipe: give a function"),
        ((5, 2), {}, "5 is no recipe"),
        ((count, 2.5), {}, r"num_envs=2\.5; give a whole number, 1 or more"),
        ((count, "2"), {}, "num_envs='2'; give a whole number"),
        ((count, 0), {}, "num_envs=0; give a whole number, 1 or more"),
        ((nothing, 2), {}, "recipe of env 0 made None, which is no env"),
        (([count, five],), {}, "recipe of env 1 made 5, which is no env"),
        ((count, 2), {"seed": "a"}, "seed='a'; give a whole number, 0 or more, or None"),
        ((count, 2), {"seed": 1.5}, r"seed=1\.5; give a whole number"),
        ((count, 2), {"seed": -1}, "seed=-1; give a whole number, 0 or more"),
        ((count, 2), {"copy": "no"}, "copy='no'; give True or False"),
        ((count, 2), {"check": 1}, "check=1; give True or False"),
        ((count, 2), {"deadline": "5"}, "deadline='5'; give seconds above 0"),
        ((count, 2), {"deadline": 0}, "deadline=0; give seconds above 0"),
        ((count, 2), {"deadline": True}, "deadline=True; give seconds above 0"),
        ((count, 2), {"deadline": np.float32("nan")}, "give seconds above 0"),
        ((count, 2), {"autoreset": 3}, "autoreset=3; give one of NextStep"),
    ],
)
def test_make_vec_says_what_to_give(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make_vec(*arguments, **{"plan": "auto" if "deadline" in options else 0, **options})


@pytest.mark.parametrize("deadline", [None, np.int64(5), np.float32(5)])
def test_numbers_of_numpy_are_numbers(deadline: Any) -> None:
    with make_vec(count, np.int64(2), plan=1, seed=np.int32(3), deadline=deadline) as envs:
        assert envs.reset()[0].tobytes() == envs.reset(seed=np.array([3, 4]))[0].tobytes()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda envs: envs.reset(seed="a"), "seed='a'; give a whole number, a list"),
        (lambda envs: envs.reset(seed=2.5), r"seed=2\.5; give a whole number, a list"),
        (lambda envs: envs.reset(seed=[1, "b"]), "'b' is no whole number"),
        (lambda envs: envs.reset(seed=-1), "whole numbers from 0"),
        (lambda envs: envs.reset(seed=[1, -2]), "-2; Gymnasium takes whole numbers from 0"),
        (lambda envs: envs.reset(seed=[1, 2, 3]), "3 seeds for 2 envs"),
        (lambda envs: envs.reset(options={"tasks": 5}), "tasks are 5; give a list with one for each of 2 envs"),
        (lambda envs: envs.reset(options={"tasks": "ab"}), "tasks are 'ab'; give a list"),
        (lambda envs: envs.reset(options={"tasks": [1]}), "1 tasks for 2 envs"),
        (lambda envs: envs.set_tasks(5), "tasks are 5; give a list"),
        (lambda envs: envs.recv(2.5), r"recv\(2\.5\); give a whole number of envs"),
        (lambda envs: envs.send([0], 1), "envs=1; give a list of their numbers"),
        (lambda envs: envs.send([0], [0.0]), r"envs=\[0\.0\]; give a list of their numbers"),
        (lambda envs: envs.send([0, 0], np.array([True, False])), "give a list of their numbers"),
    ],
)
def test_envs_say_what_to_give(ask: Any, words: str) -> None:
    with make_vec(count, 2, plan=0) as envs:
        with pytest.raises(BadInput, match=words):
            ask(envs)
        envs.reset(seed=1)


def test_a_refused_seed_is_not_the_first_reset() -> None:
    with make_vec(count, 2, plan=0, seed=4) as envs, make_vec(count, 2, plan=0, seed=4) as other:
        with pytest.raises(BadInput):
            envs.reset(seed="a")
        assert envs.reset()[0].tobytes() == other.reset()[0].tobytes()


def test_to_send_to_nobody_is_nothing() -> None:
    with make_vec(count, 2, plan=0) as envs:
        envs.reset(seed=1)
        envs.send([], [])
        envs.send(np.zeros(0, int), np.zeros(0, int))
        with pytest.raises(BadInput, match="without a send"):
            envs.recv()
        assert envs.step(np.zeros(2, int))[0][:, 0].tolist() == [1, 1]


def test_rows_of_agents_need_agents() -> None:
    with pytest.raises(BadInput, match=r"a Gymnasium env \(CartPoleEnv\); .*paceline.make_vec makes a vector of them"):
        agent_rows(lambda: gymnasium.make("CartPole-v1"), 2, plan=0)
    with pytest.raises(BadInput, match=r"num_envs=2\.5; give a whole number"):
        agent_rows(nothing, 2.5)  # type: ignore[arg-type]
