"""Workers that run rows beside each other, on threads: sooner where members wait, and the same."""

from __future__ import annotations

import decimal
import os
import threading
import time
from functools import partial

import numpy as np
import pytest
from members import Fault, LateDrawer, TwoArguments, Walker

import paceline
from paceline import Anew, BadInput, Plan, Pool
from paceline.engine.host.row_threads import Crowd
from paceline.vector import make_vec

WALK = ({"move": ((), np.float64)}, {"place": ((4,), np.float64), "total": ((), np.float64)})
ORDER = ({"order": ((), np.int64)}, {"out": ((), np.int64)})


class SlowWalker(Walker):
    """Waits a little, one longer than the other."""

    def __init__(self, start: int) -> None:
        super().__init__(start)
        self.rests = start % 3 / 1000

    def step_row(self, move: np.ndarray, place: np.ndarray, total: np.ndarray) -> None:
        time.sleep(self.rests)
        super().step_row(move, place, total)


class Meeting:
    """Comes back only if as many as are expected are under way at the same time in its process."""

    barrier = threading.Barrier(4)

    def meet_row(self, order: np.ndarray, out: np.ndarray) -> None:
        if int(order):
            self.barrier.wait(20.0)
        out[...] = 1


class Talker:
    """Says who it is beside its rows, on paper and in print."""

    def __init__(self, number: int) -> None:
        self.number, self.turns = number, 0

    def talk_row(self, order: np.ndarray, out: np.ndarray) -> object:
        self.turns += 1
        out[...] = self.turns
        if int(order):
            time.sleep(0.02)
            print(f"I am {self.number}", flush=True)
        return Anew(self.number) if self.turns % 2 else None


class OfItsThread:
    """Keeps what belongs to the thread that it was built on."""

    def __init__(self) -> None:
        decimal.getcontext().prec = 4
        self.thread = threading.get_ident()

    def look_row(self, order: np.ndarray, out: np.ndarray) -> None:
        assert threading.get_ident() == self.thread
        out[...] = int(decimal.Decimal(10_000) / 3)  # 3333, and not 3333.333…
        out[...] += len(str(decimal.Decimal(1) / 3)) * 10_000

    def look(self) -> bool:
        return threading.get_ident() == self.thread


WAITS = {
    4: (0.0, 0.01, 0.03, 0.0),  # draws while 5 has its own seed there
    5: (0.002, 0.02, 0.0, 0.0),
    6: (0.0, 0.02, 0.02, 0.0),  # draws while 7 has its own seed there,
    7: (0.01, 0.02, 0.0, 0.05),  # who ends last, when everything is as it was
}
"""Order → seconds before it seeds, before it draws, before it puts back, and before it ends."""


class PutsBack:
    """Seeds the process-wide generator for itself, waits, draws, and puts it back; or raises, or says something."""

    def __init__(self, number: int) -> None:
        self.number = number

    def draw_row(self, order: np.ndarray, out: np.ndarray) -> object:
        out[...] = 0
        if int(order) == 2:
            time.sleep(0.01)
            raise LookupError("its own")
        if int(order) == 3:
            time.sleep(0.01)
            return "said"
        late, before, after, end = WAITS.get(int(order), (0.0, 0.005 * (1 + self.number % 2), 0.0, 0.0))
        if int(order):
            time.sleep(late)
            state = np.random.get_state()
            np.random.seed(self.number)
            time.sleep(before)
            out[...] = np.random.randint(1_000_000)
            time.sleep(after)
            np.random.set_state(state)
            time.sleep(end)
        return None


class Resting:
    """Takes a quarter of a second, if it is told to."""

    def rest_row(self, order: np.ndarray, out: np.ndarray) -> None:
        time.sleep(0.25 * int(order))
        out[...] = 1


def walked(pool: Pool, turns: int = 8, kill_at: int = -1) -> str:
    port, seen = pool.port("step_row", *WALK), []
    for turn in range(turns):
        if turn == kill_at:
            os.kill(pool.workers[-1].pid, 9)
        port.inputs["move"][:] = np.arange(len(pool)) + turn
        port.round()
        seen += [port.outputs["place"].copy(), port.outputs["total"].copy()]
    return paceline.digest(seen)


