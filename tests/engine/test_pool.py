"""The contract of Pool, the same on every backend."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from members import (
    DrawingInside,
    DrawingRestored,
    Fault,
    GlobalDrawer,
    LateDrawer,
    SnapshotWalker,
    TwoArguments,
    Walker,
    raising,
)

import paceline
from paceline import Pool
from paceline.engine import HERE


def walkers(count: int) -> list:
    return [partial(Walker, start) for start in range(count)]


def test_answers_come_in_member_order(backend: str) -> None:
    with Pool([partial(Fault, n) for n in range(5)], backend=backend, workers=2) as pool:
        assert list(pool.call("add", {4: (1,), 0: (2,), 3: (3,)}).items()) == [(0, 2), (3, 6), (4, 5)]
        assert pool.call("add", dict.fromkeys(range(5), (0,))) == {0: 2, 1: 1, 2: 2, 3: 6, 4: 5}


def test_posts_of_one_member_run_first_in_first_out(backend: str) -> None:
    with Pool([Fault, Fault], backend=backend, workers=2) as pool:
        handles = [pool.post("add", {0: (n,), 1: (n,)}) for n in range(30)]
        sums = [handle.wait()[0] for handle in handles]
        assert sums == list(np.cumsum(range(30)))


def test_ready_counts_members_one_by_one(backend: str) -> None:
    with Pool([Fault] * 3, backend=backend, workers=2) as pool:
        handle = pool.post("add", {0: (1,), 1: (2,), 2: (3,)}, apart=True)
        assert len(handle.ready(2)) >= 2
        assert handle.ready(3) == [0, 1, 2]
        assert handle.wait() == {0: 1, 1: 2, 2: 3}


def test_everybody_runs_then_the_lowest_exception_is_raised(backend: str) -> None:
    with Pool([Fault] * 4, backend=backend, workers=2) as pool:
        calls = {0: ("pid",), 1: ("two_arguments",), 2: ("two_arguments",), 3: ("pid",)}
        with pytest.raises(TwoArguments, match="broken #42") as caught:
            pool.call("do", calls)
        notes = "\n".join(caught.value.__notes__)
        assert "member 1" in notes
        assert "do()" in notes
        assert "also member 2: TwoArguments" in notes
        assert caught.value.number == 42
        outcomes = pool.call("do", calls, outcomes=True)
        assert [outcome.ok for outcome in outcomes.values()] == [True, False, False, True]
        assert pool.call("add", {1: (5,)}) == {1: 5}


def test_an_exception_that_cannot_be_pickled_still_comes_as_itself(backend: str) -> None:
    with Pool([Fault], backend=backend) as pool, pytest.raises(ValueError, match="holds a lock"):
        pool.call("do", {0: ("unpicklable_error",)})


def test_an_answer_that_cannot_be_sent_is_an_error_everywhere(backend: str) -> None:
    with Pool([Fault], backend=backend) as pool:
        with pytest.raises(paceline.NotSendable, match="lock"):
            pool.call("do", {0: ("unpicklable",)})
        assert pool.call("add", {0: (1,)}) == {0: 1}


def test_an_answer_above_the_limit_is_named(backend: str) -> None:
    with Pool([Fault], backend=backend, max_message=1 << 20) as pool:
        with pytest.raises(paceline.TooLarge, match=r"answer has 2,097,.* limit of 1,048,576; answer less \(a Pool"):
            pool.call("megabytes", {0: (2,)})
        with pytest.raises(paceline.TooLarge, match=r"to 0 has 2,097,.* limit of 1,048,576; send less \(a Pool"):
            pool.call("add", {0: (np.zeros(1 << 18),)})


def limits_files() -> None:
    """From now on no file of this process may be larger than 100 kB, and memory is a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_no_room_for_an_answer_is_named_and_its_worker_lives_on() -> None:
    with Pool([partial(Run, limits_files)], backend="process") as pool:
        worker = pool.workers[0].pid
        with pytest.raises(paceline.TooLarge, match="shared memory cannot be had: File too large; a limit on the size"):
            pool.call("do", {0: (1 << 20,)})
        assert pool.call("do", {0: (1,)}) == {0: 2}
        assert pool.workers[0].pid == worker
        os.kill(worker, signal.SIGKILL)
        assert pool.call("do", {0: (1,)}) == {0: 3}


