"""PPO over whole rollouts: advantages over the episodes of a task, minibatches by seed, snapshots."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from paceline import BadInput, Collection, collect, digest
from paceline.learning import Markov, Memory, MemoryMarkov, SequenceLearner, SequencePPO
from paceline.learning.sequences import RewardScale, Sequences, advantages, sequences_of
from paceline.types import Seat

POLE = gym.make("CartPole-v1")
SEAT = Seat("agent_0", 0, POLE.observation_space, POLE.action_space, "pole")
SMALL = partial(Memory, memory=8, hidden=(8,), seed=3)


def played(policy: Any, episodes: int = 2) -> Collection:
    """Rollouts of two episodes, of different lengths."""
    return collect("CartPole-v1", policy, 6, episodes=episodes, horizon=12, seed=4, plan=0)


def test_advantages_reach_over_episodes_to_the_end_of_a_rollout() -> None:
    """By hand: a rollout that is cut off, with its final observation's value, and one that ends, which is shorter."""
    mask = np.array([[1, 1], [1, 1], [1, 0]], bool)
    rewards = np.array([[1, 2], [0, 4], [3, 0]], np.float32)
    values = np.array([[0.5, 1], [1, 2], [2, 9], [4, 0]], np.float32)
    nothing = np.zeros((3, 2), np.float32)
    sequences = Sequences(nothing, nothing, nothing, nothing, nothing, rewards, np.array([False, True]), mask)
    found = advantages(sequences, rewards, values, 0.5, 0.5)
    third = 3 + 0.5 * 4 - 2
    second = 0 + 0.5 * 2 - 1 + 0.25 * third
    first = 1 + 0.5 * 1 - 0.5 + 0.25 * second
    ended = 4 - 2  # the value of what comes after an end, 9, does not count
    assert found[:, 0].tolist() == [first, second, third]
    assert found[:, 1].tolist() == [2 + 0.5 * 2 - 1 + 0.25 * ended, ended, 0]


@pytest.mark.parametrize("kind", [Memory, Markov, MemoryMarkov])
def test_the_network_learns_from_what_it_has_seen_when_it_acted(kind: Any) -> None:
    """Over whole sequences it says the log-probabilities and values that it said step by step, over all episodes."""
    import torch

    rollouts, policy = played(kind), kind(SEAT)
    sequences = sequences_of(rollouts, policy.head, policy.observations)
    seen = [torch.tensor(part) for part in (sequences.observations, sequences.actions, sequences.last_rewards)]
    answer = policy.network(*seen, policy.network.start(len(rollouts)))
    logs = policy.head.log_prob(answer.parameters[:-1], policy.network.spread, torch.tensor(sequences.raw))
    padded = rollouts.padded()
    assert sequences.mask.T.tolist() == padded["mask"].tolist()
    for name, told in (("log_prob", logs), ("value", answer.values[:-1])):
        there = padded[name][padded["mask"]]
        assert told.detach().numpy().T[padded["mask"]] == pytest.approx(there, abs=1e-5)


def test_an_update_follows_from_weights_rollouts_and_seed() -> None:
    rollouts = played(SMALL)

    def learned(seed: int) -> tuple[str, dict[str, float]]:
        learner = SequenceLearner(SMALL(SEAT), seed=seed)
        figures = learner.update(rollouts, steps=5)
        return digest(learner.weights()), figures

    assert learned(1) == learned(1)
    assert learned(1)[0] != learned(2)[0]


def test_a_learner_goes_on_from_a_snapshot_to_the_same_bits() -> None:
    rollouts = played(SMALL)
    one = SequenceLearner(SMALL(SEAT), seed=1)
    one.update(rollouts)
    two = SequenceLearner(Memory(SEAT, memory=8, hidden=(8,), seed=9), seed=1)
    two.restore(one.snapshot())
    assert [one.update(rollouts), one.updates] == [two.update(rollouts), two.updates]
    assert digest(one.weights()) == digest(two.weights())


def test_the_learning_rate_goes_down_with_what_is_left() -> None:
    rollouts = played(SMALL)
    learner = SequenceLearner(SMALL(SEAT), SequencePPO(lr=0.01))
    assert [learner.update(rollouts, steps=1, left=left)["lr"] for left in (1.0, 0.5, 0.0)] == [0.01, 0.005, 0.0005]


def test_the_scale_of_rewards_is_that_of_what_is_yet_to_come() -> None:
    scale = RewardScale(0.5)
    assert scale.spread == 1.0
    parts = [np.array([1.0, 0.0, 4.0]), np.array([2.0])]
    for each in parts:
        scale.see([each])
    assert scale.spread == pytest.approx(np.std([2.0, 2.0, 4.0, 2.0]))


def test_what_cannot_be_learned_from_is_told() -> None:
    with pytest.raises(BadInput, match="no log_prob beside their actions"):
        SequenceLearner(SMALL(SEAT)).update(collect("CartPole-v1", rollouts=2, random_actions=True, seed=1, plan=0))
    with pytest.raises(BadInput, match="there are no rollouts"):
        SequenceLearner(SMALL(SEAT)).update([])
    with pytest.raises(BadInput, match="needs a critic"):
        SequenceLearner(Markov(SEAT, critic=False))
    cut = {**played(SMALL)[0].columns, "ends": np.zeros(0, np.int64)}
    with pytest.raises(BadInput, match="has no end"):
        SequenceLearner(SMALL(SEAT)).update([SimpleNamespace(columns=cut)])


@pytest.mark.parametrize("column", ["rewards", "observations"])
def test_a_world_that_gives_numbers_which_are_none_is_blamed(column: str) -> None:
    columns = played(SMALL)[0].columns
    wrong = np.array(columns[column])
    wrong[1] = np.nan
    with pytest.raises(BadInput, match="look at the world that gave it"):
        SequenceLearner(SMALL(SEAT)).update([SimpleNamespace(columns={**columns, column: wrong})])
