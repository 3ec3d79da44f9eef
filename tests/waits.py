"""A test waits for an event, however long that takes on a busy machine; but not for ever, or nobody would be told."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable
from typing import Any, NoReturn

import psutil
import pytest

LONGEST = 100.0  # seconds: less than pytest waits before it shows every stack


def until(condition: Callable[[], Any]) -> None:
    """Waits until something is so."""
    end = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < end, f"not so after {LONGEST:g} s"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs. One that has ended but whose parent has not asked for its exit code does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def until_child(process: subprocess.Popen[Any], condition: Callable[[], Any]) -> None:
    """Waits until a child has done something. If it does not, it is ended, and what it said is shown."""
    end = time.monotonic() + LONGEST
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            _end(process)
        time.sleep(0.01)


def until_readable(process: subprocess.Popen[Any], source: Any, said: object = "") -> None:
    """Waits until there is something to read from a child, or nobody writes any more. If not, it is ended."""
    if not select.select([source], [], [], LONGEST)[0]:
        _end(process, said)


def until_over(process: subprocess.Popen[Any]) -> tuple[Any, Any]:
    """Waits for a child's end, and gives what it said. If it does not come, it is ended."""
    try:
        return process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        _end(process)


def _end(process: subprocess.Popen[Any], *said: object) -> NoReturn:
    how = "hangs" if process.poll() is None else f"has ended with {process.returncode}"
    process.kill()
    pytest.fail(f"the child {how}; it said: {[*said, *process.communicate(timeout=LONGEST)]}")
