"""Progress on stderr if it is a terminal: a bar per mission and one for all episodes; one for rollouts or epochs."""

from __future__ import annotations

import statistics
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

from paceline.evaluate.run import Run
from paceline.types import Episode

if TYPE_CHECKING:
    from paceline.train.trainer import Trainer

_LAST = 10  # epochs whose mean reward is shown
_BARS = 12  # more missions than this share one bar


class Progress:
    """Bars of an evaluation; silent where stderr is no terminal."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._bars: Any = None
        self._all: Any = None
        self._each: dict[str, Any] = {}
        self._failed: dict[str, int] = {}

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, episode: Episode, done: int, total: int) -> None:
        """An episode has ended."""
        if self._bars is None:
            return
        self._failed[episode.mission] = self._failed.get(episode.mission, 0) + (episode.failure is not None)
        if episode.mission in self._each:
            self._bars.update(self._each[episode.mission], advance=1, failed=_failed(self._failed[episode.mission]))
        self._bars.update(self._all, completed=done, failed=_failed(sum(self._failed.values())))

    def _begin(self) -> None:
        self._bars = _made_bars()
        missions = [mission.name for mission in self._run.missions]
        if 1 < len(missions) <= _BARS:
            self._each = {name: self._bars.add_task(name, total=self._run.episodes, failed="") for name in missions}
        self._all = self._bars.add_task("episodes", total=len(self._run.jobs()), failed="")
        self._bars.start()


class RolloutProgress:
    """One bar for rollouts; silent where stderr is no terminal.

    Args:
        total: How many there are.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._bars: Any = None
        self._bar: Any = None
        self.done = 0
        """How many have been played."""

    def __enter__(self) -> RolloutProgress:
        if sys.stderr.isatty():
            self._bars = _made_bars()
            self._bar = self._bars.add_task("rollouts", total=self._total, failed="")
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, done: int, total: int) -> None:
        """So many have been played."""
        self.done = done
        if self._bars is not None:
            self._bars.update(self._bar, completed=done)


class TrainingProgress:
    """One bar for the epochs of a training; silent where stderr is no terminal.

    Args:
        name: What stands before the bar.
    """

    def __init__(self, name: str = "epochs") -> None:
        self._name = name
        self._bars: Any = None
        self._bar: Any = None

    def __enter__(self) -> TrainingProgress:
        if sys.stderr.isatty():
            self._bars = _made_bars("{task.fields[told]}")
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, trainer: Trainer) -> None:
        """An epoch has been played; a watcher of `train`."""
        if self._bars is None:
            return
        if self._bar is None:  # a training that goes on begins in mid-bar, which must not count as speed
            total = trainer.job.timetable.epochs
            self._bar = self._bars.add_task(self._name, total=total, completed=trainer.epoch - 1, told="")
        self._bars.update(self._bar, completed=trainer.epoch, told=_told(trainer))


def _told(trainer: Trainer) -> str:
    """Reward of the last epochs, updates and lag."""
    last = [value for worlds in trainer.rewards[-_LAST:] for world in worlds for value in world.values()]
    done, lag = len(trainer.updates.records), max(trainer.lags[-1].values())
    return f"reward {statistics.fmean(last):.2f}  updates {done}  lag {lag}"


def _made_bars(told: str = "[red]{task.fields[failed]}") -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        _speed(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn(told),
        console=Console(stderr=True),
    )


def _failed(count: int) -> str:
    return f"{count} failed" if count else ""


def _speed() -> Any:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Speed(ProgressColumn):
        """How many per second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")

    return Speed()
