"""The order in which a member is asked is the order in which it is run, replayed and saved: ports, calls, moves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import Episode, LateDrawer, Ledger, Mortal, Saved

import paceline
from paceline import HERE, Pool

ONE = ({"a": ((), "f8")}, {"o": ((), "f8")})


def kill_all(pool: Pool) -> None:
    for worker in pool.workers:
        if worker.backend == "process":
            with contextlib.suppress(ProcessLookupError):  # killed before, and nobody has looked since
                os.kill(worker.pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", [Ledger, Saved])
def test_a_call_between_post_and_wait_comes_second(backend: str, kind: type) -> None:
    with Pool([kind, kind], backend=backend, workers=2) as pool:
        port = pool.port("add_row", *ONE)
        said = []
        for turn in range(3):
            port.inputs["a"][:] = turn + 1
            port.post()
            said.append(pool.call("times", {0: (10.0,)})[0])
            pool.snapshot()
            port.wait()
            said.append(port.outputs["o"].tolist())
        assert said == [20.0, [2.0, 2.0], 220.0, [22.0, 4.0], 2230.0, [223.0, 7.0]]


def test_a_ring_after_a_posted_call_comes_second_and_is_not_forgotten(backend: str) -> None:
    with Pool([Ledger, Episode], backend=backend, workers=1) as pool:
        port = pool.port("add_row", *ONE)
        port.inputs["a"][:] = 7
        for method, argument, expected in (("times", 5.0, [12.0, 12.0]), ("reset", 3.0, [19.0, 10.0])):
            handle = pool.post(method, {member: (argument,) for member in (0, 1) if method == "times" or member})
            port.post()
            handle.wait()
            port.wait()
            assert port.outputs["o"].tolist() == expected
            kill_all(pool)
            assert list(pool.call("get").values()) == expected


def test_a_ring_after_a_call_that_kills_its_worker_comes_second(killable: str, tmp_path: Path) -> None:
    with Pool([Mortal], backend=killable, workers=1) as pool:
        port = pool.port("add_row", *ONE)
        port.inputs["a"][:] = 7
        handle = pool.post("times_after_death", {0: (5.0, str(tmp_path / "died"))})
        port.post()
        assert handle.wait() == {0: 5.0}
        port.wait()
        assert port.outputs["o"].tolist() == [12.0]


def test_rings_go_on_while_a_journal_is_shortened(killable: str) -> None:
    with Pool([Saved], backend=killable, workers=1, snapshot_every=100) as pool:
        port = pool.port("double_row", *ONE)
        value = 1.0
        for turn in range(130):
            port.inputs["a"][:] = turn % 7
            port.post()
            port.wait()
            value = 2 * value + turn % 7
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        assert pool.call("get") == {0: value}


def test_two_ports_of_one_member_keep_their_order_when_it_is_rebuilt(killable: str) -> None:
    def job(pool: Pool, kill: bool) -> list:
        add, double = (pool.port(method, *ONE) for method in ("add_row", "double_row"))
        said = []
        for turn in range(6):
            for port in (add, double) if turn % 2 else (double, add):
                port.inputs["a"][:] = turn
                port.post()
                port.wait()
                said.append(port.outputs["o"].copy())
            if kill and turn in (2, 4):
                os.kill(pool.workers[0].pid, signal.SIGKILL)
        return said

    with Pool([Ledger] * 2) as plain, Pool([Ledger] * 2, backend=killable) as pool:
        assert paceline.digest(job(pool, True)) == paceline.digest(job(plain, False))


def test_another_port_comes_first_for_members_that_are_posted_later(backend: str) -> None:
    with Pool([Ledger] * 2, backend=backend) as pool:
        add, double = (pool.port(method, *ONE) for method in ("add_row", "double_row"))
        add.inputs["a"][:] = 5
        double.post()
        for chosen in ([0], [0, 1]):
            add.post(chosen)
            add.wait()
        double.wait()
        pool.move([HERE, HERE])
        assert pool.call("get") == {0: 12.0, 1: 7.0}


def test_both_ports_may_be_posted_at_once(backend: str) -> None:
    with Pool([Ledger] * 2, backend=backend, workers=2) as pool:
        add, double = (pool.port(method, *ONE) for method in ("add_row", "double_row"))
        for port in (add, double):
            port.inputs["a"][:] = 1
            port.post()
        assert double.wait() == [0, 1]
        assert add.wait() == [0, 1]
        assert (add.outputs["o"].tolist(), double.outputs["o"].tolist()) == ([2.0, 2.0], [5.0, 5.0])


def test_a_move_between_post_and_wait_loses_nothing(backend: str) -> None:
    with Pool([Ledger] * 2, backend=backend, workers=2) as pool:
        port = pool.port("add_row", *ONE)
        port.inputs["a"][:] = 1
        for expected in (2.0, 3.0, 4.0):
            port.post()
            pool.move([HERE, 0] if expected == 2.0 else [1, HERE])
            port.wait()
            assert port.outputs["o"].tolist() == [expected, expected]


def test_a_stale_member_is_not_saved(backend: str) -> None:
    class Late(LateDrawer):
        total = 0

        def step(self, move: float) -> float:
            super().step(move)
            self.total += 1
            return self.total

        def snapshot(self) -> tuple[int, int]:
            return self.calls, self.total

        def restore(self, state: tuple[int, int]) -> None:
            self.calls, self.total = state

    if backend == "thread":
        return
    with Pool([partial(Late, 4)], backend=backend, snapshot_every=5) as pool:
        handles = [pool.post("step", {0: (1.0,)}) for _ in range(20)]
        assert [handle.wait()[0] for handle in handles] == list(range(1, 21))
        pool.snapshot()
        assert pool.call("step", {0: (1.0,)}) == {0: 21}


def test_rows_may_be_read_only_not_changed(backend: str) -> None:
    class Careless:
        def row(self, a: np.ndarray, o: np.ndarray) -> None:
            a *= 2
            o[...] = a

    with Pool([Careless], backend=backend) as pool:
        port = pool.port("row", {"a": ((2,), "f8")}, {"o": ((2,), "f8")})
        port.post()
        with pytest.raises(ValueError, match="read-only"):
            port.wait()


def test_here_stays_here(backend: str) -> None:
    class Where:
        def place(self) -> tuple[int, bool]:
            return os.getpid(), threading.current_thread() is threading.main_thread()

    with Pool([Where] * 2) as pool:
        pool.move([HERE, 0], backend=backend, workers=1)
        assert pool.call("place", record=False)[0] == (os.getpid(), True)
        pool.move([HERE, HERE])
        assert set(pool.call("place", record=False).values()) == {(os.getpid(), True)}
        assert [worker.backend for worker in pool.workers if worker.members] == ["inline"]


class Answers:
    """What is hard to send back."""

    def cancelled(self) -> None:
        raise asyncio.CancelledError("enough")

    def cycle(self) -> list:
        value: list = []
        value.append(value)
        return value

    def huge(self) -> int:
        return 10**6000

    def bfloat(self) -> object:
        import torch

        return torch.ones(3, dtype=torch.bfloat16)

    def fine(self) -> int:
        return 1


def test_whatever_is_raised_or_answered_comes_back(backend: str) -> None:
    with Pool([Answers], backend=backend) as pool:
        with pytest.raises(asyncio.CancelledError):
            pool.call("cancelled")
        assert len(pool.call("cycle")[0]) == 1
        assert pool.call("huge")[0] == 10**6000
        assert float(pool.call("bfloat")[0].sum()) == 3.0
        assert pool.call("fine") == {0: 1}


def test_a_member_without_the_method_says_so(backend: str) -> None:
    with Pool([Ledger], backend=backend) as pool:
        port = pool.port("ad_row", *ONE)
        port.post()
        with pytest.raises(AttributeError, match="ad_row"):
            port.wait()
        with pytest.raises(AttributeError, match="tims"):
            pool.call("tims", {0: (1.0,)})


def test_long_histories_of_rows_are_replayed(killable: str) -> None:
    with Pool([Ledger], backend=killable) as pool:
        port = pool.port("add_row", *ONE)
        port.inputs["a"][:] = 1
        for turn in range(700):
            if turn in (520, 699):
                os.kill(pool.workers[0].pid, signal.SIGKILL)
            port.post()
            port.wait()
        assert port.outputs["o"][0] == 701


def test_only_the_row_that_kills_is_blamed(killable: str) -> None:
    class Deadly(Ledger):
        def add_row(self, a: np.ndarray, o: np.ndarray) -> None:
            if float(a) < 0:
                os._exit(1)
            super().add_row(a, o)

    with Pool([Deadly] * 4, backend=killable, restarts=1) as pool:
        port = pool.port("add_row", *ONE)
        for turn in range(4):
            port.inputs["a"][:] = [1, 1, -1 if turn == 3 else 1, 1]
            port.post()
            port.wait(outcomes=True)
        assert list(port.errors) == [2]
        assert port.outputs["o"].tolist() == [5.0, 5.0, 4.0, 5.0]


def test_an_idle_worker_is_not_killed_for_rows_that_it_has_run() -> None:
    class Slow(Ledger):
        def nap(self) -> int:
            import time

            time.sleep(0.5)
            return 1

    with Pool([Slow] * 2, backend="process", workers=2) as pool:
        port = pool.port("add_row", *ONE, members=[0], deadline=0.1)
        port.post()
        for _ in range(2):
            assert pool.call("nap", {1: ()}) == {1: 1}
        assert port.wait() == [0]
        assert pool.events == []


def test_members_that_are_not_deterministic_keep_their_state() -> None:
    class Chat:
        def __init__(self) -> None:
            self.turns = 0

        def ask(self) -> int:
            self.turns += 1
            np.random.rand() if self.turns > 3 else None
            return self.turns

    with Pool([Chat, Chat], deterministic=False) as pool:
        assert [pool.call("ask")[0] for _ in range(7)] == [1, 2, 3, 4, 5, 6, 7]
        with pytest.raises(paceline.BadInput, match="neither snapshot and restore nor recall"):
            pool.move([0, 0], backend="process", workers=1)
        assert pool.call("ask")[0] == 8
    with Pool([Chat], backend="process", deterministic=False) as pool:
        pool.call("ask")
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        assert pool.call("ask")[0] == 1
        assert any(event.kind == "forgot" for event in pool.events)


def test_an_unsendable_function_is_named_and_leaves_nothing_behind() -> None:
    lock = threading.Lock()
    with Pool([Ledger], backend="process") as pool:
        with pytest.raises(paceline.NotSendable, match="closure lock"):
            pool.map(lambda x: lock, range(3))
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        assert pool.call("get") == {0: 1.0}
        assert pool.map(abs, [-1]) == [1]


def test_a_pool_closed_in_the_middle_of_a_stream() -> None:
    def close_early() -> None:
        pool = Pool([], backend="process", workers=2)
        for _ in pool.stream(abs, range(500)):
            pool.close()

    with pytest.raises(paceline.Closed):
        close_early()


def test_a_fork_of_the_caller_does_not_touch_its_pool() -> None:
    with Pool([Ledger], backend="process") as pool:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                pool.call("get")
            except paceline.Closed:
                pool.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert pool.call("times", {0: (3.0,)}) == {0: 3.0}


def test_torch_imported_late_survives_a_death(tmp_path: object) -> None:
    """In a process of its own: here torch has been imported long ago."""
    import subprocess
    import sys

    code = """
