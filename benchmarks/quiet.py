"""What every benchmark shares: quiet windows, interleaving, statistics, and a table that says where it was made.

    contestants ──► interleave ──► Quiet.slice: wait until the machine is idle, run, look who else ran ──► Slices
                                                                                                            │
    table ◄── Row ◄── ratio of the slices of one round, median and 95 % bootstrap interval ◄────────────────┘

A ratio of two things that ran at different times on a shared machine says little, and one that was taken under load
says nothing: where `sched_autogroup` is on, every session gets an equal share, so who has more sessions looks faster.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

LIMIT = 0.25
"""Cores that everybody else may use during a slice that counts."""

ENOUGH = 5
"""Clean slices that a row needs; with fewer it is made of all of them and says "loaded"."""

_LOOK = 0.06  # seconds over which the machine must be idle before a slice begins
_CORES = os.cpu_count() or 1
_TICK = os.sysconf("SC_CLK_TCK")


# -- who uses the machine ------------------------------------------------------------------------------


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, all of its threads, in nanosecond resolution; 0 if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) gives for this pid
    except OSError:
        return 0.0


def family(root: int | None = None) -> list[int]:
    """This process and all that descend from it: fork server, workers, peers."""
    found, look = [], [root or os.getpid()]
    while look:
        pid = look.pop()
        found.append(pid)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                look += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def _reaped_seconds(pid: int) -> float:
    """CPU time of the children that a process has had and has waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[13]) + int(fields[14])) / _TICK


def _own_seconds() -> float:
    return sum(cpu_seconds(pid) + _reaped_seconds(pid) for pid in family())


def _idle_seconds() -> float:
    # With a tickless kernel the idle time is exact, and the busy times beside it are only sampled. What is not
    # idle is somebody's: a program's, the kernel's, or the host's that this machine is a guest of.
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()
    return (int(fields[4]) + int(fields[5])) / _TICK


class Others:
    """How many cores everybody else has used since this object was made."""

    def __init__(self) -> None:
        self._idle, self._own, self._since = _idle_seconds(), _own_seconds(), time.monotonic()

    def cores(self) -> float:
        elapsed = time.monotonic() - self._since
        idle, own = _idle_seconds() - self._idle, _own_seconds() - self._own
        return max(0.0, _CORES - (idle + own) / elapsed)


# -- quiet windows -------------------------------------------------------------------------------------


class Quiet:
    """Runs slices in quiet windows, as long as it may wait for them.

    Args:
        patience: Seconds that may be spent on waiting and on slices that do not count. Then slices are run as they
            come, and each says whether it was clean.
    """

    def __init__(self, patience: float = 0.0, limit: float = LIMIT) -> None:
        self.left = patience
        self.limit = limit

    def grant(self, seconds: float) -> None:
        """More patience, beside what is left."""
        self.left = max(0.0, self.left) + seconds

    def slice(self, run: Callable[[], float]) -> tuple[float, bool]:
        """Gives what `run` measured, and whether everybody else was quiet meanwhile."""
        while True:
            begin = time.monotonic()
            value, clean = self.once(run)
            if clean or self.left <= 0:
                return value, clean
            self.left -= time.monotonic() - begin

    def once(self, run: Callable[[], float]) -> tuple[float, bool]:
        """The same for what cannot be run again: a slice that was disturbed is not repeated."""
        self._await_idle()
        others = Others()
        value = run()
        return value, others.cores() < self.limit

    def _await_idle(self) -> None:
        while self.left > 0:
            others = Others()
            time.sleep(_LOOK)
            if others.cores() < self.limit:
                return
            self.left -= _LOOK


@dataclass
class Slices:
    """One contestant's slices, in the order of the rounds."""

    values: list[float] = field(default_factory=list)
    clean: list[bool] = field(default_factory=list)

    def take(self, slice_: tuple[float, bool]) -> None:
        self.values.append(slice_[0])
        self.clean.append(slice_[1])

    def times(self, factor: float) -> Slices:
        """The same slices of a contestant that does so many of these one after another."""
        return Slices([value * factor for value in self.values], self.clean)

    def minus(self, other: Slices) -> Slices:
        values = [a - b for a, b in zip(self.values, other.values, strict=True)]
        return Slices(values, _both(self, other))

    def over(self, other: Slices) -> Slices:
        """The ratio in each round; clean if both slices were."""
        values = [a / b for a, b in zip(self.values, other.values, strict=True)]
        return Slices(values, _both(self, other))

    @property
    def count(self) -> int:
        return sum(self.clean)

    @property
    def loaded(self) -> bool:
        return self.count < min(ENOUGH, len(self.values))

    def kept(self) -> list[float]:
        """The clean values; all of them if there are too few."""
        return self.values if self.loaded else [v for v, ok in zip(self.values, self.clean, strict=True) if ok]

    def median(self) -> float:
        return float(np.median(self.kept()))

    def interval(self, draws: int = 4000) -> tuple[float, float]:
        """95 % bootstrap interval of the median."""
        kept = np.asarray(self.kept())
        picks = np.random.default_rng(0).integers(0, len(kept), (draws, len(kept)))
        low, high = np.quantile(np.median(kept[picks], axis=1), (0.025, 0.975))
        return float(low), float(high)


