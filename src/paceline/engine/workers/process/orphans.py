"""Ends what a lost server has left behind: all that was started below it, in any session, found by an inherited mark.

    server (PACELINE_SERVER=mark) ──fork──► worker ──fork, setsid, exec──► …      a child bears the marks of its parents

A server adopts and ends what its workers have started. One that is killed cannot: its workers die with it, what they
have started is adopted by init or by an ancestor of this process, and only the environment says whose it was. A process
whose parent is another one, and bears no mark, was started elsewhere with a copied environment: it is left alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Iterator

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
    """Kills every process of this user that bears the mark and was started below the server."""
    adopters = {1, *_ancestors(os.getpid())}
    for _ in range(_ROUNDS):
        if not [pid for pid in _processes() if _end(pid, mark.encode(), adopters)]:
            return


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _ancestors(pid: int) -> Iterator[int]:
    while (pid := _parent(pid)) > 0:
        yield pid


def _parent(pid: int) -> int:
    """The parent's number; 0: there is none, or none that is seen from here."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])


def _end(pid: int, mark: bytes, adopters: set[int]) -> bool:
    """Kills a process if it is one of those. By a descriptor: its number may be another one's in the next moment."""
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if mark not in (_marks_of(pid) or b"") or not _is_below(_parent(pid), mark, adopters):
                return False
            signal.pidfd_send_signal(process, signal.SIGKILL)
            return True
        finally:
            os.close(process)
    return False


def _is_below(parent: int, mark: bytes, adopters: set[int]) -> bool:
    """Whether this is the parent of one that was started below the server, or was adopted since."""
    if parent in adopters:
        return True
    try:
        marks = _marks_of(parent)
    except PermissionError:
        return False
    except OSError:  # it is gone since it was asked for
        return True
    return marks is None or mark in marks


def _marks_of(pid: int) -> bytes | None:
    """The marks that a process bears; None: it is about to be gone, and its memory is already."""
    name = f"{_NAME}=".encode()
    with open(f"/proc/{pid}/environ", "rb") as file:
        environment = file.read()
    return b" ".join(part for part in environment.split(b"\0") if part.startswith(name)) if environment else None
