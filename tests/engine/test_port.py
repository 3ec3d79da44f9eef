"""Ports: rows in place, the same on every backend, also when a worker dies in the middle."""

from __future__ import annotations

import contextlib
import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from members import Clock, Fault, LateDrawer, TwoArguments, Walker

import paceline
from paceline import Anew, Pool, Port
from paceline.engine import HERE
from paceline.engine.journal.row_checks import RowChecks

WALK = ({"move": ((), np.float64)}, {"place": ((4,), np.float64), "total": ((), np.float64)})
ORDER = ({"order": ((), np.int64)}, {"out": ((), np.int64)})


def walk(pool: Pool, turns: int, disturb: dict[int, int] | None = None) -> list[np.ndarray]:
    port = pool.port("step_row", *WALK)
    seen = []
    for turn in range(turns):
        if disturb and turn in disturb:
            os.kill(pool.workers[disturb[turn]].pid, 9)
        port.inputs["move"][:] = np.arange(len(pool)) + turn
        port.post()
        assert port.wait() == list(range(len(pool)))
        seen += [port.outputs["place"].copy(), port.outputs["total"].copy()]
    return seen


def kill(pool: Pool, number: int) -> None:
    """Kills the worker of that number, if it is there and alive."""
    for worker in pool.workers:
        if worker.number == number:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, 9)


def reference(turns: int, members: int = 5) -> str:
    with Pool([partial(Walker, n) for n in range(members)]) as pool:
        return paceline.digest(walk(pool, turns))


def check_of(*row: float) -> list[int]:
    held = np.zeros((1, len(row)))
    checks = RowChecks([held], [1])
    for number in range(3):
        held[0] = row
        checks.keep(number)
    return checks.checks(3)


def test_checks_of_rows_tell_negated_numbers_and_small_ones_apart() -> None:
    assert check_of(0.5, 1.5) != check_of(-0.5, -1.5)
    luck = np.random.default_rng(1)
    rows = {tuple(row) for row in luck.integers(-9, 10, size=(2000, 4)).astype(float).tolist()}
    assert len({check_of(*row)[0] for row in rows}) == len(rows)


def test_where_rounds_are_kept_is_made_with_the_first_of_them() -> None:
    held = [np.zeros((2, 3)), np.zeros(2, np.float32)]
    checks = RowChecks(held, [1, 1])
    assert not checks._slots
    checks.keep(0)
    assert len(checks._slots) == checks.rounds


def test_rows_are_written_in_place(backend: str) -> None:
    with Pool([partial(Walker, n) for n in range(5)], backend=backend, workers=2) as pool:
        assert paceline.digest(walk(pool, 20)) == reference(20)


def test_a_part_of_the_members_may_be_here(backend: str) -> None:
    with Pool([partial(Walker, n) for n in range(5)], backend=backend, placement=[0, 0, HERE, HERE, 0]) as pool:
        assert paceline.digest(walk(pool, 10)) == reference(10)


def test_killed_workers_are_replayed(killable: str) -> None:
    with Pool([partial(Walker, n) for n in range(5)], backend=killable, workers=2) as pool:
        assert paceline.digest(walk(pool, 12, {3: 0, 7: 1})) == reference(12)
        assert [event.kind for event in pool.events].count("lost") == 2


def test_members_move_while_bound(backend: str) -> None:
    with (
        Pool([partial(Walker, n) for n in range(3)], backend=backend, workers=2) as pool,
        Pool([partial(Walker, n) for n in range(3)]) as still,
    ):
        ports = [p.port("step_row", *WALK) for p in (pool, still)]
        for turn in range(9):
            if turn == 3:
                pool.move([1, HERE, 0])
            if turn == 6:
                pool.move([HERE, 1, 1])
            for port in ports:
                port.inputs["move"][:] = turn
                port.post()
                port.wait()
            assert np.array_equal(ports[0].outputs["place"], ports[1].outputs["place"])


def test_calls_and_rows_interleave(killable: str) -> None:
    def job(pool: Pool, kill: bool) -> list:
        port = pool.port("step_row", *WALK)
        seen = []
        for turn in range(10):
            if turn == 5:
                seen.append(pool.call("reset", {0: (17,)}))
            port.inputs["move"][:] = turn
            port.post([0, 2] if turn % 2 else None)
            port.wait()
            seen.append(port.outputs["place"].copy())
            seen.append(pool.call("step", {1: (float(turn),)}))
            if kill and turn in (4, 7):
                os.kill(pool.workers[0].pid, 9)
        return seen

    factories = [partial(Walker, n) for n in range(3)]
    with Pool(factories) as plain, Pool(factories, backend=killable, workers=2) as pool:
        assert paceline.digest(job(pool, True)) == paceline.digest(job(plain, False))


