"""Replay buffers: transitions of past rollouts in preallocated arrays, sampled by a generator of the buffer's own.

    tape.batch() ── episode_of ──► add_episode ──► ring of rows ── sample(batch_size) ──► a dict of arrays

A batch follows from the seed, from what was added, in which order, and from the batches before it: from nothing else.
So episodes are to be added in the order of their rollouts, never in that in which they came to their ends.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from paceline.errors import BadInput, brief
from paceline.seeds import digest, sequence
from paceline.spaces import Array, Path, assembled, fitted, leaves, part_at

_PARTS = ("observations", "actions", "rewards", "terminations", "next_observations")


def episode_of(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Transitions from the columns of a tape: what `add_episode` takes, by name.

    The next observation of the last row of an episode is the final one. A tape of several episodes gives one sequence,
    as a policy whose memory outlives its episodes has seen it. A row that was cut off without an end, by a limit that
    the tape does not know, is left out: its next observation is not known.

    Args:
        columns: As `Track.columns` and `Tape.batch` give them.
    """
    observations, ends, finals = columns["observations"], columns["ends"], columns["final_observations"]
    rows = len(columns["rewards"])
    kept = rows if len(ends) and ends[-1] == rows - 1 else rows - 1
    found = {name: columns[name][:kept] for name in ("actions", "rewards", "terminations")}
    first = _mapped(observations, lambda part: part[:kept])
    return {"observations": first, **found, "next_observations": _shifted(observations, finals, ends, kept)}


def _shifted(observations: Any, finals: Any, ends: Array, kept: int) -> Any:
    if isinstance(observations, Mapping):
        return {key: _shifted(part, finals[key], ends, kept) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_shifted(part, final, ends, kept) for part, final in zip(observations, finals, strict=True))
    following = np.empty_like(observations[:kept])
    following[: len(observations) - 1] = observations[1 : kept + 1]
    following[ends] = finals
    return following


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return tuple(_mapped(part, change) for part in value) if isinstance(value, tuple) else change(value)


class _Rows:
    """Values of a space in a ring: an array for each leaf of the space."""

    def __init__(self, what: str, space: Any, capacity: int) -> None:
        found = leaves(space, "")
        if found is None:
            raise BadInput(f"{what} of {space} fit into no arrays, so there is no replay buffer for them")
        self._what, self._space = what, space
        self.arrays: dict[Path, Array] = {leaf.path: np.zeros((capacity, *leaf.shape), leaf.dtype) for leaf in found}

    def fitted(self, value: Any, rows: int) -> dict[Path, Array]:
        """The parts of `rows` values, checked: written only when all columns are known to fit."""
        parts: dict[Path, Array] = {}
        for path, array in self.arrays.items():
            shape = (rows, *array.shape[1:])
            try:
                part = fitted(part_at(value, path), shape, array.dtype)
            except (LookupError, TypeError):
                part = None
            if part is None:
                raise BadInput(f"{self._what} must have shape {shape} and fit {array.dtype}: {brief(value)}")
            parts[path] = part
        return parts

    def write(self, where: Array, parts: Mapping[Path, Array]) -> None:
        for path, part in parts.items():
            self.arrays[path][where] = part

    def read(self, where: Array) -> Any:
        return assembled(self._space, {path: array[where] for path, array in self.arrays.items()})


