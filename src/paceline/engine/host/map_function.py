"""A function of a map, in the host that runs it: item by item, stateless."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine.host.member import OK, Result
from paceline.engine.host.store import innermost
from paceline.engine.pool.packed_function import received
from paceline.engine.randomness.isolation import Refusing, Stale, Streams
from paceline.engine.transport import codec
from paceline.errors import ReplayDiverged
from paceline.seeds import Key

if TYPE_CHECKING:
    from paceline.engine.host.host import Host


class HostedFunction:
    """A function, and whether it draws from process-wide generators.

    Args:
        host: Who runs it.
        function: As it was sent.
        draws: Whether items of it have been seen to draw, in this pool; None: none has been run yet.
    """

    def __init__(self, host: Host, function: Any, draws: bool | None) -> None:
        self._host = host
        self._function = received(function)
        self._draws = draws is True
        self._watched = host.watched if draws is False else None  # never swapped in: it stands for "only watch"

    def run(self, index: int, key: Key, packed: codec.Packed) -> Result:
        """Runs one item."""
        host = self._host
        host.begin(index)
        start = perf_counter()
        sound, outer = False, innermost()
        try:
            host.store.begin()
            outcome: Result = index, OK, host.packed(self._answer(key, packed)), int(self._draws), None
            sound = True
        except BaseException as error:
            outcome = host.failure(index, host.own_error(error, f"item {index} called sys.exit()"))
        finally:
            host.store.end(outer, sound=sound)
        host.span("map", index, start)
        return outcome

    def _answer(self, key: Key, packed: codec.Packed) -> Any:
        """An item is stateless, so one that turns out to draw is simply run again with streams of its own."""
        if self._watched is not None:
            with suppress(Stale):
                return self._host.isolation.run(self._watched, "map", self._function, (codec.fresh(packed),))
            self._watched, self._draws = None, True
            self._host.store.discard()
        return self._swapped(key, packed)

    def _swapped(self, key: Key, packed: codec.Packed) -> Any:
        """Runs an item with streams of its own. The first item shows whether it is enough to watch the others."""
        for _ in range(2):  # twice if it imports torch: only then is there a stream of torch's to give it
            own = Streams(self._host.seed, ("map", key), isolated=self._draws)
            try:
                with suppress(Stale):
                    return self._host.isolation.run(own, "map", self._function, (codec.fresh(packed),))
            finally:
                self._learn(own)
            self._host.store.discard()
        raise ReplayDiverged(f"item {key!r} draws from a stream that nobody knows")

    def _learn(self, own: Streams) -> None:
        self._draws |= own.isolated
        if not self._draws and ("map" in own.quiet or isinstance(self._host.isolation, Refusing)):
            own.quiet.add("map")
            self._watched = self._host.watched = own
