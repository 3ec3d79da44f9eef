"""Store: the episodes of an evaluation in the directory of its run; see `paceline.records`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paceline.errors import BadInput
from paceline.evaluate.report import Report, in_plan_order, plain
from paceline.records import PLAN, Records, UncheckedLines, damaged, read_lines, read_plan
from paceline.types import Episode

if TYPE_CHECKING:
    from pydantic import TypeAdapter

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
        try:
            self.done = _episodes(path, self._records.lines)
        except BaseException:
            self._records.close()
            raise
        self.notes = self._records.notes

    def add(self, episode: Episode) -> None:
        """Writes an episode that has ended; it is on disk when this returns."""
        self._records.add(plain(asdict(episode)))

    def finish(self, report: Report) -> None:
        """Writes the report."""
        self._records.finish(report.as_dict())

    def close(self) -> None:
        """Ends it. May be called again."""
        self._records.close()


def read_episodes(path: Path, unchecked: UncheckedLines | None = None) -> dict[tuple[str, int], Episode]:
    """The episodes of a run that are on disk; of one that was played again, the last word.

    Args:
        path: The directory of the run.
        unchecked: Counts the lines that carry no check.
    """
    return _episodes(path, read_lines(path / EPISODES, unchecked=unchecked))


def read_report(path: Path) -> Report:
    """The report of a run, complete or not, from what is on disk.

    Raises:
        BadInput: there is no run of an evaluation, or it is damaged.
    """
    plan = read_plan(path)
    if "missions" not in plan.get("identity", {}):
        raise BadInput(f"{path} is no run of an evaluation: its plan.json does not say what was played")
    identity, unchecked = plan["identity"], UncheckedLines(path / EPISODES)
    done = read_episodes(path, unchecked)
    try:
        _ = [(policy["name"], policy["share"]) for policy in identity["policies"]]
        episodes, planned = in_plan_order(done, identity), len(identity["missions"]) * identity["episodes"]
    except (KeyError, TypeError) as error:
        raise BadInput(f"{path / PLAN} is damaged: it does not say what was played ({error})") from error
    made_of = plan.get("recipes", {})
    return Report(identity, episodes, planned, notes=unchecked.notes, out=str(path), made_of=made_of)


def _episodes(path: Path, lines: Iterable[dict[str, Any]]) -> dict[tuple[str, int], Episode]:
    found: dict[tuple[str, int], Episode] = {}
    for number, line in enumerate(lines, 1):
        try:
            episode = _form().validate_python({**line, "stats": _with_nan(line["stats"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged(path / EPISODES, number, _first_line(error)) from error
        found[episode.mission, episode.index] = episode
    return found


@cache
def _form() -> TypeAdapter[Episode]:
    """What a line must be. Its checks are imported when a run is read: they take a while."""
    from pydantic import TypeAdapter

    return TypeAdapter(Episode)


def _with_nan(stats: Mapping[str, Mapping[str, float | None]]) -> dict[str, dict[str, float]]:
    """Counts as they were: JSON has no NaN, so it is null there."""
    return {
        agent: {name: float("nan") if value is None else value for name, value in numbers.items()}
        for agent, numbers in stats.items()
    }


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split("\n")[:3]) if str(error) else type(error).__name__
