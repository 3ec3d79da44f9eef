"""Tape: what happened in a rollout, as columns of arrays, a row for each action of an agent.

    act(observations, actions, extras) ──► step(outcome) ──► a row per agent ──► columns, batch(), digest

Columns are allocated ahead and doubled when they are full. A row is copied when it is written: environments write into
the observations that they have returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from paceline.errors import BadInput, brief
from paceline.seeds import digest
from paceline.spaces import Array, Path, assembled, fitted, leaves, part_at
from paceline.types import Seat, Step

_ROWS = 64


class Column:
    """Values of one kind, in rows.

    Args:
        what: What the values are, for messages.
        space: The space that they are of; None: the first value says its shape and type.
        rows: How many rows to allocate at first.
    """

    def __init__(self, what: str, space: Any = None, rows: int = _ROWS) -> None:
        self._what, self._space, self._room, self._count = what, space, rows, 0
        self._arrays: dict[Path, Array] | None = None
        self._values: list[Any] = []  # of a space that fits into no array
        self._usual: tuple[Any, Any] = (None, None)  # type and shape of the arrays that are written as they are
        found = None if space is None else leaves(space, "")
        if found is not None:
            self._arrays = {leaf.path: np.empty((rows, *leaf.shape), leaf.dtype) for leaf in found}
            self._know_usual()

    def __len__(self) -> int:
        return self._count

    def append(self, value: Any) -> None:
        """Writes a row.

        Raises:
            BadInput: the value has another shape than the column, or does not fit its type.
        """
        if self._space is None and self._arrays is None:
            first = np.asarray(value)
            self._arrays = {(): np.empty((self._room, *first.shape), first.dtype)}
            self._know_usual()
        if self._arrays is None:
            self._values.append(value)
        elif type(value) is np.ndarray and (value.dtype, value.shape) == self._usual and self._count < self._room:
            self._arrays[()][self._count] = value
        else:
            self._write(value)
        self._count += 1

    def _know_usual(self) -> None:
        if self._arrays is not None and [*self._arrays] == [()]:
            self._usual = self._arrays[()].dtype, self._arrays[()].shape[1:]

    def _write(self, value: Any) -> None:
        assert self._arrays is not None
        if self._count == self._room:
            self._room *= 2
            self._arrays = {path: _longer(array, self._room) for path, array in self._arrays.items()}
        for path, array in self._arrays.items():
            try:
                part = part_at(value, path)
            except (LookupError, TypeError):
                raise BadInput(f"{self._what} in row {self._count} lacks {path}: {brief(value)}") from None
            kept = fitted(part, array.shape[1:], array.dtype)
            if kept is None:
                raise BadInput(
                    f"{self._what} in row {self._count} must have shape {array.shape[1:]} and fit {array.dtype}: "
                    f"{brief(value)}"
                )
            array[self._count] = kept

    @property
    def rows(self) -> Any:
        """All rows: an array [rows, …], dicts and tuples of arrays as the space has them, or a list of values."""
        if self._arrays is None:
            return self._values
        written = {path: array[: self._count] for path, array in self._arrays.items()}
        return written[()] if self._space is None else assembled(self._space, written)


def _longer(array: Array, rows: int) -> Array:
    longer = np.empty((rows, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


class Track:
    """The rows of one agent, in time order.

    Args:
        seat: Whose rows they are.
        rows: How many to allocate at first.
    """

    def __init__(self, seat: Seat, rows: int = _ROWS) -> None:
        self._agent = seat.agent
        column = partial(Column, rows=rows)
        self._observations = column(f"observation of {seat.agent!r}", seat.observation_space)
        self._actions = column(f"action of {seat.agent!r}", seat.action_space)
        self._finals = Column(f"final observation of {seat.agent!r}", seat.observation_space, 1)
        self._outcomes = np.empty((rows, 3))
        self._stepped = 0
        self._ends: list[int] = []
        self._extras: dict[str, Column] = {}
        self._starts: list[tuple[int, Any]] = []

    def __len__(self) -> int:
        return len(self._observations)

    def act(self, observation: Any, action: Any, extras: Mapping[str, Any]) -> None:
        """Writes what was seen, done and said beside it; `step` completes the row.

        Raises:
            BadInput: it does not fit, or the extras are not those of the rows before.
        """
        row = len(self._observations)
        if not row:
            self._extras = {name: Column(f"{name} of {self._agent!r}") for name in extras}
        if self._stepped != row:
            raise BadInput(f"{self._agent!r} acts in row {row}, and nothing came of row {self._stepped}")
        if extras.keys() != self._extras.keys():
            raise BadInput(
                f"the policy of {self._agent!r} gave the extras {sorted(extras)} with row {row}, and "
                f"{sorted(self._extras)} with those before: every action of a tape has the same"
            )
        self._observations.append(observation)
        self._actions.append(action)
        for name, value in extras.items():
            self._extras[name].append(value)

    def step(self, reward: float, terminated: bool, truncated: bool, final_observation: Any = None) -> None:
        """Writes what came of the action; the final observation counts if the agent's episode ended."""
        self._stepped = len(self._observations)
        row = self._stepped - 1
        if row == len(self._outcomes):
            self._outcomes = _longer(self._outcomes, 2 * row)
        self._outcomes[row] = reward, terminated, truncated
        if terminated or truncated:
            self._ends.append(row)
            self._finals.append(final_observation)

    def start(self, state: Any) -> None:
        """Notes the state in which a recurrent policy is before the next row."""
        self._starts.append((len(self), state))

    @property
    def columns(self) -> dict[str, Any]:
        """Name → rows, in time order.

        `observations`, `actions`, `rewards`, `terminations`, `truncations` and the extras have a row for each action;
        `final_observations` has one for each end of an episode, after the rows that `ends` names; `start_states` those
        before the rows that `starts` names.
        """
        outcomes = self._outcomes[: len(self)]
        return {
            "observations": self._observations.rows,
            "actions": self._actions.rows,
            "rewards": outcomes[:, 0],
            "terminations": outcomes[:, 1] != 0,
            "truncations": outcomes[:, 2] != 0,
            "ends": np.array(self._ends, np.int64),
            "final_observations": self._finals.rows,
            "starts": np.array([row for row, _ in self._starts], np.int64),
            "start_states": [state for _, state in self._starts],
            **{name: column.rows for name, column in self._extras.items()},
        }


