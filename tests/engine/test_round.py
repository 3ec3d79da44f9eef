"""`Port.round` is `post` and `wait`, whatever happens in it."""

from __future__ import annotations

import gc
import os
import signal
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

import numpy as np
import psutil
import pytest
from interrupting import Interrupting, interrupted
from members import Walker
from waits import until

import paceline
from paceline import HERE, Anew, Pool
from paceline.engine.journal.journal import PortLog

WALK = ({"move": ((), np.float64)}, {"place": ((4,), np.float64), "total": ((), np.float64)})
ORDER = ({"order": ((), np.int64)}, {"out": ((), np.float64)})


class Moody(Walker):
    """Does what it is told: walk, say something, raise, draw from NumPy's own generator, begin anew."""

    def row(self, order: np.ndarray, out: np.ndarray) -> Any:
        what = int(order)
        if what == 4:
            self.__init__(7)  # type: ignore[misc]
        out[...] = self.step(1.0)[1] + (np.random.random() if what == 3 else 0.0)
        if what == 2:
            raise ValueError("not now")
        if what == 4:
            return Anew("anew")
        return {"said": float(out)} if what == 1 else None


def rounds(pool: Pool, at_once: bool, moves: dict[int, list[int]] | None = None) -> list[Any]:
    port = pool.port("row", *ORDER)
    luck = np.random.default_rng(4)
    seen: list[Any] = []
    for turn in range(40):
        if moves and turn in moves:
            pool.move(moves[turn])
        # Mostly quiet rounds, so that the short way is taken; and everything else between them.
        port.inputs["order"][:] = luck.integers(5, size=4) if turn % 4 == 3 else 0
        try:
            if at_once:
                port.round()
            else:
                port.post()
                port.wait()
            seen += [port.outputs["out"].copy(), dict(port.extras)]
        except ValueError:
            seen.append(sorted(port.errors))
        if turn % 10 == 9:
            seen.append(pool.call("where"))
        if turn % 7 == 6:
            port.inputs["order"][:] = 0
            port.post([1, 3])
            seen += [port.wait(), port.outputs["out"].copy()]
    return seen


def moody(**options: Any) -> Pool:
    return Pool([partial(Moody, n) for n in range(4)], **options)


def reference() -> str:
    with moody() as pool:
        return paceline.digest(rounds(pool, at_once=False))


def test_a_round_is_a_post_and_a_wait(killable: str) -> None:
    with moody() as here, moody(backend=killable, workers=2) as pool:
        assert paceline.digest(rounds(here, at_once=True)) == reference()
        assert paceline.digest(rounds(pool, at_once=True)) == reference()


def test_moves_between_rounds_do_not_show() -> None:
    moves = {9: [0, 0, HERE, HERE], 17: [HERE] * 4, 26: [1, 0, 1, HERE], 35: [HERE] * 4}
    with moody(backend="process", workers=2, placement=[HERE] * 4) as pool:
        assert paceline.digest(rounds(pool, at_once=True, moves=moves)) == reference()


def test_what_a_round_gave_is_compared_when_its_members_move() -> None:
    class Forgetful:
        built = 0

        def __init__(self) -> None:
            type(self).built += 1

        def row(self, order: np.ndarray, out: np.ndarray) -> None:
            out[...] = type(self).built

    with Pool([Forgetful] * 2, placement=[0, 0], workers=2) as pool:
        port = pool.port("row", *ORDER)
        port.round()
        port.round()
        with pytest.raises(paceline.ReplayDiverged, match="gave another answer"):
            pool.move([1, 1])


def test_an_interrupted_round_is_void() -> None:
    class Stopped(Walker):
        def step_row(self, move: np.ndarray, place: np.ndarray, total: np.ndarray) -> None:
            super().step_row(move, place, total)
            if float(move) == 13.0:
                signal.raise_signal(signal.SIGINT)

    with Pool([partial(Stopped, n) for n in range(3)]) as pool, Pool([partial(Walker, n) for n in range(3)]) as plain:
        port, other = pool.port("step_row", *WALK), plain.port("step_row", *WALK)
        for move in (1.0, 2.0, 13.0, 3.0, 4.0):
            port.inputs["move"][:] = [1.0, move, 1.0]
            if move == 13.0:
                with pytest.raises(KeyboardInterrupt):
                    port.round()
                continue
            other.inputs["move"][:] = [1.0, move, 1.0]
            port.round()
            other.round()
            assert port.outputs["place"].tobytes() == other.outputs["place"].tobytes()


