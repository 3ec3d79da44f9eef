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
from paceline.train.timetable import Timetable
from paceline.train.trainer import Trainer


def check_independence(
    mission: Any, learners: Any = "dqn", *, epochs: int = 3, max_turns: int | None = None, seed: int = 0
) -> None:
    """Plays some epochs, has every agent learn from its rows, and again with the rows of one agent changed.

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
    """What all agents learn when the rewards of one are others."""
    rewards = trainer.rings[agent].shared.arrays["rewards"]  # type: ignore[union-attr]
    before = rewards.copy()
    rewards += np.linspace(1.0, 2.0, len(rewards))
    try:
        return _learned(trainer)
    finally:
        rewards[:] = before


def _learned(trainer: Trainer) -> dict[str, str]:
    """Agent → the digest of its weights after an update."""
    job, found = trainer.job, dict[str, str]()
    learning = [recipe for recipe in job.recipes if recipe.learns]
    keys = [("learn", *recipe.agents) for recipe in learning]
    with Pool([partial(Learning, recipe, job.seed) for recipe in learning], seed=job.seed, keys=keys) as pool:
        calls = {
            number: (
                {agent: (0, trainer.rings[agent].span(None, 0)) for agent in recipe.agents},
                {agent: trainer.rings[agent].shared for agent in recipe.agents},
            )
            for number, recipe in enumerate(learning)
        }
        for learned in pool.call("learn", calls).values():
            found.update({agent: digest(each.weights) for agent, each in learned.items()})
    return found


def _compare(agent: str, before: dict[str, str], now: dict[str, str]) -> None:
    others = [name for name in before if name != agent and before[name] != now[name]]
    assert not others, f"other rewards of {agent!r} changed the learners of {', '.join(others)}: they share something"
    assert before[agent] != now[agent], f"other rewards of {agent!r} did not change its learner: it learns nothing"
