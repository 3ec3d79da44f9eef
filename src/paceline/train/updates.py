"""Updates under way: posted to learners in order, taken in order, published by number.

    unlocked ── post ──► learners, wherever they live ── settle ──► version n + 1 ── wanted ──► the copies that act

An update that is skipped counts as one that changed nothing. Every update that is due is run once, or recorded as
skipped or failed, with the reason.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from paceline.engine import Handle, Pool
from paceline.errors import CallTimeout, Diverged, WorkerLost
from paceline.train.banks import Recipe
from paceline.train.hosts import Learned, named
from paceline.train.phases import Phases
from paceline.train.rings import Ring, Span
from paceline.train.saved_state import of_bank, of_failures, of_records, to_bank, to_failures, to_records
from paceline.types import Failure

_log = logging.getLogger("paceline")
FROZEN = "frozen after a failure"
_OTHERWISE = "on_failure='freeze' would go on with the last weights"


@dataclass
class Update:
    """One update of an agent, as it is recorded.

    Attributes:
        agent: Whose.
        number: Counted from 0.
        epoch: The epoch that unlocked it.
        rows: How many rows it learned from.
        new: How many of them were new.
        status: "run", "skipped" or "failed".
        reason: Why it was not run.
        figures: What the learner said.
    """

    agent: str
    number: int
    epoch: int
    rows: int = 0
    new: int = 0
    status: str = "run"
    reason: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return named(self.number, self.agent)


@dataclass
class _Round:
    """One call of a learner: an update of some of its agents, and those that are skipped beside them."""

    updates: dict[str, Update]
    spans: dict[str, Span]
    handle: Handle | None

    def __str__(self) -> str:
        return ", ".join(map(str, self.updates.values()))


class Updates:
    """The updates of all agents.

    Args:
        recipes: The banks that learn, one for each member of the pool.
        pool: Their learning halves.
        on_failure: What is done if an update fails: "fail" and "retry" raise, "freeze" goes on with the last weights.
        deadline: Seconds that an update may take; None: as long as it likes.
        phases: Is told of the time that main waits.
    """

    def __init__(
        self, recipes: Sequence[Recipe], pool: Pool, on_failure: str, deadline: float | None, phases: Phases
    ) -> None:
        self._recipes, self._pool, self._on_failure, self._deadline = recipes, pool, on_failure, deadline
        self._phases = phases
        self._member = {agent: number for number, recipe in enumerate(recipes) for agent in recipe.agents}
        self._pending: list[deque[_Round]] = [deque() for _ in recipes]
        self.done: dict[str, int] = dict.fromkeys(self._member, 0)
        """Agent → how many of its updates are over: its newest version."""
        self.versions: dict[str, dict[int, Any]] = {agent: {} for agent in self._member}
        """Agent → version → weights; those that may be wanted yet."""
        self.frozen: dict[str, Failure] = {}
        """Agent → why it does not learn any more."""
        self.records: list[Update] = []
        """All that are over, in the order of their epochs and agents."""

    @property
    def agents(self) -> list[str]:
        """Those that learn."""
        return list(self._member)

    def begin(self, versions: Mapping[str, Mapping[int, Any]] | None = None) -> None:
        """Publishes the versions that are there before the first update: those of a checkpoint, or the first."""
        if versions is not None:
            self.versions = {agent: dict(mine) for agent, mine in versions.items()}
            return
        for weights in self._pool.call("weights", record=False).values():
            self.versions.update({agent: {0: mine} for agent, mine in weights.items()})

    def post(
        self, unlocked: Mapping[str, Sequence[Update]], rings: Mapping[str, Ring], spans: Mapping[str, Span]
    ) -> None:
        """Hands updates to the learners: the first of each agent, then the second, …"""
        for updates in _rounds(unlocked):
            for member, recipe in enumerate(self._recipes):
                mine = {agent: updates[agent] for agent in recipe.agents if agent in updates}
                if mine:
                    run = {agent: spans[agent] for agent, update in mine.items() if update.status == "run"}
                    self._pending[member].append(_Round(mine, run, self._posted(member, mine, run, rings)))

    def _posted(
        self, member: int, updates: Mapping[str, Update], spans: Mapping[str, Span], rings: Mapping[str, Ring]
    ) -> Handle | None:
        if not spans:
            return None
        numbers = {agent: (updates[agent].number, span) for agent, span in spans.items()}
        call = numbers, {agent: rings[agent].shared for agent in spans}
        return self._pool.post("learn", {member: call}, deadline=self._deadline)

    def wanted(self, agent: str, version: int) -> Any:
        """The weights of a version, waited for if need be; those before it are forgotten.

        Raises:
            Exception: what the learner raised.
        """
        while self.done[agent] < version:
            self._settle(self._member[agent])
        mine = self.versions[agent]
        for older in [number for number in mine if number < version]:
            del mine[older]
        return mine[version]

    def newest(self, agent: str) -> int:
        """The newest version that is there by now: it follows from the clock."""
        pending = self._pending[self._member[agent]]
        while pending and (pending[0].handle is None or pending[0].handle.done):
            self._settle(self._member[agent])
        return self.done[agent]

    def drain(self) -> None:
        """Waits for everything that is under way."""
        for member, pending in enumerate(self._pending):
            while pending:
                self._settle(member)

    def _settle(self, member: int) -> None:
        """Takes the oldest round of a learner."""
        each = self._pending[member].popleft()
        learned = self._answer(member, each)
        for agent, update in each.updates.items():
            newest = self.done[agent]
            weights = self.versions[agent][newest]
            if agent in learned:
                weights = self._taken(update, learned[agent], weights)
            self.done[agent] = newest + 1
            self.versions[agent][newest + 1] = weights
            self.records.append(update)

    def _answer(self, member: int, each: _Round) -> Mapping[str, Learned]:
        if each.handle is None:
            return {}
        here = self._pool.place == "inline"
        with self._phases.of("train" if here else "wait", str(each) if here else f"for {each}"):
            each.handle.finish()
            outcome = each.handle.outcomes()[member]
        if outcome.error is None:
            answer: Mapping[str, Learned] = outcome.answer
            return answer
        if self._on_failure != "freeze":
            if isinstance(outcome.error, WorkerLost | CallTimeout):  # any other error says itself whose update it was
                outcome.error.add_note(f"in {each}")
            outcome.error.add_note(_OTHERWISE)
            raise outcome.error
        return {agent: Learned(failure=Failure.of(outcome.error, agent)) for agent in each.spans}

    def _taken(self, update: Update, learned: Learned, last: Any) -> Any:
        if update.agent in self.frozen:  # it was under way when the failure was not known yet
            update.status, update.reason = "skipped", FROZEN
            return last
        update.figures = {name: float(value) for name, value in learned.figures.items()}
        failure = learned.failure
        if failure is None:
            if _log.isEnabledFor(logging.INFO):
                _log.info("%s in %s: %d rows, %s", update, self._home(update.agent), update.rows, update.figures)
            return learned.weights
        if self._on_failure != "freeze":
            diverged = Diverged(failure.message)
            diverged.add_note(_OTHERWISE)
            raise diverged
        self.frozen[update.agent] = failure
        what = failure.message.partition("\n")[0]  # of a timeout, where it was stands behind
        update.status, update.reason = "failed", f"{failure.kind}: {what}"
        _log.warning("agent %r is frozen, it goes on with its last weights: %s", update.agent, update.reason)
        return last

    def _home(self, agent: str) -> str:
        """Where an agent's learner lives."""
        homes = [worker for worker in self._pool.workers if self._member[agent] in worker.members]
        return f"process {homes[0].pid}" if homes else "a process that is gone"

    # -- on disk and back --------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """What is over; nothing may be under way."""
        return {
            "done": dict(self.done),
            "versions": {agent: of_bank(self._recipe(agent), dict(mine)) for agent, mine in self.versions.items()},
            "frozen": of_failures(self.frozen),
            "records": of_records(self.records, [each.name for each in fields(Update)]),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `save` gave."""
        self.done, self.frozen = dict(state["done"]), to_failures(state["frozen"])
        self.records = to_records(state["records"], Update)
        self.begin({agent: to_bank(self._recipe(agent), mine) for agent, mine in state["versions"].items()})

    def _recipe(self, agent: str) -> Recipe:
        return self._recipes[self._member[agent]]


def _rounds(unlocked: Mapping[str, Sequence[Update]]) -> Iterator[dict[str, Update]]:
    """Updates in rounds: the first of each agent, then the second, …"""
    for place in range(max(map(len, unlocked.values()), default=0)):
        yield {agent: updates[place] for agent, updates in unlocked.items() if place < len(updates)}
