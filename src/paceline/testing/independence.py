"""Whether learners are independent: what one agent has seen changes no other agent's learner by one bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from paceline.engine import Plan, Pool
from paceline.seeds import digest
from paceline.train.given import mission_of, recipes_of
from paceline.train.hosts import Learning
from paceline.train.job import Job, shortened
from paceline.train.rings import is_of_ends
from paceline.train.timetable import Timetable
from paceline.train.trainer import Trainer


def check_independence(
    mission: Any, learners: Any = "dqn", *, epochs: int = 3, max_turns: int | None = None, seed: int = 0
) -> None:
    """Plays some epochs, has every agent learn from its rows, and again with the rows of one agent changed: what it
    saw, did and got.

    Args:
        mission: The world, as `train` takes it.
        learners: The learners, as `train` takes them.
        epochs: How many epochs are played before the update.
        max_turns: The most turns of an epoch.
        seed: Root of everything random.

    Raises:
        AssertionError: another agent's learner changed, or the agent's own did not.
        BadInput: as `train` raises it.
    """
    world = shortened(mission_of(mission), max_turns)
    recipes = recipes_of(learners, world, seed, "cpu")
    job = Job(world, recipes, Timetable(epochs + 1, train_interval=epochs + 1), seed=seed)
    with Trainer(job, Plan("inline", 1)) as trainer:
        trainer.begin()
        for _ in range(epochs):
            trainer.play_epoch()
        undisturbed = _learned(trainer)
        for agent in undisturbed:
            _compare(agent, undisturbed, _disturbed(trainer, agent))


def _disturbed(trainer: Trainer, agent: str) -> dict[str, str]:
    """What all agents learn when the rows of one are others: what it saw, did and got."""
    arrays = _arrays(trainer, agent)
    before = {name: array.copy() for name, array in arrays.items()}
    for name, array in arrays.items():
        if name == "rewards":
            array += np.linspace(1.0, 2.0, len(array))
        else:  # the later half of them backwards, each twice: values that the space has, and other sums
            array[:] = before[name][len(array) - 1 - np.arange(len(array)) // 2]
    try:
        return _learned(trainer)
    finally:
        for name, array in arrays.items():
            array[:] = before[name]


def _arrays(trainer: Trainer, agent: str) -> dict[str, np.ndarray[Any, Any]]:
    """What of an agent's rows can be others: rewards, observations, the final ones too, and actions."""
    ring = trainer.rings[agent]
    span, kept = ring.span(None, 0), ("rewards", "observations", "final", "actions")
    assert ring.shared is not None
    return {
        name: array[: span.ends if is_of_ends(name) else span.hi]
        for name, array in ring.shared.arrays.items()
        if name.partition(".")[0] in kept
    }


def _learned(trainer: Trainer) -> dict[str, str]:
    """Agent → the digest of its weights after an update; an agent that was never there has none."""
    job, found = trainer.job, dict[str, str]()
    rows = {agent: ring for agent, ring in trainer.rings.items() if ring.count}
    learning = [recipe for recipe in job.recipes if recipe.learns]
    keys = [("learn", *recipe.agents) for recipe in learning]
    with Pool([partial(Learning, recipe, job.seed) for recipe in learning], seed=job.seed, keys=keys) as pool:
        calls = {
            number: (
                {agent: (0, rows[agent].span(None, 0)) for agent in recipe.agents if agent in rows},
                {agent: rows[agent].shared for agent in recipe.agents if agent in rows},
            )
            for number, recipe in enumerate(learning)
        }
        for learned in pool.call("learn", calls).values():
            found.update({agent: digest(each.weights) for agent, each in learned.items()})
    return found


def _compare(agent: str, before: dict[str, str], now: dict[str, str]) -> None:
    others = [name for name in before if name != agent and before[name] != now[name]]
    assert not others, f"other rows of {agent!r} changed the learners of {', '.join(others)}: they share something"
    assert before[agent] != now[agent], f"other rows of {agent!r} did not change its learner: it learns nothing"
