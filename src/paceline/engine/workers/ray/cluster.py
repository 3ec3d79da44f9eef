"""The Ray cluster that workers are started on: the user's own, the one in RAY_ADDRESS, or one on this machine.

    ray.init() by the user ──► used as it is, never shut down ─────┐
    RAY_ADDRESS ─────────────► joined; left at exit ───────────────┼──► Ray, if it asks for a token
    neither ─────────────────► started here; shut down at exit ────┘

Whoever reaches Ray's ports and is let in can run code as you. So a cluster of ours listens on this machine only, has no
dashboard, and keeps its sockets and logs in a directory that nobody else can enter; and one that asks for no token is
neither started nor joined.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from paceline.engine.workers.process.fork_client import environment
from paceline.errors import PlanNotMet

_OLDEST = (2, 59)  # the first Ray whose local clusters ask for a token
_SHUN = 60.0
_NO_TOKEN = (
    "Ray runs without authentication here: whoever reaches its ports can run code as you. Unset RAY_AUTH_MODE, or set "
    "it to 'token' on every node and here (`ray get-auth-token --generate` makes the token). If nobody else can reach "
    "the network, say so with PACELINE_RAY_INSECURE=1"
)

_log = logging.getLogger("paceline")
_directory = ""  # of the cluster that we have started
_shunned: dict[str, float] = {}  # node → until when


def connect() -> Any:
    """Gives the module `ray`, connected.

    Raises:
        PlanNotMet: Ray is too old, asks for no token, or cannot be started or joined.
    """
    ray: Any = importlib.import_module("ray")
    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _OLDEST:
        raise PlanNotMet(f"ray {ray.__version__} is too old: pip install 'ray>={'.'.join(map(str, _OLDEST))}'")
    if ray.is_initialized():
        _check_authentication()
        return ray
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    # Ray reads the environment when it is imported, which may have been long ago.
    importlib.import_module("ray._raylet").Config.initialize("")
    _check_authentication()
    try:
        _join(ray) if os.environ.get("RAY_ADDRESS") else _start(ray)
    except Exception as error:
        raise PlanNotMet(f"Ray could not be started or joined: {error}") from error
    return ray


def at_exit(leave: Callable[[], None]) -> None:
    """Has `leave` called before Ray goes down, then shuts a cluster of ours down. For the last caller only."""
    atexit.unregister(_leave)
    atexit.register(_leave, leave, os.getpid())  # Ray has registered its own before, so it comes after


def session(ray: Any) -> tuple[str, str] | None:
    """Which cluster, and which connection to it; None if there is none. Asking Ray anything else would start one."""
    if not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_job_id()


def choose_node(ray: Any, workers: Mapping[str, int]) -> str:
    """The node with the fewest workers per CPU; one that is shunned only if there is no other."""
    now = time.monotonic()
    cpus: dict[str, float] = {n["NodeID"]: n["Resources"].get("CPU", 0.0) for n in ray.nodes() if n["Alive"]}

    def rank(node: str) -> tuple[bool, float, str]:
        return _shunned.get(node, 0.0) > now, (workers.get(node, 0) + 1) / max(cpus[node], 0.01), node

    return min(cpus, key=rank)


def shun(node: str) -> None:
    """Avoids a node that has just lost a worker, and maybe itself: Ray takes a while to see that a node is dead."""
    _shunned[node] = time.monotonic() + _SHUN


def _check_authentication() -> None:
    utils: Any = importlib.import_module("ray._private.authentication.authentication_utils")
    if not utils.is_token_auth_enabled() and os.environ.get("PACELINE_RAY_INSECURE") != "1":
        raise PlanNotMet(_NO_TOKEN)


def _join(ray: Any) -> None:
    ray.init(address=os.environ["RAY_ADDRESS"], logging_level=logging.ERROR)


def _start(ray: Any) -> None:
    global _directory
    _remove_directory()  # of a cluster of ours that somebody has shut down
    _keep_token_private()
    _directory = tempfile.mkdtemp(prefix="paceline-ray-", dir=os.environ.get("RAY_TMPDIR", "/tmp"))
    with _loopback(), _our_environment():
        context = ray.init(
            address="local",  # never what another user's cluster has written to /tmp
            include_dashboard=False,
            logging_level=logging.ERROR,
            _temp_dir=os.path.join(_directory, "ray"),  # Ray opens this one to everybody
            # Ray would run workers at niceness 15, and start one per core before anybody asks.
            _system_config={"worker_niceness": 0, "prestart_worker_first_driver": False},
        )
    if not context.address_info["node_ip_address"].startswith("127."):
        _log.warning("the Ray cluster of this process listens on all interfaces; a token protects it")


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Lets Ray listen on this machine only, which it does by itself on systems where it knows no clusters."""
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = getattr(constants, "ENABLE_RAY_CLUSTER", True)
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def _our_environment() -> Iterator[None]:
    """Starts Ray's processes with what workers need: they inherit it, and none has to be started twice for it."""
    before = {name: os.environ.get(name) for name in environment()}
    os.environ.update(environment())
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _keep_token_private() -> None:
    """Makes Ray's token file before Ray does, which would leave it readable for whoever can enter the directory."""
    if "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return
    token = Path.home() / ".ray" / "auth_token"
    token.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd, draft = tempfile.mkstemp(dir=token.parent)
    with open(fd, "w") as file:
        file.write(secrets.token_hex(32))
    with contextlib.suppress(FileExistsError):
        os.link(draft, token)  # whole or not at all: another process may be doing the same
    os.unlink(draft)
    token.chmod(0o600)


def _leave(leave: Callable[[], None], owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of main: the cluster is not ours to end
    leave()
    if _directory:
        importlib.import_module("ray").shutdown()
        _remove_directory()


def _remove_directory() -> None:
    if _directory:
        shutil.rmtree(_directory, ignore_errors=True)
