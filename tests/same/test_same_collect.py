"""Rollouts of meta-RL worlds have one digest at any number of workers, wherever the policy is, and after deaths."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from deadly_worlds import DiesOnce, DrawsAndDiesOnce

from paceline import Plan, collect
from paceline.worlds.meta import VariBadWrapper

WORLDS = ["AntDir-v0", "PointRobot-H20-v0"]
AGENTS = ["markov", "memory", "memory_markov"]
HERE = Plan("process", 2, agents="here")
PLANS = [1, 2, 3, HERE, Plan("inline", agents="here")]


def collected(env: Any, agent: str, plan: Any, tasks: Any = "train") -> str:
    return collect(
        env, f"{agent},hidden=8", 6, tasks=tasks, episodes=2, horizon=5, seed=5, lanes=3, reuse=True, plan=plan
    ).digest


@cache
def reference(world: str, agent: str) -> str:
    return collected(world, agent, 0)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: str(plan) if isinstance(plan, int) else f"here-{plan.backend}")
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("world", WORLDS)
def test_one_digest_for_any_number_of_workers_and_both_places_of_the_policy(world: str, agent: str, plan: Any) -> None:
    assert collected(world, agent, plan) == reference(world, agent)


@pytest.mark.parametrize("plan", [2, HERE], ids=["worker", "here"])
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("world", WORLDS)
def test_a_worker_that_is_killed_in_mid_rollout_costs_no_bit(world: str, agent: str, plan: Any, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    mark.touch()  # while its tasks are asked for, and it is tried out, here
    tasks = [0.5, -0.5] if world.startswith("Ant") else [(0.5, 0.5), (-0.5, 0.5)]
    whole = collected(world, agent, 0, tasks)
    mark.unlink()
    assert collected(partial(DiesOnce, world, mark), agent, plan, tasks) == whole
    assert mark.exists()


@pytest.mark.parametrize("plan", [2, HERE], ids=["worker", "here"])
def test_a_worker_that_is_killed_costs_no_bit_where_process_wide_generators_are_drawn_from(
    plan: Any, tmp_path: Path
) -> None:
    mark = tmp_path / "died"
    mark.touch()
    tasks, drawing = [(0.5, 0.5), (-0.5, 0.5)], partial(DrawsAndDiesOnce, "PointRobot-H20-v0", mark)
    whole = collected(drawing, "memory", 0, tasks)
    assert whole != collected("PointRobot-H20-v0", "memory", 0, tasks)
    mark.unlink()
    assert collected(drawing, "memory", plan, tasks) == whole
    assert mark.exists()


def test_a_function_with_state_is_copied_for_each_rollout() -> None:
    def fresh() -> Any:
        generator = np.random.default_rng(0)
        return lambda seen: generator.uniform(-1, 1, 2).astype(np.float32)

    def play(plan: Any) -> Any:
        return collect("PointRobot-H20-v0", fresh(), 6, tasks="train", horizon=5, seed=5, plan=plan)

    alone = play(0)
    assert alone.digest == play(2).digest
    assert all((each.columns["actions"] == alone[0].columns["actions"]).all() for each in alone)


def test_an_oracle_is_shown_the_task_of_each_rollout_wherever_it_is_played() -> None:
    def play(plan: Any) -> Any:
        def world() -> Any:
            return VariBadWrapper(gymnasium.make("PointRobot-H20-v0"), 1, oracle=True)

        return collect(world, "markov,hidden=8", 6, tasks="train", episodes=2, horizon=5, seed=5, lanes=3, plan=plan)

    alone = play(0)
    assert alone.digest == play(2).digest == play(HERE).digest
    for rollout, task in zip(alone, alone.tasks, strict=True):
        shown = rollout.columns["observations"][:, 2:]
        np.testing.assert_array_equal(shown, np.broadcast_to(np.array(task, np.float32), (10, 2)))


def test_agents_and_worlds_have_digests_of_their_own() -> None:
    assert len({reference(world, agent) for world in WORLDS for agent in AGENTS}) == 6
