"""Where things run: what the caller asks for, and what `auto` makes of it by measuring.

    first calls, here, journal on ──► Measured ──► choose ──► Choice(backend, workers, why) ──► Pool.move
                                                                │
                     slower there than it was here? ◄───────────┘  then back, and that is final

A plan never says what is computed. Moving is by snapshot or replay, so that the result is the same whatever is chosen.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from time import perf_counter, process_time

from paceline.engine.planning.budget import Budget
from paceline.errors import BadInput

MEASURE_SECONDS = 0.05
_MIN_ROUNDS = 3
_LONG = 6  # a round that takes so many times as long says enough by itself
_WORTH = 1.2  # a place that promises less than this is not worth a move
_CALL_MESSAGE = 150e-6  # a round of messages to process workers, until it has been measured
_ANOTHER_MESSAGE = 60e-6  # if there is one for each call, say
_RING = 15e-6  # a round through a port
MOST_OWN = 15e-6
"""Seconds of each call that are the caller's own, at most: what it thinks in between is not."""

_THOUGHT = 4  # times the calls themselves: not so few that to be kept from a core now and then looks like it
_THREAD_SWITCH = 60e-6
_STARTING = {"process": 0.05, "thread": 0.0005}  # seconds that a new worker costs: start, rebuild, cold caches
FIRST_PROCESS = 0.4
"""Seconds until there is something to fork workers from."""

_MOVING = 1e-3  # seconds to save a member and to send it, beside building it again
_SURELY = 2.0  # a move is made when it would have paid so often already
_BYTES_PER_SECOND = 1.5e9
_ROW_BYTES_PER_SECOND = 4e9  # out of the cache of another core
TWO_CORES_ARE_NOT_TWICE_ONE = 1.15  # shared caches, memory and turbo: measured on virtual cores
WAITS_BELOW = 0.5  # share of CPU time under which a call counts as waiting


TRUSTS = ("all", "data")
"""What workers may send back: any object, which can run code here when it is unpickled, or data and nothing else."""


@dataclass(frozen=True)
class Plan:
    """Where members run, never what they compute.

    Attributes:
        backend: "auto" or the name of a backend.
        workers: How many; None leaves it to the budget.
        agents: How a job runs the policies of one episode; the engine does not look at it.
        helps: The caller's process takes a share of the members too, beside the workers.
        isolate: Nobody lives in the caller's process: a member that crashes cannot take the caller along.
        why: In one sentence, why this and not another.
        threads: How many envs of a vector each worker steps at once, for envs that wait; workers are processes then.
        trust: What workers may send back. "all": any object. "data": arrays, numbers, text and plain containers only,
            so that no answer, error or log record can run code in the caller's process; whatever else a member
            answers is a `NotData` error of that member. Implies `isolate`.
    """

    backend: str = "auto"
    workers: int | None = None
    agents: str | None = None
    isolate: bool = False
    why: str = "as asked"
    helps: bool = False
    threads: int = 1
    trust: str = "all"

    def __post_init__(self) -> None:
        if self.trust not in TRUSTS:
            raise BadInput(f"trust={self.trust!r}; give one of {', '.join(map(repr, TRUSTS))}")
        if self.trust == "data":
            if self.backend in ("inline", "thread") or self.workers == 0 or self.helps:
                raise BadInput(
                    "trust='data' is for members in processes of their own, and this plan keeps some in the caller's "
                    "process, where they can do whatever it can: use the backend 'process', 'ray' or 'auto', at least "
                    "one worker, and no helps=True"
                )
            object.__setattr__(self, "isolate", True)

    @classmethod
    def parse(cls, plan: str | int | Plan) -> Plan:
        """Takes a word ("auto", "process"), a number of workers (0: here), or a Plan."""
        if isinstance(plan, Plan):
            return plan
        if isinstance(plan, bool) or not isinstance(plan, int | str):
            raise BadInput(f"plan={plan!r}; give 'auto', a backend's name, a number of workers, or a Plan")
        if isinstance(plan, str):
            return cls(backend=plan)
        if plan < 0:
            raise BadInput(f"plan={plan} makes no sense; give 0 (here) or a number of workers")
        return cls(backend="process", workers=plan) if plan else cls(backend="inline", workers=1)

    def not_of_a_vector(self) -> Plan:
        """The same plan.

        Raises:
            BadInput: it says what only vectors can do.
        """
        if self.helps or self.threads > 1:
            raise BadInput("helps=True and threads=… of a Plan are for vectors (make_vec); leave them out here")
        return self


