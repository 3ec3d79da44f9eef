"""The process-wide random generators: who touches them, and another state of them for every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from paceline.engine.randomness.generators import GENERATORS
from paceline.seeds import seed_of

T = TypeVar("T")


class Watch:
    """Notes which generators are drawn from or seeded, and where."""

    def __init__(self) -> None:
        self.touched: dict[str, tuple[str, ...]] = {}

    def run(self, where: str, call: Callable[[], T]) -> T:
        """Runs something and looks whether a generator has moved."""
        before = GENERATORS.peek()
        try:
            return call()
        finally:
            if names := GENERATORS.touched(before):
                self.touched[where] = tuple(sorted({*self.touched.get(where, ()), *names}))


@contextmanager
def strange_generators(number: int) -> Iterator[None]:
    """Gives the process-wide generators states of their own, other ones for every number; restores them at the end."""
    outside = GENERATORS.save()
    GENERATORS.load(GENERATORS.fresh([number, seed_of(number, "strange")]))
    try:
        yield
    finally:
        GENERATORS.load(outside)
