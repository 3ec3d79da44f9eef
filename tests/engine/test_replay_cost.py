"""Snapshots are due by what a replay would take. The clock of these tests goes ahead by itself: no test waits."""

from __future__ import annotations

import os
import signal
from time import monotonic, perf_counter, perf_counter_ns
from typing import Any

import gymnasium
import numpy as np
import pytest

from paceline import Plan, Pool, WorkerLost, make_vec
from paceline.engine.host import host
from paceline.engine.journal import snapshots
from paceline.engine.port import round_clock
from paceline.engine.supervisor import replies

TICK = 0.02
"""Seconds that pass, for the engine, whenever it looks at the clock: a round or a call takes as long, or longer."""


class Clock:
    """The real clock, and so many units more with every look."""

    def __init__(self, real: Any, tick: Any) -> None:
        self._real, self._tick, self._ahead = real, tick, 0

    def __call__(self) -> Any:
        self._ahead += self._tick
        return self._real() + self._ahead


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything takes at least a tick."""
    clock = Clock(perf_counter, TICK)
    monkeypatch.setattr(round_clock, "perf_counter", clock)
    monkeypatch.setattr(snapshots, "perf_counter", clock)
    monkeypatch.setattr(replies, "monotonic", Clock(monotonic, TICK))


class Counted:
    """Sums up what it is told, and counts its snapshots."""

    def __init__(self) -> None:
        self.total = 0.0
        self.snapshots = 0

    def add(self, amount: float) -> float:
        self.total += amount
        return self.total

    def add_row(self, amount: np.ndarray, total: np.ndarray) -> None:
        total[...] = self.add(float(amount))

    def seen(self) -> int:
        return self.snapshots

    def snapshot(self) -> tuple[float, int]:
        self.snapshots += 1
        return self.total, self.snapshots

    def restore(self, state: tuple[float, int]) -> None:
        self.total, self.snapshots = state


def adding(pool: Pool) -> Any:
    return pool.port("add_row", {"amount": ((), np.float64)}, {"total": ((), np.float64)})


def lengths(pool: Pool) -> list[int]:
    """What each member would have to run again."""
    return [len(member.journal) for member in pool._crew.members]


def test_rounds_are_cut_by_what_they_took(slow: None, backend: str) -> None:
    """A hundred rounds take two seconds or more, and about one of these may have to be run again."""
    with Pool([Counted, Counted], backend=backend, workers=1) as pool:
        port = adding(pool)
        longest = 0
        for _ in range(100):
            port.inputs["amount"][:] = 1.0
            port.round()
            longest = max(longest, *lengths(pool))
        assert longest <= 75
        assert list(port.outputs["total"]) == [100.0, 100.0]


def test_rows_that_are_always_under_way_are_cut_too(slow: None) -> None:
    with Pool([Counted, Counted], backend="process", workers=2) as pool:
        port = adding(pool)
        port.inputs["amount"][:] = 1.0
        port.post()
        for _ in range(200):
            port.post(port.wait(1))
            assert port.outstanding
        port.wait()
        assert sum(port.outputs["total"]) >= 201
        assert max(lengths(pool)) <= 150


def test_calls_are_cut_by_what_they_took(slow: None, backend: str) -> None:
    with Pool([Counted], backend=backend, workers=1) as pool:
        for number in range(100):
            assert pool.call("add", {0: (1.0,)}) == {0: number + 1.0}
        assert lengths(pool)[0] <= 75


def test_after_a_death_they_are_cut_shorter(slow: None) -> None:
    with Pool([Counted], backend="process", workers=1) as pool:
        port = adding(pool)
        port.inputs["amount"][:] = 1.0
        port.round()
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        for _ in range(60):
            port.round()
        assert port.outputs["total"][0] == 61.0
        assert lengths(pool)[0] <= 30


def test_dear_snapshots_stay_within_their_share(slow: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One member is asked, to see what a snapshot takes: a second. So the next ones are minutes away."""
    monkeypatch.setattr(host, "perf_counter_ns", Clock(perf_counter_ns, 1_000_000_000))
    with Pool([Counted, Counted, Counted], backend="thread", workers=1) as pool:
        port = adding(pool)
        for _ in range(200):
            port.round()
        assert sum(pool.call("seen", record=False).values()) == 1


def test_members_that_are_never_run_again_are_not_saved_for_it(slow: None) -> None:
    with Pool([Counted], deterministic=False) as pool:
        for _ in range(100):
            pool.call("add", {0: (1.0,)})
        assert pool.call("seen", record=False) == {0: 0}


class Unsaved(Counted):
    """Finds out that it cannot be saved when it is asked."""

    def snapshot(self) -> tuple[float, int]:
        raise NotImplementedError


def test_who_cannot_be_saved_is_rebuilt_from_its_recipe(slow: None) -> None:
    with Pool([Unsaved, Counted], backend="process", workers=1) as pool:
        port = adding(pool)
        port.inputs["amount"][:] = 1.0
        for _ in range(100):
            port.round()
        unsaved, saved = lengths(pool)
        assert unsaved == 100
        assert saved <= 75
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        port.round()
        assert list(port.outputs["total"]) == [101.0, 101.0]


def test_a_snapshot_that_never_comes_keeps_no_other_from_being_taken() -> None:
    with Pool([Counted, Counted]) as pool:
        first, second = pool._crew.members
        pool.call("add", {0: (1.0,), 1: (1.0,)})
        first.lost = WorkerLost("it is gone")
        pool._crew.shortening._ask([first, second])
        pool.call("add", {1: (1.0,)})
        assert not first.snapshot_due
        assert lengths(pool) == [1, 1]
        assert pool._crew.shortening._due == 0


_steps_here = 0


class Drifting(gymnasium.Env[Any, Any]):
    """Shows where its actions have led it; its info has how many steps this process has run."""

    observation_space = gymnasium.spaces.Box(-1e6, 1e6, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.np_random.random(1)
        return self.place, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        global _steps_here
        _steps_here += 1
        self.place = self.place * 0.9 + action + self.np_random.random()
        return self.place, 0.0, False, False, {}

    def steps_here(self) -> int:
        return _steps_here


def drifted(plan: Plan, *, kill: bool) -> tuple[list[list[float]], int]:
    """The places of two envs over 121 steps, and how many steps the process has run that they end in."""
    places = []
    with make_vec(Drifting, 2, plan=plan) as envs:
        envs.reset(seed=3)
        for number in range(121):
            if kill and number == 120:
                os.kill(envs.pool.workers[0].pid, signal.SIGKILL)
            seen = envs.step(np.array([number % 2, 1]))[0]
            places.append(seen[:, 0].tolist())
        return places, envs.call("steps_here")[0]


def test_a_killed_vector_replays_about_a_second_and_comes_to_the_same(slow: None) -> None:
    calm, _ = drifted(Plan("inline"), kill=False)
    killed, steps = drifted(Plan("process", workers=1), kill=True)
    assert killed == calm
    assert steps <= 2 * 75
