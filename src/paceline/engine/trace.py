"""Trace: what ran when and where, as spans in memory, then as a timeline file or a few lines of text.

    pool ── add(kind, name, start, end, worker=…) ──► spans ──┬─► write(path)   opens in Perfetto and chrome://tracing
                                                              └─► summary()     plain text

Times are seconds of `time.perf_counter()`, which on Linux is one clock for all the processes of a machine.
Who does not trace holds `None` in place of a Trace, and pays for one comparison.
"""

from __future__ import annotations

import copy
import json
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paceline.errors import BadInput

__all__ = ["KINDS", "MAIN", "Span", "Trace"]

KINDS = ("call", "wait", "send", "rebuild", "start", "build", "map", "port", "phase")
"""What a span can be: the pool's own words; and "phase", what the process that holds the pools is about."""

MAIN = -1
"""The `worker` of spans of the process that holds the pool: its waits, and the members that it runs."""

_CALLS = frozenset({"call", "map", "port"})  # the three ways in which a worker runs a member
_PHASES_ROW, _MAIN_ROW, _WAITS_ROW, _FIRST_WORKER_ROW = 0, 1, 2, 3
_ROWS_OF_A_POOL = 10_000  # no pool has as many workers


class Span(NamedTuple):
    """One stretch of time in which one thing was done; `start` and `end` are `perf_counter` seconds."""

    kind: str
    name: str
    start: float
    end: float
    worker: int
    pid: int | None
    member: int | None
    pool: str = ""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


class Trace:
    """Collects spans while a run goes on, and shows them afterwards.

    Args:
        limit: How many spans are kept. Later ones are only counted, so that a trace cannot fill the memory.
    """

    def __init__(self, *, limit: int = 1_000_000) -> None:
        if limit < 1:
            raise BadInput(f"limit={limit} keeps no span: give 1 or more, or no trace at all")
        self.limit = limit
        self._pool = ""
        self._dropped = [0]  # a cell, which the parts share
        self._spans: list[Span] = []
        self._pid = os.getpid()
        self._counting = threading.Lock()

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans kept so far, in the order in which they were added."""
        return tuple(self._spans)

    @property
    def dropped(self) -> int:
        """How many later spans were not kept."""
        return self._dropped[0]

    def part(self, pool: str) -> Trace:
        """The same trace for one of several pools: what is added there is shown in rows that bear the pool's name."""
        part = copy.copy(self)
        part._pool = pool
        return part

    def add(
        self,
        kind: str,
        name: str,
        start: float,
        end: float,
        *,
        worker: int,
        pid: int | None = None,
        member: int | None = None,
    ) -> None:
        """Keeps one span.

        Args:
            kind: What was done: one of `KINDS`.
            name: What it was done for: the method called, the recipe built.
            start: When it began, by `time.perf_counter()`.
            end: When it ended, by the same clock.
            worker: The worker that did it or was waited for; `MAIN` if none.
            pid: The process that did it, if known.
            member: The member that it was done for, if there is one.
        """
        if kind not in KINDS or end < start:
            raise BadInput(f"no such span: {kind} {name!r}, {start} to {end}; kinds: {', '.join(KINDS)}")
        if len(self._spans) < self.limit:
            self._spans.append(Span(kind, name, start, end, worker, pid, member, self._pool))
        else:
            self._drop()

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the timeline as Chrome trace events, whole or not at all; makes the directory if need be."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}.draft")
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.writelines(self._document())
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)

    def summary(self) -> str:
        """Says in plain text how long it took, where the time went, who was busy, and the longest waits."""
        spans = self.spans
        if not spans:
            return "The trace is empty: nothing was recorded."
        first, total = _extent(spans)
        lines = [f"{len(spans)} spans over {_duration(total)}."]
        lines += ["Time by kind (added up over all workers):", *_time_by_kind(spans)]
        lines += _titled("Busy share (in calls / the whole time):", _busy_shares(spans, total))
        lines += _titled("Longest waits:", _longest_waits(spans, first))
        if self.dropped:
            lines.append(f"{self.dropped} later spans were dropped: the trace keeps {self.limit}.")
        return "\n".join(lines)

    def _drop(self) -> None:
        with self._counting:  # += from several threads would lose some
            self._dropped[0] += 1

    def _document(self) -> Iterator[str]:
        """The file in pieces, an event a line, so that a long trace is never held twice."""
        about = {"spans": len(self._spans), "dropped": self.dropped, "limit": self.limit}
        yield f'{{"displayTimeUnit": "ms", "otherData": {json.dumps(about)}, "traceEvents": [\n'
        comma = ""
        for event in self._events():
            yield comma + json.dumps(event)
            comma = ",\n"
        yield "\n]}\n"

    def _events(self) -> Iterator[dict[str, Any]]:
        spans = self.spans
        yield self._label("process_name", 0, name="paceline")
        pools = {pool: place for place, pool in enumerate(sorted({span.pool for span in spans} | {""}))}
        names = {_row(span, pools): _row_name(span) for span in spans}
        for row, name in sorted(names.items()):
            yield self._label("thread_name", row, name=name)
            yield self._label("thread_sort_index", row, sort_index=row)
        origin = min((span.start for span in spans), default=0.0)
        for span in spans:
            yield self._event(span, origin, _row(span, pools))

    def _label(self, what: str, row: int, **args: object) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": self._pid, "tid": row, "args": args}

    def _event(self, span: Span, origin: float, row: int) -> dict[str, Any]:
        args = {"worker": span.worker, "pid": span.pid, "member": span.member, "pool": span.pool or None}
        return {
            "ph": "X",
            "cat": span.kind,
            "name": span.name if span.kind in (span.name, "phase") else f"{span.kind} {span.name}",
            "ts": (span.start - origin) * 1e6,
            "dur": span.seconds * 1e6,
            "pid": self._pid,
            # A worker that was rebuilt has a new pid but keeps its row; the pid stands in the arguments.
            "tid": row,
            "args": {key: value for key, value in args.items() if value is not None},
        }


