"""Learner: envs, an agent, a storage of rollouts, and the loop that collects and learns. A base to be subclassed.

    train ── collect_rollouts_parallel ──► Collector ──► rollouts in the order of their numbers ──► policy_storage
          └─ update: yours ◄─────────────────────────────────────────── batches ──────────────────────────┘

A rollout follows from the weights, the seed, and how many calls of collection there were before: not from the number of
workers.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from paceline.adapters.pomdp_baselines.agents import AGENT_ARCHS, Agent
from paceline.adapters.pomdp_baselines.collectors import Collectors
from paceline.adapters.pomdp_baselines.envs import make_env, make_parallel_env
from paceline.adapters.pomdp_baselines.manager import ParallelEnvManager
from paceline.adapters.pomdp_baselines.storage import EpisodeStorage, SampleStorage
from paceline.errors import BadInput
from paceline.learning import episode_of
from paceline.worlds.meta import inner_returns


class Log:
    """Writes lines to Python's `logging`, under "paceline.pomdp_baselines", at the level INFO."""

    def log(self, *words: Any) -> None:
        """Writes one line."""
        logging.getLogger("paceline.pomdp_baselines").info(" ".join(map(str, words)))


logger = Log()
"""What the learners of pomdp-baselines call `logger`."""


class Learner:
    """Collects rollouts of a meta-RL world, and learns from them. Override `update`, and what else must be different.

    Args:
        env_args: For `init_env`; None: it is called later.
        train_args: For `init_train`.
        eval_args: Kept as `eval_args`.
        policy_args: For `init_agent`: `arch`, and keywords of the policy.
        seed: Root of everything random.
        lanes: Rows of a forward pass. Part of the result: another number gives other bits.
        device: Where networks are put.
    """

    train_env: Any
    """An env for training in this process."""
    eval_env: Any
    """An env for evaluation in this process."""
    train_env_parallel: ParallelEnvManager | None
    """Envs for training in workers, if there are any."""

    def __init__(
        self,
        env_args: Mapping[str, Any] | None = None,
        train_args: Mapping[str, Any] | None = None,
        eval_args: Mapping[str, Any] | None = None,
        policy_args: Mapping[str, Any] | None = None,
        seed: int = 0,
        *,
        lanes: int = 8,
        device: str = "cpu",
    ) -> None:
        self.seed, self.lanes, self.device = seed, lanes, device
        self.eval_args, self.policy_args = dict(eval_args or {}), dict(policy_args or {})
        self._iteration = self._evaluations = 0
        self._start_training()
        self.init_train(**(train_args or {}))
        if env_args is not None:
            self.init_env(**env_args)

    # -- override these ----------------------------------------------------------------------------------------

    def init_env(
        self,
        env_type: str,
        env_name: str,
        max_rollouts_per_task: int,
        num_train_tasks: int | None = None,
        num_eval_tasks: int | None = None,
        num_parallel_workers: int = 4,
        **kwargs: Any,
    ) -> None:
        """Makes `eval_env`, `train_env` and, with more than one worker, `train_env_parallel`.

        Args:
            env_type: "meta": a world with tasks.
            env_name: Its id.
            max_rollouts_per_task: How many episodes of a task a rollout has.
            num_train_tasks: How many train tasks there are; None: as many as the world says.
            num_eval_tasks: How many eval tasks there are; None: as many as the world says.
            num_parallel_workers: How many processes play; with 1 or fewer rollouts are played here.
            kwargs: For `make_env`.

        Raises:
            BadInput: it is another type of env, or the envs cannot be made.
        """
        if env_type != "meta":
            raise BadInput(f"env_type={env_type!r}: rollouts are collected here on worlds with tasks, env_type='meta'")
        counts = {"num_train_tasks": num_train_tasks, "num_eval_tasks": num_eval_tasks}
        kwargs |= {name: count for name, count in counts.items() if count is not None}
        self.eval_env = make_env(env_name, max_rollouts_per_task, seed=self.seed + 1, **kwargs)
        self.train_env = make_env(env_name, max_rollouts_per_task, seed=self.seed, **kwargs)
        self.train_env_parallel = None
        if num_parallel_workers > 1:
            self.train_env_parallel = make_parallel_env(
                env_name, max_rollouts_per_task, num_workers=num_parallel_workers, seed=self.seed, **kwargs
            )

    def init_train(
        self,
        num_iters: int = 10,
        num_init_rollouts_pool: int = 0,
        num_rollouts_per_iter: int = 12,
        num_updates_per_iter: float = 1.0,
        buffer_size: float = 100_000,
        batch_size: int = 32,
        sampled_seq_len: int = -1,
    ) -> None:
        """Takes the numbers of training.

        Args:
            num_iters: How many iterations there are; `n_env_steps_total` follows from it.
            num_init_rollouts_pool: How many rollouts of full length are collected with random actions first.
            num_rollouts_per_iter: How many rollouts are collected in an iteration.
            num_updates_per_iter: A whole number: how many updates follow; a float: how many for each env step.
            buffer_size: How many transitions `policy_storage` holds.
            batch_size: For `update`.
            sampled_seq_len: The length of sequences in batches, for agents with a memory; -1: that of a rollout.
        """
        self.num_iters, self.num_init_rollouts_pool = num_iters, num_init_rollouts_pool
        self.num_rollouts_per_iter, self.num_updates_per_iter = num_rollouts_per_iter, num_updates_per_iter
        self.buffer_size, self.batch_size, self.sampled_seq_len = int(buffer_size), batch_size, sampled_seq_len

    def init_agent(self, arch: AGENT_ARCHS | str = AGENT_ARCHS.Markov, **keywords: Any) -> Agent:
        """Makes the agent, when it is first asked for, with what `policy_args` say."""
        env = self._env
        spaces = env.observation_space, env.action_space
        return Agent(arch, *spaces, **{"lanes": self.lanes, "device": self.device, "seed": self.seed, **keywords})

    def update(self, num_updates: Any) -> Mapping[str, float]:
        """Learns from `policy_storage`, by changing `agent.network`. This base learns nothing, and logs that.

        Args:
            num_updates: How many updates are due.

        Returns:
            Figures, such as losses.
        """
        logger.log("update is not overridden: rollouts are collected, and nothing is learned from them")
        return {}

    def log_train_stats(self, train_stats: Mapping[str, float]) -> None:
        """Logs how far training is, and the figures of an update."""
        figures: dict[str, float] = {"z/env_steps": self._n_env_steps_total, "z/rollouts": self._n_rollouts_total}
        figures |= {f"rl_loss/{name}": value for name, value in train_stats.items()}
        logger.log(", ".join(f"{name} {value}" for name, value in figures.items()))

    def train(self) -> None:
        """Collects the initial pool, then collects and updates until `n_env_steps_total` steps have been played."""
        self._start_training()
        pool = self.num_init_rollouts_pool * self.max_trajectory_len
        while (missing := pool - self._n_env_steps_total) > 0:
            rollouts = math.ceil(missing / self.max_trajectory_len)  # more are needed if some end early
            self.collect_rollouts_parallel(rollouts, random_actions=True, parallel_env=self.train_env_parallel)
        while self._n_env_steps_total < self.n_env_steps_total:
            steps = self.collect_rollouts_parallel(self.num_rollouts_per_iter, parallel_env=self.train_env_parallel)
            updates = self.num_updates_per_iter
            self.log_train_stats(self.update(updates if isinstance(updates, int) else math.ceil(updates * steps)))

    # -- what there is -----------------------------------------------------------------------------------------

    @cached_property
    def agent(self) -> Any:
        """What plays: an `Agent`; or set it to what `Collector` takes as a policy."""
        return self.init_agent(**self.policy_args)

    @cached_property
    def policy_storage(self) -> Any:
        """What has been collected: transitions for a Markov agent, whole rollouts for one with a memory."""
        env = self._env
        spaces = env.observation_space, env.action_space
        if getattr(self.agent, "arch", AGENT_ARCHS.Markov) == AGENT_ARCHS.Markov:
            return SampleStorage(self.buffer_size, *spaces, seed=self.seed)
        length = self.max_trajectory_len if self.sampled_seq_len < 0 else self.sampled_seq_len
        return EpisodeStorage(self.buffer_size, *spaces, length=length, seed=self.seed)

    @cached_property
    def train_tasks(self) -> list[Any]:
        """The tasks that rollouts are collected on; if there are none, the env draws one for each rollout."""
        return list(self._env.train_tasks)

    @cached_property
    def eval_tasks(self) -> list[Any]:
        """The tasks for evaluation."""
        return list(self._env.eval_tasks)

    @cached_property
    def max_trajectory_len(self) -> int:
        """How many steps a rollout has at most."""
        return int(self._env.horizon_bamdp)

    @cached_property
    def n_env_steps_total(self) -> int:
        """How many steps training has in all."""
        rollouts = self.num_init_rollouts_pool + self.num_rollouts_per_iter * self.num_iters
        return self.max_trajectory_len * rollouts

    @cached_property
    def _collectors(self) -> Collectors:
        tasks = self._task if len(self.train_tasks) else None
        options = {"seed": self.seed, "lanes": self.lanes, "device": self.device}
        return Collectors(lambda: self._env, lambda: self.agent, tasks=tasks, **options)

    @property
    def _env(self) -> Any:
        if getattr(self, "train_env", None) is None:
            raise BadInput("there is no train_env yet: give env_args, or call init_env(…) first")
        return self.train_env

    def _start_training(self) -> None:
        """Sets the counters of training to 0. What is in `policy_storage` stays."""
        self._n_env_steps_total = 0
        self._n_rollouts_total = 0

    # -- collection --------------------------------------------------------------------------------------------

    def collect_rollouts(self, num_rollouts: int, random_actions: bool = False) -> int:
        """Collects rollouts here; see `collect_rollouts_parallel`."""
        return self.collect_rollouts_parallel(num_rollouts, random_actions)

    def collect_rollouts_parallel(
        self, num_rollouts: int, random_actions: bool = False, parallel_env: ParallelEnvManager | None = None
    ) -> int:
        """Collects rollouts, each on one of `train_tasks`, and files them in `policy_storage` by their numbers.

        Args:
            num_rollouts: How many.
            random_actions: Whether actions are drawn from the action space.
            parallel_env: Whose workers play, with envs such as theirs; None: they are played here. The rollouts are
                the same.

        Returns:
            How many env steps there were.

        Raises:
            RolloutsFailed: some could not be played; none is filed.
        """
        iteration = self._iteration = self._iteration + 1
        collected = self._collectors.ask(
            parallel_env,
            random_actions,
            lambda collector, weights: collector.collect(num_rollouts, weights=weights, iteration=iteration),
        )
        for rollout in collected:
            self._file(rollout.columns)
        self._n_env_steps_total += collected.steps
        self._n_rollouts_total += len(collected)
        return collected.steps

    def evaluate(self, tasks: Any = None, parallel_env: ParallelEnvManager | None = None) -> np.ndarray[Any, Any]:
        """Plays one rollout on each of some tasks that no rollout has been collected on. Nothing is filed.

        Args:
            tasks: The tasks; None: `eval_tasks`.
            parallel_env: As in `collect_rollouts_parallel`.

        Returns:
            The return of each episode: [tasks, episodes of a task].

        Raises:
            BadInput: there are no such tasks, or a rollout has been collected on one of them.
        """
        chosen = self.eval_tasks if tasks is None else list(tasks)
        if not chosen:
            raise BadInput("there are no tasks to evaluate on: this world has no eval tasks, so give some")
        round_ = self._evaluations = self._evaluations + 1
        played = self._collectors.ask(
            parallel_env,
            False,
            lambda collector, weights: collector.evaluate(chosen, weights=weights, round_=round_),
        )
        episodes = int(self._env.episodes_per_task)
        columns = [rollout.columns for rollout in played]
        return np.array([inner_returns(each["observations"], each["rewards"], episodes) for each in columns])

    def close(self) -> None:
        """Ends envs and workers. May be called again."""
        if "_collectors" in vars(self):
            self._collectors.close()
        for name in ("train_env_parallel", "train_env", "eval_env"):
            if (env := getattr(self, name, None)) is not None:
                env.close()

    def __enter__(self) -> Learner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _task(self, generator: np.random.Generator) -> Any:
        return self.train_tasks[int(generator.integers(len(self.train_tasks)))]

    def _file(self, columns: Mapping[str, Any]) -> None:
        observations, actions, rewards, terminals, following = episode_of(columns).values()
        rows = (observations, actions, rewards[:, None], terminals[:, None], following)
        if hasattr(self.policy_storage, "add_episode"):
            self.policy_storage.add_episode(*rows)
            return
        for row in zip(*rows, strict=True):
            self.policy_storage.add_sample(*row)
