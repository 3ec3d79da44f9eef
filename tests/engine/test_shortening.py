"""Snapshots keep journals short, and take no more of the time than they may."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import numpy as np
import pytest

from paceline import Anew, BadInput, Pool
from paceline.engine.planning.plan import Choice


class Counted:
    """Counts its snapshots."""

    def __init__(self) -> None:
        self.calls = self.snapshots = 0

    def step(self) -> int:
        self.calls += 1
        return self.calls

    def seen(self) -> int:
        return self.snapshots

    def snapshot(self) -> tuple[int, int]:
        self.snapshots += 1
        return self.calls, self.snapshots

    def restore(self, state: tuple[int, int]) -> None:
        self.calls, self.snapshots = state


@pytest.mark.parametrize(("share", "some"), [(None, True), (0.01, False)])
def test_snapshots_wait_until_they_are_worth_their_time(share: float | None, some: bool) -> None:
    with Pool([Counted], snapshot_every=3, snapshot_share=share) as pool:
        for _ in range(30):
            pool.call("step")
        assert (pool.call("seen", record=False)[0] > 0) == some  # the first would come after seconds, not after calls


def test_a_share_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadInput, match="snapshot_share"):
        Pool([Counted], snapshot_share=0.0)


def test_a_move_of_many_members_has_to_pay_for_all_of_them() -> None:
    choice = Choice("process", 1, "", seconds=0.5)
    assert choice.pays(1.0, 0.3, members=1)
    assert not choice.pays(1.0, 0.3, members=200)
    assert not choice.pays(1.0, 0.3, members=20, building=0.01)
    assert not choice.pays(1.0, 0.3, members=1, cold=True)
    assert choice.pays(1.0, 6.0, members=200, building=0.001, cold=True)


def test_what_a_member_took_to_be_built_is_known_before_a_move() -> None:
    class Slow:
        def __init__(self) -> None:
            time.sleep(0.02)

    with Pool([Slow, Slow], backend="auto") as pool:
        assert pool._crew.pilot is not None
        assert pool._crew.pilot.building >= 0.02


class Unsaved(Counted):
    """Finds out that it cannot be saved when it is asked."""

    def snapshot(self) -> tuple[int, int]:
        raise NotImplementedError


def test_who_can_be_saved_need_not_be_replayed_on_threads() -> None:
    choice = Choice("process", 4, "", seconds=0.01, threads=32)
    assert choice.pays(0.64, 1.0, members=128)
    assert not choice.pays(0.64, 1.0, members=128, replays=True)
    with Pool([Counted, Unsaved]) as pool:
        pool.call("step")
        crew = pool._crew
        assert [crew.moving.can_save(member) for member in crew.members] == [True, False]
        assert [len(member.journal) for member in crew.members] == [0, 1]
        assert pool.call("step") == {0: 2, 1: 2}


class Large:
    """Its state holds an array that travels beside its pickle."""

    def __init__(self) -> None:
        self.array = np.zeros(20_000)

    def add(self, amount: float) -> float:
        self.array = self.array + amount
        return float(self.array.sum())

    def begin(self, amount: float) -> Anew:
        self.array = np.full(20_000, amount)
        return Anew(float(self.array.sum()), self.snapshot())

    def snapshot(self) -> np.ndarray:
        return self.array

    def restore(self, state: np.ndarray) -> None:
        self.array = np.array(state)


@pytest.mark.parametrize("anew", [False, True])
def test_a_large_snapshot_can_be_sent_to_a_new_worker_and_to_another(killable: str, anew: bool) -> None:
    """Rebuilt after a death, and moved: the array must not lie in a message that is long gone."""
    with Pool([Large, Large], backend=killable, workers=2) as pool:
        pool.call("add", {0: (1.0,), 1: (2.0,)})
        if anew:
            pool.call("begin", {0: (1.0,), 1: (2.0,)})
        else:
            pool.snapshot()
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        assert pool.call("add", {0: (1.0,), 1: (2.0,)}) == {0: 40_000.0, 1: 80_000.0}
        pool.move({0: 1})
        assert pool.call("add", {0: (1.0,), 1: (2.0,)}) == {0: 60_000.0, 1: 120_000.0}


class Seldom:
    """Counts its rows."""

    def __init__(self) -> None:
        self.rows = 0

    def row(self, value: np.ndarray, out: np.ndarray) -> None:
        self.rows += 1
        out[...] = 1000 * self.rows + int(value)


class Saved(Seldom):
    """The same, and it can be saved."""

    asked = 0

    def snapshot(self) -> int:
        type(self).asked += 1
        return self.rows

    def restore(self, rows: int) -> None:
        self.rows = rows


ROW: Any = ({"value": ((), np.int64)}, {"out": ((), np.int64)})


def test_a_member_is_saved_for_its_own_runs_and_not_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Saved, "asked", 0)
    with Pool([Saved] * 8, snapshot_every=30) as pool:
        port = pool.port("row", *ROW)
        for _ in range(25):
            for member in range(8):
                port.post([member])
                port.wait()
        assert [len(member.journal) for member in pool._crew.members] == [25] * 8
        assert Saved.asked == 0


@pytest.mark.parametrize("first", [[0, 1], [0, 1, 2]], ids=["never", "once"])
def test_the_rows_of_others_are_not_kept_for_one_that_is_seldom_asked(first: list[int]) -> None:
    with Pool([Saved, Saved, Seldom], backend="process", workers=1, snapshot_every=100) as pool:
        port = pool.port("row", *ROW)
        for turn in range(3_000):
            port.inputs["value"][:] = turn % 1000
            port.post(first if turn == 0 else [0, 1])
            port.wait()
        assert port.book.log._capacity <= 512
        lengths = [len(member.journal) for member in pool._crew.members]
        assert max(lengths[:2]) <= 300
        assert lengths[2] == len(first) - 2
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        port.inputs["value"][:] = 7
        port.post()
        port.wait()
        assert port.outputs["out"].tolist() == [3_001_007, 3_001_007, 1000 * (len(first) - 1) + 7]
