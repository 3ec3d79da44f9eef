"""The team itself: puts minds into pools, asks whoever is due, and says who failed.

chairs ── recipes ──► one Pool per mode ──► a port per kind of rows, and messages for what fits into no row
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from paceline.engine import Plan, Pool, Port, StoreKey, Trace, put_back, take
from paceline.errors import CallTimeout, NotSendable, WorkerLost
from paceline.lasting import LASTING
from paceline.spaces import Shape, get_action, put_observation, shape_of
from paceline.team import modes
from paceline.team.blackbox import last_words
from paceline.team.chairs import Chair
from paceline.team.device import one_thread
from paceline.team.minds import Outcome, Recipe
from paceline.team.players import Player, most_counts
from paceline.types import Seat, Step


@dataclass(frozen=True)
class Setting:
    """What all teams of a run have in common.

    Attributes:
        seed: The run's seed.
        lanes: Rows of a batch. Part of the run: another number gives other bits.
        agents: Where minds live, unless a player says otherwise.
        workers: How many workers a team may have; None: as many as the budget has room for.
        call_deadline: Seconds after which a policy that does not answer is killed; None: never.
        action_limit: Seconds after which an action is recorded as late; None: never.
        timeout_action: What is done about a late action: "late" takes it all the same, "noop" takes the one that does
            nothing in its place, as cogames does; then results follow the clock.
        blackbox: A directory in which minds write down who is being asked, for when their process is lost.
    """

    seed: int = 0
    lanes: int = 8
    agents: str = "off"
    workers: int | None = None
    call_deadline: float | None = None
    action_limit: float | None = None
    timeout_action: str = "late"
    blackbox: str | None = None


_AS_BEFORE = "where it was quickest the last time"
_RELEARN = 16
_lessons: dict[tuple[Any, ...], Plan] = {}  # kind of team → where auto has it, in this process
_played: dict[tuple[Any, ...], int] = {}


class Mishap(Exception):
    """A policy raised: who it was. The cause is the policy's own exception."""

    def __init__(self, chair: Chair, error: BaseException) -> None:
        self.chair, self.error = chair, error
        self.agent, self.policy = chair.seat.agent, chair.player.name
        super().__init__(f"policy {self.policy!r} of agent {self.agent!r}: {type(error).__name__}: {error}")