def test_first_ready_gives_whoever_is_done(backend: str) -> None:
    with Pool([partial(Walker, n) for n in range(6)], backend=backend, workers=2) as pool:
        port = pool.port("step_row", *WALK)
        steps = dict.fromkeys(range(6), 0)
        rows: dict[tuple[int, int], bytes] = {}
        port.inputs["move"][:] = 0
        port.post()
        for _ in range(30):
            for member in port.wait(2):
                rows[member, steps[member]] = port.outputs["place"][member].tobytes()
                steps[member] += 1
                port.inputs["move"][member] = steps[member]
                port.post([member])
        port.wait()
    with Pool([partial(Walker, n) for n in range(6)]) as plain:
        for step in range(max(steps.values())):
            answers = plain.call("step", {n: (float(step),) for n in range(6)})
            for n in range(6):
                if (n, step) in rows:
                    assert rows[n, step] == answers[n][0].tobytes()


def test_errors_in_rows(backend: str) -> None:
    with Pool([partial(Fault, n) for n in range(4)], backend=backend, workers=2) as pool:
        port = pool.port("fault_row", *ORDER)
        port.inputs["order"][:] = [0, 2, 0, 2]
        port.post()
        with pytest.raises(TwoArguments, match="row #2"):
            port.wait()
        port.post()
        assert port.wait(outcomes=True) == [0, 1, 2, 3]
        assert sorted(port.errors) == [1, 3]
        assert port.outputs["out"].tolist() == [2, 0, 4, 0]
        port.inputs["order"][:] = 0
        port.post()
        port.wait()
        assert port.outputs["out"].tolist() == [3, 2, 5, 4]


def test_a_row_that_kills_again_and_again_is_given_up(killable: str) -> None:
    with Pool([partial(Fault, n) for n in range(4)], backend=killable, workers=2) as pool:
        port = pool.port("fault_row", *ORDER)
        port.inputs["order"][:] = [0, 1, 0, 0]
        port.post()
        assert port.wait(outcomes=True) == [0, 1, 2, 3]
        assert isinstance(port.errors[1], paceline.WorkerLost)
        assert "member 1" in str(port.errors[1])
        assert "fault_row()" in str(port.errors[1])
        port.inputs["order"][:] = 0
        port.post()
        port.wait()
        assert port.outputs["out"].tolist() == [2, 2, 4, 5]


def test_a_row_that_hangs_is_killed_for_it(killable: str) -> None:
    with Pool([Fault, Fault], backend=killable, workers=2, restarts=1) as pool:
        port = pool.port("fault_row", *ORDER, deadline=0.5)
        port.inputs["order"][:] = [3, 0]
        port.post()
        port.wait(outcomes=True)
        assert isinstance(port.errors[0], paceline.CallTimeout)
        assert port.outputs["out"][1] == 1


def test_late_drawers_in_rows(backend: str) -> None:
    def job(name: str, draw_alone: bool = True) -> list:
        factories = [partial(LateDrawer, after) for after in (2, 4, 99)]
        with Pool(factories, backend=name, workers=2, draw_alone=draw_alone) as pool:
            port = pool.port("step_row", {"move": ((), np.float64)}, {"total": ((), np.float64)})
            seen = []
            for turn in range(8):
                port.inputs["move"][:] = turn
                port.post()
                port.wait()
                seen.append(port.outputs["total"].copy())
            return seen

    assert paceline.digest(job(backend)) == paceline.digest(job("inline"))
    if backend == "thread":
        with pytest.raises(paceline.SharedRandomness):
            job(backend, draw_alone=False)


class Episodes:
    """Says that its journal may start anew at each episode, with a state that `restore` takes."""

    def __init__(self) -> None:
        self.episode = self.time = 0

    def restore(self, episode: int) -> None:
        self.episode, self.time = episode, 0

    def step_row(self, move: np.ndarray, total: np.ndarray) -> object:
        self.time += int(move)
        total[...] = 1000 * self.episode + self.time
        if self.time < 5:
            return {"time": self.time} if self.time == 3 else None
        self.episode, self.time = self.episode + 1, 0
        return Anew({"over": self.episode}, state=self.episode)


