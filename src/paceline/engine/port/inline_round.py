"""A round of members that all live in the caller's process, in one frame.

Elsewhere a round is a post and a wait: a dozen calls that mark, ring, watch and fetch. Here nobody looks on while marks
are set, and the calls alone would take longer than two small envs do. So whatever stays the same from round to round
is held in the names of one function, which is made anew when something has stirred, and the rest is written out.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paceline.engine.host.bound_port import Raised
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.pool.one_thread import in_use
from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.torch_import import TORCH_IMPORT

if TYPE_CHECKING:
    from paceline.engine.host.bound_port import BoundPort
    from paceline.engine.port.port import Port
    from paceline.engine.randomness.isolation import Swapping
    from paceline.engine.supervisor.supervisor import Crew

_ROUNDS_PER_CLOCK = 16  # how often the pilot is asked whether it is time to measure again

Straight = Callable[[], bool]
"""Runs everybody. False: nobody has been run, as that cannot be done in this way now."""


def straight_round(crew: Crew, port: Port, bound: BoundPort, isolation: Swapping) -> Straight:
    """Makes such a round for a port that is bound in this process, with all its members."""
    stirs, book, log, answers, pilot = crew.stirs, port.book, port.book.log, port.answers, crew.pilot
    calls, everyone, marks, many, clock = bound.calls, book.ones, book.waiting, len(book.members), port.clock

    def run() -> bool:
        rounds = port.rounds + 1
        if crew.stirs != stirs or not bound.straight or book.outstanding or rounds >= clock.next_look:
            return False
        if not rounds % _ROUNDS_PER_CLOCK and pilot is not None and not port.pilot_rests():
            return False
        me, outer = get_ident(), crew.inside
        if outer is not None and outer != me:
            raise in_use()
        crew.inside = me  # without a call until the try: nothing can come between
        if answers.extras or answers.errors:
            answers.extras, answers.errors = {}, {}
        said: dict[int, Any] = {}
        watched, threads = False, 1
        try:
            threads = TORCH_IMPORT.threads()
            if threads != 1:
                TORCH_IMPORT.hold(threads)
            book.outstanding = many  # from here on: if we are interrupted, the round is void
            book.waiting = everyone  # in place of marks that would have to be set and taken back
            before = GENERATORS.peek()
            if before != isolation.outside_peek:
                isolation.watch()
            watched = True
            for item, call in calls:
                try:
                    result = call()
                except BaseException as error:
                    result = Raised(error)
                if result is not None:
                    said[item] = result
                    if bound.ends(result):
                        break
            if said or GENERATORS.peek() != before:
                marks[:], book.waiting = everyone, marks
                log.ring(None)
                bound.vouch_for_all(said, before)
                port.wait()
            else:
                log.rung_and_served()
                book.waiting, book.outstanding, port.rounds = marks, 0, rounds
        except BaseException:
            _give_up(port, marks, isolation if watched else None)
            raise
        finally:
            if threads != 1:
                TORCH_IMPORT.release(threads)
            crew.inside = outer
        return True

    return run


def _give_up(port: Port, marks: bytearray, watching: Swapping | None) -> None:
    """We were interrupted, or somebody raised: what is still under way never took place."""
    book = port.book
    with UNINTERRUPTED:  # whoever is impatient and interrupts again would find half of it done
        if book.waiting is book.ones:
            marks[:], book.waiting = book.ones, marks
        if watching is not None:
            watching.put_back()  # somebody may have drawn, and nobody has looked
        if book.outstanding:
            port.cancel(keep=False)  # nobody will come back for it


def not_here() -> bool:
    """A round that cannot be run in this way."""
    return False
