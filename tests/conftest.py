"""One fixture, every backend: an engine-level test that asks for `backend` runs on all of them."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from paceline.engine.workers.process.fork_client import environment

# Before anything starts a worker: main and workers must agree on the order of sets of strings.
os.environ.setdefault("PYTHONHASHSEED", "0")

# What worlds keep in the user's cache is the tests' own: made anew, and removed at the end.
_cache = tempfile.TemporaryDirectory(prefix="paceline-cache-")
os.environ["PACELINE_CACHE"] = _cache.name

# So is the key that knows the runs of this user.
_state = tempfile.TemporaryDirectory(prefix="paceline-state-")
os.environ["XDG_STATE_HOME"] = _state.name

# A shell that runs us in the background ignores Ctrl-C for us and for all that we start; tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# mettagrid has no wheels for Python 3.13; everywhere else the dev extra brings it.
collect_ignore_glob = [] if sys.version_info < (3, 13) else ["*/test_mettagrid*.py"]

BACKENDS = ("inline", "thread", "process", "ray")


# No test asserts a time: neither do those that hypothesis drives, on a machine that is busy.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture(scope="session")
def their_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each job, begun by another user; to be copied, not changed."""
    from run_directories import begun, of_another_user

    home = tmp_path_factory.mktemp("theirs")
    with of_another_user(home / "state"):
        return begun(home)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The name of a backend, ready for use."""
    name: str = request.param
    if name == "ray":
        request.getfixturevalue("ray_cluster")
    return name


@pytest.fixture(params=("process", "ray"))
def killable(request: pytest.FixtureRequest) -> str:
    """The name of a backend whose workers are processes of their own."""
    name: str = request.param
    if name == "ray":
        request.getfixturevalue("ray_cluster")
    return name


# Before Ray is imported by anybody: it listens on this machine only, and its token is the session's own, in no file.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[str]:
    """A real Ray cluster on this machine, one per session. Gives its address."""
    import ray

    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        with pytest.MonkeyPatch.context() as patch:
            # As a cluster of ours; test_ray has one whose processes have to be given this.
            for name, value in environment().items():
                patch.setenv(name, value)
            context = ray.init(
                address="local",
                num_cpus=2,
                object_store_memory=256 << 20,
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                _temp_dir=directory,
                _system_config={"worker_niceness": 0, "prestart_worker_first_driver": False},
            )
        yield context.address_info["gcs_address"]
        ray.shutdown()
