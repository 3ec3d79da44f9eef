"""Schedule: whole rollouts over workers, from one budget; results as they come.

    items ── auto: the first ones here, to see what they take ──► here, or a Pool of workers ──► (item, result)

What an item is, an episode of an evaluation or a rollout of a collection, is the job's to say. A result follows from
its item alone, so it is the same wherever it is played.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, tee
from time import perf_counter
from typing import Any, Generic, TypeVar

from paceline.engine import (
    TWO_CORES_ARE_NOT_TWICE_ONE,
    WAITS_BELOW,
    Outcome,
    Plan,
    Pool,
    Trace,
    check_sendable,
    current_budget,
    wanted_cpu,
)
from paceline.errors import NotData, NotSendable
from paceline.rollout import Acts
from paceline.seeds import Key
from paceline.types import Step

Item = TypeVar("Item")
Result = TypeVar("Result")

Note = tuple[str, str]
"""A topic, and what there is to tell of it: once per topic is enough."""

_LOOK = 0.1  # seconds of items that auto plays here before it decides
_LOOK_AT = 4096  # … and no more items than that
STARTING = 0.3
"""Seconds that workers take to be of use: start, imports, first build."""

WAITERS_PER_SLOT = 4
"""How many workers share a CPU slot where most of the time is waiting."""


class TooLong(Exception):
    """An item was given up because it takes longer than the schedule waits for it here."""


class Patience:
    """How long the schedule waits for items here, and how long it has been.

    The clock starts when the first action has been given: to import, to load and to warm up is done once, and says
    nothing of what the next item takes.

    Args:
        seconds: How long.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: tuple[float, float] | None = None

    @classmethod
    def for_one_of(cls, items: int) -> Patience:
        """For the first of so many items: the fewer there are, the less is lost by waiting."""
        return cls(max(0.25, 1.0 / items))

    def begin(self) -> None:
        """An action has been given: from now on, if it was the first."""
        if self._since is None:
            self._since = perf_counter(), wanted_cpu()

    @property
    def wall(self) -> float:
        """Seconds since then."""
        return 0.0 if self._since is None else perf_counter() - self._since[0]

    @property
    def cpu(self) -> float:
        """Seconds since then in which this thread computed, or wanted to."""
        return 0.0 if self._since is None else wanted_cpu() - self._since[1]

    @property
    def over(self) -> bool:
        """Whether it has been too long."""
        return self.wall > self._seconds


