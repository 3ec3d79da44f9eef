"""One digest, wherever members live and whatever happens to their workers: inline's."""

from __future__ import annotations

import contextlib
import os
import random
from functools import partial

import numpy as np
import pytest
from members import GlobalDrawer, LateDrawer, Oracle, SnapshotWalker, Walker

import paceline
from paceline import Pool

PLACES = [("inline", 2), ("thread", 2), ("process", 1), ("process", 2), ("process", 3), ("process", 4), ("ray", 2)]
KILLABLE = [("process", 1), ("process", 3), ("ray", 2)]


def pools(request: pytest.FixtureRequest, place: tuple[str, int]) -> dict:
    if place[0] == "ray":
        request.getfixturevalue("ray_cluster")
    return {"backend": place[0], "workers": place[1]}


def well_behaved() -> list:
    return [*(partial(Walker, n) for n in range(4)), *(partial(SnapshotWalker, n) for n in range(3))]


def drawers() -> list:
    late = [partial(LateDrawer, after) for after in (0, 3)]
    return [GlobalDrawer, partial(GlobalDrawer, True), *late, partial(GlobalDrawer, True), partial(Walker, 9)]


def kill_somebody(pool: Pool, turn: int) -> None:
    workers = pool.workers
    with contextlib.suppress(ProcessLookupError):  # killed a moment ago, and nobody has noticed yet
        os.kill(workers[turn % len(workers)].pid, 9)


def job(factories: list, place: dict, *, deadly: bool = False, turns: int = 12, **options: object) -> str:
    """Calls of everybody, of subsets, posted ahead, a seeded reset, reads: all that a pool can be asked."""
    with Pool(factories, seed=11, **place, **options) as pool:  # type: ignore[arg-type]
        said: list = []
        for turn in range(turns):
            everybody = {n: (float(turn + n),) for n in range(len(pool))}
            handles = [pool.post("step", everybody), pool.post("step", dict.fromkeys(range(0, len(pool), 2), (0.5,)))]
            if deadly and turn % 4 == 1:
                kill_somebody(pool, turn)
            said += [handle.wait() for handle in handles]
            if deadly and turn % 4 == 3:
                kill_somebody(pool, turn)
        if deadly:
            assert any(event.kind == "lost" for event in pool.events)
        return paceline.digest(said)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]}x{place[1]}")
