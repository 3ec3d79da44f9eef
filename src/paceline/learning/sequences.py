"""Sequences: rollouts side by side, each from its beginning to its end, as networks with a memory learn from them.

    rollouts ── columns ──► [time + 1, rollouts, …], zeros behind the shorter ones ──► a forward over all of them

A rollout is one sequence over all episodes of its task. Where an episode ends and another follows, the sequence goes
on: what comes next is the start of the next episode, and its value counts. Only the end of the last one is an end:
after a termination there is nothing more to get, and where it was cut off the value of its final observation stands for
the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from paceline.errors import BadInput
from paceline.learning.encoding import Observations
from paceline.learning.heads import Head
from paceline.spaces import Array


class Rollout(Protocol):
    """A rollout as `paceline.Collection` has it."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns of its tape."""


@dataclass(frozen=True)
class Sequences:
    """What learning looks at. A rollout of n rows has n rows here, and one more for its final observation.

    Attributes:
        observations: Encoded: [time + 1, rollouts, observation].
        actions: The last actions before the observations, encoded: [time + 1, rollouts, action].
        last_rewards: What came of them: [time + 1, rollouts].
        raw: The raw actions after the observations: [time, rollouts, …].
        log_probs: Their log-probabilities when they were drawn: [time, rollouts].
        rewards: What came of these: [time, rollouts].
        terminated: Whether a rollout came to an end, and was not only cut off: [rollouts].
        mask: Which rows there are: [time, rollouts].
    """

    observations: Array
    actions: Array
    last_rewards: Array
    raw: Array
    log_probs: Array
    rewards: Array
    terminated: Array
    mask: Array

    @property
    def lengths(self) -> Array:
        """How many rows each rollout has."""
        lengths: Array = self.mask.sum(0)
        return lengths


def sequences_of(rollouts: Iterable[Rollout], head: Head, observations: Observations) -> Sequences:
    """Puts rollouts side by side, in their order.

    Args:
        rollouts: Of one agent, with `log_prob` beside each action, as row policies with networks give it.
        head: How the policy that has played encodes its actions.
        observations: How it encodes what it sees.

    Raises:
        BadInput: there are none; or the policy said no `log_prob`, or a rollout has no end, or an observation that is
            not finite.
    """
    every = [rollout.columns for rollout in rollouts]
    _check(every)
    parts = [_sequence(columns, head, observations) for columns in every]
    for number, part in enumerate(parts):
        if not np.isfinite(part["observations"]).all():
            raise BadInput(
                f"rollout {number} has an observation that is not finite, and nothing can be learned from it: look at "
                "the world that gave it"
            )
    stacked = {name: _side_by_side([part[name] for part in parts]) for name in parts[0]}
    ended = np.array([bool(columns["terminations"][-1]) for columns in every])
    lengths = np.array([len(columns["rewards"]) for columns in every])
    mask = np.arange(lengths.max())[:, None] < lengths
    return Sequences(**stacked, terminated=ended, mask=mask)


def _sequence(columns: Mapping[str, Any], head: Head, observations: Observations) -> dict[str, Array]:
    seen, last = observations.rows(columns["observations"]), observations.rows(columns["final_observations"])[-1:]
    acted, rewards = head.encode(columns["actions"]), np.asarray(columns["rewards"], np.float32)
    return {
        "observations": np.concatenate([seen, last]),
        "actions": np.concatenate([np.zeros_like(acted[:1]), acted]),
        "last_rewards": np.concatenate([np.zeros(1, np.float32), rewards]),
        "raw": head.raw_of(columns),
        "log_probs": np.asarray(columns["log_prob"], np.float32),
        "rewards": rewards,
    }


def _check(every: Sequence[Mapping[str, Any]]) -> None:
    if not every:
        raise BadInput("there are no rollouts to learn from")
    for columns in every:
        if "log_prob" not in columns:
            raise BadInput(
                "the rollouts have no log_prob beside their actions: collect them with the policy that learns, not "
                "with random actions or with another one"
            )
        if not len(columns["ends"]) or columns["ends"][-1] != len(columns["rewards"]) - 1:
            raise BadInput("a rollout has no end, so what it was worth is not known: give those that are whole")


def _side_by_side(arrays: Sequence[Array]) -> Array:
    found = np.zeros((max(map(len, arrays)), len(arrays), *arrays[0].shape[1:]), arrays[0].dtype)
    for number, array in enumerate(arrays):
        found[: len(array), number] = array
    return found


def advantages(sequences: Sequences, rewards: Array, values: Array, gamma: float, gae: float) -> Array:
    """Generalised advantage estimation over whole rollouts: [time, rollouts], zeros where there are no rows.

    Args:
        sequences: The rollouts.
        rewards: What counts as their rewards: [time, rollouts].
        values: What the critic says to each observation, the final ones too: [time + 1, rollouts].
        gamma: What a reward counts one row later.
        gae: How much the rewards of further rows count against the critic's word.
    """
    following = values[1:].copy()
    numbers = np.arange(len(sequences.terminated))
    following[sequences.lengths - 1, numbers] *= ~sequences.terminated
    found, later = np.zeros_like(rewards), np.zeros_like(rewards[0])
    for row in reversed(range(len(rewards))):
        error = rewards[row] + np.float32(gamma) * following[row] - values[row]
        later = (error + np.float32(gamma * gae) * later) * sequences.mask[row]
        found[row] = later
    return found


class RewardScale:
    """How large rewards are: the spread of what is yet to come of them, over all rollouts that it has seen.

    Args:
        gamma: What a reward counts one row later.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def see(self, rewards: Iterable[Array]) -> None:
        """Takes the rewards of rollouts in: [rows] each."""
        for each in rewards:
            sums = np.zeros(len(each))
            for row in reversed(range(len(each))):
                sums[row] = each[row] + (self._gamma * sums[row + 1] if row + 1 < len(each) else 0.0)
            self._add(sums)

    def _add(self, sums: Array) -> None:
        count = self._count + len(sums)
        off = float(sums.mean()) - self._mean
        self._squares += float(((sums - sums.mean()) ** 2).sum()) + off**2 * self._count * len(sums) / count
        self._mean += off * len(sums) / count
        self._count = count

    @property
    def spread(self) -> float:
        """The standard deviation; 1 where nothing has differed yet."""
        spread = (self._squares / self._count) ** 0.5 if self._count else 0.0
        return spread if spread > 0 else 1.0

    def snapshot(self) -> list[float]:
        """Everything that it is; for `restore`."""
        return [float(self._count), self._mean, self._squares]

    def restore(self, state: Sequence[float]) -> None:
        """Goes on from a snapshot."""
        self._count, self._mean, self._squares = int(state[0]), state[1], state[2]
