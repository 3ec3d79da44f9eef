"""The acceleration plan that `paceline.adapters.sorrel` stands in for, as its document writes it.

    main: epoch after epoch ──► a counter ──► a daemon thread: sleep(0.1), is it a multiple of the interval?
                                                └─► snapshots of all buffers ──► Pool.map over agents ──► weights

Two kindnesses: the function that is mapped stands in a module, because a nested one cannot be pickled, and what is
mapped over is a pair of weights and rows. Trainings that the thread misses stay missed; they are counted.
"""

from __future__ import annotations

import threading
import time
from multiprocessing import get_context
from typing import Any

import torch
from sorrel_game import Hunt

_NAP = 0.1


def _train(agent: tuple[Any, dict[str, Any]]) -> tuple[float, dict[str, Any]]:
    torch.set_num_threads(1)
    model, rows = agent
    vars(model.memory).update(rows)
    return model.train_step(), model.state_dict()


class SourcePlan:
    """Runs a hunt by that plan.

    Args:
        env: The hunt.
        pool_each_time: Whether every training has a pool of its own, as the plan says.
    """

    def __init__(self, env: Hunt, pool_each_time: bool) -> None:
        self._env, self._each_time = env, pool_each_time
        self._pool = None if pool_each_time else self._made()
        self._epoch, self._over, self._lock = 0, False, threading.Lock()
        self.trainings = 0
        """How many trainings of all agents there were."""

    def _made(self) -> Any:
        return get_context("spawn").Pool(len(self._env.agents))

    def run(self) -> None:
        """All epochs, and the last training."""
        thread = threading.Thread(target=self._poll, daemon=True)
        thread.start()
        for epoch in range(self._env.config["experiment"]["epochs"] + 1):
            self._epoch = epoch
            self._env.play(epoch)
        self._over = True
        thread.join()
        if self._pool is not None:
            self._pool.terminate()

    def _poll(self) -> None:
        trained, interval = 0, self._env.config["parallel"]["train_interval"]
        while not self._over:
            epoch = self._epoch
            if epoch > trained and epoch % interval == 0:
                with self._lock:
                    self._train_all()
                trained = epoch
            time.sleep(_NAP)

    def _train_all(self) -> None:
        calls = [(agent.model, agent.model.memory.get_buffer_snapshot()) for agent in self._env.agents]
        pool = self._pool or self._made()
        for agent, (_, weights) in zip(self._env.agents, pool.map(_train, calls), strict=True):
            agent.model.load_state_dict(weights)
        if self._each_time:
            pool.terminate()
        self.trainings += 1
