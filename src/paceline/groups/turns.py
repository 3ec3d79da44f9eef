"""Turns under way: from an input to the trajectory that it becomes a part of.

    post(inputs) ──► tickets ──► turn() of the members, one message per worker ──► wait ──► taken into trajectories

Answers are taken in as they come. A trajectory has turns of its own only, so the order of arrival changes nothing; two
turns of one environment are answered in the order in which they were posted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from paceline.engine import Handle, Outcome, Pool, wait_for_any
from paceline.groups.member import Turned
from paceline.groups.trajectory import Trajectory

_log = logging.getLogger("paceline")


@dataclass(eq=False)
class Ticket:
    """One input on its way.

    Attributes:
        trajectory: Whose turn it is.
        given: The input.
        handle: Where the answer will be; None if it was not sent, because the trajectory was over.
        taken: Whether the answer has been taken in.
        done: Whether the trajectory was over with it.
    """

    trajectory: Trajectory
    given: Mapping[str, Any]
    handle: Handle | None = None
    taken: bool = False
    done: bool = False

    @property
    def env_id(self) -> int:
        """Which environment."""
        return self.trajectory.env_id


class Turns:
    """Posts turns to a pool, and takes their answers into trajectories."""

    def __init__(self, pool: Pool, penalty: float) -> None:
        self._pool, self._penalty = pool, penalty
        self.pending: list[Ticket] = []
        self._told_of_late = False

    def post(self, tickets: Sequence[Ticket], *, apart: bool = False) -> None:
        """Sends tickets on their way: an environment that is named again gets its second turn in a second message."""
        waves: dict[int, list[Ticket]] = {}
        seen: Counter[int] = Counter()
        for ticket in tickets:
            if ticket.trajectory.over:
                self._come_late(ticket)
                continue
            waves.setdefault(seen[ticket.env_id], []).append(ticket)
            seen[ticket.env_id] += 1
        for _, wave in sorted(waves.items()):
            calls = {ticket.env_id: (list(ticket.given["actions"]),) for ticket in wave}
            handle = self._pool.post("turn", calls, apart=apart)
            for ticket in wave:
                ticket.handle = handle
        self.pending += [ticket for ticket in tickets if ticket.handle is not None]

    def wait(self, tickets: Sequence[Ticket], goal: int, timeout: float | None) -> None:
        """Takes answers in until `goal` of the tickets have theirs, or `timeout` seconds have passed."""
        end = None if timeout is None else monotonic() + timeout
        handles = _handles(tickets)
        wait_for_any(_handles(self.pending), 0.0)  # stragglers of earlier calls too
        self._take_in()
        while sum(ticket.taken for ticket in tickets) < goal:
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                return
            wait_for_any(handles, left)
            self._take_in()
        if handles and not self.pending:
            self._pool.round_over(*handles)

    def cut(self, tickets: Sequence[Ticket], why: str) -> None:
        """Ends the trajectories of those that have not been answered; their answers will be dropped."""
        for ticket in tickets:
            if ticket in self.pending:
                ticket.trajectory.cut(why)
                ticket.taken = ticket.done = True
        self.pending = [ticket for ticket in self.pending if not ticket.taken]

    def forget(self) -> None:
        """Drops everything under way: it belongs to episodes that are over."""
        self.pending.clear()

    def _come_late(self, ticket: Ticket) -> None:
        ticket.trajectory.status.late += 1
        ticket.taken = ticket.done = True
        if not self._told_of_late:
            self._told_of_late = True
            _log.warning("environment %d was done already: inputs after the end do nothing", ticket.env_id)

    def _answers(self) -> Iterator[tuple[Ticket, Outcome]]:
        by_handle: dict[Handle, list[Ticket]] = {}
        for ticket in self.pending:
            assert ticket.handle is not None
            by_handle.setdefault(ticket.handle, []).append(ticket)
        for handle, tickets in by_handle.items():
            outcomes = handle.outcomes([ticket.env_id for ticket in tickets])
            yield from ((ticket, outcomes[ticket.env_id]) for ticket in tickets if ticket.env_id in outcomes)

    def _take_in(self) -> None:
        for ticket, outcome in self._answers():
            if ticket.trajectory.status.cut:
                pass  # nobody waits for it any more
            elif outcome.error is not None:
                fail(ticket.trajectory, outcome.error, ticket.given)
            else:
                ticket.trajectory.take(Turned(*outcome.answer), ticket.given, self._penalty)
            ticket.taken, ticket.done = True, ticket.trajectory.over
        self.pending = [ticket for ticket in self.pending if not ticket.taken]


def _handles(tickets: Sequence[Ticket]) -> list[Handle]:
    return list(dict.fromkeys(ticket.handle for ticket in tickets if ticket.handle is not None))


def fail(trajectory: Trajectory, error: BaseException, given: Mapping[str, Any] | None) -> None:
    """Ends a trajectory with an error, and says so."""
    trajectory.fail(error, given)
    env_id, group_id, tag = (trajectory.cache[key] for key in ("env_id", "group_id", "tag"))
    words = str(error).partition("\n")[0]
    _log.warning("environment %d (group %d, %s) ended in %s: %s", env_id, group_id, tag, type(error).__name__, words)