def _both(a: Slices, b: Slices) -> list[bool]:
    return [x and y for x, y in zip(a.clean, b.clean, strict=True)]


def interleave(quiet: Quiet, contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Slices]:
    """Runs one slice of every contestant per round, each round beginning with another one."""
    names = list(contestants)
    slices = {name: Slices() for name in names}
    for number in range(rounds):
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            slices[name].take(quiet.slice(contestants[name]))
    return slices


def repeat(quiet: Quiet, run: Callable[[], float], times: int) -> Slices:
    """So many slices of a figure that has no peer."""
    return interleave(quiet, {"": run}, times)[""]


def per_call(call: Callable[[], object], seconds: float, warm: float = 0.03) -> float:
    """Seconds per call over one slice. The first calls do not count: waits adapt, caches fill."""
    _run_for(call, warm)
    count, elapsed = _run_for(call, seconds)
    return elapsed / count


def _run_for(call: Callable[[], object], seconds: float) -> tuple[int, float]:
    begin = time.perf_counter()
    count, now, end = 0, begin, begin + seconds
    while now < end:
        for _ in range(4):
            call()
        count, now = count + 4, time.perf_counter()
    return count, now - begin


# -- the table -----------------------------------------------------------------------------------------

_UNITS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def duration(seconds: float) -> str:
    unit, size = next((u for u in _UNITS if abs(seconds) >= u[1]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    measure: str
    value: str
    aim: str = ""
    met: str = ""
    slices: str = ""
    ours: str = ""
    peer: str = ""


def ratio_row(
    measure: str, ours: Slices, peer: Slices, aim: float | None = None, show: Callable[[float], str] = duration
) -> Row:
    """Ours divided by a peer's, round by round; the absolute values stand beside it for information."""
    ratios = ours.over(peer)
    met = "" if aim is None else _verdict(ratios, ratios.median() <= aim)
    stated = "" if aim is None else f"≤ {aim:g}"
    value = _spread(ratios, "{:.3g}".format)
    return Row(measure, value, stated, met, _counted(ratios), show(ours.median()), show(peer.median()))


def gain_row(measure: str, ours: Slices, peer: Slices, aim: float | None = None, *, within_noise: bool = False) -> Row:
    """How many times a peer's time is ours, round by round: the more the better.

    With `within_noise` an aim is met if the interval reaches it.
    """
    gains = peer.over(ours)
    reached = gains.interval()[1] if within_noise else gains.median()
    met = "" if aim is None else _verdict(gains, reached >= aim)
    stated = "" if aim is None else f"≥ {aim:g}{' within noise' if within_noise else ''}"
    value = _spread(gains, "{:.3g}".format)
    return Row(measure, value, stated, met, _counted(gains), duration(ours.median()), duration(peer.median()))


def figure_row(
    measure: str, slices: Slices, aim: float | None = None, show: Callable[[float], str] = duration, peer: str = ""
) -> Row:
    """A measured value by itself."""
    met = "" if aim is None else _verdict(slices, slices.median() <= aim)
    stated = "" if aim is None else f"≤ {show(aim)}"
    return Row(measure, "", stated, met, _counted(slices), _spread(slices, show), peer)


def _verdict(slices: Slices, met: bool) -> str:
    return "?" if slices.loaded else "yes" if met else "no"


def _counted(slices: Slices) -> str:
    share = f"{slices.count}/{len(slices.values)}"
    return f"loaded ({share})" if slices.loaded else share


def _spread(slices: Slices, show: Callable[[float], str]) -> str:
    if len(slices.kept()) < 3:
        return show(slices.median())
    low, high = slices.interval()
    return f"{show(slices.median())} [{show(low)}, {show(high)}]"


def table(rows: Iterable[Row]) -> str:
    """The rows in Markdown."""
    head = ("measure", "ratio, median [95 %]", "aim", "met", "clean slices", "ours", "peer")
    lines = [head, tuple("---" for _ in head)]
    lines += [(r.measure, r.value, r.aim, r.met, r.slices, r.ours, r.peer) for r in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def machine() -> Iterator[str]:
    """Where this was measured."""
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")), "unknown")
    cores = f"{len(os.sched_getaffinity(0))} of {_CORES} cores"
    yield f"machine: {model}, {cores}, {platform.system()} {platform.release()}"
    with contextlib.suppress(OSError):
        yield f"sched_autogroup_enabled: {Path('/proc/sys/kernel/sched_autogroup_enabled').read_text().strip()}"


def versions(*packages: str) -> str:
    """What it was measured with; nothing is imported to find out."""
    known = [f"Python {platform.python_version()}"]
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            known.append(f"{package} {version(package)}")
    return "versions: " + ", ".join(known)


def report(title: str, rows: Sequence[Row], packages: Sequence[str], notes: Sequence[str] = ()) -> str:
    """The table with everything that is needed to read it later."""
    script = Path(sys.argv[0]).resolve()
    command = shlex.join(["python", f"{script.parent.name}/{script.name}", *sys.argv[1:]])
    facts = [f"command: `{command}`", *machine(), versions(*packages), *notes]
    return "\n".join([f"# {title}", "", *(f"- {fact}" for fact in facts), "", table(rows), ""])
