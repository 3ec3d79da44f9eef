"""Workers that run rows beside each other, on threads: sooner where members wait, and the same."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import numpy as np
import pytest
from members import Fault, LateDrawer, TwoArguments, Walker

import paceline
from paceline import Anew, BadInput, Plan, Pool
from paceline.engine.crowd import Crowd
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
        assert port.round() == [0, 1, 2, 3]
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


def test_the_first_ready_need_not_wait_for_the_slowest_of_their_worker() -> None:
    with Pool([partial(SlowWalker, n) for n in range(6)], backend="process", workers=1, threads=6) as pool:
        port = pool.port("step_row", *WALK)
        port.inputs["move"][:] = 1.0
        seen = []
        for _ in range(6):
            port.post()
            first = port.wait(2)
            seen.append(sorted(first + port.wait()))
        assert seen == [list(range(6))] * 6


def test_a_trace_shows_each_of_them() -> None:
    trace = paceline.Trace()
    with Pool([partial(SlowWalker, n) for n in range(4)], backend="process", workers=1, threads=4, trace=trace) as pool:
        walked(pool, 3)
    assert len([span for span in trace.spans if span.name == "step_row"]) == 12


def test_more_items_than_threads_are_all_run() -> None:
    done: list[int] = []
    crowd = Crowd(2)
    for _ in range(3):
        crowd.run(done.append, range(10))
    assert sorted(done) == sorted([*range(10)] * 3)


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
    with pytest.raises(BadInput, match="1 or more"):
        Pool([Walker], backend=backend, threads=0)
