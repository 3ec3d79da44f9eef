"""Ctrl-C is never swallowed, never kept from the thread that it is meant for, and never in the books' way."""

from __future__ import annotations

import asyncio
import gc
import random
import signal
import threading
from pathlib import Path

import pytest
from members import Interrupted, Ledger

from paceline import Pool
from paceline.engine.interrupts import UNINTERRUPTED


def test_ctrl_c_in_a_call_that_draws_late_is_not_swallowed(tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    random.seed(5)
    outside = random.getstate()
    with Pool([Interrupted], seed=2) as pool:
        pool.call("step", {0: (False, mark)})
        with pytest.raises(KeyboardInterrupt):
            pool.call("step", {0: (True, mark)})
        assert random.getstate() == outside
        assert pool.call("step", {0: (True, mark)}) != pool.call("step", {0: (True, mark)})


def test_ctrl_c_in_rows_that_draw_late_is_not_swallowed() -> None:
    Interrupted.knocked = False
    with Pool([Interrupted] * 2, seed=2) as pool, Pool([Interrupted] * 2, seed=2) as plain:
        said = []
        for home in (plain, pool):
            port = home.port("step_row", {"late": ((), "i8")}, {"out": ((), "f8")})
            for late in ([0, 0], [0, 0], [0, 2], [1, 1]) if home is pool else ([0, 0], [0, 0], [1, 1]):
                port.inputs["late"][:] = late
                port.post()
                if 2 in late:
                    with pytest.raises(KeyboardInterrupt):
                        port.wait()
                else:
                    port.wait()
            said.append(port.outputs["out"].tolist())
        assert said[0] == said[1]


def test_the_books_of_another_thread_do_not_keep_ctrl_c_from_main() -> None:
    inside, done = threading.Event(), threading.Event()

    def busy() -> None:
        with UNINTERRUPTED:
            inside.set()
            done.wait()

    with Pool([Ledger]):
        thread = threading.Thread(target=busy)
        thread.start()
        inside.wait()
        try:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        finally:
            done.set()
            thread.join()


def test_ctrl_c_is_raised_even_if_another_error_is_on_its_way() -> None:
    def interrupted() -> None:
        with UNINTERRUPTED:
            signal.raise_signal(signal.SIGINT)
            raise ValueError("on its way")

    with Pool([Ledger]):
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupted()
        assert isinstance(caught.value.__context__, ValueError)


def test_pythons_own_handler_is_back_when_no_pool_is_open() -> None:
    gc.collect()  # pools that other tests have dropped are not open
    first, second = Pool([Ledger]), Pool([Ledger])
    assert signal.getsignal(signal.SIGINT) == UNINTERRUPTED.handle
    first.close()
    assert signal.getsignal(signal.SIGINT) == UNINTERRUPTED.handle
    second.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    cleaned = []

    async def wait_for_ever() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(1000)
        finally:
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(wait_for_ever())
    assert cleaned == [True]
