"""Members that may not be run on threads, or draw there: auto takes them away, and nothing counts twice."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from members import DrawingRestored

import paceline
from paceline import Pool
from paceline.engine.host.host import Host
from paceline.engine.host.member import ERROR
from paceline.engine.host.thread_errors import speaks_of_threads
from paceline.engine.planning.plan import Choice
from paceline.engine.transport.shared_memory import plain_arrays

ORDER = ({"order": ((), np.int64)}, {"out": ((), np.int64)})
DRAW = ({"order": ((), np.int64)}, {"out": ((), np.float64)})
CHOICES = pytest.mark.parametrize(
    "choice", [Choice("thread", 3, ""), Choice("process", 1, "", threads=3)], ids=["thread", "crowd"]
)


class OfTheMainThread:
    """Does what only the main thread may do: when it is built, called, given its rows, or when its row is run."""

    def __init__(self, when: str) -> None:
        self.when, self.steps = when, 0
        self._do("built")

    def step(self) -> int:
        self.steps += 1
        self._do("called")
        return self.steps

    def bind_step_row(self, order: np.ndarray, out: np.ndarray) -> object:
        self._do("bound")
        return partial(self.step_row, order, out)

    def step_row(self, order: np.ndarray, out: np.ndarray) -> None:
        self.steps += 1
        self._do("run")
        out[...] = self.steps

    def _do(self, what: str) -> None:
        if what == self.when:
            signal.signal(signal.SIGUSR2, signal.SIG_IGN)


class SavedOfTheMainThread(OfTheMainThread):
    """The same, able to be saved, also in the middle of a call."""

    def snapshot(self) -> int:
        return self.steps

    def restore(self, steps: int) -> None:
        self.steps = steps


class Diary:
    """Writes down what it is told; some words only on the main thread."""

    def __init__(self, picky: bool) -> None:
        self.picky, self.words = picky, list[int]()

    def add(self, word: int) -> list[int]:
        if self.picky and word == 1 and threading.current_thread() is not threading.main_thread():
            raise RuntimeError("There is no current event loop in thread 'x'.")
        self.words.append(word)
        return self.words

    def add_row(self, order: np.ndarray, out: np.ndarray) -> None:
        out[...] = len(self.add(int(order)))

    def other_row(self, order: np.ndarray, out: np.ndarray) -> None:
        out[...] = len(self.add(int(order)))

    def late_row(self, order: np.ndarray, out: np.ndarray) -> None:
        time.sleep(0.3)
        self.add_row(order, out)

    def die_once(self, mark: str) -> None:
        if not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)


class Held(Diary):
    """The last one holds the others up."""

    gate = threading.Event()

    def __init__(self, number: int) -> None:
        super().__init__(picky=number == 1)
        self.number = number

    def add_row(self, order: np.ndarray, out: np.ndarray) -> None:
        if self.number == 2:
            assert self.gate.wait(20.0)
        super().add_row(order, out)


class Forum(Diary):
    """Raises an error of its own that has to do with another kind of thread."""

    def find(self) -> None:
        self.words.append(len(self.words))
        raise ValueError(f"forum thread 17 not found, asked {len(self.words)} times")


class DrawsToBind:
    """Draws when it is given its rows."""

    def bind_draw_row(self, order: np.ndarray, out: np.ndarray) -> Callable[[], None]:
        drawn = random.random()

        def draw() -> None:
            out[...] = drawn

        return draw

    def draw_row(self, order: np.ndarray, out: np.ndarray) -> None:
        raise AssertionError("it is bound")


class RefusesRows:
    """Cannot be given its rows, or can: as it is told."""

    def __init__(self, number: int) -> None:
        self.number, self.steps = number, 0

    def bind_step_row(self, order: np.ndarray, out: np.ndarray) -> object:
        if self.number == 1:
            raise LookupError("no rows for me")
        return partial(self.step_row, order, out)

    def step_row(self, order: np.ndarray, out: np.ndarray) -> None:
        self.steps += 1
        out[...] = 10 * self.number + self.steps


class DrawsToBindAgain:
    """Draws when it is given its rows for the second time; one of them draws late as well, so that all are."""

    def __init__(self, late: bool) -> None:
        self.late, self.steps, self.luck = late, 0, 0.0

    def bind_draw_row(self, order: np.ndarray, out: np.ndarray) -> object:
        self.luck = random.random() if self.steps else 0.0
        return partial(self.draw_row, order, out)

    def draw_row(self, order: np.ndarray, out: np.ndarray) -> None:
        self.steps += 1
        out[...] = self.steps + (random.random() if self.late and self.steps == 3 else 0.0)


@pytest.fixture
def usr2() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR2)
    yield
    signal.signal(signal.SIGUSR2, before)


def brought(pool: Pool, choice: Choice) -> None:
    """Brings everybody there, as auto does when it has measured; what else it measures does not matter here."""
    assert pool._crew.pilot is not None
    pool._crew.pilot._move(choice)
    pool._crew.pilot.final = True


def raised_on_a_thread(function: Callable[[], Any]) -> BaseException:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return errors[0]


@CHOICES
@pytest.mark.parametrize("kind", [OfTheMainThread, SavedOfTheMainThread], ids=["replayed", "saved"])
@pytest.mark.parametrize("when", ["built", "called", "bound", "run"])
@pytest.mark.usefixtures("usr2")
def test_who_cannot_be_run_on_a_thread_comes_back_under_auto(when: str, kind: type, choice: Choice) -> None:
    with Pool([partial(kind, when if n == 1 else "") for n in range(3)], backend="auto") as pool:
        port = pool.port("step_row", *ORDER)
        assert pool.call("step") == dict.fromkeys(range(3), 1)
        brought(pool, choice)
        assert pool.call("step") == dict.fromkeys(range(3), 2)
        port.round()
        assert port.outputs["out"].tolist() == [3] * 3
        assert [event.kind for event in pool.events].count("unfit") == 1
        assert pool.plan.backend == "inline"
        assert "cannot be run on a thread" in pool.plan.why
        assert pool.call("step") == dict.fromkeys(range(3), 4)


def test_who_cannot_be_run_on_a_thread_says_so_where_threads_were_asked_for() -> None:
    with (
        Pool([partial(OfTheMainThread, "called")], backend="thread") as pool,
        pytest.raises(ValueError, match="main thread"),
    ):
        pool.call("step")


@CHOICES
def test_calls_that_come_after_one_that_cannot_be_made_there_are_made_after_it(choice: Choice) -> None:
    with Pool([partial(Diary, n == 1) for n in range(3)], backend="auto") as pool:
        pool.call("add", dict.fromkeys(range(3), (0,)))
        brought(pool, choice)
        posted = [pool.post("add", dict.fromkeys(range(3), (word,))) for word in range(1, 20)]
        assert posted[-1].wait() == {n: list(range(20)) for n in range(3)}
        assert posted[0].wait() == {n: [0, 1] for n in range(3)}


def test_they_keep_their_order_if_a_worker_dies_meanwhile(tmp_path: Path) -> None:
    with Pool([partial(Diary, n == 1) for n in range(3)], backend="auto") as pool:
        brought(pool, Choice("process", 1, "", threads=3))
        first = pool.post("add", dict.fromkeys(range(3), (1,)))
        death = pool.post("die_once", {2: (str(tmp_path / "mark"),)})
        second = pool.post("add", dict.fromkeys(range(3), (2,)))
        assert second.wait() == {n: [1, 2] for n in range(3)}
        assert first.wait() == {n: [1] for n in range(3)}
        assert death.wait() == {2: None}
        assert pool.plan.backend == "inline"


@CHOICES
def test_a_call_that_cannot_be_made_there_waits_for_rows_that_nobody_waits_for(choice: Choice) -> None:
    with Pool([partial(Diary, n == 1) for n in range(3)], backend="auto") as pool:
        port = pool.port("late_row", *ORDER, members=[2])
        port.inputs["order"][:] = 2
        brought(pool, choice)
        port.post()
        assert pool.call("add", {1: (1,)}) == {1: [1]}
        assert port.wait() == [2]
        assert port.outputs["out"].tolist() == [1]


@pytest.mark.parametrize("how", ["call", "port"])
def test_what_comes_after_a_row_that_cannot_be_run_there_comes_after_it(how: str) -> None:
    """One is ready, one is held up, and one has said that it cannot be run there: that one is asked something else."""
    with Pool([partial(Held, n) for n in range(3)], backend="auto") as pool:
        other, port = pool.port("other_row", *ORDER), pool.port("add_row", *ORDER)
        other.inputs["order"][:], port.inputs["order"][:] = 2, 1
        brought(pool, Choice("thread", 3, ""))
        Held.gate.clear()
        port.post()
        while not port.answers.aside:
            port.wait(1, timeout=0.01)
        Held.gate.set()
        if how == "call":
            pool.call("add", {1: (2,)})
        else:
            other.post([1])
            other.wait()
        port.wait()
        assert pool.call("add", {1: (3,)}) == {1: [1, 2, 3]}


@CHOICES
def test_an_error_about_other_threads_is_an_error_and_nothing_else(choice: Choice) -> None:
    with Pool([partial(Forum, False)] * 3, backend="auto") as pool:
        brought(pool, choice)
        for times in (1, 2):
            with pytest.raises(ValueError, match=f"forum thread 17 not found, asked {times} times"):
                pool.call("find", {1: ()})
        assert [event.kind for event in pool.events] == ["moved"]
        assert {worker.backend for worker in pool.workers} == {choice.backend}


def test_what_speaks_of_threads() -> None:
    here, local = sqlite3.connect(":memory:"), threading.local()
    local.value = 1
    for function in (
        partial(signal.signal, signal.SIGUSR2, signal.SIG_IGN),
        partial(signal.set_wakeup_fd, -1),
        partial(here.execute, "select 1"),
        lambda: local.value,
    ):
        assert speaks_of_threads(raised_on_a_thread(function))
    here.close()
    assert speaks_of_threads(RuntimeError("There is no current event loop in thread 'paceline-worker-1'."))
    assert speaks_of_threads(RuntimeError("cannot switch to a different thread"))
    for words in ("forum thread 17 not found", "can't start new thread", "threads=0 makes no sense", ""):
        assert not speaks_of_threads(ValueError(words))


@CHOICES
def test_who_draws_to_be_rebuilt_goes_where_that_is_its_own_under_auto(choice: Choice) -> None:
    with Pool([DrawingRestored] * 3, backend="auto") as pool:
        assert pool.call("step", dict.fromkeys(range(3), (False,))) == dict.fromkeys(range(3), 1.0)
        brought(pool, choice)
        assert pool.call("step", dict.fromkeys(range(3), (False,))) == dict.fromkeys(range(3), 2.0)
        assert {worker.backend for worker in pool.workers} == {"process"}


@CHOICES
def test_who_draws_to_be_bound_goes_where_that_is_its_own_under_auto(choice: Choice) -> None:
    with Pool([DrawsToBind] * 3, seed=5) as plain, Pool([DrawsToBind] * 3, seed=5, backend="auto") as pool:
        expected, port = plain.port("draw_row", *DRAW), pool.port("draw_row", *DRAW)
        brought(pool, choice)
        for _ in range(2):
            expected.round()
            port.round()
            assert port.outputs["out"].tolist() == expected.outputs["out"].tolist()
        assert {worker.backend for worker in pool.workers} == {"process"}


def test_who_draws_to_be_bound_says_so_where_threads_were_asked_for() -> None:
    with Pool([DrawsToBind], backend="thread") as pool:
        port = pool.port("draw_row", *DRAW)
        for _ in range(2):
            with pytest.raises(paceline.SharedRandomness):
                port.round()


PLACES = [
    {},
    {"backend": "process", "workers": 2},
    {"backend": "thread", "workers": 3},
    {"backend": "process", "workers": 1, "threads": 2},
]


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_who_cannot_be_bound_is_alone_with_it(place: dict[str, Any]) -> None:
    with Pool([partial(RefusesRows, n) for n in range(3)], **place) as pool:
        port = pool.port("step_row", *ORDER)
        for turn in (1, 2):
            port.post()
            assert port.wait(outcomes=True) == [0, 1, 2]
            assert {member: str(error) for member, error in port.errors.items()} == {1: "no rows for me"}
            assert port.outputs["out"][[0, 2]].tolist() == [turn, 20 + turn]


def test_a_row_that_is_not_bound_is_not_marked_as_asked() -> None:
    """It would be run when it is bound at last, and once more when it is rung for again."""
    host = Host(here=True)
    host.handle(("build", [(n, n, partial(RefusesRows, n), None, [], False, True) for n in range(3)]))
    arrays = plain_arrays(
        dict.fromkeys(("order", "out"), ((3,), "<i8")) | dict.fromkeys(("asked", "state"), ((3,), "|u1"))
    )
    refused, _ = host.handle(("bind", 0, "step_row", {n: (n, n) for n in range(3)}, ["order"], arrays))
    assert [result[:2] for result in refused] == [(1, ERROR)]
    host.handle(("ring", 0, [0, 1, 2]))
    assert arrays["asked"].tolist() == [0, 0, 0]
    assert arrays["out"].tolist() == [1, 0, 21]


@pytest.mark.parametrize("place", [PLACES[0], {"backend": "process"}, PLACES[3]], ids=str)
def test_who_draws_to_be_bound_once_more_is_rebuilt(place: dict[str, Any]) -> None:
    """Several of them, all refused by one bind: none is made again twice, or its next row would be the last one."""
    with Pool([partial(DrawsToBindAgain, late) for late in (True, False, False, False)], seed=2, **place) as pool:
        port, seen = pool.port("draw_row", *DRAW), list[list[float]]()
        for _ in range(5):
            port.round()
            seen.append([float(value) for value in port.outputs["out"]])
        assert [row[1:] for row in seen] == [[float(turn)] * 3 for turn in range(1, 6)]
        assert [int(row[0]) for row in seen] == [1, 2, 3, 4, 5]