class Impatient:
    """A team that gives up when patience is over."""

    def __init__(self, team: Acts, patience: Patience) -> None:
        self._team, self._patience = team, patience

    @property
    def extras(self) -> Mapping[Any, Mapping[str, Any]]:
        """As the team has them."""
        return self._team.extras

    def act(self, observations: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Asks the team.

        Raises:
            TooLong: patience is over.
        """
        if self._patience.over:
            raise TooLong
        actions = self._team.act(observations)
        self._patience.begin()
        return actions

    def tell(self, step: Step) -> None:
        """Hands the outcome on."""
        self._team.tell(step)


@dataclass
class Schedule(Generic[Item, Result]):
    """Plays items where the plan says. Workers that it has started serve until it is closed.

    Attributes:
        play: Plays one item; sent to workers with what it holds.
        key: Who an item is; what is drawn from process-wide generators follows from this.
        lost: The result of an item whose worker was lost with it, or that raised.
        plan: Where; after an auto plan has decided, what it decided and why.
        seed: Root of the items' random streams.
        measured: The same as `play`, but raises `TooLong` when patience is over; asked where auto measures.
        noun: What an item is called in sentences.
        waves: Cuts the items into waves: those of one are played side by side, waves one after another.
        width: How many items there are in a wave, at the most.
        is_result: Whether an answer is the result of an item; asked where only data is trusted.
        deadline: Seconds that an item may take before its worker is killed; None: as long as it likes.
        restarts: How often an item that kills its worker is tried.
        trace: Records where the time goes.
        here: A pool of this process whose store outlives the schedule; None: it opens one of its own.
        pool: A pool whose workers play, beside what its members do; None: it starts workers of its own.
        notes: What happened to workers.
    """

    play: Callable[[Item], Result]
    key: Callable[[Item], Key]
    lost: Callable[[Item, BaseException], Result]
    plan: Plan
    seed: int = 0
    measured: Callable[[Item, Patience], Result] | None = None
    noun: str = "episode"
    waves: Callable[[Iterable[Item]], Iterable[Iterable[Item]]] = lambda items: [items]
    width: float = math.inf
    is_result: Callable[[Item, Any], bool] = lambda item, answer: True
    deadline: float | None = None
    restarts: int = 3
    trace: Trace | None = None
    here: Pool | None = None
    pool: Pool | None = None
    notes: list[Note] = field(default_factory=list)
    _own: ExitStack = field(default_factory=ExitStack, repr=False)
    _pool: Pool | None = None
    _count: int = 0
    _foregone: float = 0.0  # seconds that workers would have gained in earlier runs, had they been there

    def __post_init__(self) -> None:
        self._asked = self.plan

    def __enter__(self) -> Schedule[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers."""
        self._own.close()
        self._pool = None

    def run(self, items: Iterable[Item], most: int) -> Iterator[tuple[Item, Result]]:
        """Plays all of them; gives each when it has ended. An auto plan decides anew until there are workers.

        Args:
            items: The items, wave after wave; each is made when it is about to be played.
            most: How many there are, at the most.
        """
        items = iter(items)
        if self._asked.backend == "auto" and self._pool is None and most:
            self.plan = self._asked
            plan = self.plan_unmeasured(int(min(self.width, most)))
            if plan is None:
                patience, took = Patience.for_one_of(most), list[float]()
                first = list(islice(items, _LOOK_AT))
                looked = len(first)
                yield from self.begin_here(first, patience, took)
                items, done = chain(first, items), looked - len(first)
                plan = self._decide(patience, took, done, most - done)
            self.plan = plan
        yield from self.run_as_planned(items, most)

    def run_as_planned(self, items: Iterable[Item], most: int) -> Iterator[tuple[Item, Result]]:
        """Plays all of them where `plan` says, which is not auto; gives each when it has ended."""
        for wave in self.waves(items):
            yield from self.run_lazily(wave, most)

    def run_lazily(self, items: Iterable[Item], most: int) -> Iterator[tuple[Item, Result]]:
        """The same for items that are made while others are played.

        Args:
            items: The items, each made when a worker is free for it.
            most: How many there are, at the most.
        """
        if not most:
            return
        pool = self._pool_here() if self.plan.backend == "inline" else self._workers(most)
        deadline, seen = self.deadline or math.inf, len(pool.events)
        made, named = tee(items)
        begun = dict[int, Item]()
        try:
            numbered = (begun.setdefault(number, item) for number, item in enumerate(made))
            for number, outcome in pool.stream(self.play, numbered, keys=map(self.key, named), deadline=deadline):
                item = begun.pop(number)
                yield item, self._result(item, outcome)
        finally:  # also if the rest is not wanted
            texts = [in_words(event.text, self.noun) for event in pool.events[seen:]]
            self.notes += [(text, text) for text in texts]

    def begin_here(self, left: list[Item], patience: Patience, took: list[float]) -> Iterator[tuple[Item, Result]]:
        """Plays the first items here, until it is known what they take. Gives each when it has ended.

        Args:
            left: The items; those that have been played are taken out.
            patience: How long it is waited for them.
            took: Gets the seconds that each took.
        """
        for played in self._here_until(self._pool_here(), left, patience, took):
            yield played
            if patience.wall > _LOOK:
                return

    def _pool_here(self) -> Pool:
        if self.here is None:
            self.here = self._own.enter_context(Pool([], seed=self.seed, trace=self.trace))
        return self.here

    def plan_unmeasured(self, width: int) -> Plan | None:
        """The plan where there is nothing to measure; None: there is.

        Args:
            width: How many items can be played side by side.
        """
        slots = current_budget().workers_for(max(1, width))
        if self.plan.workers is not None or self.plan.isolate or self.deadline is not None:
            workers = self.plan.workers if self.plan.workers is not None else slots
            return replace(self.plan, backend="process", workers=max(1, workers))
        if width < 2:
            return self._chosen("inline", 1, f"there is one {self.noun} to play at a time: it is played here")
        if slots < 2:
            return self._chosen("inline", 1, f"there is one CPU slot: {self.noun}s are played here, one after another")
        return None

    def _here_until(
        self, here: Pool, left: list[Item], patience: Patience, took: list[float]
    ) -> Iterator[tuple[Item, Result]]:
        """Plays here until it gets late; an item that is not done by then is left to the workers."""
        play = self.play if self.measured is None else partial(_call_with, self.measured, patience)
        while left and not patience.over:
            begin = patience.wall
            ((_, outcome),) = here.stream(play, [left[0]], keys=[self.key(left[0])])
            patience.begin()
            took.append(patience.wall - begin)
            if isinstance(outcome.error, TooLong):
                return
            item = left.pop(0)
            yield item, self._result(item, outcome)

    def _decide(self, patience: Patience, took_each: list[float], done: int, count: int) -> Plan:
        share, each = min(1.0, patience.cpu / max(patience.wall, 1e-9)), _cost(took_each)
        noun = f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}"
        took = f"{noun} takes about {each * 1e3:.0f} ms" if done else f"{noun} takes more than {each:.2f} s"
        if not count:
            return self._chosen("inline", 1, f"{took}: all were played before workers could have been of use")
        waits = share < WAITS_BELOW
        workers = min(int(min(self.width, count)), current_budget().slots * (WAITERS_PER_SLOT if waits else 1))
        gain = count * each * (1 - (1.0 if waits else TWO_CORES_ARE_NOT_TWICE_ONE) / max(1, workers))
        self._foregone += max(0.0, gain)
        if workers < 2 or (done and self._foregone <= STARTING):
            return self._chosen("inline", 1, f"{took}, with {count} to go: starting workers would take longer")
        try:
            check_sendable(self.play)
        except NotSendable as error:
            self.notes.append(("unsendable", f"{error}: all are played here, one after another"))
            return self._chosen("inline", 1, f"{took}, with {count} to go; but {error}: played here")
        why = f"{took}{', most of it waiting' if waits else ''}, with {count} to go: {workers} processes"
        return self._chosen("process", workers, why)

    def _chosen(self, backend: str, workers: int, why: str) -> Plan:
        return replace(self.plan, backend=backend, workers=workers, why=why)

    def _workers(self, count: int) -> Pool:
        if self.pool is not None:
            return self.pool
        workers = self.plan.workers if self.plan.workers is not None else current_budget().workers_for(count)
        workers = max(1, min(workers, count))
        if self._pool is None or self._count < workers:
            if self._pool is not None:
                self._pool.close()
            self._pool = Pool(
                [],
                backend=self.plan.backend,
                workers=workers,
                seed=self.seed,
                restarts=self.restarts,
                trust=self.plan.trust,
                trace=self.trace,
            )
            self._count = workers
            self._own.callback(self._pool.close)
        return self._pool

    def _result(self, item: Item, outcome: Outcome) -> Result:
        if outcome.error is not None:
            return self.lost(item, outcome.error)
        if self.plan.trust == "data" and not self.is_result(item, outcome.answer):
            strange = f"what came back for this {self.noun} is not the record of it: its worker is not to be trusted"
            return self.lost(item, NotData(strange))
        result: Result = outcome.answer
        return result


def _call_with(play: Callable[[Item, Patience], Result], patience: Patience, item: Item) -> Result:
    return play(item, patience)


def _cost(took: Sequence[float]) -> float:
    """What an item takes. The first is not asked if there is another: its clock started after it was built, and the
    next ones may have to be built just so."""
    later = took[1:] or took
    return sum(later) / len(later)


_WORDS = (
    (re.compile(r"\bitem \d+ lost its worker in the mapped function"), "the {} lost its worker"),
    (re.compile(r"\bitem \d+ did not answer the mapped function within"), "the {} did not end within"),
    (re.compile(r"\bitem \d+ called"), "the {} called"),
    (re.compile(r"\bwhile it ran the mapped function"), "while it played {}"),
)


def in_words(text: str, noun: str) -> str:
    """The engine knows of items and mapped functions; a job has a name for them."""
    for pattern, words in _WORDS:
        what = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}" if words.startswith("while") else noun
        text = pattern.sub(words.format(what), text)
    return text
