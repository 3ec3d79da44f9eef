"""One fixture, every backend: an engine-level test that asks for `backend` runs on all of them."""

from __future__ import annotations

import os

import pytest

# Before anything starts a worker: main and workers must agree on the order of sets of strings.
os.environ.setdefault("PYTHONHASHSEED", "0")

BACKENDS = ("inline", "thread", "process", "ray")


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
