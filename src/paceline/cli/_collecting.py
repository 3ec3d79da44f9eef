"""What `collect` is asked, kept in plan.json so that `rerun` can ask the same again; and its verification.

what is given ──► Asked ──► Collector ──► rollouts ── --verify: elsewhere, policy in the other place ──► the same?
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.cli._resuming import validated
from paceline.collect import Collection, Collector, Recording
from paceline.collect.task_sets import TASK_WORDS
from paceline.engine import Plan, Trace
from paceline.errors import BadInput, CallTimeout, RolloutsFailed, WorkerLost

_KEPT = "collect"  # not "asked" or "command": those are what `eval` and `rollout` can go on with
_ROLLOUTS = 10  # if neither a number nor tasks are given
_VERIFIERS = 2  # workers that play again what was played in one process


@dataclass
class Asked:
    """What rollouts follow from, as it was written on the command line."""

    env: str
    policy: str | None = None
    rollouts: int | None = None
    tasks: str | None = None
    episodes: int = 1
    horizon: int | None = None
    random: bool = False
    reuse: bool = False
    seed: int = 0
    lanes: int = 8
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.random and self.policy is not None:
            raise BadInput("-p and --random both say what plays: give one of them")

    def count(self) -> int:
        """How many rollouts there are: one per task if tasks are listed and no number is given."""
        if self.rollouts is not None:
            return self.rollouts
        tasks = self._tasks()
        return len(tasks) if isinstance(tasks, list) else _ROLLOUTS

    def collector(self, plan: Plan, trace: Trace | None = None) -> Collector:
        """What collects them."""
        return Collector(
            self.env,
            self.policy,
            tasks=self._tasks(),
            episodes=self.episodes,
            horizon=self.horizon,
            random_actions=self.random,
            reuse=self.reuse,
            seed=self.seed,
            lanes=self.lanes,
            device=self.device,
            plan=plan,
            trace=trace,
        )

    def about(self) -> dict[str, Any]:
        """For plan.json. Tasks of a file are written down themselves: it may be another one later."""
        tasks = self._tasks()
        written = json.dumps(tasks) if isinstance(tasks, list) else tasks
        return {_KEPT: {**asdict(self), "tasks": written, "rollouts": self.count()}, "directory": os.getcwd()}

    def _tasks(self) -> Any:
        if self.tasks is None or self.tasks in TASK_WORDS:
            return self.tasks
        path = Path(self.tasks)
        if path.suffix == ".json" or os.path.isfile(self.tasks):
            return _listed(_read(path), f"{path} holds")
        text = self.tasks.strip()
        return _listed(text if text.startswith("[") else f"[{text}]", f"--tasks {self.tasks} is")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"--tasks {path} cannot be read ({why}; looked in {Path.cwd()})") from None


def _listed(text: str, what: str) -> list[Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not found:
        raise BadInput(
            f"{what} no list of tasks: give {', '.join(TASK_WORDS)}, numbers (0.5,-0.5), a JSON list, or a JSON file "
            "with one"
        )
    return found


def asked_before(run: Path, plan: Mapping[str, Any], home: Path) -> Asked:
    """What a run on disk was asked, by its plan. Files are found from `home`.

    Raises:
        BadInput: it was not begun from the command line.
    """
    known, directory = plan.get(_KEPT), plan.get("directory")
    if not isinstance(known, dict) or not isinstance(directory, str):
        raise BadInput(
            f"{run} was not begun by `paceline collect`, so it cannot be played again here; in Python: "
            "Collector(…).collect(n, iteration=0, indices=[k])"
        )
    os.chdir(home)
    return validated(Asked, known, run)


def played_again(collector: Collector, count: int, indices: Sequence[int]) -> Collection:
    """Plays some of the rollouts again; those that fail are among them, with their failures."""
    try:
        return collector.collect(count, iteration=0, indices=indices)
    except RolloutsFailed as error:
        again: Collection = error.collection
        return again


def replayed(asked: Asked, before: Recording) -> tuple[Recording, dict[str, str]]:
    """One rollout, played alone; and the digests of the files that it follows from.

    It is played in this process, so that a debugger sees it, unless its worker was lost with it.
    """
    lost = before.failure is not None and before.failure.kind in (WorkerLost.__name__, CallTimeout.__name__)
    with asked.collector(Plan("process" if lost else "inline", 1)) as collector:
        return played_again(collector, asked.count(), [before.index])[0], collector.files


def elsewhere(plan: Plan) -> Plan:
    """Where rollouts are played again: on workers if they were played here and here if not, with the policy in the
    other place. What may not be loaded in this process stays in workers, another number of them."""
    if plan.trust == "data":
        return Plan("process", (plan.workers or 1) + 1, trust="data")
    agents = "worker" if plan.agents == "here" else "here"
    return Plan("process", _VERIFIERS, agents=agents) if plan.backend == "inline" else Plan("inline", 1, agents=agents)


def in_words(plan: Plan) -> str:
    """A place that `elsewhere` gives."""
    if plan.backend == "inline":
        return "here"
    policy = "the policy in this process" if plan.agents == "here" else "a copy of the policy in each"
    return f"on {plan.workers} workers ({policy})"


def verified(asked: Asked, collection: Collection, plan: Plan) -> dict[int, bool]:
    """Plays again what did not fail, elsewhere. Returns whether each rollout came out the same."""
    # Not those that failed: what has killed a worker would kill this process.
    good = [rollout for rollout in collection if rollout.failure is None]
    if not good:
        return {}
    with asked.collector(plan) as collector:
        again = played_again(collector, asked.count(), [rollout.index for rollout in good])
    return {one.index: one.digest == two.digest for one, two in zip(good, again, strict=True)}
