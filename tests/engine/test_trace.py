"""A trace keeps spans, writes them as a timeline that opens in Perfetto, and sums them up in plain text."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.engine.trace import MAIN, Span, Trace
from paceline.errors import BadInput


def written(trace: Trace, path: Path) -> dict[str, Any]:
    trace.write(path)
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def events(document: dict[str, Any], phase: str) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def row_names(document: dict[str, Any]) -> dict[int, str]:
    labels = (event for event in events(document, "M") if event["name"] == "thread_name")
    return {label["tid"]: label["args"]["name"] for label in labels}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


@pytest.fixture
def trace() -> Trace:
    """Two workers, ten seconds; worker 0 is busy for six of them, worker 1 for two."""
    made = Trace()
    made.add("start", "worker", 100.0, 101.0, worker=0, pid=7)
    made.add("send", "step", 101.0, 101.5, worker=0)
    made.add("call", "step", 101.5, 105.5, worker=0, pid=7, member=3)
    made.add("call", "step", 104.5, 107.5, worker=0, pid=7, member=4)
    made.add("call", "step", 102.0, 104.0, worker=1, pid=8, member=5)
    made.add("wait", "step", 101.5, 107.5, worker=0)
    made.add("map", "play", 101.0, 110.0, worker=MAIN)
    return made


def test_spans_are_kept_in_order(trace: Trace) -> None:
    assert len(trace) == 7
    assert trace.spans[2] == Span("call", "step", 101.5, 105.5, worker=0, pid=7, member=3)
    assert trace.spans[2].seconds == 4.0


def test_pools_and_phases_have_rows_of_their_own(target: Path) -> None:
    """Workers of two pools with one number do not share a row; what main is about stands above all."""
    whole = Trace(limit=4)
    whole.part("learners").add("call", "learn", 0.0, 2.0, worker=0)
    whole.part("actors").add("call", "act", 1.0, 3.0, worker=0)
    whole.add("phase", "collect epoch 3", 0.0, 3.0, worker=MAIN)
    whole.add("call", "step", 0.0, 1.0, worker=0)
    whole.part("actors").add("call", "act", 3.0, 4.0, worker=0)
    assert (len(whole), whole.dropped) == (4, 1)
    rows = row_names(written(whole, target))
    assert [rows[row] for row in sorted(rows)] == ["main: phases", "worker 0", "actors: worker 0", "learners: worker 0"]
    assert [event["name"] for event in events(written(whole, target), "X")][2] == "collect epoch 3"
    assert "learners: worker 0" in whole.summary()


def test_times_are_microseconds_from_the_first_span(trace: Trace, target: Path) -> None:
    first_call = events(written(trace, target), "X")[2]
    assert (first_call["ts"], first_call["dur"]) == (1.5e6, 4e6)
    assert (first_call["cat"], first_call["name"]) == ("call", "call step")
    assert first_call["args"] == {"worker": 0, "pid": 7, "member": 3}


def test_every_worker_has_a_row_and_so_have_mains_waits(trace: Trace, target: Path) -> None:
    document = written(trace, target)
    rows = row_names(document)
    placed = [(event["cat"], rows[event["tid"]]) for event in events(document, "X")]
    assert placed == [
        ("start", "worker 0"),
        ("send", "main"),
        ("call", "worker 0"),
        ("call", "worker 0"),
        ("call", "worker 1"),
        ("wait", "main: waits"),
        ("map", "main"),
    ]


def test_all_rows_belong_to_one_named_process(trace: Trace, target: Path) -> None:
    document = written(trace, target)
    assert {event["pid"] for event in document["traceEvents"]} == {os.getpid()}
    names = [event["args"]["name"] for event in events(document, "M") if event["name"] == "process_name"]
    assert names == ["paceline"]


def test_a_rebuilt_worker_keeps_its_row(target: Path) -> None:
    trace = Trace()
    trace.add("call", "step", 0.0, 1.0, worker=2, pid=7)
    trace.add("rebuild", "worker", 1.0, 2.0, worker=2, pid=9)
    one, other = events(written(trace, target), "X")
    assert one["tid"] == other["tid"]
    assert (one["args"]["pid"], other["args"]["pid"]) == (7, 9)


def test_an_empty_trace_is_a_valid_file_and_a_sentence(target: Path) -> None:
    trace = Trace()
    assert events(written(trace, target), "X") == []
    assert trace.summary() == "The trace is empty: nothing was recorded."


def test_a_span_named_like_its_kind_is_not_named_twice(target: Path) -> None:
    trace = Trace()
    trace.add("start", "start", 0.0, 1.0, worker=0)
    assert events(written(trace, target), "X")[0]["name"] == "start"


def test_names_may_hold_any_text(target: Path) -> None:
    trace = Trace()
    trace.add("call", 'a "quoted"\nπ', 0.0, 1.0, worker=0)
    assert events(written(trace, target), "X")[0]["name"] == 'call a "quoted"\nπ'


def test_a_file_replaces_an_older_one_and_leaves_no_draft(trace: Trace, target: Path) -> None:
    target.write_text("old")
    assert len(events(written(trace, target), "X")) == 7
    assert os.listdir(target.parent) == [target.name]


def test_the_directory_is_made(trace: Trace, tmp_path: Path) -> None:
    assert written(trace, tmp_path / "runs" / "7" / "trace.json")


def test_a_file_that_cannot_be_finished_leaves_the_old_one(target: Path) -> None:
    target.write_text("old")
    trace = Trace()
    trace.add("call", b"not text", 0.0, 1.0, worker=0)  # type: ignore[arg-type]
    trace.add("call", "step", 0.0, 1.0, worker=0, member=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        trace.write(target)
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == [target.name]


def test_the_summary_says_where_the_time_went(trace: Trace) -> None:
    assert trace.summary().splitlines() == [
        "7 spans over 10.00 s.",
        "Time by kind (added up over all workers):",
        "  call         9.00 s  in 3",
        "  map          9.00 s  in 1",
        "  wait         6.00 s  in 1",
        "  start        1.00 s  in 1",
        "  send      500.00 ms  in 1",
        "Busy share (in calls / the whole time):",
        "  main         90.0%",
        "  worker 0     60.0%",
        "  worker 1     20.0%",
        "Longest waits:",
        "      6.00 s  step (worker 0), 1.50 s in",
    ]


def test_the_summary_names_the_five_longest_waits() -> None:
    trace = Trace()
    for length in range(1, 8):
        trace.add("wait", f"wait{length}", 0.0, length * 1e-3, worker=MAIN)
    lines = trace.summary().splitlines()
    after = lines[lines.index("Longest waits:") + 1 :]
    assert [line.split()[2] for line in after] == ["wait7", "wait6", "wait5", "wait4", "wait3"]
    assert "(main)" in after[0]


def test_a_worker_that_was_never_called_is_shown_idle() -> None:
    trace = Trace()
    trace.add("start", "worker", 0.0, 1.0, worker=4)
    assert "  worker 4      0.0%" in trace.summary().splitlines()


def test_maps_and_ports_are_work_too_but_building_is_not() -> None:
    trace = Trace()
    trace.add("build", "env", 0.0, 2.0, worker=0)
    trace.add("map", "play", 2.0, 3.0, worker=0)
    trace.add("port", "step", 3.0, 4.0, worker=0)
    assert "  worker 0     50.0%" in trace.summary().splitlines()


def test_spans_of_no_length_are_no_division_by_zero(target: Path) -> None:
    trace = Trace()
    trace.add("call", "step", 5.0, 5.0, worker=0)
    assert "1 spans over 0.0 µs." in trace.summary()
    assert events(written(trace, target), "X")[0]["dur"] == 0


def test_spans_beyond_the_limit_are_counted_and_told(target: Path) -> None:
    trace = Trace(limit=2)
    for index in range(5):
        trace.add("call", "step", index, index + 1, worker=0)
    document = written(trace, target)
    assert (len(trace), trace.dropped) == (2, 3)
    assert len(events(document, "X")) == 2
    assert document["otherData"] == {"spans": 2, "dropped": 3, "limit": 2}
    assert trace.summary().endswith("3 later spans were dropped: the trace keeps 2.")


def test_threads_lose_no_span() -> None:
    trace = Trace(limit=1)

    def work() -> None:
        for _ in range(2000):
            trace.add("call", "step", 0.0, 1.0, worker=0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trace) + trace.dropped == 8000


@pytest.mark.parametrize(("kind", "end"), [("sleep", 2.0), ("call", 0.5)])
def test_a_span_that_makes_no_sense_is_refused(kind: Any, end: float) -> None:
    with pytest.raises(BadInput, match="no such span"):
        Trace().add(kind, "step", 1.0, end, worker=0)


def test_a_limit_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(BadInput, match="limit=0"):
        Trace(limit=0)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted), min_size=1, max_size=20))
def test_the_busy_share_counts_every_moment_once(calls: list[list[int]]) -> None:
    trace = Trace()
    trace.add("start", "worker", 0, 50, worker=0)
    for start, end in calls:
        trace.add("call", "step", start, end, worker=0)
    covered = {second for start, end in calls for second in range(start, end)}
    assert f"{len(covered) / 50:>6.1%}" in trace.summary()