class Team:
    """The minds of one episode, or of several that are stepped together.

    Args:
        chairs: Every seat, and who plays it.
        setting: What the run says.
        trace: Records where the time goes.
    """

    def __init__(self, chairs: Sequence[Chair], setting: Setting, trace: Trace | None = None) -> None:
        self._stack = ExitStack()
        self._sound = True
        self._trace = trace
        self._notes: list[tuple[str, str]] = []
        self.late: dict[Hashable, int] = {}
        """Chair → how many of its actions came late."""
        self.extras: dict[Hashable, Mapping[str, Any]] = {}
        """Chair → what its last answer came with beside the action."""
        self._chairs = {chair.name: chair for chair in chairs}
        self._told = [chair.name for chair in chairs if chair.player.is_told]
        self._kind = tuple((chair.episode[0], chair.player.name) for chair in chairs)
        self._order = {chair.name: place for place, chair in enumerate(chairs)}
        by_mode: dict[str, list[Recipe]] = {}
        for recipe in recipes(chairs, setting):
            by_mode.setdefault(recipe.chairs[0].player.agents or setting.agents, []).append(recipe)
        try:
            self._homes = [self._open(mode, mine, setting) for mode, mine in by_mode.items()]
            # Bits depend on the number of threads. After the minds were built, as it may be they who import torch.
            self._stack.callback(one_thread())
        except BaseException:
            self.close()
            raise

    @classmethod
    def seated(
        cls,
        seats: Sequence[Seat],
        players: Sequence[Player],
        seating: Sequence[int],
        setting: Setting,
        episode: tuple[str, int],
        most: Sequence[int] | None = None,
        trace: Trace | None = None,
    ) -> Team:
        """The team of one episode: `seating` says which player has which seat, `most` how many it has at most."""
        most = most_counts(players, len(seats)) if most is None else most
        chairs = [
            Chair(seat.agent, episode, seat, players[number], most[number])
            for seat, number in zip(seats, seating, strict=True)
        ]
        return cls(chairs, setting, trace)

    def act(self, observations: Mapping[Any, Any]) -> dict[Any, Any]:
        """Asks everybody who is due, all at once where they live apart. Returns the actions by chair.

        Raises:
            Mishap: a policy raised; the first in the order of the chairs.
        """
        answers, mishaps = self.ask(observations)
        if mishaps:
            raise mishaps[0] from mishaps[0].error
        return {name: answers[name] for name in observations}

    def ask(self, observations: Mapping[Any, Any]) -> tuple[dict[Any, Any], list[Mishap]]:
        """The same, but failures are given, not raised: those who have answered have answered."""
        answers: dict[Hashable, Any] = {}
        mishaps: list[Mishap] = []
        if self.extras:
            self.extras = {}
        under_way = []
        for home in self._in_turn():
            home.post(observations)
            if len(self._homes) > 1 and home.pool.place == "inline":
                mishaps += home.collect(answers, self.late, self.extras)
            else:
                under_way.append(home)
        for home in under_way:
            mishaps += home.collect(answers, self.late, self.extras)
        return answers, self._in_order(mishaps)

    def _in_turn(self) -> list[_Home]:
        """Minds here are asked after those elsewhere, and before threads are under way, which would see them draw from
        the process's generators."""
        if len(self._homes) == 1:
            return self._homes
        return sorted(self._homes, key=lambda home: {"inline": 1, "thread": 2}.get(home.pool.place, 0))

    def _in_order(self, mishaps: list[Mishap]) -> list[Mishap]:
        return sorted(mishaps, key=lambda mishap: self._order[mishap.chair.name])

    def tell(self, step: Step) -> None:
        """Tells the outcome of a step to those policies that take it; see `Player.is_told`.

        Raises:
            Mishap: a policy raised; the first in the order of the chairs.
        """
        if not self._told:
            return
        self._each("tell", outcomes_of(step, self._told))

    def begin(self, episodes: Mapping[Hashable, tuple[str, int]]) -> None:
        """Begins the next episode of some chairs: mission and index by chair; see `Mind.begin`.

        Raises:
            Mishap: a policy raised; the first in the order of the chairs.
        """
        self._each("begin", episodes)

    def learn(self, names: Iterable[Hashable] | None = None) -> dict[Hashable, Mapping[str, float]]:
        """Lets learners learn, all at once where they live apart: the named chairs, or all that learn.

        Returns:
            Their figures by chair.

        Raises:
            Mishap: a learner raised; the first in the order of the chairs.
        """
        learners = [name for name, chair in self._chairs.items() if chair.player.declares("learn")]
        wanted = set(learners if names is None else names)
        return self._each("learn", dict.fromkeys(name for name in learners if name in wanted))

    def _each(self, method: str, arguments: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        """Calls a method of the minds of some chairs, with what is given for each."""
        handles = [(home, home.post_call(method, arguments)) for home in self._homes]
        answers: dict[Hashable, Any] = {}
        mishaps: list[Mishap] = []
        for home, handle in handles:
            mishaps += home.collect_call(handle, answers)
        if mishaps:
            first = self._in_order(mishaps)[0]
            raise first from first.error
        return answers

    @property
    def notes(self) -> list[tuple[str, str]]:
        """What did not go as asked, and what auto has chosen and why: a topic and a text each, for the report."""
        chosen = [
            (f"auto {home.pool.plan.backend}", f"agents='auto': {home.pool.plan.backend}: {home.pool.plan.why}")
            for home in self._homes
            if home.mode == "auto" and home.decided
        ]
        return [*self._notes, *chosen, *(note for home in self._homes for note in home.notes())]

    def close(self) -> None:
        """Ends every pool."""
        for home in getattr(self, "_homes", ()):
            if home.mode == "auto":
                _lessons[self._kind] = home.pool.plan
        self._stack.close()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        self._sound = error is None
        self.close()

    def _open(self, name: str, mine: list[Recipe], setting: Setting) -> _Home:
        mode = modes.find(name)
        modes.check_deadline(name, setting.call_deadline)
        if mode.batches:
            self._mention_the_batchless(name, mine)
        elif mode.backend not in ("inline", "auto"):
            self._mention_the_sharing(name, mine)
        try:
            pool = self._pool(mode, mine, setting)
        except NotSendable as error:
            self._notes.append((f"unsendable {name}", f"{error}: agents={name!r} is not possible, played here instead"))
            pool = self._pool(modes.MODES["off"], mine, setting)
        return _Home(name, pool, mine)

    def _pool(self, mode: modes.Mode, mine: list[Recipe], setting: Setting) -> Pool:
        backend, workers = mode.backend, setting.workers
        learned = self._learned(mine, setting) if backend == "auto" else Plan(backend)
        if mode.workers:
            workers = len(mine) if mode.workers < 0 else mode.workers
        beside = backend == "auto" and (learned.backend == "thread" or learned.threads > 1)  # they wait
        given: dict[str, Any] = {
            "keys": [recipe.key for recipe in mine],
            "deterministic": [bool(recipe.chairs[0].player.declares("deterministic", True)) for recipe in mine],
            "failed_builds": "keep",
        }
        make = partial(
            Pool,
            workers=1 if backend == "inline" else workers,
            seed=setting.seed,
            deadline=setting.call_deadline or math.inf,
            draw_alone=True,
            trace=self._trace,
        )
        if learned.backend == "process" and not beside:
            return self._kept(partial(make, (), backend="process"), mine, given, (setting, workers))
        pool = self._stack.enter_context(make(mine, backend=backend, **given))
        if beside and len(mine) > 1:
            # And not for good: if somebody draws there, auto must be able to leave.
            why = "they are not deterministic, so they ask somebody else, and wait" if _oracles(mine) else _AS_BEFORE
            if learned.threads > 1:
                count = min(learned.workers or 1, setting.workers or len(mine))
                pool.begin_on("process", count, why, threads=learned.threads)
            else:
                pool.begin_on("thread", len(mine), why)
        return pool

    def _kept(self, make: Callable[[], Pool], mine: list[Recipe], given: dict[str, Any], how: object) -> Pool:
        """A pool of processes, which are kept for later episodes in this worker: minds are built anew in them."""
        key = ("agents", repr(how), self._trace is not None)
        new: list[Pool] = []

        def begun() -> Pool:
            new.append(make())
            return new[0]

        pool = take(key, begun)
        try:
            pool.refill([replace(recipe, is_watched=True) for recipe in mine], **given)
        except BaseException:
            pool.close()
            raise
        self._stack.callback(self._put_back, key, pool, is_new=bool(new))
        return pool

    def _put_back(self, key: StoreKey, pool: Pool, is_new: bool) -> None:
        """Ends the minds; after a failure their processes too, and where something has changed that would last."""
        is_kept = False
        try:
            if self._sound and not _has_changed(pool, is_new):
                pool.refill()
                is_kept = True
        except BaseException:
            self._sound = False
            raise
        finally:
            if is_kept:
                put_back(key, pool)
            else:
                pool.close()

    def _learned(self, mine: list[Recipe], setting: Setting) -> Plan:
        """Where auto begins: where it ended the last time with such a team, unless that should be found out anew."""
        if setting.call_deadline is not None:
            return Plan("process")  # there, and only there, a policy can be ended
        if _oracles(mine):
            return Plan("thread")  # once they have answered they could not be moved any more
        _played[self._kind] = _played.get(self._kind, 0) + 1
        anew = _played[self._kind] % _RELEARN == 0
        return Plan() if anew else _lessons.get(self._kind, Plan())

    def _mention_the_batchless(self, name: str, mine: list[Recipe]) -> None:
        for policy in dict.fromkeys(recipe.chairs[0].player.name for recipe in mine if not recipe.rows):
            text = f"policy {policy!r} has no act_batch: under agents={name!r} it is asked seat by seat"
            self._notes.append((f"batchless {policy}", text))

    def _mention_the_sharing(self, name: str, mine: list[Recipe]) -> None:
        """Agents were to be asked at the same time, and some of a policy's cannot be."""
        for recipe in mine:
            player, seats = recipe.chairs[0].player, {chair.seat.index for chair in recipe.chairs}
            for part in player.parts or ():
                if part.shared and len(seats) > 1 and seats <= {*part.members}:
                    text = (
                        f"{len(seats)} agents of policy {player.name!r} share a {part.shared}: under agents={name!r} "
                        "they stay in one place, and are asked one after another. together=false gives each agent a "
                        "policy of its own"
                    )
                    self._notes.append((f"shared {player.name} {part.shared}", text))


def _has_changed(pool: Pool, is_new: bool) -> bool:
    """Whether the minds of a pool have changed what lasts in their processes. It is told only if these have served an
    episode before: otherwise they end before it can matter."""
    told = [each.answer for each in pool.call("lasting", outcomes=True, record=False).values() if each.ok]
    LASTING.hear(text for _, news in told for text in news if not is_new)
    return any(changed for changed, _ in told)


def outcomes_of(step: Step, names: Iterable[Hashable]) -> dict[Hashable, Outcome]:
    """What came of a step for these chairs, as minds are told it."""
    return {
        name: (
            float(step.rewards[name]),
            bool(step.terminations[name]),
            bool(step.truncations[name]),
            step.final_observations.get(name),
        )
        for name in names
        if name in step.rewards
    }


class _Home:
    """The minds that live in one pool, and the ways to them."""

    def __init__(self, mode: str, pool: Pool, mine: list[Recipe]) -> None:
        self.mode, self.pool, self.recipes = mode, pool, mine
        self._member = {chair.name: number for number, recipe in enumerate(mine) for chair in recipe.chairs}
        by_rows: dict[tuple[Shape, Shape] | None, list[int]] = {}
        for number, recipe in enumerate(mine):
            by_rows.setdefault(_rows(recipe), []).append(number)
        self._talkers = by_rows.pop(None, [])
        self._tables = [_Table(pool, mine, members, *shapes) for shapes, members in by_rows.items() if shapes]
        self._handle: Any = None
        self._asking = False  # and if nobody collects it, we were interrupted

    @property
    def decided(self) -> bool:
        """Whether auto has measured enough to have chosen."""
        return not self.pool.plan.why.startswith("measuring")

    def notes(self) -> list[tuple[str, str]]:
        """Which policies were asked one at a time, though their minds have a thread each. Minds that were interrupted
        are not asked: one that hangs would be built anew for it."""
        if self._asking or self.pool.place != "thread" or all(event.kind != "isolated" for event in self.pool.events):
            return []
        told = self.pool.call("draws", outcomes=True, record=False)
        drawing = dict.fromkeys(self.recipes[n].chairs[0].player.name for n, told in told.items() if told.answer)
        return [
            (
                f"drawing {name}",
                f"policy {name!r} draws from process-wide random generators: under agents={self.mode!r} its agents are "
                "asked one at a time, each with a stream of its own; to have them beside each other, give each a "
                "generator of its own (numpy.random.default_rng), or use agents='process'",
            )
            for name in drawing
        ]

    def post(self, observations: Mapping[Any, Any]) -> None:
        self._asking = True
        for table in self._tables:
            table.post(observations)
        if self._talkers:
            calls: dict[int, tuple[dict[Hashable, Any]]] = {}
            for name, obs in observations.items():
                number = self._member.get(name)
                if number in self._talkers:
                    calls.setdefault(number, ({},))[0][name] = obs
            self._handle = self.pool.post("act", calls) if calls else None

    def post_call(self, method: str, arguments: Mapping[Hashable, Any]) -> Any:
        """Begins a call of those minds whose chairs are named; gives None if there are none."""
        calls: dict[int, tuple[dict[Hashable, Any]]] = {}
        for name, argument in arguments.items():
            number = self._member.get(name)
            if number is not None:
                calls.setdefault(number, ({},))[0][name] = argument
        self._asking |= bool(calls)
        return self.pool.post(method, calls) if calls else None

    def collect_call(self, handle: Any, answers: dict[Hashable, Any]) -> list[Mishap]:
        """Ends a call; what minds answer by chair goes into `answers`."""
        if handle is None:
            return []
        handle.finish()
        self._asking = False
        failed: dict[int, BaseException] = {}
        for number, outcome in handle.outcomes().items():
            if outcome.error is not None:
                failed[number] = outcome.error
            elif outcome.answer is not None:
                answers.update(outcome.answer)
        return [self._mishap(number, error) for number, error in failed.items()]

    def collect(
        self, answers: dict[Hashable, Any], late: dict[Hashable, int], extras: dict[Hashable, Mapping[str, Any]]
    ) -> list[Mishap]:
        failed: dict[int, BaseException] = {}
        for table in self._tables:
            failed.update(table.collect(answers, late, extras))
        if self._handle is not None:
            self._handle.finish()
            self.pool.round_over(self._handle)
            for number, outcome in self._handle.outcomes().items():
                if outcome.error is not None:
                    failed[number] = outcome.error
                    continue
                actions, slow, beside = outcome.answer
                answers.update(actions)
                extras.update(beside)
                _add(late, slow)
            self._handle = None
        self._asking = False
        return [self._mishap(number, error) for number, error in failed.items()]

    def _mishap(self, number: int, error: BaseException) -> Mishap:
        """Says whose policy it was: a mind with several seats is asked which it had in hand."""
        chairs = {chair.name: chair for chair in self.recipes[number].chairs}
        name = next(iter(chairs))
        if isinstance(error, WorkerLost | CallTimeout):
            # The mind that could be asked now has been built anew; its black box still knows what the lost one did.
            words = last_words(
                self.recipes[number].blackbox, chairs[name].episode, first=chairs[name].seat.agent, rebuilt=True
            )
            name = next((chair.name for chair in chairs.values() if chair.seat.agent == words.agent), name)
        elif len(chairs) > 1:
            outcome = self.pool.call("in_hand", {number: ()}, outcomes=True, record=False)[number]
            name = outcome.answer if outcome.ok else name
        return Mishap(chairs[name], error)


class _Table:
    """A port: minds whose observations and actions lie in rows of one kind."""

    def __init__(self, pool: Pool, mine: list[Recipe], members: list[int], seen: Shape, done: Shape) -> None:
        self._seen, self._done = seen, done
        rows = {number: len(mine[number].chairs) for number in members}
        self._port: Port = pool.port(
            "act_rows",
            {"observations": (seen.shape, seen.dtype), "due": ((), "u1")},
            {"actions": (done.shape, done.dtype)},
            members=members,
            rows=rows,
        )
        names = [(number, chair.name) for number in members for chair in mine[number].chairs]
        self._row = {name: (row, number) for row, (number, name) in enumerate(names)}
        self._everyone = len(members)
        self._asked: list[tuple[Hashable, int, int]] = []

    def post(self, observations: Mapping[Any, Any]) -> None:
        port, rows = self._port, self._port.inputs["observations"]
        due = port.inputs["due"]
        due[...] = 0
        self._asked = []
        members = set()
        for name, obs in observations.items():
            found = self._row.get(name)
            if found is not None:
                row, number = found
                put_observation(rows[row, ...], obs, self._seen, str(name))
                due[row] = 1
                members.add(number)
                self._asked.append((name, row, number))
        if members:
            port.post(None if len(members) == self._everyone else sorted(members))

    def collect(
        self, answers: dict[Hashable, Any], late: dict[Hashable, int], extras: dict[Hashable, Mapping[str, Any]]
    ) -> dict[int, BaseException]:
        if not self._asked:
            return {}
        self._port.wait(outcomes=True)
        for slow, beside in self._port.extras.values():
            _add(late, slow)
            extras.update(beside)
        actions, errors = self._port.outputs["actions"], self._port.errors
        for name, row, number in self._asked:
            if number not in errors:
                answers[name] = get_action(actions[row, ...], self._done)
        return dict(errors)


def _oracles(mine: list[Recipe]) -> bool:
    """Whether all of them answer as somebody else says, as a language model does."""
    return not any(recipe.chairs[0].player.declares("deterministic", True) for recipe in mine)


def _add(late: dict[Hashable, int], slow: Sequence[Hashable]) -> None:
    for name in slow:
        late[name] = late.get(name, 0) + 1


def _rows(recipe: Recipe) -> tuple[Shape, Shape] | None:
    """The kind of rows that all chairs of a mind have in common; None: it must be talked to."""
    if not recipe.chairs[0].player.declares("deterministic", True):
        return None  # the engine keeps the answers of calls for those who must not be asked again
    kinds = {(shape_of(c.seat.observation_space), shape_of(c.seat.action_space)) for c in recipe.chairs}
    seen, done = kinds.pop()
    return None if kinds or seen is None or done is None else (seen, done)


def recipes(chairs: Sequence[Chair], setting: Setting) -> list[Recipe]:
    """Who plays together: the chairs of a batch in their rows, those who share state, everybody else alone."""
    by_player: dict[str, list[Chair]] = {}
    for chair in chairs:
        by_player.setdefault(chair.player.name, []).append(chair)
    found = [recipe for mine in by_player.values() for recipe in _recipes_of(mine, setting)]
    order = {chair.name: place for place, chair in enumerate(chairs)}
    return sorted(found, key=lambda recipe: order[recipe.chairs[0].name])


def _recipes_of(mine: list[Chair], setting: Setting) -> list[Recipe]:
    def recipe(chairs: Sequence[Chair], rows: Sequence[int] = ()) -> Recipe:
        noop = setting.timeout_action == "noop"
        fixed = (setting.seed, setting.lanes, setting.action_limit, noop, setting.blackbox)
        return Recipe(tuple(chairs), tuple(rows), *fixed)

    player = mine[0].player
    if player.declares("act_batch") is not None:
        return [recipe(chairs, rows) for chairs, rows in _batches(mine, setting.lanes)]
    rooms: dict[Hashable, list[Chair]] = {}
    for chair in mine:
        rooms.setdefault(_room(chair), []).append(chair)
    return [recipe(chairs) for chairs in rooms.values()]


def _room(chair: Chair) -> Hashable:
    """Chairs of a player that have this in common share state: found, or declared. What could be found and has not been
    counts as shared."""
    for number, part in enumerate(chair.player.parts or ()):
        if chair.seat.index in part.members:
            return chair.episode, number
    together = chair.player.declares("together", False)
    return (chair.episode, "together") if together or together is None else (chair.episode, chair.name)


def _batches(mine: list[Chair], lanes: int) -> list[tuple[list[Chair], list[int]]]:
    """Chairs and rows of each batch. Where an episode fills only a part of the lanes, the next ones have the rows
    after it, and begin again where they would not fit: by their numbers, so that a row does not depend on who else is
    there."""
    blocks: dict[tuple[str, int, int], tuple[list[Chair], list[int]]] = {}
    by_episode: dict[tuple[str, int], list[Chair]] = {}
    for chair in mine:
        by_episode.setdefault(chair.episode, []).append(chair)
    for (mission, index), chairs in by_episode.items():
        most = chairs[0].most or len(chairs)
        together = max(1, lanes // most)
        start = index % together * most
        for place, chair in enumerate(chairs):
            block = (mission, index // together, place // lanes if together == 1 else 0)
            seats, rows = blocks.setdefault(block, ([], []))
            seats.append(chair)
            rows.append((start + place) % lanes)
    return list(blocks.values())