def test_rows_that_are_run_beside_each_other_are_the_same(killable: str) -> None:
    walkers = [partial(SlowWalker, n) for n in range(7)]
    with Pool(walkers) as plain:
        expected = walked(plain)
    for kill_at in (-1, 5):
        with Pool(walkers, backend=killable, workers=2, threads=3) as pool:
            assert walked(pool, kill_at=kill_at) == expected


def test_they_are_under_way_at_the_same_time() -> None:
    with Pool([Meeting] * 4, backend="process", workers=1, threads=4) as pool:
        port = pool.port("meet_row", *ORDER)
        port.inputs["order"][:] = 0
        port.round()  # looked at one by one: does anybody draw?
        port.inputs["order"][:] = 1
        port.round()
        assert port.errors == {}


def test_who_draws_beside_others_is_found_and_swapped(killable: str) -> None:
    def job(**options: object) -> list[np.ndarray]:
        with Pool([partial(LateDrawer, after) for after in (2, 4, 99, 99)], **options) as pool:  # type: ignore[arg-type]
            port, seen = pool.port("step_row", {"move": ((), np.float64)}, {"total": ((), np.float64)}), []
            for turn in range(8):
                port.inputs["move"][:] = turn
                port.round()
                seen.append(port.outputs["total"].copy())
            return seen

    apart = job(backend=killable, workers=1, threads=4)
    assert paceline.digest(apart) == paceline.digest(job())


def test_a_member_stays_on_one_thread() -> None:
    with Pool([OfItsThread] * 6, backend="process", workers=1, threads=3) as pool:
        port = pool.port("look_row", *ORDER)
        for _ in range(4):
            port.round()
            assert pool.call("look") == dict.fromkeys(range(6), True)
        os.kill(pool.workers[0].pid, 9)
        port.round()
        assert port.outputs["out"].tolist() == [63_333] * 6


@pytest.mark.parametrize("orders", [[1, 1, 1, 1], [1, 2, 3, 0], [2, 1, 0, 3], [4, 5, 0, 0], [6, 7, 0, 0]])
def test_generators_that_are_put_back_are_noticed_and_nothing_is_lost(orders: list[int]) -> None:
    def job(**options: object) -> list[object]:
        with Pool([partial(PutsBack, n) for n in range(4)], **options) as pool:  # type: ignore[arg-type]
            port, seen = pool.port("draw_row", *ORDER), []  # type: Any, list[object]
            for order in ([0] * 4, orders, orders):
                port.inputs["order"][:] = order
                port.post()
                port.wait(outcomes=True)
                seen.append((port.outputs["out"].tolist(), sorted(port.errors), port.extras))
            return seen

    assert job(backend="process", workers=1, threads=4) == job()


def test_generators_that_are_put_back_on_threads_are_named() -> None:
    with Pool([partial(PutsBack, n) for n in range(2)], backend="thread", workers=2) as pool:
        port = pool.port("draw_row", *ORDER)
        port.inputs["order"][:] = [6, 7]
        with pytest.raises(paceline.SharedRandomness):
            port.round()


def test_a_deadline_is_that_of_one_row_however_many_share_a_thread() -> None:
    with Pool([Resting] * 14, backend="process", workers=1, threads=2) as pool:
        port = pool.port("rest_row", *ORDER, deadline=1.5)
        for order in (0, 1):
            port.inputs["order"][:] = order
            port.round()
        assert pool.events == []


def test_errors_beside_others_are_their_own() -> None:
    with Pool([partial(Fault, n) for n in range(4)], backend="process", workers=1, threads=4) as pool:
        port = pool.port("fault_row", *ORDER)
        port.inputs["order"][:] = 0
        port.round()
        port.inputs["order"][:] = [0, 2, 0, 2]
        port.post()
        assert port.wait(outcomes=True) == [0, 1, 2, 3]
        assert sorted(port.errors) == [1, 3]
        assert isinstance(port.errors[1], TwoArguments)
        port.inputs["order"][:] = 0
        port.round()
        assert port.outputs["out"].tolist() == [3, 3, 5, 5]


