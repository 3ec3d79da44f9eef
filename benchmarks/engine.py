"""What the engine costs: its calls, its ports, its start and its safety, as ratios to the bare thing in the same run.

    python benchmarks/engine.py [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. See README.md for how to read
the table.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import linecache
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from command import run
from endurance import endurance, faults
from nano import Cart, Env, Nano, UnsafePool, by_call, by_port, pool, start_worker
from quiet import Quiet, Row, Slices, cpu_seconds, figure_row, interleave, per_call, ratio_row

from paceline import Pool
from paceline.engine.host.host import Host
from paceline.engine.transport import codec

HEAVY = ("torch", "ray", "mujoco", "gymnasium")
PORTED = ((Nano, 1), (Cart, 1), (Cart, 32), (Env, 32))
MEGABYTE = np.zeros(131072)


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    seconds: float = 0.25  # of one slice
    rounds: int = 15
    pairs: int = 40  # of blocks with and without the safety net
    block: float = 0.1  # seconds of such a block
    interpreters: int = 3  # child interpreters per row of `start`
    starts: int = 3
    faults: int = 7  # repetitions of each fault
    workers: int = 300
    idle: float = 3.0
    cycles: int = 1000
    steps: int = 1_000_000


QUICK = Sizes(0.2, 3, 8, 0.04, 1, 1, 3, 50, 1.0, 30, 100_000)


# -- the bare peer -------------------------------------------------------------------------------------


def echo_for_ever(line: Any, module: str | None = None) -> None:
    """The bare peer. In a session of its own, as our workers are: see README.md on `sched_autogroup`."""
    os.setsid()
    if module:
        __import__(module)
    with contextlib.suppress(EOFError):
        while True:
            line.send(line.recv())


@contextlib.contextmanager
def bare_pipe(module: str | None = None) -> Iterator[Callable[[Any], Any]]:
    """A spawned process at the other end of a `multiprocessing.Pipe`; gives the function that asks it once."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=echo_for_ever, args=(theirs, module), daemon=True)
    process.start()
    theirs.close()

    def ask(value: Any) -> Any:
        ours.send(value)
        return ours.recv()

    yield ask
    ours.close()
    process.join()


# -- 1 to 4: round trips -------------------------------------------------------------------------------


