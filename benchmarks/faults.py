"""What deaths cost: the share of the throughput that one SIGKILL a second leaves, and the time that one death takes.

    python benchmarks/faults.py [--seconds SECONDS] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure runs the same work twice, a slice undisturbed and a slice under kills by turns, until there have been kills
for so many seconds. The digests of both must be the same. See README.md for how to read the table.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import logging
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from groups import ROOM, config
from quiet import Quiet, Row, Slices, figure_row, gain_row, report
from vector_envs import Drift, rounds_per_second

from paceline import Plan, make_vec
from paceline.catalog.missions import find_missions
from paceline.evaluate import evaluate
from paceline.groups import Groups

WORKERS = 4
ENVS = 8
STEPS = 60  # of an episode of the evaluation
SLICE = 6.0  # seconds of undisturbed work
MOVES = ("Up", "Right", "Left", "Down")

Work = Callable[[int], str]
"""Does so many units of work, and gives the digest of what came out."""


class Kills:
    """Kills one worker of this process a second while it is entered."""

    def __init__(self, spared: set[int]) -> None:
        self._spared = spared
        self._luck = random.Random(0)
        self._over = threading.Event()
        self.count = 0

    def __enter__(self) -> Kills:
        self._over.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(1.0):
            pids = sorted(workers() - self._spared)
            if pids:
                self.count += kill(self._luck.choice(pids))


def workers() -> set[int]:
    """The workers of this process: what its fork server has forked."""
    return {worker for server in _children(os.getpid()) for worker in _children(server)}


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def kill(pid: int) -> bool:
    """Kills a worker, if it is still ours when we hold it. Returns whether it did."""
    with contextlib.suppress(ProcessLookupError):
        holder = os.pidfd_open(pid)
        try:
            if pid in workers():
                signal.pidfd_send_signal(holder, signal.SIGKILL)
                return True
        finally:
            os.close(holder)
    return False


# -- the three works -------------------------------------------------------------------------------------


def _make_envs(pace: float) -> Any:
    """Envs that compute for 1 ms: they count rounds, so that the work is the same whatever the clock says."""
    return make_vec(partial(Drift, "cpu", round(pace * 1e-3)), ENVS, plan=Plan("process", workers=WORKERS), seed=0)


@contextlib.contextmanager
def vector(pace: float) -> Iterator[Work]:
    """Steps of 8 envs that compute for 1 ms. They are reset once: only snapshots shorten what has to be replayed."""
    envs = _make_envs(pace)
    luck, hashed = np.random.default_rng(0), hashlib.sha256()
    seen, _ = envs.reset(seed=0)
    hashed.update(seen.tobytes())

    def work(steps: int) -> str:
        for _ in range(steps):
            seen, rewards, ended, cut, _ = envs.step(luck.integers(0, 2, ENVS))
            for array in (seen, rewards, ended, cut):
                hashed.update(array.tobytes())
        return hashed.hexdigest()

    yield work
    envs.close()


@contextlib.contextmanager
def evaluation(pace: float) -> Iterator[Work]:
    """Whole episodes of forage on 4 workers; the start of these is part of every slice.

    An episode whose worker dies three times is a failure, as it may be what kills: `on_error="retry"` plays it again.
    Episodes are much shorter than a second: one that takes longer than kills are apart is killed for ever.
    """
    seeds = itertools.count()
    options: dict[str, Any] = {"plan": WORKERS, "agents": "off", "on_error": "retry"}
    short = find_missions(["forage"], steps=STEPS)
    yield lambda episodes: evaluate(short, "memory", episodes=episodes, seed=next(seeds), **options).digest


@contextlib.contextmanager
def groups(pace: float) -> Iterator[Work]:
    """Resets of 64 Sokobans, and 40 turns after each."""
    seeds = itertools.count()
    with Groups(config("Sokoban", 16, size=4, max_steps=1_000_000, **ROOM), plan=WORKERS) as sokobans:
        turns = [[_said(env, move) for env in range(len(sokobans))] for move in MOVES * 10]

        def work(resets: int) -> str:
            for _ in range(resets):
                sokobans.reset(seed=next(seeds))
                for turn in turns:
                    sokobans.step(turn)
            assert all(status.failure is None for status in sokobans.statuses)
            return sokobans.digest()

        yield work


def _said(env: int, move: str) -> dict[str, object]:
    text = f"<answer>{move}</answer>"
    return {"env_id": env, "actions": [move], "llm_response": text, "llm_raw_response": text}


WORKS = {
    "vector": (vector, f"{ENVS} vector envs that compute for 1 ms", 0.7),
    "evaluation": (evaluation, "evaluation of forage, whole episodes", None),
    "groups": (groups, "64 Sokobans, resets and turns", None),
}


# -- measures --------------------------------------------------------------------------------------------


def under_kills(name: str, quiet: Quiet, seconds: float, pace: float) -> Iterator[Row]:
    """Time of the undisturbed work / time of the same work under one SIGKILL a second; and whether both came to the
    same."""
    make, what, aim = WORKS[name]
    with contextlib.ExitStack() as both:
        calm = both.enter_context(make(pace))
        calm(1)
        spared = workers()
        harried = both.enter_context(make(pace))
        same = [harried(1)]
        kills, slices = Kills(spared), {"calm": Slices(), "harried": Slices()}
        units, digests = 1, [list[str](), list[str]()]
        while (took := _timed(calm, units, same)) < SLICE / 2 or units == 1:
            harried(units)
            units = max(units + 1, round(units * min(10.0, SLICE / took)))
        harried(units)
        while sum(slices["harried"].values) < seconds:
            slices["calm"].take(quiet.once(lambda: _timed(calm, units, digests[0])))
            with kills:
                slices["harried"].take(quiet.once(lambda: _timed(harried, units, digests[1])))
    yield gain_row(
        f"{what}, {WORKERS} workers: one SIGKILL a second / undisturbed", slices["harried"], slices["calm"], aim
    )
    equal = digests[0] == digests[1]
    spent = f"{kills.count} kills in {sum(slices['harried'].values):.0f} s"
    yield Row("… digests", "", "the same", "yes" if equal else "no", spent, digests[1][-1][:12], digests[0][-1][:12])


def _timed(work: Work, units: int, digests: list[str]) -> float:
    begin = time.perf_counter()
    digests.append(work(units))
    return time.perf_counter() - begin


def one_death(quiet: Quiet, pace: float, times: int = 5, steps: int = 1500) -> Iterator[Row]:
    """Seconds of the step after a SIGKILL of one worker: a new worker, its envs, and what they have to run again."""
    costs = Slices()
    for number in range(times):
        with contextlib.closing(_make_envs(pace)) as envs:
            envs.reset(seed=0)
            step = partial(envs.step, np.zeros(ENVS, np.int64))
            for _ in range(steps + 20 * number):  # so that deaths come at different times after a snapshot
                step()
            pid = envs.pool.workers[number % WORKERS].pid
            costs.take(quiet.once(partial(_step_after_kill, pid, step)))
    yield figure_row(f"the step after a death, {steps:,} steps after the reset of these envs", costs, 1.0)


def _step_after_kill(pid: int, step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    kill(pid)
    step()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of kills, for each of the works")
    names = (*WORKS, "death")
    parser.add_argument("--only", metavar="NAME", choices=names, action="append", help=", ".join(names))
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table there too")
    parser.add_argument("--wait-quiet", metavar="SECONDS", type=float, default=120.0, help="for the whole run")
    chosen = parser.parse_args()
    os.environ.setdefault("PYTHONHASHSEED", "0")  # what workers use; otherwise the engine says so each time
    logging.getLogger("paceline").setLevel(logging.ERROR)  # every death is told
    quiet, pace, rows = Quiet(chosen.wait_quiet), rounds_per_second(), list[Row]()
    for name in chosen.only or names:
        print(f"{name} …", file=sys.stderr, flush=True)
        rows += one_death(quiet, pace) if name == "death" else under_kills(name, quiet, chosen.seconds, pace)
    text = report("Faults", rows, ("paceline", "numpy", "gymnasium"))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
