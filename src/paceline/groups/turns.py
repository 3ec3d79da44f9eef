"""Turns under way: from an input to the trajectory that it becomes a part of.

    post(inputs) ──► tickets ──► turn() of the members: here at once, elsewhere by a message per worker and part
                                   └──► answers ──► taken into trajectories

Answers are taken in as they come. A trajectory has turns of its own only, so the order of arrival changes nothing; two
turns of one environment are answered in the order in which they were posted.
"""

from __future__ import annotations

import logging
import operator
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from paceline.engine import Handle, Pool, wait_for_any
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.supervisor.handle import Found
from paceline.errors import BadInput, Closed, PlanNotMet, SharedRandomness
from paceline.groups.trajectory import Said, Trajectory
from paceline.run import Seconds, checked
from paceline.types import Failure

_LATE = ("wait", "truncate")
_PARTS, _SMALLEST = 2, 32  # in how many parts turns are sent, and how many are not worth another message
_TELL = 5  # failures of a kind that are told one by one
_TAKEN, _HANDLE, _CLOCK = (operator.attrgetter(name) for name in ("taken", "handle", "clock"))
_told: Counter[str] = Counter()
_log = logging.getLogger("paceline")


class Ticket:
    """One input on its way.

    Attributes:
        trajectory: Whose turn it is.
        said: The input.
        plain: Whether its actions are strings and nothing more, so that equal ones are the same.
        handle: Where the answer will be, or is; None if it has not been sent, or will not be: the trajectory was over.
        clock: Where the seconds that the turn took will be, if they count.
        taken: Whether the answer has been taken in.
        done: Whether the trajectory was over with it.
    """

    __slots__ = ("clock", "done", "handle", "plain", "said", "taken", "trajectory")

    def __init__(self, trajectory: Trajectory, said: Said, plain: bool) -> None:
        self.trajectory, self.said, self.plain = trajectory, said, plain
        self.handle: Handle | None = None
        self.clock: Handle | None = None
        self.taken = self.done = False

    @property
    def env_id(self) -> int:
        """Which environment."""
        return self.trajectory.env_id


def ticket_of(given: Mapping[str, Any], trajectories: Sequence[Trajectory]) -> Ticket:
    """Reads one input.

    Raises:
        BadInput: it names no environment, or has no list of actions.
    """
    if not (type(given) is dict or isinstance(given, Mapping)):  # the usual first: an ABC's check is slow
        raise BadInput(f"an input is a {type(given).__name__}; give a dict with env_id and actions")
    env_id, actions = given.get("env_id"), given.get("actions")
    number = env_id if type(env_id) is int else whole(env_id)
    if number is None or not 0 <= number < len(trajectories):
        raise BadInput(f"env_id is {env_id!r}; there are environments 0 to {len(trajectories) - 1}")
    if not isinstance(actions, (list, tuple)):  # not `list | tuple`: made at every turn
        raise _no_words(number, actions)
    plain = True
    for action in actions:
        if type(action) is not str:
            plain = False
            if not isinstance(action, str):
                raise _no_words(number, actions)
    response = given.get("llm_response", "")
    # A tuple of its own: the caller may use the list again while the turn is on its way.
    said = (*actions,), response, given.get("llm_raw_response", response)
    return Ticket(trajectories[number], said, plain)


def _no_words(number: int, actions: Any) -> BadInput:
    return BadInput(f"the actions of environment {number} are {actions!r:.60}; give a list of strings")


def check_straggling(quorum: float | None, deadline: float | None, late: str = "wait") -> None:
    """Raises `BadInput` for what makes no sense."""
    if quorum is not None and not 0 < quorum <= 1:
        raise BadInput(f"quorum={quorum}; give a share above 0, up to 1")
    checked("deadline", Seconds | None, deadline)
    if late not in _LATE:
        raise BadInput(f"late={late!r}; give 'wait' or 'truncate'")


