"""`train`: independent learners in one world, in parallel, asynchronous and reproducible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge

from paceline.checkpoints import Checkpoints
from paceline.engine import Plan, Trace, find_backend
from paceline.errors import BadInput
from paceline.fingerprint import Fingerprint, fingerprint, plain_text
from paceline.records import Records, numbered
from paceline.run import Count, Device, Directory, Says, Seconds, Whole, checks_options
from paceline.team.device import find_device
from paceline.train.banks import OneAgent
from paceline.train.given import mission_of, recipes_of
from paceline.train.job import Job, in_turns, shortened
from paceline.train.timetable import Timetable
from paceline.train.trainer import Recorder, Trainer
from paceline.train.training import Training
from paceline.train.updates import Updates
from paceline.types import Failure

_log = logging.getLogger("paceline")
Watcher = Callable[[Trainer], None]
"""Is shown the trainer after every epoch."""

Shares = Annotated[
    Mapping[str, Annotated[float, Ge(0)]], Says("a mapping from agents to shares of the updates, 0 or more each")
]
"""Agent → its share of the updates that are due; 1 where it is not named."""


@checks_options
def train(
    mission: Any,
    learners: Any = "dqn",
    *,
    epochs: Count,
    train_interval: Count = 1,
    updates_per_interval: Count = 1,
    warmup: Whole = 0,
    capacity: Count | None = None,
    lag: Whole = 0,
    worlds: Count = 1,
    turn: Literal["simultaneous", "ordered"] = "simultaneous",
    max_turns: Count | None = None,
    priority: Shares | None = None,
    on_failure: Literal["fail", "retry", "freeze"] = "fail",
    deadline: Seconds | None = None,
    free_running: bool = False,
    seed: Whole = 0,
    lanes: Count = 8,
    device: Device = "cpu",
    plan: str | int | Plan = "auto",
    out: Directory | None = None,
    resume: bool = False,
    trust: bool = False,
    trace: Trace | None = None,
    speculate: bool | None = None,
    watcher: Watcher | None = None,
    recorder: Recorder | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Training:
    """Trains independent learners: every agent has its own network, optimizer, rows and random streams.

    The result follows from the mission, the learners, the seed and the timetable. Networks learn on `device`, in one
    process, and act on the CPU. `Plan(agents="process")` has dear policies act in processes of their own. Learners of
    ours have a row for each world, whatever `lanes` says: it is for policies with `act_batch` that sit among them.

    Args:
        mission: The world: a name, a `Mission`, or what makes PettingZoo parallel environments.
        learners: A learner for every agent, or a mapping with one for each: "dqn" and "ppo" with options, or what makes
            objects with `act`, `learn`, `snapshot` and `restore` (see `roles.Learner`) for a seat. In a mapping also
            policies that do not learn.
        epochs: How many. An epoch is one reset of every world, and its turns.
        train_interval: After how many epochs updates are due.
        updates_per_interval: How many of each agent are due then.
        warmup: How many rows an agent must have before it is updated; what is due before is recorded as skipped.
        capacity: How many rows of each agent are kept; None: all.
        lag: By how many updates the weights that act are behind. With a lag learners work while the next epochs are
            played.
        worlds: How many worlds are played side by side, for the same agents.
        turn: "simultaneous": all agents move at once; "ordered": one after another, each sees what those before it did.
            That takes a PettingZoo AEC env, or the parallel form of one that has it as `aec_env`.
        max_turns: The most turns of an agent in an epoch; None: as many as the environment has.
        priority: Agent → its share of the updates; 1 where it is not named.
        on_failure: What is done if an update fails: "fail", "retry" once, or "freeze": go on with the last weights.
        deadline: Seconds that an update may take; None: as long as it likes.
        free_running: Agents act with the newest weights that are there when an epoch begins, whatever `lag` says. Then
            the result follows the clock, and says that it is not reproducible.
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
        speculate: Whether agents whose turns are ordered are answered ahead, on what they see as a turn begins, and
            asked again where that has changed. None: where it pays. It changes no bit of the result.
        watcher: Is shown the trainer after every epoch.
        recorder: Is given the number of each epoch and its tape, before a checkpoint says that it was played.
        asked: What is kept in plan.json beside what the result follows from.

    Raises:
        BadInput: something makes no sense; found before anything starts.
        Diverged: an update gave numbers that are not finite.
        Exception: what a learner or an environment raised.
    """
    place = Plan.parse(plan).not_of_a_vector()
    if place.backend != "auto":
        find_backend(place.backend)
    job = _job(
        mission,
        learners,
        Timetable(epochs, train_interval, updates_per_interval, lag, {} if priority is None else priority),
        warmup=warmup,
        capacity=capacity,
        worlds=worlds,
        turn=turn,
        max_turns=max_turns,
        free_running=free_running,
        seed=seed,
        lanes=lanes,
        device=device,
    )
    if speculate is not None and job.turn != "ordered":
        raise BadInput(f"speculate={speculate} is for agents that act one after another: give turn='ordered' with it")
    if resume and out is None:
        raise BadInput("resume=True: say with out= what directory to go on with")
    records = None if out is None else _records(job, Path(out), resume, asked or {}, on_failure)
    try:
        checkpoints = None if records is None else Checkpoints(records.path, trust)
        with Trainer(
            job,
            place,
            on_failure=on_failure,
            deadline=deadline,
            checkpoints=checkpoints,
            trace=trace,
            recorder=recorder,
            speculate=speculate,
        ) as trainer:
            _run(trainer, records, watcher)
            training = _result(trainer, out)
    finally:
        if records is not None:
            records.close()
    if out is not None:
        training.write(Path(out))
    return training


def _job(mission: Any, learners: Any, timetable: Timetable, *, max_turns: int | None, device: str, **given: Any) -> Job:
    device = device if device == "cpu" else find_device(device)
    world = in_turns(shortened(mission_of(mission), max_turns), given["turn"])
    recipes = recipes_of(learners, world, given["seed"], device, given["lanes"])
    job = Job(world, recipes, timetable, device=device, **given)
    _check(job)
    return job


def _check(job: Job) -> None:
    """What makes no sense together.

    Raises:
        BadInput: it does not.
    """
    from paceline.learning.specs import PPO

    table, rows = job.timetable, job.rows_per_epoch
    learning = [agent for recipe in job.recipes if recipe.learns for agent in recipe.agents]
    for agent in table.priority:
        if agent not in learning:
            raise BadInput(f"priority names {agent!r}, who does not learn; those who do are {', '.join(learning)}")
    if rows is not None:
        job.check_capacity(rows, learning)
    for recipe in job.recipes if table.lag or job.free_running else ():
        config = getattr(recipe.make, "config", None)
        if isinstance(config, PPO) and not config.accepts_lag:
            raise BadInput(
                f"lag={table.lag}, or free_running, with a learner that learns from its own actions only "
                f"({', '.join(recipe.agents)}): its rows would be of older weights; give lag=0, or say so with "
                "the option accepts_lag=true"
            )


def _records(job: Job, path: Path, resume: bool, asked: Mapping[str, Any], on_failure: str) -> Records:
    recipes: dict[str, Fingerprint] = {f"mission {job.mission.name!r}": fingerprint(job.mission.make)}
    for recipe in job.recipes:
        made = recipe.make.player.factory if isinstance(recipe.make, OneAgent) else recipe.make
        recipes[f"learner of {', '.join(recipe.agents)}"] = fingerprint(made)
    identity = {
        "job": "train",
        "mission": {
            "name": job.mission.name,
            "options": {name: plain_text(value) for name, value in job.mission.options.items()},
            "steps": job.mission.steps,
        },
        "epochs": job.timetable.epochs,
        "train_interval": job.timetable.train_interval,
        "updates_per_interval": job.timetable.updates_per_interval,
        "lag": job.timetable.lag,
        "priority": dict(job.timetable.priority),
        "warmup": job.warmup,
        "capacity": job.capacity,
        "worlds": job.worlds,
        "turn": job.turn,
        "free_running": job.free_running,
        "seed": job.seed,
        "lanes": job.lanes,
        "device": job.device,
        "on_failure": on_failure,
    }
    plan = {**asked, "identity": identity, "recipes": recipes}
    return Records(path, "epochs.jsonl", plan, resume=resume, keep=numbered("epoch"))


def _run(trainer: Trainer, records: Records | None, watcher: Watcher | None) -> None:
    known = {line["epoch"] for line in records.lines} if records is not None else set()
    job = trainer.job
    _log.info("%d epochs of %s, seed %d, agents %s", job.timetable.epochs, job.mission.name, job.seed, job.agents)
    for finding in trainer.findings:
        _log.warning("%s", finding)

    def record(epoch: int) -> None:
        if records is not None and epoch not in known:
            records.add({"epoch": epoch, "rewards": trainer.rewards[epoch]})

    trainer.begin()
    for epoch in range(trainer.epoch):  # one may have ended between a checkpoint and its line
        record(epoch)
    while trainer.epoch < trainer.job.timetable.epochs:
        trainer.play_epoch()
        record(trainer.epoch - 1)
        if watcher is not None:
            watcher(trainer)
    trainer.finish()


def _what_was_not_learned(job: Job, updates: Updates) -> list[str]:
    """Who is frozen; and that no update was due, if none was."""
    frozen = [f"agent {agent!r} is frozen: {_first_line(each)}" for agent, each in updates.frozen.items()]
    epochs, interval = job.timetable.epochs, job.timetable.train_interval
    none = f"no update was due: train_interval={interval} is more than the {epochs} epochs that were played"
    return frozen if updates.records or epochs >= interval else [*frozen, none]


def _first_line(failure: Failure) -> str:
    return failure.message.partition("\n")[0]


def _result(trainer: Trainer, out: Directory | None) -> Training:
    job, updates = trainer.job, trainer.updates
    agents = job.agents
    totals = [[[each[agent] for agent in agents] for each in epoch] for epoch in trainer.rewards]
    weights = {agent: updates.versions[agent][updates.done[agent]] for agent in updates.agents}
    order = {agent: place for place, agent in enumerate(agents)}
    return Training(
        agents,
        np.array(totals, np.float64).reshape(-1, job.worlds, len(agents)),
        sorted(updates.records, key=lambda update: (update.epoch, update.number, order[update.agent])),
        dict(sorted(weights.items(), key=lambda item: order[item[0]])),
        trainer.steps,
        trainer.rows,
        np.array([[each[agent] for agent in updates.agents] for each in trainer.lags], np.int64),
        dict(updates.frozen),
        trainer.places.plan,
        dict(trainer.phases.seconds),
        trainer.notes + _what_was_not_learned(job, updates),
        turn=job.turn,
        speculation=trainer.speculation,
        reproducible=not job.free_running,
        out=None if out is None else str(out),
    )
