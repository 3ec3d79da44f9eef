"""What the commands share that play something: where it is played, where results go, and whose standard output is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TextIO

from paceline.cli._output import OUTPUT
from paceline.engine import Plan
from paceline.errors import BadInput


def plan_of(backend: str, jobs: str, untrusted: bool) -> Plan:
    """The plan that `--plan`, `--jobs` and `--untrusted` ask for together.

    Raises:
        BadInput: they contradict each other.
    """
    if jobs != "auto" and not jobs.isdecimal():
        raise BadInput(f"--jobs {jobs}: give a number of workers, 0 (here), or auto")
    workers = None if jobs == "auto" else int(jobs)
    if untrusted and (workers == 0 or backend in ("inline", "thread")):
        raise BadInput(
            "--untrusted needs workers in processes of their own: leave --jobs 0 and --plan inline or thread away"
        )
    if backend == "inline" and workers is not None and workers > 1:
        raise BadInput(f"--jobs {workers} wants workers, and --plan inline has none: leave one of them away")
    if workers == 0 or backend == "inline":
        if backend not in ("auto", "inline", "process"):
            raise BadInput(f"--jobs 0 plays here, and --plan {backend} does not: leave one of them away")
        return Plan("inline", 1)
    trust = "data" if untrusted else "all"
    return Plan("process" if backend == "auto" and workers is not None else backend, workers, trust=trust)


def whole(path: Path) -> Path:
    """A path from the root, with links followed. One that leads nowhere is told where it is read."""
    return Path(os.path.realpath(path))


def fresh_directory(command: str) -> Path:
    """Where the results of a command go if it is not said."""
    return Path("runs") / f"{command}-{datetime.now():%Y%m%d-%H%M%S}"


@contextmanager
def only_the_result(wanted: bool) -> Iterator[TextIO]:
    """Gives standard output. If it is for the result alone, what policies and worlds print here goes to stderr, as
    it does from workers; by descriptor, because C code prints too."""
    if not wanted:
        yield sys.stdout
        return
    with OUTPUT.open(os.dup(1)) as page:
        os.dup2(2, 1)
        try:
            yield page
        finally:
            sys.stdout.flush()
            page.flush()
            os.dup2(page.fileno(), 1)
