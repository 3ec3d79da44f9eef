"""What the measures of training share: a cheap world, trainers that can be run epoch by epoch, rows without a play."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from paceline.checkpoints import Checkpoints
from paceline.engine import Plan
from paceline.spaces import Array
from paceline.train.given import mission_of, recipes_of
from paceline.train.job import Job, in_turns
from paceline.train.timetable import Timetable
from paceline.train.trainer import Trainer
from paceline.types import Mission, Seat

ACTIONS = 6


class Numbers:
    """A PettingZoo parallel env that costs next to nothing: agents see random numbers, and one action is worth more.

    Args:
        agents: How many.
        inputs: How many numbers each of them sees.
        length: Turns of an episode.
    """

    metadata: dict[str, Any] = {"name": "numbers"}  # noqa: RUF012
    render_mode = None

    def __init__(self, agents: int, inputs: int, length: int) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self._inputs, self._length = inputs, length

    def observation_space(self, agent: str) -> spaces.Box:
        return spaces.Box(-np.inf, np.inf, (self._inputs,), np.float32)

    def action_space(self, agent: str) -> spaces.Discrete:
        return spaces.Discrete(ACTIONS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Array], dict[str, Any]]:
        self._rng, self._turn, self.agents = np.random.default_rng(seed), 0, list(self.possible_agents)
        return self._seen(), {agent: {} for agent in self.agents}

    def _seen(self) -> dict[str, Array]:
        rows = self._rng.standard_normal((len(self.possible_agents), self._inputs), np.float32)
        return dict(zip(self.possible_agents, rows, strict=True))

    def step(self, actions: Mapping[str, int]) -> tuple[Any, ...]:
        self._turn += 1
        rewards = {agent: float(action == 0) for agent, action in actions.items()}
        over = dict.fromkeys(self.agents, self._turn >= self._length)
        running, self.agents = self.agents, [] if self._turn >= self._length else self.agents
        return self._seen(), rewards, dict.fromkeys(running, False), over, {agent: {} for agent in running}

    def close(self) -> None:
        pass


def numbers(agents: int, inputs: int, length: int) -> Mission:
    """A mission in that world."""
    return Mission("numbers", partial(Numbers, agents, inputs, length), steps=length)


class Training:
    """A trainer, epoch after epoch, as far as it is asked to go.

    Args:
        mission: Where.
        learners: Who; see `paceline.train`.
        epochs: How many there may be; rings have room for so many.
        plan: Where learners live.
        lag: By how many updates the weights that act are behind.
        capacity: How many rows of each agent are kept.
        warmup: Rows of an agent before its first update.
        turn: "simultaneous" or "ordered".
        speculate: Whether agents in order are answered ahead; None: where it pays.
        checkpoints: Where it is saved; None: nowhere.
    """

    def __init__(
        self,
        mission: Any,
        learners: Any,
        epochs: int,
        plan: Plan,
        lag: int = 0,
        capacity: int | None = None,
        warmup: int = 0,
        turn: str = "simultaneous",
        speculate: bool | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        world = in_turns(mission_of(mission), turn)
        recipes = recipes_of(learners, world, 0, "cpu")
        job = Job(world, recipes, Timetable(epochs, lag=lag), warmup=warmup, capacity=capacity, turn=turn)
        self._stack = ExitStack()
        self.trainer = self._stack.enter_context(Trainer(job, plan, speculate=speculate, checkpoints=checkpoints))
        self.trainer.begin()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def play(self, epochs: int) -> None:
        """Plays so many epochs, and waits for the updates that they unlock."""
        for _ in range(epochs):
            self.trainer.play_epoch()
        self.trainer.updates.drain()

    def fill(self, rows: int, length: int) -> int:
        """Files rows of every agent as if they had been played, in episodes; gives their bytes."""
        seats = {seat.agent: seat for recipe in self.trainer.job.recipes for seat in recipe.seats}
        total = 0
        for agent, ring in self.trainer.rings.items():
            for columns in episodes(seats[agent], rows, length):
                ring.extend(columns)
                total += sum(array.nbytes for name, array in columns.items() if name not in ("ends", "starts"))
        return total


def episodes(seat: Seat, rows: int, length: int) -> Any:
    """Rows of episodes, as a track has them, in parts of at most a hundred episodes."""
    rng, shape = np.random.default_rng(seat.index), seat.observation_space.shape
    for first in range(0, rows, 100 * length):
        count = min(100 * length, rows - first)
        ends = np.arange(length - 1, count, length)
        over = np.zeros(count, bool)
        over[ends] = True
        yield {
            "observations": rng.standard_normal((count, *shape), np.float32),
            "actions": rng.integers(ACTIONS, size=count),
            "rewards": rng.random(count),
            "terminations": np.zeros(count, bool),
            "truncations": over,
            "ends": ends,
            "final_observations": rng.standard_normal((len(ends), *shape), np.float32),
        }