class Adds:
    """Adds up what it is given."""

    def __init__(self) -> None:
        self.total = 0.0

    def row(self, order: np.ndarray, out: np.ndarray) -> Any:
        if int(order) == 5:
            time.sleep(0.3)
        self.total += float(order)
        out[...] = self.total
        return "said" if int(order) == 7 else None

    def look(self) -> float:
        return self.total


_OURS = (
    "engine/port/port.py",
    "engine/port/inline_round.py",
    "engine/host/bound_port.py",
    "engine/journal/journal.py",
    "engine/port/items.py",
    __file__,
)


def test_wherever_a_round_is_interrupted_it_was_for_all_or_for_none() -> None:
    line, voided = 0, 0
    while True:
        with Pool([Adds] * 3, placement=[0, 0, 0], workers=2) as pool:
            port = pool.port("row", *ORDER)
            port.inputs["order"][:] = 1
            for _ in range(5):
                port.round()
            try:
                with Interrupting(line, _OURS, even_if_kept_back=True):
                    port.round()
                break  # it has fewer lines
            except KeyboardInterrupt:
                pass
            pool.move([1, 0, 1])  # two of them are replayed, and have to come to the same
            port.round()
            totals = port.outputs["out"].tolist()
            assert totals in ([6.0] * 3, [7.0] * 3)
            voided += totals[0] == 6.0
            assert pool.call("look") == dict(enumerate(totals))
        line += 1
    assert line > 40
    assert voided > line - 12  # all but the lines after it has been written down


def test_a_round_that_is_interrupted_at_its_very_beginning_keeps_no_other_thread_out() -> None:
    with Pool([Adds] * 3) as pool:
        port = pool.port("row", *ORDER)
        for _ in range(5):
            port.round()
        with pytest.raises(KeyboardInterrupt), Interrupting(0, ("engine/randomness/torch_import.py",)):
            port.round()
        with ThreadPoolExecutor(1) as other:
            other.submit(port.round).result()


class Nested(Adds):
    """Asks for what its caller has put there, in the middle of its own step."""

    ask: Any = None

    def row(self, order: np.ndarray, out: np.ndarray) -> Any:
        ask, Nested.ask = Nested.ask, None
        if ask is not None:
            ask()
        return super().row(order, out)


@pytest.mark.parametrize("ask", ["round", "post", "look"])
def test_in_the_middle_of_a_round_there_is_no_other(ask: str) -> None:
    with Pool([Nested] * 3) as pool:
        port = pool.port("row", *ORDER)
        port.inputs["order"][:] = 1
        for _ in range(5):
            port.round()
        Nested.ask = {"round": port.round, "post": port.post, "look": partial(pool.call, "look")}[ask]
        with pytest.raises(paceline.PacelineError):
            port.round()
        port.round()
        assert port.outputs["out"].tolist() == [6.0, 7.0, 7.0]  # the first had raised before it added


def test_a_part_that_is_not_in_order_is_that_part(backend: str) -> None:
    with Pool([Adds] * 6, backend=backend, workers=2) as pool:
        port = pool.port("row", *ORDER)
        port.inputs["order"][:] = 1
        port.round()
        port.post([0, 5, 1, 3])
        assert port.wait() == [0, 1, 3, 5]
        assert pool.call("look") == {0: 2, 1: 2, 2: 1, 3: 2, 4: 1, 5: 2}


def test_what_was_posted_before_a_round_is_not_lost_with_it(backend: str) -> None:
    with Pool([Adds] * 3, backend=backend, workers=2) as pool:
        port = pool.port("row", *ORDER)
        port.inputs["order"][:] = 1
        port.round()
        port.post([1])
        with pytest.raises(paceline.BadInput, match="has not been waited for"):
            port.round()
        assert port.outstanding == 1
        assert port.wait() == [1]
        assert port.outputs["out"].tolist() == [1, 2, 1]
        port.round()
        assert port.outputs["out"].tolist() == [2, 3, 2]
        port.post([1])
    with pytest.raises(paceline.Closed):
        port.round()


