"""Collectors: rollouts for learners, iteration after iteration, with workers and weights that last.

tasks, identities ── rollouts ──► Places: where they are played ── recordings by index ──► Collection
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any

from paceline.collect.collection import Collection, timing_of
from paceline.collect.given import (
    Tasks,
    checked_tasks,
    dealt,
    is_listed,
    mission_of,
    player_of,
    rollouts_of,
    surveyed,
    task_of,
)
from paceline.collect.jobs import Job, Spec
from paceline.collect.leaks import Leaks
from paceline.collect.notes import notes_on
from paceline.collect.places import Places, forward_of
from paceline.collect.playing import Chunk, Interrupted
from paceline.collect.store import Store, file_digests
from paceline.collect.task_sets import DRAW, DrawnTasks, named_tasks
from paceline.engine import Plan, Pool, Published, Trace, find_backend
from paceline.errors import BadInput, Closed, NotKept, RolloutsFailed
from paceline.lasting import LASTING
from paceline.run import Count, Device, Directory, Whole, checks_options
from paceline.team.device import find_device

Watcher = Callable[[int, int], None]
"""Told how many rollouts have been played, and of how many."""


class Collector:
    """Collects rollouts, again and again, with the same workers.

    `Plan(agents="here")` keeps the policy in this process and only the environments in workers;
    `Plan(agents="worker")` gives each worker a copy.

    Args:
        env_fn: Makes an environment: a function, a class, a name such as "gym:CartPole-v1", or a `Mission`.
        policy: What plays: a plain function `obs -> action`, a policy or a factory of policies, a row policy, a name;
            "markov", "memory" and "memory_markov" are those of `paceline.learning`.
        tasks: What each rollout is asked to set up: a sequence, dealt in order; a function of a
            `numpy.random.Generator`, which is the rollout's own; of a world that has sets of tasks, "train", "eval", or
            "draw" for its whole distribution; None: as the environment comes.
        episodes: How many episodes of its task a rollout has; a policy with a memory keeps it from one to the next.
        horizon: The most steps of an episode; None: as long as the environment lets it.
        random_actions: Actions are drawn from the action space, and no policy is asked.
        reuse: Whether `reset` makes an environment as new, so that one serves many rollouts. `paceline doctor` tells.
        seed: Root of everything random.
        lanes: Rows of a batch in which networks answer. Part of the result: another number gives other bits.
        device: Where networks are put: "auto", "cpu", "cuda" or "mps". Part of the result.
        plan: Where it runs: "auto", a backend, a number of workers (0: here), or a `Plan`. It changes no bit of the
            result.
        pool: A pool whose workers play the rollouts, beside what its members do; the collector does not close it. It
            takes the place of a plan. None: the collector starts workers of its own.
        trace: Records where the time goes.
    """

    @checks_options
    def __init__(
        self,
        env_fn: Any,
        policy: Any = None,
        *,
        tasks: Tasks | None = None,
        episodes: Count = 1,
        horizon: Count | None = None,
        random_actions: bool = False,
        reuse: bool = False,
        seed: Whole = 0,
        lanes: Count = 8,
        device: Device = "cpu",
        plan: str | int | Plan = "auto",
        pool: Pool | None = None,
        trace: Trace | None = None,
    ) -> None:
        asked = Plan.parse(plan).not_of_a_vector() if pool is None else _plan_of(pool, plan)
        if asked.backend != "auto":
            find_backend(asked.backend)
        apart = asked.trust == "data"
        mission = mission_of(env_fn, horizon, apart=apart)
        player = player_of(policy, mission, random_actions, apart=apart)
        if isinstance(tasks, str):
            tasks = named_tasks(tasks, mission, asked)
        checked_tasks(tasks)
        spec = Spec(mission, player, episodes, seed, lanes, device if device == "cpu" else find_device(device))
        spec = replace(spec, first_task=task_of(tasks, 0, partial(spec.task_stream, 0, 0)))
        is_default = policy is None and not random_actions
        policy_here = forward_of(asked, spec)[0] == "here"
        acts, reusable, seats, same_task = surveyed(spec, asked, policy_here=policy_here, is_default=is_default)
        player, mission = replace(player, acts=acts), replace(mission, reuse=mission.reuse or reuse or reusable)
        self._spec = replace(spec, player=player, mission=mission, seats=seats)
        self._tasks, self._iteration = tasks, 0
        self.leaks = Leaks(same_task)
        """What each task has been used for."""
        self._is_closed = False
        self._turn = Lock()
        self._places = Places(self._spec, asked, pool, trace)
        LASTING.begin_anew()

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers. May be called again."""
        self._is_closed = True
        self._places.close()
        if isinstance(self._tasks, DrawnTasks):
            self._tasks.close()

    @property
    def reuses(self) -> bool:
        """Whether one environment serves many rollouts: it was said, or the environment declares it."""
        return self._spec.mission.reuse

    @property
    def files(self) -> dict[str, str]:
        """The files of environment and policy, each named by whose it is, with the SHA-256 of its content."""
        return file_digests(self._spec)

    @checks_options
    def collect(
        self,
        rollouts: Count,
        *,
        weights: Any = None,
        iteration: Whole | None = None,
        watcher: Watcher | None = None,
        indices: Sequence[int] | None = None,
        out: Directory | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Collection:
        """Plays rollouts, each once.

        Args:
            rollouts: How many.
            weights: What the policy's `load(version, weights)` is given first, in every worker; the version is the
                iteration. None: the policy plays as it was built, or with the weights of the last time that at least
                one rollout could be played with them.
            iteration: Which round this is; part of each rollout's identity. None: the one after the last.
            watcher: Is told how far it is.
            indices: Plays only these of the rollouts: one that has failed, say, alone.
            out: A directory for the run: what was asked, and the rollouts that have been played, also if it is
                interrupted or some fail. `Collection.load` reads them.
            about: Kept in the directory beside what is asked: JSON.

        Raises:
            RolloutsFailed: some could not be played; the others are in its `collection`, and in `out`.
            BadInput: a task has been used for evaluation before, `out` holds a run, a number makes no sense, or the
                collector is playing already.
            Closed: the collector has been closed.
        """
        chosen = rollouts_of(rollouts, indices)
        with self._its_turn():
            self._iteration = self._iteration + 1 if iteration is None else iteration
            jobs = self._jobs(self._iteration, chosen, self._tasks)
            self.leaks.check(jobs, "collected")
            store = None if out is None else Store(Path(out), self._spec, jobs, about or {})
            return self._play(jobs, self._iteration, weights, watcher, store)

    def evaluate(
        self, tasks: Sequence[Any] | str, *, weights: Any = None, round_: int = 0, watcher: Watcher | None = None
    ) -> Collection:
        """Plays one rollout on each of these tasks, which no rollout has been, or may be, collected on.

        Args:
            tasks: The tasks; or "train" or "eval", of a world that has such sets.
            weights: As in `collect`.
            round_: Which evaluation this is; another one has other start states.
            watcher: Is told how far it is.

        Raises:
            RolloutsFailed: as in `collect`.
            BadInput: a rollout has been collected on one of the tasks, they are no list, or the collector is playing
                already.
            Closed: the collector has been closed.
        """
        if isinstance(tasks, str) and tasks != DRAW:
            tasks = named_tasks(tasks, self._spec.mission, self._places.plan)
        if isinstance(tasks, str) or not is_listed(tasks):
            raise BadInput(f"evaluate(tasks={tasks!r:.60}): give a list of tasks, or 'train' or 'eval'")
        name = f"evaluation {round_}"
        with self._its_turn():
            jobs = self._jobs(name, range(len(tasks)), list(tasks))
            self.leaks.check(jobs, "evaluated")
            return self._play(jobs, name, weights, watcher)

    @contextmanager
    def _its_turn(self) -> Iterator[None]:
        """Plays one call at a time: two would share workers, weights, and the count of iterations."""
        if self._is_closed:
            raise Closed("the collector has been closed: collect before that, or make another one")
        if not self._turn.acquire(blocking=False):
            raise BadInput(
                "this collector is playing rollouts already, for another thread or for the caller of this watcher: "
                "wait until they have been played, or make another collector"
            )
        try:
            yield
        finally:
            self._turn.release()

    def _jobs(self, iteration: int | str, indices: Sequence[int], tasks: Tasks | None) -> list[Job]:
        drawn = dealt(tasks, self._spec, iteration, indices)
        return [Job(iteration, index, task) for index, task in zip(indices, drawn, strict=True)]

    def _play(
        self,
        jobs: Sequence[Job],
        iteration: int | str,
        weights: Any,
        watcher: Watcher | None,
        store: Store | None = None,
    ) -> Collection:
        before = self._spec
        if weights is not None:
            version = iteration if isinstance(iteration, int) else -1
            travels = self._places.plan.backend == "ray"  # its workers may be on other machines
            player = replace(self._spec.player, weights=(version, weights if travels else Published(weights)))
            self._places.spec = self._spec = replace(self._spec, player=player)
        begin, done = perf_counter(), 0
        chunks: list[Chunk] = []
        try:
            for chunk in self._places.play(jobs):
                chunks.append(chunk)
                done += len(chunk.played)
                if watcher is not None:
                    watcher(done, len(jobs))
        except Interrupted as interrupt:
            chunks.append(Chunk(interrupt.played))
            if watcher is not None:
                watcher(done + len(interrupt.played), len(jobs))
            raise KeyboardInterrupt from None  # a subclass would end a script with another exit code
        finally:  # also if it is interrupted
            collection = self._collected(jobs, iteration, chunks, perf_counter() - begin)
            if store is not None:
                try:
                    store.write(collection)
                except NotKept as error:
                    error.results = collection
                    raise
        if collection.failures:
            if len(collection.failures) == len(jobs):  # it may be the weights: those before are used again
                self._places.spec = self._spec = before
            raise RolloutsFailed(collection)
        return collection

    def _collected(
        self, jobs: Sequence[Job], iteration: int | str, chunks: Sequence[Chunk], seconds: float
    ) -> Collection:
        found = {each.index: each for chunk in chunks for each in chunk.played}
        jobs = [job for job in jobs if job.index in found]
        return Collection(
            jobs,
            [found[job.index] for job in jobs],
            episodes=self._spec.episodes,
            iteration=iteration,
            plan=self._places.plan,
            timing=timing_of(chunks, seconds, self._places.plan),
            notes=list(dict([*self._places.notes(), *notes_on(chunks)]).values()),
        )


@checks_options
def collect(
    env_fn: Any,
    policy: Any = None,
    rollouts: Count = 1,
    *,
    tasks: Tasks | None = None,
    episodes: Count = 1,
    horizon: Count | None = None,
    random_actions: bool = False,
    reuse: bool = False,
    seed: Whole = 0,
    lanes: Count = 8,
    device: Device = "cpu",
    plan: str | int | Plan = "auto",
    out: Directory | None = None,
    trace: Trace | None = None,
) -> Collection:
    """Collects rollouts once; see `Collector` for the arguments, and for iterations.

    Args:
        env_fn: Makes an environment.
        policy: What plays.
        rollouts: How many.
        tasks: What each rollout is asked to set up.
        episodes: How many episodes of its task a rollout has.
        horizon: The most steps of an episode.
        random_actions: Actions are drawn from the action space.
        reuse: Whether `reset` makes an environment as new.
        seed: Root of everything random.
        lanes: Rows of a batch in which networks answer. Part of the result: another number gives other bits.
        device: Where networks are put: "auto", "cpu", "cuda" or "mps". Part of the result.
        plan: Where it runs: "auto", a backend, a number of workers (0: here), or a `Plan`. It changes no bit of the
            result.
        out: A directory for the results.
        trace: Records where the time goes.

    Raises:
        RolloutsFailed: some could not be played; the others are in its `collection`, and in `out`.
    """
    with Collector(
        env_fn,
        policy,
        tasks=tasks,
        episodes=episodes,
        horizon=horizon,
        random_actions=random_actions,
        reuse=reuse,
        seed=seed,
        lanes=lanes,
        device=device,
        plan=plan,
        trace=trace,
    ) as collector:
        return collector.collect(rollouts, iteration=0, out=out)


def _plan_of(pool: Pool, plan: str | int | Plan) -> Plan:
    """The plan of a pool whose workers play; what is asked beside it would be ignored."""
    if plan != "auto":
        raise BadInput(f"pool= and plan={plan!r}: the pool says where rollouts are played, so leave the plan out")
    return replace(pool.plan, agents="worker", why="the workers of the pool that was given")
