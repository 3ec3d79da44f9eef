"""Failures for people: who failed, where in their own code, and where to read everything.

traceback ── without frames of Paceline, or what the engine adds ──► the user's own frames, and what was raised
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

import paceline
from paceline.cli._terminal import harmless
from paceline.evaluate import Report
from paceline.evaluate.store import EPISODES
from paceline.types import Episode

if TYPE_CHECKING:
    from paceline.collect import Collection

_SHOWN = 5
_OURS = Path(paceline.__file__).parent
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line \d+')
_CHAIN = re.compile(r"\n+(?=The above exception was the direct cause|During handling of the above exception)")
_ADDED = re.compile(r"^in (member|item) \d+.*$|^paceline\.engine\.transport\.codec\.RemoteTraceback:\s*$")
_LOST = ("WorkerLost", "CallTimeout", "MemberExit")


def show_failures(page: Console, report: Report) -> None:
    """Prints the first failures, and of the first one where it happened."""
    failures = report.failures
    if not failures:
        return
    page.print(Text(f"{len(failures)} of {len(report.episodes)} episodes failed:", style="red"))
    for episode in failures[:_SHOWN]:
        page.print(Text(f"  {told(episode)}"))
    if len(failures) > _SHOWN:
        page.print(Text(f"  … and {len(failures) - _SHOWN} more"))
    first = failures[0]
    assert first.failure is not None
    if frames := own_frames(first.failure.traceback):
        page.print(Text(f"{first.name}:\n{frames}", style="dim"))
    if report.out is not None:
        page.print(Text(f"full tracebacks: {Path(report.out) / EPISODES}", style="dim"))
        page.print(f"play it again: paceline rerun {shlex.quote(report.out)} {shlex.quote(first.name)}")
    else:
        page.print(Text("full tracebacks are kept without --no-save, and in --json", style="dim"))


def told(episode: Episode) -> str:
    """A failure in a line; of an episode that was lost before its first action the step is not known."""
    failure = episode.failure
    assert failure is not None
    who = f", agent {failure.agent}, policy {failure.policy}" if failure.agent else ""
    step = "" if failure.kind in _LOST and not (failure.agent or failure.step) else f", step {failure.step}"
    return harmless(f"{episode.name} (seed {episode.seed}{who}{step}): {failure.kind}: {failure.message}")


def first_failure(collection: Collection) -> str:
    """Of the first rollout that failed: which it was, and where in the user's own code."""
    index, failure = next(iter(collection.failures.items()))
    task = next(task for rollout, task in zip(collection, collection.tasks, strict=True) if rollout.index == index)
    played = collection.iteration if isinstance(collection.iteration, str) else f"iteration {collection.iteration}"
    where = harmless(f"rollout {index} of {played}, task {task!r}")
    return "\n".join(part for part in (where, own_frames(failure.traceback)) if part)


def own_frames(traceback: str) -> str:
    """The frames that are not Paceline's, innermost last, and what was raised there; empty if all are ours."""
    blocks = [block for block in map(_own_lines, _CHAIN.split(traceback)) if any(_FRAME.match(line) for line in block)]
    return harmless("\n".join(line for block in blocks for line in block))


def _own_lines(block: str) -> list[str]:
    kept: list[str] = []
    ours = False
    for line in block.strip("\n").splitlines():
        frame = _FRAME.match(line)
        if frame is not None:
            ours = Path(frame["file"]).is_relative_to(_OURS)
        elif not line.startswith("    "):  # what belongs to a frame is indented further
            ours = bool(_ADDED.match(line)) or not line.strip()
        if not ours:
            kept.append(line)
    return kept
