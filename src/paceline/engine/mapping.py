"""A function of a map, in the host that runs it: item by item, stateless."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine import wire
from paceline.engine.isolation import Stale, Streams
from paceline.engine.mapped import received
from paceline.engine.seat import OK, Result
from paceline.errors import ReplayDiverged
from paceline.seeds import Key

if TYPE_CHECKING:
    from paceline.engine.host import Host


class HostedFunction:
    """A function, and the streams that tell whether it draws."""

    def __init__(self, host: Host, number: int, function: Any) -> None:
        self._host = host
        self._function = received(function)
        self._general = Streams(host.seed, ("map", number), isolated=False)

    def run(self, index: int, key: Key, packed: wire.Packed) -> Result:
        """Runs one item."""
        host = self._host
        host.begin(index)
        start = perf_counter()
        try:
            outcome: Result = index, OK, host.packed(self._answer(key, packed)), 0, None
        except BaseException as error:
            outcome = host.failure(index, host.own_error(error, f"item {index} called sys.exit()"))
        host.span("map", index, start)
        return outcome

    def _answer(self, key: Key, packed: wire.Packed) -> Any:
        """An item is stateless, so one that turns out to draw is simply run again with streams of its own."""
        general = self._general
        if not general.isolated:
            general.quiet.add("map")
            with suppress(Stale):
                return self._host.isolation.run(general, "map", self._function, (wire.fresh(packed),))
            general.isolated = True
        return self._swapped(key, packed)

    def _swapped(self, key: Key, packed: wire.Packed) -> Any:
        for _ in range(2):  # twice if it imports torch: only then is there a stream of torch's to give it
            with suppress(Stale):
                own = Streams(self._host.seed, ("map", key), isolated=True)
                return self._host.isolation.run(own, "map", self._function, (wire.fresh(packed),))
        raise ReplayDiverged(f"item {key!r} draws from a stream that nobody knows")