@dataclass(frozen=True)
class Measured:
    """What the first calls cost.

    Attributes:
        members: How many members one round calls.
        seconds: Wall seconds of one member's call, where it is run.
        own: Seconds that the caller spends on it wherever it is run: packing, the journal, taking in.
        cpu_share: The share of the wall time in which it computed, or would have if the machine had let it; well below
            1 means that it waits.
        message_bytes: Bytes that one member's call sends and receives.
        messages: How many messages a round is asked for with.
        sendable: Whether the recipes can travel.
        touches_globals: Whether a member draws from a process-wide generator.
        through_port: Whether the calls go through a port.
        crowded: Whether other programs keep the cores busy.
        in_step: Whether everybody is waited for in every round.
        capped: Whether somebody has said how many workers there may be.
    """

    members: int
    seconds: float
    own: float = 0.0
    cpu_share: float = 1.0
    message_bytes: int = 0
    messages: int = 1
    sendable: bool = True
    touches_globals: bool = False
    through_port: bool = False
    crowded: bool = False
    in_step: bool = True
    capped: bool = False

    @property
    def round(self) -> float:
        """Seconds that a round takes here."""
        return self.members * (self.seconds + self.own)


@dataclass(frozen=True)
class Choice:
    """A place, and why."""

    backend: str
    workers: int
    why: str
    seconds: float = 0.0
    """What a round should take there."""
    own: int = 0
    """How many members the caller's process keeps, instead of waiting."""
    threads: int = 1
    """How many rows of a port each worker runs at once."""

    def pays(
        self,
        here: float,
        spent: float,
        *,
        members: int = 0,
        building: float = 0.0,
        cold: bool = False,
        replays: bool = False,
    ) -> bool:
        """Whether to move now, after so many seconds of rounds that take `here`.

        Nobody knows how long it will go on. So a move waits until it would have paid twice by now, had it been made
        at once: what is short stays here, and what is long loses little by having waited.

        Args:
            here: Seconds of a round here.
            spent: Seconds of rounds so far.
            members: How many there are; those that go are saved, sent and built again.
            building: Seconds that it took to build one.
            cold: Whether the first process of all has still to be started.
            replays: Whether members cannot be saved.
        """
        cost = _STARTING.get(self.backend, _STARTING["process"]) * self.workers
        going = members - self.own
        if self.backend == "process":
            cost += _MOVING * going + building * ceil(going / self.workers) + (FIRST_PROCESS if cold else 0.0)
        else:  # threads of one process build one after another
            cost += building * going
        if self.threads > 1 and replays:  # waits included, one after another
            cost += spent / self.workers
        return spent * (1 - self.seconds / here) >= _SURELY * cost


def choose(measured: Measured, budget: Budget) -> Choice:
    """Chooses where a round of calls takes the least time; here unless another place is clearly better."""
    here = measured.round
    best = _best(_threads(measured, budget), _processes(measured, budget), _threads_in_processes(measured, budget))
    cost = f"a round of {measured.members} calls takes {_time(here)} here"
    if best is not None and best.seconds * _WORTH < here:
        return replace(best, why=f"{cost}; {best.why}")
    return Choice("inline", 1, f"{cost}; {_why_stay(measured, budget, best)}: staying here", here)


def _best(threads: Choice | None, *processes: Choice | None) -> Choice | None:
    """The quickest place; threads, which are there at once, unless processes are clearly quicker."""
    best = min((choice for choice in processes if choice is not None), key=lambda choice: choice.seconds, default=None)
    if best is None or (threads is not None and threads.seconds <= best.seconds * _WORTH):
        return threads
    return best


