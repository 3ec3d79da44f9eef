"""Who waits for rows sleeps until there are enough: no knock is lost, none is heard for ever, and none is needless."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from waits import LONGEST, until

from paceline import Pool
from paceline.engine.transport.channel import WAKE
from paceline.engine.transport.shared_memory import Control
from paceline.engine.workers.base import Settings
from paceline.engine.workers.thread import BACKEND, ThreadWorker

ORDER = ({"order": ((), np.int64)}, {"out": ((), np.float64)})
GATES: dict[int, threading.Event] = {}


class Gated:
    """Adds up what it is given; an order above 0 waits for the gate of that number first."""

    def __init__(self) -> None:
        self.total = 0.0

    def row(self, order: np.ndarray, out: np.ndarray) -> None:
        if int(order):
            assert GATES[int(order)].wait(10.0)
        self.total += 1.0
        out[...] = self.total


@pytest.fixture
def worker() -> Any:
    one = ThreadWorker(0, Settings())
    yield one
    one.say_goodbye()
    one.close(5.0)


def knock_late(worker: ThreadWorker, then: Any) -> None:
    """Rings; the thread finds that the caller has enough, and before it can knock, `then` is done."""
    looked, go_on = threading.Event(), threading.Event()

    def enough() -> bool:
        looked.set()
        return go_on.wait(10.0)

    worker.listen(enough)
    worker.ring()
    assert looked.wait(10.0)
    then()
    go_on.set()
    worker.send(("forget", 0))  # answered after the knock, so that it is known to be over
    while worker.receive() is None:
        assert BACKEND.wait([worker], LONGEST)


def test_a_knock_after_the_caller_has_gone_wakes_nobody(worker: ThreadWorker) -> None:
    knock_late(worker, lambda: worker.listen(None))
    assert not worker.has_spoken
    assert not BACKEND.wait([worker], 0.0)


def test_a_knock_for_the_last_round_is_not_taken_for_one_of_the_next(worker: ThreadWorker) -> None:
    knock_late(worker, lambda: worker.listen(lambda: False))
    assert not BACKEND.wait([worker], 0.0)


def test_who_listens_again_hears_the_next_round(worker: ThreadWorker) -> None:
    knock_late(worker, lambda: worker.listen(None))
    worker.listen(lambda: True)
    worker.ring()
    assert BACKEND.wait([worker], 10.0)
    assert worker.has_served()
    worker.listen(None)
    assert not worker.has_spoken


def test_rounds_after_a_late_thread_are_complete() -> None:
    """Somebody is always still running when the caller has enough and goes; what it gives is there the next time."""
    GATES.update({number: threading.Event() for number in range(1, 21)})
    with Pool([Gated] * 3, backend="thread", workers=3) as pool:
        port = pool.port("row", *ORDER)
        port.round()
        for turn in range(1, 21):
            port.inputs["order"][:] = [0, turn, 0]
            port.post()
            early = port.wait(2)
            assert set(early) == {0, 2}
            GATES[turn].set()  # now it ends, and perhaps knocks, while nobody listens
            assert port.wait() == [1]
            assert port.outputs["out"].tolist() == [turn + 1.0] * 3
    GATES.clear()


def test_a_reply_that_is_heard_before_it_is_counted_is_not_waited_for_again() -> None:
    """A worker speaks first and counts then; to take that for news is to loop until the worker runs again."""
    with Pool([Gated], backend="process", workers=1) as pool:
        pool.call("__sizeof__", record=False)
        worker = pool._crew.slots[0].worker
        until(lambda: worker._words[Control.SPOKEN] >= worker._heard)
        counted = worker._heard
        assert not worker.has_spoken
        worker._heard = counted + 1
        assert not worker.has_spoken
        worker._heard = counted - 1
        assert worker.has_spoken


class Slow:
    """Takes long enough for the caller to fall asleep, and to be looked at by itself."""

    def row(self, order: np.ndarray, out: np.ndarray) -> None:
        time.sleep(0.004)
        out[...] = 1.0


def wakings(pool: Pool, min_ready: int | None) -> int:
    """How often the worker wakes its caller in a round of which that waits for so many."""
    port = pool.port("row", *ORDER)
    for _ in range(3):  # the first rows are looked at one by one, and the wait has yet to be found long
        port.round()
    channel, woken = pool._crew.slots[0].worker.channel, []
    receive = channel.receive

    def counted() -> Any:
        message = receive()
        woken.append(message is WAKE)
        return message

    channel.receive = counted
    port.post()
    port.wait(min_ready)
    channel.receive = receive
    port.wait()
    port.close()
    return sum(woken)


def test_who_wants_all_rows_is_not_woken_for_a_part_of_them() -> None:
    with Pool([Slow] * 12, backend="process", workers=1) as pool:
        assert wakings(pool, None) <= 1 < wakings(pool, 11)


def test_who_wants_the_rows_of_one_port_is_woken_before_those_of_another_are_run() -> None:
    with Pool([Slow] * 4, backend="process", workers=1) as pool:
        fast, slow = (pool.port("row", *ORDER, members=members) for members in ([0], [1, 2, 3]))
        for port in (fast, slow) * 3:
            port.round()
        eager: list[bool] = []
        worker = pool._crew.slots[0].worker
        listen = worker.listen
        worker.listen = lambda until, eagerly=False: (eager.append(eagerly), listen(until, eagerly))
        fast.post()
        slow.post()
        fast.wait()
        slow.wait()
    assert True in eager