class Run:
    """Runs a function when it is built; answers with so many bytes, or how often it has been asked."""

    def __init__(self, function: Callable[[], None]) -> None:
        function()
        self.asked = 0

    def do(self, size: int) -> bytes | int:
        self.asked += 1
        return self.asked if size == 1 else os.urandom(size)


def test_no_room_for_an_argument_is_named() -> None:
    with Pool([Fault], backend="process") as pool:
        pool.call("add", {0: (1,)})
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            limits_files()
            with pytest.raises(paceline.TooLarge, match="shared memory cannot be had"):
                pool.call("add", {0: (np.zeros(1 << 18),)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert pool.call("add", {0: (1,)}) == {0: 2}


def test_sys_exit_is_an_error_of_the_member(backend: str) -> None:
    with Pool([Fault], backend=backend) as pool:
        with pytest.raises(paceline.MemberExit, match=r"sys\.exit\(\) in do\(\), with 3"):
            pool.call("do", {0: ("sys_exit",)})
        assert pool.call("add", {0: (1,)}) == {0: 1}


def test_a_constructor_that_raises(backend: str) -> None:
    with pytest.raises(TwoArguments, match="constructor #1") as caught:
        Pool([Fault, raising], backend=backend, workers=2)
    assert "member 1" in caught.value.__notes__[0]
    with Pool([Fault, raising], backend=backend, workers=2, failed_builds="keep") as pool:
        outcomes = pool.call("add", {0: (1,), 1: (1,)}, outcomes=True)
        assert outcomes[0].answer == 1
        assert isinstance(outcomes[1].error, TwoArguments)


def test_answers_are_copies(backend: str) -> None:
    with Pool(walkers(1), backend=backend) as pool:
        first = pool.call("step", {0: (1.0,)})[0][0]
        kept = first.copy()
        pool.call("step", {0: (1.0,)})
        assert np.array_equal(first, kept)


def test_arguments_are_copies(backend: str) -> None:
    class Keeper:
        def __init__(self) -> None:
            self.kept: list[np.ndarray] = []

        def keep(self, array: np.ndarray) -> float:
            array += 1  # its own to change
            self.kept.append(array)
            return float(sum(a.sum() for a in self.kept))

    with Pool([Keeper], backend=backend) as pool:
        for size in (8, 1 << 16):
            array = np.zeros(size)
            before = pool.call("keep", {0: (array,)})[0]
            assert not array.any()
            array += 100
            assert pool.call("keep", {0: (np.zeros(0),)})[0] == before


def test_what_several_are_given_as_one_object_is_packed_once_and_is_a_copy_for_each(backend: str) -> None:
    class Counted(list):  # type: ignore[type-arg]
        packings = 0

        def __reduce__(self) -> tuple[type, tuple[list[int]]]:
            Counted.packings += 1
            return list, ([*self],)

    class Adder:
        def add(self, numbers: list[int], large: np.ndarray) -> tuple[int, float]:
            numbers.append(1)
            large += 1
            return sum(numbers), float(large.sum())

    with Pool([Adder] * 3, backend=backend) as pool:
        for size in (1, 1 << 16):
            shared = (Counted([1]), np.zeros(size))
            assert pool.call("add", dict.fromkeys(range(3), shared)) == dict.fromkeys(range(3), (2, float(size)))
            assert not shared[1].any()
            assert shared[0] == [1]
    assert Counted.packings == 1 + 3  # large arrays lie beside their pickles, and are not shared


class Exiting:
    """An answer whose own code ends the process when it is packed."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        sys.exit(3)


def test_an_answer_that_exits_when_it_is_packed_is_its_members_error_alone(backend: str) -> None:
    class Odd:
        def __init__(self) -> None:
            self.calls = 0

        def go(self, odd: bool) -> object:
            self.calls += 1
            return Exiting() if odd else self.calls

    with Pool([Odd] * 3, backend=backend, workers=1) as pool:
        for calls in (1, 2):  # the second is an ordinary one
            outcomes = pool.call("go", {member: (member == 1,) for member in range(3)}, outcomes=True)
            assert [outcomes[member].answer for member in range(3)] == [calls, None, calls]
            assert isinstance(outcomes[1].error, paceline.MemberExit)


def test_what_raised_is_not_held_until_the_collector_comes(killable: str) -> None:
    class Held:
        pass

    class Raising:
        def __init__(self) -> None:
            gc.disable()
            self.seen: weakref.WeakSet[Held] = weakref.WeakSet()

        def fail(self) -> None:
            held = Held()
            self.seen.add(held)
            raise ValueError("with something in hand")

        def count(self) -> int:
            return len(self.seen)

        def close(self) -> None:
            gc.enable()

    with Pool([Raising] * 2, backend=killable, workers=1) as pool:
        for _ in range(3):
            assert not any(outcome.ok for outcome in pool.call("fail", outcomes=True).values())
        assert pool.call("count") == {0: 0, 1: 0}


def test_of_many_errors_the_first_nine_are_told_in_full() -> None:
    class Fails:
        def fail(self) -> None:
            raise ValueError("no")

    with Pool([Fails] * 20) as pool, pytest.raises(ValueError, match="no") as caught:
        pool.call("fail")
    notes = caught.value.__notes__
    assert [note for note in notes if note.startswith("also")] == [
        f"also member {n}: ValueError: no" for n in range(1, 9)
    ]
    assert notes[-1] == "and 11 members more"


def test_calls_of_one_worker_are_made_in_member_order(backend: str, tmp_path: Path) -> None:
    class Writer:
        def write(self, number: int, large: np.ndarray | None) -> None:
            with (tmp_path / "calls").open("a") as file:
                file.write(f"{number} ")

    with Pool([Writer] * 5, backend=backend, workers=1) as pool:
        for _ in range(2):  # those with much in hand are not made by the loop that makes the others
            pool.call("write", {n: (n, np.zeros(1 << 16) if n % 2 else None) for n in range(5)})
    assert (tmp_path / "calls").read_text().split() == [*"01234"] * 2


def test_large_arrays_both_ways(backend: str) -> None:
    with Pool([Fault], backend=backend) as pool:
        answer = pool.call("megabytes", {0: (8,)})[0]
        assert answer.nbytes == 8 << 20
        assert answer.flags.writeable
        assert float(answer.sum()) == 1.5 * answer.size


def test_reads_leave_no_trace(backend: str) -> None:
    if backend == "thread":
        return_type: type = Walker
        factories: list = [partial(return_type, 1)]
    else:
        factories = [GlobalDrawer]
    method = "where" if backend == "thread" else "draw"
    with Pool(factories, backend=backend) as pool:
        first = pool.call(method, record=False)
        second = pool.call(method, record=False)
        assert paceline.digest(first) == paceline.digest(second)


def test_map_gives_results_by_index(backend: str) -> None:
    with Pool([], backend=backend, workers=2) as pool:
        assert pool.map(lambda n: n * n, range(200)) == [n * n for n in range(200)]
        assert pool.map(len, []) == []
        assert dict(pool.stream(str, range(5))).keys() == set(range(5))


def test_map_runs_everything_before_it_raises(backend: str) -> None:
    def odd(number: int) -> int:
        if number % 2:
            raise TwoArguments("odd", number)
        return number

    with Pool([], backend=backend, workers=2) as pool:
        with pytest.raises(TwoArguments, match=r"odd #1\b"):
            pool.map(odd, range(10))
        outcomes = pool.map(odd, range(10), outcomes=True)
        assert [outcome.ok for outcome in outcomes] == [True, False] * 5


def test_empty_pool(backend: str) -> None:
    with Pool([], backend=backend, workers=2) as pool:
        assert len(pool) == 0
        assert pool.call("anything") == {}
        assert pool.workers == []


def test_closed_pool_says_so_and_closes_again(backend: str) -> None:
    pool = Pool([Fault], backend=backend)
    pool.close()
    pool.close()
    with pytest.raises(paceline.Closed):
        pool.call("add", {0: (1,)})


def test_workers_are_listed(backend: str) -> None:
    with Pool([Fault] * 4, backend=backend, workers=2) as pool:
        assert [(w.backend, w.members) for w in pool.workers] == [(backend, (0, 1)), (backend, (2, 3))]
        pids = pool.call("pid")
        assert [pids[0], pids[2]] == [worker.pid for worker in pool.workers]


def test_one_worker_may_be_here(backend: str) -> None:
    with Pool(walkers(4), backend=backend, workers=1, placement=[0, HERE, 0, HERE]) as pool:
        assert {w.number: w.members for w in pool.workers} == {HERE: (1, 3), 0: (0, 2)}
        mixed = pool.call("step", dict.fromkeys(range(4), (1.0,)))
    with Pool(walkers(4)) as pool:
        assert paceline.digest(mixed) == paceline.digest(pool.call("step", dict.fromkeys(range(4), (1.0,))))


@pytest.mark.parametrize("member", [Walker, SnapshotWalker])
def test_members_move_with_their_state(backend: str, member: type) -> None:
    factories = [partial(member, start) for start in range(4)]

    def job(pool: Pool, moving: bool) -> list:
        answers = []
        for turn in range(12):
            if moving and turn == 4:
                pool.move([1, 1, 0, HERE])
            if moving and turn == 8:
                pool.move({3: 0, 0: HERE})
            answers.append(pool.call("step", {n: (turn + n,) for n in range(4)}))
        return answers

    with Pool(factories) as still, Pool(factories, backend=backend, workers=2) as pool:
        assert paceline.digest(job(pool, True)) == paceline.digest(job(still, False))


def test_members_are_replaced_in_the_workers_that_there_are(backend: str) -> None:
    """As new: their streams, their ports and their journals begin; workers that have members stay."""

    def job(pool: Pool) -> list:
        port = pool.port("step_row", {"move": ((), np.float64)}, {"total": ((), np.float64)})
        port.inputs["move"][:] = 2.0
        rounds = []
        for _ in range(4):
            port.post()
            port.wait()
            rounds.append(port.outputs["total"].copy())
        return [*rounds, pool.call("step", dict.fromkeys(range(len(pool)), (1.0,)))]

    def recipes(after: int) -> dict[str, Any]:
        return {"factories": [partial(LateDrawer, after), partial(LateDrawer, 99)], "keys": [("a", after), "b"]}

    with Pool((), backend=backend, workers=2, draw_alone=True) as pool:
        pids = set()
        for after in (2, 3, 2):
            pool.refill(**recipes(after))
            with Pool(**recipes(after)) as alone:
                assert paceline.digest(job(pool)) == paceline.digest(job(alone))
            pids.add(tuple(sorted(worker.pid for worker in pool.workers)))
            pool.refill()
            assert len(pool) == 0
        assert len(pids) == 1


def test_pool_moves_to_another_backend(backend: str) -> None:
    with Pool(walkers(3)) as pool, Pool(walkers(3)) as still:
        for turn in range(3):
            if turn == 1:
                pool.move([0, 1, 1], backend=backend, workers=2)
            calls = {n: (float(turn),) for n in range(3)}
            assert paceline.digest(pool.call("step", calls)) == paceline.digest(still.call("step", calls))
        assert {worker.backend for worker in pool.workers} == {backend}


def test_late_drawers_are_isolated_and_replayed(backend: str) -> None:
    def job(backend: str, draw_alone: bool = True) -> list:
        factories = [partial(LateDrawer, after) for after in (2, 5, 99)]
        with Pool(factories, backend=backend, workers=2, draw_alone=draw_alone) as pool:
            return [pool.call("step", dict.fromkeys(range(3), (1.0,))) for _ in range(8)]

    assert paceline.digest(job(backend)) == paceline.digest(job("inline"))
    if backend == "thread":
        with pytest.raises(paceline.SharedRandomness, match="in flight on threads"):
            job(backend, draw_alone=False)


def test_posts_after_a_late_draw_keep_their_order(backend: str) -> None:
    if backend == "thread":
        return
    with Pool([partial(LateDrawer, 2)], backend=backend) as pool, Pool([partial(LateDrawer, 2)]) as plain:
        handles = [pool.post("step", {0: (float(n),)}) for n in range(20)]
        expected = [plain.call("step", {0: (float(n),)})[0] for n in range(20)]
        assert [handle.wait()[0] for handle in handles] == expected


def test_the_callers_own_generators_are_not_touched() -> None:
    import random

    with Pool([GlobalDrawer, partial(LateDrawer, 1)]) as pool:
        random.seed(1)
        np.random.seed(1)
        expected = [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]
        random.seed(1)
        np.random.seed(1)
        got = [random.random(), random.gauss(0, 1)]
        for _ in range(5):
            pool.call("step", {0: (1.0,), 1: (1.0,)})
        got += [np.random.rand(), np.random.randn()]
        assert got == expected


def test_streams_follow_keys_not_places(backend: str) -> None:
    if backend == "thread":
        return
    with Pool([GlobalDrawer] * 2, backend=backend, workers=2, keys=["a", "b"], seed=3) as pool:
        a, b = pool.call("draw").values()
    with Pool([GlobalDrawer] * 2, backend=backend, keys=["b", "a"], seed=3) as pool:
        swapped = pool.call("draw")
    assert (swapped[0], swapped[1]) == (b, a)
    assert a != b


def test_bad_input_is_named() -> None:
    with pytest.raises(paceline.BadInput, match="factory 1 is a int"):
        Pool([Fault, 3])  # type: ignore[list-item]
    with pytest.raises(paceline.BadInput, match="no backend is called 'quantum'"):
        Pool([Fault], backend="quantum")
    with pytest.raises(paceline.BadInput, match="different keys"):
        Pool([Fault, Fault], keys=["a", "a"])
    with pytest.raises(paceline.BadInput, match="placement has 1"):
        Pool([Fault, Fault], placement=[0])
    with pytest.raises(paceline.BadInput, match="worker 5"):
        Pool([Fault], placement=[5])
    with Pool([Fault]) as pool:
        with pytest.raises(paceline.BadInput, match="there is no member 7"):
            pool.call("add", {7: (1,)})
        with pytest.raises(paceline.BadInput, match="give a tuple"):
            pool.call("add", {0: 1})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["inline", "thread"])
def test_a_deadline_that_cannot_be_kept_is_refused(name: str) -> None:
    with Pool([Fault], backend=name) as pool, pytest.raises(paceline.BadInput, match="cannot be kept"):
        pool.call("add", {0: (1,)}, deadline=1.0)


def test_a_dropped_pool_ends_its_workers() -> None:
    pool = Pool([Fault], backend="process")
    pid = pool.workers[0].pid
    del pool
    gc.collect()
    pidfd_gone = psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=5)[1] == []
    assert pidfd_gone


def test_an_unsendable_recipe_is_named_at_the_start() -> None:
    import threading

    lock = threading.Lock()

    def factory() -> Fault:
        with lock:
            return Fault()

    with pytest.raises(paceline.NotSendable, match="closure lock") as caught:
        Pool([factory], backend="process")
    assert len("".join(traceback.format_exception(caught.value)).splitlines()) <= 10
    with Pool([factory]) as pool:
        assert pool.call("add", {0: (1,)}) == {0: 1}


def test_a_member_that_draws_when_it_is_restored_draws_on_as_before(killable: str) -> None:
    def job(pool: Pool, kill: bool) -> list:
        pool.call("step", {0: (False,)})
        pool.snapshot()
        if kill:
            os.kill(pool.workers[0].pid, signal.SIGKILL)
        return [pool.call("draw") for _ in range(2)]

    with Pool([DrawingRestored], seed=3) as plain, Pool([DrawingRestored], seed=3, backend=killable) as pool:
        assert job(plain, False) == job(pool, True)


def test_shared_randomness_of_a_pool_within_is_an_error_like_any_other(backend: str) -> None:
    with Pool([DrawingInside], backend=backend) as pool:
        assert pool.call("step") == {0: 1}
        with pytest.raises(paceline.SharedRandomness):
            pool.call("nest")
        # On threads the member itself is in flight while somebody draws: then it is as it was before.
        expected = 2 if backend == "thread" else 3
        assert pool.call("step") == {0: expected}
        if backend in ("process", "ray"):
            os.kill(pool.workers[0].pid, signal.SIGKILL)
        assert pool.call("step") == {0: expected + 1}


def test_streams_of_a_map_follow_keys(backend: str) -> None:
    def draw(item: int) -> float:
        return float(np.random.rand())

    if backend == "thread":
        return
    with Pool([], backend=backend, workers=2, seed=3) as pool:
        forward = pool.map(draw, range(6), keys=[("m", n) for n in range(6)])
        backward = pool.map(draw, range(6), keys=[("m", 5 - n) for n in range(6)])
    assert forward == backward[::-1]
    assert len(set(forward)) == 6


def test_a_map_is_left_while_its_function_still_waits_to_be_sent(backend: str) -> None:
    with Pool(walkers(2), backend=backend, workers=2) as pool:
        handles = [pool.post("step", {0: (1.0,)}) for _ in range(20)]
        for _ in pool.stream(abs, range(100)):
            break
        assert len([handle.wait() for handle in handles]) == 20
        port = pool.port("step_row", {"move": ((), float)}, {"place": ((4,), float), "total": ((), float)})
        handles = [pool.post("step", {0: (1.0,)}) for _ in range(20)]
        port.close()
        assert len([handle.wait() for handle in handles]) == 20
        assert pool.events == []


def test_a_function_that_the_worker_cannot_unpack_is_an_error_of_each_item(killable: str) -> None:
    only_here = types.ModuleType("only_here")
    exec("def double(x): return 2 * x", only_here.__dict__)
    sys.modules["only_here"] = only_here
    try:
        with Pool(walkers(1), backend=killable) as pool:
            with pytest.raises(ModuleNotFoundError, match="only_here"):
                pool.map(only_here.double, range(3))
            assert pool.map(abs, [-1]) == [1]
            assert pool.events == []
    finally:
        del sys.modules["only_here"]


def test_members_move_while_a_map_is_under_way() -> None:
    with Pool(walkers(2)) as pool:
        found = {}
        for index, outcome in pool.stream(lambda x: x * x, range(60)):
            found[index] = outcome.answer
            if len(found) == 5:
                pool.move([0, 0], backend="process", workers=1)
            if len(found) == 30:
                pool.move([-1, -1], workers=0)
        assert found == {x: x * x for x in range(60)}
    lock = threading.Lock()
    with Pool(walkers(1)) as pool:
        outcomes = {}
        for index, outcome in pool.stream(lambda x: lock and x, range(4)):
            if not outcomes:
                pool.move([0], backend="process", workers=1)
            outcomes[index] = outcome
        assert len(outcomes) == 4
        assert isinstance(outcomes[3].error, paceline.NotSendable)


def test_a_map_that_nobody_listens_to_any_more_is_dropped(backend: str) -> None:
    with Pool([Fault], backend=backend, workers=2) as pool:
        for _, outcome in pool.stream(abs, range(1000)):
            assert outcome.ok
            break
        assert pool.call("add", {0: (1,)}) == {0: 1}
        assert pool.map(abs, [-1]) == [1]


def test_items_are_shared_out_before_anybody_gets_two() -> None:
    """Two long items on two workers: each gets one."""

    def whose(number: int) -> int:
        time.sleep(0.2)
        return os.getpid()

    with Pool([], backend="process", workers=2) as pool:
        assert len(set(pool.map(whose, range(2)))) == 2
