"""What a caller of collection gives, and what is meant by it: an environment, a policy, tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from paceline.catalog.policies import default_policy
from paceline.catalog.resolve import missions_of
from paceline.catalog.resolve import player_of as one_player
from paceline.collect.agents import named_agent
from paceline.collect.jobs import Spec
from paceline.collect.leaks import SameTask, same_task_of
from paceline.engine import Plan, Pool, check_sendable, draws_of
from paceline.errors import BadInput, MemberExit, NotSendable, WorkerLost, attempt
from paceline.rollout import Rollout
from paceline.schedule import in_words
from paceline.team import Player, understood
from paceline.types import Mission, Seat, Task

Tasks = Sequence[Any] | Callable[[np.random.Generator], Any]
"""Tasks that are dealt in order, or a function that draws one; a word is one of `task_sets.TASK_WORDS`."""


def mission_of(given: Any, horizon: int | None, *, apart: bool) -> Mission:
    """The mission that is meant."""
    found = missions_of(given, apart=apart)
    if len(found) != 1:
        raise BadInput(f"{given!r:.60} names {len(found)} missions; rollouts are collected on one")
    mission = found[0]
    return mission if horizon is None else replace(mission, steps=horizon)


def player_of(given: Any, mission: Mission, random_actions: bool, *, apart: bool) -> Player:
    """The policy that is meant."""
    if random_actions and given is not None:
        raise BadInput("a policy and random_actions=True: give one of them")
    if random_actions:
        given = "random"
    agent = named_agent(given) if isinstance(given, str) else None
    if agent is not None:
        return agent
    return one_player(default_policy(mission) if given is None else given, mission, apart=apart)[0]


def tried(function: Callable[[None], Any], mission: Mission, plan: Plan) -> Any:
    """What a function answers to None, where environments are: in a process of its own, if the plan has them in
    processes. Whatever it starts there ends with this process, however that ends.

    What it raises comes as it is: users know nothing of the items of a map.

    Raises:
        BadInput: it ends its process, or tries to.
    """
    backend = "process" if _has_processes(plan) else "inline"
    with Pool([], backend=backend, workers=1, trust=plan.trust) as pool:
        ((_, outcome),) = pool.stream(function, [None], deadline=math.inf)
    if isinstance(outcome.error, WorkerLost | MemberExit):
        words = in_words(str(outcome.error), "attempt").splitlines()[0]
        what = f"environment {mission.name!r} cannot be looked at"
        raise BadInput(f"{what}: to build it, or a policy for it, ends the process: {words}") from outcome.error
    if outcome.error is not None:
        notes = getattr(outcome.error, "__notes__", [])
        outcome.error.__notes__ = [note for note in notes if not note.startswith("in item 0")]
        raise outcome.error
    return outcome.answer


def _has_processes(plan: Plan) -> bool:
    return plan.backend == "process" or plan.trust == "data"


def surveyed(
    spec: Spec, plan: Plan, *, policy_here: bool, is_default: bool = False
) -> tuple[bool | None, bool, int, SameTask | None]:
    """Builds the environment and the policy once, where they will be, so that a mistake is told before work begins.

    Args:
        spec: What is collected.
        plan: Where environments are.
        policy_here: The policy stays in this process, wherever environments are.
        is_default: No policy has been given, so that the mission's default plays.

    Returns:
        How the policy is understood (see `Player.acts`); whether the environment declares that `reset` makes it as
        new: its class, or one that it wraps, has `reusable = True`; how many agents it has; its rule by which tasks
        are the same, if it can come from there.

    Raises:
        BadInput: one of them cannot be built, or is none; the first task is none of a world that can tell.
    """
    understand = partial(_understood, spec, is_default)
    if not (policy_here and _has_processes(plan)):
        acts, *rest = tried(partial(_looked_at, spec, plan, understand), spec.mission, plan)
        return acts, *rest
    look = partial(_looked_at, spec.without_policy(), plan, _first_seen)
    (seats, seen), *rest = tried(look, spec.mission, plan)
    return understand(seats, partial(_given_or_raised, seen)), *rest


_Begin = Callable[[], Mapping[str, Any]]


def _looked_at(
    spec: Spec, plan: Plan, ask: Callable[[dict[str, Seat], _Begin], Any], _: None
) -> tuple[Any, bool, int, SameTask | None]:
    """Builds the environment, has `ask` look at its agents and what they see first, and closes it."""
    what = f"environment {spec.mission.name!r}"
    rollout = attempt(lambda: Rollout(spec.mission, device=spec.device, digested=False), what)
    try:
        seats = {seat.agent: seat for seat in rollout.seats()}
        if not seats:
            raise BadInput(f"{what} has no agents: there is nothing to collect")
        found = ask(seats, lambda: rollout.begin(0, spec.first_task))
        made = rollout.made
        reusable = bool(getattr(getattr(made, "unwrapped", made), "reusable", False))
        if reusable and spec.first_task is not None:  # a world as ours says by BadInput that it is no task of it
            rollout.begin(0, spec.first_task)
        return found, reusable, len(seats), _rule_of(made, plan)
    finally:
        with suppress(Exception, SystemExit):  # told when rollouts are played
            rollout.close()


def _understood(spec: Spec, is_default: bool, seats: dict[str, Seat], begin: _Begin) -> bool | None:
    def observe(seat: Seat) -> tuple[Seat, Any]:
        seen = begin()
        agent = seat.agent if seat.agent in seen else next(iter(seen))
        return seats[agent], seen[agent]

    try:
        acts: bool | None = attempt(
            lambda: understood(spec.player, next(iter(seats.values())), observe), "the policy"
        ).acts
    except BadInput as error:
        if is_default:
            raise BadInput(f"no policy is given, and the default does not suit: {error}") from error
        raise
    return acts


def _first_seen(seats: dict[str, Seat], begin: _Begin) -> tuple[dict[str, Seat], Any]:
    """The agents and what they see first, or what the environment raises then: a policy elsewhere may not need it."""
    try:
        return seats, begin()
    except Exception as error:
        return seats, error


def _given_or_raised(seen: Any) -> Any:
    if isinstance(seen, Exception):
        raise seen
    return seen


def _rule_of(made: Any, plan: Plan) -> SameTask | None:
    """The world's rule by which tasks are the same; it is no data, and one that cannot be sent stays where it is."""
    rule = None if plan.trust == "data" else same_task_of(made)
    if rule is not None and _has_processes(plan):
        try:
            check_sendable(rule)
        except NotSendable:
            return None
    return rule


