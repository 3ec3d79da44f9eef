"""`ParallelEnvironment` and environments with a loop of their own, as Sorrel's have: which runs, and what it writes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
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


def made(
    kind: type[Any] = twin.LoopedEnvironment, models: Callable[[], Any] = twin.Net, save: bool = False, **parallel: Any
) -> Any:
    """An environment from seeds that are always the same."""
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    experiment = {"epochs": 4, "max_turns": 5, "record_period": 2}
    config = {"experiment": experiment, "model": {"save_weights": save}, "parallel": parallel}
    return kind(config, [models() for _ in range(3)])


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
    for other in ({"experiment": {"epochs": 9, "max_turns": 5}}, {"epochs": 9, "max_turns": 5}):
        with pytest.raises(BadInput, match=r"called.*: experiment\.epochs=9 \(the environment's own: 4\)\. Say"):
            ParallelEnvironment(made(), other).run_experiment()
    with pytest.raises(BadInput, match=r"parallel\.streams is 'mine'"):
        ParallelEnvironment(made(streams="mine"))


@pytest.mark.parametrize("own", [True, False], ids=["with a loop of its own", "without one"])
@pytest.mark.parametrize("method", ["run_experiment", "run_experiment_parallel"])
@pytest.mark.parametrize("keyword", [{"anmate": 1}, {"resume": "x"}, {"trace": "t.json"}, {"checkpoint": True}])
def test_a_keyword_that_is_not_known_is_an_error_that_names_it(method: str, own: bool, keyword: dict[str, Any]) -> None:
    env = ParallelEnvironment(made(twin.LoopedEnvironment if own else twin.Environment, twin.Net, streams="own"))
    (name,) = keyword
    words = "did you mean animate" if name == "anmate" else "there are animate, logging, logger, output_dir"
    with pytest.raises(BadInput, match=rf"run_experiment\(\)\.{name} is not known; {words}"):
        getattr(env, method)(**keyword)


@pytest.mark.parametrize("later", [False, True])
def test_pictures_weights_and_log_rows_are_written_and_change_nothing(
    later: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the classes that the environment's own loop has, and unless something else is said; a renderer may draw."""
    there = {"enabled": True, "async_learning": later, "num_workers": 0, "train_interval": 2}
    plain = made(**there)
    ParallelEnvironment(plain).run_experiment(False, False)
    expected = left(plain)
    assert capfd.readouterr().out == ""
    env = made(save=True, **there)
    ParallelEnvironment(env).run_experiment(output_dir=tmp_path)
    assert left(env) == expected
    assert capfd.readouterr().out.splitlines() == [f"epoch {epoch} of 4" for epoch in range(5)]
    pictures = {f"LoopedEnvironment_epoch{epoch}.gif" for epoch in (0, 2, 4)}
    assert {path.name: len(path.read_text().splitlines()) for path in (tmp_path / "gifs").iterdir()} == dict.fromkeys(
        pictures, 5
    )
    saved = {path.name[20:]: torch.load(path) for path in (tmp_path / "checkpoints").iterdir()}
    assert set(saved) == {f"epoch-{epoch}-agent-{agent}.pkl" for epoch in (0, 2, 4) for agent in range(3)}
    first, last = (digest(saved[f"epoch-{epoch}-agent-1.pkl"]) for epoch in (0, 4))
    assert (last != first, last == digest(env.agents[1].model.state_dict())) == (not later, not later)  # those that act


@pytest.mark.parametrize(
    ("kind", "models", "keywords", "words"),
    [
        (twin.Environment, twin.Net, {"animate": True, "output_dir": "x"}, "that has a ImageRenderer: animate=False"),
        (twin.Environment, twin.Net, {"logging": True}, "that has a ConsoleLogger: give a logger"),
        (twin.Environment, twin.Net, {}, "give output_dir, or experiment.output_dir"),
        (twin.LoopedEnvironment, twin.Watched, {}, "the model of agent 0, a Watched, has no save"),
        (twin.LoopedEnvironment, twin.Net, {"animate": "perhaps"}, r"run_experiment\(\)\.animate is 'perhaps'"),
        (twin.LoopedEnvironment, twin.Net, {"logger": 3}, "logger=3: give one that has record_epoch"),
    ],
)
def test_what_a_run_cannot_write_is_refused_by_name(kind: Any, models: Any, keywords: Any, words: str) -> None:
    env = made(kind, models if models is twin.Net else lambda: models(0), save=True)
    with pytest.raises(BadInput, match=words):
        ParallelEnvironment(env).run_experiment_parallel(**keywords)
