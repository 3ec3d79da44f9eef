"""Each wait looks after all workers: one that has died or hangs is noticed, however quick the others are."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
from members import Fault
from waits import until

import paceline
from paceline import Pool, Port
from paceline.engine import HERE

ORDER = {"order": ((), np.int64)}, {"out": ((), np.int64)}
HALF_HERE = [0, 0, HERE, HERE]


def kill(pool: Pool, number: int = 0) -> None:
    [pid] = [worker.pid for worker in pool.workers if worker.number == number]
    os.kill(pid, signal.SIGKILL)


def wait_and_post_again(port: Port, seen: set[int], timeout: float | None = None) -> None:
    """One turn of a caller that goes on with whoever is ready, and has something new for them at once."""
    ready = port.wait(2, timeout=timeout, outcomes=True)
    seen.update(ready)
    port.inputs["order"][ready] = 0
    port.post(ready)


def test_a_worker_that_died_is_noticed_while_rows_here_are_enough(killable: str) -> None:
    with Pool([Fault] * 4, backend=killable, placement=HALF_HERE) as pool:
        port, seen = pool.port("fault_row", *ORDER), set[int]()
        port.post()
        port.wait()
        kill(pool)
        port.post()
        until(lambda: wait_and_post_again(port, seen) or seen == {0, 1, 2, 3})  # type: ignore[func-returns-value]
        assert [event.kind for event in pool.events] == ["lost"]
        port.wait()


def test_a_worker_that_died_is_noticed_by_who_only_asks_what_is_there() -> None:
    with Pool([Fault] * 2, backend="process", workers=2) as pool:
        port = pool.port("fault_row", *ORDER)
        port.round()
        kill(pool)
        port.post()
        seen = set[int]()
        until(lambda: seen.update(port.wait(timeout=0.0)) or seen == {0, 1})
        assert port.outputs["out"].tolist() == [2, 2]


def test_a_row_that_hangs_is_ended_while_rows_here_are_enough() -> None:
    with Pool([Fault] * 4, backend="process", placement=HALF_HERE, restarts=1) as pool:
        port, seen = pool.port("fault_row", *ORDER, deadline=0.3), dict[int, BaseException]()
        port.inputs["order"][:] = [3, 0, 0, 0]
        port.post()

        def turn() -> bool:
            wait_and_post_again(port, set())
            seen.update(port.errors)
            return bool(seen)

        until(turn)
        assert isinstance(seen[0], paceline.CallTimeout)


def test_a_call_that_hangs_is_ended_while_there_is_work_here() -> None:
    with Pool([Fault] * 2, backend="process", placement=[0, HERE], restarts=1) as pool:
        hung = pool.post("do", {0: ("spin",)}, deadline=0.3)
        until(lambda: pool.post("add", {1: (1,)}).wait() and hung.done)
        assert isinstance(hung.outcome(0).error, paceline.CallTimeout)


def test_a_call_that_hangs_is_ended_while_others_answer() -> None:
    with Pool([Fault] * 2, backend="process", workers=2, restarts=1) as pool:
        hung = pool.post("do", {0: ("spin",)}, deadline=0.3)

        def another() -> bool:
            handle = pool.post("add", {1: (1,)})
            until(lambda: pool._crew.slots[1].worker.has_spoken)  # its answer is there whenever we look
            handle.wait()
            return hung.done

        until(another)
        assert isinstance(hung.outcome(0).error, paceline.CallTimeout)


class Timed:
    """Takes as long as its row says."""

    def __init__(self) -> None:
        self.count = 0

    def nap(self, seconds: np.ndarray, count: np.ndarray) -> None:
        self.count += 1
        time.sleep(float(seconds))
        count[...] = self.count


def die_idle(pool: Pool, port: Port) -> None:
    """The first worker dies when it has run its row, and is noticed before the row is fetched."""
    port.inputs["seconds"][:] = [0.0, 0.2]
    port.post()
    until(lambda: port.book.state[0])
    kill(pool)
    port.wait()


@pytest.mark.parametrize("some", [False, True], ids=["rounds", "rows"])
def test_deaths_with_answers_in_between_are_not_added_up(some: bool) -> None:
    with Pool([Timed] * 2, backend="process", workers=2) as pool:
        port = pool.port("nap", {"seconds": ((), np.float64)}, {"count": ((), np.int64)})
        for _ in range(3):
            die_idle(pool, port)
            port.inputs["seconds"][:] = 0.0
            for _ in range(3):
                port.post([0] if some else None)
                port.wait()
        kill(pool)
        port.round()
        assert port.outputs["count"].tolist() == ([13, 4] if some else [13, 13])
        assert [event.kind for event in pool.events] == ["lost"] * 4
