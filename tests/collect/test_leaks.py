"""A task is collected on or evaluated on, never both, however it is written."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sketch_members import Hidden, Remembers

from paceline import BadInput, Collector
from paceline.collect import Leaks
from paceline.collect.jobs import Job
from paceline.collect.leaks import same_task_of
from paceline.types import Task
from paceline.worlds.meta import Circle, Square


def jobs(*tasks: Any) -> list[Job]:
    return [Job(0, index, Task(index, {"task": task})) for index, task in enumerate(tasks)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0.5, np.float32(0.5)),
        ((1, 2), [1.0, 2.0]),
        (np.array([1, 2]), (1.0, 2.0)),
        ({"goal": [1], "wind": 2}, {"wind": 2.0, "goal": np.array([1.0])}),
        ("left", "left"),
    ],
    ids=str,
)
def test_the_same_value_is_the_same_task_however_it_is_written(one: Any, other: Any) -> None:
    """In whichever order the two are used."""
    for first, second in ((one, other), (other, one)):
        leaks = Leaks()
        leaks.check(jobs(first), "collected")
        leaks.check(jobs(second), "collected")
        with pytest.raises(BadInput, match="has been collected on before"):
            leaks.check(jobs(second), "evaluated")


def test_other_values_are_other_tasks() -> None:
    """So are 1 and True, and 1 and "1"."""
    leaks = Leaks()
    leaks.check(jobs(1, (1,), "2"), "collected")
    leaks.check(jobs(True, "1", 2, (1, 1), 1.0000001), "evaluated")


def test_nothing_is_noted_when_one_of_the_tasks_has_leaked() -> None:
    leaks = Leaks()
    leaks.check(jobs(1), "collected")
    with pytest.raises(BadInput, match=r"rollout 1, {'task': 1}"):
        leaks.check(jobs(2, 1), "evaluated")
    leaks.check(jobs(2), "collected")


def test_a_world_says_which_values_are_the_same_task() -> None:
    """Angles a whole turn apart are; what its rule does not know is compared as it is written."""
    leaks = Leaks(same_task_of(SimpleNamespace(tasks=Circle())))
    leaks.check(jobs(0.5, "north"), "collected")
    leaks.check(jobs(0.5 + math.pi, "south"), "evaluated")
    for leaked in (0.5 + 2 * math.pi, 0.5 - 2 * math.pi, "north"):
        with pytest.raises(BadInput, match="has been collected on before"):
            leaks.check(jobs(leaked), "evaluated")
    assert same_task_of(SimpleNamespace(tasks=Square(1.0))) is not None
    assert same_task_of(SimpleNamespace(tasks=[1, 2])) is same_task_of(Hidden()) is None


def test_a_task_that_the_environment_draws_itself_is_not_guarded() -> None:
    leaks = Leaks()
    drawn = [*jobs(None), Job(0, 0)]
    leaks.check(drawn, "collected")
    leaks.check(drawn, "evaluated")


def test_a_collector_guards_by_the_rule_of_its_world() -> None:
    with Collector("PointRobot-H20-v0", random_actions=True, tasks=[(0.5, 0.25)], horizon=2, plan=0) as collector:
        collector.collect(1)
        with pytest.raises(BadInput, match="has been collected on before"):
            collector.evaluate([np.array([0.5, 0.25], np.float32)])
        assert len(collector.evaluate("eval")) == 20
        with pytest.raises(BadInput, match="has been collected on before"):
            collector.evaluate([(0.5, 0.25)])


def test_tasks_that_have_been_evaluated_on_are_not_collected_on() -> None:
    tasks = [Task(index, {"hidden": index / 4}) for index in range(3)]
    with Collector(Hidden, Remembers, tasks=tasks, plan=0) as collector:
        collector.evaluate(tasks[2:])
        collector.collect(2)
        with pytest.raises(BadInput, match=r"rollout 2, .* has been evaluated on before"):
            collector.collect(3)
