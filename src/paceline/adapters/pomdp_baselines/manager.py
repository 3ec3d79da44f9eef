"""ParallelEnvManager: an env in each of several processes, spoken to one by one or all together.

    remotes[i].send(("step", action)) ── post ──► worker i: HostedEnv ── answer ──► remotes[i].recv()

`send` returns at once and `recv` waits, so that all workers compute between the last `send` and the first `recv`. A
worker that dies is replaced, and its env brought to where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from paceline.adapters.pomdp_baselines.hosted import HostedEnv
from paceline.adapters.pomdp_baselines.remote import Remote
from paceline.engine import Pool, WorkerInfo
from paceline.errors import BadInput
from paceline.seeds import env_seed

_START_METHODS = (None, "spawn", "forkserver")


class ParallelEnvManager:
    """Envs in processes of their own, one each.

    Args:
        env_fns: Make the envs, where they live: Gymnasium envs that are alike.
        start_method: None, "spawn" or "forkserver", which mean the same: a worker inherits nothing of this process.
        seed: Root of what envs draw from process-wide generators, and of envs that `env_fns` leave without a seed;
            None: drawn afresh.

    Raises:
        BadInput: there are no `env_fns`, or one makes no Gymnasium env. What a constructor raises comes as it is.
    """

    def __init__(
        self, env_fns: Sequence[Callable[[], Any]], start_method: str | None = None, *, seed: int | None = None
    ) -> None:
        if start_method not in _START_METHODS:
            raise BadInput(
                f"start_method={start_method!r}: workers are never forked from this process, whose locks and random "
                "streams they would share; leave start_method out"
            )
        self.env_fns = list(env_fns)
        """What makes the envs."""
        if not self.env_fns:
            raise BadInput("ParallelEnvManager needs one env_fn or more")
        root = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        count = len(self.env_fns)
        self.pool = Pool(
            [
                partial(HostedEnv, make, worker, env_seed(root, "env", worker))
                for worker, make in enumerate(self.env_fns)
            ],
            backend="process",
            workers=count,
            seed=root,
        )
        """The workers; `Collector(pool=…)` plays whole rollouts there."""
        self.remotes = [Remote(self.pool, worker) for worker in range(count)]
        """The lines to the envs, in their order."""
        about = self.pool.call("about", {0: ()}, record=False)[0]
        self.observation_space, self.action_space = about["observation_space"], about["action_space"]
        self.spec = about["spec"]
        """As Gymnasium has it; None for an env that was not made by its id."""
        self.n_tasks: int | None = about["n_tasks"]
        """How many tasks the envs' sets have; None: they have no sets."""
        self.horizon_bamdp: int | None = about["horizon_bamdp"]
        """How many steps there are at most of one task; None: the envs do not say."""
        self._max_episode_steps: int | None = about["_max_episode_steps"]
        self.closed = False
        """Whether the workers have ended."""

    def __len__(self) -> int:
        return len(self.remotes)

    def __enter__(self) -> ParallelEnvManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def num_envs(self) -> int:
        """How many envs there are."""
        return len(self.remotes)

    @property
    def num_workers(self) -> int:
        """How many processes there are: one for each env."""
        return len(self.remotes)

    @property
    def workers(self) -> list[WorkerInfo]:
        """The processes, with their ids."""
        return self.pool.workers

    @property
    def unwrapped(self) -> Unwrapped:
        """The innermost env of the first worker, as seen from here: values are fetched, methods are called there."""
        return Unwrapped(self.pool)

    # -- one env -----------------------------------------------------------------------------------------------

    def reset(self, env_idx: int, **kwargs: Any) -> Any:
        """Begins the episodes of a task in one env.

        Args:
            env_idx: Which env.
            kwargs: `task`, `seed`, `options`; without a task the env draws one.

        Returns:
            The observation.
        """
        return self._asked({env_idx: ("reset", kwargs)})[0]

    def step(self, env_idx: int, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Plays one step in one env.

        Returns:
            The observation, the reward, whether all episodes of the task are over, and the info.
        """
        observation, reward, done, info = self._asked({env_idx: ("step", {"action": action})})[0]
        return observation, reward, done, info

    def get_attr(self, name: str, env_idx: int = 0, subattrs: Sequence[str] | None = None) -> Any:
        """Gives an attribute of one env; `subattrs` lead from there to an attribute of it.

        Raises:
            BadInput: it is the env itself, or a method.
        """
        return self._asked({env_idx: ("get_attr", {"attr": name, "subattrs": list(subattrs or ())})})[0]

    # -- all envs ----------------------------------------------------------------------------------------------

    def reset_all(self, tasks: Sequence[Any] | None = None) -> list[Any]:
        """Begins the episodes of a task in every env.

        Args:
            tasks: One for each env; None: each draws one.

        Returns:
            The observations.
        """
        each = [None] * self.num_envs if tasks is None else self._one_each("tasks", tasks)
        return self._asked({env: ("reset", {"task": task}) for env, task in enumerate(each)})

    def step_all(self, actions: Sequence[Any]) -> tuple[list[Any], list[float], list[bool], list[dict[str, Any]]]:
        """Plays one step in every env.

        Args:
            actions: One for each env.

        Returns:
            Observations, rewards, whether all episodes of the task are over, and infos.
        """
        each = self._one_each("actions", actions)
        played = self._asked({env: ("step", {"action": action}) for env, action in enumerate(each)})
        observations, rewards, dones, infos = map(list, zip(*played, strict=True))
        return observations, rewards, dones, infos

    def seed(self, seeds: int | Sequence[int]) -> None:
        """Begins the envs' streams anew.

        Args:
            seeds: One for each env; or one from which theirs follow.
        """
        if isinstance(seeds, int | np.integer):
            seeds = [env_seed(int(seeds), "parallel env", env) for env in range(self.num_envs)]
        each = self._one_each("seeds", seeds)
        self._asked({env: ("seed", {"seed": int(seed)}) for env, seed in enumerate(each)})

    def close(self) -> None:
        """Ends the workers. May be called again; it is done when the manager is dropped, and at exit, too."""
        self.closed = True
        for remote in self.remotes:
            remote.close()
        self.pool.close()

    def _asked(self, messages: dict[int, tuple[str, Any]]) -> list[Any]:
        """Sends to some envs, and gives what they answer, in their order."""
        for env in messages:
            if isinstance(env, bool) or not isinstance(env, int | np.integer) or not 0 <= env < self.num_envs:
                raise BadInput(f"env_idx={env!r}: there are {self.num_envs} envs, from 0 on")
            if self.remotes[env].due:
                raise BadInput(
                    f"worker {env} has been sent {self.remotes[env].due} messages whose answers have not been "
                    f"received: call remotes[{env}].recv() first"
                )
        for env, message in messages.items():
            self.remotes[env].send(message)
        return _received([self.remotes[env] for env in messages])

    def _one_each(self, what: str, values: Sequence[Any]) -> list[Any]:
        if len(values) != self.num_envs:
            raise BadInput(f"{len(values)} {what} for {self.num_envs} envs: give one for each")
        return list(values)


class Unwrapped:
    """The innermost env of the first worker, as seen from here.

    Args:
        pool: Its first member is the env.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._pool.call("is_method", {0: (name,)}, record=False)[0]:
            return lambda *args, **kwargs: self._pool.call("ask", {0: (name, args, kwargs)})[0]
        return self._pool.call("get_attr", {0: ("unwrapped", [name])}, record=False)[0][1]


def _received(remotes: Sequence[Remote]) -> list[Any]:
    """What each answers; everything is received before the first error is raised."""
    answers, errors = [], []
    for remote in remotes:
        try:
            answers.append(remote.recv()[1])
        except Exception as error:
            errors.append(error)
    try:
        if errors:
            raise errors[0]
        return answers
    finally:
        errors.clear()  # an error holds this frame: a cycle would keep the workers of a manager that is dropped
