"""What nobody would think of is an error of whoever did it, and nobody else's: workers live on, and nothing loops."""

from __future__ import annotations

import fcntl
import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from members import BadStr, DeadlyToBind, Dictionary, Fault, Ledger, Odd, SlowRows, Talker, dying

import paceline
from paceline import PlanNotMet, Pool
from paceline.engine import HERE
from paceline.engine.host.host import Host
from paceline.engine.host.member import ERROR
from paceline.engine.supervisor import dispatch
from paceline.engine.workers.process.output import REPEATED, Voice

ONE = ({"a": ((), "f8")}, {"o": ((), "f8")})


def test_errors_without_words_and_answers_without_names(backend: str) -> None:
    with Pool([Odd, Odd], backend=backend, workers=2) as pool:
        with pytest.raises(BadStr) as caught:
            pool.call("wordless")
        assert any("also member 1: BadStr: <" in note for note in caught.value.__notes__)
        with pytest.raises(ValueError, match="v") as caught_value:
            pool.call("noted")
        assert caught_value.value.__notes__[0] == "abc"
        assert any("member 0" in note for note in caught_value.value.__notes__)
        with pytest.raises(paceline.NotSendable, match="a BadRepr"):
            pool.call("nameless")
        assert pool.events == []


def test_an_error_whose_class_main_does_not_have_comes_in_words(killable: str) -> None:
    with Pool([Odd, Odd], backend=killable, workers=1) as pool:
        outcome = pool.call("unknown_class", {1: ()}, outcomes=True)[1]
        assert "only_there" not in sys.modules
        assert isinstance(outcome.error, paceline.RemoteError)
        assert "only_there.Strange: boo" in str(outcome.error)


def test_a_member_that_raises_when_it_is_asked_what_it_can(backend: str) -> None:
    with Pool([Dictionary, Fault], backend=backend) as pool:
        assert pool.call("add", {0: (), 1: (1,)}) == {0: 1, 1: 1}
        port = pool.port("step_row", *ONE, members=[0])
        port.post()
        with pytest.raises(KeyError):
            port.wait()


def test_a_lost_member_is_answered_for_by_its_port(killable: str) -> None:
    with Pool([Ledger, dying], backend=killable, failed_builds="keep", restarts=1) as pool:
        port = pool.port("add_row", *ONE)
        before = len(pool.events)
        for turn in range(2):
            port.inputs["a"][:] = 1
            port.post()
            assert port.wait(outcomes=True) == [0, 1]
            assert port.outputs["o"][0] == 2.0 + turn
            assert isinstance(port.errors[1], paceline.WorkerLost)
        assert len(pool.events) == before


def test_a_port_with_much_to_say_keeps_its_memory(backend: str) -> None:
    name = "a" * 70_000
    with Pool([Ledger] * 2, backend=backend) as pool:
        port = pool.port("add_row", {name: ((), "f8")}, {"o": ((), "f8")})
        port.inputs[name][:] = 4
        port.post()
        assert port.wait() == [0, 1]
        assert port.outputs["o"].tolist() == [5.0, 5.0]
        assert pool.events == []


def test_workers_that_die_before_anybody_is_answered_are_not_replaced_for_ever(killable: str) -> None:
    with Pool([DeadlyToBind], backend=killable, restarts=2) as pool:
        port = pool.port("step_row", *ONE)
        port.post()
        with pytest.raises(paceline.WorkerLost, match="there was no answer"):
            port.wait()
        assert [event.kind for event in pool.events] == ["lost"] * 3
        port.close()
        assert pool.call("fine") == {0: "fine"}


class HangsToBind:
    """Never comes back from being given its rows."""

    def bind_step_row(self, a: np.ndarray, o: np.ndarray) -> object:
        while True:
            pass

    def step_row(self, a: np.ndarray, o: np.ndarray) -> None:
        o[...] = a


def test_who_hangs_while_it_is_bound_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "BUILD_DEADLINE", 0.5)
    with Pool([HangsToBind], backend="process", restarts=1) as pool:
        port = pool.port("step_row", *ONE)
        port.post()
        with pytest.raises(paceline.WorkerLost, match="there was no answer"):
            port.wait()


class BindsNothing:
    """Is given its rows, and has nothing to give for them."""

    def bind_step_row(self, a: np.ndarray, o: np.ndarray) -> object:
        return None

    def step_row(self, a: np.ndarray, o: np.ndarray) -> None:
        o[...] = a


