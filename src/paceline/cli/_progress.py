"""Progress on stderr, while somebody is looking: a bar per mission, and one for everything."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from paceline.evaluate.run import Run
from paceline.types import Episode

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
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _speed(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[red]{task.fields[failed]}"),
            console=Console(stderr=True),
        )
        missions = [mission.name for mission in self._run.missions]
        if 1 < len(missions) <= _BARS:
            self._each = {name: self._bars.add_task(name, total=self._run.episodes, failed="") for name in missions}
        self._all = self._bars.add_task("episodes", total=len(self._run.jobs()), failed="")
        self._bars.start()


def _failed(count: int) -> str:
    return f"{count} failed" if count else ""


def _speed() -> Any:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class Speed(ProgressColumn):
        """Episodes per second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")

    return Speed()
