"""Policies and missions for the benchmark of evaluation, and the design that it is compared with.

A module of its own, and a small one: every worker imports it.
"""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from paceline.policies import TorchNet
from paceline.rollout import Rollout
from paceline.types import Seat


class Waiting:
    """Waits for 20 ms, as for a model behind a network."""

    def __init__(self, seat: Seat) -> None:
        self._turn = seat.index

    def act(self, obs: Any) -> int:
        time.sleep(0.02)
        self._turn += 1
        return self._turn % 5


class Heavy:
    """Does little, but holds a megabyte of state that changes with every step."""

    def __init__(self, seat: Seat) -> None:
        self._state = np.zeros(131072)
        self._state[0] = seat.index

    def act(self, obs: Any) -> int:
        self._state[int(self._state[0]) % 1000 + 1] += 1
        self._state[0] += 1
        return int(self._state[0]) % 5


class OneByOne(TorchNet):
    """The network without its batches: a pass per seat."""

    act_batch = None  # type: ignore[assignment]

    def act(self, obs: Any) -> int:
        return self._draw(self._forward(np.asarray(obs)[None])[0], self._rng)


class PickledEveryStep:
    """The design of the source document: one executor, each policy pickled there and back at every step, each agent's
    answer waited for before the next one is asked."""

    def __init__(self, rollout: Rollout, factory: Any, workers: int) -> None:
        self._pool = ProcessPoolExecutor(workers)
        self._policies = {seat.agent: pickle.dumps(factory(seat)) for seat in rollout.seats()}

    def act(self, observations: dict[str, Any]) -> dict[str, Any]:
        actions = {}
        for agent, obs in observations.items():
            actions[agent], self._policies[agent] = self._pool.submit(_step, self._policies[agent], obs).result()
        return actions

    def close(self) -> None:
        self._pool.shutdown()


def _step(pickled: bytes, obs: Any) -> tuple[Any, bytes]:
    policy = pickle.loads(pickled)
    action = policy.act(obs)
    return action, pickle.dumps(policy)
