"""Peers of groups: plain loops in unconnected processes, the source design, and one thread per environment.

A module of its own, and a small one: every process of the peers imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

from paceline.catalog.text_envs import find_text_env
from paceline.groups.member import Begun, Member
from paceline.groups.trajectory import Trajectory, Turned

Order = tuple[str, dict[str, Any], int]
"""(kind, its options, seed) of an environment."""


def make(orders: Sequence[Order]) -> list[Any]:
    """Environments, reset one after another."""
    envs = []
    for kind, options, seed in orders:
        env = find_text_env(kind)(options)
        env.reset(seed=seed, mode="train")
        envs.append(env)
    return envs


def play(envs: Sequence[Any], turns: Sequence[Sequence[Any]]) -> None:
    """Every environment takes its action of every turn, and shows its state, as a manager wants to see it."""
    for actions in turns:
        for env, action in zip(envs, actions, strict=True):
            env.step(action)
            env.render()


_envs: list[Any] = []


def serve(asked: tuple[str, Any]) -> None:
    """What an unconnected process does: makes environments, or plays them."""
    what, content = asked
    if what == "make":
        _envs[:] = make(content)
    else:
        play(_envs, content)


# -- the source design, and threads ------------------------------------------------------------------------
#
# All carry out the same turns, by the same rules, into the same caches as groups do: only who is asked, and what
# travels, differs.

_replicas: list[Member] = []


def _members(orders: Sequence[Order]) -> list[Member]:
    members = []
    for kind, options, seed in orders:
        members.append(Member(find_text_env(kind), options, 1_000_000, kind))
        members[-1].begin(seed, "train", None, None)
    return members


def _build_all(orders: Sequence[Order]) -> None:
    _replicas[:] = _members(orders)


def _turn_of(env_id: int, actions: list[str]) -> Turned:
    return _replicas[env_id].turn(actions)


def _told(given: Mapping[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    """A turn as the source sends it back: with the whole status, which it has brought up to date."""
    turned = _replicas[given["env_id"]].turn(given["actions"])
    _, executed, _, reward, _, done, _, _ = turned
    status["num_actions"] += len(executed)
    status["rewards"].append(reward)
    status["terminated"] = done
    left = 1_000_000 - status["num_actions"]
    return {"env_id": given["env_id"], "success": True, "status": status, "turned": turned, "actions_left": left}


class _Manager:
    """Submits a turn per environment, waits for each, and keeps the caches."""

    def __init__(self, orders: Sequence[Order]) -> None:
        self._orders = orders
        self.begin()

    def begin(self) -> None:
        """Forgets all turns: what the source sends grows with them."""
        self._caches = [
            Trajectory(number, number, order[0], 1_000_000, order[2]) for number, order in enumerate(self._orders)
        ]
        for cache in self._caches:
            cache.begin(Begun("", ()))

    def step(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        futures = [self.submit(given) for given in inputs]
        for given, future in zip(inputs, futures, strict=True):
            said = given["actions"], given["llm_response"], given["llm_raw_response"]
            self._caches[given["env_id"]].take(self.turned(future), said, -0.1)

    def submit(self, given: Mapping[str, Any]) -> Future[Any]:
        raise NotImplementedError

    def turned(self, future: Future[Any]) -> Turned:
        answer: Turned = future.result(timeout=30)
        return answer


class SubmitPerEnv(_Manager):
    """A replica of every environment in every worker, and a submit per environment and step, to whoever is free."""

    def __init__(self, orders: Sequence[Order], workers: int = 2) -> None:
        super().__init__(orders)
        spawn = get_context("spawn")
        self.pool = ProcessPoolExecutor(workers, mp_context=spawn, initializer=_build_all, initargs=(list(orders),))

    def submit(self, given: Mapping[str, Any]) -> Future[Any]:
        return self.pool.submit(_turn_of, given["env_id"], given["actions"])


class SourceDesign(SubmitPerEnv):
    """The same, and what the source sends: everything that was said, and the status with its rewards, both ways."""

    def submit(self, given: Mapping[str, Any]) -> Future[Any]:
        status = self._caches[given["env_id"]].status
        keys = ("num_actions", "truncated", "terminated", "seed")
        sent = {**{key: getattr(status, key) for key in keys}, "rewards": status.rewards.copy()}
        return self.pool.submit(_told, given, sent)

    def turned(self, future: Future[Any]) -> Turned:
        answer: Turned = future.result(timeout=30)["turned"]
        return answer


class ThreadPerEnv(_Manager):
    """One thread per environment, as some peers have it."""

    def __init__(self, orders: Sequence[Order]) -> None:
        super().__init__(orders)
        self._members = _members(orders)
        self.pool = ThreadPoolExecutor(len(self._members))

    def submit(self, given: Mapping[str, Any]) -> Future[Any]:
        return self.pool.submit(self._members[given["env_id"]].turn, given["actions"])
