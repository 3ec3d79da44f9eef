"""`train`: independent learners in one world, in parallel, asynchronous and reproducible."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paceline.checkpoints import Checkpoints
from paceline.engine import Plan, Trace, find_backend
from paceline.errors import BadInput, check_seconds
from paceline.fingerprint import Fingerprint, fingerprint, plain_text
from paceline.records import Records, numbered
from paceline.team.device import find_device
from paceline.train.banks import OneAgent
from paceline.train.given import mission_of, recipes_of
from paceline.train.job import TURNS, Job, in_turns, shortened
from paceline.train.timetable import Timetable, whole
from paceline.train.trainer import Recorder, Trainer
from paceline.train.training import Training
from paceline.train.updates import ON_FAILURE, Updates
from paceline.types import Failure

_log = logging.getLogger("paceline")
_OR_NONE = ("capacity", "max_turns")  # None is as many as there are
Watcher = Callable[[Trainer], None]
"""Is shown the trainer after every epoch."""


def train(
    mission: Any,
    learners: Any = "dqn",
    *,
    epochs: int,
    train_interval: int = 1,
    updates_per_interval: int = 1,
    warmup: int = 0,
    capacity: int | None = None,
    lag: int = 0,
    worlds: int = 1,
    turn: str = "simultaneous",
    max_turns: int | None = None,
    priority: Mapping[str, float] | None = None,
    on_failure: str = "fail",
    deadline: float | None = None,
    free_running: bool = False,
    seed: int = 0,
    lanes: int = 8,
    device: str = "cpu",
    plan: str | int | Plan = "auto",
    out: str | Path | None = None,
    resume: bool = False,
    trust: bool = False,
    trace: Trace | None = None,
    speculate: bool | None = None,
    watcher: Watcher | None = None,
    recorder: Recorder | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Training:
    """Trains independent learners: every agent has its own network, optimizer, rows and random streams.

    The result follows from the mission, the learners, the seed and the timetable. The plan says where things run, and
    changes no bit of it.

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
        lanes: Rows of a batch in which policies with `act_batch` answer that sit among learners: part of the result.
            Learners of ours have a row for each world, whatever it says.
        device: Where networks learn, in one process; agents act on the CPU.
        plan: Where learners learn; `Plan(agents="process")` has dear policies act in processes of their own.
        out: A directory for results and checkpoints.
        resume: Whether to go on with what is in `out`.
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
    check_seconds("deadline", deadline)
    for name, flag in (("free_running", free_running), ("resume", resume), ("trust", trust)):
        if not isinstance(flag, bool):
            raise BadInput(f"{name}={flag!r} makes no sense; give True or False")
    if trace is not None and not isinstance(trace, Trace):
        raise BadInput(f"trace={trace!r:.60}: give a Trace(), and have it write(file) afterwards")
    if out is not None and not isinstance(out, str | os.PathLike):
        raise BadInput(f"out={out!r:.60} makes no sense; give a directory")
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
        on_failure=on_failure,
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


def _job(mission: Any, learners: Any, timetable: Timetable, **given: Any) -> Job:
    for name, least in (("warmup", 0), ("capacity", 1), ("worlds", 1), ("max_turns", 1), ("seed", 0), ("lanes", 1)):
        if given[name] is not None or name not in _OR_NONE:
            given[name] = whole(name, given[name], least)
    if given["turn"] not in TURNS:
        raise BadInput(f"turn={given['turn']!r}: give {' or '.join(TURNS)}")
    if given["on_failure"] not in ON_FAILURE:
        raise BadInput(f"on_failure={given['on_failure']!r}: give {', '.join(ON_FAILURE)}")
    device = given["device"] if given["device"] == "cpu" else find_device(given["device"])
    world = in_turns(shortened(mission_of(mission), given["max_turns"]), given["turn"])
    recipes = recipes_of(learners, world, given["seed"], device, given["lanes"])
    numbers = {name: given[name] for name in ("warmup", "capacity", "worlds", "turn", "free_running", "seed", "lanes")}
    job = Job(world, recipes, timetable, device=device, **numbers)
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


def _result(trainer: Trainer, out: str | Path | None) -> Training:
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