def task_of(tasks: Tasks | None, index: int, stream: Callable[[], np.random.Generator]) -> Task | None:
    """The task of a rollout; `stream` makes the generator that it is drawn from, which takes longer than to deal it."""
    if tasks is None:
        return None
    if callable(tasks):
        task = tasks(stream())
    elif len(tasks):
        task = tasks[index % len(tasks)]
    else:
        raise BadInput("tasks is empty: give at least one, or None for environments as they come")
    return task if isinstance(task, Task) else Task(index, {"task": task})


def dealt(tasks: Tasks | None, spec: Spec, iteration: int | str, indices: Sequence[int]) -> list[Task | None]:
    """The tasks of some rollouts, which follow from who these are.

    A function that draws from process-wide generators, and not from the one that it is given, is asked again under
    streams of each rollout's own: the same seed would otherwise give other tasks with every call.

    Args:
        tasks: Dealt in order, or a function that draws one.
        spec: What is collected.
        iteration: Which round it is.
        indices: The rollouts' numbers.
    """

    def one(index: int) -> Task | None:
        return task_of(tasks, index, partial(spec.task_stream, iteration, index))

    with draws_of() as drawn:
        found = [one(index) for index in indices]
    if not drawn():
        return found
    with Pool([], seed=spec.seed) as pool:
        return pool.map(one, indices, keys=[("task", iteration, index) for index in indices])


def checked_tasks(tasks: Any) -> None:
    """Sees to it that tasks can be dealt.

    Raises:
        BadInput: they are no sequence and no function.
    """
    if tasks is None or callable(tasks) or is_listed(tasks):
        return
    raise BadInput(f"tasks={tasks!r:.60}: give a list of tasks, or a function that draws one from a generator")


def is_listed(tasks: Any) -> bool:
    """Whether tasks are there one by one, so that they can be dealt in order."""
    return isinstance(tasks, Sequence) or (isinstance(tasks, np.ndarray) and tasks.ndim > 0)


def rollouts_of(count: int, indices: Sequence[int] | None) -> Sequence[int]:
    """The numbers of the rollouts that are played: those that are named, or all.

    Raises:
        BadInput: one is named twice, or is none of them.
    """
    if indices is None:
        return range(count)
    if isinstance(indices, str) or not isinstance(indices, Iterable):
        raise BadInput(f"indices={indices!r:.60}: give a list of the rollouts' numbers")
    asked = list(indices)
    chosen = [int(index) for index in asked if _is_whole(index) and 0 <= index < count]
    if len(set(chosen)) < len(asked):
        raise BadInput(f"indices={asked!r:.60}: give each number once, from 0 to {count - 1}")
    return chosen


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