def test_who_binds_nothing_is_told_so_at_every_round(backend: str) -> None:
    with Pool([BindsNothing], backend=backend) as pool:
        port = pool.port("step_row", *ONE)
        for _ in range(3):
            with pytest.raises(paceline.BadInput, match="it must give what step_row does"):
                port.round()


class Sleepy:
    """Takes its time for every row."""

    def __init__(self) -> None:
        self.steps = 0

    def step_row(self, a: np.ndarray, o: np.ndarray) -> None:
        time.sleep(0.05)
        self.steps += 1
        o[...] = self.steps


def test_a_long_past_is_replayed_whatever_one_call_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "BUILD_DEADLINE", 1.0)
    with Pool([Sleepy], backend="process") as pool:
        port = pool.port("step_row", *ONE)
        for _ in range(40):
            port.round()
        os.kill(pool.workers[0].pid, 9)
        port.round()
        assert port.outputs["o"].tolist() == [41.0]


class Exclusive:
    """Holds what can be held only once, and draws late."""

    def __init__(self, path: str) -> None:
        self.steps = 0
        self.file = open(path, "w")  # noqa: SIM115
        fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def step_row(self, a: np.ndarray, o: np.ndarray) -> None:
        self.steps += 1
        o[...] = np.random.rand() if self.steps == 4 else self.steps

    def close(self) -> None:
        self.file.close()


def test_a_member_is_closed_before_it_is_built_again(tmp_path: Path) -> None:
    def job(**options: Any) -> list[list[float]]:
        with Pool([partial(Exclusive, str(tmp_path / str(n))) for n in range(3)], **options) as pool:
            port, seen = pool.port("step_row", *ONE), []
            for _ in range(6):
                port.round()
                seen.append(port.outputs["o"].tolist())
            assert any(event.kind == "isolated" for event in pool.events)
            return seen

    assert job() == job(backend="process") == job(backend="process", workers=1, threads=3)


def test_a_host_answers_what_it_cannot_run() -> None:
    told: list = []
    host = Host(here=True, tell=told.append)
    [result], _ = host.handle(("call", "method", True, [(5, b"")]))
    assert result[:2] == (5, ERROR)
    assert isinstance(result[2], KeyError)
    assert host.handle(("ring", 3, [1])) == (None, [])
    assert host.handle(("ship", 3, [1], np.array([1]), {})) == (None, [])
    assert [(port, item, result[1]) for port, item, result in told] == [(3, 1, ERROR)] * 2
    [refused], _ = host.handle(("bind", 3, "step", {5: (1, 1)}, [], {}))
    assert refused[:2] == (1, ERROR)
    assert isinstance(refused[2], KeyError)
    assert host.handle(("unheard_of",)) == (None, [])


def test_a_port_that_cannot_be_bound_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError("no room")

    with Pool([Ledger]) as pool:
        monkeypatch.setattr(Host, "_on_bind", refuse)
        port = pool.port("add_row", *ONE)
        port.post()
        with pytest.raises(MemoryError, match="no room"):
            port.wait()
        monkeypatch.undo()
        pool.move([0], backend="thread", workers=1)
        port.post()
        assert port.wait() == [0]


def test_rows_of_a_pool_that_was_closed_say_so(backend: str) -> None:
    pool = Pool([Ledger], backend=backend)
    port = pool.port("add_row", *ONE)
    port.post()
    pool.close()
    with pytest.raises(paceline.Closed):
        port.wait()


def test_what_outlives_a_dropped_pool_says_that_it_is_closed(backend: str) -> None:
    def drop() -> tuple:
        pool = Pool([Ledger], backend=backend)
        port = pool.port("add_row", *ONE)
        return pool.post("get"), port, pool._crew

    handle, port, crew = drop()
    gc.collect()
    with pytest.raises(paceline.Closed):
        handle.wait()
    with pytest.raises(paceline.Closed):
        port.post()
    assert crew.events == []


def test_a_ports_deadline_is_not_that_of_the_call_before_it(killable: str) -> None:
    with Pool([Ledger] * 2, backend=killable) as pool:
        port = pool.port("add_row", *ONE, members=[1], deadline=0.2)
        handle = pool.post("times_later", {0: (3.0, 0.6)}, deadline=20)
        port.post()
        assert handle.wait() == {0: 3.0}
        assert port.wait() == [1]
        assert pool.events == []


