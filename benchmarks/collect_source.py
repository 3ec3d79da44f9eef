"""The source design, rebuilt: an environment per process, a pipe message per step, one batched forward in lock step.

    forward over the active workers ──► send all ──► receive all ──► file the transitions ──► reset those that are over

Rollouts are dealt to workers by their count, before the first step. Workers are forked, and answer with observation,
reward, end and info, pickled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from multiprocessing import get_context
from typing import Any

import numpy as np
from collect_crowd import TASKS, act_rows, actor, make, start_of


def _serve(name: str, line: Any) -> None:
    env = make(name)
    while True:
        asked, what = line.recv()
        if asked == "reset":
            obs, _ = env.reset(seed=what["seed"], options={"task": what["task"]})
            line.send(("obs", obs))
        elif asked == "step":
            obs, reward, terminated, truncated, info = env.step(what["action"])
            line.send(("transition", (obs, reward, terminated or truncated, info)))
        else:
            env.close()
            return


class Source:
    """Such workers.

    Args:
        name: Of the environment.
        workers: How many.
    """

    def __init__(self, name: str, workers: int) -> None:
        fork = get_context("fork")
        pipes = [fork.Pipe() for _ in range(workers)]
        self._name, self._remotes = name, [ours for ours, _ in pipes]
        self._processes = [fork.Process(target=_serve, args=(name, theirs), daemon=True) for _, theirs in pipes]
        for process in self._processes:
            process.start()
        actor(name)  # here only: workers step, and the forward is ours

    def collect(self, rollouts: int) -> int:
        """Plays rollouts. Returns how many transitions that were."""
        count = len(self._remotes)
        queues = {worker: deque(range(worker, rollouts, count)) for worker in range(count)}
        filed, seen = list[list[Any]](), dict[int, Any]()
        files = {worker: list[Any]() for worker in queues}
        self._begin(queues, seen)
        while seen:
            active = list(seen)
            actions = act_rows(self._name, np.stack([seen[worker] for worker in active]))
            for worker, action in zip(active, actions, strict=True):
                self._remotes[worker].send(("step", {"action": action}))
            answers = {worker: self._remotes[worker].recv()[1] for worker in active}
            for worker, action in zip(active, actions, strict=True):
                obs, reward, over, _ = answers[worker]
                files[worker].append((seen.pop(worker), action, reward, over, obs))
                if over:
                    filed.append([np.array(column) for column in zip(*files[worker], strict=True)])
                    files[worker] = []
                    self._begin({worker: queues[worker]}, seen)
                else:
                    seen[worker] = obs
        return sum(len(columns[0]) for columns in filed)

    def _begin(self, queues: Mapping[int, deque[int]], seen: dict[int, Any]) -> None:
        """Resets workers for the next of their rollouts, if there is one."""
        tasks = TASKS[self._name]
        for worker, index in [(worker, queue.popleft()) for worker, queue in queues.items() if queue]:
            self._remotes[worker].send(("reset", {"seed": start_of(index), "task": tasks[index % len(tasks)]}))
            seen[worker] = self._remotes[worker].recv()[1]

    def close(self) -> None:
        for remote in self._remotes:
            remote.send(("close", {}))
        for process in self._processes:
            process.join()
