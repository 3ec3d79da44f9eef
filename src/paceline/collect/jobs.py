"""What is collected: the recipe of all rollouts, and which rollout is which.

A rollout is a pure function of (weights, task, seed, iteration, index). Its streams follow from that identity: the
task, the start state of each episode, the noise of actions. None follows from the worker that plays it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.seeds import Key, env_seed, sequence
from paceline.team import Chair, Player
from paceline.types import Mission, Seat, Task


@dataclass(frozen=True)
class Job:
    """One rollout.

    Attributes:
        iteration: Which round of collection; rounds of evaluation have words.
        index: Its number in that round.
        task: What the environment is asked to set up at each of its episodes; None: as it comes.
    """

    iteration: int | str
    index: int
    task: Task | None = None

    @property
    def key(self) -> Key:
        """Who it is."""
        return ("rollout", self.iteration, self.index)


@dataclass(frozen=True)
class Spec:
    """What all rollouts of a collection have in common.

    Attributes:
        mission: The environment.
        player: The policy, with its weights.
        episodes: How many episodes of its task a rollout has, in one environment, one after another.
        seed: Root of everything random.
        lanes: Rows of a forward pass. Part of the result: another number gives other bits.
        device: Where networks are put.
        first_task: The task of the first rollout, for what is tried before any is played.
        seats: How many agents the environment has.
    """

    mission: Mission
    player: Player
    episodes: int = 1
    seed: int = 0
    lanes: int = 8
    device: str = "cpu"
    first_task: Task | None = None
    seats: int = 1

    def without_policy(self) -> Spec:
        """The same for a process that only has the environments: a policy need not travel there."""
        return replace(self, player=Player("elsewhere", type(None)))

    def start(self, job: Job, episode: int) -> int:
        """The environment's seed in one episode of a rollout."""
        return env_seed(self.seed, "start", job.iteration, job.index, episode)

    def task_stream(self, iteration: int | str, index: int) -> np.random.Generator:
        """What the task of a rollout is drawn from."""
        return np.random.default_rng(sequence(self.seed, "task", iteration, index))

    def side_by_side(self) -> int:
        """How many rollouts share a forward pass."""
        return max(1, self.lanes // self.seats) if self.player.declares("act_batch") is not None else 1

    def chair(self, name: Any, job: Job, seat: Seat, seats: int) -> Chair:
        """The chair of an agent of a rollout."""
        return Chair(name, self.episode(job), seat, self.player, seats)

    def episode(self, job: Job) -> tuple[str, int]:
        """How the policies of a rollout know it; what they draw follows from this."""
        return str(job.iteration), job.index
