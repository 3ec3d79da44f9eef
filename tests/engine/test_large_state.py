"""Large states and messages: what is kept can be sent again, and what could not be sent is not sent later."""

from __future__ import annotations

import os
import signal
import socket

import numpy as np
import pytest

from paceline import Anew, Pool

LARGE = 100_000
"""Numbers of a state: far more than travels within a pickle."""


class Heavy:
    """Adds up, and has a large array to remember it by."""

    def __init__(self) -> None:
        self.total = np.zeros(LARGE)

    def add(self, amount: float) -> float:
        self.total += amount
        return float(self.total[-1])

    def begin(self) -> Anew:
        self.total = np.ones(LARGE)
        return Anew(1.0, self.total)

    def snapshot(self) -> np.ndarray:
        return self.total

    def restore(self, state: np.ndarray) -> None:
        self.total = state


@pytest.mark.parametrize("trust", ["all", "data"])
@pytest.mark.parametrize("way", ["snapshot", "anew"])
def test_a_large_state_is_rebuilt_and_moved_any_number_of_times(way: str, trust: str) -> None:
    with Pool([Heavy] * 2, backend="process", workers=2, trust=trust) as pool:
        pool.call("add", {0: (1.0,), 1: (1.0,)})
        pool.snapshot() if way == "snapshot" else pool.call("begin")
        for total in (2.0, 3.0):
            os.kill(pool.workers[0].pid, signal.SIGKILL)
            assert pool.call("add", {0: (1.0,), 1: (1.0,)}) == {0: total, 1: total}
        for places in ([1, 0], [0, 0]):
            pool.move(places)
        assert pool.call("add", {0: (1.0,), 1: (1.0,)}) == {0: 4.0, 1: 4.0}


def test_a_large_state_moves_between_the_caller_s_process_and_workers() -> None:
    with Pool([Heavy], backend="auto") as pool:
        pool.call("begin")
        pool.begin_on("process", 1, "a test says so")
        assert pool.call("add", {0: (1.0,)}) == {0: 2.0}
        pool.snapshot()
        pool.begin_on("inline", 1, "a test says so")
        assert pool.call("add", {0: (1.0,)}) == {0: 3.0}


class Echo:
    def say(self, text: str) -> int:
        return len(text)


def test_a_message_that_the_kernel_refuses_does_not_go_out_with_the_next() -> None:
    """Its worker is replaced: later answers would otherwise belong to earlier calls."""
    with Pool([Echo], backend="process", workers=1) as pool:
        assert pool.call("say", {0: ("a",)}) == {0: 1}
        line = pool._crew.slots[0].worker.channel.sock
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # a packet of this size is refused from now on
        assert pool.call("say", {0: ("b" * 30_000,)}) == {0: 30_000}
        assert [pool.call("say", {0: ("c" * count,)}) for count in (2, 3, 4)] == [{0: 2}, {0: 3}, {0: 4}]
        assert [event.kind for event in pool.events] == ["lost"]
