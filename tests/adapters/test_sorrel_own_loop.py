"""`ParallelEnvironment` around an environment that has a loop of its own, as Sorrel's has: which one runs, what it writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sorrel_twin as twin
import torch

from paceline import digest
from paceline.adapters.sorrel import ParallelEnvironment, Record
from paceline.errors import BadInput


class Mixed(ParallelEnvironment, twin.LoopedEnvironment):
    """The mixin form."""


def made(kind: type[Any] = twin.LoopedEnvironment, models: Callable[[], Any] = twin.Net, **parallel: Any) -> Any:
    """An environment from seeds that are always the same."""
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    experiment = {"epochs": 4, "max_turns": 5, "record_period": 2}
    return kind({"experiment": experiment, "parallel": parallel}, [models() for _ in range(3)])


def left(env: Any) -> str:
    """What a run leaves: weights, memories, and where the caller's generators stand."""
    models = [agent.model for agent in env.agents]
    held = [[model.state_dict(), model.optimizer.state_dict(), model.memory.states, model.epsilon] for model in models]
    return digest([held, env.world.total_reward, random.random(), np.random.random(), torch.rand(())])


@pytest.mark.parametrize("form", [ParallelEnvironment, Mixed])
def test_without_enabled_the_environments_own_run_is_called_and_nothing_is_different(form: Any, tmp_path: Path) -> None:
    """On the caller's generators and threads, trained after every epoch, with what it writes and returns."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        own = made()
        assert own.run_experiment(output_dir=tmp_path) == "done"
        expected = left(own)
        env = made(Mixed, enabled=False, parallel_training=True) if form is Mixed else made(parallel_training=True)
        runner = env if form is Mixed else ParallelEnvironment(env)
        assert runner.run_experiment(output_dir=tmp_path) == "done"
        assert (env.threads, torch.get_num_threads()) == (2, 2)
    finally:
        torch.set_num_threads(before)
    assert left(env) == expected
    assert [agent.model.trainings for agent in env.agents] == [5] * 3
    assert runner.record == Record()


def test_streams_of_ones_own_are_a_run_of_pacelines_and_so_is_every_other_way_of_asking() -> None:
    """One result, and another one than that of the environment's own run."""

    def run(kind: type[Any] = twin.LoopedEnvironment, method: str = "run_experiment", **parallel: Any) -> str:
        env = made(kind, train_interval=2, **parallel)
        record = getattr(ParallelEnvironment(env), method)(**quiet)
        assert [len(record.rewards), len(record.updates), record.notes] == [5, 6, []]
        return left(env)

    quiet = {"animate": False, "logging": False}
    expected = run(twin.Environment)
    assert run(streams="own") == expected
    assert run(enabled=True, num_workers=0) == expected
    assert run(method="run_experiment_parallel") == expected
    env = made()
    ParallelEnvironment(env).run_experiment(**quiet)
    assert left(env) != expected


def test_settings_that_the_environments_own_run_does_not_know_are_told() -> None:
    env = ParallelEnvironment(made(train_interval=4, on_failure="retry"))
    env.run_experiment(logging=False)
    (note,) = env.record.notes
    assert note.startswith("on_failure and train_interval without effect: parallel.enabled is false")
    other = {"experiment": {"epochs": 9, "max_turns": 5}}
    with pytest.raises(BadInput, match=r"experiment\.epochs=9 \(the environment's own: 4\)"):
        ParallelEnvironment(made(), other).run_experiment()
    with pytest.raises(BadInput, match=r"parallel\.streams is 'mine'"):
        ParallelEnvironment(made(streams="mine"))
