"""`Pool.run_here` makes calls at once where everybody lives here; what it leaves is posted, and nobody can tell."""

from __future__ import annotations

import gc
import math
import os
import signal
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from interrupting import Interrupting
from members import Walker

import paceline
from paceline import HERE, Anew, Handle, Outcome, Pool


class Moody(Walker):
    """Does what it is told: walk, raise, leave, draw from NumPy's generator, begin anew, say too much, be vague."""

    def do(self, what: str, by: list[float]) -> Any:
        by.append(1.0)  # its own copy
        if what == "anew":
            self.__init__(7)  # type: ignore[misc]
            return Anew("anew")
        place, total = self.step(by[0])
        if what == "raise":
            raise ValueError(f"not at {total}")
        if what == "exit":
            sys.exit(3)
        if what == "draw":
            return total, np.random.random()
        if what == "much":
            return np.full(1000, total)
        if what == "very much":
            return np.full(10_000, total)
        return (lambda: total) if what == "unclear" else {"at": place, "total": total}


MOODS = ["walk", "raise", "walk", "exit", "draw", "anew", "much", "very much", "unclear"]


def moody(**options: Any) -> Pool:
    return Pool([partial(Moody, n) for n in range(6)], **options)


def ask(pool: Pool, calls: dict[int, tuple[Any, ...]]) -> tuple[dict[int, Outcome], int]:
    """Everybody's outcome, and how many came at once."""
    found: dict[int, Outcome] = {}
    pool.run_here("do", pool.pack(calls), into(found))
    left = {member: args for member, args in calls.items() if member not in found}
    at_once = len(found)
    if left:
        found |= pool.call("do", left, outcomes=True)
    return found, at_once


def into(found: dict[int, Outcome]) -> Callable[[Handle], None]:
    return lambda handle: found.update(handle.outcomes())


def told(outcome: Outcome) -> Any:
    if outcome.error is not None:
        return type(outcome.error).__name__, str(outcome.error)
    return outcome.answer() if callable(outcome.answer) else outcome.answer


def story(pool: Pool, at_once: bool, moves: dict[int, list[int]] | None = None) -> tuple[list[Any], int]:
    luck, seen, count = np.random.default_rng(5), [], 0
    for turn in range(60):
        if moves and turn in moves:
            pool.move(moves[turn])
        odd = turn % 3 == 2
        calls = {n: (str(luck.choice(MOODS)) if odd else "walk", [1.0 + n]) for n in luck.permutation(6)[:5].tolist()}
        if at_once:
            outcomes, made = ask(pool, calls)
            count += made
        else:
            outcomes = pool.call("do", calls, outcomes=True)
        seen.append([(member, told(outcomes[member])) for member in sorted(outcomes)])
        if turn % 10 == 9:
            seen.append(pool.call("where"))
    return seen, count


def reference() -> str:
    with moody() as pool:
        return paceline.digest(story(pool, at_once=False)[0])


def test_what_is_made_at_once_is_what_is_posted() -> None:
    with moody() as pool:
        seen, at_once = story(pool, at_once=True)
    assert paceline.digest(seen) == reference()
    assert at_once > 150


def test_elsewhere_nothing_is_made_at_once(backend: str) -> None:
    with moody(backend=backend, workers=2) as pool:
        if backend == "thread":  # there it is an error to draw
            assert ask(pool, {n: ("walk", [1.0]) for n in range(6)})[1] == 0
            return
        seen, at_once = story(pool, at_once=True)
        assert (paceline.digest(seen), at_once) == (reference(), 0)


def test_it_is_in_the_journals() -> None:
    moves = {9: [0, 0, 1, 1, HERE, HERE], 17: [HERE] * 6, 31: [1, 0, 1, 0, 1, 0], 44: [HERE] * 6}
    with moody(backend="process", workers=2, placement=[HERE] * 6) as pool:
        seen, at_once = story(pool, at_once=True, moves=moves)
    assert paceline.digest(seen) == reference()
    assert at_once > 60


def test_who_draws_late_is_blamed_and_nobody_else() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].tobytes()  # type: ignore[union-attr]
    with moody() as pool:
        ask(pool, {n: ("walk", [1.0]) for n in range(6)})
        outcomes, at_once = ask(pool, {n: ("draw" if n == 3 else "walk", [1.0]) for n in range(6)})
        assert at_once == 5
        assert [event.text for event in pool.events if event.kind == "isolated"] == [
            "members [3] draw from process-wide generators: isolated"
        ]
        drawn = outcomes[3].answer[1]
        assert ask(pool, {n: ("draw" if n == 3 else "walk", [1.0]) for n in range(6)})[0][3].answer[1] != drawn
    assert np.random.get_state()[1].tobytes() == before  # type: ignore[union-attr]


def test_auto_is_not_kept_from_measuring() -> None:
    with moody(backend="auto") as pool:
        calls = {n: ("walk", [1.0]) for n in range(6)}
        assert ask(pool, calls)[1] == 0  # it measures first
        pilot = pool._crew.pilot
        assert pilot is not None
        pilot.final = True
        assert ask(pool, calls)[1] == 6


