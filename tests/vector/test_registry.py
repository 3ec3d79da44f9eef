"""Ids that the user's own process has registered with Gymnasium: workers know them, and auto may move their envs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from envs import Count

import paceline
from paceline import BadInput, Pool, evaluate, make_vec
from paceline.engine.planning.plan import Choice

MINE = "PacelineTestsMine-v0"


@pytest.fixture
def mine() -> Iterator[str]:
    gymnasium.register(MINE, entry_point=Count, max_episode_steps=3, kwargs={"number": 0}, disable_env_checker=True)
    yield MINE
    gymnasium.registry.pop(MINE)


def steps(recipes: Any, count: int | None, plan: Any, *, moves: bool = False) -> str:
    with make_vec(recipes, count, seed=0, plan=plan) as envs:
        seen: list[Any] = [envs.reset(seed=0)[0].copy()]
        for turn in range(5):
            if moves and turn == 2:
                envs.pool._crew.pilot._move(Choice("process", 2, ""))
            seen.append(envs.step(np.ones(3, int))[:4])
        return paceline.digest(seen)


def test_a_vector_finds_an_id_of_the_users_own_on_every_backend(mine: str, backend: str) -> None:
    assert steps(mine, 3, paceline.Plan(backend, 2)) == steps(mine, 3, 0)


def test_recipes_that_look_an_id_up_find_it_on_every_backend(mine: str, backend: str) -> None:
    recipes = [lambda: gymnasium.make(MINE)] * 3
    assert steps(recipes, None, paceline.Plan(backend, 2)) == steps(mine, 3, 0)


@pytest.mark.parametrize("by_id", [True, False], ids=["id", "recipes"])
def test_under_auto_such_envs_move_in_mid_run(mine: str, by_id: bool) -> None:
    recipes: Any = mine if by_id else [lambda: gymnasium.make(MINE)] * 3
    assert steps(recipes, 3, "auto", moves=True) == steps(mine, 3, 0)


def test_an_evaluation_finds_the_id_in_workers(mine: str) -> None:
    def played(mission: Any, plan: int) -> list[str]:
        report = evaluate(mission, "paceline:random", episodes=2, plan=plan)
        assert report.failures == []
        return [episode.digest for episode in report.episodes]

    here = played(f"gym:{mine}", 0)
    assert played(f"gym:{mine}", 2) == here == played(paceline.Mission(f"gym:{mine}", lambda: gymnasium.make(MINE)), 2)


def test_an_id_that_is_registered_later_reaches_workers_that_run(mine: str, killable: str) -> None:
    later = "PacelineTestsLater-v0"
    with Pool([], backend=killable, workers=1) as pool:
        assert pool.map(lambda name: name in gymnasium.registry, [mine, later]) == [True, False]
        gymnasium.register(later, entry_point=Count, kwargs={"number": 0})
        try:
            assert pool.map(lambda name: name in gymnasium.registry, [mine, later]) == [True, True]
        finally:
            gymnasium.registry.pop(later)


def test_an_entry_that_cannot_be_sent_says_so_when_it_is_made_and_harms_no_other(mine: str) -> None:
    held = "PacelineTestsHeld-v0"
    gymnasium.register(held, entry_point=Count, kwargs={"number": 0, "wrong": threading.Lock()})
    try:
        assert steps(mine, 3, 2) == steps(mine, 3, 0)
        with pytest.raises(BadInput, match=f"'{held}' is registered in the main process, and .* cannot be sent"):
            make_vec([lambda: gymnasium.make(held)] * 2, plan=2)
    finally:
        gymnasium.registry.pop(held)


class OnlyAtHome(Count):
    """Can be built in the process that it was written in only."""

    def __init__(self, home: int) -> None:
        if os.getpid() != home:
            raise FileNotFoundError("its license lies elsewhere")
        super().__init__(0)


def test_envs_that_cannot_be_built_in_the_new_place_stay_and_it_is_said_once(caplog: Any) -> None:
    home = os.getpid()
    with caplog.at_level(logging.WARNING, "paceline"):
        there = steps(lambda: OnlyAtHome(home), 3, "auto", moves=True)
    assert there == steps(lambda: OnlyAtHome(home), 3, 0)
    (told,) = [record.message for record in caplog.records if "staying here" in record.message]
    assert "cannot be built on process (FileNotFoundError: its license lies elsewhere)" in told


def test_the_plan_says_why_they_stayed() -> None:
    home = os.getpid()
    with make_vec(lambda: OnlyAtHome(home), 2, seed=0, plan="auto") as envs:
        envs.reset(seed=0)
        pilot = envs.pool._crew.pilot
        assert pilot is not None
        pilot._move(Choice("process", 2, ""))
        assert envs.plan.backend == "inline"
        assert "its license lies elsewhere" in envs.plan.why
        assert [event.kind for event in envs.pool.events].count("stayed") == 1