def _processes(measured: Measured, budget: Budget) -> Choice | None:
    workers = budget.workers_for(measured.members)
    if workers < 2 or not measured.sendable or measured.crowded:
        return None
    message, speed = (_RING, _ROW_BYTES_PER_SECOND) if measured.through_port else (_CALL_MESSAGE, _BYTES_PER_SECOND)
    travel = message + measured.members * measured.message_bytes / speed
    travel += (measured.messages - 1) * _ANOTHER_MESSAGE
    share = measured.seconds * ceil(measured.members / workers) * TWO_CORES_ARE_NOT_TWICE_ONE
    seconds = share + measured.own * measured.members + travel
    takes = f"about {_time(seconds)}, {_time(travel)} of it messages"
    if not measured.through_port:
        return Choice("process", workers, f"on {workers} processes {takes}", seconds)
    # Rows are waited for in lock-step: a caller who waits has a core to spare, and takes a share like any other.
    own = measured.members // workers
    why = f"{own} here, the others on {workers - 1} process{'es' if workers > 2 else ''}: {takes}"
    return Choice("process", workers - 1, why, seconds, own)


def _threads(measured: Measured, budget: Budget) -> Choice | None:
    workers = min(measured.members, budget.waiting)
    if measured.cpu_share > WAITS_BELOW or measured.touches_globals or workers < 2:
        return None
    computing, waiting = _beside(measured, workers)
    seconds = computing + waiting
    return Choice("thread", workers, f"{_waits(measured)}: on {workers} threads about {_time(seconds)}", seconds)


def _threads_in_processes(measured: Measured, budget: Budget) -> Choice | None:
    """Many threads of one process stand in line for its interpreter; those of several do not wait for each other.

    Twice as many processes as cores, if we may: while all threads of one stand in line, or sleep, another has work.
    A worker takes new rows when it has run all that it was given: that is no place for whoever waits for a few only.
    """
    most = budget.slots if measured.capped else 2 * budget.slots
    workers = replace(budget, slots=most).workers_for(measured.members)
    threads = min(measured.members, budget.waiting)
    if not measured.through_port or not measured.in_step or not measured.sendable or measured.crowded:
        return None
    if measured.cpu_share > WAITS_BELOW or measured.touches_globals or threads < 2 * workers:
        return None
    computing, waiting = _beside(measured, threads)
    seconds = computing / min(workers, budget.slots) * TWO_CORES_ARE_NOT_TWICE_ONE + waiting + _RING
    each = ceil(threads / workers)
    why = f"{_waits(measured)}: on {workers} processes of {each} threads about {_time(seconds)}"
    return Choice("process", workers, why, seconds, threads=each)


def _beside(measured: Measured, threads: int) -> tuple[float, float]:
    """Seconds of a round on so many threads: what has to be computed, one after another, and what is waited for."""
    computing = (measured.seconds * measured.cpu_share + measured.own + _THREAD_SWITCH) * measured.members
    return computing, measured.seconds * (1 - measured.cpu_share) * ceil(measured.members / threads)


def _waits(measured: Measured) -> str:
    return f"it waits for {1 - measured.cpu_share:.0%} of that"


def _why_stay(measured: Measured, budget: Budget, best: Choice | None) -> str:
    if best is not None:
        return f"{best.why} would not be clearly less"
    if not measured.sendable:
        return "a recipe cannot be sent to another process"
    if budget.slots < 2:
        return "there is one CPU slot"
    if measured.crowded:
        return "other programs keep the cores busy"
    if measured.members < 2:
        return "there is nothing to share out"
    return f"memory for {budget.workers_for(measured.members)} worker only"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