def _row(span: Span, pools: Mapping[str, int]) -> int:
    if span.kind == "phase":
        return _PHASES_ROW
    if span.kind == "wait":
        return _WAITS_ROW
    # A message is sent while its worker may still be in an earlier call; on one row the two would cross.
    if span.worker < 0 or span.kind == "send":
        return _MAIN_ROW
    return _FIRST_WORKER_ROW + pools[span.pool] * _ROWS_OF_A_POOL + span.worker


def _row_name(span: Span) -> str:
    named = {"phase": "main: phases", "wait": "main: waits", "send": _who(MAIN)}
    return named[span.kind] if span.kind in named else _who(span.worker, span.pool)


def _extent(spans: Iterable[Span]) -> tuple[float, float]:
    """When the first span began, and the time from there to the last end."""
    first = min(span.start for span in spans)
    return first, max(span.end for span in spans) - first


def _time_by_kind(spans: Iterable[Span]) -> list[str]:
    durations: defaultdict[str, list[float]] = defaultdict(list)
    for span in spans:
        durations[span.kind].append(span.seconds)
    ordered = sorted(durations.items(), key=lambda item: (-sum(item[1]), item[0]))
    return [f"  {kind:<8} {_duration(sum(each)):>10}  in {len(each)}" for kind, each in ordered]


def _busy_shares(spans: Iterable[Span], total: float) -> list[str]:
    calls: defaultdict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for span in spans:
        who = ("", MAIN) if span.worker < 0 else (span.pool, span.worker)
        if span.kind in _CALLS:
            calls[who].append((span.start, span.end))
        elif span.worker >= 0:
            calls[who] += []  # a worker that was never called is shown too: idle
    shares = {
        _who(worker, pool): _union(each) / total if total else 0.0 for (pool, worker), each in sorted(calls.items())
    }
    widest = max([11, *map(len, shares)])
    return [f"  {who:<{widest}} {share:>6.1%}" for who, share in shares.items()]


def _who(worker: int, pool: str = "") -> str:
    if worker < 0:
        return "main"
    return f"{pool}: worker {worker}" if pool else f"worker {worker}"


def _union(intervals: list[tuple[float, float]]) -> float:
    """The time covered by at least one interval; nested and overlapping calls count once."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _longest_waits(spans: Iterable[Span], first: float, count: int = 5) -> list[str]:
    waits = [span for span in spans if span.kind == "wait"]
    waits.sort(key=lambda wait: (-wait.seconds, wait.start))
    return [f"  {_duration(wait.seconds):>10}  {_described(wait, first)}" for wait in waits[:count]]


def _described(wait: Span, first: float) -> str:
    return f"{wait.name} ({_who(wait.worker)}), {_duration(wait.start - first)} in"


def _titled(title: str, lines: list[str]) -> list[str]:
    return [title, *lines] if lines else []


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"
