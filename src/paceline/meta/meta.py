"""`meta`: an agent that learns to learn, RL² or what it is compared with, on rollouts collected in parallel."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le

from paceline.checkpoints import Checkpoints
from paceline.engine import Plan, Trace, find_backend
from paceline.errors import BadInput, Diverged, attempt
from paceline.fingerprint import fingerprint, plain_text
from paceline.learning.row_policies import import_torch
from paceline.meta.result import WEIGHTS, MetaTraining, write_weights
from paceline.options import split
from paceline.records import Records, numbered, write_whole
from paceline.run import Count, Device, Directory, Says, Whole, checks_options
from paceline.team.device import find_device

if TYPE_CHECKING:  # they import torch
    from paceline.meta.loop import Job, Loop

ITERATIONS = 300
"""How many iterations there are where neither they nor steps are said."""

DIVERGED = "diverged.json"
"""In the directory of a run: that an update gave numbers that are not finite, and what to do."""

GradientSteps = Annotated[
    int | float, Gt(0), Says("a whole number of gradient steps, or how many for each env step, 0.01 say")
]
"""Gradient steps: a whole number for an iteration, a float for each env step."""

_EVALUATIONS = 10  # of a training, where no interval is said


@checks_options
def meta(
    env: Any,
    agent: Annotated[str, Says("memory, markov, memory_markov or oracle, with options")] = "memory",
    *,
    max_rollouts_per_task: Count = 2,
    num_train_tasks: Count | None = None,
    num_eval_tasks: Count | None = None,
    num_rollouts_per_iter: Count = 64,
    num_init_rollouts_pool: Whole = 64,
    n_env_steps_total: Annotated[float, Ge(1)] | None = None,
    num_iters: Count | None = None,
    num_updates_per_iter: GradientSteps = 16,
    log_interval: Count | None = None,
    ppo: Mapping[str, Any] | str | None = None,
    lag: Annotated[int, Ge(0), Le(1), Says("0 or 1: weights are at most one update behind")] = 0,
    seed: Whole = 0,
    lanes: Count = 32,
    device: Device = "cpu",
    plan: str | int | Plan = "auto",
    out: Directory | None = None,
    resume: bool = False,
    trust: bool = False,
    trace: Trace | None = None,
    watcher: Callable[[Any], None] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> MetaTraining:
    """Trains an agent on many tasks of a world, and tells what it gets on others.

    A rollout is several episodes of one task in a row. The result follows from the world, the agent, the seed and the
    numbers below. The plan says where rollouts are played, and changes no bit of it.

    Args:
        env: A world with tasks: its id, what makes it, or a `Mission`.
        agent: "memory" (RL²), "markov", "memory_markov" or "oracle", with options of its policy: "memory,cell=lstm".
        max_rollouts_per_task: How many episodes of a task a rollout has.
        num_train_tasks: How many train tasks the world has; None: each rollout's is drawn from the whole distribution.
        num_eval_tasks: How many tasks the agent is tried on that it has not learned on; None: 400, or all that the
            world has. A world that has none but those for learning is tried on these, in turn. Before the training
            ends, it is tried on 100 of them at most.
        num_rollouts_per_iter: How many rollouts an iteration collects.
        num_init_rollouts_pool: How many are played with random actions first. PPO learns from its own actions only: of
            these it takes how large rewards are, and they are what an agent must be better than.
        n_env_steps_total: After how many steps no further iteration begins; random actions count. None: as many as
            `num_iters` iterations of full length have.
        num_iters: As many steps as so many iterations of full length have; where episodes end early, there are more
            iterations. None: 300.
        num_updates_per_iter: A whole number: how many gradient steps follow an iteration; 0.01: one for each 100 steps.
        log_interval: After how many iterations the agent is tried on unseen tasks; None: ten times in all.
        ppo: How it learns: "lr=0.001,gamma=0.99", or a mapping; see `paceline.learning.SequencePPO`.
        lag: By how many updates the weights that collect are behind. With 1, workers collect while an update runs.
        seed: Root of everything random.
        lanes: Rows of a batch in which networks answer. Part of the result: another number gives other bits.
        device: Where networks are put: "auto", "cpu", "cuda" or "mps". Part of the result.
        plan: Where it runs: "auto", a backend, a number of workers (0: here), or a `Plan`. It changes no bit of the
            result.
        out: A directory for the results.
        resume: Whether to go on with what `out` holds.
        trust: With `resume`: whether what a user's own objects have left there, pickled, may be loaded though you have
            not written it there yourself. It can run anything.
        trace: Records where the time goes.
        watcher: Is shown the loop after every iteration.
        asked: What is kept in plan.json beside what the result follows from.

    Raises:
        BadInput: something makes no sense; found before anything is played.
        Diverged: an update gave numbers that are not finite; the message says what to do. Such a run does not go on.
        RolloutsFailed: some rollouts could not be played, or have numbers that are not finite.
    """
    place = Plan.parse(plan).not_of_a_vector()
    if place.backend != "auto":
        find_backend(place.backend)
    job = job_of(
        env,
        agent,
        ppo,
        max_rollouts_per_task=max_rollouts_per_task,
        num_train_tasks=num_train_tasks,
        num_eval_tasks=num_eval_tasks,
        num_rollouts_per_iter=num_rollouts_per_iter,
        num_init_rollouts_pool=num_init_rollouts_pool,
        n_env_steps_total=n_env_steps_total,
        num_iters=num_iters,
        num_updates_per_iter=num_updates_per_iter,
        log_interval=log_interval,
        lag=lag,
        seed=seed,
        lanes=lanes,
        device=device,
    )
    if resume and out is None:
        raise BadInput("resume=True: say with out= what directory to go on with")
    records = None if out is None else _records(job, Path(out), resume, asked or {})
    try:
        from paceline.meta.loop import Loop

        checkpoints = None if records is None else Checkpoints(records.path, trust)
        with Loop(job, place, checkpoints=checkpoints, trace=trace) as loop:
            try:
                _run(loop, records, watcher)
            except Diverged as error:
                raise _told(error, loop, out) from error
            training = _result(loop, out)
    finally:
        if records is not None:
            records.close()
    if out is not None:
        training.write(Path(out))
    return training


def job_of(env: Any, agent: str, ppo: Mapping[str, Any] | str | None, **given: Any) -> Job:
    """What a meta-training follows from.

    Args:
        env: As `meta` takes it.
        agent: As `meta` takes it.
        ppo: As `meta` takes it.
        given: The other keywords of `meta`, those of the place and of the directory excepted.

    Raises:
        BadInput: something makes no sense.
    """
    import_torch()
    from paceline.learning import SequenceLearner, SequencePPO
    from paceline.meta.agents import agent_of
    from paceline.meta.loop import Job
    from paceline.meta.tasks import world_of

    total = given["n_env_steps_total"]
    options = split(f"ppo,{ppo}")[1] if isinstance(ppo, str) else ppo
    settings = SequencePPO.read(options, "ppo")
    if "passes" in settings.model_fields_set:
        raise BadInput("ppo.passes has no effect here: num_updates_per_iter says how many gradient steps there are")
    asked, rollouts = settings.minibatches, given["num_rollouts_per_iter"]
    if "minibatches" in settings.model_fields_set and asked > rollouts:
        raise BadInput(f"ppo.minibatches={asked}: an iteration has {rollouts} rollouts, and each is in one minibatch")
    device = given["device"] if given["device"] == "cpu" else find_device(given["device"])
    found = agent_of(agent, given["seed"])
    episodes = given["max_rollouts_per_task"]
    world = world_of(env, episodes, found.oracle, given["num_train_tasks"], given["num_eval_tasks"], device)
    found.check(world.seat)
    attempt(lambda: SequenceLearner(found.build(world.seat), settings), f"agent {agent!r}")
    if total is not None and given["num_iters"] is not None:
        raise BadInput("n_env_steps_total and num_iters both say how long to train: give one of them")
    pool = given["num_init_rollouts_pool"]
    if total is None:
        total = world.steps * (pool + rollouts * (given["num_iters"] or ITERATIONS))
    total = math.ceil(total)
    iterations = math.ceil(max(0, total - pool * world.steps) / (rollouts * world.steps))
    return Job(
        world,
        found,
        settings,
        episodes=episodes,
        num_rollouts_per_iter=rollouts,
        num_init_rollouts_pool=pool,
        n_env_steps_total=total,
        num_updates_per_iter=given["num_updates_per_iter"],
        log_interval=given["log_interval"] or max(1, iterations // _EVALUATIONS),
        lag=given["lag"],
        seed=given["seed"],
        lanes=given["lanes"],
        device=device,
    )


def _told(error: Diverged, loop: Loop, out: Directory | None) -> Diverged:
    """An update that diverged, with what to do; in the directory of the run, so that it is not gone on with."""
    job, advice = loop.job, "Begin anew with a smaller learning rate"
    advice = f"{advice} (lr={job.settings.lr:g} in ppo), or a smaller clip ({job.settings.clip:g})"
    if out is not None:
        write_weights(Path(out), loop.acting)
        if not {"weights", "seed"} & set(split(job.agent.name)[1]):
            last = f"{job.agent.name},weights={Path(out).resolve() / WEIGHTS}"
            advice = f"{advice}; agent={last!r} begins with the last weights that were finite"
    message = f"{error}. {advice}"
    if out is not None:
        write_whole(Path(out) / DIVERGED, {"said": message})
    return Diverged(message)


def _check_not_diverged(path: Path) -> None:
    """A run whose update diverged would come to the same update, and to the same numbers.

    Raises:
        BadInput: it did.
    """
    try:
        said = json.loads((path / DIVERGED).read_text(encoding="utf-8"))["said"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError):
        said = "an update gave numbers that are not finite"
    raise BadInput(
        f"{path} cannot be gone on with, for it would come to the same again: {said}. On another machine, without "
        f"{path / DIVERGED}, it is tried all the same"
    )


def _records(job: Job, path: Path, resume: bool, asked: Mapping[str, Any]) -> Records:
    inner = job.world.mission.make.mission  # type: ignore[attr-defined]
    identity = {
        "job": "meta",
        "env": {
            "name": inner.name,
            "options": {name: plain_text(value) for name, value in inner.options.items()},
            "tasks": len(job.world.unseen),
        },
        "agent": job.agent.name,
        "ppo": job.settings.model_dump(mode="json"),
        **{name: getattr(job, name) for name in _IDENTITY},
    }
    recipes = {f"environment {inner.name!r}": fingerprint(inner.make)}
    if resume:
        _check_not_diverged(path)
    plan = {**asked, "identity": identity, "recipes": recipes}
    return Records(path, "progress.jsonl", plan, resume=resume, keep=numbered("z/iteration"))


_IDENTITY = (
    "episodes",
    "num_rollouts_per_iter",
    "num_init_rollouts_pool",
    "n_env_steps_total",
    "num_updates_per_iter",
    "log_interval",
    "lag",
    "seed",
    "lanes",
    "device",
)


def _run(loop: Loop, records: Records | None, watcher: Callable[[Loop], None] | None) -> None:
    known = {line["z/iteration"] for line in records.lines} if records is not None else set()

    def log(rows: Sequence[Mapping[str, float]]) -> None:
        for row in rows:
            if records is not None and row["z/iteration"] not in known:
                records.add(row)

    loop.begin()
    log(loop.rows)  # a checkpoint may hold an iteration after which the run was killed before its line was written
    while not loop.over:
        loop.iterate()
        log(loop.rows[-1:])
        if watcher is not None:
            watcher(loop)
    loop.finish()


def _result(loop: Loop, out: Directory | None) -> MetaTraining:
    job = loop.job
    returns = np.array(loop.returns, np.float64).reshape(-1, job.num_rollouts_per_iter, job.episodes)
    return MetaTraining(
        env=job.world.mission.name,
        agent=job.agent.name,
        seed=job.seed,
        weights=loop.learner.weights(),
        env_steps=loop.env_steps,
        rollouts=loop.rollouts,
        rl_steps=loop.rl_steps,
        returns=returns,
        random=loop.random,
        evaluations=loop.evaluations,
        rows=loop.rows,
        references=job.world.references,
        plan=loop.plan,
        seconds=loop.seconds,
        notes=loop.notes,
        out=None if out is None else str(out),
    )
