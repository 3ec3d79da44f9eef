"""Turns: members on threads run beside each other, but those that draw from process-wide generators, one at a time.

beside others, watched ──► somebody drew: all that were under way are stale, and are rebuilt
alone, its own streams swapped in  ◄── those, until it is seen which of them drew; and whatever is being built
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.isolation import Refusing, Stale, Streams, Swapping
from paceline.engine.randomness.seed_watch import SEEDINGS


class Room:
    """Has several threads in it at once, or one alone. What those drew who were in it at once leaves no trace."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._beside: set[int] = set()
        self._alone: int | None = None
        self._outside: dict[str, Any] = {}
        self._peek: tuple[object, ...] = ()

    @property
    def is_mine(self) -> bool:
        """Whether this thread is alone in it."""
        return self._alone == threading.get_ident()

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Goes in beside others. One that wants to be alone waits for them, also for those who come meanwhile: calls
        that wait for a server are not held up by one that does not."""
        with self._changed:
            self._changed.wait_for(lambda: self._alone is None)
            if not self._beside and GENERATORS.peek() != self._peek:
                self._outside, self._peek = GENERATORS.save(), GENERATORS.peek()
            self._beside.add(threading.get_ident())
        try:
            yield
        finally:
            self.forget(threading.get_ident())

    def forget(self, thread: int | None) -> None:
        """A thread that was beside others has left, or nobody waits for it any more, even if it is alone here."""
        with self._changed:
            if thread is not None and self._alone == thread:
                GENERATORS.restore(self._outside)
                self._alone, self._peek = None, ()
                self._changed.notify_all()
            elif thread in self._beside:
                self._beside.remove(thread)
                if not self._beside:
                    if GENERATORS.touched(self._peek):
                        GENERATORS.restore(self._outside)
                        self._peek = ()
                    self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Goes in when there is nobody in it; a thread that is alone in it already stays."""
        if self.is_mine:
            yield
            return
        with self._changed:
            self._changed.wait_for(lambda: self._alone is None and not self._beside)
            self._outside, self._peek = GENERATORS.save(), ()
            self._alone = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                if self.is_mine:  # else it was given up meanwhile
                    self._alone = None
                    self._changed.notify_all()


ROOM = Room()
"""The one room of this process, as its generators are."""


class _InTurn(Swapping):
    def _leave(self, outside: dict[str, Any]) -> None:
        if ROOM.is_mine:  # else it was given up meanwhile, and the generators are another's
            super()._leave(outside)


class Turns(Refusing):
    """For hosts on threads whose members may draw.

    Args:
        careful: Whether each method of a member is run alone until it has been seen not to draw: where there are
            members beside it that cannot be asked again.
    """

    def __init__(self, careful: bool = False) -> None:
        super().__init__()
        self._careful = careful
        self._swapping = _InTurn()

    def run(self, streams: Streams, name: str, function: Callable[..., Any], args: Any, keep: bool = True) -> Any:
        """Runs one call of a member.

        Raises:
            Stale: somebody drew while it ran beside others: it is to be rebuilt, and asked again.
            Shared: the same, of one that cannot be asked again.
        """
        if name == "map":  # an item may hold a whole episode, with pools of its own
            return super().run(streams, name, function, args, keep)
        unknown = self._careful and name not in streams.quiet
        if ROOM.is_mine or (streams.repeatable and (streams.isolated or unknown)):
            return self._run_alone(streams, name, function, args, keep)
        with ROOM.beside():
            if not streams.repeatable:
                return super().run(streams, name, function, args, keep)
            before = self.watch()
            try:
                answer = function(*args)
            except BaseException:
                self._look(before)
                raise
            self._look(before)
            return answer

    def _look(self, before: tuple[object, ...]) -> None:
        if not self.quiet_since(before):
            raise Stale

    def _run_alone(self, streams: Streams, name: str, function: Callable[..., Any], args: Any, keep: bool) -> Any:
        SEEDINGS.watch()
        with ROOM.alone():
            seedings = SEEDINGS.count
            try:
                return self._swapping._swapped(streams, name, function, args, keep)
            finally:
                if SEEDINGS.count != seedings:  # it may have put back what was there: beside others that would show
                    streams.isolated, streams.on_trial = True, False
