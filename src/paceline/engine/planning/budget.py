"""Budget: how many CPU slots and how much memory this process may use, read once from where it runs.

    affinity ── cgroup CPU quota ──► slots  ┐
    free memory ── cgroup limit ───► memory ┼─► Budget ──► slice(n) ──► a worker's own Budget (assign)
                                     waiting┘

A container shows every core of its host, but lets its processes use a few of them. So the affinity mask
and the quotas of all the control groups above us are read, and the tightest of them counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paceline.errors import BadInput

__all__ = ["WORKER_BYTES", "Budget", "assign", "crowded", "current"]

WORKER_BYTES = 256 * 2**20
"""What a worker is taken to need if nobody says better: Python, NumPy, torch and a few small members."""

_CROWDED = 40.0  # per cent of the time
_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Budget:
    """What all levels of a run share; every nested pool lives on a fixed slice of it.

    Attributes:
        slots: CPU slots: how many workers may compute at once. A budget of one slot means inline.
        memory: Bytes that may still be taken.
        waiting: How many calls may wait at once for something other than the CPU (a sleep, a model's answer).
    """

    slots: int
    memory: int
    waiting: int = 128

    def __post_init__(self) -> None:
        _at_least(1, slots=self.slots, waiting=self.waiting)
        _at_least(0, memory=self.memory)

    @classmethod
    def of_machine(cls, *, cgroup: Path = _CGROUP, proc: Path = _PROC) -> Budget:
        """Reads the budget of this process from its affinity, its control groups and the free memory.

        Args:
            cgroup: Where the control groups are mounted.
            proc: Where the process file system is mounted.
        """
        return cls(slots=_cores(cgroup, proc), memory=_free_memory(cgroup, proc))

    def workers_for(self, members: int, per_worker_bytes: int = WORKER_BYTES) -> int:
        """The most workers that make sense for so many members; never fewer than one.

        Args:
            members: How many members the workers would share out.
            per_worker_bytes: The memory that one worker takes.
        """
        _at_least(1, per_worker_bytes=per_worker_bytes)
        return max(1, min(members, self.slots, self.memory // per_worker_bytes))

    def slice(self, parts: int) -> Budget:
        """The fixed share that each of `parts` workers gets for pools of its own; one slot means inline."""
        _at_least(1, parts=parts)
        return Budget(max(1, self.slots // parts), self.memory // parts, max(1, self.waiting // parts))


def crowded() -> bool:
    """Whether processes have stood in line for a core for a good part of the last ten seconds."""
    for line in _text(_PROC / "pressure" / "cpu").splitlines():
        kind, average, *_ = line.split()
        if kind == "some":
            return float(average.partition("=")[2]) > _CROWDED
    return False


_current: Budget | None = None


def assign(budget: Budget) -> None:
    """Makes `budget` the budget of this process; a worker does so when it starts."""
    global _current
    _current = budget


def current() -> Budget:
    """The budget of this process: the one assigned to it, otherwise the machine's, read at the first call."""
    if _current is None:
        assign(Budget.of_machine())
    assert _current is not None
    return _current


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise BadInput(f"{name}={value} makes no sense in a budget: give {least} or more")


def _cores(cgroup: Path, proc: Path) -> int:
    # A part of a core is not a slot: the kernel would stop a worker in mid-step, and the others wait for it.
    quotas = [int(quota) for quota in _cpu_quotas(cgroup, proc)]
    return max(1, min([_affinity(), *quotas]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # there is no affinity mask to read outside Linux


def _cpu_quotas(cgroup: Path, proc: Path) -> Iterator[float]:
    for group in _groups("cpu", cgroup, proc):
        both = _numbers(group / "cpu.max")
        quota = both[0] if both else _number(group / "cpu.cfs_quota_us")
        period = both[1] if len(both) > 1 else _number(group / "cpu.cfs_period_us")
        if quota and period and quota > 0:  # "max" and -1 both mean: no quota
            yield quota / period


def _free_memory(cgroup: Path, proc: Path) -> int:
    import psutil  # here, because a worker is told its budget and never needs it

    available: int = psutil.virtual_memory().available
    return max(0, min([available, *_memory_left(cgroup, proc)]))


def _memory_left(cgroup: Path, proc: Path) -> Iterator[int]:
    for group in _groups("memory", cgroup, proc):
        for limit_name, used_name, cache_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is not None and used is not None:
                # Files that were read count as used, but the kernel drops them when somebody needs the room.
                yield limit - used + min(used, _field(group / "memory.stat", cache_name))


def _groups(controller: str, cgroup: Path, proc: Path) -> Iterator[Path]:
    """The directories of this process's control groups for `controller`, from its own up to the root."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            mounts = [cgroup, cgroup / "unified"]  # version 2, alone or beside version 1
        elif controller in controllers.split(","):
            mounts = [cgroup / controller, cgroup / controllers]
        else:
            continue
        for mount in mounts:
            yield from _upwards(mount, path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    # In a container the path may be the host's and lead nowhere; the root of the mount is then our own group.
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:depth])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # no such controller, no such version, or not ours to read: no limit that we know of
        return ""


def _numbers(path: Path) -> list[int | None]:
    return [int(word) if word.lstrip("-").isdigit() else None for word in _text(path).split()]


def _number(path: Path) -> int | None:
    return next(iter(_numbers(path)), None)


def _field(path: Path, name: str) -> int:
    fields = dict(line.split(maxsplit=1) for line in _text(path).splitlines())
    return int(fields.get(name, 0))