class Adds:
    """Adds up what it is given."""

    ask: Any = None

    def __init__(self) -> None:
        self.total = 0

    def add(self, by: int) -> int:
        asked, Adds.ask = Adds.ask, None
        if asked is not None:
            asked()
        self.total += by
        return self.total

    def look(self) -> int:
        return self.total


_OURS = (
    "engine/pool/inline_calls.py",
    "engine/host/ordinary_calls.py",
    "engine/host/host.py",
    "engine/transport/codec.py",
    __file__,
)


class Dice:
    """Is thrown when it is packed."""

    def __reduce__(self) -> Any:
        return int, (int(np.random.randint(1, 7)),)


class Thrower:
    def throw(self, wanted: bool) -> Any:
        return Dice() if wanted else 0

    def save(self, wanted: bool) -> Any:
        return Anew(0, state=Dice()) if wanted else 0

    def restore(self, state: Any) -> None:
        """Whatever was thrown will do."""


def test_a_state_that_draws_when_it_is_packed_is_not_blamed_on_whoever_is_called_next() -> None:
    with Pool([Thrower] * 3) as pool:
        pool.call("save", dict.fromkeys(range(3), (False,)))
        found: dict[int, Outcome] = {}
        pool.run_here("save", pool.pack({0: (False,), 1: (True,), 2: (False,)}), into(found))
        assert [found[n].answer for n in range(3)] == [0, 0, 0]
        assert not [event for event in pool.events if event.kind == "isolated"]


def test_an_answer_that_draws_when_it_is_packed_is_not_blamed_on_whoever_is_called_next() -> None:
    with Pool([Thrower] * 3) as pool:
        pool.call("throw", dict.fromkeys(range(3), (False,)))
        np.random.seed(3)
        found: dict[int, Outcome] = {}
        pool.run_here("throw", pool.pack({0: (False,), 1: (True,), 2: (False,)}), into(found))
        rest = int(np.random.randint(1, 7))
        assert not [event for event in pool.events if event.kind == "isolated"]
    np.random.seed(3)
    thrown = [int(np.random.randint(1, 7)) for _ in range(2)]
    assert [found[n].answer for n in range(3)] == [0, thrown[0], 0]
    assert rest == thrown[1]


def test_wherever_it_is_interrupted_a_call_was_made_and_told_of_or_not_made() -> None:
    line, cut_short = 0, 0
    while True:
        with Pool([Adds] * 3, placement=[0, 0, 0], workers=2) as pool:
            pool.call("add", dict.fromkeys(range(3), (1,)))
            found: dict[int, Outcome] = {}
            try:
                with Interrupting(line, _OURS):
                    pool.run_here("add", pool.pack(dict.fromkeys(range(3), (10,))), into(found))
                break  # it has fewer lines
            except KeyboardInterrupt:
                pass
            assert all(outcome.answer == 11 for outcome in found.values())
            assert pool.call("look", record=False) == {n: 11 if n in found else 1 for n in range(3)}
            pool.move([1, 1, 1])  # they are replayed, and have to come to the same
            totals = pool.call("add", dict.fromkeys(range(3), (100,)))
            assert totals == {n: 111 if n in found else 101 for n in range(3)}
            cut_short += 0 < len(found) < 3
        line += 1
    assert line > 30
    assert cut_short > 10
    assert len(found) == 3


def test_ctrl_c_of_a_member_who_has_drawn_leaves_the_caller_its_generator() -> None:
    class Stopped(Adds):
        def add(self, by: int) -> int:
            if by == 13:
                np.random.random()
                signal.raise_signal(signal.SIGINT)
            return super().add(by)

    np.random.seed(3)
    expected = np.random.RandomState(3).random()
    with Pool([Stopped] * 3) as pool:
        pool.call("add", dict.fromkeys(range(3), (1,)))
        found: dict[int, Outcome] = {}
        with pytest.raises(KeyboardInterrupt):
            pool.run_here("add", pool.pack({0: (1,), 1: (13,), 2: (1,)}), into(found))
        assert (found, np.random.random()) == ({0: Outcome(2)}, expected)
        assert pool.call("look", record=False) == {0: 2, 1: 1, 2: 1}


@pytest.mark.parametrize("draws", [False, True], ids=["asks", "asks and draws"])
def test_in_the_middle_of_a_call_its_pool_is_not_asked(draws: bool) -> None:
    """Its own call raises, the others' are made, and the pool goes on."""
    with Pool([Adds] * 3) as pool:
        pool.call("add", dict.fromkeys(range(3), (1,)))

        def ask() -> None:
            try:
                pool.call("look")
            finally:
                np.random.random(int(draws))

        Adds.ask = ask
        found: dict[int, Outcome] = {}
        pool.run_here("add", pool.pack(dict.fromkeys(range(3), (1,))), into(found))
        found |= pool.call("add", {member: (1,) for member in range(3) if member not in found}, outcomes=True)
        if draws:  # it is built and asked again, and has nothing more to ask
            assert found == {0: Outcome(2), 1: Outcome(2), 2: Outcome(2)}
        else:
            assert isinstance(found.pop(0).error, paceline.BadInput)
            assert found == {1: Outcome(2), 2: Outcome(2)}
        assert pool.call("look") == {0: 1 + draws, 1: 2, 2: 2}


