"""Learners with a memory: what they remember, and that they learn what others cannot."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from learning_windows import seats
from recall import Recall

from paceline import Mission, train
from paceline.learning import build_bank, learner_spec

SPEC = "dqn,hidden=16,memory=16,lead=0,sequence=4,batch=64,lr=0.01,explore=20,target_every=20"
RECALL = Mission("recall", Recall)


def rewards(learner: str, **more: Any) -> float:
    """Mean reward of an agent in the last epochs."""
    found = train(RECALL, learner, **{"epochs": 40, "worlds": 4, "seed": 2, "plan": "inline", **more})
    return float(found.totals[-10:].mean())


def test_a_memory_learns_what_is_to_be_recalled() -> None:
    """What is to be done at the end was shown at the beginning: without a memory it is a guess."""
    assert rewards(SPEC) > 0.85
    assert rewards(SPEC.replace("memory=16", "memory=0")) < 0.7


def test_it_is_the_same_wherever_learners_learn() -> None:
    """Agents in other groups, in a process, behind by an update, in several worlds: the bits of one process."""
    asked = {"epochs": 6, "worlds": 3, "lag": 1, "seed": 3}
    here = train(RECALL, SPEC, **asked, plan="inline")
    assert train(RECALL, SPEC, **asked, plan=2).digest == here.digest


def bank(worlds: int = 1) -> Any:
    made = build_bank(seats("a", "b"), learner_spec(SPEC), seed=1, worlds=worlds)
    made.begin(99, {agent: [4] * worlds for agent in "ab"})
    return made


def states(bank: Any) -> Any:
    return {agent: own["states"] for agent, own in bank.snapshot()["agents"].items()}


def test_who_is_not_asked_remembers_what_it_did() -> None:
    """A state moves on only where its agent is due; an epoch begins with none."""
    two = bank(worlds=2)
    two.act({(agent, world): np.full(5, world) for agent in "ab" for world in range(2)})
    before = states(two)
    two.act({("a", 1): np.ones(5)})
    after = states(two)
    assert np.array_equal(after["b"], before["b"])
    assert np.array_equal(after["a"][0], before["a"][0])
    assert not np.array_equal(after["a"][1], before["a"][1])
    two.begin(100, {agent: [4, 4] for agent in "ab"})
    assert not any(own.any() for own in states(two).values())


def test_what_is_remembered_is_in_a_snapshot() -> None:
    """A bank that goes on from a snapshot in the middle of an epoch answers as the other does."""
    first, second = bank(), bank()
    for number in range(5):
        first.act({(agent, 0): np.full(5, number) for agent in "ab"})
    second.restore(pickle.loads(pickle.dumps(first.snapshot())))
    for _ in range(5):
        seen = {("a", 0): np.ones(5), ("b", 0): np.zeros(5)}
        assert first.act(seen) == second.act(seen)
    assert all(np.array_equal(states(first)[agent], states(second)[agent]) for agent in "ab")


@pytest.mark.parametrize(("text", "said"), [("dqn,memory=-1", "dqn.memory"), ("ppo,memory=8", "ppo.memory")])
def test_settings_that_make_no_sense_are_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        learner_spec(text)