class _Ring:
    """What both buffers share: the columns, the place of the next row, and the generator."""

    def __init__(self, capacity: int, observation_space: Any, action_space: Any, seed: int) -> None:
        from gymnasium import spaces

        if capacity < 1:
            raise BadInput(f"capacity={capacity}: a buffer needs at least one row")
        self.capacity = capacity
        """How many rows fit in."""
        number = spaces.Box(-np.inf, np.inf, (), np.float32)
        kinds = (observation_space, action_space, number, spaces.Discrete(2), observation_space)
        self._columns = {name: _Rows(name, kind, capacity) for name, kind in zip(_PARTS, kinds, strict=True)}
        self._next = 0
        self._used = 0  # rows that were ever written: a snapshot holds no more
        self._rng = np.random.default_rng(sequence(seed, "replay"))

    def _put(self, *values: Any) -> int:
        """Writes rows behind those that were written last. Returns how many."""
        observations, actions, rewards, terminations, following = values
        rewards = np.asarray(rewards)
        rows = len(np.atleast_1d(rewards))
        if not 1 <= rows <= self.capacity:
            raise BadInput(f"an episode of {rows} rows: a buffer of capacity={self.capacity} takes from 1 to as many")
        ended = np.asarray(terminations) != 0
        values = (observations, actions, _flat(rewards), _flat(ended), following)
        parts = {name: self._columns[name].fitted(value, rows) for name, value in zip(_PARTS, values, strict=True)}
        where = (self._next + np.arange(rows)) % self.capacity
        for name, column in self._columns.items():
            column.write(where, parts[name])
        self._used = min(self.capacity, max(self._used, self._next + rows))
        self._next = (self._next + rows) % self.capacity
        return rows

    def _batch(self, where: Array) -> dict[str, Any]:
        found = {name: column.read(where) for name, column in self._columns.items()}
        return {**found, "terminations": found["terminations"] != 0}

    def snapshot(self) -> Any:
        """Everything that it is: rows, places, generator. To `restore`, in a buffer of the same capacity and spaces."""
        arrays = {
            name: {path: array[: self._used].copy() for path, array in each.arrays.items()}
            for name, each in self._columns.items()
        }
        generator = copy.deepcopy(self._rng.bit_generator.state)
        return {"arrays": arrays, "next": self._next, "used": self._used, "generator": generator}

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        for name, column in self._columns.items():
            for path, array in column.arrays.items():
                rows = state["arrays"][name][path]
                array[: len(rows)] = rows
        self._next, self._used = state["next"], state["used"]
        self._rng.bit_generator.state = state["generator"]

    def digest(self) -> str:
        """The SHA-256 of everything that it is."""
        return digest(self.snapshot())