@pytest.mark.parametrize("way", ["call", "run_here"])
def test_a_pool_closed_in_the_middle_of_a_call_says_so(way: str) -> None:
    with Pool([Adds] * 3) as pool:
        pool.call("add", dict.fromkeys(range(3), (1,)))
        ways = {
            "call": lambda: pool.call("add", {0: (1,)}),
            "run_here": lambda: pool.run_here("add", pool.pack({0: (1,)}), lambda handle: None),
        }
        Adds.ask = pool.close
        with pytest.raises(paceline.Closed):
            ways[way]()


def test_long_journals_are_shortened() -> None:
    class Saved(Adds):
        saves = 0

        def snapshot(self) -> int:
            Saved.saves += 1
            return self.total

        def restore(self, state: int) -> None:
            self.total = state

    with Pool([Saved] * 2, snapshot_every=10) as pool:
        for _ in range(25):
            found: dict[int, Outcome] = {}
            pool.run_here("add", pool.pack(dict.fromkeys(range(2), (1,))), into(found))
            if not found:
                pool.call("add", dict.fromkeys(range(2), (1,)))
        assert Saved.saves == 4
        assert pool.call("look") == {0: 25, 1: 25}


class Unreadable:
    """Can be packed, and not unpacked."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise RuntimeError("cannot be read")


class Vague(Adds):
    def add(self, by: int) -> Any:
        return Unreadable() if by == 13 else super().add(by)


def test_an_answer_that_cannot_be_read_is_an_error_of_its_own(backend: str) -> None:
    with Pool([Vague] * 3, backend=backend) as pool:
        pool.call("add", dict.fromkeys(range(3), (1,)))
        found: dict[int, Outcome] = {}
        calls = {0: (1,), 1: (13,), 2: (1,)}
        pool.run_here("add", pool.pack(calls), into(found))
        assert len(found) == (3 if backend == "inline" else 0)
        outcomes = found or pool.call("add", calls, outcomes=True)
        assert [outcomes[0].answer, outcomes[2].answer] == [2, 2]
        assert str(outcomes[1].error) == "cannot be read"


class Weighs(Adds):
    """Is known to whoever made it for as long as it lives."""

    alive: ClassVar[list[weakref.ref[Any]]] = []

    def __init__(self) -> None:
        super().__init__()
        Weighs.alive.append(weakref.ref(self))

    def add(self, by: int) -> int:
        if by == 13:
            signal.raise_signal(signal.SIGINT)
        return super().add(by)


def test_an_interrupt_that_is_kept_does_not_keep_those_who_were_rebuilt() -> None:
    Weighs.alive.clear()
    with Pool([Weighs] * 3) as pool:
        pool.call("add", dict.fromkeys(range(3), (1,)))
        with pytest.raises(KeyboardInterrupt) as kept:
            pool.run_here("add", pool.pack({0: (1,), 1: (13,), 2: (1,)}), into({}))
        assert pool.call("look", record=False) == {0: 2, 1: 1, 2: 1}
        gc.collect()
        assert kept.value is not None
        assert (len(Weighs.alive), sum(ref() is not None for ref in Weighs.alive)) == (6, 3)


class Homeless(Adds):
    """Kills every process but that of whoever made it."""

    def __init__(self, home: int) -> None:
        super().__init__()
        if os.getpid() != home:
            os._exit(3)


def test_who_was_lost_elsewhere_is_lost_here_too() -> None:
    kinds = [Adds, partial(Homeless, os.getpid()), Adds]
    with Pool(kinds, backend="process", workers=1, failed_builds="keep", restarts=2) as pool:
        pool.move([HERE] * 3)
        for _ in range(2):
            found: dict[int, Outcome] = {}
            pool.run_here("add", pool.pack(dict.fromkeys(range(3), (1,))), into(found))
            left = pool.call("add", {n: (1,) for n in range(3) if n not in found}, outcomes=True)
        assert sorted(found) == [0, 2]
        assert type(left[1].error).__name__ == "WorkerLost"


def test_auto_counts_a_round_once_however_it_is_asked() -> None:
    with moody(backend="auto") as pool:
        ask(pool, {n: ("draw" if n == 3 else "walk", [1.0]) for n in range(6)})
        pilot = pool._crew.pilot
        assert pilot is not None
        pilot._rests_until, pilot._rested = math.inf, 0
        for _ in range(10):
            found: dict[int, Outcome] = {}
            pool.round_begins()
            pool.run_here("do", pool.pack({n: ("walk", [1.0]) for n in range(6)}), into(found))
            left = {n: ("walk", [1.0]) for n in range(6) if n not in found}
            pool.post_packed("do", pool.pack(left)).wait()
        assert sorted(left) == [3]
        assert pilot._rested == 10
