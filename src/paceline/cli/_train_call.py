"""A call of `paceline train`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.cli._progress import TrainingProgress, epochs_of
from paceline.cli._trained import draw_all, show_seeds, show_training
from paceline.cli._training import begin_seeds, trained, trained_seeds
from paceline.cli._training_call import TrainingCall, Watcher
from paceline.engine import Trace


class TrainCall(TrainingCall):
    """See `TrainingCall`."""

    command = "train"

    def one(self, watcher: Watcher, trace: Trace | None) -> Any:
        how = {"resume": self.resume, "trust": self.trust}
        return trained(self.asked, self.out, self.asked.place, **how, watcher=watcher, trace=trace)

    def several(self, watcher: Callable[[int], Watcher]) -> Iterator[tuple[int, dict[str, Any]]]:
        return trained_seeds(self.asked, self.out, watcher, trust=self.trust)

    def begin_several(self, out: Path) -> None:
        begin_seeds(self.asked, out)

    def progress(self, *name: str) -> TrainingProgress:
        return TrainingProgress(epochs_of, *(name or ("epochs",)))

    def show_one(self, training: Any) -> None:
        show_training(training)

    def show_several(self, found: Sequence[Mapping[str, Any]]) -> None:
        show_seeds(found, self.out)

    def draw(self, found: Sequence[Mapping[str, Any]], out: Path) -> None:
        draw_all(found, out)

    def how_far(self, seen: Any) -> str:
        return f"{seen.saved} of {seen.job.timetable.epochs} epochs" if seen.saved else ""

    def failed(self, found: Mapping[str, Any]) -> bool:
        return bool(found["frozen"])
