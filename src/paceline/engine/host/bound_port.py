"""A port as a host serves it: the method of each asked item, on its rows, in order.

    asked[item] ──► run a group of items, about half a millisecond ──► did anybody draw? ──► state[item]: READY or NEWS

Items whose members are known to leave the process-wide generators alone are run in groups, and one look vouches for
the whole group: a look after each would cost as much as a small env. If somebody did draw, the whole group is stale.
Where the host has a crowd of threads such items are run beside each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, Any

from paceline.engine.host.member import Result, Seat, ability
from paceline.engine.port.rows import block_of
from paceline.engine.randomness.isolation import IN_FLIGHT, Stale
from paceline.engine.randomness.seed_watch import SEEDINGS
from paceline.engine.transport.spin import publish
from paceline.errors import BadInput

if TYPE_CHECKING:
    from paceline.engine.host.host import Host
    from paceline.engine.host.row_threads import Crowd

IDLE, READY, NEWS = range(3)
"""What a port says of an item: not done, done, done and there is a message about it."""

Entry = tuple[int, Seat, Callable[[], Any]]
"""(item, whose it is, its method on its rows)"""

_GROUP_SECONDS = 500e-6


class Raised:
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
        self.refused: list[Result] = []  # items that could not be bound, and why
        self._items: list[Entry] = [
            (item, seats[index], bound)
            for index, (item, where) in rows.items()
            if (bound := self._try_to_bind(item, seats[index], _views(readable, names, where))) is not None
        ]
        self._mine = {item for item, *_ in self._items}
        self._block = block_of([item for item, *_ in self._items])  # their marks, where these lie side by side
        self._all_asked, self._all_ready = bytes([1]) * len(self._items), bytes([READY]) * len(self._items)
        self._group_size = 1  # as many as were run in half a millisecond when it was last measured
        self._quiet = bytearray([1]) * len(self._asked)  # items that may be run in groups, or are not ours
        for item, *_ in self._items:
            self._quiet[item] = 0
        self.calls = [(item, call) for item, _, call in self._items]
        self.straight = False
        """Whether everybody may be run by whoever waits in this process, without being asked: see inline_round.py."""

    def _try_to_bind(self, item: int, seat: Seat, views: tuple[Any, ...]) -> Callable[[], Any] | None:
        """Like `_bound`; what one raises then is its own, and the others are bound."""
        try:
            return self._bound(seat, views)
        except BaseException as error:
            self.refused.append((item, *self._host.raised(seat, f"bind_{self._method}", error)[1:]))
            return None

    def _bound(self, seat: Seat, views: tuple[Any, ...]) -> Callable[[], Any]:
        """What is called for an item. A class that has `bind_<method>` is given its rows once."""
        name = f"bind_{self._method}"
        if ability(type(seat.value), name) is None:
            method = ability(seat.value, self._method)
            return partial(method, *views) if method is not None else partial(self._call_by_name, seat, views)
        self._host.begin(seat.index)
        # A read: to be bound once more, in another place, must not be a draw more.
        bound: Callable[[], Any]
        bound = self._host.isolation.run(seat.streams, name, getattr(seat.value, name), views, False)
        if not callable(bound):
            raise BadInput(f"{name}() of member {seat.index} gave {bound!r:.60}; it must give what {self._method} does")
        return bound

    def _call_by_name(self, seat: Seat, views: tuple[Any, ...]) -> Any:
        """For one that has no such method: it says so whenever it is asked."""
        return getattr(seat.value, self._method)(*views)

    def ask(self, items: list[int]) -> None:
        """Marks items as asked, for a ring that came by message; the others are answered for elsewhere."""
        for item in self._mine.intersection(items):
            self._asked[item] = 1

    def serve_from_afar(self, items: list[int], rows: Any, inputs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Serves where memory is not shared: takes the inputs of these items in, gives their outputs and states out.

        Args:
            items: Who is asked.
            rows: The numbers of their rows, item after item.
            inputs: Name → [rows, …].
        """
        for name, values in inputs.items():
            self._arrays[name][rows] = values
        self._arrays["asked"][:] = 0
        self._arrays["asked"][items] = 1
        self._arrays["state"][:] = IDLE
        self.serve()
        outputs = [name for name in self._arrays if name not in {*inputs, "asked", "state"}]
        return {name: self._arrays[name][rows] for name in outputs}, self._arrays["state"][items]

    def distrust(self, seat: Seat) -> None:
        """The member has been seen to draw, in another call: from now on it is swapped here too."""
        for item, other, _ in self._items:
            if other is seat:
                self._note(item, quiet=False)

    def serve(self) -> None:
        """Runs every asked item."""
        entries = self._asked_entries()
        if 0 in self._quiet:
            self._serve_mixed(entries)
        elif 0 < len(entries) <= self._group_size and self._host.crowd is None:  # as nearly always
            self._serve_group(entries)
        else:
            self._serve_watched(entries)

    def _serve_mixed(self, entries: list[Entry]) -> None:
        for quiet, some in groupby(entries, lambda entry: self._quiet[entry[0]]):
            if quiet:
                self._serve_watched(list(some))
            else:
                for entry in some:
                    self._serve_swapped(*entry)

    def _asked_entries(self) -> list[Entry]:
        asked, block = self._asked, self._block
        if block is not None and asked[block].tobytes() == self._all_asked:
            return self._items
        return [entry for entry in self._items if asked[entry[0]]]

    def _serve_watched(self, entries: list[Entry]) -> None:
        """Runs items whose members are known to leave the process-wide generators alone, group by group."""
        crowd = self._host.crowd
        if crowd is not None:
            for part in _parts(entries, crowd.together):
                self._serve_together(crowd, part)
            return
        while len(entries) > (size := self._group_size):
            self._serve_group(entries[:size])
            entries = entries[size:]
        if entries:
            self._serve_group(entries)

    def _serve_group(self, group: list[Entry]) -> None:
        """Runs a group, and finds out how large the next should be."""
        host = self._host
        if host.retired:
            return
        before = host.isolation.watch()
        host.begin(group[0][1].index)
        start = perf_counter()
        said = self._run(group)
        took = perf_counter() - start
        self._vouch(group, said, before)
        self._group_size = 1 + int(_GROUP_SECONDS * len(group) / (took + 1e-9))
        self._look_whether_straight()

    def _run(self, group: list[Entry]) -> dict[int, Any]:
        """Runs a group, one after another. Hot: what stands in the loop is paid for every env at every step.

        Returns:
            Item → what was returned beside the rows, or raised.
        """
        host, asked = self._host, self._asked
        said: dict[int, Any] = {}
        for item, seat, call in group:
            if host.retired:
                break
            asked[item] = 0  # it has begun: if this process dies now, main knows in whose hands
            host.current = seat.index
            try:
                result = call()
            except BaseException as error:
                result = Raised(error)
            if result is not None:
                said[item] = result
                if self.ends(result):
                    break
        return said

    def ends(self, result: Any) -> bool:
        """Whether the others never begin: it is Ctrl-C, and the round is void."""
        return type(result) is Raised and self._host.interrupted_by(result.error)

    def _serve_together(self, crowd: Crowd, entries: list[Entry]) -> None:
        """Runs items beside each other: while one waits, others go on. Nobody hears of one before all are done.

        If anybody has drawn, or has set a generator and put it back, nobody of them counts: all are run again, one
        after another, and so from then on.
        """
        host = self._host
        SEEDINGS.watch()
        before, seedings = host.isolation.watch(), SEEDINGS.count
        said: dict[int, Any] = {}
        crowd.run(lambda entry: self._run_beside(entry, said), entries, [seat.streams.thread for _, seat, _ in entries])
        if SEEDINGS.count != seedings or not host.isolation.quiet_since(before):
            crowd.together = False
            self._disown(entries, said)
        self._publish(entries, said)

    def _run_beside(self, entry: Entry, said: dict[int, Any]) -> None:
        """Runs one of several that are under way at once."""
        item, seat, call = entry
        host = self._host
        IN_FLIGHT[get_ident()] = seat.index
        self._asked[item] = 0
        host.begin(seat.index)  # for each: the deadline is that of a call, however many take their turn on a thread
        start = perf_counter()
        try:
            result = seat.streams.context.run(call)
        except BaseException as error:
            result = Raised(error)
        host.span(self._method, seat.index, start)
        if result is not None:
            said[item] = result
        del IN_FLIGHT[get_ident()]

    def vouch_for_all(self, said: dict[int, Any], before: Any) -> None:
        """Says what has come of everybody, for somebody who ran all `calls` because they are `straight`."""
        self._vouch(self._items, said, before)

    def _vouch(self, group: list[Entry], said: dict[int, Any], before: Any) -> None:
        """Looks whether anybody of a group drew, and tells what has come of it."""
        host = self._host
        if host.retired:
            return
        if not host.isolation.quiet_since(before):
            self._disown(group, said)
        self._publish(group, said)

    def _publish(self, group: list[Entry], said: dict[int, Any]) -> None:
        """Says that these are done, and what came of them beside their rows."""
        publish()  # whoever sees the marks sees the rows
        if not said and group is self._items and self._block is not None:
            self._state[self._block] = self._all_ready
        else:
            for item, seat, _ in group:
                if item in said:
                    self._report(item, self._told(seat, said[item]))
                else:
                    self._state[item] = READY
        if self._host.ready is not None:
            self._host.ready()

    def _disown(self, group: list[Entry], said: dict[int, Any]) -> None:
        """Somebody drew from a stream that is not its own; who, nobody knows."""
        try:
            self._host.isolation.disown()
        except Exception as error:
            for item, *_ in group:
                self._note(item, quiet=False)
                if not self.ends(said.get(item)):
                    said[item] = Raised(error)

    def _serve_swapped(self, item: int, seat: Seat, call: Callable[[], Any]) -> None:
        host, method = self._host, self._method
        if host.retired:
            return
        self._asked[item] = 0
        host.begin(seat.index)
        start = perf_counter()
        prior = seat.streams.drawn()
        try:
            if seat.stale or seat.error is not None:
                raise seat.error or Stale
            result = host.isolation.run(seat.streams, method, call, ())
        except BaseException as error:
            result = Raised(error)
        host.span(method, seat.index, start)
        if host.retired:
            return
        untraced = not host.traced or host.crowd is not None  # a group's items have no spans of their own
        untraced = untraced and host.isolation.groups_rows
        self._note(item, quiet=method in seat.streams.quiet and not seat.streams.isolated and untraced)
        publish()
        if result is None:
            self._state[item] = READY
        else:
            self._report(item, self._told(seat, result, prior))
        if host.ready is not None:
            host.ready()

    def _note(self, item: int, *, quiet: bool) -> None:
        """Whether an item may be run in a group from now on."""
        self._quiet[item] = quiet
        self._look_whether_straight()

    def _look_whether_straight(self) -> None:
        quick = len(self._items) <= self._group_size
        self.straight = quick and self._host.crowd is None and 0 not in self._quiet

    def _told(self, seat: Seat, result: Any, prior: dict[str, Any] | None = None) -> Result:
        if type(result) is Raised:
            return self._host.mishap(seat, self._method, result.error)
        return self._host.success(seat, result, False, prior)

    def _report(self, item: int, result: Result) -> None:
        # The state first: main may hear at once, set it back, and have the item run again.
        self._state[item] = NEWS
        if self._host.tell is not None:
            self._host.tell((self._number, item, result))


def _parts(entries: list[Entry], together: bool) -> list[list[Entry]]:
    if not together:
        return [[entry] for entry in entries]
    return [entries] if entries else []


def _read_only(array: Any) -> Any:
    view = array.view()
    view.flags.writeable = False
    return view


def _views(arrays: dict[str, Any], names: list[str], where: Any) -> tuple[Any, ...]:
    """A member's rows: a slice of them, or one row; `...` makes even a single number a view to write to."""
    return tuple(arrays[name][where] if isinstance(where, slice) else arrays[name][where, ...] for name in names)
