"""Phases: what main is about, as seconds and as spans of a trace.

collect      worlds are stepped, agents act, rows are filed
train        updates are handed over, or, where learners live here, run
wait         for an update under way elsewhere
publish      versions are given to the copies that act
checkpoint   everything is saved
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from paceline.engine import HERE, Trace


class Phases:
    """The phases of a training.

    Args:
        trace: Is given a span for each phase; None: seconds are counted, and nothing more.
    """

    def __init__(self, trace: Trace | None) -> None:
        self.seconds = dict.fromkeys(("collect", "train", "wait", "publish", "checkpoint"), 0.0)
        """Phase → its seconds, without those of phases within it."""
        self._trace = trace
        self._inner: list[float] = []  # seconds of phases within each of those that are open

    @contextmanager
    def of(self, phase: str, about: str) -> Iterator[None]:
        """A phase lasts as long as the body: `about` stands beside its name in the timeline."""
        begin = perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            end = perf_counter()
            self.seconds[phase] += end - begin - self._inner.pop()
            if self._inner:
                self._inner[-1] += end - begin
            if self._trace is not None:
                self._trace.add("phase", f"{phase} {about}", begin, end, worker=HERE)

    def part(self, pool: str) -> Trace | None:
        """The trace for a pool of that name."""
        return None if self._trace is None else self._trace.part(pool)
