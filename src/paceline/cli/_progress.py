"""Progress on stderr if it is a terminal: a bar per mission and one for all episodes; one for rollouts or epochs."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from paceline.evaluate.run import Run
from paceline.types import Episode

if TYPE_CHECKING:
    from paceline.meta.loop import Loop
    from paceline.train.trainer import Trainer

_LAST = 10  # epochs whose mean reward is shown
_AGENTS = 4  # agents whose rewards are shown one by one
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
        self._all = self._bars.add_task("episodes", total=self._run.planned, failed="")
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
    """One bar for a training; silent where stderr is no terminal.

    Args:
        look: Says how far a training is, of how much, and what is told beside the bar.
        name: What stands before the bar.
    """

    def __init__(self, look: Callable[[Any], tuple[int, int, str]], name: str) -> None:
        self._look, self._name = look, name
        self._bars: Any = None
        self._bar: Any = None

    def __enter__(self) -> TrainingProgress:
        if sys.stderr.isatty():
            self._bars = _made_bars(told=True)
            self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._bars is not None:
            self._bars.stop()

    def tell(self, training: Any) -> None:
        """Something has been played; a watcher of `train` and of `meta`."""
        if self._bars is None:
            return
        done, total, told = self._look(training)
        if self._bar is None:  # a training that goes on begins in mid-bar, which must not count as speed
            self._bar = self._bars.add_task(self._name, total=total, completed=done, told="")
        self._bars.update(self._bar, completed=done, told=told)


def epochs_of(trainer: Trainer) -> tuple[int, int, str]:
    """How far a training of independent learners is."""
    return trainer.epoch, trainer.job.timetable.epochs, _told(trainer)


def steps_of(loop: Loop) -> tuple[int, int, str]:
    """How far a meta-training is."""
    return loop.env_steps, loop.job.n_env_steps_total, _told_of_loop(loop)


def _told_of_loop(loop: Loop) -> str:
    """Returns in training and of each episode of an unseen task, and where the time goes."""
    unseen = " ".join(f"{mean:.2f}" for mean in loop.evaluations[-1].episodes)
    spent = sum(loop.seconds.values()) or 1.0
    shares = ", ".join(f"{name} {100 * loop.seconds[name] / spent:.0f} %" for name in ("collect", "update"))
    return f"return {loop.returns[-1].sum(1).mean():.2f}  evaluation tasks {unseen}  {shares}"


def _told(trainer: Trainer) -> str:
    """Reward of the last epochs, of one agent after the other if they are few; updates and lag."""
    last = [value for worlds in trainer.rewards[-_LAST:] for world in worlds for value in world.values()]
    done, lag = len(trainer.updates.records), max(trainer.lags[-1].values())
    agents = trainer.job.agents
    if len(agents) > _AGENTS:
        return f"reward {statistics.fmean(last):.2f}  updates {done}  lag {lag}"
    means = (f"{_mean(trainer.rewards[-_LAST:], agent):.2f}" for agent in agents)
    return f"reward {' '.join(means)}  updates {done}  lag {lag}"


def _mean(rewards: list[list[dict[str, float]]], agent: str) -> float:
    return statistics.fmean(world.get(agent, 0.0) for worlds in rewards for world in worlds)


def _made_bars(told: bool = False) -> Any:
    """Bars; with `told`, what a task tells stands in a line of its own: beside a bar there is no room for it."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Bars(Progress):
        def get_renderables(self) -> Iterator[Any]:
            yield from super().get_renderables()
            if told:
                yield from (Text(task.fields["told"], style="dim") for task in self.tasks if task.fields["told"])

    return Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None if told else 40),
        MofNCompleteColumn(),
        _speed(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        *([] if told else [TextColumn("[red]{task.fields[failed]}")]),
        console=Console(stderr=True),
        expand=told,
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