def test_journals_start_anew_and_extras_travel(killable: str) -> None:
    def job(pool: Pool, kill: bool) -> list:
        port = pool.port("step_row", {"move": ((), np.int64)}, {"total": ((), np.int64)})
        seen: list = []
        port.inputs["move"][:] = [1, 2, 1]
        for turn in range(20):
            if kill and turn in (4, 13):
                os.kill(pool.workers[0].pid, 9)
            port.post()
            port.wait()
            seen += [port.outputs["total"].copy(), dict(port.extras)]
        lengths = [len(member.journal) for member in pool._crew.members]
        assert max(lengths) <= 5
        return seen

    with Pool([Episodes] * 3) as plain, Pool([Episodes] * 3, backend=killable, workers=2) as pool:
        assert paceline.digest(job(pool, True)) == paceline.digest(job(plain, False))


def test_several_rows_per_member(backend: str) -> None:
    class Team:
        def __init__(self, size: int) -> None:
            self.sum = np.zeros(size)

        def act(self, obs: np.ndarray, out: np.ndarray) -> None:
            self.sum += obs
            out[:] = self.sum

    with Pool([partial(Team, 1), partial(Team, 3)], backend=backend, workers=2) as pool:
        port = pool.port("act", {"obs": ((), np.float64)}, {"out": ((), np.float64)}, rows={0: 1, 1: 3})
        port.inputs["obs"][:] = [1, 2, 3, 4]
        for _ in range(2):
            port.post()
            port.wait()
        assert port.outputs["out"].tolist() == [2, 4, 6, 8]


def test_a_member_that_is_no_function_of_its_calls_is_found_out(killable: str) -> None:
    class Ticker(Clock):
        def step_row(self, move: np.ndarray, total: np.ndarray) -> None:
            total[...] = self.step(float(move))

    with Pool([Ticker], backend=killable) as pool:
        port = pool.port("step_row", {"move": ((), np.float64)}, {"total": ((), np.float64)})
        port.post()
        port.wait()
        os.kill(pool.workers[0].pid, 9)
        port.post()
        with pytest.raises(paceline.ReplayDiverged, match="member 0"):
            port.wait()


class Astray:
    """Says something else in every process, in these rounds and in one place of its row; otherwise always the same."""

    def __init__(self, rounds: tuple[int, ...], place: int = 0) -> None:
        self.rounds, self.place, self.round = rounds, place, 0

    def row(self, order: np.ndarray, out: np.ndarray) -> object:
        self.round += 1
        if int(order) == 1:
            raise ValueError("not now")
        out[...] = 0.25
        if self.round in self.rounds:
            out.flat[self.place] += os.getpid()
        return "said" if int(order) == 2 else None

    def look(self) -> int:
        return self.round

    def snapshot(self) -> int:
        if self.place:
            raise NotImplementedError
        return self.round

    def restore(self, state: int) -> None:
        self.round = state


def test_a_replay_is_compared_on_its_whole_way(killable: str) -> None:
    """A member that differed in an earlier round alone is not the one that it was, wherever it came to in the end."""
    with Pool([partial(Astray, ()), partial(Astray, (70, 71), 2)], backend=killable, workers=1) as pool:
        port = pool.port("row", {"order": ((), "i8")}, {"out": ((3,), "f4")})
        for _ in range(150):
            port.round()
        kill(pool, 0)
        with pytest.raises(paceline.ReplayDiverged, match=r"member 1 .* one of the runs 65 to 128 of row"):
            port.round()


@pytest.mark.parametrize(("place", "shape"), [(99, (100,)), (189, (4000,))])
def test_a_move_is_compared_on_its_whole_way(place: int, shape: tuple[int, ...]) -> None:
    """Every element of a row of up to a kilobyte, and a sample of larger ones."""
    with Pool([partial(Astray, (3,), place)] * 2, backend="process", workers=2, placement=[HERE, 1]) as pool:
        port = pool.port("row", {"order": ((), "i8")}, {"out": (shape, "f8")})
        for _ in range(5):
            port.round()
        with pytest.raises(paceline.ReplayDiverged, match="one of the runs 1 to 5 of row"):
            pool.move([0, 1])


