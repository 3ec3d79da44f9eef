"""What all collectors of the benchmark share: environments, one network with its weights, and a plain loop.

A module of its own, and a small one: every worker imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np

import paceline  # registers the worlds, too
from paceline.collect.jobs import Job, Spec

Array = np.ndarray[Any, Any]
Make = Callable[[], Any]

ANT, POINT = "AntDir-v0", "PointRobot-v0"
TASKS: dict[str, list[Any]] = {ANT: [1.0, -1.0], POINT: [(0.5, 0.5), (-0.5, 0.5), (0.0, -0.5)]}
SIZES = {ANT: (27, 8), POINT: (2, 2)}  # of an observation and of an action
REACH = {ANT: 1.0, POINT: 0.1}  # the bound of an action
HIDDEN = 64
SEED = 0


def make(name: str) -> Any:
    """An environment, with no wrappers that only check it."""
    return gymnasium.make(name, disable_env_checker=True)


# -- the policy ----------------------------------------------------------------------------------------


@cache
def actor(name: str) -> Any:
    """The network that every contestant asks: two layers of 64, in torch, on one thread. It draws nothing."""
    import torch
    from torch import nn
    from torch.nn.utils import skip_init

    class Actor(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inputs, outputs = SIZES[name]
            linear = partial(skip_init, nn.Linear)  # draws nothing
            layers = [linear(inputs, HIDDEN), nn.Tanh(), linear(HIDDEN, HIDDEN), nn.Tanh()]
            self.layers = nn.Sequential(*layers, linear(HIDDEN, outputs), nn.Tanh())
            rng = np.random.default_rng(SEED)
            for weights in self.parameters():
                drawn = rng.normal(0, 0.3 / np.sqrt(weights.shape[-1]), weights.shape)
                weights.data = torch.as_tensor(drawn, dtype=torch.float32)

        def forward(self, observations: Any) -> Any:
            return self.layers(observations.float()) * REACH[name]

    torch.set_num_threads(1)
    return Actor().eval().requires_grad_(False)


def act_rows(name: str, observations: Array) -> Array:
    """Actions for rows of observations, or for one."""
    import torch

    with torch.inference_mode():
        actions: Array = actor(name)(torch.from_numpy(observations)).numpy()
    return actions


def act_ant(obs: Array) -> Array:
    """The policy of AntDir: a plain function."""
    return act_rows(ANT, obs)


def act_point(obs: Array) -> Array:
    """The policy of PointRobot: a plain function."""
    return act_rows(POINT, obs)


class AntRows:
    """The policy of AntDir with a forward pass for several rollouts."""

    def begin(self, rows: Any, seeds: Any) -> None:
        pass

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Array:
        return act_rows(ANT, np.stack(obs))


POLICIES: dict[str, Callable[[Array], Array]] = {ANT: act_ant, POINT: act_point}


# -- the plain loop ------------------------------------------------------------------------------------


class Plain:
    """A for loop over rollouts, one environment and one policy: the yardstick.

    Its start states are those that a collector gives to the same rollouts, so that all do the same work.

    Args:
        name: Of the environment.
    """

    def __init__(self, name: str) -> None:
        self._env, self._act, self._tasks = make(name), POLICIES[name], TASKS[name]

    def play(self, index: int) -> dict[str, Array]:
        """Plays one rollout. Returns its columns."""
        env, act = self._env, self._act
        observations, actions, rewards, ends = [], [], [], []
        obs, _ = env.reset(seed=start_of(index), options={"task": self._tasks[index % len(self._tasks)]})
        over = False
        while not over:
            action = act(obs)
            after, reward, terminated, truncated, _ = env.step(action)
            observations.append(obs)
            actions.append(action)
            rewards.append(reward)
            ends.append((terminated, truncated))
            obs, over = after, terminated or truncated
        columns = {"observations": observations, "actions": actions, "rewards": rewards, "ends": ends}
        return {column: np.array(rows) for column, rows in columns.items()}

    def play_all(self, indices: Iterable[int]) -> int:
        """Plays rollouts one after another. Returns how many transitions that were."""
        return sum(len(columns["rewards"]) for columns in [self.play(index) for index in indices])


def start_of(index: int) -> int:
    """The seed of the start state of a rollout of iteration 0."""
    return Spec(None, None, seed=SEED).start(Job(0, index), 0)  # type: ignore[arg-type]


_loops = cache(Plain)


def serve(asked: tuple[str, list[int]]) -> None:
    """What an unconnected process does: plays its rollouts."""
    name, indices = asked
    _loops(name).play_all(indices)


def collector_of(name: str, plan: Any, **options: Any) -> paceline.Collector:
    """Ours, with the plain function as its policy unless another one is given."""
    options = {"policy": POLICIES[name], "tasks": TASKS[name], "seed": SEED, **options}
    return paceline.Collector(partial(make, name), plan=plan, **options)


class Holder:
    """A policy that holds the weights that it was given, and otherwise does nothing."""

    reuse = True

    def __init__(self, seat: Any) -> None:
        self._action = np.zeros(SIZES[POINT][1], np.float32)

    def load(self, version: int, weights: Any) -> None:
        self._weights = weights

    def act(self, obs: Array) -> Array:
        return self._action


def hold(weights: Any) -> None:
    """The same for a process that is sent weights and nothing else."""
    _held[:] = [weights]


_held: list[Any] = []
