"""Lockstep: several rollouts stepped together with one team, so that their seats fill the rows of a forward pass.

    worlds, in workers ──► what all agents see ──► one Team here, which owns the model ──► actions ──► worlds

`play` is the loop here too: `Worlds` is its world half, with the name (table, agent) for every agent, and `Survivors`
its mind half. A seat has the row that it would have had alone, so the bits are those of one rollout at a time. Where
something goes wrong that several rollouts share, a forward pass say, the tables concerned are set apart: they are to be
played again, alone, where the one to blame fails by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from paceline.engine import Anew, OwnStreams, Plan, Pool, Trace, current_budget
from paceline.errors import BadInput
from paceline.lasting import LASTING
from paceline.rollout import Observations, Rollout
from paceline.seeds import Key
from paceline.team import Mishap, Team
from paceline.types import Episode, Failure, Step, Task

Name = tuple[int, str]
"""A table, and an agent at it."""

Record = tuple[Episode, str | None]
"""A play that is over, and where an observation of it first held NaN."""


class Table(OwnStreams):
    """A rollout as a member of a pool."""

    def __init__(self, make: Callable[[], Rollout], outcomes: bool) -> None:
        self._rollout, self._outcomes = make(), outcomes

    def begin(self, seed: int, task: Task | None) -> Anew:
        """Begins a play: no earlier one matters any more. Gives what is seen, and the record if that was all."""
        begun = Anew((self._rollout.begin(seed, task), self._record()))
        LASTING.say()
        return begun

    def step(self, actions: dict[str, Any]) -> tuple[Step | dict[str, Any], Record | None]:
        """Plays one step. Returns its outcome, or, where that is not wanted, only what is seen next."""
        step = self._rollout.step(actions)
        return step if self._outcomes else step.observations, self._record()

    def can_look(self) -> bool:
        """Whether agents may look before they are due."""
        return self._rollout.can_look

    def look(self) -> Observations:
        """What the agents see now that are in play and not due."""
        return self._rollout.look()

    def close(self) -> None:
        """Ends the environment."""
        self._rollout.close()

    def _record(self) -> Record | None:
        return (self._rollout.episode, self._rollout.nan_seen) if self._rollout.over else None


@dataclass
class Worlds:
    """The world half of a loop over several rollouts: ended tables drop out, the others go on.

    Attributes:
        makers: Builds the rollout of each table.
        keys: Who each play is: what its environment draws from process-wide generators follows from this.
        blank: The record of each table until it has one.
        plan: Where they live.
        seed: Root of their random streams.
        outcomes: Whether whole steps are wanted, for a tape or for learners, and not only what is seen next.
        raises: Whether what an environment raises is raised; otherwise its table drops out, and the others go on.
        beside_threads: Whether threads of another pool run meanwhile; see `Pool`.
        trace: Records where the time goes.
        nan_seen: Table → where an observation first held NaN, of those that have ended.
    """

    makers: Sequence[Callable[[], Rollout]]
    keys: Sequence[Key]
    blank: Sequence[Episode]
    plan: Plan
    seed: int = 0
    outcomes: bool = False
    raises: bool = False
    beside_threads: bool = False
    trace: Trace | None = None
    episode: list[Episode] = field(default_factory=list)
    apart: set[int] = field(default_factory=set)
    nan_seen: dict[int, str] = field(default_factory=dict)
    _in_play: set[int] = field(default_factory=set)

    def __enter__(self) -> Worlds:
        self.episode = list(self.blank)
        self._pool = self._opened()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    @property
    def over(self) -> bool:
        """Whether no table is in play any more."""
        return not self._in_play

    def begin(self, seed: Any, task: Any = None) -> dict[Name, Any]:
        """Begins all plays: a seed for each table, and a task for each if there are any."""
        tasks = [None] * len(self.makers) if task is None else task
        plays = {table: (seed[table], tasks[table]) for table in range(len(self.makers))}
        self._in_play = set(plays)
        return self._taken(self._pool.call("begin", plays, outcomes=True)).observations

    def step(self, actions: Mapping[Name, Any]) -> Step:
        """Plays one step of every table that is in play."""
        mine: dict[int, tuple[dict[str, Any]]] = {table: ({},) for table in sorted(self._in_play)}
        for (table, agent), action in actions.items():
            mine[table][0][agent] = action
        step = self._taken(self._pool.call("step", mine, outcomes=True))
        for table in self._in_play:
            self.episode[table].steps += 1
        return step

    @property
    def can_look(self) -> bool:
        """Whether agents of all tables may look before they are due."""
        return all(self._pool.call("can_look", record=False).values())

    def look(self, tables: Iterable[int]) -> dict[Name, Any]:
        """What the agents of some tables see now that are in play and not due."""
        seen = self._pool.call("look", dict.fromkeys(tables, ()), record=False)
        return {(table, agent): one for table, mine in seen.items() for agent, one in mine.items()}

    def fail(self, table: int, failure: Failure) -> None:
        """Ends a table's play: it could not be played to its end."""
        self.episode[table].failure = failure
        self._in_play.discard(table)

    def set_apart(self, table: int) -> None:
        """Ends a table's play here: it is to be played again, alone."""
        self.apart.add(table)
        self._in_play.discard(table)

    def in_play(self, table: int) -> bool:
        """Whether a table's play goes on."""
        return table in self._in_play

    def streams(self) -> dict[int, Any]:
        """Table → where its random streams stand; None: it has never drawn."""
        return self._pool.call("streams", record=False)

    def take_streams(self, states: Mapping[int, Any]) -> None:
        """Goes on with streams from where `streams` found them."""
        self._pool.call("take_streams", {table: (each,) for table, each in states.items() if each is not None})

    def _taken(self, outcomes: Mapping[int, Any]) -> Step:
        joint = Step({}, {}, {}, {}, {}, {})
        for table, outcome in outcomes.items():
            if outcome.error is not None and self.raises:
                raise outcome.error
            if outcome.error is not None:
                self.fail(table, Failure.of(outcome.error, step=self.episode[table].steps))
                continue
            step, record = outcome.answer
            if record is not None:
                self._end(table, *record)
            if isinstance(step, Step):
                _merge(joint, table, step)
            elif record is None:
                joint.observations.update({(table, agent): seen for agent, seen in step.items()})
        return joint

    def _end(self, table: int, episode: Episode, nan_seen: str | None) -> None:
        episode.seats = self.episode[table].seats
        self.episode[table] = episode
        self._in_play.discard(table)
        if nan_seen is not None:
            self.nan_seen[table] = nan_seen

    def _opened(self) -> Pool:
        count, plan = len(self.makers), self.plan
        backend = "process" if plan.backend == "auto" else plan.backend
        workers = plan.workers if plan.workers is not None else current_budget().workers_for(count)
        if plan.backend == "auto" and plan.workers is None:
            backend = "inline"  # a message per step pays only for dear environments, and the plan does not say so
        return Pool(
            [partial(Table, make, self.outcomes) for make in self.makers],
            backend=backend,
            workers=1 if backend == "inline" else min(workers, count),
            seed=self.seed,
            keys=[("map", key) for key in self.keys],  # the streams of a play that is mapped
            deadline=math.inf,
            failed_builds="keep",
            trust=plan.trust,
            beside_threads=self.beside_threads,
            trace=self.trace,
        )


