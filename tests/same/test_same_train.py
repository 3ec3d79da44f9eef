"""A training whose agents act in order has one digest wherever learners learn, after deaths, speculated or not."""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import Any

import pytest

from paceline import Plan, train

HUNT = {"mission": "treasure_hunt,size=9,steps=10", "learners": "dqn,hidden=16,steps=2", "epochs": 12, "seed": 13}
PLANS = ["inline", Plan("thread", 2), Plan("process", 2)]


def hunted(plan: Any, lag: int, **more: Any) -> str:
    return train(**HUNT, turn="ordered", lag=lag, plan=plan, **more).digest


@cache
def reference(lag: int) -> str:
    return hunted("inline", lag, speculate=False)


def kill_learners(trainer: Any) -> None:
    """After some of the epochs every learner's process is killed, whatever it is at."""
    for worker in trainer._learning.workers if trainer.epoch in (3, 8) else ():
        os.kill(worker.pid, signal.SIGKILL)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: getattr(plan, "backend", plan))
@pytest.mark.parametrize("lag", [0, 1])
def test_one_digest_in_every_place_after_deaths_and_with_speculation(lag: int, plan: Any) -> None:
    dies = {"watcher": kill_learners} if plan == PLANS[-1] else {}
    assert hunted(plan, lag, speculate=True, **dies) == reference(lag)


def test_lags_and_orders_have_digests_of_their_own() -> None:
    at_once = train(**HUNT, plan="inline").digest
    assert len({at_once, reference(0), reference(1)}) == 3
