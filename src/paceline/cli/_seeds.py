"""What is asked of a training, and its seeds: one after another, or side by side, each in a process of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any, Self

from paceline.cli._running import plan_of
from paceline.engine import Plan, Pool
from paceline.errors import BadInput
from paceline.run import checked


@dataclass(frozen=True)
class AskedOfTraining:
    """What a training follows from, and what is kept of it.

    Attributes:
        settings: Keywords of the job.
        plan: Where it runs: a word.
        jobs: A number of workers, or "auto".
        seeds: How many seeds are trained; None: one, and its results are not those of several.
        tensorboard: Whether event files of TensorBoard are written.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    plan: str = "auto"
    jobs: str = "auto"
    seeds: int | None = None
    tensorboard: bool = False

    @property
    def place(self) -> Plan:
        """Where it runs."""
        return plan_of(self.plan, self.jobs, False)

    @property
    def numbers(self) -> range:
        """The seeds."""
        first = self.settings.get("seed", 0)
        return range(first, first + (self.seeds or 1))

    def of_seed(self, seed: int) -> Self:
        """The training of one of the seeds."""
        return replace(self, settings={**self.settings, "seed": seed}, seeds=None)


def check_names(settings: Mapping[str, Any], job: Callable[..., Any]) -> None:
    """Sees to it that settings are keywords of a job, and none of those that say how it is run; and what is read of
    them here, and names a world, is of its kind.

    Raises:
        BadInput: one is not.
    """
    if strange := sorted(settings.keys() - (signature(job).parameters.keys() - _NO_SETTINGS)):
        raise BadInput(f"{strange[0]!r} is no setting of a training")
    for name, kind in _KINDS.items():
        if name in settings:
            checked(name, kind, settings[name])


_KINDS = {"mission": str, "env": str, "seed": int}
_NO_SETTINGS = frozenset({"plan", "out", "resume", "trust", "trace", "watcher", "recorder", "asked"})

OfSeed = Callable[[Plan, Any, int], dict[str, Any]]
"""Plays a seed where a plan says, shows it to a watcher, and gives what came of it, as JSON has it."""


def each_seed(
    of_seed: OfSeed, seeds: Sequence[int], place: Plan, watcher: Callable[[int], Any]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Plays each seed; with workers asked for, seeds side by side, each in one process.

    Yields:
        A seed and what came of it, as seeds finish.

    Raises:
        Exception: what a seed has raised, with a note that names the seed.
    """
    if place.backend != "process" or (place.workers or 1) < 2:
        for seed in seeds:
            with _named(seed):
                result = of_seed(place, watcher(seed), seed)
            yield seed, result
        return
    workers = min(place.workers or 1, len(seeds))
    with Pool([], backend="process", workers=workers, deadline=math.inf) as pool:
        for index, outcome in pool.stream(partial(of_seed, Plan("inline", 1), None), seeds):
            with _named(seeds[index]):
                if outcome.error is not None:
                    raise outcome.error
            yield seeds[index], outcome.answer


@contextmanager
def _named(seed: int) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
