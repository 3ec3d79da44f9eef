"""How soon a fault is seen and mended, and what a long life leaves behind: figures without a peer.

A part of `engine.py`, which runs it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nano import by_call, by_port, pool, start_worker
from quiet import Quiet, Row, Slices, cpu_seconds, family, figure_row, repeat


class Ear(logging.Handler):
    """Hears the engine say that a worker is lost, and when."""

    def emit(self, record: logging.LogRecord) -> None:
        self.heard = time.perf_counter()


@contextlib.contextmanager
def listening() -> Iterator[Ear]:
    ear, log = Ear(), logging.getLogger("paceline")
    log.addHandler(ear)
    log.propagate = False
    try:
        yield ear
    finally:
        log.removeHandler(ear)
        log.propagate = True


def death_seen() -> float:
    """Seconds from SIGKILL to the word that the worker is lost, before anything is rebuilt."""
    with listening() as ear, pool(restarts=1) as one:
        handle = one.post("nap", {0: (30.0,)})
        time.sleep(0.05)
        begin = time.perf_counter()
        os.kill(one.workers[0].pid, signal.SIGKILL)
        handle.finish()
        return ear.heard - begin


def hang_seen(deadline: float = 0.3) -> float:
    """Seconds from the deadline of a call that hangs to the same word."""
    with listening() as ear, pool(restarts=1) as one:
        begin = time.perf_counter()
        one.call("nap", {0: (30.0,)}, deadline=deadline, outcomes=True)
        return ear.heard - begin - deadline


def recovery(calls: int = 200) -> float:
    """Seconds from SIGKILL of an idle worker to the next answer: start, build, replay, ask."""
    with listening(), pool() as one:
        for number in range(calls):
            one.call("echo", {0: (number,)})
        os.kill(one.workers[0].pid, signal.SIGKILL)
        return timeit.timeit(by_call(one), number=1)


def faults(quiet: Quiet, sizes: Any) -> Iterator[Row]:
    """Seconds until a fault is known, and until all is as before."""
    yield figure_row("death seen, from SIGKILL", repeat(quiet, death_seen, sizes.faults), 0.1)
    yield figure_row("hang seen, from the deadline", repeat(quiet, hang_seen, sizes.faults), 0.2)
    yield figure_row("killed worker, 200 calls replayed, next answer", repeat(quiet, recovery, sizes.faults), 0.25)
    with pool() as one:
        blob = lambda: timeit.timeit(lambda: one.call("blob", {0: (50_000_000,)}, record=False), number=1)  # noqa: E731
        yield figure_row("answer of 50 MB", repeat(quiet, blob, sizes.faults), 1.0)


def endurance(quiet: Quiet, sizes: Any) -> Iterator[Row]:
    """Many workers, idle workers, many pools, many steps: what it takes, and what is left behind."""
    yield from crowd(quiet, sizes.workers)
    yield figure_row("CPU of an idle worker", repeat(quiet, lambda: idle_share(sizes.idle), 1), 0.01, "{:.2%}".format)
    start_worker()
    before = left_over()
    for _ in range(sizes.cycles):
        start_worker()
    more = {name: count - before[name] for name, count in left_over().items()}
    words = ", ".join(f"{count:+d} {name}" for name, count in more.items())
    yield Row(f"left over by {sizes.cycles} pools", "", "+0", "no" if any(more.values()) else "yes", "", words)
    grown = growth(sizes.steps)
    words = ", ".join(f"{who} {count / 1e6:+.2f} MB" for who, count in grown.items())
    met = "yes" if max(grown.values()) <= 1e6 else "no"
    yield Row(f"memory, from 10 % to 100 % of {sizes.steps:,} port steps", "", "≤ 1 MB", met, "", words)


def crowd(quiet: Quiet, workers: int) -> Iterator[Row]:
    closing = Slices()

    def run() -> float:
        begin = time.perf_counter()
        everybody = pool(workers, workers)
        started = time.perf_counter()
        everybody.close()
        closing.values.append(time.perf_counter() - started)
        return started - begin

    starting = repeat(quiet, run, 1)
    closing.clean, closing.values = starting.clean, closing.values[-1:]
    yield figure_row(f"start of {workers} workers", starting, 5.0)
    yield figure_row(f"close of {workers} workers", closing, 2.0)


def idle_share(seconds: float) -> float:
    with pool() as one:
        by_call(one)()
        time.sleep(0.05)
        before = cpu_seconds(one.workers[0].pid)
        time.sleep(seconds)
        return (cpu_seconds(one.workers[0].pid) - before) / seconds


def left_over() -> dict[str, int]:
    time.sleep(0.1)  # the kernel takes a moment to bury a thread that has been joined
    threads = len(os.listdir("/proc/self/task"))
    return {"files": len(os.listdir("/proc/self/fd")), "threads": threads, "processes": len(family())}


def growth(steps: int, members: int = 8) -> dict[str, int]:
    """Bytes by which main and worker have grown since the first tenth; members give snapshots, so journals are cut."""
    with pool(members) as eight:
        ring, pids = by_port(eight), {"main": os.getpid(), "worker": eight.workers[0].pid}
        for number in range(steps // members):
            if number == steps // members // 10:
                before = {who: resident(pid) for who, pid in pids.items()}
            ring()
        return {who: resident(pid) - before[who] for who, pid in pids.items()}


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
