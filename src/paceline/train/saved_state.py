"""Parts of a checkpoint as trees of data, and back: what is long becomes columns, what is a user's own stands `Apart`.

    rewards, lags, updates ──► arrays, a column each          a user's learner, a guest among the streams ──► Apart

What is read may be written by others. So what only a user's own object may be is taken from an `Apart` alone: that is
pickled, and pickles are loaded only where they are trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from paceline.engine import are_plain_streams
from paceline.train.banks import Recipe
from paceline.trees import Apart
from paceline.types import Failure

Totals = list[list[dict[str, float]]]
"""Epoch → world → agent → its rewards, added up."""


def of_bank(recipe: Recipe, state: Any) -> Any:
    """A state of a bank: one of ours is data."""
    return Apart(state) if recipe.is_users else state


def to_bank(recipe: Recipe, kept: Any) -> Any:
    """The state that `of_bank` was given."""
    return its_own(kept) if recipe.is_users else kept


def its_own(kept: Any) -> Any:
    """What stands apart.

    Raises:
        ValueError: it does not.
    """
    if not isinstance(kept, Apart):
        raise ValueError("the state of an object of the user's own is none")
    return kept.value


def of_streams(streams: Mapping[Any, Any]) -> dict[Any, Any]:
    """Random streams by owner."""
    return {owner: each if each is None or are_plain_streams(each) else Apart(each) for owner, each in streams.items()}


def to_streams(kept: Mapping[Any, Any]) -> dict[Any, Any]:
    """The streams that `of_streams` was given.

    Raises:
        ValueError: they are none.
    """
    if any(not (each is None or isinstance(each, Apart) or are_plain_streams(each)) for each in kept.values()):
        raise ValueError("the streams of random generators are none")
    return {owner: each.value if isinstance(each, Apart) else each for owner, each in kept.items()}


def of_rewards(rewards: Totals) -> dict[str, Any]:
    """Rewards of all epochs."""
    agents = list(rewards[0][0]) if rewards else []
    totals = [[[each[agent] for agent in agents] for each in epoch] for epoch in rewards]
    return {"agents": agents, "totals": np.array(totals, np.float64)}


def to_rewards(kept: Mapping[str, Any]) -> Totals:
    """The rewards that `of_rewards` was given."""
    return [[dict(zip(kept["agents"], each, strict=True)) for each in epoch] for epoch in kept["totals"].tolist()]


def of_lags(lags: Sequence[Mapping[str, int]], agents: Sequence[str]) -> dict[str, Any]:
    """Lags of all epochs, by agent."""
    return {agent: np.array([each[agent] for each in lags], np.int64) for agent in agents}


def to_lags(kept: Mapping[str, Any]) -> list[dict[str, int]]:
    """The lags that `of_lags` was given; equal ones that follow one another are one object, as they are in play."""
    found: list[dict[str, int]] = []
    for row in zip(*(column.tolist() for column in kept.values()), strict=True):
        each = dict(zip(kept, row, strict=True))
        found.append(found[-1] if found and found[-1] == each else each)
    return found


def of_records(records: Sequence[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Records as columns, by field."""
    return {name: [getattr(record, name) for record in records] for name in names}


def to_records(kept: Mapping[str, Sequence[Any]], kind: Callable[..., Any]) -> list[Any]:
    """The records that `of_records` was given."""
    return [kind(**dict(zip(kept, row, strict=True))) for row in zip(*kept.values(), strict=True)]


def of_failures(failures: Mapping[str, Failure]) -> dict[str, dict[str, Any]]:
    """Failures by agent."""
    return {agent: asdict(failure) for agent, failure in failures.items()}


def to_failures(kept: Mapping[str, Mapping[str, Any]]) -> dict[str, Failure]:
    """The failures that `of_failures` was given."""
    return {agent: Failure(**failure) for agent, failure in kept.items()}
