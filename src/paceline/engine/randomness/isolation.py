"""Process-wide random generators belong to the member that is called, not to the process (law 6).

Each member has its own streams, seeded from its identity. Swapping them around every call would cost every member;
so a member starts out swapped, and once a method has run without touching a generator it is only watched. A watched
member that touches one after all is *stale*: it drew from the wrong stream, so it is rebuilt, its journal is
replayed with swapping on, and the call is made again.

    Swapping   one caller at a time (inline, process, ray): swap or watch, as above
    Refusing   many at once (threads): a touch cannot be pinned to one member, so it is an error; or they take turns
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import Context
from functools import partial
from typing import Any

from paceline.engine.host.row_threads import Crowd, on_a_crowds_thread
from paceline.engine.interrupts import UNINTERRUPTED, was_pressed
from paceline.engine.randomness.generators import GENERATORS
from paceline.engine.randomness.seed_watch import SEEDINGS
from paceline.seeds import Key, sequence


class Stale(Exception):
    """The member drew from a stream that is not its own; rebuild it with swapping on and call again."""


class Shared(Exception):
    """Somebody drew from a process-wide generator on threads. The caller gets `SharedRandomness` for it; a member that
    raises that by itself, because it has a pool of its own, has merely raised."""


Root = int | Mapping[str, int]
"""What streams follow from, beside their key: one number, or one for each generator by its name."""


def fresh_streams(root: Root, key: Key) -> dict[str, Any]:
    """The states of newly seeded streams of all generators that are here."""
    if not isinstance(root, Mapping):
        return GENERATORS.fresh(_words(root, key))
    known = GENERATORS.known()
    return {name: generator.fresh(_words(root.get(name, 0), key)) for name, generator in known.items()}


def _words(root: int, key: Key) -> list[int]:
    return [int(word) for word in sequence(root, "streams", key).generate_state(4)]


class Streams:
    """One member's streams of the process-wide generators."""

    __slots__ = ("_key", "_seed", "context", "isolated", "on_trial", "quiet", "repeatable", "states", "thread")

    def __init__(self, seed: Root, key: Key, *, isolated: bool) -> None:
        self._seed, self._key = seed, key
        self.states: dict[str, Any] = fresh_streams(seed, key)
        self.isolated = isolated  # swapped in every call from now on
        self.on_trial = False  # rebuilt because somebody of its group drew: the next call shows whether it was this one
        self.quiet: set[str] = set()  # methods that have run without a touch
        self.repeatable = True  # its member can be rebuilt, and asked again
        self.thread = -1  # of its host's crowd, if it is a member there, and
        self.context = Context()  # what its code finds set there: NumPy's errors, decimal's precision …

    def begin(self) -> dict[str, Any]:
        """The states to swap in; torch may have been imported since they were made."""
        if len(GENERATORS.known()) > len(self.states):
            self.states = {**fresh_streams(self._seed, self._key), **self.states}
        return self.states

    def acquit(self) -> None:
        """It did not draw when it mattered; unless it has ever drawn, watching it is enough again."""
        self.on_trial = False
        self.isolated = self.states != fresh_streams(self._seed, self._key)

    def drawn(self) -> dict[str, Any] | None:
        """What a rebuild needs of the streams: nothing if the member has never drawn."""
        return self.states if self.isolated else None


