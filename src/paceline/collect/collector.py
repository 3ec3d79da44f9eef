"""Collectors: rollouts for learners, iteration after iteration, with workers and weights that last.

rollouts ── chunks ──► Schedule: a copy of the policy in each worker, or here ──► recordings by index ──► Collection
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from paceline.collect.central import play_centrally
from paceline.collect.collection import Collection, Timing
from paceline.collect.given import Tasks, checked, mission_of, player_of, surveyed, task_of
from paceline.collect.jobs import Job, Spec
from paceline.collect.playing import Chunk, Interrupted, Played, play_chunk
from paceline.collect.store import Store, file_digests
from paceline.collect.task_sets import DrawnTasks, named_tasks
from paceline.engine import Plan, Pool, Published, Trace, check_sendable, current_budget, find_backend
from paceline.errors import BadInput, NotSendable, RolloutsFailed
from paceline.schedule import Note, Patience, Schedule, in_words
from paceline.seeds import Key, digest
from paceline.team.device import find_device
from paceline.types import Failure

Chunked = tuple[Job, ...]
Watcher = Callable[[int, int], None]
"""Told how many rollouts have been played, and of how many."""

FORWARDS = ("worker", "here")
_CHUNKS_PER_WORKER = 4  # so that a worker that is done early finds something to do


class Collector:
    """Collects rollouts, again and again, with the same workers.

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
        lanes: Rows of a forward pass, for row policies. Part of the result: another number gives other bits.
        device: Where networks are put.
        plan: Where rollouts are played; never what comes of them. `Plan(agents="here")` keeps the policy in this
            process and only the environments in workers; `agents="worker"` gives each worker a copy.
        pool: A pool whose workers play the rollouts, beside what its members do; the collector does not close it. It
            takes the place of a plan. None: the collector starts workers of its own.
        trace: Records where the time goes.
    """

    def __init__(
        self,
        env_fn: Any,
        policy: Any = None,
        *,
        tasks: Tasks | None = None,
        episodes: int = 1,
        horizon: int | None = None,
        random_actions: bool = False,
        reuse: bool = False,
        seed: int = 0,
        lanes: int = 8,
        device: str = "cpu",
        plan: str | int | Plan = "auto",
        pool: Pool | None = None,
        trace: Trace | None = None,
    ) -> None:
        checked(episodes=episodes, horizon=horizon, lanes=lanes)
        asked = Plan.parse(plan).not_of_a_vector() if pool is None else _plan_of(pool, plan)
        if asked.backend != "auto":
            find_backend(asked.backend)
        apart = asked.trust == "data"
        mission = mission_of(env_fn, horizon, apart=apart)
        player = player_of(policy, mission, random_actions, apart=apart)
        if isinstance(tasks, str):
            tasks = named_tasks(tasks, mission, apart=apart)
        spec = Spec(mission, player, episodes, seed, lanes, device if device == "cpu" else find_device(device))
        spec = replace(spec, first_task=task_of(tasks, 0, spec.task_stream(0, 0)))
        with Pool([], seed=seed, backend="process" if apart else "inline", trust=asked.trust) as trial:
            acts, reusable = trial.map(surveyed, [spec], deadline=math.inf)[0]
        player, mission = replace(player, acts=acts), replace(mission, reuse=mission.reuse or reuse or reusable)
        self._spec = replace(spec, player=player, mission=mission)
        self._tasks, self._trace, self._iteration = tasks, trace, 0
        self._forward, self._why = _forward_of(asked, self._spec)
        self._seen: dict[str, str] = {}  # digest of a task → whether rollouts were collected on it, or evaluated
        self._schedule: Schedule[Chunked, Chunk] = Schedule(
            partial(play_chunk, self._spec),
            _key,
            _lost,
            asked,
            seed,
            partial(_measured, self._spec),
            noun="rollout",
            pool=pool,
            trace=trace,
        )

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers."""
        self._schedule.close()
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

    def collect(
        self,
        rollouts: int,
        *,
        weights: Any = None,
        iteration: int | None = None,
        watcher: Watcher | None = None,
        indices: Sequence[int] | None = None,
        out: str | Path | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> Collection:
        """Plays rollouts, each once.

        Args:
            rollouts: How many.
            weights: What the policy's `load(version, weights)` is given first, in every worker; the version is the
                iteration. None: the policy plays as it was built, or with the weights of the last time.
            iteration: Which round this is; part of each rollout's identity. None: the one after the last.
            watcher: Is told how far it is.
            indices: Plays only these of the rollouts: one that has failed, say, alone.
            out: A directory for the run: what was asked, and the rollouts that have been played, also if it is
                interrupted or some fail. `Collection.load` reads them.
            about: Kept in the directory beside what is asked: JSON.

        Raises:
            RolloutsFailed: some could not be played; the others are in its `collection`, and in `out`.
            BadInput: a task has been used for evaluation before, or `out` holds a run.
        """
        checked(rollouts=rollouts)
        self._iteration = self._iteration + 1 if iteration is None else iteration
        jobs = self._jobs(self._iteration, range(rollouts) if indices is None else indices, self._tasks)
        self._check_leaks(jobs, "collected")
        store = None if out is None else Store(Path(out), self._spec, jobs, about or {})
        return self._play(jobs, self._iteration, weights, watcher, store)

    def evaluate(
        self, tasks: Sequence[Any], *, weights: Any = None, round_: int = 0, watcher: Watcher | None = None
    ) -> Collection:
        """Plays one rollout on each of these tasks, which no rollout has been, or may be, collected on.

        Args:
            tasks: The tasks.
            weights: As in `collect`.
            round_: Which evaluation this is; another one has other start states.
            watcher: Is told how far it is.

        Raises:
            RolloutsFailed: as in `collect`.
            BadInput: a rollout has been collected on one of the tasks.
        """
        name = f"evaluation {round_}"
        jobs = self._jobs(name, range(len(tasks)), list(tasks))
        self._check_leaks(jobs, "evaluated")
        return self._play(jobs, name, weights, watcher)

    def _jobs(self, iteration: int | str, indices: Sequence[int], tasks: Tasks | None) -> list[Job]:
        return [
            Job(iteration, index, task_of(tasks, index, self._spec.task_stream(iteration, index))) for index in indices
        ]

    def _check_leaks(self, jobs: Sequence[Job], how: str) -> None:
        for job in jobs:
            if job.task is not None:
                known = self._seen.setdefault(digest(dict(job.task.options)), how)
                if known != how:
                    raise BadInput(
                        f"the task of rollout {job.index}, {dict(job.task.options)!r:.80}, has been {known} on before: "
                        "tasks for evaluation must be others than those that rollouts are collected on"
                    )

    def _play(
        self,
        jobs: Sequence[Job],
        iteration: int | str,
        weights: Any,
        watcher: Watcher | None,
        store: Store | None = None,
    ) -> Collection:
        if weights is not None:
            version = iteration if isinstance(iteration, int) else -1
            travels = self._schedule.plan.backend == "ray"  # its workers may be on other machines
            player = replace(self._spec.player, weights=(version, weights if travels else Published(weights)))
            self._spec = replace(self._spec, player=player)
            self._schedule.play, self._schedule.measured = (
                partial(play_chunk, self._spec),
                partial(_measured, self._spec),
            )
        begin, done = perf_counter(), 0
        chunks: list[Chunk] = []
        try:
            for chunk in self._chunks(jobs):
                chunks.append(chunk)
                done += len(chunk.played)
                if watcher is not None:
                    watcher(done, len(jobs))
        except Interrupted as interrupt:
            chunks.append(Chunk(interrupt.played))
            if watcher is not None:
                watcher(done + len(interrupt.played), len(jobs))
            raise
        finally:  # also if it is interrupted
            collection = self._collected(jobs, iteration, chunks, perf_counter() - begin)
            if store is not None:
                store.write(collection)
        if collection.failures:
            raise RolloutsFailed(collection)
        return collection

    def _collected(
        self, jobs: Sequence[Job], iteration: int | str, chunks: Sequence[Chunk], seconds: float
    ) -> Collection:
        found = {each.index: each for chunk in chunks for each in chunk.played}
        jobs = [job for job in jobs if job.index in found]
        plan = self._schedule.plan if self._forward == "worker" else self._central_plan()
        return Collection(
            jobs,
            [found[job.index] for job in jobs],
            episodes=self._spec.episodes,
            iteration=iteration,
            plan=plan,
            timing=_timing(chunks, seconds, plan),
            notes=self._notes(chunks),
        )

    def _chunks(self, jobs: Sequence[Job]) -> Iterator[Chunk]:
        if self._forward == "here":
            yield from play_centrally(self._spec, jobs, self._schedule.plan, self._trace)
            return
        lost: list[Job] = []
        for chunk, result in self._schedule.run(self._cut(jobs)):
            if len(chunk) > 1 and any(each.failure is not None and each.failure.step < 0 for each in result.played):
                lost += chunk  # its worker was lost with it, again and again: find out with which of them
            else:
                yield result
        for _, result in self._schedule.run([(job,) for job in lost]):
            yield result

    def _cut(self, jobs: Sequence[Job]) -> list[Chunked]:
        """Chunks of whole rows of lanes, as many as keep the workers busy. Results do not depend on how it is cut."""
        rows = self._spec.lanes if self._spec.player.declares("act_batch") is not None else 1
        plan = self._schedule.plan
        workers = 1 if plan.backend == "inline" else plan.workers or current_budget().slots
        rows = max(1, min(rows, -(-len(jobs) // workers)))  # lanes that are not full keep more workers busy
        blocks = -(-len(jobs) // rows)
        size = rows * max(1, blocks // (_CHUNKS_PER_WORKER * workers))
        return [tuple(jobs[place : place + size]) for place in range(0, len(jobs), size)]

    def _central_plan(self) -> Plan:
        return replace(self._schedule.plan, agents="here", why=self._why)

    def _notes(self, chunks: Sequence[Chunk]) -> list[str]:
        notes: list[Note] = [*self._schedule.notes]
        self._schedule.notes = []
        if drawn := sorted({name for chunk in chunks for name in chunk.draws}):
            text = f"rollouts draw from {', '.join(drawn)}, which they share: they were played one at a time"
            notes.append(("draws", text))
        return list(dict(notes).values())


def collect(
    env_fn: Any,
    policy: Any = None,
    rollouts: int = 1,
    *,
    tasks: Tasks | None = None,
    episodes: int = 1,
    horizon: int | None = None,
    random_actions: bool = False,
    reuse: bool = False,
    seed: int = 0,
    lanes: int = 8,
    device: str = "cpu",
    plan: str | int | Plan = "auto",
    out: str | Path | None = None,
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
        lanes: Rows of a forward pass.
        device: Where networks are put.
        plan: Where rollouts are played.
        out: A directory for the run; see `Collector.collect`.
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


def _key(chunk: Chunked) -> Key:
    return ("chunk", chunk[0].key)


def _measured(spec: Spec, chunk: Chunked, patience: Patience) -> Chunk:
    return play_chunk(spec, chunk, patience)


def _lost(chunk: Chunked, error: BaseException) -> Chunk:
    failure = Failure.of(error, step=-1)
    failure = replace(failure, message=in_words(failure.message, "rollout"))
    return Chunk([Played(job.index, failure=failure) for job in chunk])


def _plan_of(pool: Pool, plan: str | int | Plan) -> Plan:
    """The plan of a pool whose workers play; what is asked beside it would be ignored."""
    if plan != "auto":
        raise BadInput(f"pool= and plan={plan!r}: the pool says where rollouts are played, so leave the plan out")
    return replace(pool.plan, agents="worker", why="the workers of the pool that was given")


def _forward_of(plan: Plan, spec: Spec) -> tuple[str, str]:
    """Where the policy computes, and why there.

    A copy in each worker needs no message per step, and forwards run beside each other. So the policy stays here only
    if it must: there is one device, or the policy cannot be sent.
    """
    if plan.agents not in (None, "auto", *FORWARDS):
        raise BadInput(f"agents={plan.agents!r}; rollouts are collected with the policy in the 'worker' or 'here'")
    if plan.agents in FORWARDS:
        return plan.agents, "as asked"
    if plan.backend == "inline" or plan.workers == 0:
        return "worker", "environments and policy are in one process"
    if not spec.device.startswith("cpu"):
        return "here", f"one process has the device {spec.device}: environments in workers, and the forward here"
    try:
        check_sendable(spec.player.factory)
    except NotSendable as error:
        return "here", f"{error}: the policy stays here"
    return "worker", "a copy of the policy in each worker needs no message per step"


def _timing(chunks: Sequence[Chunk], wall: float, plan: Plan) -> Timing:
    busy: dict[int, float] = {}
    for chunk in chunks:
        busy[chunk.worker] = busy.get(chunk.worker, 0.0) + chunk.seconds
    times = sorted((each.seconds, each.index) for chunk in chunks for each in chunk.played)
    slowest = (times[-1][1], times[-1][0]) if times else (0, 0.0)
    workers = 1 if plan.backend == "inline" else plan.workers or max(1, len(busy))
    middle = median(seconds for seconds, _ in times) if times else 0.0
    return Timing(wall, busy, sum(chunk.building for chunk in chunks), workers, slowest, middle)
