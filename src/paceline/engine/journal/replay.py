"""A member's journal, run again in a new place: each entry says how, and what must come out.

call   the method again; the answer must be the same
told   a member that is not deterministic is told its own answer
port   the packed inputs again; the outputs of every round must be the same
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from paceline.engine.host.member import Anew, Seat, ability
from paceline.engine.interrupts import was_pressed
from paceline.engine.journal.fingerprint import Echo, recognised
from paceline.engine.journal.journal import Stretch
from paceline.engine.journal.row_checks import RowChecks
from paceline.engine.randomness.isolation import Refusing, Shared, Stale, Swapping
from paceline.engine.transport import codec
from paceline.engine.transport.shared_memory import Array
from paceline.errors import MemberExit, NotData, ReplayDiverged, SharedRandomness, TooLarge
from paceline.seeds import check

_NEVER_SENT = [check(kind.__qualname__) for kind in (TooLarge, NotData)]  # answers that were refused, so never seen
_NOT_ITS_OWN = (*_NEVER_SENT, check(SharedRandomness.__qualname__))  # errors that a replay need not meet

_log = logging.getLogger("paceline")


def replay(
    isolation: Swapping | Refusing, seat: Seat, number: int, entry: tuple[Any, ...], begin: Callable[[int], None]
) -> None:
    """Runs one entry again. `begin` is told before every run: a deadline is that of one, however many there are."""
    begin(seat.index)
    if entry[0] == "port":
        _replay_port(isolation, seat, begin, *entry[1:])
    else:
        _WAYS[entry[0]](isolation, seat, number, *entry[1:])


def _replay_call(
    isolation: Swapping | Refusing, seat: Seat, number: int, method: str, packed: codec.Packed, expected: Echo
) -> None:
    try:
        args = codec.fresh(packed)
        answer = isolation.run(seat.streams, method, getattr(seat.value, method), args)
        answer = answer.answer if type(answer) is Anew else answer
        same = recognised(expected, answer)
    except (Stale, Shared):
        raise
    except SystemExit:
        same = expected == check(MemberExit.__qualname__)
    except BaseException as error:
        if was_pressed(error):
            raise
        same = expected == check(type(error).__qualname__)
    if not same and expected not in _NEVER_SENT:
        raise ReplayDiverged(_divergence(seat.index, f"call {number}, {method}(),"))


def _replay_told(
    isolation: Swapping | Refusing, seat: Seat, number: int, method: str, packed: codec.Packed, answer: codec.Packed
) -> None:
    """A member that is not deterministic is told what it answered; it is never asked again."""
    recall = ability(seat.value, "recall")
    if recall is not None:
        isolation.run(seat.streams, "recall", recall, (method, codec.fresh(packed), codec.fresh(answer)))


def _replay_port(
    isolation: Swapping | Refusing,
    seat: Seat,
    begin: Callable[[int], None],
    method: str,
    before: int,
    stretches: list[Stretch],
    inputs: list[Array],
    blanks: list[Array],
    alone: bool,
) -> None:
    function = getattr(seat.value, method)
    held = [np.array(blank) for blank in blanks]  # what a run leaves unwritten stays, as it did the first time
    outputs = [array[0, ...] for array in held] if alone else held
    size = len(held[0]) if held else 0
    kept = RowChecks(held, [size], max(count for count, _ in stretches))
    done = 0
    for count, expected in stretches:
        failed = 0
        for number in range(count):
            begin(seat.index)
            try:
                said = isolation.run(seat.streams, method, function, (*(rows[done, ...] for rows in inputs), *outputs))
                if expected is not None and expected < 0 and said is not None:
                    codec.pack(said.answer if type(said) is Anew else said)  # perhaps that is what failed
            except (Stale, Shared):
                raise
            except BaseException as error:
                if was_pressed(error):
                    raise
                _log.debug("member %d raised %s again in replay", seat.index, type(error).__name__)
                failed = check((MemberExit if isinstance(error, SystemExit) else type(error)).__qualname__)
            kept.keep(number)
            done += 1
        if not _as_before(expected, failed, kept, count):
            last = before + done
            runs = f"run {last}" if count == 1 else f"one of the runs {last - count + 1} to {last}"
            raise ReplayDiverged(_divergence(seat.index, f"{runs} of {method}()"))


def _as_before(expected: int | None, failed: int, kept: RowChecks, count: int) -> bool:
    """Whether a stretch put out what it did the first time, or failed as it did."""
    if expected is None:
        return True
    if expected < 0:
        return failed == -expected or -expected in _NOT_ITS_OWN
    return not failed and kept.checks(count) == [expected]


_WAYS: dict[str, Callable[..., None]] = {"call": _replay_call, "told": _replay_told}


def _divergence(index: int, what: str) -> str:
    return (
        f"member {index} was rebuilt after its worker was lost, and {what} gave another answer than before. "
        "It is not a function of its recipe and its calls (time? network? hash order? a generator that it was given no "
        "seed for?); `paceline doctor` looks for the cause. Declare it with deterministic=False if that is meant"
    )
