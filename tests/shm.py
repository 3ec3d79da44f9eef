"""Shared memory with a name: only such can be left behind by a process that dies."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def named_memory(pids: Iterable[int]) -> set[Path]:
    """The files in /dev/shm that these processes have mapped now; other programs may come and go there."""
    return {path for pid in pids for path in _mapped(pid) if path.is_relative_to("/dev/shm")}


def _mapped(pid: int) -> set[Path]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split(maxsplit=5)[5]) for line in lines if line.count(" ") >= 5 and "/" in line}
