"""PPO in a bank: it learns, its advantages are right, and what it says of its actions is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learning_windows import Rows, noise, play, seats

from paceline.learning import build_bank, learner_spec
from paceline.learning.ppo import PPOBank, estimates
from paceline.seeds import sequence


def bank_of(spec: str, *agents: str) -> PPOBank:
    bank = build_bank(seats(*agents), learner_spec(spec), seed=1, worlds=1)
    assert isinstance(bank, PPOBank)
    return bank


def test_agents_learn_to_go_where_there_is_more() -> None:
    """Two agents find the right end of the corridor, though the left one is as near."""
    bank = bank_of("ppo,hidden=32,batch=32,lr=0.01", "a", "b")
    for epoch in range(14):
        played = play(bank, epoch, 10)
        figures = bank.learn({a: Rows(own, np.random.default_rng(sequence(4, a, epoch))) for a, own in played.items()})
    for agent, own in play(bank, 100, 20).items():
        assert own["rewards"].sum() > 18, agent
    assert all(own["entropy"] < 0.7 for own in figures.values())


def columns(rewards: list[float], values: list[float], ends: dict[int, bool]) -> dict[str, Any]:
    terminations = np.array([ends.get(row, False) for row in range(len(rewards))])
    return {
        "rewards": np.array(rewards),
        "value": np.array(values),
        "terminations": terminations,
        "ends": np.array([*ends]),
    }


def test_advantages_are_those_of_the_definition() -> None:
    """Sums of discounted errors: an end stops them, a cut is worth its final observation, an open row is left out."""
    found = columns([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.5, 0.1, 0.2, 0.3, 0.4, 0.7], {1: True, 3: False})
    advantages, returns = estimates(found, np.array([9.0, 10.0]), 0.9, 0.8)
    second, fourth = 2.0 - 0.1, 4.0 + 0.9 * 10.0 - 0.3
    expected = [1.0 + 0.9 * 0.1 - 0.5 + 0.72 * second, second, 3.0 + 0.9 * 0.3 - 0.2 + 0.72 * fourth, fourth]
    expected += [5.0 + 0.9 * 0.7 - 0.4]
    assert advantages == pytest.approx(expected)
    assert returns == pytest.approx(np.add(expected, found["value"][:5]))


def test_no_rows_have_no_advantages() -> None:
    """Nor has a lone row whose outcome is not known."""
    for rows in (0, 1):
        advantages, returns = estimates(columns([1.0] * rows, [0.0] * rows, {}), np.zeros(0), 0.9, 0.8)
        assert advantages.shape == returns.shape == (0,)


def test_the_critic_values_final_observations_only_where_episodes_are_cut_off() -> None:
    """Final observations of episodes that terminated make no difference; those of others do."""

    def weights(changed: int | None) -> Any:
        bank, own = bank_of("ppo,hidden=8,batch=16,passes=1", "a"), noise("a", 0).columns
        if changed is not None:
            own["final_observations"][changed] += 1
        bank.learn({"a": Rows(own, np.random.default_rng(0))})
        return bank.weights()["a"]["critic.0.weight"]

    untouched = weights(None)
    assert np.array_equal(untouched, weights(0))
    assert not np.array_equal(untouched, weights(1))


def test_only_new_rows_are_learned_from() -> None:
    """What lies before the last update makes no difference."""

    def weights(shift: float) -> Any:
        bank, own = bank_of("ppo,hidden=8,batch=16", "a"), noise("a", 0).columns
        own["rewards"][:14] += shift
        bank.learn({"a": Rows(own, np.random.default_rng(0), new=14)})
        return bank.weights()["a"]["actor.0.weight"]

    assert np.array_equal(weights(0), weights(5))


def test_actions_come_with_their_log_probability_and_a_value() -> None:
    """Actions are as frequent as their log-probabilities say."""
    bank = bank_of("ppo,hidden=8", "a")
    bank.load(
        {"a": {name: array * (60 if name == "actor.1.weight" else 1) for name, array in bank.weights()["a"].items()}}
    )
    bank.begin(0, {"a": [3]})
    counts, chances = np.zeros(3), np.zeros(3)
    for _ in range(600):
        acted = bank.act({("a", 0): np.full(5, 1.5, np.float32)})["a", 0]
        assert set(acted.extras) == {"log_prob", "value"}
        counts[acted.action] += 1
        chances[acted.action] = np.exp(acted.extras["log_prob"])
    assert counts.min() > 10
    assert chances.sum() == pytest.approx(1)
    assert counts / 600 == pytest.approx(chances, abs=0.06)


def test_it_says_that_it_needs_rows_of_its_own_weights() -> None:
    """A schedule with a lag can refuse it."""
    assert bank_of("ppo", "a").on_policy
    assert not build_bank(seats("a"), learner_spec("dqn"), seed=0, worlds=1).on_policy