def test_a_calls_deadline_is_not_that_of_the_rows_before_it() -> None:
    with Pool([partial(SlowRows, 0.6), Ledger], backend="process") as pool:
        port = pool.port("add_row", *ONE, members=[0], deadline=20)
        port.post()
        assert pool.call("times", {1: (3.0,)}, deadline=0.2) == {1: 3.0}
        assert port.wait() == [0]
        assert pool.events == []


def test_deadlines_and_timeouts_may_be_as_long_as_anybody_likes() -> None:
    with Pool([Ledger] * 2, backend="process", deadline=1e9) as pool:
        handle = pool.post("times_later", dict.fromkeys(range(2), (3.0, 0.05)))
        assert handle.ready(2, timeout=1e9) == [0, 1]


def test_too_few_keys_for_a_map(backend: str) -> None:
    with Pool([Ledger], backend=backend) as pool:
        with pytest.raises(paceline.BadInput, match="5 items need as many keys; got 2"):
            pool.map(abs, range(5), keys=[1, 2])
        with pytest.raises(paceline.BadInput, match="item 2 has no key"):
            pool.map(abs, iter(range(5)), keys=iter([1, 2]))
        assert pool.map(abs, range(2), keys=[1, 2, 3]) == [0, 1]


def test_half_a_line_is_kept_for_the_last_words_and_shown_once_it_is_whole(capfd: pytest.CaptureFixture) -> None:
    with Pool([Talker], backend="process", restarts=1) as pool:
        pool.call("halves")
        pool.call("bars", {0: (3000,)})
        with pytest.raises(paceline.WorkerLost, match="farewell"):
            pool.call("last_words")
    lines = capfd.readouterr().err.split("\n")
    assert [line.partition("] ")[2] for line in lines if "one two" in line] == ["one two three four"]
    [bar] = [line for line in lines if "done" in line]
    assert bar.endswith("2999 done")
    assert len(bar) < 1 << 17
    assert sum("farewell" in line for line in lines) == 1


def test_a_line_of_a_library_is_told_once_and_counted(capfd: pytest.CaptureFixture) -> None:
    """By all workers together, while there are any; what Python prints is told each time."""
    REPEATED.tell()  # of pools of other tests, some of which last as long as the tests do
    for _ in range(2):
        with Pool([Talker] * 4, backend="process", workers=2) as pool:
            for _ in range(3):
                pool.call("warn")
        REPEATED.tell()
        lines = capfd.readouterr().err.splitlines()
        warned = [line.partition("] ")[0] for line in lines if "WARNING" in line]
        assert len(warned) == 2
        assert warned[0].startswith("[worker ")
        assert lines[-1] == "[workers] 11 times more: WARNING: old"
        assert sum("as often as it is said" in line for line in lines) == 12


def test_a_stack_in_dying_is_told_whole_each_time(capfd: pytest.CaptureFixture) -> None:
    REPEATED.tell()
    capfd.readouterr()
    for number in range(2):
        reader, writer = os.pipe()
        os.close(writer)
        voice = Voice(reader, lambda: "w")
        voice._take(b"again\nFatal Python error: Aborted\nagain\n")
        voice.close()
        lines = capfd.readouterr().err.splitlines()
        assert lines == ["[w] again"] * (number == 0) + ["[w] Fatal Python error: Aborted", "[w] again"]
    REPEATED.tell()
    assert capfd.readouterr().err == "[workers] 1 times more: again\n"


def test_a_traceback_of_a_child_is_told_whole_each_time(capfd: pytest.CaptureFixture) -> None:
    stack = ["Traceback (most recent call last):", '  File "a.py", line 1', "    f()", "ValueError: no", "", "  more"]
    threads = ["Current thread 0x1 (most recent call first):", '  File "b.py", line 2 in g']
    reader, writer = os.pipe()
    os.close(writer)
    voice = Voice(reader, lambda: "w")
    for _ in range(2):
        voice._take("\n".join([*stack, *threads, "Aborted", "again", ""]).encode())
    voice.close()
    lines = capfd.readouterr().err.splitlines()
    REPEATED.tell()
    assert lines == [f"[w] {line}" for line in [*stack, *threads, "Aborted", "again", *stack, *threads, "Aborted"]]
    assert capfd.readouterr().err == "[workers] 1 times more: again\n"


