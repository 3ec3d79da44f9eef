"""References: what agents get that learn nothing, in the worlds of a point that goes to a goal.

    random     random moves
    markov     the best that an agent without a memory can do: go to where a goal is worth most on average
    script     what an agent with a memory can do: find out where the goal is, then go there; in later episodes at once
    oracle     go to the goal that it is shown

They are computed here, by playing the unseen tasks themselves many times. `script` is written by hand: something better
may exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paceline.seeds import sequence
from paceline.spaces import Array

NAMES = {
    "random": "random moves",
    "markov": "best without a memory",
    "script": "a script with a memory",
    "oracle": "shown the task",
}
"""Field of `References` → how it is called in tables and pictures."""

_PLAYS = 4000  # rollouts that a mean is taken over, at least
_TOP = np.array([0.0, 1.0])  # of the half circle: what most goals are near to
_SWEEP = 0.85  # the radius at which a sweep comes near every goal of the half circle


@dataclass(frozen=True)
class References:
    """The mean return of each episode of a task.

    Attributes:
        random: Of random moves.
        markov: Of the best agent without a memory.
        script: Of a script with a memory.
        oracle: Of an agent that is shown the task.
    """

    random: list[float]
    markov: list[float]
    script: list[float]
    oracle: list[float]


@dataclass
class Points:
    """Points on their way to their goals, [points, 2] each.

    Attributes:
        goals: Where they are to go.
        places: Where they are.
        radius: Within which a goal pays 1; None: the reward is minus the distance.
        reach: The longest move along an axis.
        rng: Draws random moves.
    """

    goals: Array
    places: Array
    radius: float | None
    reach: float
    rng: np.random.Generator

    def towards(self, targets: Array) -> Array:
        """The moves that lead to some places, as far as they go."""
        moves: Array = np.clip(targets - self.places, -self.reach, self.reach)
        return moves

    def wander(self) -> Array:
        """Random moves."""
        moves: Array = np.asarray(self.rng.uniform(-self.reach, self.reach, self.places.shape))
        return moves

    def move(self, moves: Array) -> Array:
        """Moves the points. Returns the rewards: [points]."""
        self.places = self.places + moves
        far = np.hypot(*(self.places - self.goals).T)
        rewards: Array = -far if self.radius is None else (far <= self.radius).astype(float)
        return rewards


Script = Callable[[Points, int, dict[str, Any]], Array]
"""Gives the next moves, of the points, the step of the episode, and what it has kept from one step to the next."""


def references_for(world: Any, tasks: Sequence[Any], episodes: int) -> References | None:
    """The references of a world; None: the library knows none.

    Args:
        world: The world itself, without wrappers.
        tasks: The tasks that are played.
        episodes: How many episodes of each.
    """
    from paceline.worlds.meta.point import REACH, PointRobot, PointRobotSparse

    if not isinstance(world, PointRobot | PointRobotSparse):
        return None
    radius = world.goal_radius if isinstance(world, PointRobotSparse) else None
    rng = np.random.default_rng(sequence(0, "references"))
    goals = np.tile(np.array(tasks, float), (-(-_PLAYS // len(tasks)), 1))
    starts = rng.uniform(world.start_low, world.start_high, (episodes, *goals.shape))
    points = Points(goals, starts[0], radius, REACH, rng)
    rest = np.zeros(2) if radius is None else _TOP
    scripts: dict[str, Script] = {
        "random": lambda points, step, kept: points.wander(),
        "markov": lambda points, step, kept: points.towards(rest),
        "script": _probe if radius is None else _sweep,
        "oracle": lambda points, step, kept: points.towards(points.goals),
    }
    return References(**{name: _played(script, points, starts, world.horizon) for name, script in scripts.items()})


def _played(script: Script, points: Points, starts: Array, horizon: int) -> list[float]:
    points, kept = replace(points), dict[str, Any]()
    means = []
    for places in starts:
        points.places, total = places, 0.0
        for step in range(horizon):
            kept["rewards"] = points.move(script(points, step, kept))
            kept["after"] = points.places
            total += float(kept["rewards"].mean())
        means.append(total)
    return means


def _probe(points: Points, step: int, kept: dict[str, Any]) -> Array:
    """Two moves that are not in line tell two places where the goal may be, and a third which of them it is."""
    seen = kept.setdefault("seen", [])
    if step and len(seen) < 3:
        seen.append((kept["after"], -kept["rewards"]))
    if not step and "goals" not in kept:
        kept["inward"] = points.reach * np.where(points.places > 0, -1.0, 1.0)
        first: Array = kept["inward"]
        return first
    if len(seen) == 1:
        sideways: Array = kept["inward"] * [
            1,
            0,
        ]  # moves to a goal are hardly ever sideways, so the third is not in line
        return sideways
    if "goals" not in kept or len(kept["looked"]) < len(seen):
        kept["goals"], kept["looked"] = _where(seen), list(seen)
    return points.towards(kept["goals"])


def _where(seen: Sequence[tuple[Array, Array]]) -> Array:
    """Where circles around the places meet: of two points the one that fits a third circle, or is nearer the middle."""
    (one, far), (two, near) = seen[:2]
    apart = np.hypot(*(two - one).T)[:, None]
    along = (two - one) / np.maximum(apart, 1e-9)
    share = (far[:, None] ** 2 - near[:, None] ** 2 + apart**2) / np.maximum(2 * apart, 1e-9)
    aside = np.sqrt(np.maximum(far[:, None] ** 2 - share**2, 0.0))
    across = np.stack([-along[:, 1], along[:, 0]], 1)
    both = [one + along * share + across * aside * sign for sign in (1, -1)]
    if len(seen) > 2:
        wrong = [np.abs(np.hypot(*(point - seen[2][0]).T) - seen[2][1]) for point in both]
    else:
        wrong = [np.abs(point).max(1) for point in both]
    where: Array = np.where((wrong[0] <= wrong[1])[:, None], *both)
    return where


def _sweep(points: Points, step: int, kept: dict[str, Any]) -> Array:
    """Along the half circle from its nearer end, until there is a reward; from then on where that was."""
    count = len(points.places)
    found, where = kept.setdefault("found", np.zeros(count, bool)), kept.setdefault("where", np.zeros((count, 2)))
    if step:
        new = ~found & (kept["rewards"] > 0)
        where[new], found[new] = kept["after"][new], True
    if not step:
        kept["side"] = np.where(points.places[:, 0] >= 0, 1.0, -1.0)
        kept["angle"] = np.full(count, -1.0)  # how far along the half circle it is; -1: it has not come there
    ends = np.stack([kept["side"] * _SWEEP, np.zeros(count)], 1)
    kept["angle"] = np.where((kept["angle"] < 0) & (np.abs(points.places - ends).max(1) < 1e-9), 0.0, kept["angle"])
    on_the_way = kept["angle"] >= 0
    kept["angle"] = np.where(on_the_way, np.minimum(np.pi, kept["angle"] + points.reach / _SWEEP), kept["angle"])
    along = np.stack([kept["side"] * np.cos(kept["angle"]), np.sin(kept["angle"])], 1) * _SWEEP
    return points.towards(np.where(found[:, None], where, np.where(on_the_way[:, None], along, ends)))
