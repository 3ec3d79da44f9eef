"""Store: the directory of a run. What has been played is on disk before the next result is looked at.

plan.json        what was asked; a run can be continued only as what it was
episodes.jsonl   one line per episode, in the order in which they ended
report.json      everything, when the run is complete (or was stopped)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from paceline.errors import BadInput
from paceline.evaluate.report import Report
from paceline.evaluate.sources import changed
from paceline.types import Episode, Failure

PLAN, EPISODES, REPORT = "plan.json", "episodes.jsonl", "report.json"


class Store:
    """A run's directory, open for writing.

    Args:
        path: The directory; made if it is missing.
        plan: What is asked, with the identity of the run under "identity", and under "files" what it follows from.
        resume: Whether to go on with what is there.

    Raises:
        BadInput: it holds another run, or the files of this one have changed; or a run, and `resume` was not said.
    """

    def __init__(self, path: Path, plan: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"the results cannot be kept in {path}: {error.strerror}; give another directory") from error
        known = read_plan(path) if (path / PLAN).exists() else None
        if known is not None and not resume:
            raise BadInput(f"{path} holds the results of a run; continue it with resume, or give another directory")
        if known is not None and known["identity"] != json.loads(json.dumps(plan["identity"])):
            raise BadInput(f"{path} holds another run: {_difference(known['identity'], plan['identity'])}")
        if known is not None and (files := changed(known.get("files", {}), plan.get("files", {}))):
            raise BadInput(
                f"{', '.join(files)} changed since the run in {path} was begun, so the rest would be another run: put "
                "back what was there, or begin afresh with another directory (a new --out)"
            )
        self.done = read_episodes(path) if known is not None else {}
        if known is None:
            _write(path / PLAN, plan)
        self._file = self._open()

    def _open(self) -> TextIO:
        """Opens the lines for more; half a line, left by a crash, is cut off."""
        file = (self.path / EPISODES).open("a+b")
        file.seek(0)
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        file.close()
        return (self.path / EPISODES).open("a", encoding="utf-8")

    def add(self, episode: Episode) -> None:
        """Writes an episode that has ended; it is on disk when this returns."""
        self._file.write(json.dumps(asdict(episode)) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self, report: Report) -> None:
        """Writes the report."""
        _write(self.path / REPORT, report.as_dict())

    def close(self) -> None:
        self._file.close()


def read_plan(path: Path) -> dict[str, Any]:
    """What a run was asked.

    Raises:
        BadInput: the directory holds no run.
    """
    try:
        plan: dict[str, Any] = json.loads((path / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path} holds no run: there is no {PLAN} in it") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path / PLAN} cannot be read: {error}") from error
    return plan


def read_episodes(path: Path) -> dict[tuple[str, int], Episode]:
    """The episodes of a run that are on disk; of one that was played again, the last word."""
    found: dict[tuple[str, int], Episode] = {}
    try:
        lines = (path / EPISODES).read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return found
    for number, line in enumerate(lines[:-1], 1):  # what stands after the last line break is half a line
        try:
            episode = _episode(json.loads(line))
        except (ValueError, TypeError) as error:
            raise BadInput(f"{path / EPISODES}, line {number} is damaged ({error}); remove that line") from error
        found[episode.mission, episode.index] = episode
    return found


def read_report(path: Path) -> Report:
    """The report of a run, complete or not, from what is on disk."""
    plan = read_plan(path)
    if "identity" not in plan:
        raise BadInput(f"{path} is no run of an evaluation: its plan.json does not say what was played")
    identity = plan["identity"]
    done = read_episodes(path)
    order = [(mission["name"], index) for mission in identity["missions"] for index in range(identity["episodes"])]
    episodes = [done[key] for key in order if key in done]
    return Report(identity, episodes, len(order), out=str(path))


def _episode(content: dict[str, Any]) -> Episode:
    failure = content.pop("failure")
    return Episode(**content, failure=None if failure is None else Failure(**failure))


def _write(path: Path, content: Any) -> None:
    """Writes a file whole, or not at all."""
    half = path.with_suffix(".part")
    with half.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def _difference(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    for name in known:
        if known[name] != json.loads(json.dumps(asked.get(name))):
            return f"there {name} is {known[name]!r}, and here {asked.get(name)!r}"
    return "it was asked something else"
