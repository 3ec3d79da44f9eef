"""One digest over all rollout states, wherever the environments live and whatever happens to their workers."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
from text_worlds import config

from paceline.adapters.ragen import EnvStateManager
from paceline.groups.driver import rollout
from paceline.policies.scripted_text import RandomWords

SIX = {"SimpleSokoban": 2, "FrozenLake": 2, "Bandit": 2, "Countdown": 1, "MetamathQA": 1, "WebShop": 2}
WAYS: dict[str, dict[str, Any]] = {
    "0 workers": {"use_multiprocessing": False},
    "1 worker": {"use_multiprocessing": True, "max_workers": 1},
    "2 workers": {"use_multiprocessing": True, "max_workers": 2},
    "4 workers": {"use_multiprocessing": True, "max_workers": 4},
    "auto": {},
    "some here": {"use_multiprocessing": True, "max_workers": 2, "sequential_env_types": ["webshop", "bandit"]},
}


@pytest.fixture(scope="module")
def expected() -> str:
    return played(WAYS["0 workers"])


def played(way: dict[str, Any], *, plan: Any = "auto", deadly: bool = False, leaves: bool = False) -> str:
    """Two episodes of everybody with a random policy, turn by turn."""
    with EnvStateManager(config(SIX, base=40, **way), plan=plan) as manager:
        for episode in range(2):
            manager.reset()
            for turn in range(4):
                if deadly and turn % 2:
                    kill_somebody(manager, turn + episode)
                if leaves and turn == 1:
                    manager.use_multiprocessing = False
                if leaves and turn == 3 and episode:
                    manager.use_multiprocessing = True
                rollout(manager, RandomWords(2), max_turns=1)
        if deadly:
            assert any(event.kind == "lost" for event in manager.events)
        assert all(status.failure is None for status in manager.statuses)
        return manager.digest()


def kill_somebody(manager: EnvStateManager, turn: int) -> None:
    workers = [worker for worker in manager.pool.workers if worker.pid != os.getpid()]
    with contextlib.suppress(ProcessLookupError):
        os.kill(workers[turn % len(workers)].pid, 9)


@pytest.mark.parametrize("way", list(WAYS)[1:])
def test_the_same_at_any_number_of_workers(expected: str, way: str) -> None:
    assert played(WAYS[way]) == expected


@pytest.mark.parametrize("way", ["1 worker", "2 workers"])
def test_the_same_with_workers_killed(expected: str, way: str) -> None:
    assert played(WAYS[way], deadly=True) == expected


def test_the_same_when_multiprocessing_is_switched_off_and_on_in_mid_episode(expected: str) -> None:
    assert played(WAYS["2 workers"], leaves=True) == expected


def test_the_same_on_threads(expected: str) -> None:
    assert played({}, plan="thread") == expected


def test_the_same_on_ray(expected: str, ray_cluster: str) -> None:
    assert played({"max_workers": 2}, plan="ray") == expected


def test_environments_that_draw_from_the_global_generators_are_kept_apart() -> None:
    digests = set()
    for plan in ("inline", 1, 2):
        with EnvStateManager(config({"Drawer": 3}, most=9), plan=plan) as manager:
            manager.reset(seed=5)
            for _ in range(3):
                rollout(manager, RandomWords(2), max_turns=1)
            digests.add(manager.digest())
    assert len(digests) == 1
