"""A Host holds members and runs their calls; every backend ends here.

    request ──► handle ──► prepare · build · call · map · bind · ring · snapshot · drop · close ──► reply

It knows nothing of where it lives: inline it is called directly, elsewhere a loop feeds it. A call that raises is an
answer like any other; only the death of the process is not.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from time import perf_counter, perf_counter_ns
from typing import Any

from paceline.engine.host.bound_port import BoundPort
from paceline.engine.host.map_function import HostedFunction
from paceline.engine.host.member import ERROR, OK, SHARED, STALE, UNFIT, Anew, Result, Seat, ability
from paceline.engine.host.ordinary_calls import allows_ordinary_calls, make_ordinary_calls
from paceline.engine.host.row_threads import Crowd
from paceline.engine.host.store import Store
from paceline.engine.host.tables import Told, adopt_all
from paceline.engine.host.thread_errors import speaks_of_threads
from paceline.engine.interrupts import UNINTERRUPTED, was_pressed
from paceline.engine.journal.fingerprint import SMALL, echo_of
from paceline.engine.journal.journal import Base
from paceline.engine.journal.replay import replay
from paceline.engine.pool.packing import check_size
from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.isolation import Refusing, Root, Shared, Stale, Streams, Swapping
from paceline.engine.transport import codec, plain_data
from paceline.errors import MemberExit, ReplayDiverged, SharedRandomness
from paceline.seeds import Key, check

MAX_MESSAGE = 256 << 20

_log = logging.getLogger("paceline")

_NAMED: dict[str, Callable[..., list[int]]] = {
    "build": lambda items: [item[0] for item in items],
    "call": lambda method, record, items: [index for index, _ in items],
    "map": lambda number, items: [index for index, _ in items],
    "snapshot": lambda indices: indices,
    "bind": lambda number, method, rows, inputs, arrays: [item for item, _ in rows.values()],
}
"""Who is to be answered for, of the requests that are answered one by one."""


def named_in(request: tuple[Any, ...]) -> list[int]:
    """Who is to be answered for."""
    op, *content = request
    return list(_NAMED[op](*content)) if op in _NAMED else []


class Host:
    """Holds members and runs their calls, one at a time; rows of members that wait, if it has threads for them, beside
    each other."""

    def __init__(
        self,
        *,
        seed: Root = 0,
        traced: bool = False,
        here: bool = False,
        interruptible: bool = False,
        isolation: Swapping | Refusing | None = None,
        alone: bool = False,
        mark: Callable[[int], None] | None = None,
        tell: Callable[[tuple[Any, ...]], None] | None = None,
        ready: Callable[[], None] | None = None,
        max_message: int = MAX_MESSAGE,
        threads: int = 1,
        may_leave: bool = False,
        data_only: bool = False,
    ) -> None:
        self.seed = seed
        self._here = here
        self._interruptible = interruptible  # Ctrl-C in a member's code is the caller's, not the member's
        self.traced = traced
        self.crowd = Crowd(threads) if threads > 1 else None  # runs rows beside each other, for members that wait
        self._context = copy_context()  # what a crowd's members find set, who run on threads that know nothing of it
        self.isolation = isolation or Swapping(alone, crowd=self.crowd)
        self.mark = mark  # tells outside who is called
        self.tell = tell
        self.ready = ready
        self._pack: Callable[[Any], codec.Packed] = plain_data.pack if data_only else codec.pack
        self._data_only = data_only  # main does not trust this host: what goes back is data
        self._max_message = max_message
        self.small = min(max_message, SMALL)  # bytes of an answer that is kept as it is, and travels
        self._may_leave = may_leave  # members that say that they may not be run on its threads are taken away
        self.seats: dict[int, Seat] = {}
        self._functions: dict[int, HostedFunction] = {}
        self.watched: Streams | None = None  # of an item that did not draw, for others that are only watched
        self.store = Store(lambda: self.isolation)  # what items of maps keep here
        self.ports: dict[int, BoundPort] = {}
        self.current = -1  # the member in hand
        self.retired = False  # nobody wants to hear of it any more: a thread that was given up in the middle of a call
        self._spans: list[tuple[str, int, float, float]] = []

    def handle(self, request: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """Runs one request. Returns its answer and the spans of what was run, if traced."""
        try:
            answer = getattr(self, "_on_" + request[0])(*request[1:])
        except BaseException as error:  # ours, or of a member's code that is run where nobody would think of it
            answer = self.refusal(request, self.own_error(error, "a member called sys.exit()"))
        spans, self._spans = self._spans, []
        return answer, spans

    def refusal(self, request: tuple[Any, ...], error: BaseException) -> Any:
        """What comes back of a request that could not be run or answered: its worker lives on; the caller is told."""
        op, *content = request
        if op in _NAMED:
            return [self.failure(index, error) for index in named_in(request)]
        if op in ("ring", "ship") and self.tell is not None:
            for item in content[1]:
                self.tell((content[0], item, self.failure(item, error)))
            return None
        _log.warning("%s failed: %s: %s", op, type(error).__name__, codec.words(error))
        return None

    def _on_prepare(self, told: Told) -> None:
        adopt_all(told)

    # -- members --------------------------------------------------------------------------------------

    def _on_build(self, items: list[tuple[Any, ...]]) -> list[Result]:
        return [self._build(*item) for item in items]

    def _build(
        self, index: int, key: Key, recipe: Any, base: Any, entries: Any, isolated: bool, deterministic: bool
    ) -> Result:
        self.begin(index)
        self._on_drop([index])  # one that is built again: what it holds (a port, a simulator) can be held only once
        seat = self.seats[index] = Seat(index, Streams(self.seed, key, isolated=isolated), deterministic)
        seat.streams.repeatable = deterministic
        start = perf_counter()
        known = len(GENERATORS.known())
        try:
            self._construct(seat, recipe)
            self._restore(seat, base)
            for number, entry in enumerate(entries):
                replay(self.isolation, seat, number, entry, self.begin)
        except Stale as stale:  # it draws late in its life, or has imported torch: once more, swapped from the start
            if isolated and len(GENERATORS.known()) == known:
                seat.error = ReplayDiverged(f"member {index} draws from a stream that nobody knows: {stale!r}")
                return self.failure(index, seat.error)
            return self._build(index, key, recipe, base, entries, True, deterministic)
        except BaseException as error:
            seat.error = self.own_error(error, f"member {index} called sys.exit() while it was built")
            return self.failure(index, seat.error)
        seat.streams.on_trial = isolated and deterministic
        self.span("rebuild" if entries or base else "build", index, start)
        return index, OK, {**self._abilities(seat), "stood": self._stood(seat) if entries or base else ""}, 0, None

    def _stood(self, seat: Seat) -> str:
        """Where a member says that it stands, after what it has been through: for the error if it is lost again."""
        whereabouts = ability(seat.value, "whereabouts")
        with suppress(Exception):
            if whereabouts is not None:
                return str(self.isolation.run(seat.streams, "whereabouts", whereabouts, (), False))
        return ""

    @staticmethod
    def _abilities(seat: Seat) -> dict[str, bool]:
        can = {name: ability(seat.value, name) is not None for name in ("snapshot", "restore", "recall")}
        return {
            "snapshots": can["snapshot"] and can["restore"],
            "recalls": can["recall"],
            "isolated": seat.streams.isolated,
        }

    def _construct(self, seat: Seat, recipe: Any) -> None:
        factory = recipe if callable(recipe) else self._context.run(codec.unpack, recipe)
        if self.crowd is not None:
            seat.streams.thread, seat.streams.context = self.crowd.thread_of(seat.index), self._context.copy()
        try:
            seat.value = self.isolation.run(seat.streams, "__init__", factory, ())
        except Stale:  # it imported torch and drew from it: now that torch is there, it gets its own stream
            seat.value = self.isolation.run(seat.streams, "__init__", factory, ())
        if self.crowd is not None:  # what it set, or a module that it imported, holds for those after it, too
            self._context = seat.streams.context.copy()

    def _restore(self, seat: Seat, base: Any) -> None:
        if base is None:
            return
        snapshot, streams = base
        if snapshot is not None:
            # A read, for its streams: the one that gave the snapshot has not drawn for being restored.
            self.isolation.run(seat.streams, "restore", seat.value.restore, (codec.fresh(snapshot),), False)
        if streams is not None:
            states = streams if isinstance(streams, dict) else pickle.loads(streams)
            seat.streams.states, seat.streams.isolated = states, True

    def _on_snapshot(self, indices: list[int]) -> list[Result]:
        return [self._snapshot(self.seats[index]) for index in indices]

    def _snapshot(self, seat: Seat) -> Result:
        if seat.stale:
            return seat.index, STALE, None, 0, None
        self.begin(seat.index)
        start = perf_counter_ns()
        try:
            if seat.error is not None:
                raise seat.error
            state = self.isolation.run(seat.streams, "snapshot", seat.value.snapshot, (), False)
            base = self._kept(codec.pack(state), seat.streams.drawn())
            return seat.index, OK, None, perf_counter_ns() - start, base
        except BaseException as error:
            return self.raised(seat, "snapshot", error)

    def _on_drop(self, indices: list[int]) -> None:
        with UNINTERRUPTED:  # those, too, that come after one in whose close() Ctrl-C was pressed
            for index in indices:
                self._close(index)

    def _on_close(self) -> None:
        with UNINTERRUPTED:
            self._on_drop(list(self.seats))
            self.store.close()

    def _close(self, index: int) -> None:
        seat = self.seats.pop(index, None)
        close = None if seat is None else ability(seat.value, "close")
        if seat is None or not callable(close):
            return
        self.begin(index)
        try:
            self.isolation.run(seat.streams, "close", UNINTERRUPTED.interruptible, (close,), False)
        except BaseException as error:
            words = codec.words(error)
            _log.warning("member %d raised in close(): %s: %s", index, type(error).__name__, words)

    # -- calls ----------------------------------------------------------------------------------------

    def _on_call(self, method: str, record: bool, items: list[tuple[int, codec.Packed]]) -> list[Result]:
        if not record or not allows_ordinary_calls(self):
            return [self._call(self.seats[index], method, record, packed) for index, packed in items]
        results: list[Result] = []
        calls = iter(items)
        while (odd := make_ordinary_calls(self, method, calls, results)) is not None:
            index, packed = odd
            results.append(self._call(self.seats[index], method, record, packed))
        return results

    def _call(self, seat: Seat, method: str, record: bool, packed: codec.Packed) -> Result:
        if seat.stale:
            return seat.index, STALE, None, 0, None
        if seat.error is not None:
            return self.mishap(seat, method, seat.error)
        self.begin(seat.index)
        start = perf_counter() if self.traced else 0.0
        streams = seat.streams
        prior = streams.drawn() if streams.isolated else None
        try:
            # Here the packed arguments are the journal's own: a member gets a copy that it may change.
            args = codec.fresh(packed) if self._here else codec.unpack(packed)
            answer = self.isolation.run(streams, method, getattr(seat.value, method), args, record)
        except BaseException as error:
            return self.mishap(seat, method, error)
        finally:
            if self.traced:
                self.span(method, seat.index, start)
        if streams.isolated:
            for port in self.ports.values():
                port.distrust(seat)
        return self.success(seat, answer, record, prior)

    def success(self, seat: Seat, answer: Any, record: bool, prior: dict[str, Any] | None) -> Result:
        """What comes back of a call that answered."""
        base = None
        try:
            if type(answer) is Anew:
                base = self._base(seat, answer, prior)
                answer = answer.answer
            packed = self._pack(answer)
            if type(packed) is bytes and len(packed) <= self.small:  # as nearly always
                return seat.index, OK, packed, None if record else 0, base
            packed = self._of_fair_size(packed)
        except BaseException as error:  # NotSendable, TooLarge, or what the answer's own code raises while it is packed
            mine = self.own_error(error, f"an answer of member {seat.index} called sys.exit() when it was packed")
            return self.failure(seat.index, mine)
        return seat.index, OK, packed, echo_of(answer, packed) if record else 0, base

    def _base(self, seat: Seat, anew: Anew, prior: dict[str, Any] | None) -> Base:
        """Where a rebuild starts: from this state, or from the recipe and the streams before this very call."""
        if anew.state is None:
            return self._kept(None, prior)
        return self._kept(codec.pack(anew.state), seat.streams.drawn())

    def _kept(self, state: codec.Packed | None, streams: dict[str, Any] | None) -> Base:
        """A base as main keeps it. Only hosts ever unpack it, so it may hold any object, whatever main trusts."""
        if not self._data_only:
            return None if state is None else codec.settle(state), streams
        if isinstance(state, tuple):
            state = state[0], [bytes(buffer) for buffer in state[1]]
        return state, None if streams is None else pickle.dumps(streams, 5)

    def packed(self, answer: Any) -> codec.Packed:
        """An answer as it travels, or is kept."""
        return self._of_fair_size(self._pack(answer))

    def _of_fair_size(self, packed: codec.Packed) -> codec.Packed:
        check_size("an answer", codec.size(packed), self._max_message, "answer")
        return codec.settle(packed) if self._here else packed

    def failure(self, index: int, error: BaseException) -> Result:
        """What comes back of what raised."""
        kind = ERROR
        if isinstance(error, Shared):
            kind, error = SHARED, SharedRandomness(str(error))
        packed = codec.pack_error_as_data if self._data_only else codec.pack_error
        return index, kind, error if self._here else packed(error), check(type(error).__qualname__), None

    def mishap(self, seat: Seat, method: str, error: BaseException) -> Result:
        """What comes back of a call that raised."""
        result = self.raised(seat, method, error)
        # Who drew, or was stopped halfway, is not what it should be: it must be rebuilt, and not saved as it is.
        seat.stale = result[1] != ERROR
        return result

    def raised(self, seat: Seat, method: str, error: BaseException) -> Result:
        """What comes back of what raised. If that was a read, its member is as it was, unless its streams are not."""
        if isinstance(error, Stale):
            seat.stale = True
            return seat.index, STALE, None, 0, None
        result = self.failure(seat.index, self.own_error(error, f"member {seat.index} called sys.exit() in {method}()"))
        unfit = result[1] == ERROR and self._may_leave and speaks_of_threads(error)
        return (result[0], UNFIT, *result[2:]) if unfit else result

    def interrupted_by(self, error: BaseException) -> bool:
        """Whether that is Ctrl-C, and the caller's to handle."""
        return self._interruptible and was_pressed(error)

    def own_error(self, error: BaseException, exited: str) -> BaseException:
        """What the caller is given for what a member raised; Ctrl-C goes through."""
        if self.interrupted_by(error):
            raise error
        return MemberExit(f"{exited}, with {error.code!r}") if isinstance(error, SystemExit) else error

    # -- map ------------------------------------------------------------------------------------------

    def _on_define(self, number: int, function: Any, draws: bool | None = None) -> None:
        self._functions[number] = HostedFunction(self, function, draws)

    def _on_forget(self, number: int) -> None:
        self._functions.pop(number, None)

    def _on_map(self, number: int, items: list[tuple[int, tuple[Key, codec.Packed]]]) -> list[Result]:
        return [self._functions[number].run(index, *item) for index, item in items]

    # -- ports ----------------------------------------------------------------------------------------

    def _on_bind(
        self, number: int, method: str, rows: dict[int, Any], inputs: list[str], arrays: dict[str, Any]
    ) -> list[Result]:
        """Binds `method` of the members named in `rows` (member → item and slice of rows) to the arrays."""
        seats = {index: self.seats[index] for index in rows}
        port = self.ports[number] = BoundPort(self, number, method, rows, seats, inputs, arrays)
        return port.refused

    def _on_unbind(self, number: int) -> None:
        self.ports.pop(number, None)

    def _on_ring(self, number: int, items: list[int]) -> None:
        self.ports[number].ask(items)
        self.ports[number].serve()

    def _on_ship(self, number: int, items: list[int], rows: Any, inputs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """A ring from afar: inputs come with it, outputs go back with the answer."""
        return self.ports[number].serve_from_afar(items, rows, inputs)

    def serve_ports(self) -> None:
        """Runs every item that has been asked for on any port."""
        for port in self.ports.values():
            port.serve()

    # -- small things ---------------------------------------------------------------------------------

    def begin(self, index: int) -> None:
        """Notes who is called now, for deadlines and for the tags of what it prints."""
        self.current = index
        if self.mark is not None:
            self.mark(index)

    def span(self, name: str, index: int, start: float) -> None:
        """Records what has been run, if anybody wants to know."""
        if self.traced:
            self._spans.append((name, index, start, perf_counter()))