@dataclass
class Survivors:
    """The mind half: asks one team for all tables, and takes those tables out of play that cannot go on."""

    team: Team
    worlds: Worlds

    @property
    def extras(self) -> Mapping[Any, Mapping[str, Any]]:
        """As the team has them."""
        return self.team.extras

    def act(self, observations: Mapping[Name, Any]) -> dict[Name, Any]:
        """Asks for every agent that is due; those of tables that drop out get no action."""
        try:
            answers, mishaps = self.team.ask(observations)
        except BadInput:  # an environment has shown what its space does not declare: none could be asked
            answers, mishaps = {}, []
        worlds = self.worlds
        for mishap in mishaps:
            table = mishap.chair.name[0]  # type: ignore[index]
            if worlds.in_play(table) and mishap.chair.player.declares("act_batch") is None:
                failure = Failure.of(mishap.error, mishap.agent, mishap.policy, worlds.episode[table].steps)
                worlds.fail(table, failure)
        for table, _ in [name for name in observations if name not in answers]:
            if worlds.in_play(table):
                worlds.set_apart(table)
        return {name: answers[name] for name in observations if worlds.in_play(name[0])}

    def tell(self, step: Step) -> None:
        """Hands the outcome on; if a policy raises, the tables that were just stepped are set apart."""
        try:
            self.team.tell(step)
        except Mishap:
            for table, _ in step.rewards:
                self.worlds.set_apart(table)


def _merge(joint: Step, table: int, step: Step) -> None:
    for name in Step.__slots__:
        mine: dict[Any, Any] = getattr(joint, name)
        mine.update({(table, agent): value for agent, value in getattr(step, name).items()})
