"""Sorrel-style experiments: the source's loop, the source's plan, and ours, side by side.

    python benchmarks/grid.py --only sorrel [--quick] [--markdown FILE] [--wait-quiet SECONDS]

Three agents, 100 epochs of 50 turns, trained after every fourth epoch. A slice is a whole run, with everything that it
starts and ends. See README.md for how to read the table.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from quiet import Quiet, Row, Slices, figure_row, gain_row, interleave
from sorrel_game import Hunt, shares
from sorrel_source_plan import SourcePlan

from paceline.adapters.sorrel import ParallelEnvironment
from paceline.seeds import digest


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    agents: int = 3
    epochs: int = 100
    turns: int = 50
    rows: int = 10_000
    steps: int = 40
    rounds: int = 5
    plan_rounds: int = 1
    pool_each_time: bool = True


QUICK = Sizes(epochs=12, turns=10, rows=2_000, steps=10, rounds=2, pool_each_time=False)

_ORDERED: dict[str, Any] = {}
_PARALLEL = {"enabled": True, "parallel_training": True, "num_workers": 2}
_BESIDE = {"enabled": True, "async_learning": True, "parallel_training": True, "num_workers": 1}


def _hunt(sizes: Sizes, **parallel: Any) -> Hunt:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    experiment = {"epochs": sizes.epochs, "max_turns": sizes.turns}
    config = {"experiment": experiment, "parallel": {"train_interval": 4, **parallel}}
    return Hunt(config, sizes.agents, sizes.rows, sizes.steps)


def _wall(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _ours(sizes: Sizes, parallel: dict[str, Any], seen: dict[str, str], name: str) -> float:
    env = _hunt(sizes, **parallel)
    took = _wall(ParallelEnvironment(env).run_experiment)
    seen[name] = digest([agent.model.state_dict() for agent in env.agents])
    return took


def modes(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Seconds of a run: the source's own loop / ours in order, with training in 2 processes, and with lag 1 in one."""
    seen: dict[str, str] = {}
    ours = {"in order": _ORDERED, "trained in 2 processes": _PARALLEL, "trained beside collecting, lag 1": _BESIDE}
    contestants: dict[str, Callable[[], float]] = {"loop": lambda: _wall(_hunt(sizes).run_in_order)}
    for name, parallel in ours.items():
        contestants[name] = lambda name=name, parallel=parallel: _ours(sizes, parallel, seen, name)
    found = interleave(quiet, contestants, sizes.rounds)
    same = seen["in order"] == seen["trained in 2 processes"]
    for name in ours:
        yield gain_row(f"{sizes.agents} agents, {sizes.epochs} epochs, {name}: loop / ours", found[name], found["loop"])
        yield _rates(sizes, name, found[name], found["loop"])
    yield Row("weights in order and in 2 processes", "", "equal", "yes" if same else "no")


def _rates(sizes: Sizes, name: str, ours: Slices, peer: Slices) -> Row:
    experiences = (sizes.epochs + 1) * sizes.turns * sizes.agents
    rates = [f"{experiences / slices.median():.0f}" for slices in (ours, peer)]
    return Row(f"… experiences a second, {name}", "", "", "", "", *rates)


def plan(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Seconds of a run by the source's plan, with a pool for each training or one for all, / ours with lag 1."""
    seen: dict[str, str] = {}
    due = sizes.epochs // 4
    pools = {"one pool": False, "a pool for each training": True}
    for name, each_time in list(pools.items())[: 1 + sizes.pool_each_time]:
        trainings = []

        def planned(each_time: bool = each_time, trainings: list[int] = trainings) -> float:
            env = _hunt(sizes)
            made = SourcePlan(env, each_time)
            took = _wall(made.run)
            trainings.append(made.trainings)
            return took

        contestants = {"plan": planned, "ours": lambda: _ours(sizes, _BESIDE, seen, "ours")}
        found: dict[str, Slices] = interleave(quiet, contestants, sizes.plan_rounds)
        yield gain_row(f"the source's plan, {name} / ours", found["ours"], found["plan"])
        yield _rates(sizes, name, found["ours"], found["plan"])
        yield Row(f"… trainings that were run, of {due} that were due", "", "", "", "", str(due), str(trainings[-1]))


def parts(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Where the time of the source's loop goes."""
    for name, share in shares(_hunt(sizes)).items():
        yield figure_row(f"share of {name}", Slices([share], [True]), show="{:.0%}".format)


def measured(quiet: Quiet, quick: bool) -> Iterator[Row]:
    """All rows, in a process whose torch computes on one thread, as that of a worker does."""
    torch.set_num_threads(1)
    for measure in (modes, plan, parts):
        yield from measure(quiet, QUICK if quick else Sizes())