class Tape:
    """The tracks of all agents of a rollout.

    Args:
        seats: Who is recorded; an agent may be named as its team names it.
        rows: How many rows to allocate at first.
    """

    def __init__(self, seats: Iterable[Seat] | Mapping[Any, Seat], rows: int = _ROWS) -> None:
        named = seats if isinstance(seats, Mapping) else {seat.agent: seat for seat in seats}
        self.tracks = {name: Track(seat, rows) for name, seat in named.items()}
        """Agent → its rows."""
        self._acted: set[Any] = set()

    def act(
        self, observations: Mapping[Any, Any], actions: Mapping[Any, Any], extras: Mapping[Any, Mapping[str, Any]]
    ) -> None:
        """Writes what the agents that are due have seen and done."""
        self._acted.update(actions)
        for name in actions:
            self.tracks[name].act(observations[name], actions[name], extras.get(name, {}))

    def step(self, step: Step) -> None:
        """Writes what came of it, for those agents that the outcome has come for."""
        rewards, ended, cut, last = step.rewards, step.terminations, step.truncations, step.final_observations
        for name in self._acted.intersection(rewards):
            self.tracks[name].step(float(rewards[name]), bool(ended[name]), bool(cut[name]), last.get(name))
        self._acted.difference_update(rewards)

    def batch(self) -> dict[str, Any]:
        """The columns of the only agent; of several, those of each by its name."""
        every = {name: track.columns for name, track in self.tracks.items()}
        return next(iter(every.values())) if len(every) == 1 else every

    @property
    def digest(self) -> str:
        """The SHA-256 of all columns."""
        return digest({str(name): track.columns for name, track in self.tracks.items()})
