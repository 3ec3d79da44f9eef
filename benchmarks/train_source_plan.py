"""Training as the source plan has it: a polling thread, `Pool.map` over agents, full copies of buffers.

    main: plays an epoch, appends to buffers, counts ──► thread: sleep(0.1), is an epoch due? ──► copies of all buffers
                                                                                                      │ pickled
                                         weights come back ◄── a process per agent: one update ◄──────┘

An epoch waits for the training of the one before it: epochs that are shorter than the thread's sleep would otherwise
lose most of their updates. One pool for all is kinder than the plan, whose pools import torch in every training.
"""

from __future__ import annotations

import threading
import time
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from train_parts import Numbers
from train_singles import ACTIONS, INPUTS, SETTINGS, Single

_NAP = 0.1  # seconds between two looks at the counter


class Buffer:
    """One agent's rows, in arrays of a fixed size.

    Args:
        rows: How many there are; all of them are filled.
    """

    def __init__(self, rows: int) -> None:
        rng = np.random.default_rng(0)
        self.states = rng.standard_normal((rows, INPUTS), np.float32)
        self.actions = rng.integers(ACTIONS, size=rows)
        self.rewards = rng.random(rows).astype(np.float32)
        self.dones = np.zeros(rows, np.float32)
        self.place = 0

    def add(self, state: Any, action: int, reward: float, done: bool) -> None:
        place = self.place
        self.states[place], self.actions[place], self.rewards[place], self.dones[place] = state, action, reward, done
        self.place = (place + 1) % len(self.rewards)

    def copy(self) -> Buffer:
        """The snapshot that a training reads: everything."""
        found = object.__new__(Buffer)
        vars(found).update({name: value.copy() for name, value in vars(self).items() if name != "place"})
        found.place = self.place
        return found

    def sample(self, count: int, **_: Any) -> dict[str, Any]:
        rows = np.random.randint(len(self.rewards) - 1, size=count)
        return {
            "observations": self.states[rows],
            "next_observations": self.states[rows + 1],
            "actions": self.actions[rows],
            "rewards": self.rewards[rows],
            "discounts": np.float32(SETTINGS.gamma) * (1 - self.dones[rows]),
        }


def _train_agent(agent: tuple[Single, Buffer]) -> tuple[float, dict[str, torch.Tensor]]:
    torch.set_num_threads(1)
    learner, buffer = agent
    return learner.learn(buffer), learner.net.state_dict()


class SourcePlan:
    """Such a training of some agents in `Numbers`.

    Args:
        agents: How many.
        rows: How many rows each buffer has.
        length: Turns of an epoch.
        pool_each_time: Whether every training has a pool of its own, as the plan says.
    """

    def __init__(self, agents: int, rows: int, length: int, pool_each_time: bool) -> None:
        self._env = Numbers(agents, INPUTS, length)
        self._learners = {agent: Single() for agent in self._env.possible_agents}
        self._buffers = {agent: Buffer(rows) for agent in self._env.possible_agents}
        self._pool = None if pool_each_time else _pool(agents)
        self._epoch, self._trained, self._over, self._done = 0, 0, False, threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def play(self, epochs: int) -> None:
        """Plays so many epochs, each with the training that it makes due."""
        for _ in range(epochs):
            self._play()
            self._done.clear()
            self._epoch += 1
            self._done.wait()

    def _play(self) -> None:
        seen, _ = self._env.reset(seed=self._epoch)
        while self._env.agents:
            actions = {agent: self._learners[agent].act(seen[agent]) for agent in seen}
            after, rewards, _, over, _ = self._env.step(actions)
            for agent, buffer in self._buffers.items():
                buffer.add(seen[agent], actions[agent], rewards[agent], over[agent])
            seen = after

    def _poll(self) -> None:
        while not self._over:
            if self._epoch > self._trained:
                self._train()
                self._trained = self._epoch
                self._done.set()
            time.sleep(_NAP)

    def _train(self) -> None:
        agents = [(learner, self._buffers[agent].copy()) for agent, learner in self._learners.items()]
        pool = self._pool or _pool(len(agents))
        for (learner, _), (_, weights) in zip(agents, pool.map(_train_agent, agents), strict=True):
            learner.net.load_state_dict(weights)
        if self._pool is None:
            _end(pool)

    def close(self) -> None:
        """Ends the thread and the processes."""
        self._over = True
        self._thread.join()
        if self._pool is not None:
            _end(self._pool)


def _pool(processes: int) -> Any:
    return get_context("spawn").Pool(processes)


def _end(pool: Any) -> None:
    pool.close()
    pool.join()
