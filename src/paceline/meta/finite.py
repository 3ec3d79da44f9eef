"""Finite: a rollout with a reward or an observation that is not finite has failed, as if its world had raised there."""

from __future__ import annotations

import numpy as np

from paceline.collect import Collection, Recording
from paceline.errors import RolloutsFailed
from paceline.types import Failure


def check_finite(collection: Collection) -> None:
    """Looks at rewards and observations. Of numbers that are not finite nothing can be learned, and no mean be taken.

    Raises:
        RolloutsFailed: a rollout has some; it is among the collection's failures.
    """
    for rollout in collection:
        rollout.failure = _failure(rollout)
    if collection.failures:
        raise RolloutsFailed(collection)


def _failure(rollout: Recording) -> Failure | None:
    columns = rollout.columns
    for what, name in (("reward", "rewards"), ("observation", "observations"), ("observation", "final_observations")):
        finite = np.isfinite(columns[name])
        if not finite.all():
            first = tuple(np.argwhere(~finite)[0])
            step = int(columns["ends"][first[0]]) + 1 if name == "final_observations" else int(first[0])
            message = f"the {what} at step {step} is {columns[name][first]}: look at the world that gave it"
            return Failure("ValueError", message, step=step)
    return None
