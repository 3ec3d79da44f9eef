"""Ordinary calls: made one after another in one frame, which is most of what a host does.

An ordinary call is one of a member that stands, that has made such a call before without drawing from a process-wide
generator, and that is given little. Its arguments and its answer pass through a pickle, and generators are looked at
afterwards, as for any call; but the way there is short. That counts: between two calls a member's code has filled the
processor's caches with its own. Whatever is out of the ordinary is left to `Host`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

from paceline.engine.host.member import Result
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.isolation import Swapping
from paceline.engine.transport import codec

if TYPE_CHECKING:
    from paceline.engine.host.host import Host

Call = tuple[int, codec.Packed]
"""Of which member, with what arguments."""


def allows_ordinary_calls(host: Host) -> bool:
    """Whether there can be any: not beside other members on threads, nor where every call is traced."""
    return type(host.isolation) is Swapping and host.crowd is None and not host.traced


def make_ordinary_calls(host: Host, method: str, calls: Iterator[Call], results: list[Result]) -> Call | None:
    """Makes calls up to the first that is out of the ordinary. Hot.

    Args:
        host: Where the members live.
        method: What is called.
        calls: Of whom, with what.
        results: Takes what came of them: a call has been made when its result is there.

    Returns:
        The call that has not been made; None if all have.
    """
    seats, isolation, mark = host.seats, host.isolation, host.mark
    watched, seen = False, False
    assert isinstance(isolation, Swapping)
    try:
        for call in calls:
            index, packed = call
            seat = seats.get(index)
            if seat is None:  # it was lost while it was built
                return call
            streams, failed = seat.streams, None
            if type(packed) is not bytes or streams.isolated or method not in streams.quiet or seat.stale or seat.error:
                return call
            # What was seen after the last call still holds where nobody but members draws, or has run since.
            before = isolation.outside_peek if isolation.alone or seen else GENERATORS.peek()
            if not before or before != isolation.outside_peek:
                before = isolation.watch()
            watched, host.current = True, index
            if mark is not None:
                mark(index)
            try:
                answer = getattr(seat.value, method)(*pickle.loads(packed))
            except BaseException as error:
                if host.interrupted_by(error):
                    raise
                failed = error
            if GENERATORS.peek() != before and not isolation.quiet_since(before):
                isolation.put_back()
                seat.stale = True  # it drew from a stream that is not its own: that does not count
                failed = None
                return call
            result = host.success(seat, answer, True, None) if failed is None else host.mishap(seat, method, failed)
            results.append(result)
            seen = failed is None and result[4] is None and codec.names_no_class(result[2])
            failed = None  # it holds this frame: else all that its member had in hand would wait for the collector
    except BaseException:
        if watched:
            with UNINTERRUPTED:
                isolation.put_back()  # somebody may have drawn, and nobody has looked
        raise
    return None