def trips(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """A tiny call, a port, 32 members in one call / the same by a bare Pipe; 1 MB there and back / memcpy, / Pipe."""
    copy, back = MEGABYTE.copy(), MEGABYTE.copy()
    # A journal keeps what it was sent until the next snapshot: 100 calls of 1 MB are enough to keep.
    with bare_pipe() as ask, pool() as one, pool() as ported, pool(32, 2) as many, pool(snapshot_every=100) as bulk:
        all_of_them = dict.fromkeys(range(32), (1,))
        contestants: dict[str, Callable[[], Any]] = {
            "pipe": lambda: ask(("echo", 1)),
            "call": by_call(one),
            "port": by_port(ported),
            "many": lambda: many.call("echo", all_of_them),
            "bulk": lambda: bulk.call("echo", {0: (MEGABYTE,)}),
            "memcpy": lambda: (np.copyto(copy, MEGABYTE), np.copyto(back, copy)),
            "pickled": lambda: ask(MEGABYTE),
        }
        slices = interleave(quiet, {n: timed(c, sizes.seconds) for n, c in contestants.items()}, sizes.rounds)
    yield ratio_row("tiny call of one member / bare Pipe", slices["call"], slices["pipe"], 1.5)
    yield ratio_row("one run through a port / bare Pipe", slices["port"], slices["pipe"], 0.15)
    yield ratio_row(
        "one call of 32 members, 2 workers / 32 × bare Pipe", slices["many"], slices["pipe"].times(32), 0.25
    )
    yield ratio_row("call with 1 MB both ways / memcpy both ways", slices["bulk"], slices["memcpy"])
    yield ratio_row("call with 1 MB both ways / pickled over a Pipe", slices["bulk"], slices["pickled"])


def timed(call: Callable[[], Any], seconds: float) -> Callable[[], float]:
    return lambda: per_call(call, seconds)


# -- 5: start ------------------------------------------------------------------------------------------


def start(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Worker started, member built, first answer / `multiprocessing` spawn with the same imports, first answer."""
    for module in ("", "torch"):
        slices = {name: Slices() for name in ("first", "later", "spawned", "one spawned")}
        for _ in range(sizes.interpreters):
            command = [sys.executable, __file__, "--child", module, str(sizes.starts), str(quiet.left)]
            answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            quiet.left = answer.pop("left")
            for name, taken in answer.items():
                for slice_ in taken:
                    slices[name].take(slice_)
        said = f"with {module}" if module else "without torch"
        yield ratio_row(f"first worker and fork server, {said} / spawn", slices["first"], slices["one spawned"])
        yield ratio_row(f"next worker, {said} / spawn", slices["later"], slices["spawned"])


def start_child(module: str, times: int, patience: float) -> None:
    """Runs in an interpreter of its own, because the first worker of an interpreter starts the fork server."""
    if module:
        __import__(module)
    quiet = Quiet(patience)
    first = quiet.once(start_worker)
    contestants = {"later": start_worker, "spawned": lambda: start_spawned(module)}
    slices = interleave(quiet, contestants, times)
    pairs = {name: list(zip(s.values, s.clean, strict=True)) for name, s in slices.items()}
    print(json.dumps({"first": [first], "one spawned": pairs["spawned"][:1], "left": quiet.left, **pairs}))


def start_spawned(module: str) -> float:
    begin = time.perf_counter()
    with bare_pipe(module) as ask:
        ask(("echo", 1))
        return time.perf_counter() - begin


# -- 6: what safety costs ------------------------------------------------------------------------------


def safety(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of main and worker per call with journal, isolation and deadline / the same without them."""
    for way, kind, members in (
        (by_call, Nano, 1),
        (by_call, Cart, 1),
        (by_call, Env, 1),
        *((by_port, k, n) for k, n in PORTED),
    ):
        with pool(members, kind=kind) as safe, UnsafePool(kind, members) as unsafe:
            calls = {"on": way(safe), "off": way(unsafe)}
            count = max(1, int(sizes.block / per_call(calls["off"], sizes.block)))
            blocks = {"on": cpu_of(calls["on"], safe, count), "off": cpu_of(calls["off"], unsafe, count)}
            slices = interleave(quiet, blocks, sizes.pairs)
        name = f"{members} × {kind.__name__} {way.__name__.replace('_', ' ')}: safe / unsafe, CPU"
        yield ratio_row(name, slices["on"], slices["off"], 1.03)


def cpu_of(call: Callable[[], Any], owner: Pool, count: int) -> Callable[[], float]:
    """CPU seconds per call, main's and the worker's; who spins while the other works counts too."""
    worker = owner.workers[0].pid

    def block() -> float:
        per_call(call, 0.01)
        before = time.process_time() + cpu_seconds(worker)
        for _ in range(count):
            call()
        return (time.process_time() + cpu_seconds(worker) - before) / count

    return block


# -- 7: trace ------------------------------------------------------------------------------------------


def trace(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Guards of one call × cost of a guard / a tiny call, with no trace."""
    with pool() as one:
        call = by_call(one)
        call()
        passed = guards(call) + guards(call_in_a_host())
        contestants = {"guard": guard_seconds, "call": timed(call, sizes.seconds)}
        slices = interleave(quiet, contestants, sizes.rounds)
    yield ratio_row(
        f"{passed} guards of a trace that is off / tiny call", slices["guard"].times(passed), slices["call"]
    )


def guard_seconds(number: int = 300_000) -> float:
    held = {"held": argparse.Namespace(trace=None)}
    with_guard = timeit.timeit("if held.trace is not None: pass", globals=held, number=number)
    return (with_guard - timeit.timeit("pass", number=number)) / number


def call_in_a_host() -> Callable[[], Any]:
    """What happens in the worker, here, where it can be watched."""
    host = Host()
    host.handle(("build", [(0, 0, Nano, None, (), False, True)]))
    message = ("call", "echo", True, [(0, codec.pack((1,)))])
    host.handle(message)
    return lambda: host.handle(message)


def guards(call: Callable[[], Any]) -> int:
    """Counts the lines of the engine that ask for a trace while `call` runs."""
    asks = re.compile(r"\bif .*(trace is not None|\btraced\b)")
    seen = 0

    def watch(frame: Any, event: str, _: Any) -> Any:
        nonlocal seen
        if event == "line":
            seen += bool(asks.search(linecache.getline(frame.f_code.co_filename, frame.f_lineno)))
        return watch

    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(None)
    return seen


# -- 8: import -----------------------------------------------------------------------------------------


def imports(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """`python -c "import paceline"` minus `python -c pass`; and what that import brings along."""
    with tempfile.TemporaryDirectory() as cache:
        # Bytecode as in any second run, whatever the environment says, and none left in the source tree.
        environ = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)

        def run(code: str) -> str:
            return subprocess.run([sys.executable, "-c", code], check=True, env=environ, capture_output=True).stdout

        def wall(code: str) -> float:
            return timeit.timeit(lambda: run(code), number=1)

        brought = run(f"import sys, paceline; print(*(m for m in {HEAVY} if m in sys.modules))").decode().split()
        contestants = {"ours": lambda: wall("import paceline"), "bare": lambda: wall("pass")}
        slices = interleave(quiet, contestants, sizes.rounds)
    yield figure_row("import paceline", slices["ours"].minus(slices["bare"]), 0.5)
    verdict = "no" if brought else "yes"
    yield Row(f"which brings {', '.join(HEAVY)}", "", "none", verdict, "", ", ".join(brought) or "none")


# -- the command ---------------------------------------------------------------------------------------

MEASURES = {f.__name__: f for f in (trips, start, safety, trace, imports, faults, endurance)}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        module, times, patience = sys.argv[2:]
        start_child(module, int(times), float(patience))
    else:
        about = "What the engine costs, as ratios to the bare thing."
        run("The engine", about, MEASURES, Sizes(), QUICK, ("paceline", "numpy", "torch"))
