"""What was collected, for people and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli._failures import own_frames
from paceline.cli._tables import console, number, numbers, table
from paceline.collect import Collection
from paceline.engine import Plan
from paceline.evaluate.report import plain
from paceline.evaluate.statistics import Summary, summarize

_SHOWN = 5


@dataclass
class Collected:
    """A collection, and what was done with it.

    Attributes:
        env: The environment, as it was written.
        collection: The rollouts.
        reused: Whether one environment served many rollouts.
        out: The directory that holds them, if any.
        verified: Rollout → whether it came out the same when it was played again.
        again: Where it was played again, in words.
    """

    env: str
    collection: Collection
    reused: bool = False
    out: Path | None = None
    verified: Mapping[int, bool] = field(default_factory=dict)
    again: str = ""

    @property
    def code(self) -> int:
        """The exit code."""
        if not all(self.verified.values()):
            return 1
        return 3 if self.collection.failures else 0

    def summaries(self) -> list[Summary]:
        """The returns of the first, second, … episode of the rollouts that did not fail."""
        returns = self.collection.returns
        return [summarize(column[~np.isnan(column)].tolist()) for column in returns.T]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the rows, ready for JSON."""
        collection, timing = self.collection, self.collection.timing
        content: dict[str, Any] = plain(
            {
                "digest": collection.digest,
                "env": self.env,
                "rollouts": len(collection),
                "failed": {index: f"{why.kind}: {why.message}" for index, why in collection.failures.items()},
                "steps": collection.steps,
                "returns": collection.returns.tolist(),
                "tasks": _plain_tasks(collection.tasks),
                "plan": _place(collection.plan),
                "notes": collection.notes,
                "timing": {
                    "wall": timing.wall,
                    "workers": timing.workers,
                    "utilisation": timing.utilisation,
                    "building": timing.building,
                    "environments": timing.environments,
                    "policy": timing.policy,
                    "slowest": {"rollout": timing.slowest[0], "seconds": timing.slowest[1]},
                    "median": timing.median,
                },
                "verified": self.verified,
                "out": None if self.out is None else str(self.out),
            }
        )
        return content


def _place(plan: Plan) -> dict[str, Any]:
    return {"backend": plan.backend, "workers": plan.workers, "agents": plan.agents or "worker", "why": plan.why}


def _plain_tasks(task: Any) -> Any:
    """Tasks as JSON has them: arrays as lists, and what it cannot hold as text."""
    if isinstance(task, np.ndarray | np.generic):
        return task.tolist()
    if isinstance(task, Mapping):
        return {str(name): _plain_tasks(part) for name, part in task.items()}
    if isinstance(task, list | tuple):
        return [_plain_tasks(part) for part in task]
    return task if task is None or isinstance(task, bool | int | float | str) else repr(task)


def show_collected(found: Collected) -> None:
    """Prints the returns, where the time went, what failed, and how to look further."""
    page, collection = console(), found.collection
    page.print(_returns(found))
    page.print()
    for note in collection.notes[:_SHOWN]:
        page.print(Text(f"note: {note}", style="dim"))
    _show_failures(page, found)
    _show_verified(page, found)
    for line in (_how(collection), *_pace(collection), *_building(found)):
        page.print(Text(line, style="dim"))
    if found.out is not None:
        page.print(Text(f"results: {found.out}", style="dim"))
    page.print(Text.assemble("digest:  ", (collection.digest, "bold")))


def _returns(found: Collected) -> Table:
    made = table("env", "episode", "rollouts", "return", "± 95 %", "std", "min", "max", "steps")
    lengths = _lengths(found.collection)
    for episode, summary in enumerate(found.summaries()):
        row = (found.env, str(episode + 1), str(summary.count), *numbers(summary), number(lengths[episode], 0))
        made.add_row(*row)
    return made


def _lengths(collection: Collection) -> list[float | None]:
    """The mean length of the first, second, … episode, in rows of an agent."""
    lengths: list[list[float]] = [[] for _ in range(collection.episodes)]
    for rollout in collection:
        for columns in rollout.agents.values():
            for episode, length in enumerate(np.diff(columns["ends"], prepend=-1).tolist()):
                lengths[episode].append(length)
    return [sum(mine) / len(mine) if mine else None for mine in lengths]


def _show_failures(page: Console, found: Collected) -> None:
    failures = found.collection.failures
    if not failures:
        return
    page.print(Text(f"{len(failures)} of {len(found.collection)} rollouts failed:", style="red"))
    for index, why in list(failures.items())[:_SHOWN]:
        page.print(Text(f"  rollout {index}: {why.kind}: {why.message}"))
    if len(failures) > _SHOWN:
        page.print(Text(f"  … and {len(failures) - _SHOWN} more"))
    first, why = next(iter(failures.items()))
    if frames := own_frames(why.traceback):
        page.print(Text(f"rollout {first}:\n{frames}", style="dim"))
    if found.out is not None:
        page.print(f"play it again: paceline rerun {shlex.quote(str(found.out))} {first}")


def _show_verified(page: Console, found: Collected) -> None:
    if not found.verified:
        return
    wrong = [index for index, same in found.verified.items() if not same]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        named = f"{', '.join(f'rollout {index}' for index in wrong[:_SHOWN])}{more}"
        page.print(Text(f"played again {found.again}, these came out differently: {named}", style="red"))
    else:
        page.print(f"verified: {len(found.verified)} rollouts played again {found.again} came out the same")


def _how(collection: Collection) -> str:
    plan, timing = collection.plan, collection.timing
    count = None if plan.backend == "inline" else timing.workers
    workers = f" on {count} worker{'s' if count > 1 else ''}" if count else ""
    played = f"{len(collection)} rollout{'s' if len(collection) != 1 else ''}, {collection.steps} steps"
    return f"{played} in {timing.wall:.1f} s, {plan.backend}{workers}: {plan.why}"


def _pace(collection: Collection) -> list[str]:
    """How busy the workers were, and how far the slowest rollout was behind the others."""
    timing = collection.timing
    if not timing.median:
        return []
    index, seconds = timing.slowest
    slowest = f"rollout {index} took longest, {seconds:.2f} s, {seconds / timing.median:.1f} times the median"
    return [f"workers played {timing.utilisation:.0%} of the time; {slowest}"]


def _building(found: Collected) -> list[str]:
    timing = found.collection.timing
    if not timing.building:
        return []
    share = timing.building / max(sum(timing.busy.values()), 1e-9)
    took = f"building environments took {timing.building:.2f} s, {share:.0%} of the playing"
    advice = f"`paceline doctor {found.env}` tells whether --reuse is safe"
    return [f"{took}: {'one serves many rollouts' if found.reused else f'each rollout has its own; {advice}'}"]