def test_the_same_everywhere(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    assert job(well_behaved(), pools(request, place)) == job(well_behaved(), {})


@pytest.mark.parametrize("place", KILLABLE, ids=lambda place: f"{place[0]}x{place[1]}")
def test_the_same_with_workers_killed(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    assert job(well_behaved(), pools(request, place), deadly=True) == job(well_behaved(), {})


@pytest.mark.parametrize("place", KILLABLE, ids=lambda place: f"{place[0]}x{place[1]}")
def test_the_same_with_short_journals(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    short = job(well_behaved(), pools(request, place), deadly=True, snapshot_every=3)
    assert short == job(well_behaved(), {})


@pytest.mark.parametrize("place", [p for p in PLACES if p[0] != "thread"], ids=lambda place: f"{place[0]}x{place[1]}")
def test_global_generators_belong_to_members(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    assert job(drawers(), pools(request, place)) == job(drawers(), {})


@pytest.mark.parametrize("place", KILLABLE, ids=lambda place: f"{place[0]}x{place[1]}")
def test_global_generators_survive_deaths(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    assert job(drawers(), pools(request, place), deadly=True) == job(drawers(), {})


def test_on_threads_global_generators_are_a_named_error() -> None:
    with pytest.raises(paceline.SharedRandomness, match=r"random.* was drawn from or set while these members were"):
        job(drawers(), {"backend": "thread", "workers": 2})


class Waiter:
    """Waits, so that auto chooses threads; then draws from a process-wide generator."""

    def __init__(self, after: int) -> None:
        self.late = LateDrawer(after)

    def step(self, move: float) -> float:
        import time

        time.sleep(0.004)
        return self.late.step(move)

    def step_row(self, move: np.ndarray, total: np.ndarray) -> None:
        total[...] = self.step(float(move))


def test_auto_moves_drawers_from_threads_to_processes() -> None:
    def run(backend: str) -> tuple[str, list[str], set[str]]:
        with Pool([partial(Waiter, 14) for _ in range(6)], backend=backend, workers=None, seed=3) as pool:
            said = [pool.call("step", dict.fromkeys(range(6), (1.0,))) for _ in range(20)]
            return paceline.digest(said), [event.kind for event in pool.events], {w.backend for w in pool.workers}

    digest, events, places = run("auto")
    assert digest == run("inline")[0]
    assert "unshared" in events
    assert places == {"process"}


def test_auto_moves_drawers_from_threads_to_processes_through_a_port() -> None:
    """Some have answered when others draw: what they have answered stands, and the others are asked again there."""

    def run(backend: str) -> tuple[list[float], list[str], set[str]]:
        afters = (14, 16, 99, 14, 16, 99)
        with Pool([partial(Waiter, after) for after in afters], backend=backend, workers=None, seed=3) as pool:
            port = pool.port("step_row", {"move": ((), "<f8")}, {"total": ((), "<f8")})
            said: list[float] = []
            for turn in range(20):
                port.inputs["move"][...] = float(turn)
                port.post()
                port.wait()
                said += port.outputs["total"].tolist()
            return said, [event.kind for event in pool.events], {worker.backend for worker in pool.workers}

    said, events, places = run("auto")
    assert said == run("inline")[0]
    assert "unshared" in events
    assert places <= {"process", "inline"}


def test_members_that_are_not_deterministic_are_told_not_asked(killable: str) -> None:
    with Pool([Oracle, Oracle], backend=killable, workers=2, deterministic=False) as pool:
        said = [pool.call("ask", {0: (f"q{n}",), 1: (f"q{n}",)}) for n in range(4)]
        os.kill(pool.workers[0].pid, 9)
        said += [pool.call("ask", {0: ("last",)})]
        history = pool.call("told", record=False)
        assert history[0] == [answers[0] for answers in said]
        assert history[1] == [answers[1] for answers in said[:4]]


def draw(item: int) -> list[float]:
    return [item + random.random(), float(np.random.randn())]


@pytest.mark.parametrize("place", [p for p in PLACES if p[0] != "thread"], ids=lambda place: f"{place[0]}x{place[1]}")
def test_map_streams_follow_the_item(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    with Pool([], seed=5, **pools(request, place)) as pool, Pool([], seed=5) as plain:
        assert pool.map(draw, range(40)) == plain.map(draw, range(40))


def set_order(_: int) -> list[str]:
    return list({f"agent-{n}" for n in range(50)})


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0]}x{place[1]}")
def test_sets_of_strings_have_one_order(request: pytest.FixtureRequest, place: tuple[str, int]) -> None:
    with Pool([], **pools(request, place)) as pool:
        orders = {tuple(order) for order in pool.map(set_order, range(8))}
    assert len(orders) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_a_hundred_random_schedules(seed: int) -> None:
    """Deaths at random moments, of random workers, with a window of posts open: digests are all inline's."""
    rng = random.Random(seed)
    expected = job(well_behaved()[:4], {}, turns=6)
    for _ in range(12):
        with Pool(well_behaved()[:4], seed=11, backend="process", workers=rng.choice([1, 2, 4])) as pool:
            said: list = []
            for turn in range(6):
                first = pool.post("step", {n: (float(turn + n),) for n in range(4)})
                if rng.random() < 0.5:
                    kill_somebody(pool, rng.randrange(4))
                second = pool.post("step", dict.fromkeys(range(0, 4, 2), (0.5,)))
                if rng.random() < 0.3:
                    kill_somebody(pool, rng.randrange(4))
                said += [first.wait(), second.wait()]
            assert paceline.digest(said) == expected
