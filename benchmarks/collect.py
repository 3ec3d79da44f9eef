"""What collecting rollouts costs and gains: against plain loops, the source design, and the collectors of others.

    python benchmarks/collect.py [--peers .bench] [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. `--peers` installs TorchRL, and
us, into an environment of their own, and goes on in there; without it TorchRL is absent where it is not installed. See
README.md for how to read the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from apart import Apart
from collect_contestants import CONTESTANTS, INLINE, LOOP, ROWS, SCALE, SOURCES, TWO, UNCONNECTED
from collect_crowd import ANT, POINT, POLICIES, SEED, TASKS, Holder, Plain, collector_of, hold, make
from command import run as run_command
from lanes import Found, Lane, race
from quiet import Quiet, Row, Slices, gain_row, interleave, ratio_row
from unconnected import Unconnected

from paceline import Collector, collect
from paceline.learning import Memory

_PROGRAM = Path(__file__).with_name("collect_contestants.py")
_MEGABYTES = 4


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 7
    rollouts: int = 8  # of AntDir, 200 steps each
    points: int = 64  # rollouts of PointRobot, 60 steps each
    auto_seconds: float = 5.5
    auto_rounds: int = 5
    iterations: int = 15  # with weights


QUICK = Sizes(rounds=3, rollouts=4, points=16, auto_seconds=0.5, auto_rounds=3, iterations=5)


def overhead(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time per transition, the policy a plain function of an observation: a plain loop / `Collector` inline.

    Each of the two in a process of its own. Both give the same transitions, bit for bit.
    """
    for name, rollouts, aim in ((ANT, sizes.rollouts // 2, 0.95), (POINT, sizes.points, None)):
        with Apart(_looping, name, rollouts) as theirs, Apart(_collecting, name, rollouts) as ours:
            slices = interleave(quiet, {"ours": ours, "theirs": theirs}, sizes.rounds)
        label = f"CPU time of a transition, {name}, one process: plain loop / ours, inline"
        yield gain_row(label, slices["ours"], slices["theirs"], aim)


@contextmanager
def _looping(name: str, rollouts: int) -> Iterator[Callable[[], float]]:
    plain = Plain(name)
    plain.play_all(range(2))
    yield lambda: _cpu(lambda: plain.play_all(range(rollouts)))


@contextmanager
def _collecting(name: str, rollouts: int, policy: Any = None, lanes: int = 8) -> Iterator[Callable[[], float]]:
    with collector_of(name, 0, lanes=lanes, policy=policy or POLICIES[name]) as collector:
        collector.collect(8, iteration=0)  # imports, and what is made once
        yield lambda: _cpu(lambda: collector.collect(rollouts, iteration=0).steps)


def _cpu(collect: Callable[[], int]) -> float:
    begin = time.process_time()
    transitions = collect()
    return (time.process_time() - begin) / transitions


def ant(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Wall time per transition of AntDir, everything warm: two loops, the source design, and others / `Collector`.

    One race: each contestant is a process of its own, and one works at a time.
    """
    orders = [{"name": name, "rollouts": sizes.rollouts} for name in CONTESTANTS]
    found, _ = race(quiet, orders, sizes.rounds, 0.0, partial(Lane, program=_PROGRAM))
    yield _against(found, f"efficiency, {ANT}, policy in the worker: {{}} / {{}}", [UNCONNECTED], TWO, 0.9)
    yield _against(found, f"{ANT}: {{}} / {{}}", [LOOP], TWO)
    yield _against(found, f"{ANT}, wall time: {{}} / {{}}", [LOOP], INLINE)
    yield _against(found, f"{ANT}: {{}}, the better one / {{}}", SOURCES, TWO, 1.5)
    for name in (*SOURCES, *SCALE):
        yield _against(found, "… {} / {}", [name], TWO)
    for name in (LOOP, *SOURCES, *SCALE):
        yield _against(found, f"{ANT}, a forward for several rollouts: {{}} / {{}}", [name], ROWS)
    yield _against(found, f"{ANT}, for scale: {{}} / {{}}", ["ours, 2 workers, forward here"], TWO)


def _against(found: Found, label: str, names: Iterable[str], ours: str, aim: float | None = None) -> Row:
    """Ours against the fastest of some contestants; a row that says why if one side is absent."""
    mine, there = found[ours], {name: what for name in names if isinstance(what := found[name], Slices)}
    if not there or not isinstance(mine, Slices):
        missing = {name: found[name] for name in (*names, ours) if isinstance(found[name], str)}
        why = "; ".join(f"{name}: {what}" for name, what in missing.items())
        return Row(label.format(" or ".join(names), ours), "absent", met="?" if aim else "", slices=why)
    best = min(there, key=lambda name: there[name].median())
    return gain_row(label.format(best, ours), mine, there[best], aim)


def lanes(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time per transition of PointRobot with a memory (GRU of 64), inline: rollouts one at a time / 8 in a forward.

    Each of the two in a process of its own.
    """
    with (
        Apart(_collecting, POINT, sizes.points, Memory, 8) as filled,
        Apart(_collecting, POINT, sizes.points, Memory, 1) as alone,
    ):
        slices = interleave(quiet, {"filled": filled, "alone": alone}, sizes.rounds)
    yield gain_row(f"CPU time of a transition, {POINT}, GRU: lanes=1 / lanes=8", slices["filled"], slices["alone"])


def auto(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Whole calls of `collect` that take seconds, PointRobot with a memory (GRU of 64): plan="auto" / plan=0.

    Each of the two in a process of its own.
    """
    with Apart(_calling, 0, sizes.points) as sample:
        rollouts = int(sizes.points * sizes.auto_seconds / min(sample() for _ in range(3)))
    with Apart(_calling, "auto", rollouts) as ours, Apart(_calling, 0, rollouts) as inline:
        slices = interleave(quiet, {"auto": ours, "inline": inline}, sizes.auto_rounds)
    label = f"collect, {rollouts} rollouts of {POINT}, GRU: auto / inline"
    yield ratio_row(label, slices["auto"], slices["inline"], 1.1)


@contextmanager
def _calling(plan: Any, rollouts: int) -> Iterator[Callable[[], float]]:
    def call(count: int) -> float:
        begin = time.perf_counter()
        collect(partial(make, POINT), Memory, count, tasks=TASKS[POINT], seed=SEED, plan=plan)
        return time.perf_counter() - begin

    call(8)
    yield lambda: call(rollouts)


def weights(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Publishing 4 MB of weights to 2 workers, per iteration: ours / pickled through a pipe to 2 processes; / copied.

    Ours is the time of an iteration with new weights, less that of a collector that has none.
    """
    contestants = {"ours": _publishing, "pipe": _piping, "copy": _copying}
    with ExitStack() as stack:
        running = {name: stack.enter_context(Apart(make, sizes.iterations)) for name, make in contestants.items()}
        slices = interleave(quiet, running, sizes.rounds)
    what = f"{_MEGABYTES} MB of weights to 2 workers"
    yield ratio_row(f"{what}: ours / pickled through a pipe to 2 processes", slices["ours"], slices["pipe"])
    yield ratio_row("… ours / copied twice in memory", slices["ours"], slices["copy"])


def _new_weights(version: int) -> dict[str, Any]:
    return {"layer": np.full(_MEGABYTES * 2**18, version, np.float32)}


@contextmanager
def _publishing(iterations: int) -> Iterator[Callable[[], float]]:
    collector = partial(collector_of, POINT, 2, policy=Holder, horizon=1)
    with collector() as published, collector() as bare:

        def seconds(collector: Collector, version: int, weights: Any = None) -> float:
            begin = time.perf_counter()
            collector.collect(2, iteration=version, weights=weights)
            return time.perf_counter() - begin

        def difference() -> float:
            found = [seconds(published, n, _new_weights(n)) - seconds(bare, n) for n in range(iterations)]
            return float(np.median(found))

        difference()
        yield difference


@contextmanager
def _piping(iterations: int) -> Iterator[Callable[[], float]]:
    pair = Unconnected(hold)
    yield lambda: _per_version(lambda weights: pair.ask([weights, weights]), iterations)
    pair.close()


@contextmanager
def _copying(iterations: int) -> Iterator[Callable[[], float]]:
    yield lambda: _per_version(lambda weights: [weights["layer"].copy() for _ in range(2)], iterations)


def _per_version(publish: Callable[[Any], Any], iterations: int) -> float:
    found = []
    for version in range(iterations):
        weights = _new_weights(version)
        begin = time.perf_counter()
        publish(weights)
        found.append(time.perf_counter() - begin)
    return float(np.median(found))


_PACKAGES = ("paceline", "gymnasium", "mujoco", "numpy", "torch", "stable-baselines3", "torchrl")

MEASURES: dict[str, Callable[[Quiet, Sizes], Iterator[Row]]] = {
    f.__name__: f for f in (overhead, ant, lanes, auto, weights)
}


if __name__ == "__main__":
    about = str(__doc__).partition("\n")[0]
    run_command("Collect", about, MEASURES, Sizes(), QUICK, _PACKAGES, with_peers=True)