def test_a_line_that_comes_in_pieces_is_put_together_once_at_its_end(capfd: pytest.CaptureFixture) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    voice = Voice(reader, lambda: "w")
    pieces = [b"x" * 100 for _ in range(50)]
    for piece in pieces:
        voice._take(piece)
    assert all(kept is piece for kept, piece in zip(voice._rest, pieces, strict=True))
    assert voice.last_words() == "x" * 5000
    voice._take(b"y\nnext")
    voice.close()
    assert capfd.readouterr().err == f"[w] {'x' * 5000}y\n[w] next\n"


def test_workers_of_a_forked_child_are_heard() -> None:
    with Pool([Talker], backend="process") as pool:
        pool.call("say", {0: (100,)})
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with Pool([Talker], backend="process", deadline=10, restarts=1) as own:
                    code = 0 if own.call("say", {0: (2000,)}) == {0: 2000} else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


ASKED: list[Callable[[], Any]] = []
"""What a member asks for, in the middle of its own call."""


class Asks(Ledger):
    """Asks its own pool, and says nothing of it."""

    def ask(self) -> None:
        ASKED.pop()()


WAYS: dict[str, Callable[[Pool], Any]] = {
    "itself": lambda pool: pool.call("times", {0: (1,)}),
    "another": lambda pool: pool.call("times", {1: (1,)}),
    "post": lambda pool: pool.post("times", {1: (1,)}),
    "map": lambda pool: pool.map(abs, [1, -2]),
    "move": lambda pool: pool.move([HERE] * 2),
    "port": lambda pool: pool.port("add_row", *ONE),
    "snapshot": lambda pool: pool.snapshot(),
}


@pytest.mark.parametrize("ask", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("backend", ["inline", "auto"])
def test_a_member_here_that_asks_its_own_pool_is_told_so_and_the_pool_goes_on(
    backend: str, ask: Callable[[Pool], Any]
) -> None:
    with Pool([Asks, Asks], backend=backend) as pool:
        ASKED[:] = [lambda: ask(pool)]
        with pytest.raises(paceline.BadInput, match="a member has asked its own pool"):
            pool.call("ask", {0: ()})
        assert pool.call("times", {0: (2,), 1: (3,)}) == {0: 2.0, 1: 3.0}


def test_an_answer_is_not_waited_for_in_the_middle_of_a_call() -> None:
    with Pool([Asks, Asks]) as pool:
        first, later = pool.post("ask", {0: ()}), pool.post("times", {1: (2,)})
        ASKED[:] = [later.wait]
        with pytest.raises(paceline.BadInput, match="a member has asked its own pool"):
            first.wait()
        assert later.wait() == {1: 2.0}


class Stops(Ledger):
    """Raises KeyboardInterrupt by itself, after a draw if it is told so."""

    def stop(self, draws: bool) -> None:
        self.value += np.random.random() if draws else 1.0
        raise KeyboardInterrupt("of its own")

    def stop_row(self, a: np.ndarray, o: np.ndarray) -> None:
        self.stop(False)


@pytest.mark.parametrize("draws", [False, True], ids=["plain", "draws"])
def test_a_member_that_raises_keyboard_interrupt_interrupts_nobody(killable: str, draws: bool) -> None:
    """That is its own error, told once, here as elsewhere; all go on as they were."""

    def story(backend: str) -> list[Any]:
        with Pool([Stops, Stops], backend=backend, workers=1, seed=7) as pool:
            for _ in range(2):
                error = pool.call("stop", {0: (draws,)}, outcomes=True)[0].error
                assert isinstance(error, KeyboardInterrupt)
                assert str(error) == "of its own"
            port = pool.port("stop_row", *ONE, members=[0])
            port.post()
            port.wait(outcomes=True)
            assert isinstance(port.errors[0], KeyboardInterrupt)
            found = [pool.call("times", {1: (2,)}), pool.call("get")]
            pool.move([0, HERE] if backend == "inline" else [HERE, 0])  # by replay
            return [*found, pool.call("get")]

    assert story(killable) == story("inline")


def test_an_environment_that_is_too_large_is_told_and_the_next_pool_is_had(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        monkeypatch.setenv(f"LARGE_{number}", "x" * (110_000 + number))
    with pytest.raises(PlanNotMet, match=r"environment variables are too large .* 110,008 of them in LARGE_8"):
        Pool([dict], backend="process", workers=1)
    monkeypatch.undo()
    with Pool([dict], backend="process", workers=1) as pool:
        assert pool.call("get", {0: ("a", 7)}) == {0: 7}
