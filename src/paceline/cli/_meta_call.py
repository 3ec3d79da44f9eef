"""A call of `paceline meta`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.cli._meta_asked import begin_seeds, draw_all, learned, learned_seeds
from paceline.cli._meta_shown import show_meta
from paceline.cli._progress import TrainingProgress, steps_of
from paceline.cli._training_call import TrainingCall, Watcher
from paceline.engine import Trace


class MetaCall(TrainingCall):
    """See `TrainingCall`."""

    command = "meta"

    def one(self, watcher: Watcher, trace: Trace | None) -> Any:
        how = {"resume": self.resume, "trust": self.trust}
        return learned(self.asked, self.out, self.asked.place, **how, watcher=watcher, trace=trace)

    def several(self, watcher: Callable[[int], Watcher]) -> Iterator[tuple[int, dict[str, Any]]]:
        return learned_seeds(self.asked, self.out, watcher, trust=self.trust)

    def begin_several(self, out: Path) -> None:
        begin_seeds(self.asked, out)

    def progress(self, *name: str) -> TrainingProgress:
        return TrainingProgress(steps_of, *(name or ("env steps",)))

    def show_one(self, training: Any) -> None:
        show_meta([training.as_dict()], self.out)

    def show_several(self, found: Sequence[Mapping[str, Any]]) -> None:
        show_meta(found, self.out)

    def draw(self, found: Sequence[Mapping[str, Any]], out: Path) -> None:
        draw_all([dict(one) for one in found], out)

    def how_far(self, seen: Any) -> str:
        return f"{seen.saved} iterations" if seen.saved else ""
