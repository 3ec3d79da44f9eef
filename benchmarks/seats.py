"""A contestant's side of a race: what it brings, and the lines that it exchanges with `lanes.py`.

    stdin:            build    slice S            (end of file: close, and leave)
    stdout: imported    ready    seconds per step      or, at any time: absent, and why

Imports the standard library only: a contestant is a process, and brings its own version of everything else.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

_WARM_AGAIN = 0.03  # seconds: a contestant has been idle while the others had their turns


@dataclass(frozen=True)
class Seat:
    """A contestant with its envs.

    Attributes:
        step: A call that is timed.
        close: Ends everything.
        steps: Env steps of such a call.
        before: A call before each `step` that is not timed.
        rest: Seconds after a slice until its processes are idle: the next contestant must not be disturbed.
        warm: Seconds that it needs before it is what it is.
        says: What it has to say about itself.
        warm_again: Whether a slice begins with a few calls that do not count. A call of a second needs none.
    """

    step: Callable[[], Any]
    close: Callable[[], Any]
    steps: int
    before: Callable[[], Any] | None = None
    rest: float = 0.0
    warm: float = 0.0
    says: Callable[[], str] = str
    warm_again: bool = True


def run_for(step: Callable[[], Any], seconds: float, before: Callable[[], Any] | None = None) -> float:
    """Seconds per call; there is at least one. The clock stands still during `before`."""
    begin, count, elapsed = time.perf_counter(), 0, 0.0
    while elapsed < seconds or not count:
        if before is not None:
            before()
            begin = time.perf_counter() - elapsed
        step()
        count, elapsed = count + 1, time.perf_counter() - begin
    return elapsed / count


def serve_slices(line: TextIO, seat: Seat, warm: float) -> None:
    """Warms up, and answers every line of stdin with a slice of so many seconds; closes at the end of stdin."""
    run_for(seat.step, max(warm, seat.warm), seat.before)
    time.sleep(seat.rest)
    say(line, ready=seat.says())
    for asked in sys.stdin:
        if seat.warm_again:
            run_for(seat.step, _WARM_AGAIN, seat.before)
        found = run_for(seat.step, float(asked), seat.before) / seat.steps
        time.sleep(seat.rest)
        say(line, seconds=found)
    seat.close()


def say(line: TextIO, **answer: Any) -> None:
    print(json.dumps(answer), file=line, flush=True)


def own_line() -> TextIO:
    """A line for answers alone: from here on everything that is printed goes to the log."""
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return line
