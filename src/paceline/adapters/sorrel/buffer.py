"""Buffers of experiences, under the names that Sorrel's users know: a ring of arrays for one agent.

A ring that is full is overwritten from its oldest row on. `sample` draws from the process-wide generator of NumPy, as
Sorrel's does; in a run of `ParallelEnvironment` that is a stream of the agent's own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.run import Count, checked

Array = np.ndarray[Any, Any]


class Buffer:
    """Experiences of one agent.

    Args:
        capacity: How many rows fit in.
        obs_shape: The shape of one observation.
        n_frames: How many observations are stacked in a sample.

    Attributes:
        states: [capacity, …].
        actions: [capacity].
        rewards: [capacity].
        dones: [capacity].
        size: How many rows there are.
        idx: Where the next one is written.
    """

    def __init__(self, capacity: int, obs_shape: Sequence[int], n_frames: int = 1) -> None:
        self.capacity, self.n_frames = checked("capacity", Count, capacity), checked("n_frames", Count, n_frames)
        try:
            self.obs_shape = tuple(obs_shape)
        except TypeError:
            raise BadInput(f"obs_shape={obs_shape!r}: give the shape of an observation, ({obs_shape!r},) say") from None
        self.clear()

    def clear(self) -> None:
        """Forgets all rows."""
        self.states: Array = np.zeros((self.capacity, *self.obs_shape), np.float32)
        self.actions: Array = np.zeros(self.capacity, np.int64)
        self.rewards: Array = np.zeros(self.capacity, np.float32)
        self.dones: Array = np.zeros(self.capacity, np.float32)
        self.idx = self.size = 0

    def add(self, obs: Any, action: int, reward: float, done: bool) -> None:
        """Adds one row."""
        self.states[self.idx], self.actions[self.idx] = obs, action
        self.rewards[self.idx], self.dones[self.idx] = reward, done
        self.idx = (self.idx + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def add_empty(self) -> None:
        """Adds the frames of zeros before an epoch, so that none is stacked on those of the epoch before."""
        for _ in range(self.n_frames - 1):
            self.add(np.zeros(self.obs_shape, np.float32), 0, 0.0, False)

    def current_state(self) -> Array:
        """The last `n_frames` − 1 observations, [n_frames − 1, …], to be stacked with the one that is seen now."""
        return self.states[(self.idx - np.arange(self.n_frames - 1, 0, -1)) % self.capacity]

    def sample(self, batch_size: int) -> tuple[Array, Array, Array, Array, Array, Array]:
        """Draws rows, with replacement, none of them across the place where the ring is being written.

        Returns:
            States [batch, frames × …], actions, rewards, next states, dones, and whether all stacked frames are of one
            episode; [batch, 1] but for states.

        Raises:
            BadInput: there are too few rows, or none is asked for.
        """
        batch_size = checked("batch_size", Count, batch_size)
        starts = self.size - self.n_frames
        if starts < 1:
            raise BadInput(f"a sample needs {self.n_frames + 1} rows, and the buffer has {self.size}")
        first = self.idx - self.size + np.random.randint(starts, size=(batch_size, 1))
        rows = (first + np.arange(self.n_frames)) % self.capacity
        last = rows[:, -1:]
        states = self.states[rows].reshape(batch_size, -1)
        following = self.states[(rows + 1) % self.capacity].reshape(batch_size, -1)
        of_one = 1.0 - self.dones[rows[:, :-1]].any(axis=1, keepdims=True)
        return states, self.actions[last], self.rewards[last], following, self.dones[last], of_one.astype(np.float32)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}(capacity={self.capacity}, obs_shape={self.obs_shape})"


class ThreadSafe:
    """Puts a lock around `add` and `sample` of the buffer class that follows: `class Mine(ThreadSafe, MyBuffer)`.

    A run of `ParallelEnvironment` does not need it: learners there have copies of their own.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = threading.RLock()
        super().__init__(*args, **kwargs)

    def add(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a row, alone."""
        with self._lock:
            return super().add(*args, **kwargs)  # type: ignore[misc]

    def sample(self, *args: Any, **kwargs: Any) -> Any:
        """Draws rows, alone."""
        with self._lock:
            return super().sample(*args, **kwargs)  # type: ignore[misc]

    def get_buffer_snapshot(self) -> dict[str, Any]:
        """A copy of the arrays, with size and idx, all of one moment."""
        with self._lock:
            arrays = {name: getattr(self, name).copy() for name in ("states", "actions", "rewards", "dones")}
            return {**arrays, "size": self.size, "idx": self.idx}  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())


class ThreadSafeBuffer(ThreadSafe, Buffer):
    """A `Buffer` with a lock, and with snapshots."""