def test_one_that_kills_the_others_is_found_and_given_up() -> None:
    with Pool([partial(Fault, n) for n in range(4)], backend="process", workers=1, threads=4) as pool:
        port = pool.port("fault_row", *ORDER)
        port.inputs["order"][:] = 0
        port.round()
        port.inputs["order"][:] = [0, 1, 0, 0]
        port.post()
        assert port.wait(outcomes=True) == [0, 1, 2, 3]
        assert list(port.errors) == [1]
        assert isinstance(port.errors[1], paceline.WorkerLost)
        assert "member 1" in str(port.errors[1])
        port.inputs["order"][:] = 0
        port.round()
        assert port.outputs["out"].tolist() == [3, 3, 5, 6]


def test_one_that_hangs_beside_others_is_killed_for_it() -> None:
    with Pool([Fault] * 3, backend="process", workers=1, threads=3, restarts=1) as pool:
        port = pool.port("fault_row", *ORDER, deadline=0.5)
        port.inputs["order"][:] = 0
        port.round()
        port.inputs["order"][:] = [0, 3, 0]
        port.post()
        port.wait(outcomes=True)
        assert list(port.errors) == [1]
        assert isinstance(port.errors[1], paceline.CallTimeout)
        assert port.outputs["out"][[0, 2]].tolist() == [2, 2]


def test_what_they_say_beside_their_rows_arrives(capfd: pytest.CaptureFixture[str]) -> None:
    with Pool([partial(Talker, n) for n in range(6)], backend="process", workers=1, threads=6) as pool:
        port = pool.port("talk_row", *ORDER)
        port.inputs["order"][:] = 0
        for turn in range(1, 10):
            port.round()
            assert port.outputs["out"].tolist() == [turn] * 6
            assert port.extras == ({n: n for n in range(6)} if turn % 2 else {})
        port.inputs["order"][:] = 1
        port.round()
    lines = [line for line in capfd.readouterr().err.splitlines() if "I am" in line]
    assert sorted(line.rpartition("member ")[2] for line in lines) == [f"{n}] I am {n}" for n in range(6)]


def test_whoever_is_ready_may_be_posted_again() -> None:
    with Pool([partial(SlowWalker, n) for n in range(6)], backend="process", workers=1, threads=6) as pool:
        port = pool.port("step_row", *WALK)
        port.inputs["move"][:] = 1.0
        steps, totals = dict.fromkeys(range(6), 0), dict[tuple[int, int], float]()
        port.post()
        for _ in range(20):
            for member in port.wait(2):
                totals[member, steps[member]] = float(port.outputs["total"][member])
                steps[member] += 1
                port.post([member])
        port.wait()
    with Pool([partial(Walker, n) for n in range(6)]) as plain:
        for step in range(max(steps.values())):
            answers = plain.call("step", dict.fromkeys(range(6), (1.0,)))
            assert all(totals.get((n, step), answers[n][1]) == answers[n][1] for n in range(6))


def test_a_trace_shows_each_of_them() -> None:
    trace = paceline.Trace()
    with Pool([partial(SlowWalker, n) for n in range(4)], backend="process", workers=1, threads=4, trace=trace) as pool:
        walked(pool, 3)
    assert len([span for span in trace.spans if span.name == "step_row"]) == 12


