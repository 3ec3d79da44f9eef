"""Ctrl-C is never swallowed, never kept from the thread that it is meant for, and never in the books' way."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
from interrupting import Interrupting
from interrupting import interrupted as interrupted_in
from members import Interrupted, Ledger
from waits import is_alive, until

from paceline import Anew, Pool
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.supervisor.moves import Moving
from paceline.engine.supervisor.roster import HERE


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


class Draws:
    def __init__(self) -> None:
        self.count = 0

    def draw(self) -> tuple[int, float, float]:
        self.count += 1
        return self.count, float(np.random.random()), random.random()


def test_wherever_a_call_that_draws_is_interrupted_the_callers_generators_are_its_own() -> None:
    files = (
        "engine/randomness/isolation.py",
        "engine/randomness/generators.py",
        "engine/randomness/memory_layout.py",
        __file__,
    )
    with Pool([Draws]) as pool:
        expected = [pool.call("draw") for _ in range(4)]
    line, interrupted = 0, True
    while interrupted:
        np.random.seed(3)
        random.seed(3)
        with Pool([Draws]) as pool:
            found = [pool.call("draw"), pool.call("draw")]
            outside = random.getstate(), str(np.random.get_state())
            try:
                # Before a statement without a call nobody looks at signals; before the first, nothing has been changed.
                with Interrupting(line, files, but_at=("UNINTERRUPTED.depth += on_main",)):
                    found.append(pool.call("draw"))
                interrupted = False
            except KeyboardInterrupt:
                pass
            assert (random.getstate(), str(np.random.get_state())) == outside, line
            found.append(pool.call("draw"))
        # Who was interrupted is rebuilt, and its call is made again; nobody waits for its answer any more.
        assert found in ([*expected[:2], expected[3]], expected[:3], expected)
        line += 1
    assert line > 20


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


class Farewell:
    """Notes that it has been closed. Number 1 is interrupted in the middle of that, once in this process."""

    due = False

    def __init__(self, directory: Path, number: int) -> None:
        self.mark, self.number = directory / str(number), number

    def step(self) -> int:
        return self.number

    def close(self) -> None:
        self.mark.touch()
        if self.number == 1 and Farewell.due:
            Farewell.due = False
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_members_are_closed_is_not_swallowed_and_everybody_is_closed(tmp_path: Path) -> None:
    Farewell.due = True
    pool = Pool([partial(Farewell, tmp_path, number) for number in range(4)])
    assert list(pool.call("step").values()) == [0, 1, 2, 3]
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0", "1", "2", "3"]
    pool.close()


def test_ctrl_c_while_members_here_are_closed_ends_the_workers_of_the_others(tmp_path: Path) -> None:
    members = [partial(Farewell, tmp_path, 1), partial(Farewell, tmp_path, 2)]
    Farewell.due = True
    pool = Pool(members, backend="process", workers=1, placement=[HERE, 0])
    assert list(pool.call("step").values()) == [1, 2]
    child = next(worker.pid for worker in pool.workers if worker.pid != os.getpid())
    with pytest.raises(KeyboardInterrupt):
        pool.close()
    until(lambda: not psutil.pid_exists(child))


def test_ctrl_c_while_a_member_leaves_for_another_place_is_not_swallowed(tmp_path: Path) -> None:
    with Pool([partial(Farewell, tmp_path, 1), partial(Farewell, tmp_path, 2)], backend="process", workers=1) as pool:
        pool.move({0: HERE, 1: HERE})
        Farewell.due = True
        with pytest.raises(KeyboardInterrupt):
            pool.move({0: 0})
        assert list(pool.call("step").values()) == [1, 2]
        pool.move({0: 0})
        assert list(pool.call("step").values()) == [1, 2]


def test_wherever_close_is_interrupted_everybody_is_closed_once_and_no_worker_is_left(tmp_path: Path) -> None:
    files = (
        "engine/supervisor/supervisor.py",
        "engine/host/host.py",
        "engine/pool/lifetimes.py",
        "engine/workers/inline.py",
        "engine/randomness/isolation.py",
    )
    line, interrupted = 0, True
    while interrupted:
        pool = Pool([Counted] * 3, backend="process", workers=1, placement=[HERE, HERE, 0])
        pool.call("step")
        child = next(worker.pid for worker in pool.workers if worker.pid != os.getpid())
        Counted.closed.clear()
        try:
            with Interrupting(line, files):
                pool.close()
            interrupted = False
        except KeyboardInterrupt:
            pool.close()
        assert len(Counted.closed) == len(set(Counted.closed)) == 2, line
        until(lambda pid=child: not psutil.pid_exists(pid))  # type: ignore[misc]
        line += 1
    assert line > 2


class Counted:
    closed: ClassVar[list[int]] = []
    open: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        self.steps = 0
        Counted.open.add(id(self))

    def step(self, interrupt: bool = False) -> int:
        self.steps += 1
        if interrupt and Farewell.due:
            Farewell.due = False
            signal.raise_signal(signal.SIGINT)
        return self.steps

    def close(self) -> None:
        Counted.closed.append(id(self))
        Counted.open.discard(id(self))


def test_who_is_rebuilt_after_an_interrupt_is_closed_first() -> None:
    Counted.open.clear()
    with Pool([Counted] * 2) as pool:
        Farewell.due = True
        with pytest.raises(KeyboardInterrupt):
            pool.call("step", {0: (), 1: (True,)})
        assert pool.call("step") == {0: 2, 1: 2}  # what was interrupted is made again
        assert len(Counted.open) == 2
    assert not Counted.open


class Slow:
    """Takes its time to close, until everybody else is closed, or for a while that is longer than anybody's grace."""

    def __init__(self, directory: Path, number: int) -> None:
        self.directory, self.number = directory, number

    def step(self) -> int:
        return self.number

    def close(self) -> None:
        end = time.monotonic() + 2.5
        while self.number == 0 and not (self.directory / "1").exists() and time.monotonic() < end:
            time.sleep(0.01)
        (self.directory / str(self.number)).touch()


