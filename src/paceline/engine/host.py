"""A Host holds members and runs their calls; every backend ends here.

    request ──► handle ──► build · call · map · bind · ring · snapshot · drop · close ──► reply

It knows nothing of where it lives: inline it is called directly, elsewhere a loop feeds it. A call that raises is an
answer like any other; only the death of the process is not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from paceline.engine import wire
from paceline.engine.isolation import Refusing, Stale, Streams, Swapping
from paceline.engine.journal import Base, outputs_differ
from paceline.errors import MemberExit, NotSendable, ReplayDiverged, SharedRandomness, TooLarge
from paceline.seeds import Key, check

OK, ERROR, STALE = range(3)
Result = tuple[int, int, Any, int, Any]
"""(member or item, kind, packed answer or error, check of the answer, where its journal may start anew)"""

IDLE, READY, NEWS = range(3)
"""What a port says of an item: not done, done, done and there is a message about it."""

MAX_MESSAGE = 256 << 20

_log = logging.getLogger("paceline")


class Anew:
    """A member's way to say: what I am now depends on my recipe and this call alone, forget what was before.

    Return `Anew(answer)` from a method (a seeded reset, say) and the caller gets `answer`. With `state`, a rebuild
    calls the member's `restore(state)` in place of running this call again.
    """

    __slots__ = ("answer", "state")

    def __init__(self, answer: Any = None, state: Any = None) -> None:
        self.answer = answer
        self.state = state


class Seat:
    """One member in its host."""

    __slots__ = ("deterministic", "error", "index", "stale", "streams", "value")

    def __init__(self, index: int, streams: Streams, deterministic: bool) -> None:
        self.index = index
        self.streams = streams
        self.deterministic = deterministic
        self.value: Any = None
        self.error: BaseException | None = None  # it could not be built; every call says so
        self.stale = False  # awaiting its rebuild; what is called meanwhile is called again afterwards


class BoundPort:
    """A method and the rows that it works on."""

    def __init__(
        self, method: str, arrays: dict[str, Any], items: list[tuple[int, Seat, Any, tuple[Any, ...]]]
    ) -> None:
        self.method = method
        self.arrays = arrays
        self.items = items
        self.asked = memoryview(arrays["asked"])
        self.state = memoryview(arrays["state"])


class Host:
    """Holds members and runs their calls, one at a time."""

    def __init__(
        self,
        *,
        seed: int = 0,
        traced: bool = False,
        here: bool = False,
        isolation: Swapping | Refusing | None = None,
        mark: Callable[[int], None] | None = None,
        tell: Callable[[tuple[Any, ...]], None] | None = None,
        max_message: int = MAX_MESSAGE,
    ) -> None:
        self._seed = seed
        self._here = here
        self._traced = traced
        self._isolation = isolation or Swapping()
        self._mark = mark
        self._tell = tell
        self._max_message = max_message
        self._seats: dict[int, Seat] = {}
        self._functions: dict[int, tuple[Callable[[Any], Any], Streams]] = {}
        self._ports: dict[int, BoundPort] = {}
        self._spans: list[tuple[str, int, float, float]] = []

    def handle(self, request: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """Runs one request. Returns its answer and the spans of what was run, if traced."""
        answer = getattr(self, "_on_" + request[0])(*request[1:])
        spans, self._spans = self._spans, []
        return answer, spans

    # -- members --------------------------------------------------------------------------------------

    def _on_build(self, items: list[tuple[Any, ...]]) -> list[Result]:
        return [self._build(*item) for item in items]

    def _build(
        self, index: int, key: Key, recipe: Any, base: Any, entries: Any, isolated: bool, deterministic: bool
    ) -> Result:
        self._begin(index)
        seat = self._seats[index] = Seat(index, Streams(self._seed, key, isolated=isolated), deterministic)
        start = perf_counter()
        try:
            self._construct(seat, recipe)
            self._restore(seat, base)
            for number, entry in enumerate(entries):
                self._replay(seat, number, entry)
        except Stale:  # it draws late in its life: once more, swapped from the start
            if isolated:
                raise
            return self._build(index, key, recipe, base, entries, True, deterministic)
        except Exception as error:
            seat.error = error
            return self._failure(index, error)
        except SystemExit as error:
            seat.error = MemberExit(f"member {index} called sys.exit({error.code!r}) while it was built")
            return self._failure(index, seat.error)
        self._span("rebuild" if entries or base else "build", index, start)
        able = hasattr(seat.value, "snapshot") and hasattr(seat.value, "restore")
        abilities = {"snapshots": able, "isolated": seat.streams.isolated}
        return index, OK, abilities, 0, None

    def _construct(self, seat: Seat, recipe: Any) -> None:
        factory = recipe if callable(recipe) else wire.unpack(recipe)
        try:
            seat.value = self._isolation.run(seat.streams, "__init__", factory, ())
        except Stale:  # it imported torch and drew from it: now that torch is there, it gets its own stream
            seat.value = self._isolation.run(seat.streams, "__init__", factory, ())

    def _restore(self, seat: Seat, base: Any) -> None:
        if base is None:
            return
        snapshot, streams = base
        if snapshot is not None:
            self._isolation.run(seat.streams, "restore", seat.value.restore, (wire.fresh(snapshot),))
        if streams is not None:
            seat.streams.states, seat.streams.isolated = streams, True

    def _on_snapshot(self, indices: list[int]) -> list[Result]:
        return [self._snapshot(self._seats[index]) for index in indices]

    def _snapshot(self, seat: Seat) -> Result:
        self._begin(seat.index)
        try:
            state = self._isolation.run(seat.streams, "snapshot", seat.value.snapshot, (), False)
            return seat.index, OK, None, 0, (wire.settle(wire.pack(state)), seat.streams.drawn())
        except Exception as error:
            return self._failure(seat.index, error)

    def _on_drop(self, indices: list[int]) -> None:
        for index in indices:
            seat = self._seats.pop(index, None)
            if seat is not None:
                self._close(seat)

    def _on_close(self) -> None:
        self._on_drop(list(self._seats))

    def _close(self, seat: Seat) -> None:
        close = getattr(seat.value, "close", None)
        if not callable(close):
            return
        self._begin(seat.index)
        try:
            self._isolation.run(seat.streams, "close", close, (), False)
        except (Exception, SystemExit) as error:
            _log.warning("member %d raised in close(): %s: %s", seat.index, type(error).__name__, error)

    # -- calls ----------------------------------------------------------------------------------------

    def _on_call(self, method: str, record: bool, items: list[tuple[int, wire.Packed]]) -> list[Result]:
        return [self._call(self._seats[index], method, record, packed) for index, packed in items]

    def _call(self, seat: Seat, method: str, record: bool, packed: wire.Packed) -> Result:
        index = seat.index
        if seat.stale:
            return index, STALE, None, 0, None
        if seat.error is not None:
            return self._failure(index, seat.error)
        self._begin(index)
        start = perf_counter() if self._traced else 0.0
        prior = seat.streams.drawn()
        try:
            # Here the packed arguments are the journal's own: a member gets a copy that it may change.
            args = wire.fresh(packed) if self._here else wire.unpack(packed)
            answer = self._isolation.run(seat.streams, method, getattr(seat.value, method), args, record)
        except (Exception, SystemExit) as error:
            return self._mishap(seat, method, error)
        finally:
            if self._traced:
                self._span(method, index, start)
        return self._success(seat, answer, record, prior)

    def _success(self, seat: Seat, answer: Any, record: bool, prior: dict[str, Any] | None) -> Result:
        base = None
        try:
            if type(answer) is Anew:
                base = self._base(seat, answer, prior)
                answer = answer.answer
            packed = self._packed(answer)
        except (NotSendable, TooLarge) as error:
            return self._failure(seat.index, error)
        return seat.index, OK, packed, check(answer) if record else 0, base

    def _base(self, seat: Seat, anew: Anew, prior: dict[str, Any] | None) -> Base:
        """Where a rebuild starts: from this state, or from the recipe and the streams before this very call."""
        if anew.state is None:
            return None, prior
        return wire.settle(wire.pack(anew.state)), seat.streams.drawn()

    def _packed(self, answer: Any) -> wire.Packed:
        packed = wire.pack(answer)
        size = wire.size(packed)
        if size > self._max_message:
            raise TooLarge(
                f"an answer of {size / 1e6:.0f} MB is above the limit of {self._max_message / 1e6:.0f} MB; "
                "answer less, or raise the pool's max_message"
            )
        return wire.settle(packed) if self._here else packed

    def _failure(self, index: int, error: BaseException) -> Result:
        return index, ERROR, error if self._here else wire.pack_error(error), check(type(error).__qualname__), None

    # -- map ------------------------------------------------------------------------------------------

    def _on_define(self, number: int, function: Any) -> None:
        function = function if callable(function) else wire.unpack(function)
        self._functions[number] = function, Streams(self._seed, ("map", number), isolated=False)

    def _on_forget(self, number: int) -> None:
        self._functions.pop(number, None)

    def _on_map(self, number: int, items: list[tuple[int, wire.Packed]]) -> list[Result]:
        return [self._map(*self._functions[number], *item) for item in items]

    def _map(self, function: Callable[[Any], Any], general: Streams, index: int, packed: wire.Packed) -> Result:
        """An item is stateless, so one that turns out to draw is simply run again with streams of its own."""
        self._begin(index)
        start = perf_counter()
        try:
            try:
                if general.isolated:
                    raise Stale
                general.quiet.add("map")
                answer = self._isolation.run(general, "map", function, (wire.fresh(packed),))
            except Stale:
                general.isolated = True
                own = Streams(self._seed, ("map", index), isolated=True)
                answer = self._isolation.run(own, "map", function, (wire.fresh(packed),))
            outcome = index, OK, self._packed(answer), 0, None
        except Exception as error:
            outcome = self._failure(index, error)
        except SystemExit as error:
            outcome = self._failure(index, MemberExit(f"item {index} called sys.exit({error.code!r})"))
        self._span("map", index, start)
        return outcome

    # -- ports ----------------------------------------------------------------------------------------

    def _on_bind(self, number: int, method: str, rows: dict[int, Any], arrays: dict[str, Any]) -> None:
        """Binds `method` of the members named in `rows` (member → item and slice of rows) to the arrays."""
        names = [name for name in arrays if name not in ("asked", "state")]
        items = []
        for index, (item, where) in rows.items():
            seat = self._seats[index]
            views = tuple(
                arrays[name][where] if isinstance(where, slice) else arrays[name][where, ...] for name in names
            )
            items.append((item, seat, getattr(seat.value, method, None), views))
        self._ports[number] = BoundPort(method, arrays, items)

    def _on_unbind(self, number: int) -> None:
        self._ports.pop(number, None)

    def _on_ring(self, number: int, items: list[int]) -> None:
        for item in items:
            self._ports[number].asked[item] = 1
        self._serve(number, self._ports[number])

    def _on_ship(self, number: int, rows: dict[str, Any], asked: Any) -> tuple[dict[str, Any], Any]:
        """A ring from afar: inputs come with it, outputs go back with the answer."""
        port = self._ports[number]
        for name, values in rows.items():
            port.arrays[name][:] = values
        port.arrays["asked"][:] = asked
        port.arrays["state"][:] = IDLE
        self._serve(number, port)
        outputs = {n: a for n, a in port.arrays.items() if n not in rows and n not in ("asked", "state")}
        return outputs, port.arrays["state"]

    def serve_ports(self) -> None:
        """Runs every item that has been asked for on any port."""
        for number, port in self._ports.items():
            self._serve(number, port)

    def _serve(self, number: int, port: BoundPort) -> None:
        asked, state, method = port.asked, port.state, port.method
        for item, seat, function, views in port.items:
            if not asked[item]:
                continue
            asked[item] = 0
            if self._mark is not None:
                self._mark(seat.index)
            start = perf_counter() if self._traced else 0.0
            prior = seat.streams.drawn()
            try:
                if function is None or seat.stale or seat.error is not None:
                    raise seat.error or Stale
                result = self._isolation.run(seat.streams, method, function, views)
            except (Exception, SystemExit) as error:
                self._report(number, item, self._mishap(seat, method, error))
                state[item] = NEWS
                continue
            finally:
                if self._traced:
                    self._span(method, seat.index, start)
            if result is None:
                state[item] = READY
            else:
                self._report(number, item, self._success(seat, result, False, prior))
                state[item] = NEWS

    def _mishap(self, seat: Seat, method: str, error: BaseException) -> Result:
        # What drew from a stream that is not its own is not what it should be: it must be rebuilt.
        seat.stale = isinstance(error, Stale | SharedRandomness)
        if isinstance(error, Stale):
            return seat.index, STALE, None, 0, None
        if isinstance(error, SystemExit):
            error = MemberExit(f"member {seat.index} called sys.exit({error.code!r}) in {method}()")
        return self._failure(seat.index, error)

    def _report(self, number: int, item: int, outcome: Result) -> None:
        if self._tell is not None:
            self._tell((number, item, outcome))

    # -- replay ---------------------------------------------------------------------------------------

    def _replay(self, seat: Seat, number: int, entry: tuple[Any, ...]) -> None:
        getattr(self, "_replay_" + entry[0])(seat, number, *entry[1:])

    def _replay_call(self, seat: Seat, number: int, method: str, packed: wire.Packed, expected: int) -> None:
        try:
            args = wire.fresh(packed)
            answer = self._isolation.run(seat.streams, method, getattr(seat.value, method), args)
            got = check(answer.answer if type(answer) is Anew else answer)
        except Stale:
            raise
        except Exception as error:
            got = check(type(error).__qualname__)
        except SystemExit:
            got = check(MemberExit.__qualname__)
        if got != expected:
            raise ReplayDiverged(_divergence(seat.index, f"call {number}, {method}(),"))

    def _replay_told(self, seat: Seat, number: int, method: str, packed: wire.Packed, answer: wire.Packed) -> None:
        """A member that is not deterministic is told what it answered; it is never asked again."""
        recall = getattr(seat.value, "recall", None)
        if recall is not None:
            self._isolation.run(seat.streams, "recall", recall, (method, wire.fresh(packed), wire.fresh(answer)))

    def _replay_port(
        self, seat: Seat, number: int, method: str, inputs: list[Any], blanks: list[Any], expected: list[Any]
    ) -> None:
        function = getattr(seat.value, method)
        outputs = [np.zeros_like(blank) for blank in blanks]
        for step in range(len(inputs[0]) if inputs else 0):
            try:
                self._isolation.run(seat.streams, method, function, (*(rows[step] for rows in inputs), *outputs))
            except Stale:
                raise
            except Exception as error:  # it raised the first time too, and the caller was told then
                _log.debug("member %d raised %s again in replay", seat.index, type(error).__name__)
        if outputs_differ(outputs, expected):
            raise ReplayDiverged(_divergence(seat.index, f"the last of {len(inputs[0])} runs of {method}()"))

    # -- small things ---------------------------------------------------------------------------------

    def _begin(self, index: int) -> None:
        if self._mark is not None:
            self._mark(index)

    def _span(self, name: str, index: int, start: float) -> None:
        if self._traced:
            self._spans.append((name, index, start, perf_counter()))


def _divergence(index: int, what: str) -> str:
    return (
        f"member {index} was rebuilt after its worker was lost, and {what} gave another answer than before. "
        "It is not a function of its recipe and its calls (time? network? hash order?); "
        "`paceline doctor` looks for the cause. Declare it with deterministic=False if that is meant"
    )