def test_after_ctrl_c_nobody_of_before_takes_part() -> None:
    """A thread cannot be ended: the one that was given up must leave the rows of the next round alone."""
    with Pool([Adds] * 4, backend="thread", workers=2) as pool:
        port = pool.port("row", *ORDER)
        port.inputs["order"][:] = 5
        with pytest.raises(KeyboardInterrupt):
            interrupted(port.round)
        for turn in range(1, 5):
            port.inputs["order"][:] = 10
            port.round()
            assert port.outputs["out"].tolist() == [10.0 * turn] * 4


def test_rows_are_the_callers_to_change() -> None:
    with Pool([partial(Walker, n) for n in range(3)], workers=2, placement=[0, 0, 0]) as pool:
        port = pool.port("step_row", *WALK)
        for turn in range(3):
            port.inputs["move"][:] = turn
            port.round()
            port.outputs["place"][:] = 0.0
        pool.move([1, 1, 0])
        assert pool.call("where")[0].any()


def test_what_was_said_before_a_death_is_heard() -> None:
    """With a message to the dead one unread, the kernel reports that first, and only then what it had said."""
    with Pool([Adds] * 3, backend="process", workers=1) as pool:
        port = pool.port("row", *ORDER, members=[0, 1])
        port.inputs["order"][:] = [7, 5]  # their first: so each is told of by itself
        port.post()
        time.sleep(0.15)
        pool.post("look", {2: ()})
        dying = pool.workers[0].pid
        os.kill(dying, signal.SIGKILL)
        until(lambda: not psutil.pid_exists(dying))
        assert port.wait() == [0, 1]
        assert port.extras == {0: "said"}
        assert port.outputs["out"].tolist() == [7.0, 5.0]


class Watched(Adds):
    """Is asked for when nobody should hold it any more."""

    alive: ClassVar[weakref.WeakSet[Any]] = weakref.WeakSet()

    def __init__(self) -> None:
        super().__init__()
        self.alive.add(self)


@pytest.mark.parametrize("way", ["move", "port", "pool"])
def test_members_that_have_gone_are_not_held_for_the_sake_of_rounds(way: str) -> None:
    with Pool([Watched] * 3, backend="process", workers=2, placement=[HERE] * 3) as pool:
        port = pool.port("row", *ORDER)
        for _ in range(5):
            port.round()
        assert len(Watched.alive) == 3
        if way == "port":
            port.close()
        pool.move([0, 1, 1]) if way != "pool" else pool.close()
        gc.collect()
        assert len(Watched.alive) == 0


def test_nobody_waits_in_a_round_for_its_end() -> None:
    with Pool([Nested] * 2) as pool:
        port = pool.port("row", *ORDER)
        for _ in range(5):
            port.round()
        Nested.ask = port.wait
        with pytest.raises(paceline.BadInput, match="in the middle of its own round"):
            port.round()


class Draws(Adds):
    """Draws from NumPy's own generator when it is told to."""

    def row(self, order: np.ndarray, out: np.ndarray) -> Any:
        if int(order) == 9:
            np.random.random()
        return super().row(order, out)


def test_interrupted_before_anybody_looked_the_callers_generator_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with Pool([Draws] * 3) as pool:
        port = pool.port("row", *ORDER)
        for _ in range(5):
            port.round()
        np.random.seed(3)
        before = np.random.get_state()[2]
        port.inputs["order"][:] = [1, 9, 1]
        monkeypatch.setattr(PortLog, "ring", interrupt)
        with pytest.raises(KeyboardInterrupt):
            port.round()
        assert np.random.get_state()[2] == before


def test_auto_counts_every_round_while_it_rests() -> None:
    with Pool([Adds] * 3, backend="auto") as pool:
        port = pool.port("row", *ORDER)
        pilot: Any = pool._crew.pilot
        while not pilot.resting(0):
            port.round()
        pilot._rests_until, pilot.final = time.perf_counter() + 100.0, False
        counted = []
        for turn in range(330):
            counted.append(pilot._rested)
            port.round()
            if turn % 16 == 8:
                pool.call("look", record=False)
        port.post()
        port.wait()
        assert 328 <= pilot._rested - counted[0] <= 334
