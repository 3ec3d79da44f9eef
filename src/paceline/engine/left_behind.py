"""Ends what a lost server has left behind: all that was started below it, in any session, found by an inherited mark.

    server (PACELINE_SERVER=mark) ──fork──► worker ──fork, setsid, exec──► …      a child bears the marks of its parents

A server adopts and ends what its workers have started. One that is killed cannot: its workers die with it, what they
have started is adopted by init, and nothing but the environment says whose it was.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal

_NAME = "PACELINE_SERVER"
_ROUNDS = 10  # what forks meanwhile is found in the next one


def new_mark() -> str:
    """A mark that no other server has."""
    return secrets.token_hex(8)


def environment_with(mark: str) -> dict[str, str]:
    """The environment of this process, and the mark behind those that it has."""
    return {**os.environ, _NAME: f"{os.environ.get(_NAME, '')} {mark}".strip()}


def marks() -> dict[str, str]:
    """The marks of this process, as a part of an environment."""
    return {name: value for name, value in os.environ.items() if name == _NAME}


def end_marked(mark: str) -> None:
    """Kills every process of this user that bears the mark."""
    for _ in range(_ROUNDS):
        if not [pid for pid in _processes() if _end(pid, mark.encode())]:
            return


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _end(pid: int, mark: bytes) -> bool:
    """Kills a process if it bears the mark. By a descriptor, for its number may be another one's in the next moment."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if not _bears(file.read(), mark):
                    return False
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return True
        finally:
            os.close(process)
    return False


def _bears(environment: bytes, mark: bytes) -> bool:
    name = f"{_NAME}=".encode()
    return any(mark in part for part in environment.split(b"\0") if part.startswith(name))
