"""Calls of members that all live in the caller's process: made one after another, and answered at once.

    packed ──► made, one by one ──► into the journals ──► a handle, answered

Elsewhere a call is a line of a message, which is kept until its answer has come. Here there is nothing to wait for:
calls are made as a host makes those of a message (ordinary_calls.py), and journals take them in, but no request and no
reply is made of them. Whatever is out of the ordinary is left to messages: such a call is not made, and must be posted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from paceline.engine.host.member import OK, Result
from paceline.engine.host.ordinary_calls import allows_ordinary_calls, make_ordinary_calls
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.randomness.torch_import import TORCH_IMPORT
from paceline.engine.supervisor.handle import Handle, Request
from paceline.engine.supervisor.roster import Slot
from paceline.engine.transport import codec

if TYPE_CHECKING:
    from paceline.engine.host.host import Host
    from paceline.engine.supervisor.supervisor import Crew

Calls = Mapping[int, codec.Packed]
"""Member → packed arguments."""

Take = Callable[[Handle], None]
"""Keeps the answers of the calls that have been made."""


def run_straight(crew: Crew, slot: Slot, method: str, calls: Calls, take: Take) -> None:
    """Makes the calls that take no message, and gives `take` what came of them.

    Args:
        crew: Of the members.
        slot: What `where_all_live_here` has given.
        method: What is called.
        calls: Of whom, with what.
        take: Told once, if any call has been made.

    Raises:
        Closed: a member has closed its own pool in the middle of its call.
    """
    stirs, results, over = crew.stirs, [], False  # type: int, list[Result], bool
    slot.suspect, crew.suspicious, slot.doing = True, True, f"{method}()"  # until what was run is in the journals
    try:
        TORCH_IMPORT.on_one_thread(_make, crew, slot.worker.host, method, calls, results)
        over = True
    except KeyboardInterrupt as error:  # without the frames that hold members, who may be about to be rebuilt
        raise error.with_traceback(None) from None
    finally:
        with UNINTERRUPTED:
            crew.runs_here = False  # again, if Ctrl-C came just then
            if crew.stirs == stirs:
                handle = _journaled(crew, slot, method, calls, results)
                slot.suspect = crew.suspicious = not over  # if we were interrupted, they are rebuilt from there
                if len(handle):
                    take(handle)
                    crew.shortening.shorten([crew.members[result[0]] for result in results])
            elif over:  # a member has closed the pool in the middle of its call
                crew.check_open()


def where_all_live_here(crew: Crew) -> Slot | None:
    """The slot of everybody, if that is in this process and nothing else is going on."""
    if crew.closed or crew.suspicious or crew.ports or crew.trace is not None or crew.busy:
        return None
    numbers = {member.slot for member in crew.members}
    slot = crew.slots[numbers.pop()] if len(numbers) == 1 else None
    if slot is None or slot.worker is None or slot.worker.backend != "inline":
        return None
    return slot if allows_ordinary_calls(slot.worker.host) and (crew.pilot is None or crew.pilot.rests) else None


def _make(crew: Crew, host: Host, method: str, calls: Calls, results: list[Result]) -> None:
    """Makes what is ordinary, all of it by the same host."""
    left = iter(calls.items())
    crew.runs_here = True
    try:
        while make_ordinary_calls(host, method, left, results) is not None:
            continue  # that one has to be posted
    finally:
        crew.runs_here = False


def _journaled(crew: Crew, slot: Slot, method: str, calls: Calls, results: list[Result]) -> Handle:
    """Takes results into the journals, and gives them as a post does that has been answered. Hot."""
    members, plain, odd = crew.members, list[Result](), list[Result]()
    for result in results:
        index, kind, payload, check, base = result
        if kind == OK and base is None:  # as nearly always
            members[index].journal.add(("call", method, calls[index], payload if check is None else check), None)
            plain.append(result)
        else:
            odd.append(result)
    handle = Handle(crew.hearing.pump, [result[0] for result in results])
    handle.take_all(plain)
    for result in odd:
        request = Request("call", {result[0]: calls[result[0]]}, method=method, record=True, handle=handle)
        crew.hearing.take_result(slot, request, result)
    return handle
