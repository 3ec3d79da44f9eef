"""The contract between a pool and the places where its workers run, and the look-up of a place by name.

    Pool ──send(request)──► Worker ──► Host somewhere ──► Worker ──receive()──► reply, in the same order

A backend is a module of this package, or an entry point in the group `paceline.backends`; its name is the word that
users write in a plan. Whoever adds one implements `Backend` and `Worker` below and passes the contract tests.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Protocol

from paceline.engine.host.host import MAX_MESSAGE
from paceline.engine.planning.budget import Budget
from paceline.errors import BadInput, PlanNotMet

Request = tuple[Any, ...]
Reply = tuple[str, Any]
"""("reply", (answer, spans)) for a request, in order; ("news", …) from a port at any time."""

_BUILT_IN = {
    "inline": "inline",
    "thread": "thread",
    "process": "process.handle",
    "ray": "ray.handle",
}  # name → its module
_EXTRAS = {"ray": "ray"}


class Gone(Exception):
    """A worker has died. Holds how it ended, in words, and the last lines that it wrote; and whether it died with what
    had started it, so that nothing that it ran is to blame."""

    def __init__(self, how: str, last_words: str = "", *, with_its_server: bool = False) -> None:
        super().__init__(how)
        self.how = how
        self.last_words = last_words
        self.with_its_server = with_its_server


@dataclass(frozen=True)
class Settings:
    """What every worker of a pool is started with."""

    seed: int | Mapping[str, int] = 0
    """Root of the streams of members; or one for each process-wide generator, by its name."""
    traced: bool = False
    max_message: int = MAX_MESSAGE
    beside_threads: bool = False
    """Whether the caller's own process runs members on threads too: then nobody's generators are swapped there."""
    threads: int = 1
    """How many rows of a port a worker that is a process runs at once."""
    may_leave: bool = False
    """Whether members that may not be run on a thread are taken away from it: under auto."""
    draw_alone: bool = False
    """Whether members on threads that draw from process-wide generators take turns; otherwise to draw is an error."""
    alone_first: bool = False
    """Whether each of their methods runs alone until it has been seen not to draw."""
    data_only: bool = False
    """Whether workers are trusted with data only: then nothing that comes back from one is unpickled."""
    budget: Budget = field(default_factory=Budget.of_machine)


class Worker(Protocol):
    """One Host, wherever it lives."""

    number: int
    backend: str
    pid: int
    in_process: bool
    """Lives in the caller's process: recipes need not travel, arrays are the caller's own."""
    shares_memory: bool
    """Reads and writes a port's rows in memory that the caller sees too."""
    can_kill: bool
    rings: bool
    """Is told of a port's rows by `ring`, without a message; then it also has `help`, `has_served`, `listen`."""

    def send(self, request: Request, descriptor: int | None = None) -> None:
        """Hands a request over without waiting."""

    def receive(self) -> Reply | None:
        """Gives the next reply, or None. Raises `Gone` when the worker has died and all it said has been read."""

    def busy_since(self) -> float | None:
        """When the call in hand began (`time.monotonic`); None if that cannot be known."""

    def kill(self) -> None:
        """Ends the worker at once. `receive` raises `Gone` from then on."""

    def kill_the_hung(self) -> None:
        """Like `kill`; a worker that can first writes down where it is."""

    def abandon(self) -> None:
        """Ends the worker from a finaliser: at once, without taking a lock, waiting, or raising."""

    def say_goodbye(self) -> None:
        """Asks the members to close, without waiting: all workers of a pool close at the same time. But those that live
        in the caller's own thread are closed when it returns."""

    def close(self, grace: float) -> None:
        """Waits for the goodbye, `grace` seconds at the most, then ends the worker. Never raises."""


class Backend(Protocol):
    """A place where workers run."""

    name: str
    # reads_data: bool, optional: whether it keeps `Settings.data_only`. A plan with trust="data" refuses one without.

    def start(self, numbers: Sequence[int], settings: Settings) -> list[Any]:
        """Starts workers, all at once. Raises `PlanNotMet` if that cannot be done, and leaves none behind."""

    def wait(self, workers: Sequence[Any], timeout: float | None) -> bool:
        """Returns True when one of the workers may have something to receive, False after `timeout` seconds."""


def find(name: str) -> Backend:
    """Gives the backend of that name.

    Raises:
        BadInput: there is none.
        PlanNotMet: it needs a package that is not installed; the message says which extra brings it.
    """
    if name in _BUILT_IN:
        return _load_built_in(name)
    for point in entry_points(group="paceline.backends"):
        if point.name == name:
            backend: Backend = point.load()()
            return backend
    raise BadInput(f"no backend is called {name!r}; there are {', '.join(names())}")


def names() -> list[str]:
    """The backends that can be named, installed or not."""
    return [*_BUILT_IN, *sorted(point.name for point in entry_points(group="paceline.backends"))]


def _load_built_in(name: str) -> Backend:
    extra = _EXTRAS.get(name)
    if extra is not None and importlib.util.find_spec(name) is None:
        raise PlanNotMet(f"the backend {name!r} needs a package that is not installed: pip install 'paceline[{extra}]'")
    module = importlib.import_module(f"paceline.engine.workers.{_BUILT_IN[name]}")
    backend: Backend = module.BACKEND
    return backend
