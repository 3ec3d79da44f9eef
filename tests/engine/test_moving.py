"""Moves and snapshots come to an end, whatever members do, and Ctrl-C ends them sooner."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path

import pytest
from members import Fault, Knocking, LateSaved, Ledger, Saved, Stubborn, TwoArguments, Unsaveable, dying, raising

import paceline
from paceline import Pool


def test_a_member_that_does_not_say_goodbye_is_left_behind(killable: str) -> None:
    with Pool([Ledger, Stubborn], backend=killable, workers=2, deadline=0.3) as pool:
        pool.call("times", {0: (3.0,), 1: (4.0,)})
        pool.move([0, 0])
        assert pool.call("get") == {0: 3.0, 1: 4.0}
        assert [worker.members for worker in pool.workers] == [(0, 1), ()]
        assert "close()" in pool.events[0].text


@pytest.mark.parametrize("when", ["build", "close"])
def test_ctrl_c_ends_a_move_and_the_pool_goes_on(when: str, tmp_path: Path) -> None:
    recipe = partial(Knocking, os.getpid(), when, str(tmp_path / "mark"))
    with Pool([Ledger, recipe], backend="process", workers=2) as pool:
        port = pool.port("add_row", {"a": ((), "f8")}, {"o": ((), "f8")})
        pool.call("times", {0: (3.0,), 1: (4.0,)})
        with pytest.raises(KeyboardInterrupt):
            pool.move([0, 0])
        assert pool.call("get") == {0: 3.0, 1: 4.0}
        assert pool.workers[0].members == ((0, 1) if when == "build" else (0,))
        port.inputs["a"][:] = 1
        port.post()
        assert port.wait() == [0, 1]
        assert port.outputs["o"].tolist() == [4.0, 5.0]


def test_members_that_cannot_travel_stay_where_they_are() -> None:
    held = threading.Lock()

    class Held(Ledger):
        lock = held

    with Pool([Ledger, Held]) as pool:
        pool.call("times", {0: (3.0,), 1: (4.0,)})
        with pytest.raises(paceline.NotSendable):
            pool.move([0, 1], backend="process", workers=2)
        assert [worker.backend for worker in pool.workers] == ["inline"]
        assert pool.call("get") == {0: 3.0, 1: 4.0}
        pool.move([0, 1], backend="thread", workers=2)
        assert pool.call("get") == {0: 3.0, 1: 4.0}


def test_a_move_that_fails_leaves_the_number_of_threads_as_it_was() -> None:
    held = threading.Lock()

    class Held(Ledger):
        lock = held

    with Pool([Held]) as pool:
        with pytest.raises(paceline.NotSendable):
            pool._crew.moving.relocate("process", 1, threads=4)
        assert pool._crew.settings.threads == 1


@pytest.mark.parametrize("hangs", [True, False])
def test_a_snapshot_that_fails_leaves_the_journal_and_an_event(killable: str, hangs: bool) -> None:
    with Pool([partial(Unsaveable, hangs), Saved], backend=killable, deadline=0.3, restarts=1) as pool:
        pool.call("times", {0: (3.0,), 1: (4.0,)})
        pool.snapshot()
        [event] = [event for event in pool.events if event.kind == "unsaved"]
        assert "member 0" in event.text
        assert ("CallTimeout" if hangs else "ValueError: not now") in event.text
        pool.snapshot()
        os.kill(pool.workers[0].pid, 9)
        assert pool.call("get") == {0: 3.0, 1: 4.0}


def test_members_that_never_stood_do_not_stop_a_move(killable: str) -> None:
    with Pool([Fault, raising, dying], backend=killable, failed_builds="keep", restarts=1) as pool:
        pool.call("add", {0: (3,)})
        pool.move([0, 0, 0], backend="thread", workers=1)
        outcomes = pool.call("add", {0: (1,), 1: (1,), 2: (1,)}, outcomes=True)
        assert outcomes[0].answer == 4
        assert isinstance(outcomes[1].error, TwoArguments)
        assert isinstance(outcomes[2].error, paceline.WorkerLost)


def test_members_that_have_come_back_from_threads_may_draw() -> None:
    with Pool([LateSaved] * 3, seed=1) as plain, Pool([LateSaved] * 3, backend="auto", seed=1) as pool:
        pool._crew.moving.relocate("thread", 2)
        pool._crew.moving.relocate("inline", 1)
        for late in (False, True, True):
            calls = dict.fromkeys(range(3), (late,))
            assert pool.call("step", calls) == plain.call("step", calls)
        assert {worker.backend for worker in pool.workers} == {"inline"}


def test_members_with_snapshots_leave_threads_when_they_draw() -> None:
    with Pool([LateSaved] * 3, seed=1) as plain, Pool([LateSaved] * 3, backend="auto", workers=2, seed=1) as pool:
        pool._crew.moving.relocate("thread", 2)
        for late in (False, False, True, True):
            assert pool.call("step", dict.fromkeys(range(3), (late,))) == plain.call(
                "step", dict.fromkeys(range(3), (late,))
            )
        assert pool.workers[0].backend == "process"
