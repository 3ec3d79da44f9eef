"""Store: the episodes of an evaluation in the directory of its run; see `paceline.records`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paceline.errors import BadInput
from paceline.evaluate.report import Report
from paceline.records import Records, damaged, read_lines, read_plan
from paceline.types import Episode, Failure

EPISODES = "episodes.jsonl"


class Store:
    """A run's directory, open for writing.

    Args:
        path: The directory; made if it is missing.
        plan: What is asked, as `Records` takes it.
        resume: Whether to go on with what is there.

    Raises:
        BadInput: it holds another run, or this one with other files or recipes; or a run, and `resume` was not said.
    """

    def __init__(self, path: Path, plan: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        self._records = Records(path, EPISODES, plan, resume=resume)
        self.done = _episodes(path, self._records.lines)
        self.notes = self._records.notes

    def add(self, episode: Episode) -> None:
        """Writes an episode that has ended; it is on disk when this returns."""
        self._records.add(asdict(episode))

    def finish(self, report: Report) -> None:
        """Writes the report."""
        self._records.finish(report.as_dict())

    def close(self) -> None:
        """Ends it. May be called again."""
        self._records.close()


def read_episodes(path: Path) -> dict[tuple[str, int], Episode]:
    """The episodes of a run that are on disk; of one that was played again, the last word."""
    return _episodes(path, read_lines(path / EPISODES))


def read_report(path: Path) -> Report:
    """The report of a run, complete or not, from what is on disk."""
    plan = read_plan(path)
    if "missions" not in plan.get("identity", {}):
        raise BadInput(f"{path} is no run of an evaluation: its plan.json does not say what was played")
    identity = plan["identity"]
    done = read_episodes(path)
    order = [(mission["name"], index) for mission in identity["missions"] for index in range(identity["episodes"])]
    episodes = [done[key] for key in order if key in done]
    return Report(identity, episodes, len(order), out=str(path))


def _episodes(path: Path, lines: Iterable[dict[str, Any]]) -> dict[tuple[str, int], Episode]:
    found: dict[tuple[str, int], Episode] = {}
    for number, line in enumerate(lines, 1):
        try:
            episode = _episode(dict(line))
        except (KeyError, TypeError) as error:
            raise damaged(path / EPISODES, number, error) from error
        found[episode.mission, episode.index] = episode
    return found


def _episode(content: dict[str, Any]) -> Episode:
    failure = content.pop("failure")
    return Episode(**content, failure=None if failure is None else Failure(**failure))