class Swapping:
    """For hosts that run one call at a time, but for rows of members that are known not to draw."""

    groups_rows = True
    """Whether rows of members that are known not to draw are run in groups, with one look after each group."""

    def __init__(self, alone: bool = False, interruptible: bool = False, crowd: Crowd | None = None) -> None:
        self._crowd = crowd
        self.alone = alone  # nobody but members draws in this process: what was seen after one call still holds
        self._interruptible = interruptible  # Ctrl-C goes before: the member it met is rebuilt
        self._outside: dict[str, Any] = {}
        self.outside_peek: tuple[object, ...] = ()
        """What the generators looked like when their states were last remembered, if that still holds."""

    def run(self, streams: Streams, name: str, function: Callable[..., Any], args: Any, keep: bool = True) -> Any:
        """Runs one call of a member. `keep=False` is a read: it leaves the streams as they were.

        Raises:
            Stale: the member must be rebuilt with swapping on.
        """
        if self._crowd is not None and streams.thread >= 0:
            function = partial(self._crowd.call, streams.thread, streams.context.run, function)
        if streams.isolated or name not in streams.quiet:
            return self._swapped(streams, name, function, args, keep)
        # Hot: `watch` and `quiet_since` are called only if there is something to do.
        before = (self.alone and self.outside_peek) or self.watch()
        try:
            answer = function(*args)
        except BaseException as error:
            if not self.quiet_since(before):
                if self._passes(error):
                    self.put_back()
                else:
                    self.disown()
            raise
        if GENERATORS.peek() != before and not self.quiet_since(before):
            self.disown()
        return answer

    def _passes(self, error: BaseException) -> bool:
        return self._interruptible and was_pressed(error)

    def quiet_since(self, before: tuple[object, ...]) -> bool:
        """Whether nobody has drawn since."""
        if GENERATORS.peek() == before:
            return True
        self.outside_peek = ()  # torch may have been imported, and nothing else: look afresh the next time
        return not GENERATORS.touched(before)

    def watch(self) -> tuple[object, ...]:
        """Begins to watch: remembers the states outside, if they have changed since the last time."""
        if self.alone and self.outside_peek:
            return self.outside_peek
        before = GENERATORS.peek()
        if before != self.outside_peek:
            self._outside, self.outside_peek = GENERATORS.save(), before
        return before

    def disown(self) -> None:
        """Puts the states outside back as they were before a watched call touched them."""
        self.put_back()
        raise Stale

    def put_back(self) -> None:
        """Puts the states outside back as they were when somebody began to watch, if anybody has drawn since."""
        if GENERATORS.peek() != self.outside_peek:
            GENERATORS.restore(self._outside)
            self.outside_peek = GENERATORS.peek()

    def _swapped(self, streams: Streams, name: str, function: Callable[..., Any], args: Any, keep: bool) -> Any:
        outside = GENERATORS.save()
        states = streams.begin()
        # A state may come from a process that had imported torch where this one has not yet: it has to wait for that.
        loaded = {name: state for name, state in states.items() if name in GENERATORS.known()}
        before: tuple[object, ...] = ()
        homeless, passing, on_main = False, False, UNINTERRUPTED.on_main()
        try:
            with UNINTERRUPTED:  # else the caller could be left with a stream that is not its own, or half of one
                GENERATORS.load(loaded)
                before = GENERATORS.peek()
                SWAPPED_IN.append(streams)
            return function(*args)
        except KeyboardInterrupt as error:
            passing = self._passes(error)
            raise
        finally:
            UNINTERRUPTED.depth += on_main  # at once: to call something would be a chance to be interrupted
            with UNINTERRUPTED:
                UNINTERRUPTED.depth -= on_main
                if SWAPPED_IN and SWAPPED_IN[-1] is streams:
                    SWAPPED_IN.pop()
                if before:
                    homeless = self._learn(streams, name, keep, loaded, before)
                self._leave(outside)
                self.outside_peek = ()  # the same state need not lie in memory as it did
            if homeless and not passing:
                raise Stale  # torch was imported and drawn from in this very call, before it had a stream

    def _leave(self, outside: dict[str, Any]) -> None:
        """Puts the states outside back after a swapped call."""
        GENERATORS.restore(outside)

    @staticmethod
    def _learn(streams: Streams, name: str, keep: bool, loaded: dict[str, Any], before: tuple[object, ...]) -> bool:
        """Remembers whether a swapped call drew. Returns whether it drew from a generator that it has no stream of."""
        touched = GENERATORS.touched(before)
        homeless = any(generator not in loaded for generator in touched)
        if touched and keep and not homeless:
            streams.isolated, streams.on_trial = True, False
            streams.states = {**streams.states, **GENERATORS.save()}
        elif not touched:
            streams.quiet.add(name)
            if streams.on_trial and keep:
                streams.acquit()
        return homeless


class Refusing:
    """For hosts on threads."""

    groups_rows = False

    def __init__(self, interruptible: bool = False) -> None:
        self._interruptible = interruptible

    def run(self, streams: Streams, name: str, function: Callable[..., Any], args: Any, keep: bool = True) -> Any:
        """Runs one call of a member.

        Raises:
            Shared: somebody drew from a process-wide generator meanwhile.
        """
        before = self.watch()
        try:
            answer = function(*args)
        except BaseException as error:
            if not (self._interruptible and was_pressed(error)):
                self._vouch(before)
            raise
        self._vouch(before)
        return answer

    def _vouch(self, before: tuple[object, ...]) -> None:
        if not self.quiet_since(before):
            raise Shared(self._complaint(GENERATORS.touched(before[1:])))

    @staticmethod
    def quiet_since(before: tuple[object, ...]) -> bool:
        """Whether nobody has drawn since, nor set a generator for a while: another may have drawn meanwhile."""
        return SEEDINGS.count == before[0] and (GENERATORS.peek() == before[1:] or not GENERATORS.touched(before[1:]))

    def watch(self) -> tuple[object, ...]:
        """Begins to watch."""
        SEEDINGS.watch()
        return SEEDINGS.count, *GENERATORS.peek()

    def disown(self) -> None:
        """A watched call drew."""
        raise Shared(self._complaint(()))

    @staticmethod
    def _complaint(touched: tuple[str, ...]) -> str:
        names = " and ".join(touched) or "a process-wide random generator"
        members = ", ".join(str(member) for member in sorted(IN_FLIGHT.values())) or "none"
        return (
            f"{names} was drawn from or set while these members were in flight on threads: {members}. "
            "Draws on threads cannot be told apart, so they would not be reproducible. Give each member a generator "
            "of its own (numpy.random.default_rng), or use processes"
        )


SWAPPED_IN: list[Streams] = []
"""The members whose streams are swapped in, the one that is called last: another pool may be called within a call."""

IN_FLIGHT: dict[int, int] = {}
"""Thread → the member that it is running beside others."""


def on_a_worker_thread() -> bool:
    """Whether whoever asks is run by a worker that is a thread: other members may run beside it in this process."""
    return threading.get_ident() in IN_FLIGHT or on_a_crowds_thread()


class Building:
    """Held by one thread at a time, until it leaves or is given up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: int | None = None

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._thread is None)
            self._thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self.forget(threading.get_ident())

    def forget(self, thread: int | None) -> None:
        """A thread has left, or nobody waits for it any more."""
        with self._changed:
            if self._thread == thread:
                self._thread = None
                self._changed.notify_all()


BUILDING = Building()
"""Members on threads are built one at a time: libraries are seldom safe in their constructors."""
