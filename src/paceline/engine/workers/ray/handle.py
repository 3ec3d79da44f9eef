"""The same Host in Ray actors, on this machine or on all machines of a cluster.

    RayWorker.send ── handle.remote(request) ──► RayHost, an actor ──► Host
           .receive ◄── one ref per request, in order: news, log records, reply ──┘

Ray starts the process, carries the messages and tells of deaths. It restarts and retries nothing: an actor that Ray
restarts has lost its state and answers all the same. A dead worker's members are rebuilt from our own journal.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import re
import select
import signal
import sys
import time
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from paceline.engine.transport import codec, machine, plain_data, shared_arrays
from paceline.engine.workers.base import Gone, Reply, Request, Settings
from paceline.engine.workers.process import fork_client
from paceline.engine.workers.process.log_records import handle_fields
from paceline.engine.workers.ray import array_server, cluster
from paceline.engine.workers.ray.actor import RayHost, last_words, pack
from paceline.engine.workers.reply_check import Sentry
from paceline.errors import NotData, PlanNotMet

_UP_WITHIN = 60.0
_SLICE = 1.0  # Ray waits in C; between two slices Python sees its signals
_GRACE = 2.0
_ASKED, _SHOT = 1.0, 5.0  # seconds that a process may take to end

_EXIT = re.compile(r"exit type: (\w+) Worker exit detail: (.*?)(?: Some common causes.*)?$", re.DOTALL)

# No CPU is reserved: how many workers compute at once is our own budget's to say, and one that Ray kept waiting for a
# free CPU would hang its pool. One byte of memory is, because Ray puts actors that ask for nothing on any node.
_OPTIONS = {"num_cpus": 0, "memory": 1, "max_restarts": 0, "max_task_retries": 0, "enable_task_events": False}

_log = logging.getLogger("paceline")
_living: weakref.WeakSet[RayWorker] = weakref.WeakSet()
_foreign: set[tuple[str, str] | None] = set()  # clusters whose processes have another environment than ours must have
_abandoned: deque[RayWorker] = deque()


class RayWorker:
    """Main's end of an actor."""

    backend = "ray"
    in_process = False
    shares_memory = False
    can_kill = True
    rings = False

    def __init__(self, number: int, ray: Any, settings: Settings) -> None:
        self.number = number
        self.pid = 0
        self._ray = ray
        self._session = cluster.session(ray)
        self.node: str = cluster.choose_node(ray, Counter(worker.node for worker in _living))
        self._as_it_is = self._session not in _foreign
        self._actor = _actors().options(**_options(self.node, self._as_it_is)).remote(_config(number, settings))
        self.greeting = self._actor.hello.remote()
        self._sentry = Sentry(settings.max_message, settings.threads > 1) if settings.data_only else None
        self._refs: deque[Any] = deque()
        self._said: deque[Reply] = deque()
        self._killed = False
        self._how = "was killed"
        self._pidfd = -1  # if its process is on this machine
        self._wants_arrays = False  # it is on another machine, and has not been told who serves shared arrays
        self._is_served = False
        self._errors = ""
        _living.add(self)

    def meet(self, tries_left: int) -> bool:
        """Learns who has come up. False if it has to be tried again: it died on the way, as it does on a node that
        nobody knows to be dead, or its environment is not ours."""
        try:
            self.pid, where, self._errors, environment = self._ray.get(self.greeting)
        except self._ray.exceptions.RayError as error:
            self._die(str(error))
            if tries_left and not getattr(error, "actor_init_failed", True):
                return False
            raise PlanNotMet(
                f"Ray worker {self.number} could not be started: it {_ending(str(error))}. "
                "Has every node this Python, this paceline, and the same RAY_AUTH_MODE and token?"
            ) from error
        if self._as_it_is and environment != fork_client.environment():
            _foreign.add(self._session)
            self.close(0.0)
            return False
        if where is not None and where == machine.this_machine():
            self._settle_here()
        else:
            self._wants_arrays = self._sentry is None  # one that is trusted with data only is given no key
        return True

    def _settle_here(self) -> None:
        """On this machine its process can be watched, and gets our environment as any child of ours would."""
        with contextlib.suppress(ProcessLookupError):  # gone again; Ray will say so
            self._pidfd = os.pidfd_open(self.pid)
        ours = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self._actor.adopt.remote({**ours, **fork_client.environment()})

    def _serve_arrays(self) -> None:
        """On another machine our shared arrays cannot be mapped: its members ask this process for the rows."""
        self._wants_arrays = False
        try:
            server = array_server.hold(self._ray.util.get_node_ip_address())
        except OSError as error:  # members that are given shared arrays will say that they cannot read them
            _log.warning("shared arrays cannot be served to other machines: %s", error)
            return
        self._is_served = True
        self._actor.read_from.remote(server.address, server.key)

    def send(self, request: Request, descriptor: int | None = None) -> None:
        if self._killed or not self._connected:
            return
        try:
            if self._wants_arrays and shared_arrays.in_use():
                self._serve_arrays()
            self._refs.append(self._actor.handle.remote(pack(request)))
            if self._sentry is not None:
                self._sentry.asked(request)
        except self._ray.exceptions.RayError as error:  # the object store is full, say
            self.kill()
            self._how = f"could not be sent a message ({_last_line(str(error))})"

    @property
    def has_spoken(self) -> bool:
        """Whether `receive` has something to say at once."""
        return bool(self._said) or self._killed or not self._connected

    @property
    def due(self) -> list[Any]:
        """The ref that the next reply comes by, if one is due."""
        return [self._refs[0]] if self._refs else []

    def receive(self) -> Reply | None:
        if not self._said and self._refs and self._connected and self._ray.wait([self._refs[0]], timeout=0)[0]:
            self._take(self._refs.popleft())
        if self._said:
            return self._said.popleft()
        if self._killed or not self._connected:
            raise Gone(self._how if self._killed else "went down with its Ray session", self._bury())
        return None

    def _take(self, ref: Any) -> None:
        try:
            news, records, reply = self._read(ref)
            said: list[Reply] = [*(("news", one) for one in news), ("reply", reply)]
            self._said.extend(said if self._sentry is None else [self._sentry.heard(one) for one in said])
        except self._ray.exceptions.RayError as error:
            raise Gone(_ending(str(error)), self._die(str(error))) from error
        except NotData as error:
            self._said.clear()
            self.kill()
            how = f"was ended because it is trusted with data only, and {error}"
            raise Gone(how, self._bury()) from None
        for fields in records:
            with contextlib.suppress(Exception):  # a handler of the user's may raise: the reply matters more
                handle_fields(fields)

    def _read(self, ref: Any) -> Any:
        """What an actor has returned: (news, log records, reply)."""
        if self._sentry is None:
            return codec.fresh(self._ray.get(ref))
        said = plain_data.from_bytes(raw_bytes(self._ray, ref, self._sentry.most))
        if not plain_data.fits(said, tuple[list[Any], list[Any], Any]):
            raise NotData("it sent what is no parcel of replies")
        return said

    def busy_since(self) -> float | None:
        return None

    def kill(self) -> None:
        self._killed = True
        if self._connected:
            self._ray.kill(self._actor, no_restart=True)

    kill_the_hung = kill  # its output is in Ray's hands

    def abandon(self) -> None:
        """Asks nothing of Ray, which may be in the middle of something; that is done when the next worker starts."""
        self._killed = True
        self._shoot()
        _abandoned.append(self)

    def say_goodbye(self) -> None:
        self.send(("close",))

    def close(self, grace: float) -> None:
        end = time.monotonic() + grace
        with contextlib.suppress(Gone):
            while self._refs and BACKEND.wait([self], max(0.0, end - time.monotonic())):
                self.receive()
        self.kill()
        self._bury()

    @property
    def _connected(self) -> bool:
        """Whether the session that the actor was made in is still there. Without one Ray would start a cluster."""
        return self._session == cluster.session(self._ray)

    def _die(self, obituary: str) -> str:
        if not self._killed and not _EXIT.search(obituary):  # then nobody on its node was left to say how
            cluster.shun(self.node)
        self.kill()  # it may live on, cut off from us, and there must never be two of it
        return self._bury()

    def _bury(self) -> str:
        """Sees the process out and gives the end of what it wrote to stderr, if it was on this machine."""
        self._refs.clear()
        _living.discard(self)
        if self._is_served:
            self._is_served = False
            array_server.release()
        if self._pidfd < 0:
            return ""
        if not _ended(self._pidfd, _ASKED):  # a stopped process hears nothing of what Ray asks
            self._shoot()
            _ended(self._pidfd, _SHOT)
        os.close(self._pidfd)
        self._pidfd = -1
        return last_words(self._errors)

    def _shoot(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


def _ended(pidfd: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def _ending(text: str) -> str:
    """Ray's obituary, or what it says of a failed start, in a line."""
    found = _EXIT.search(text.strip())
    words = f"{found[1]}: {found[2]}" if found else _last_line(text)
    return f"died ({words[:300].rstrip('.')})"


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()


def raw_bytes(ray: Any, ref: Any, most: int) -> bytes:
    """The bytes that an actor has returned, not unpickled: `ray.get` would unpickle whatever it returned.

    Raises:
        NotData: it has returned something else than bytes, or too many of them.
        RayActorError: it has died.
    """
    constants = importlib.import_module("ray._private.ray_constants")
    core = importlib.import_module("ray._private.worker").global_worker.core_worker
    [(data, metadata, *_)] = core.get_objects([ref], -1)
    kind = bytes(metadata or b"").split(b",")[0]
    if kind.isdigit():  # one of Ray's own errors. It may hold a pickle too, so only its name is read
        names = importlib.import_module("ray.core.generated.common_pb2").ErrorType
        name = names.Name(int(kind)) if int(kind) in names.values() else kind.decode()
        detail = "Ray's details are not read where only data is trusted"
        raise ray.exceptions.RayActorError(error_msg=f"exit type: {name} Worker exit detail: {detail}")
    if kind != constants.OBJECT_METADATA_TYPE_RAW:
        raise NotData("it returned what is not bytes")
    if data is not None and data.size > most:
        raise NotData(f"it returned {data.size} bytes, above the limit of {most}")
    return b"" if data is None else bytes(data.to_pybytes())


def _check_raw_bytes(ray: Any) -> None:
    """Better a sentence now than an odd error in the middle: what this needs of Ray is no part of its public face."""
    try:
        sound = raw_bytes(ray, ray.put(b"data"), 4) == b"data"
    except Exception as error:
        raise PlanNotMet(
            f"trust='data' needs to read what Ray carries without unpickling it, and Ray {ray.__version__} does not "
            f"let us ({type(error).__name__}: {error}); use the backend 'process'"
        ) from error
    assert sound


class RayBackend:
    """Workers in Ray actors."""

    name = "ray"
    reads_data = True

    def start(self, numbers: Sequence[int], settings: Settings) -> list[Any]:
        ray = cluster.connect()
        if settings.data_only:
            _check_raw_bytes(ray)
        cluster.at_exit(_close_the_living)
        while _abandoned:
            _abandoned.popleft().close(0.0)
        up: dict[int, RayWorker] = {}
        coming: list[RayWorker] = []
        try:
            for tries_left in (3, 2, 1, 0):
                coming = [RayWorker(number, ray, settings) for number in numbers if number not in up]
                _await_all(ray, coming)
                up.update({worker.number: worker for worker in coming if worker.meet(tries_left)})
        except BaseException:
            for worker in {*up.values(), *coming}:
                worker.close(0.0)
            raise
        return [up[number] for number in numbers]

    def wait(self, workers: Sequence[Any], timeout: float | None) -> bool:
        end = time.monotonic() + (1e9 if timeout is None else timeout)
        while not any(worker.has_spoken for worker in workers):
            left = end - time.monotonic()
            if _look(workers, min(_SLICE, max(0.0, left))):
                return True
            if left <= 0:
                return False
        return True


def _look(workers: Sequence[RayWorker], timeout: float) -> bool:
    due = [ref for worker in workers for ref in worker.due]
    if not due:
        time.sleep(timeout)
        return False
    return bool(importlib.import_module("ray").wait(due, timeout=timeout)[0])


def _await_all(ray: Any, workers: list[RayWorker]) -> None:
    waiting = [worker.greeting for worker in workers]
    while waiting:
        up, waiting = ray.wait(waiting, timeout=_UP_WITHIN)
        if not up:
            raise PlanNotMet(
                f"{len(waiting)} of {len(workers)} Ray workers did not come up in {_UP_WITHIN:g} s; "
                "`ray status` says what the cluster lacks"
            )


def _close_the_living() -> None:
    workers, end = list(_living), time.monotonic() + _GRACE
    for worker in workers:
        worker.say_goodbye()
    for worker in workers:
        worker.close(max(0.0, end - time.monotonic()))


def _config(number: int, settings: Settings) -> dict[str, Any]:
    return {
        "number": number,
        "host": {
            "seed": settings.seed,
            "traced": settings.traced,
            "max_message": settings.max_message,
            "threads": settings.threads,
            "data_only": settings.data_only,
        },
        "budget": settings.budget,
        "sys_path": list(sys.path),
        "cwd": os.getcwd(),
        "log_level": logging.getLogger().level,
    }


def _options(node: str, as_it_is: bool) -> dict[str, Any]:
    strategies: Any = importlib.import_module("ray.util.scheduling_strategies")
    return {
        **_OPTIONS,
        # To have an environment made, Ray starts Python twice. Where the cluster has ours anyway, that is not needed.
        **({} if as_it_is else {"runtime_env": {"env_vars": fork_client.environment()}}),
        "scheduling_strategy": strategies.NodeAffinitySchedulingStrategy(node, soft=True),
    }


@functools.cache
def _actors() -> Any:
    return importlib.import_module("ray").remote(RayHost)


BACKEND = RayBackend()
