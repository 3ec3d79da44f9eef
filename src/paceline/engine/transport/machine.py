"""The machine that a process runs on: a pid means the same to two processes only if both are on the same one."""

from __future__ import annotations

import functools
import os

Machine = tuple[str, str]
"""The kernel that runs, and the namespace of its pids."""


@functools.cache
def this_machine() -> Machine | None:
    """Where this process runs; None if the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read(), os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