def test_more_items_than_threads_are_all_run() -> None:
    done: list[int] = []
    crowd = Crowd(2)
    for _ in range(3):
        crowd.run(done.append, range(10), [crowd.thread_of(n) for n in range(10)])
    with pytest.raises(ZeroDivisionError):
        crowd.run(lambda item: done.append(1 // item - 1), [0], [1])
    assert sorted(done) == sorted([*range(10)] * 3)
    assert [crowd.thread_of(n) for n in (9, 3, 3, 10)] == [1, 1, 1, 0]


def test_a_thread_that_is_busy_holds_no_other_up() -> None:
    last = threading.Event()
    crowd = Crowd(2)
    done: list[int] = []

    def job(number: int) -> None:
        if number == 0:
            assert last.wait(20.0), "the last one was not begun, though its thread has nothing to do"
        if number == 3:
            last.set()
        done.append(number)

    crowd.run(job, range(4), [crowd.thread_of(n) for n in range(4)])
    assert sorted(done) == [0, 1, 2, 3]


_imported: list[int] = []


class SetsPrecision:
    """As a module does that sets something when it is imported, by the first who needs it."""

    def __init__(self) -> None:
        if not _imported:
            _imported.append(1)
            decimal.getcontext().prec = 5

    def look_row(self, order: np.ndarray, out: np.ndarray) -> None:
        out[...] = decimal.getcontext().prec

    def look(self) -> int:
        return decimal.getcontext().prec


def test_what_is_set_in_a_process_holds_on_its_threads() -> None:
    with Pool([SetsPrecision] * 5, backend="process", workers=1, threads=3) as pool:
        port = pool.port("look_row", *ORDER)
        for _ in range(2):
            port.round()
            assert port.outputs["out"].tolist() == [5] * 5
        assert pool.call("look") == dict.fromkeys(range(5), 5)


def test_what_the_caller_has_set_holds_on_threads() -> None:
    with decimal.localcontext() as context:
        context.prec = 7
        with Pool([SetsPrecision], backend="inline") as pool:  # what it sets is set here
            here = pool.call("look")[0]
        with Pool([SetsPrecision] * 3, backend="thread", workers=3) as pool:
            assert pool.call("look") == dict.fromkeys(range(3), here)


def test_a_member_with_a_pool_of_its_own_does_not_swap_beside_others() -> None:
    with (
        Pool([Nesting] * 2, backend="process", workers=1, threads=2) as pool,
        pytest.raises(paceline.SharedRandomness),
    ):
        pool.port("draw_row", *ORDER).round()


class Nesting:
    """Has a pool, whose member draws."""

    def __init__(self) -> None:
        self.pool = Pool([partial(PutsBack, 0)])

    def draw_row(self, order: np.ndarray, out: np.ndarray) -> None:
        out[...] = self.pool.map(_draws, [1])[0]


def _draws(_: int) -> int:
    return np.random.randint(1_000_000)


class BoundToItsThread(OfItsThread):
    """Is given its rows once, on its own thread, and draws then, which is nobody else's business."""

    def bind_look_row(self, order: np.ndarray, out: np.ndarray) -> object:
        assert threading.get_ident() == self.thread
        drawn = np.random.randint(1_000_000)

        def look() -> None:
            assert threading.get_ident() == self.thread
            out[...] = drawn

        return look


def test_rows_are_bound_by_the_same_rules() -> None:
    def job(**options: object) -> list[int]:
        with Pool([BoundToItsThread] * 4, **options) as pool:  # type: ignore[arg-type]
            port = pool.port("look_row", *ORDER)
            port.round()
            return port.outputs["out"].tolist()

    before = np.random.get_state()[2]
    expected = job()
    assert np.random.get_state()[2] == before
    assert len(set(expected)) == 4
    assert job(backend="process", workers=2) == job(backend="process", workers=1, threads=2) == expected


def test_vectors_take_it_from_their_plan() -> None:
    def rewards(plan: object) -> list[float]:
        with make_vec("CartPole-v1", 6, seed=3, plan=plan) as envs:  # type: ignore[arg-type]
            envs.reset()
            return [envs.step(np.array([turn % 2] * 6))[0].sum() for turn in range(60)]

    assert rewards(Plan("process", 2, threads=3)) == rewards(0)


@pytest.mark.parametrize("backend", ["inline", "thread", "auto"])
def test_threads_are_for_processes(backend: str) -> None:
    with pytest.raises(BadInput, match="workers that are processes"):
        Pool([Walker], backend=backend, threads=2)
    with pytest.raises(BadInput, match="whole number from 1"):
        Pool([Walker], backend=backend, threads=0)
