"""Asking: answers are computed in workers on what agents see when turns begin, and used where they still hold.

    a turn begins: pov of every agent ──► workers: get_action of its copy ──► answers
    an agent's turn: sees the same, is the same? ── yes ──► the answer, and what giving it has changed
                                                 └─ no ───► asked again, here, on what it sees now

An answer that does not hold leaves no trace: the copy takes back what giving it has changed, and the agent's streams
stand where they stood. So a turn is what it would be if every agent were asked when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from paceline.adapters.sorrel.config import Parallel
from paceline.adapters.sorrel.record import Record
from paceline.adapters.sorrel.replica import Replica, Sent, alike
from paceline.engine import Anew, OwnedStreams, Pool
from paceline.errors import NotSendable, PlanNotMet, WorkerLost
from paceline.seeds import digest

_PAYS = 5e-3
"""Seconds that an agent must take for an answer before it is asked in a worker, where nothing else is said."""

_LOOK = 20  # answers by which that is judged
_OWNER = "act"


@dataclass(frozen=True)
class Answer:
    """What a copy says.

    Attributes:
        action: The action.
        changes: What giving it has changed in the agent.
        states: Where the agent's streams stand after it; None: they were not given.
        wrote: Whether giving it has changed what the agent saw, which only the copy has noticed.
    """

    action: Any
    changes: bytes
    states: Mapping[str, Any] | None
    wrote: bool


class Copy:
    """The member of a pool that answers for one agent."""

    def __init__(self) -> None:
        self._replica: Replica | None = None
        self._streams: OwnedStreams | None = None
        self._open = False
        self._seconds = 0.0

    def begin(self, agent: Any) -> Anew:
        """Takes a copy of the agent. Returns the names of what it holds; see `Replica.names`."""
        self._replica, self._open = Replica(agent, "copy"), False
        return Anew(self._replica.names())

    def ask(self, held: bool, changes: Sequence[bytes], seen: Any, states: Mapping[str, Any] | None) -> Answer:
        """Gives an action.

        Args:
            held: Whether the answer before this one was used.
            changes: What has changed in the agent since.
            seen: What it sees.
            states: Where its streams stand; None: it does not draw from them.
        """
        replica = self._replica
        assert replica is not None
        if self._open:
            replica.settle() if held else replica.revert()
        for each in changes:
            replica.apply(each)
        before, begin = digest(seen), perf_counter()
        with nullcontext() if states is None else self._swapped(states):
            action = replica.root.get_action(seen)
        self._seconds = perf_counter() - begin
        self._open = True
        after = None if states is None or self._streams is None else self._streams.states(_OWNER)
        return Answer(action, replica.propose(), after, digest(seen) != before)

    def _swapped(self, states: Mapping[str, Any]) -> Any:
        self._streams = self._streams or OwnedStreams({})
        self._streams.put(_OWNER, states)
        return self._streams.of(_OWNER)

    def took(self) -> float:
        """Seconds that the last answer took."""
        return self._seconds

    def snapshot(self) -> Any:
        """Everything, to be restored elsewhere."""
        return self._replica, self._open

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._replica, self._open = state


@dataclass
class _Asked:
    """What an agent was asked when the turn began."""

    seen: Any
    states: Mapping[str, Any]
    answer: Answer | None


class _Agent:
    """One agent, as it is asked."""

    def __init__(self, number: int, agent: Any) -> None:
        self.number, self.agent, self.owner = number, agent, ("act", number)
        self.replica: Replica | None = None
        self.method = _method(agent)  # that of its copy
        self.in_order = bool(getattr(agent, "in_order", False))
        self.answered = 0
        self.seconds = 0.0
        self.held = False
        self.outbox: list[bytes] = []
        self.asked: _Asked | None = None


class Asking:
    """The answers of all agents.

    Args:
        agents: The agents. One that has a true attribute `in_order` is asked only when its turn has come: its
            `get_action` does what cannot be taken back.
        names: Their names.
        config: The block `parallel`.
        workers: How many workers may answer; 0: none.
        streams: Streams of process-wide generators.
        record: Takes what happens.
    """

    def __init__(
        self,
        agents: Sequence[Any],
        names: Sequence[str],
        config: Parallel,
        workers: int,
        streams: OwnedStreams,
        record: Record,
    ) -> None:
        self._config, self._streams, self._record, self._names = config, streams, record, list(names)
        self._all = [_Agent(number, agent) for number, agent in enumerate(agents)]
        self._workers = min(workers, len(self._all))
        self._pool: Pool | None = None
        self._copies = 0  # that have been brought there
        self._priced = config.num_workers is None

    def take_in(self, number: int, agent: Any) -> None:
        """Another object takes the place of an agent."""
        each = self._all[number]
        each.agent, each.replica, each.asked = agent, None, None
        each.in_order |= bool(getattr(agent, "in_order", False))

    def ask_all(self, world: Any, numbers: Sequence[int]) -> None:
        """Asks the agents that can act as a turn begins.

        Args:
            world: What they see.
            numbers: Those that are in play.
        """
        begin, copies = perf_counter(), self._copies
        chosen = [self._all[number] for number in sorted(numbers) if self._goes_to_pool(self._all[number])]
        calls = {each.number: call for each in chosen if (call := self._call(each, world)) is not None}
        if not calls or self._pool is None:
            return
        self._record.asked += len(calls)
        with self._streams.shielded():
            outcomes = self._pool.call("ask", calls, outcomes=True)
        for number, (answer, error) in outcomes.items():
            each = self._all[number]
            each.held, each.outbox = False, []
            assert each.asked is not None
            each.asked.answer = answer
            if error is None and answer.wrote:
                each.asked = None
                self._in_order(each, NotSendable("its get_action writes to the observation"))
            if error is not None:
                each.asked = None
                if isinstance(error, WorkerLost) or not isinstance(error, Exception) or self._config.use_threads:
                    self._in_order(each, error)
                else:
                    each.replica = None  # what `get_action` raises it raises again when its turn comes, or never
        if not self._priced and copies == self._copies:
            self._tell_price(perf_counter() - begin, list(calls))

    def action(self, number: int, seen: Any) -> Any:
        """The action of an agent whose turn has come and who sees this. It has its streams."""
        each = self._all[number]
        asked, each.asked = each.asked, None
        if asked is not None and asked.answer is not None:
            if self._holds(each, asked, seen):
                assert each.replica is not None
                each.held = True
                each.replica.apply(asked.answer.changes)
                if asked.answer.states is not None:
                    self._streams.put(each.owner, asked.answer.states)
                return asked.answer.action
            self._record.asked_again += 1
        begin = perf_counter()
        action = each.agent.get_action(seen)
        each.seconds += perf_counter() - begin
        each.answered += 1
        return action

    def close(self) -> None:
        """Ends the workers."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _holds(self, each: _Agent, asked: _Asked, seen: Any) -> bool:
        assert each.replica is not None
        if changed := each.replica.changes():  # by another agent, in this turn
            each.outbox.append(changed)
            return False
        return alike(seen, asked.seen) and self._streams.states(each.owner) == asked.states

    # -- asking ------------------------------------------------------------------------------------------------

    def _goes_to_pool(self, each: _Agent) -> bool:
        if not self._workers or each.in_order:
            return False
        if self._config.num_workers is None and not self._pays(each):
            return False
        if not self._config.use_threads:
            return self._is_there(each)
        if not each.answered:
            return False  # first it has to be seen whether it draws
        if each.owner in self._streams.have_drawn():
            why = "draws from process-wide random generators, and draws on threads cannot be told apart. Use processes"
            self._record.note(f"{self._names[each.number]} is asked in order: it {why} (use_threads: false)")
            each.in_order = True
            return False
        return self._is_there(each)

    def _tell_price(self, took: float, numbers: Sequence[int]) -> None:
        """Says what a turn costs that is asked in workers because the user wants it, if it costs more than in order."""
        assert self._pool is not None
        self._priced = True
        with self._streams.shielded():
            answers = self._pool.call("took", dict.fromkeys(numbers, ()), record=False, outcomes=True)
        answering = sum(seconds for seconds, error in answers.values() if error is None)
        if took > answering:
            self._record.note(
                f"parallel_actions costs more than it saves: to ask {len(numbers)} agents in workers took "
                f"{took * 1e3:.1f} ms in a turn, and their answers {answering * 1e3:.1f} ms of it; num_workers: null "
                "asks them in order where that is so"
            )

    def _pays(self, each: _Agent) -> bool:
        if each.answered < _LOOK:
            return False
        if each.seconds / each.answered >= _PAYS:
            return True
        self._record.note(
            f"agents are asked in order where an answer takes less than {_PAYS * 1e3:g} ms: a worker would not be "
            "faster; num_workers says otherwise"
        )
        each.in_order = True
        return False

    def _is_there(self, each: _Agent) -> bool:
        """Whether there is a copy of the agent in the pool; it is brought there if there is none."""
        if each.replica is not None and each.method == _method(each.agent):
            return True
        if each.replica is not None:
            self._in_order(each, NotSendable("it has another class, or its class has another get_action"))
            return False
        try:
            pool = self._started()
            replica = Replica(each.agent, "main")
            names = pool.call("begin", {each.number: (Sent(each.agent),)})[each.number]
            if names != replica.names():
                raise NotSendable("a pickled copy of it is not built like the agent")
        except Exception as error:
            self._in_order(each, error)
            return False
        each.replica, each.method, each.held, each.outbox = replica, _method(each.agent), False, []
        self._copies += 1
        return True

    def _started(self) -> Pool:
        if self._pool is None:
            threads = self._config.use_threads
            try:
                self._pool = Pool(
                    [Copy] * len(self._all),
                    backend="thread" if threads else "process",
                    workers=self._workers,
                    restarts=2,
                    deadline=None if threads else self._config.deadline,
                )
            except (PlanNotMet, OSError):
                self._workers = 0
                raise
        return self._pool

    def _in_order(self, each: _Agent, error: BaseException) -> None:
        each.in_order, each.replica = True, None
        self._record.note(f"{self._names[each.number]} is asked in order: {type(error).__name__}: {error}")

    def _call(self, each: _Agent, world: Any) -> tuple[Any, ...] | None:
        """What an agent is asked; None: it cannot act now, or looking around changes it, so it is asked in order."""
        assert each.replica is not None
        if changed := each.replica.changes():
            each.outbox.append(changed)
        each.asked = self._tried(each, world)
        if each.replica.propose():
            each.replica.revert()
            each.asked = None
            self._in_order(each, NotSendable("its pov or can_act changes the agent, and cannot be tried"))
        if each.asked is None:
            return None
        return each.held, each.outbox, each.asked.seen, None if self._config.use_threads else each.asked.states

    def _tried(self, each: _Agent, world: Any) -> _Asked | None:
        """What an agent would see now; the streams of all stand where they stood. None: it cannot act, or look."""
        before = {owner: self._streams.states(owner) for owner in ("world", each.owner)}
        try:
            with self._streams.of("world"):
                if not can_act(each.agent):
                    return None
            with self._streams.of(each.owner):
                seen = each.agent.pov(world)
            return _Asked(seen, self._streams.states(each.owner), None)
        except Exception:
            return None  # it raises again when its turn comes, or never
        finally:
            for owner, states in before.items():
                self._streams.put(owner, states)


def _method(agent: Any) -> tuple[type, Any]:
    """The class of an agent, and how that chooses: what a copy does not learn of when it is changed."""
    return type(agent), getattr(type(agent), "get_action", None)


def can_act(agent: Any) -> bool:
    """Whether an agent moves; one that does not say does."""
    can = getattr(agent, "can_act", True)
    return bool(can() if callable(can) else can)
