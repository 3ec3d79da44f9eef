"""How an episode of groups begins: seeds, layouts, the first state of every member, and whether those are alike.

    first_seed ──► group g gets seed + g ──► a layout per group, by map ──► begin() of every member ──► first states

What cannot begin is a trajectory that is over and says why; the others go on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.catalog.text_envs import Factory
from paceline.engine import Pool
from paceline.errors import BadInput
from paceline.groups.config import VAL_SEED, GroupsConfig
from paceline.groups.layouts import Layouts
from paceline.groups.trajectory import Trajectory
from paceline.groups.turns import is_of_the_plan, tell_of, whole
from paceline.seeds import digest, seed_of
from paceline.types import Failure


def first_seed(asked: int | None, config: GroupsConfig, base: int | None, counter: int) -> tuple[int, int]:
    """The seed of the first group, and what the counter of seeds is after that.

    Args:
        asked: What `reset` was given. Without it val begins with its own seed, and train goes on behind the last one
            used, so that no layout is played twice; with RAGEN's own environments it goes on as RAGEN's manager does,
            one behind the seed that was given last.
        config: Says which mode it is, and how many groups there are.
        base: The base seed; None: train draws one.
        counter: How far behind its base train goes on.
    """
    if asked is not None:
        given, asked = asked, whole(asked)
        if asked is None or asked < 0:
            raise BadInput(f"reset(seed={given!r}); give a whole number from 0")
    if config.mode == "val":
        default = VAL_SEED if base is None else base
        return (default if asked is None else asked), counter
    if base is None:
        return (random.SystemRandom().randint(0, 1_000_000) if asked is None else asked), counter
    if asked is not None:
        return asked, asked - base + (1 if config.manager.envs == "ragen" else config.env_groups)
    return base + counter, counter + config.env_groups


class Beginning:
    """Begins the episodes of a pool's members."""

    def __init__(
        self, config: GroupsConfig, factories: Mapping[str, Factory], pool: Pool, step_timeout: float | None
    ) -> None:
        self._step_timeout = step_timeout  # where nothing is said
        self._config, self._factories, self._pool = config, factories, pool
        self._tag_of = config.tag_of_each()
        self._layouts = Layouts(pool)

    def trajectories(self, first: int) -> list[Trajectory]:
        """A trajectory per environment, with nothing in it yet; group g has the seed `first + g`."""
        size, tags = self._config.group_size, self._config.tags
        limits = {tag: self._config.limits(tag, self._step_timeout) for tag in tags}
        return [
            Trajectory(index, index // size, tag, tags[tag].max_actions_per_traj, first + index // size, *limits[tag])
            for index, tag in enumerate(self._tag_of)
        ]

    def begin(self, trajectories: Sequence[Trajectory]) -> None:
        """Gives every trajectory its first state, or the reason why it has none."""
        size = self._config.group_size
        seeds = [trajectory.status.seed or 0 for trajectory in trajectories]
        orders = {index: self._layout_order(index, seeds[index]) for index in range(0, len(seeds), size)}
        limits = {} if self._pool.place == "inline" else {t.env_id: t.deadline for t in trajectories}
        layouts = self._layouts.make(orders, dict(enumerate(self._tag_of)), limits)
        calls: dict[float | None, dict[int, tuple[Any, ...]]] = {}
        for index, trajectory in enumerate(trajectories):
            made = layouts[index - index % size]
            if made.error is not None:
                _fail(trajectory, trajectory.read(made.error))
            else:
                call = (seeds[index], self._config.mode, made.answer, self._dynamics(index, seeds[index]))
                calls.setdefault(limits.get(index), {})[index] = call
        for limit, some in calls.items():
            for index, outcome in self._pool.call("begin", some, outcomes=True, deadline=limit).items():
                if outcome.error is None:
                    trajectories[index].begin(outcome.answer)
                else:
                    _fail(trajectories[index], trajectories[index].read(outcome.error))
        self._count_time([t for t in trajectories if t.time_limit is not None and not t.over])

    def _count_time(self, timed: Sequence[Trajectory]) -> None:
        calls = {trajectory.env_id: () for trajectory in timed}
        took = self._pool.call("took", calls, outcomes=True, record=False) if calls else {}
        for trajectory in timed:
            if took[trajectory.env_id].error is None:
                trajectory.spend(took[trajectory.env_id].answer)
            if trajectory.over:
                tell_of(trajectory)

    def check_alike(self, trajectories: Sequence[Trajectory]) -> None:
        """The members of a group begin alike, or the comparison that a group is for means nothing.

        Raises:
            BadInput: those of some group do not.
        """
        size = self._config.group_size
        for first in range(0, len(trajectories), size):
            members = [t for t in trajectories[first : first + size] if t.status.failure is None]
            if len({digest(_first_state(trajectory)) for trajectory in members}) > 1:
                tag = self._tag_of[first]
                raise BadInput(
                    f"group {first // size} ({tag}): its members do not begin alike, though each was reset "
                    f"with seed {members[0].status.seed}: {self._config.tags[tag].env_type} does not follow its seed. "
                    "Look for a class counter, a generator of the process (random, numpy.random), hash(), the clock; "
                    "es_manager.check_groups: false lets it pass"
                )

    def _layout_order(self, index: int, seed: int) -> tuple[Any, Any, int, str]:
        tag = self._tag_of[index]
        return self._factories[tag], self._config.tags[tag].env_config, seed, self._config.mode

    def _dynamics(self, index: int, seed: int) -> int | None:
        apart = self._config.tags[self._tag_of[index]].dynamics == "member"
        return seed_of(seed, "member", index % self._config.group_size) if apart else None


def _fail(trajectory: Trajectory, error: BaseException) -> None:
    if is_of_the_plan(error):
        raise error
    trajectory.fail(Failure.of(error))
    tell_of(trajectory)


def _first_state(trajectory: Trajectory) -> Any:
    first = trajectory.history[0]
    return [first["state"], [image.tobytes() for image in first.get("images", ())], trajectory.names]