@pytest.mark.parametrize("place", ["process", "thread"])
def test_who_takes_long_to_close_here_does_not_keep_those_elsewhere_from_it(tmp_path: Path, place: str) -> None:
    members = [partial(Slow, tmp_path, 0), partial(Slow, tmp_path, 1)]
    with Pool(members, backend=place, workers=1, placement=[HERE, 0]) as pool:
        pool.call("step")
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["0", "1"]


def test_an_interrupted_exit_closes_all_pools_and_complains_of_nothing(tmp_path: Path) -> None:
    program = tmp_path / "leaves.py"
    program.write_text(
        "import signal\n"
        "from functools import partial\n"
        "from paceline import Pool\n"
        "class Leaves:\n"
        "    def __init__(self, rings):\n"
        "        self.rings = rings\n"
        "    def step(self):\n"
        "        return 0\n"
        "    def close(self):\n"
        "        print('closed', flush=True)\n"
        "        if self.rings:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "pools = [Pool([partial(Leaves, True), partial(Leaves, False)]) for _ in range(3)]\n"
        "for pool in pools:\n"
        "    pool.call('step')\n"
    )
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=100)
    assert (ended.stdout.count("closed"), ended.stderr, ended.returncode) == (6, "", 0)


def test_a_move_that_is_interrupted_when_its_members_have_left_breaks_nothing() -> None:
    enter = type(UNINTERRUPTED).__enter__.__code__

    def interrupt(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is enter and frame.f_back and frame.f_back.f_code is Moving.move.__code__:
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)

    with Pool([Counted] * 3, backend="process", workers=1, placement=[HERE] * 3) as pool:
        pool.call("step")
        sys.settrace(interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.move({0: 0, 1: 0})
        assert sys.gettrace() is None
        assert pool.call("step") == {0: 2, 1: 2, 2: 2}
        assert pool.call("step") == {0: 3, 1: 3, 2: 3}


class Choosy:
    """Chooses with NumPy, whose code in C drops a third of all interrupts."""

    def step(self) -> str:
        return str(np.random.default_rng(3).choice(["up", "down"]))


def test_ctrl_c_that_code_in_c_drops_is_raised_by_the_next_call() -> None:
    names, rng = ["up", "down"], np.random.default_rng(3)

    def choose_on(pool: Pool, delay: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, delay)
        for _ in range(100_000):
            rng.choice(names)
            pool.call("step")

    before = signal.signal(signal.SIGALRM, UNINTERRUPTED.handle)
    try:
        with Pool([Choosy]) as pool:
            for number in range(60):
                with pytest.raises(KeyboardInterrupt):
                    choose_on(pool, 1e-4 * (1 + number % 7))
    finally:
        signal.signal(signal.SIGALRM, before)


class Lingers:
    def step(self) -> int:
        return 1

    def close(self) -> None:
        time.sleep(60)


def test_whatever_is_raised_while_a_pool_is_closed_no_worker_is_left() -> None:
    def no_time_left(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, no_time_left)
    try:
        pool = Pool([Lingers] * 2, backend="process", workers=2)
        pool.call("step")
        children = [worker.pid for worker in pool.workers if worker.pid != os.getpid()]
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(TimeoutError):
            pool.close()
        until(lambda: not any(is_alive(pid) for pid in children))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_an_interrupt_that_comes_after_a_lost_one_stands_for_both() -> None:
    with Pool([Ledger]) as pool:
        UNINTERRUPTED.pending = True  # what its guard does for one that was lost
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert pool.call("get") == {0: 1.0}
    assert not UNINTERRUPTED.pending


def test_an_interrupt_that_was_handled_does_not_come_again_when_it_is_freed() -> None:
    kept: list[BaseException] = []
    with Pool([Ledger]) as pool:
        for act in (partial(signal.raise_signal, signal.SIGINT), kept.clear, int):
            try:
                act()  # freed within the very instruction that it came in, but not at once
            except KeyboardInterrupt as error:
                kept.append(error.with_traceback(None))
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                continue
        assert pool.call("get") == {0: 1.0}


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


AFRESH, SAVED, DEADLY = 1, 2, 3


class Stumbling:
    """Counts its rows. In its third it does once what its orders say: kills its worker, presses Ctrl-C."""

    def __init__(self, orders: Sequence[str], directory: str, main: int) -> None:
        self.orders, self.directory, self.main, self.rows = orders, Path(directory), main, 0

    def count_row(self, order: np.ndarray, out: np.ndarray) -> Anew | None:
        if order == DEADLY:
            os._exit(3)
        self.rows = 1 if order == AFRESH else self.rows + 1
        out[...] = self.rows
        time.sleep(0.001)  # so long that rows are told of one by one
        for todo in self.orders if self.rows == 3 else ():
            mark = self.directory / todo
            if not mark.exists():
                mark.touch()
                self._do(todo)
        return {AFRESH: Anew(None), SAVED: Anew(None, state=self.rows)}.get(int(order))

    def _do(self, todo: str) -> None:
        if todo == "die":
            os._exit(3)
        while not (self.directory / "go").exists():
            time.sleep(0.01)
        os.kill(self.main, signal.SIGINT)
        time.sleep(60)

    def look(self) -> int:
        return self.rows

    def snapshot(self) -> int:
        return self.rows

    def restore(self, rows: int) -> None:
        self.rows = rows


COUNT = ({"order": ((), "i8")}, {"out": ((), "f8")})


def stumbling(tmp_path: Path, *orders: str) -> list[Callable[[], Stumbling]]:
    return [partial(Stumbling, mine, str(tmp_path), os.getpid()) for mine in ((), orders)]


@pytest.mark.parametrize("order", [0, AFRESH, SAVED, DEADLY])
def test_a_round_that_is_interrupted_after_a_death_never_took_place(tmp_path: Path, order: int) -> None:
    """What the first member had answered by then does not count: rows, a new beginning, that it cannot be asked."""
    with Pool(stumbling(tmp_path, "die", "press"), backend="process", workers=1, restarts=2) as pool:
        port = pool.port("count_row", *COUNT)
        for _ in range(2):
            port.round()
        port.inputs["order"][0] = order
        (tmp_path / "go").touch()
        with pytest.raises(KeyboardInterrupt):
            port.round()
        assert port.outstanding == 0
        port.inputs["order"][0] = 0
        port.round()
        assert port.outputs["out"].tolist() == [3, 3]


def test_a_row_that_somebody_was_called_after_is_kept_through_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Pool(stumbling(tmp_path, "press"), backend="process", workers=2) as pool:
        port = pool.port("count_row", *COUNT)
        for _ in range(2):
            port.round()
        port.post()
        assert pool.call("look", {0: ()}) == {0: 3}
        sleep = port._waiting._sleep

        def go(goal: int, end: float | None) -> None:
            (tmp_path / "go").touch()
            sleep(goal, end)

        # From within: Ctrl-C before `wait` would interrupt nobody, and while it spins the round stays as it is.
        monkeypatch.setattr(port._waiting, "_sleep", go)
        with pytest.raises(KeyboardInterrupt):
            port.wait()
        assert port.wait() == [0]
        assert port.outputs["out"][0] == 3
        port.round()
        assert port.outputs["out"].tolist() == [4, 3]


def interrupted_at(last: int, item: int) -> int:
    time.sleep(0.004)  # so that every item is a message of its own, and the next one is sent ahead
    if item == last:
        signal.raise_signal(signal.SIGINT)
    return item


@pytest.mark.parametrize("last", range(2, 6))
def test_items_that_are_done_are_given_before_an_interrupt_is_raised(last: int) -> None:
    """Ctrl-C in one item loses none of those before it, however short they are."""
    seen = []

    def listen() -> None:
        for index, outcome in pool.stream(partial(interrupted_at, last), range(9)):
            seen.append((index, outcome.answer))

    with Pool([]) as pool:
        with pytest.raises(KeyboardInterrupt):
            listen()
        assert seen == [(item, item) for item in range(last)]
        assert pool.map(partial(interrupted_at, -1), range(3)) == [0, 1, 2]


class Stuck:
    """Is interrupted, and does not come back until it is let go."""

    go = threading.Event()
    inside = False

    def __init__(self, at_once: bool = False) -> None:
        if at_once:
            self.hang()

    def draw(self) -> float:
        return float(np.random.random())

    def hang(self) -> None:
        Stuck.inside = True
        interrupted_in(partial(self.go.wait, 20.0))
        Stuck.inside = False


@pytest.mark.parametrize("way", ["built", "beside others", "alone"])
def test_a_thread_that_hangs_holds_no_other_pool_up(way: str) -> None:
    Stuck.go.clear()
    outside = pickle.dumps(np.random.get_state())
    with pytest.raises(KeyboardInterrupt):
        hang(way)
    try:
        with threads([Stuck]) as pool:
            pool.call("draw")
            assert Stuck.inside
    finally:
        Stuck.go.set()
    until(lambda: not Stuck.inside)
    assert pickle.dumps(np.random.get_state()) == outside


def hang(way: str) -> None:
    with threads([partial(Stuck, way == "built")]) as pool:
        if way == "alone":
            pool.call("draw")
        pool.call("hang")


def threads(factories: list[Any]) -> Pool:
    return Pool(factories, backend="thread", workers=1, draw_alone=True)