def test_the_way_since_a_snapshot_is_compared() -> None:
    """What a snapshot has cut is not run again; what came after it is, and is counted from the first round on."""
    with Pool([partial(Astray, (30, 190))], backend="process", workers=1, snapshot_every=128) as pool:
        port = pool.port("row", *ORDER)
        for _ in range(140):
            port.round()
        kill(pool, 0)
        for _ in range(60):
            port.round()
        kill(pool, 0)
        with pytest.raises(paceline.ReplayDiverged, match=r"one of the runs 1\d\d to 192 of row"):
            port.round()


@pytest.mark.parametrize("rounds", [(), (4,), (26,)])
def test_members_that_are_asked_apart_are_compared_each(rounds: tuple[int, ...]) -> None:
    """Rows that raise, say something, come in an order of their own, and calls between them."""
    with Pool([partial(Astray, mine, 0) for mine in ((), rounds, ())], backend="process", workers=2) as pool:
        port = pool.port("row", {"order": ((), "i8")}, {"out": ((), "f8")})
        for number in range(20):
            port.inputs["order"][:] = [number % 3, 0, 0]
            for member in ([1], [0, 2], [1]) if number % 4 == 1 else ([0, 1, 2],):
                port.post(member)
                port.wait(outcomes=True)
            if number == 9:
                assert pool.call("look", {1: ()}) == {1: 13}
        port.post([1, 2])
        port.wait()
        kill(pool, 0)
        kill(pool, 1)
        port.inputs["order"][:] = 0
        if not rounds:
            return port.round()
        with pytest.raises(paceline.ReplayDiverged, match="member 1"):
            port.round()


def test_misuse_is_named() -> None:
    with Pool([Fault, Fault]) as pool:
        with pytest.raises(paceline.BadInput, match="must differ"):
            pool.port("fault_row", {"order": ((), "i8")}, {"order": ((), "i8")})
        port: Port = pool.port("fault_row", *ORDER, members=[1])
        with pytest.raises(paceline.BadInput, match="member 0 is not bound"):
            port.post([0])
        port.post()
        with pytest.raises(paceline.BadInput, match="not been waited for"):
            port.post()
        port.wait()
        port.close()
        with pytest.raises(paceline.Closed):
            port.post()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_schedule_of_posts_kills_and_moves_is_the_same(data: st.DataObject) -> None:
    """Random subsets, moves and kills against the inline pool, bit for bit."""
    members = data.draw(st.integers(1, 5))
    factories = [partial(Walker, n) for n in range(members)]
    with Pool(factories) as plain, Pool(factories, backend="process", workers=2) as pool:
        ports = [p.port("step_row", *WALK) for p in (plain, pool)]
        for turn in range(data.draw(st.integers(1, 12))):
            action = data.draw(st.sampled_from(["step", "step", "step", "call", "kill", "move"]))
            chosen = sorted(data.draw(st.sets(st.integers(0, members - 1), min_size=1)))
            if action == "kill":
                kill(pool, data.draw(st.integers(0, 1)))
            elif action == "move":
                pool.move({m: data.draw(st.sampled_from([HERE, 0, 1])) for m in chosen})
            elif action == "call":
                calls = {m: (float(turn),) for m in chosen}
                assert paceline.digest(plain.call("step", calls)) == paceline.digest(pool.call("step", calls))
            else:
                for port in ports:
                    port.inputs["move"][:] = turn
                    port.post(chosen)
                    port.wait()
                assert np.array_equal(ports[0].outputs["place"], ports[1].outputs["place"])


class RaisesOnce:
    """Raises in its third round, unless it has been rebuilt."""

    def __init__(self, mark: str, again: type[Exception] | None) -> None:
        self.error = again if os.path.exists(mark) else ValueError
        self.mark, self.rounds = mark, 0

    def row(self, order: np.ndarray, out: np.ndarray) -> None:
        self.rounds += 1
        out[...] = self.rounds
        if self.rounds == 3 and self.error:
            with open(self.mark, "w"):
                pass
            raise self.error


@pytest.mark.parametrize("again", [None, KeyError, ValueError])
def test_a_run_that_failed_fails_again_in_a_replay(tmp_path: Path, again: type[Exception] | None) -> None:
    recipe = partial(RaisesOnce, str(tmp_path / "mark"), again)
    with Pool([recipe], backend="thread", placement=[0], workers=2) as pool:
        port = pool.port("row", *ORDER)
        for turn in range(5):
            port.post()
            port.wait(outcomes=True)
            assert bool(port.errors) == (turn == 2)
        with nullcontext() if again is ValueError else pytest.raises(paceline.ReplayDiverged):
            pool.move([1])