class _Schedule:
    """What the kernel keeps of one thread. It stays open: to open it costs more than many a round that is measured."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> float:
        computed, stood_in_line, _ = os.pread(self._file, 128, 0).split()
        return (int(computed) + int(stood_in_line)) * 1e-9

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)


_mine = threading.local()


def wanted_cpu() -> float:
    """Seconds that this thread has computed, or stood in line for a core: on a loaded machine that is not waiting."""
    try:
        schedule: _Schedule | None = getattr(_mine, "schedule", None)
        if schedule is None or schedule.process != os.getpid():  # a forked child is another thread
            schedule = _mine.schedule = _Schedule()
        return schedule.read()
    except OSError:
        return process_time()


class Meter:
    """Measures rounds of calls: how long, how much CPU, how many members and bytes.

    A round that is asked for and answered by messages may be all kinds of things to whoever asks: a policy thinks
    between two of them. So it is also measured how long the calls themselves took, while they are handled here.

    Args:
        through_port: Whether they go through a port.
    """

    def __init__(self, through_port: bool = False) -> None:
        self.rounds = 0
        self.through_port = through_port
        self._calls = 0
        self._wall = self._cpu = 0.0
        self._squares = 0.0  # of the seconds per call of each round
        self._handled = self._messages = 0
        self._handled_wall = self._handled_cpu = 0.0
        self._bytes = 0
        self._in_step = True
        self._since: tuple[float, float] | None = None

    def begin(self) -> None:
        """A round has been asked for."""
        if self._since is None:
            busy = wanted_cpu()
            self._since = perf_counter(), busy

    def end(self, members: int, nbytes: int = 0, *, whole: bool = True) -> None:
        """A round is complete, or (not `whole`) as much of it as somebody waited for."""
        self._in_step &= whole
        if self._since is None or members == 0:
            return
        since, busy = self._since
        wall = perf_counter() - since
        self._wall += wall
        self._squares += (wall / members) ** 2
        self._cpu += wanted_cpu() - busy
        self._since = None
        self._calls += members
        self._bytes += nbytes
        self.rounds += 1

    @contextmanager
    def handling(self, calls: int) -> Iterator[None]:
        """Within it so many calls are handled here."""
        busy, wall = wanted_cpu(), perf_counter()
        yield
        self._handled_wall += perf_counter() - wall
        self._handled_cpu += wanted_cpu() - busy
        self._handled += calls
        self._messages += 1

    @property
    def spent(self) -> float:
        """Seconds of rounds so far, without what the caller thought meanwhile."""
        return self._elsewhere + self._own

    @property
    def _elsewhere(self) -> float:
        """Seconds of what could be run elsewhere."""
        return self._handled_wall if self._handled else self._wall - self._own

    @property
    def _own(self) -> float:
        """Seconds of what is the caller's own: all but the calls, unless that is so much that it is something else."""
        if self.through_port:
            return 0.0
        return min(MOST_OWN * self._calls, max(0.0, self._wall - self._handled_wall))

    @property
    def enough(self) -> bool:
        few_will_do = self.spent >= _LONG * MEASURE_SECONDS
        return self.rounds > 0 and self.spent >= MEASURE_SECONDS and (self.rounds >= _MIN_ROUNDS or few_will_do)

    @property
    def seconds_per_call(self) -> float:
        """With everything that the caller did meanwhile."""
        return self._wall / max(1, self._calls)

    @property
    def doubt(self) -> float:
        """The standard error of the seconds per call, as far as rounds are of a size; a single one is believed."""
        if self.rounds < 2:
            return 0.0
        return math.sqrt(max(0.0, self._squares / self.rounds - self.seconds_per_call**2) / (self.rounds - 1))

    @property
    def clocked(self) -> bool:
        """Whether the clock tells of the calls: else the caller thought for several times as long as they took."""
        return self._wall < _THOUGHT * self.spent

    def measured(self, *, sendable: bool, touches_globals: bool) -> Measured:
        """What the rounds so far say."""
        calls = max(1, self._calls)
        members = round(self._calls / max(1, self.rounds))
        wall, cpu = (self._handled_wall, self._handled_cpu) if self._handled else (self._wall, self._cpu)
        return Measured(
            members=members,
            seconds=self._elsewhere / (self._handled or calls),
            own=self._own / calls,
            cpu_share=min(1.0, cpu / max(wall, 1e-9)),
            message_bytes=self._bytes // max(1, self._calls),
            messages=max(1, round(self._messages * members / max(1, self._handled))),
            sendable=sendable,
            touches_globals=touches_globals,
            through_port=self.through_port,
            in_step=self._in_step,
        )
