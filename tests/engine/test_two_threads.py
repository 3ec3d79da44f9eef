"""A pool answers one thread at a time: a second one is told so at once, and the first gets its answers."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import Pool
from paceline.engine import HERE, Port

ONE = ({"a": ((), "f8")}, {"o": ((), "f8")})


class Waits:
    """Answers when it is told to: it opens a named pipe, which takes until the other end is opened too."""

    def __init__(self, path: str) -> None:
        self.path = path

    def hold(self) -> str:
        with open(f"{self.path}.begun", "w"):
            pass
        return Path(f"{self.path}.go").read_text()

    def hold_row(self, a: Any, o: Any) -> None:
        o[...] = a + len(self.hold())

    def next(self, number: int) -> int:
        return number + 1


class Within:
    """A thread that is in the middle of a call while the block is run."""

    def __init__(self, path: Path, ask: Callable[[], Any]) -> None:
        self._path, self._ask = path, ask
        self._thread = threading.Thread(target=self._run)
        self.answer: Any = None

    def _run(self) -> None:
        self.answer = self._ask()

    def __enter__(self) -> Within:
        self._thread.start()
        Path(f"{self._path}.begun").read_text()
        return self

    def __exit__(self, *_: object) -> None:
        Path(f"{self._path}.go").write_text("go")
        self._thread.join()


WAYS: dict[str, Callable[[Pool], Any]] = {
    "call": lambda pool: pool.call("next", {0: (1,)}),
    "post": lambda pool: pool.post("next", {1: (1,)}),
    "map": lambda pool: pool.map(abs, [1, -2]),
    "stream": lambda pool: list(pool.stream(abs, [1, -2])),
    "move": lambda pool: pool.move([HERE] * 2),
    "port": lambda pool: pool.port("hold_row", *ONE),
    "snapshot": lambda pool: pool.snapshot(),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for end in ("begun", "go"):
        os.mkfifo(tmp_path / f"pipe.{end}")
    return tmp_path / "pipe"


REFUSED = "another thread is in the middle of a call to this pool"


def test_a_second_thread_is_told_so_at_once_and_the_first_gets_its_answer(backend: str, path: Path) -> None:
    with Pool([lambda: Waits(str(path))] * 2, backend=backend, workers=2) as pool:
        with Within(path, lambda: pool.call("hold", {0: ()})) as first:
            for ask in WAYS.values():
                with pytest.raises(paceline.BadInput, match=REFUSED):
                    ask(pool)
        assert first.answer == {0: "go"}
        assert pool.call("next", {0: (1,), 1: (2,)}) == {0: 2, 1: 3}
        assert pool.events == []


def test_an_answer_that_another_thread_waits_for_is_not_taken_from_it(backend: str, path: Path) -> None:
    with Pool([lambda: Waits(str(path))] * 2, backend=backend, workers=2) as pool:
        held = pool.post("hold", {0: ()})
        later = pool.post("next", {0: (1,)})
        with Within(path, held.wait) as first, pytest.raises(paceline.BadInput, match=REFUSED):
            later.wait()
        assert (first.answer, later.wait()) == ({0: "go"}, {0: 2})


PORT_WAYS: dict[str, Callable[[Pool, Port], Any]] = {
    "round": lambda pool, port: port.round(),
    "post": lambda pool, port: port.post(),
    "wait": lambda pool, port: port.wait(),
    "close": lambda pool, port: port.close(),
    "call": lambda pool, port: pool.call("next", {1: (1,)}),
}


def test_a_round_is_its_threads_alone(backend: str, path: Path) -> None:
    with Pool([lambda: Waits(str(path))], backend=backend, workers=1) as pool:
        port = pool.port("hold_row", *ONE)
        for number in range(3):  # the later ones may be run straight
            port.inputs["a"][:] = number
            with Within(path, port.round):
                for ask in PORT_WAYS.values():
                    with pytest.raises(paceline.BadInput, match=REFUSED):
                        ask(pool, port)
            assert np.array_equal(port.outputs["o"], [number + 2])
        assert pool.events == []


def test_an_idle_pool_goes_from_thread_to_thread_also_with_posts_under_way(backend: str) -> None:
    with Pool([lambda: Waits("")] * 2, backend=backend, workers=2) as pool:
        posted, answers = pool.post("next", {0: (1,)}), list[Any]()
        other = threading.Thread(target=lambda: answers.extend([posted.wait(), pool.call("next", {1: (5,)})]))
        other.start()
        other.join()
        assert answers == [{0: 2}, {1: 6}]
        assert pool.call("next", {0: (7,)}) == {0: 8}
