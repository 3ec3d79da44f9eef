"""A deadline means one thing under auto: with one, members live where it can be kept; without one nothing times out."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
import pytest
from members import Fault

import paceline.engine.pool.pool
import paceline.engine.supervisor.dispatch
from paceline import BadInput, CallTimeout, NotSendable, Pool
from paceline.engine import HERE

ORDER = {"order": ((), np.int64)}, {"out": ((), np.int64)}


class Slow:
    """Takes its time, in its constructor too."""

    def __init__(self, seconds: float = 0.0) -> None:
        time.sleep(seconds)
        self.calls = 0

    def nap(self, seconds: float) -> int:
        time.sleep(seconds)
        self.calls += 1
        return self.calls


def places(pool: Pool) -> set[str]:
    return {worker.backend for worker in pool.workers}


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def test_auto_without_a_deadline_lets_calls_take_as_long_here_as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paceline.engine.pool.pool, "DEADLINE", 0.2)
    monkeypatch.setattr(paceline.engine.supervisor.dispatch, "BUILD_DEADLINE", 0.2)
    with Pool([lambda: Slow(0.4)], backend="auto", restarts=1) as pool:
        assert pool.call("nap", {0: (0.4,)}) == {0: 1}
        pool.begin_on("process", 1, "a test says so")
        assert places(pool) == {"process"}
        assert pool.call("nap", {0: (0.4,)}) == {0: 2}
    with Pool([Slow], backend="auto", isolate=True, restarts=1) as pool:
        assert pool.call("nap", {0: (0.4,)}) == {0: 1}


def test_auto_with_a_deadline_begins_in_processes_and_stays_there() -> None:
    with Pool([Fault] * 2, backend="auto", deadline=0.5, restarts=1) as pool:
        assert places(pool) == {"process"}
        with pytest.raises(CallTimeout, match=r"within 0\.5 s"):
            pool.call("do", {0: ("sleep",)})
        pool.reconsider()
        assert pool.call("add", {0: (1,), 1: (2,)}) == {0: 1, 1: 2}
        assert places(pool) == {"process"}


def test_as_long_as_it_likes_is_no_deadline() -> None:
    with Pool([Fault] * 2, backend="auto", deadline=math.inf) as pool:
        assert pool.call("add", {0: (1,)}, deadline=math.inf) == {0: 1}
        assert places(pool) == {"inline"}


@pytest.mark.parametrize("before", ["inline", "thread"])
@pytest.mark.parametrize("way", ["call", "port"])
def test_under_auto_the_first_deadline_brings_members_where_it_can_be_kept(before: str, way: str) -> None:
    with Pool([Fault] * 2, backend="auto", restarts=1) as pool:
        pool.begin_on(before, 2, "a test says so")
        assert pool.call("add", {0: (1,), 1: (2,)}) == {0: 1, 1: 2}
        if way == "call":
            answers = pool.call("do", {0: ("sleep",), 1: ("fine",)}, deadline=0.5, outcomes=True)
            assert isinstance(answers[0].error, CallTimeout)
            assert answers[1].answer == "fine"
        else:
            port = pool.port("fault_row", *ORDER, deadline=0.5)
            port.inputs["order"][:] = [3, 0]
            port.post()
            port.wait(outcomes=True)
            assert isinstance(port.errors[0], CallTimeout)
        assert places(pool) == {"process"}
        assert "deadline" in pool.plan.why
        pool.begin_on("inline", 1, "no longer")
        pool.reconsider()
        assert pool.call("add", {0: (1,)}) == {0: 2}
        assert places(pool) == {"process"}


def test_under_auto_a_map_with_a_deadline_is_run_in_processes() -> None:
    with Pool([], backend="auto", restarts=1) as pool:
        answers = pool.map(nap, [0.0, 60.0, 0.0], deadline=0.5, outcomes=True)
        assert [type(answer.error) for answer in answers] == [type(None), CallTimeout, type(None)]


def test_a_deadline_that_auto_cannot_keep_is_refused() -> None:
    lock = threading.Lock()

    def unsendable() -> Any:
        return Fault() if lock else None

    with Pool([unsendable], backend="auto") as pool:
        with pytest.raises(NotSendable) as caught:
            pool.call("add", {0: (1,)}, deadline=1.0)
        assert any("deadline" in note for note in caught.value.__notes__)
        assert pool.call("add", {0: (1,)}) == {0: 1}
    with pytest.raises(BadInput, match="under auto"):
        Pool([Fault], backend="auto", deadline=1.0, workers=0)
    with pytest.raises(BadInput, match="under auto"):
        Pool([Fault, Fault], backend="auto", deadline=1.0, workers=1, placement=[0, HERE])
