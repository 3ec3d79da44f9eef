"""The loop: collects rollouts, learns from them, and now and then plays tasks that it has not learned on.

random actions ──► what rewards are like ─┐
                                          ▼
weights ──► Collector ──► rollouts ──► learner ──► weights ──► …     every few iterations: unseen tasks ──► a row
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from paceline.checkpoints import Checkpoints
from paceline.collect import Collection, Collector
from paceline.engine import Plan, Trace
from paceline.learning import SequenceLearner, SequencePPO
from paceline.meta.agents import SAMPLED, Agent
from paceline.meta.finite import check_finite
from paceline.meta.result import Evaluation
from paceline.meta.tasks import World, dealt
from paceline.seeds import seed_of
from paceline.spaces import Array
from paceline.team.device import one_thread
from paceline.worlds.meta import inner_returns

IN_BETWEEN = 100
"""On how many of the unseen tasks the agent is tried before the training ends; at its end on all."""

_BASELINE = 16  # rollouts of random actions, if none are asked for: what an agent must be better than


@dataclass(frozen=True)
class Job:
    """What a meta-training follows from.

    Attributes:
        world: What is learned.
        agent: Who learns.
        settings: How.
        episodes: How many episodes of a task a rollout has.
        num_rollouts_per_iter: How many rollouts are collected in an iteration.
        num_init_rollouts_pool: How many are played with random actions first; they count as steps.
        n_env_steps_total: After how many steps no further iteration begins.
        num_updates_per_iter: Gradient steps of an iteration; of a float, as many for each env step.
        log_interval: After how many iterations the agent is tried on unseen tasks.
        lag: By how many updates the weights that collect are behind: 0, or 1.
        seed: Root of everything random.
        lanes: Rows of a forward pass.
        device: Where networks are put.
    """

    world: World
    agent: Agent
    settings: SequencePPO
    episodes: int
    num_rollouts_per_iter: int
    num_init_rollouts_pool: int
    n_env_steps_total: int
    num_updates_per_iter: int | float
    log_interval: int
    lag: int = 0
    seed: int = 0
    lanes: int = 32
    device: str = "cpu"


class Loop:
    """A meta-training under way.

    Args:
        job: What is trained.
        plan: Where rollouts are played; never what comes of them.
        checkpoints: Where it is saved; None: nowhere.
        trace: Records where the time goes.
    """

    def __init__(
        self, job: Job, plan: Plan, *, checkpoints: Checkpoints | None = None, trace: Trace | None = None
    ) -> None:
        self.job, self._checkpoints, self._trace, self._asked = job, checkpoints, trace, plan
        self.iteration = self.env_steps = self.rollouts = self.rl_steps = 0
        """What has been done so far."""
        self.saved = 0
        """How many iterations the last checkpoint holds."""
        self.returns: list[Array] = []
        """Those of the episodes of each iteration's rollouts: [rollouts, episodes] each."""
        self.random: Array = np.zeros((0, job.episodes))
        """Those of random actions: [rollouts, episodes]."""
        self.evaluations: list[Evaluation] = []
        """What came of unseen tasks."""
        self.rows: list[dict[str, float]] = []
        """What is logged, a row for each iteration."""
        self.seconds = dict.fromkeys(("collect", "update", "evaluate"), 0.0)
        self.notes: list[str] = []
        self.plan = plan
        """Where rollouts are played, once that is known."""
        self.acting: dict[str, Array] = {}
        """The weights with which the last iteration's rollouts were collected."""
        self._next: Collection | None = None  # of the next iteration, if there is a lag
        self._acted: dict[str, Array] | None = None  # the weights that it is collected with
        self._stack = ExitStack()
        self._began = perf_counter()
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise

    def _open(self) -> None:
        job, world = self.job, self.job.world
        self._stack.callback(one_thread())
        self._beside = self._stack.enter_context(ThreadPoolExecutor(1, "update"))
        self.learner = SequenceLearner(job.agent.build(world.seat), job.settings, seed=seed_of(job.seed, "learner"))
        self._collector = self._made(dealt(world.train))
        self._trials = self._collector
        if world.seen and isinstance(world.train, Sequence):
            self.notes.append(
                f"{world.mission.name} has no tasks but the {len(world.train)} for learning: it is evaluated on these"
            )
            self._trials = self._made(world.train)

    def _made(self, tasks: Any = None) -> Collector:
        job = self.job
        collector = Collector(
            job.world.mission,
            job.agent.player,
            tasks=tasks,
            seed=job.seed,
            lanes=job.lanes,
            device=job.device,
            plan=self._asked,
            trace=self._trace,
        )
        return self._stack.enter_context(collector)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers."""
        self._stack.close()

    @property
    def over(self) -> bool:
        """Whether all steps have been played."""
        return self.env_steps >= self.job.n_env_steps_total

    @property
    def elapsed(self) -> float:
        """Seconds of the whole training, also of what was done before it was stopped."""
        return perf_counter() - self._began

    # -- the loop ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Goes on from the last checkpoint, or plays with random actions first."""
        state = None if self._checkpoints is None else self._checkpoints.load()
        if self._checkpoints is not None and state is not None:
            self._checkpoints.taken(partial(self._load, state))
            return
        count = self.job.num_init_rollouts_pool
        with self._measured("collect"):
            with self._for_random_actions() as collector:
                pool = collector.collect(count or _BASELINE, iteration=0)
            check_finite(pool)
            self.random = self._returns(pool)
            self.learner.see(pool)
            if count:
                self.rollouts, self.env_steps = count, pool.steps
        if self.over:
            self.notes.append(
                f"nothing was learned: {count} rollouts of random actions took {self.env_steps} steps already, and "
                f"n_env_steps_total={self.job.n_env_steps_total}: give fewer (num_init_rollouts_pool), or more steps"
            )
        self._evaluate()

    def _for_random_actions(self) -> Collector:
        job = self.job
        tasks, seed = dealt(job.world.train), seed_of(job.seed, "random actions")
        return Collector(job.world.mission, tasks=tasks, random_actions=True, seed=seed, plan=self._asked)

    def iterate(self) -> None:
        """Collects, learns, and is tried on unseen tasks if that is due."""
        job = self.job
        acting = self._weights(True) if self._acted is None else self._acted
        self.acting = {name: array for name, array in acting.items() if name != SAMPLED}
        played = self._next or self._collect(self.iteration + 1, acting)
        self._next, self._acted = None, self._weights(True) if job.lag else None
        steps = self._gradient_steps(played.steps)
        learning = self._learn(played, steps, 1.0 - self.env_steps / job.n_env_steps_total)
        self.env_steps += played.steps
        if self._acted is not None and not self.over:
            self._next = self._collect(self.iteration + 2, self._acted)
        figures = learning.result()
        self.iteration += 1
        self.rollouts += len(played)
        self.rl_steps += steps
        self.returns.append(self._returns(played))
        if self.over or self.iteration % job.log_interval == 0:
            self._evaluate()
        self._log(figures, played.steps)
        if self._checkpoints is not None and self._checkpoints.due:
            self.checkpoint()

    def _collect(self, iteration: int, weights: dict[str, Array]) -> Collection:
        with self._measured("collect"):
            played = self._collector.collect(self.job.num_rollouts_per_iter, weights=weights, iteration=iteration)
        check_finite(played)
        self.plan = played.plan
        self.notes += [note for note in played.notes if note not in self.notes]
        return played

    def _learn(self, played: Collection, steps: int, left: float) -> Future[dict[str, float]]:
        """An update: beside the next collection if there is a lag and workers collect, otherwise now."""

        def learn() -> dict[str, float]:
            with self._measured("update"):
                return self.learner.update(played, steps=steps, left=left)

        if self.job.lag and self.plan.backend != "inline":
            return self._beside.submit(learn)
        done: Future[dict[str, float]] = Future()
        done.set_result(learn())
        return done

    def _gradient_steps(self, env_steps: int) -> int:
        wanted = self.job.num_updates_per_iter
        return wanted if isinstance(wanted, int) else max(1, math.ceil(wanted * env_steps))

    def _weights(self, sampled: bool) -> dict[str, Array]:
        return {**self.learner.weights(), SAMPLED: np.array(sampled)}

    def _evaluate(self) -> None:
        """Plays unseen tasks with the likeliest actions."""
        tasks = self.job.world.unseen if self.over else self.job.world.unseen[:IN_BETWEEN]
        with self._measured("evaluate"):
            played = self._trials.evaluate(tasks, weights=self._weights(False), round_=self.iteration)
        check_finite(played)
        self.evaluations.append(Evaluation(self.iteration, self.env_steps, played.steps, self._returns(played)))

    def _returns(self, collection: Collection) -> Array:
        rows = [rollout.columns for rollout in collection]
        return np.array([inner_returns(each["observations"], each["rewards"], self.job.episodes) for each in rows])

    def _log(self, figures: dict[str, float], steps: int) -> None:
        mine, last = self.returns[-1], self.evaluations[-1]
        row: dict[str, float] = {
            "z/iteration": self.iteration,
            "z/env_steps": self.env_steps,
            "z/rollouts": self.rollouts,
            "z/rl_steps": self.rl_steps,
            "z/fps": self.env_steps / self.elapsed,
            "z/time_cost": self.elapsed,
            "metrics/return_train_total": float(mine.sum(1).mean()),
            **{f"metrics/return_train_episode_{place}": float(mean) for place, mean in enumerate(mine.mean(0), 1)},
            "metrics/total_steps_train": steps / len(mine),
            **{f"rl_loss/{name}": value for name, value in figures.items()},
        }
        if last.iteration == self.iteration:
            row |= last.figures()
        self.rows.append(row)

    @contextmanager
    def _measured(self, what: str) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += perf_counter() - begin

    # -- on disk and back --------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Saves the end."""
        self.checkpoint()

    def checkpoint(self) -> None:
        """Saves everything now, if there is a place for it."""
        if self._checkpoints is not None:
            begin = perf_counter()
            self._checkpoints.save(self._save(), begin)
            self.saved = self.iteration

    def _save(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _KEPT},
            "evaluations": [{each.name: getattr(one, each.name) for each in fields(one)} for one in self.evaluations],
            "plan": asdict(self.plan),
            "learner": self.learner.snapshot(),
            "acted": self._acted,
            "elapsed": self.elapsed,
        }

    def _load(self, state: dict[str, Any]) -> None:
        for name in _KEPT:
            if type(state[name]) is not type(getattr(self, name)):
                raise TypeError(f"{name} is a {type(state[name]).__name__}")
            setattr(self, name, state[name])
        self.learner.restore(state["learner"])
        self.evaluations, self.plan = [Evaluation(**one) for one in state["evaluations"]], Plan(**state["plan"])
        self._acted = state["acted"]  # what had been collected with it is collected again
        self._began, self.saved = perf_counter() - state["elapsed"], self.iteration


_KEPT = (
    "iteration",
    "env_steps",
    "rollouts",
    "rl_steps",
    "returns",
    "random",
    "rows",
    "seconds",
    "notes",
)
"""What a checkpoint holds beside the learner. Random streams are not among it: they follow from the iteration."""

Watcher = Callable[[Loop], None]
"""Is shown the loop after every iteration."""