class StepReplay(_Ring):
    """Single transitions; the oldest are overwritten when it is full.

    Args:
        capacity: How many transitions it holds.
        observation_space: What observations are of; Dict and Tuple too.
        action_space: What actions are of.
        seed: Root of its random stream.

    Raises:
        BadInput: values of a space fit into no arrays.
    """

    def __init__(self, capacity: int, observation_space: Any, action_space: Any, *, seed: int = 0) -> None:
        super().__init__(capacity, observation_space, action_space, seed)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add_sample(
        self, observation: Any, action: Any, reward: float, termination: bool, next_observation: Any
    ) -> None:
        """Adds one transition.

        Args:
            observation: What was seen.
            action: What was done.
            reward: What came of it.
            termination: Whether the world came to an end with it: False where it was only cut off.
            next_observation: What was seen then; of an episode that ended, its final observation.

        Raises:
            BadInput: a value does not fit its space; nothing is written.
        """
        one = (observation, action, reward, termination, next_observation)
        self.add_episode(*(_mapped(value, lambda part: np.asarray(part)[None]) for value in one))

    def add_episode(
        self, observations: Any, actions: Any, rewards: Any, terminations: Any, next_observations: Any
    ) -> None:
        """Adds transitions in their order: arrays [rows, …], or dicts and tuples of them as the spaces have it.

        Rewards and terminations may be [rows, 1], too.

        Raises:
            BadInput: they do not fit; nothing is written.
        """
        rows = self._put(observations, actions, rewards, terminations, next_observations)
        self._count = min(self._count + rows, self.capacity)

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Draws transitions uniformly, with replacement.

        Returns:
            `observations`, `actions`, `rewards`, `terminations`, `next_observations`, each [batch_size, …].

        Raises:
            BadInput: the buffer is empty.
        """
        if not self._count:
            raise BadInput("the buffer is empty: add transitions before you sample")
        return self._batch(self._rng.integers(self._count, size=batch_size))

    def snapshot(self) -> Any:
        """Everything that it is: rows, places, generator. To `restore`, in a buffer of the same capacity and spaces."""
        return {**super().snapshot(), "count": self._count}

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        super().restore(state)
        self._count = state["count"]


class SequenceReplay(_Ring):
    """Whole episodes; sequences of a fixed length are drawn from them. The oldest episodes make room for new ones.

    An "episode" is what was added in one call: for a policy whose memory lasts over the episodes of a task, all of
    them together.

    Args:
        capacity: How many rows it holds.
        observation_space: What observations are of; Dict and Tuple too.
        action_space: What actions are of.
        length: How many rows a sequence has. An episode that is shorter is padded with zeros.
        seed: Root of its random stream.

    Raises:
        BadInput: values of a space fit into no arrays, or the length makes no sense.
    """

    def __init__(self, capacity: int, observation_space: Any, action_space: Any, *, length: int, seed: int = 0) -> None:
        if not 1 <= length <= capacity:
            raise BadInput(f"length={length}: sequences have from 1 to capacity={capacity} rows")
        super().__init__(capacity, observation_space, action_space, seed)
        self.length = length
        """How many rows a sequence has."""
        self._episodes: deque[tuple[int, int]] = deque()  # first row and number of rows, the oldest first
        self._count = 0
        self._starts: Array | None = None  # how many sequences begin in the episodes up to each; None: to be counted

    def __len__(self) -> int:
        return self._count

    @property
    def episodes(self) -> int:
        """How many episodes it holds."""
        return len(self._episodes)

    def add_episode(
        self, observations: Any, actions: Any, rewards: Any, terminations: Any, next_observations: Any
    ) -> None:
        """Adds an episode: arrays [rows, …], or dicts and tuples of them as the spaces have it.

        Rewards and terminations may be [rows, 1], too.

        Raises:
            BadInput: it does not fit its spaces, is empty, or has more rows than the buffer; nothing is written.
        """
        first = self._next
        rows = self._put(observations, actions, rewards, terminations, next_observations)
        while self._count + rows > self.capacity:
            self._count -= self._episodes.popleft()[1]
        self._episodes.append((first, rows))
        self._count += rows
        self._starts = None

    def sample(self, batch_size: int) -> dict[str, Any]:
        """Draws sequences: each that lies whole in an episode is as likely as any other, and so is a short episode.

        Returns:
            `observations`, `actions`, `rewards`, `terminations`, `next_observations`, each [length, batch_size, …];
            `masks` [length, batch_size], False where a row is padding; `offsets` [batch_size], how many rows of its
            episode lie before a sequence.

        Raises:
            BadInput: the buffer is empty.
        """
        if not self._episodes:
            raise BadInput("the buffer is empty: add episodes before you sample")
        firsts, lengths = np.array(self._episodes).T
        if self._starts is None:
            self._starts = np.maximum(1, lengths - self.length + 1).cumsum()
        drawn = self._rng.integers(self._starts[-1], size=batch_size)
        episode = np.searchsorted(self._starts, drawn, side="right")
        offsets = drawn - np.where(episode > 0, self._starts[episode - 1], 0)
        steps = np.arange(self.length)[:, None]
        masks = steps + offsets < lengths[episode]
        batch = self._batch((firsts[episode] + offsets + steps) % self.capacity)
        padded = {name: _mapped(part, lambda part: _blanked(part, masks)) for name, part in batch.items()}
        return {**padded, "masks": masks, "offsets": offsets}

    def snapshot(self) -> Any:
        """Everything that it is: rows, places, generator. To `restore`, in a buffer of the same capacity and spaces."""
        return {**super().snapshot(), "episodes": list(self._episodes)}

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        super().restore(state)
        self._episodes, self._starts = deque(state["episodes"]), None
        self._count = sum(rows for _, rows in self._episodes)


def _blanked(array: Array, masks: Array) -> Array:
    """Zeros where a row is padding: what lies there belongs to another episode. The array is a fresh one."""
    array[~masks] = 0
    return array


def _flat(values: Array) -> Array:
    """Numbers in a row each; many libraries keep them as [rows, 1]."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