def whole(value: Any) -> int | None:
    """A whole number, of Python or NumPy; None for anything else, flags too."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


@dataclass(eq=False)
class Part:
    """Tickets that are sent together.

    Attributes:
        tickets: One of an environment at the most.
        packed: Environment → what its member is asked with.
        apart: Whether each can be answered by itself.
        limit: Seconds that each turn may take; None: as the pool has it.
    """

    tickets: list[Ticket]
    packed: dict[int, Any]
    apart: bool
    limit: float | None

    def calls_of(self, tickets: Sequence[Ticket]) -> dict[int, Any]:
        """What those of its tickets that are left ask."""
        if len(tickets) == len(self.packed):
            return self.packed
        return {ticket.env_id: self.packed[ticket.env_id] for ticket in tickets}


class Turns:
    """Posts turns to a pool, and takes their answers into trajectories.

    Args:
        pool: Where the environments live.
        penalty: What a turn with invalid actions costs.
        limited: Whether some trajectories have limits of their own, in seconds.
    """

    def __init__(self, pool: Pool, penalty: float, *, limited: bool) -> None:
        self._pool, self._penalty, self._limited = pool, penalty, limited
        self.pending: list[Ticket] = []
        self._unsent: deque[Part] = deque()
        self._told_of_late = False

    def post(self, tickets: Sequence[Ticket], *, apart: bool = False) -> None:
        """Sends tickets on their way: an environment that is named again gets its second turn after the first.

        They are under way from the beginning: what an interrupt has kept from being sent is sent by whoever waits next.
        If one of them cannot be sent, nobody's turn is.
        """
        parts = [
            Part(some, self._pool.pack(_calls(some)), apart, self._limit(some[0])) for some in self._parts(tickets)
        ]
        with UNINTERRUPTED:
            for part in parts:
                self._unsent.append(part)
                self.pending += part.tickets
        if parts:
            self._begin(parts)
            self._go_on()

    def _begin(self, parts: list[Part]) -> None:
        try:
            self._pool.round_begins()
        except Exception:  # what was kept back before can still be sent
            self._forget(parts)
            raise

    def _go_on(self) -> None:
        """Sends what has not been sent; what can be played here is played at once. What cannot be sent is forgotten."""
        try:
            while self._unsent:
                part = self._unsent[0]
                if not part.apart:
                    self._play(part)
                self._send(part)
        except Exception:
            self._forget(list(self._unsent))
            raise

    def _forget(self, parts: list[Part]) -> None:
        with UNINTERRUPTED:
            for part in parts:
                self._unsent.remove(part)
            gone = {id(ticket) for part in parts for ticket in part.tickets if ticket.handle is None}
            self.pending = [ticket for ticket in self.pending if id(ticket) not in gone]

    def _play(self, part: Part) -> None:
        tickets = _left(part.tickets)

        def keep(handle: Handle) -> None:
            everybody = len(handle) == len(tickets)
            for ticket in tickets:
                if everybody or handle.has(ticket.trajectory.env_id):
                    ticket.handle = handle

        self._pool.run_here("turn", part.calls_of(tickets), keep)

    def _send(self, part: Part) -> None:
        with UNINTERRUPTED:  # else a turn could be played, and nobody would know
            tickets = _left(part.tickets)
            if tickets:
                handle = self._pool.post_packed("turn", part.calls_of(tickets), deadline=part.limit, apart=part.apart)
                for ticket in tickets:
                    ticket.handle = handle
            if self._limited:
                self._send_clocks(part)
            self._unsent.popleft()

    def _send_clocks(self, part: Part) -> None:
        """Behind their turns: turns themselves must not tell how long they took, or none could be compared."""
        timed = [ticket for ticket in part.tickets if ticket.trajectory.time_limit is not None and not ticket.taken]
        if timed:
            calls = self._pool.pack({ticket.env_id: () for ticket in timed})
            handle = self._pool.post_packed("took", calls, record=False, apart=part.apart)
            for ticket in timed:
                ticket.clock = handle

    def _parts(self, tickets: Sequence[Ticket]) -> Iterator[list[Ticket]]:
        """What is sent together: while workers play one part, the next is packed, and the one before is taken in."""
        here = self._pool.place == "inline"
        size = max(len(tickets) if here else -(-len(tickets) // _PARTS), _SMALLEST)
        for wave in self._waves(tickets):
            for turns in self._alike(list(wave.values())):
                yield from (turns[start : start + size] for start in range(0, len(turns), size))

    def _alike(self, tickets: list[Ticket]) -> Iterable[list[Ticket]]:
        """By the seconds that a turn of theirs may take."""
        if not self._limited:
            return (tickets,)
        alike: dict[float | None, list[Ticket]] = {}
        for ticket in tickets:
            alike.setdefault(self._limit(ticket), []).append(ticket)
        return alike.values()

    def _limit(self, ticket: Ticket) -> float | None:
        """Seconds that a turn may take; in the caller's process nothing could end it."""
        return ticket.trajectory.deadline if self._limited and self._pool.place != "inline" else None

    def _waves(self, tickets: Sequence[Ticket]) -> list[dict[int, Ticket]]:
        """First turns, second turns …, by environment."""
        waves: list[dict[int, Ticket]] = [{}]
        for ticket in tickets:
            trajectory = ticket.trajectory
            if trajectory.status.terminated:
                self._come_late(ticket)
                continue
            number = 0
            while trajectory.env_id in waves[number]:
                number += 1
                if number == len(waves):
                    waves.append({})
            waves[number][trajectory.env_id] = ticket
        return [wave for wave in waves if wave]

    def wait(self, tickets: Sequence[Ticket], goal: int, timeout: float | None) -> None:
        """Takes answers in until `goal` of the tickets have theirs, or `timeout` seconds have passed."""
        end = None if timeout is None else monotonic() + timeout
        self._go_on()
        handles = self._handles(tickets)
        if len(self.pending) > len(tickets):  # stragglers of earlier calls too
            wait_for_any(self._handles(self.pending), 0.0)
        self._take_in()
        while sum(map(_TAKEN, tickets)) < goal:
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                return
            wait_for_any(handles, left)
            self._take_in()
        if handles and not self.pending:
            self._pool.round_over(*handles)

    def cut(self, tickets: Sequence[Ticket], why: str) -> None:
        """Ends the trajectories of those that have not been answered."""
        for ticket in tickets:
            if not ticket.taken:
                ticket.trajectory.cut(why)
        self.drop_the_cut()

    def drop_the_cut(self) -> None:
        """Nobody waits any more for turns of trajectories that were cut: whoever hangs in one is ended."""
        for ticket in self.pending:
            if ticket.trajectory.status.cut:
                ticket.taken = ticket.done = True
                if ticket.handle is not None:
                    self._pool.give_up(ticket.handle, [ticket.env_id])
        self.pending = [ticket for ticket in self.pending if not ticket.taken]

    def finish(self) -> None:
        """Waits for everything under way."""
        self.wait(self.pending, len(self.pending), None)

    def _handles(self, tickets: Sequence[Ticket]) -> list[Handle]:
        handles = dict.fromkeys(map(_HANDLE, tickets))
        if self._limited:
            handles |= dict.fromkeys(map(_CLOCK, tickets))
        return [handle for handle in handles if handle is not None]

    def _come_late(self, ticket: Ticket) -> None:
        ticket.trajectory.status.late += 1
        ticket.taken = ticket.done = True
        if not self._told_of_late:
            self._told_of_late = True
            _log.warning("environment %d was done already: inputs after the end do nothing", ticket.env_id)

    def _take_in(self) -> None:
        """In the order of the posts: nobody's second turn before the first."""
        waiting: set[int] = set()
        failed: list[Trajectory] = []
        problem = None
        with UNINTERRUPTED:
            try:
                for ticket in self.pending:
                    env_id, handle = ticket.trajectory.env_id, ticket.handle
                    outcome = None if handle is None or (waiting and env_id in waiting) else handle.found(env_id)
                    if outcome is None or (ticket.clock is not None and not ticket.clock.has(env_id)):
                        waiting.add(env_id)
                    else:
                        raised = self._take(ticket, outcome, failed)
                        problem = problem or raised
            finally:  # pictures without Pillow, say: nobody's turn is entered twice
                self.pending = [ticket for ticket in self.pending if not ticket.taken]
        for trajectory in failed:
            tell_of(trajectory)
        if problem is not None:
            raise problem

    def _take(self, ticket: Ticket, outcome: Found, failed: list[Trajectory]) -> BaseException | None:
        """Enters a turn in its trajectory. Gives back what is wrong with the plan, which is nobody's outcome."""
        ticket.taken = True
        trajectory = ticket.trajectory
        status = trajectory.status
        answer, error = outcome
        over = status.terminated
        if status.cut:
            pass  # nobody waits for it any more
        elif error is None:
            trajectory.take(answer, ticket.said, self._penalty)
        elif is_of_the_plan(error):
            return error
        else:
            trajectory.lose(Failure.of(trajectory.read(error), step=status.num_actions), ticket.said)
        if ticket.clock is not None and (clock := ticket.clock.outcome(ticket.env_id)).error is None:
            trajectory.spend(clock.answer)
        ticket.done = status.terminated
        if status.failure is not None and not over:
            failed.append(trajectory)
        return None