import os, signal
from paceline import Pool, digest
class Late:
    def __init__(self): self.n = 0
    def step(self):
        self.n += 1
        import random, torch
        return self.n, float(torch.rand(())), random.random()
    def snapshot(self): return self.n
    def restore(self, n): self.n = n
def run(backend, kill, save):
    with Pool([Late] * 2, backend=backend, workers=1) as pool:
        said = [pool.call("step") for _ in range(2)]
        if save: pool.snapshot()
        if kill: os.kill(pool.workers[0].pid, signal.SIGKILL)
        return digest(said + [pool.call("step") for _ in range(2)])
found = {run("process", 1, save) for save in (0, 1)}
found.add(run("inline", 0, 0))
print(len(found))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("place", ["inline", "process"])
def test_interrupts_at_any_moment_break_nothing(place: str) -> None:
    """A signal every few milliseconds; what is answered afterwards is what the member's own count says."""

    def handler(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    old = signal.signal(signal.SIGALRM, handler)
    try:
        with Pool([Ledger] * 2, backend=place, workers=1) as pool:
            port = pool.port("add_row", *ONE)
            port.inputs["a"][:] = 1
            for turn in range(40):
                try:
                    # Again after a while: Python swallows what is raised while it frees an object.
                    signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0002 * (turn % 17), 0.2)
                    while True:
                        pool.call("times", {0: (1.0,), 1: (1.0,)})
                        port.post()
                        port.wait()
                except KeyboardInterrupt:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                if port.outstanding:
                    port.wait()
                before = pool.call("get", record=False)
                port.post()
                port.wait()
                assert port.outputs["o"].tolist() == [before[0] + 1, before[1] + 1]
                assert pool.call("get", record=False) == {0: before[0] + 1, 1: before[1] + 1}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_order_of_everything_is_the_same(data: st.DataObject) -> None:
    """Two ports, calls, resets, moves, snapshots and kills, also between post and wait, against inline."""
    kinds = data.draw(st.lists(st.sampled_from([Ledger, Saved, Episode]), min_size=1, max_size=4))
    with Pool(kinds) as plain, Pool(kinds, backend="process", workers=2) as pool:
        both = [(p, p.port("add_row", *ONE), p.port("double_row", *ONE)) for p in (plain, pool)]
        for turn in range(data.draw(st.integers(2, 14))):
            action = data.draw(
                st.sampled_from(["add", "double", "call", "post", "reset", "move", "save", "kill", "wait"])
            )
            chosen = sorted(data.draw(st.sets(st.integers(0, len(kinds) - 1), min_size=1)))
            said = []
            if action == "kill":
                kill_all(pool)
            elif action == "move":
                pool.move({m: data.draw(st.sampled_from([HERE, 0, 1])) for m in chosen})
            for home, add, double in both:
                port = add if action == "add" else double
                if action in ("add", "double"):
                    port.wait()
                    port.inputs["a"][:] = turn
                    port.post(chosen)
                elif action == "call":
                    said.append(home.call("times", dict.fromkeys(chosen, (1.5,))))
                elif action == "post":
                    home.post("times", dict.fromkeys(chosen, (1.5,)), apart=bool(turn % 2))
                elif action == "reset":
                    fit = {m: (float(turn),) for m in chosen if kinds[m] is Episode}
                    said.append(home.call("reset", fit))
                elif action == "save":
                    home.snapshot()
                elif action == "wait":
                    add.wait()
                    double.wait()
                    said.append([add.outputs["o"].tolist(), double.outputs["o"].tolist()])
            assert said == [] or said[0] == said[1]
        assert both[0][0].call("get") == both[1][0].call("get")


class Echo:
    def say(self, word: str, _: bytes = b"") -> str:
        return word


def test_a_message_that_the_line_refuses_is_not_sent_with_a_later_one() -> None:
    """The kernel refuses a packet that is larger than the line's buffer: the worker is replaced, and answers stay
    with the calls that they belong to."""
    with Pool([Echo], backend="process", workers=1) as pool:
        assert pool.call("say", {0: ("first",)}) == {0: "first"}
        (slot,) = [slot for number, slot in pool._crew.slots.items() if number != HERE]
        slot.worker.channel.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        assert pool.call("say", {0: ("large", bytes(60_000))}) == {0: "large"}
        assert [pool.call("say", {0: (word,)})[0] for word in ("a", "b", "c")] == ["a", "b", "c"]
        assert any("rebuilding" in event.text for event in pool.events)
