"""A port as a host serves it: the method of each asked item, on its rows, in order.

    asked[item] ──► run a group of items, half a millisecond ──► did anybody draw? ──► state[item]: READY or NEWS

Items whose members are known to leave the process-wide generators alone are run in groups, and one look vouches for
the whole group: a look after each would cost as much as a small env. If somebody did draw, the whole group is stale.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine.isolation import Stale
from paceline.engine.seat import Result, Seat, ability

if TYPE_CHECKING:
    from paceline.engine.host import Host

IDLE, READY, NEWS = range(3)
"""What a port says of an item: not done, done, done and there is a message about it."""

_GROUP_SECONDS = 500e-6


class _Raised:
    """Stands in a group for a call that raised."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class BoundPort:
    """A method, the members that have it here, and the rows that it works on."""

    def __init__(
        self,
        host: Host,
        number: int,
        method: str,
        rows: dict[int, Any],
        seats: dict[int, Seat],
        inputs: list[str],
        arrays: dict[str, Any],
    ) -> None:
        self._host = host
        self._number = number
        self._method = method
        self._arrays = arrays
        self._asked: memoryview = arrays["asked"].data
        self._state: memoryview = arrays["state"].data
        # Inputs are read-only: a row that was changed by a run that did not count could not be run again.
        readable = {name: _read_only(array) if name in inputs else array for name, array in arrays.items()}
        names = [name for name in arrays if name not in ("asked", "state")]
        self._items: list[tuple[int, Seat, Any, tuple[Any, ...]]] = [
            (item, seats[index], ability(seats[index].value, method), _views(readable, names, where))
            for index, (item, where) in rows.items()
        ]
        self._mine = [item for item, *_ in self._items]
        self._quiet = bytearray([1]) * len(self._asked)  # items that may be run in groups, or are not ours
        for item in self._mine:
            self._quiet[item] = 0

    def ask(self, items: list[int]) -> None:
        """Marks items as asked, for a ring that came by message."""
        for item in items:
            self._asked[item] = 1

    def serve_from_afar(self, rows: dict[str, Any], asked: Any) -> tuple[dict[str, Any], Any]:
        """Serves where memory is not shared: takes the inputs in, gives the outputs and states out."""
        for name, values in rows.items():
            self._arrays[name][:] = values
        self._arrays["asked"][:] = asked
        self._arrays["state"][:] = IDLE
        self.serve()
        hidden = {*rows, "asked", "state"}
        return {name: array for name, array in self._arrays.items() if name not in hidden}, self._arrays["state"]

    def distrust(self, seat: Seat) -> None:
        """The member has been seen to draw, in another call: from now on it is swapped here too."""
        for item, other, _, _ in self._items:
            if other is seat:
                self._quiet[item] = 0

    def serve(self) -> None:
        """Runs every asked item."""
        asked, quiet, host = self._asked, self._quiet, self._host
        group: list[tuple[int, Seat, Any]] = []
        before: Any = None
        end = 0.0
        for item, seat, function, views in self._items:
            if not asked[item] or host.retired:
                continue
            asked[item] = 0
            if not quiet[item]:
                self._serve_swapped(item, seat, function, views)
                continue
            if before is None:
                before = host.isolation.watch()
                host.begin(seat.index)
                end = perf_counter() + _GROUP_SECONDS
            host.current = seat.index
            try:
                group.append((item, seat, function(*views)))
            except BaseException as error:
                group.append((item, seat, _Raised(error)))
            if perf_counter() > end:
                self._vouch(group, before)
                before = None
        if before is not None:
            self._vouch(group, before)

    def serve_everyone(self) -> bool:
        """Runs every item that is bound here, with one look at the end. Returns whether there is nothing to tell of
        them; then their states are left alone."""
        if 0 in self._quiet:
            self.ask(self._mine)
            self.serve()
            return False
        host = self._host
        before = host.isolation.watch()
        results = []
        for _, _, function, views in self._items:
            try:
                results.append(function(*views))
            except BaseException as error:
                if host.interrupted_by(error):
                    raise
                results.append(_Raised(error))
        if host.isolation.quiet_since(before) and all(result is None for result in results):
            return True
        self._vouch([(*entry[:2], result) for entry, result in zip(self._items, results, strict=True)], before)
        return False

    def _vouch(self, group: list[tuple[int, Seat, Any]], before: Any) -> None:
        host, state = self._host, self._state
        if host.retired:
            group.clear()
            return
        if not host.isolation.quiet_since(before):
            self._disown(group)
        for item, seat, result in group:
            if result is None:
                state[item] = READY
            else:
                self._report(item, self._told(seat, result))
        group.clear()
        if host.ready is not None:
            host.ready()

    def _disown(self, group: list[tuple[int, Seat, Any]]) -> None:
        """Somebody drew from a stream that is not its own; who, nobody knows."""
        try:
            self._host.isolation.disown()
        except Exception as error:
            for place, (item, seat, result) in enumerate(group):
                self._quiet[item] = 0
                if not (type(result) is _Raised and self._host.interrupted_by(result.error)):
                    group[place] = item, seat, _Raised(error)

    def _serve_swapped(self, item: int, seat: Seat, function: Any, views: tuple[Any, ...]) -> None:
        host, method = self._host, self._method
        host.begin(seat.index)
        start = perf_counter()
        prior = seat.streams.drawn()
        try:
            if seat.stale or seat.error is not None:
                raise seat.error or Stale
            result = host.isolation.run(seat.streams, method, function or getattr(seat.value, method), views)
        except BaseException as error:
            result = _Raised(error)
        host.span(method, seat.index, start)
        if host.retired:
            return
        self._quiet[item] = method in seat.streams.quiet and not seat.streams.isolated and not host.traced
        if result is None:
            self._state[item] = READY
        else:
            self._report(item, self._told(seat, result, prior))
        if host.ready is not None:
            host.ready()

    def _told(self, seat: Seat, result: Any, prior: dict[str, Any] | None = None) -> Result:
        if type(result) is _Raised:
            return self._host.mishap(seat, self._method, result.error)
        return self._host.success(seat, result, False, prior)

    def _report(self, item: int, result: Result) -> None:
        # The state first: main may hear at once, set it back, and have the item run again.
        self._state[item] = NEWS
        if self._host.tell is not None:
            self._host.tell((self._number, item, result))


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def _views(arrays: dict[str, Any], names: list[str], where: Any) -> tuple[Any, ...]:
    """A member's rows: a slice of them, or one row; `...` makes even a single number a view to write to."""
    return tuple(arrays[name][where] if isinstance(where, slice) else arrays[name][where, ...] for name in names)