def _left(tickets: Sequence[Ticket]) -> list[Ticket]:
    """Those that have not been sent, and are still to be."""
    return [ticket for ticket in tickets if ticket.handle is None and not ticket.taken]


def _calls(tickets: Sequence[Ticket]) -> dict[int, tuple[Any, ...]]:
    """Who says the same is given one object, which is packed once: agents have few words."""
    calls: dict[int, tuple[Any, ...]] = {}
    known: dict[Sequence[str], tuple[Any, ...]] = {}
    for ticket in tickets:
        actions = ticket.said[0]
        calls[ticket.trajectory.env_id] = known.setdefault(actions, (actions,)) if ticket.plain else (actions,)
    return calls


def is_of_the_plan(error: BaseException) -> bool:
    """Whether that is wrong with the plan, and nothing that happened to one environment."""
    return isinstance(error, SharedRandomness | PlanNotMet | Closed)


def tell_of(trajectory: Trajectory) -> None:
    """Says that a trajectory has failed."""
    failure = trajectory.status.failure
    assert failure is not None
    env_id, group_id, tag = (trajectory.cache[key] for key in ("env_id", "group_id", "tag"))
    words = failure.message.partition("\n")[0]
    _told[failure.kind] += 1
    level = logging.WARNING if _told[failure.kind] <= _TELL else logging.DEBUG
    if _told[failure.kind] == _TELL + 1:
        _log.warning("more trajectories end in %s; their records say where and why", failure.kind)
    _log.log(level, "environment %d (group %d, %s) ended in %s: %s", env_id, group_id, tag, failure.kind, words)
