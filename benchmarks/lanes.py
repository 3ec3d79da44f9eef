"""Contestants in processes of their own, of whom one works at a time.

    Lane ──► python contestants.py {"name": …}       one line asks, one line answers; every wait has an end (seats.py)
      └──── ends the process, and whatever it has started, however it went

In one process they would disturb each other: what forks inherits everybody's memory, and whoever collects garbage looks
through everybody's objects.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from quiet import Quiet, Slices, interleave

from paceline.engine.planning.budget import crowded

Found = dict[str, Slices | str]
"""What came of each contestant: its slices, or why there are none."""

_PROGRAM = Path(__file__).with_name("contestants.py")
_LONGEST = 120.0  # seconds that an answer may take: a build of many processes on a busy machine
_CALM = 20.0  # seconds until the imports are forgotten, at the most
_GOODBYE = 3.0  # seconds that a contestant has to close by itself; some of them take ten


class Absent(Exception):
    """A contestant that cannot go on."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why


class Lane:
    """One contestant's process.

    Args:
        order: What `contestants.attend` takes.
        home: A directory for its log and for whatever it leaves where it runs.
        program: What is run; it is given the order, and speaks as `seats.py` says.
        environment: Variables that it has beside ours.
    """

    def __init__(
        self,
        order: Mapping[str, Any],
        home: Path,
        program: Path = _PROGRAM,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self._log, self._read = order["name"], home / f"{order['name']}.log", b""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(program), json.dumps(order)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=home,
                # The hash seed is the workers'; otherwise the engine says so each time.
                env={"PYTHONHASHSEED": "0", **os.environ, **(environment or {})},
                start_new_session=True,  # Ctrl-C is for us; and what it has forked can be ended with it
            )

    def imported(self) -> None:
        self._answer()

    def build(self) -> float:
        """Makes the envs, and lets them run until they are warm."""
        self.says = self._ask("build")["ready"]
        return 0.0

    def slice(self, seconds: float) -> float:
        """Seconds per env step."""
        return float(self._ask(f"{seconds}")["seconds"])

    def hang_up(self) -> None:
        """Tells it that nobody will ask any more."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]

    def end(self) -> None:
        """Waits for it to leave, and ends what is left of it."""
        self.hang_up()
        until = time.monotonic() + _GOODBYE
        while not self._ended() and time.monotonic() < until:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # before it is waited for: so long the number is its own
        self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]

    def _ask(self, question: str) -> dict[str, Any]:
        try:
            os.write(self._process.stdin.fileno(), f"{question}\n".encode())  # type: ignore[union-attr]
        except BrokenPipeError:
            raise Absent(self.name, self._how_it_ended()) from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._next_line())
        if "absent" in answer:
            raise Absent(self.name, answer["absent"])
        return answer

    def _next_line(self) -> bytes:
        until = time.monotonic() + _LONGEST
        while b"\n" not in self._read:
            if time.monotonic() > until:
                raise Absent(self.name, f"no answer for {_LONGEST:g} s")
            ended = self._ended()  # looked at first: what it said last is still read
            if not self._more() and ended:
                raise Absent(self.name, self._how_it_ended())
        line, _, self._read = self._read.partition(b"\n")
        return line

    def _more(self) -> bool:
        """Reads what there is. Its children may hold the line open when it has gone, so its end says nothing."""
        out = self._process.stdout.fileno()  # type: ignore[union-attr]
        if not select.select([out], [], [], 0.2)[0]:
            return False
        found = os.read(out, 65536)
        self._read += found
        return bool(found)

    def _ended(self) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)

    def _how_it_ended(self) -> str:
        ended = self._ended()
        if ended and ended.si_code != os.CLD_EXITED:
            return f"killed by {signal.Signals(ended.si_status).name}"
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"died: {lines[-1][:120]}" if lines else "died without a word"


Start = Callable[[Mapping[str, Any], Path], Lane]
"""Starts a contestant: its order, and its home."""


@contextlib.contextmanager
def _lanes(orders: Sequence[Mapping[str, Any]], start: Start) -> Iterator[dict[str, Lane]]:
    with TemporaryDirectory() as home, contextlib.ExitStack() as stack:
        lanes = {}
        for order in orders:
            lanes[order["name"]] = lane = start(order, Path(home))
            stack.callback(lane.end)
        try:
            yield lanes
        finally:
            for lane in lanes.values():
                lane.hang_up()  # all at once, so that they close side by side


def race(
    quiet: Quiet, orders: Sequence[Mapping[str, Any]], rounds: int, seconds: float, start: Start = Lane
) -> tuple[Found, dict[str, str]]:
    """Interleaves slices of all who are there.

    Returns:
        What came of each; and what those who have built had to say.
    """
    found: Found = {}
    with _lanes(orders, start) as lanes:
        waiting = dict(lanes)
        _each(waiting, found, Lane.imported)
        _calm_down()
        _each(waiting, found, lambda lane: quiet.once(lane.build))
        while waiting:
            try:
                found |= interleave(quiet, {n: partial(lane.slice, seconds) for n, lane in waiting.items()}, rounds)
                break
            except Absent as gone:  # all again without it: a ratio is taken within a round
                del waiting[gone.name]
                found[gone.name] = gone.why
    return found, {name: lane.says for name, lane in waiting.items() if lane.says}


def _calm_down() -> None:
    """Everybody has been importing at once; `auto` must not take that for other programs."""
    end = time.monotonic() + _CALM
    while crowded() and time.monotonic() < end:
        time.sleep(0.5)


def _each(lanes: dict[str, Lane], found: Found, do: Any) -> None:
    """Does it with one after another; those who cannot are left out."""
    for name, lane in list(lanes.items()):
        try:
            do(lane)
        except Absent as gone:
            del lanes[name]
            found[name] = gone.why
