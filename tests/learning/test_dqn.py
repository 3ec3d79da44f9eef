"""DQN in a bank: it learns, its options do what they say, and it explores by the epoch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from learning_windows import Rows, joined, noise, play, seats

from paceline.learning import build_bank, learner_spec
from paceline.learning.dqn import DQNBank
from paceline.seeds import digest, sequence


def bank_of(spec: str, *agents: str) -> DQNBank:
    bank = build_bank(seats(*agents), learner_spec(spec), seed=1, worlds=1)
    assert isinstance(bank, DQNBank)
    return bank


def greedy(bank: Any) -> Any:
    """What an agent does at the places 1, 2 and 3 of the corridor when it explores no more."""
    bank.begin(10**6, {agent: [0] for agent in bank.agents})
    seen = np.eye(5, dtype=np.float32)
    return {
        agent: [bank.act({(agent, 0): seen[place]})[agent, 0].action for place in (1, 2, 3)] for agent in bank.agents
    }


@pytest.mark.parametrize("options", ["", ",dueling=true,n_step=3", ",double=false"])
def test_agents_learn_to_go_where_there_is_more(options: str) -> None:
    """Two agents find the right end of the corridor, though the left one is as near."""
    bank = bank_of(
        "dqn,hidden=32,batch=32,explore=8,epsilon_end=0,lr=0.005,gamma=0.8,steps=20,target_every=20" + options, "a", "b"
    )
    kept: dict[str, list[Any]] = {agent: [] for agent in bank.agents}
    for epoch in range(15):
        for agent, columns in play(bank, epoch).items():
            kept[agent].append(columns)
        windows = {a: Rows(joined(parts), np.random.default_rng(sequence(4, a, epoch))) for a, parts in kept.items()}
        figures = bank.learn(windows)
    assert greedy(bank) == {"a": [2, 2, 2], "b": [2, 2, 2]}
    assert all(own["loss"] < 0.05 for own in figures.values())


def test_six_updates_change_what_is_done() -> None:
    """The default settings learn enough in six updates that lag can be seen."""
    bank = bank_of("dqn,epsilon_start=0,epsilon_end=0", "a")
    seen = np.random.default_rng(0).standard_normal((50, 5), np.float32)

    def actions() -> list[int]:
        bank.begin(10**6, {"a": [0]})
        return [bank.act({("a", 0): row})["a", 0].action for row in seen]

    before = actions()
    for update in range(6):
        bank.learn({"a": noise("a", update)})
    assert sum(ours != theirs for ours, theirs in zip(before, actions(), strict=True)) >= 5


def test_exploration_goes_down_by_the_epoch() -> None:
    """The share of random actions is a line from the first epoch to `explore`, and stays there."""
    bank = bank_of("dqn,epsilon_start=0.9,epsilon_end=0.1,explore=8", "a")
    shares = []
    for epoch in (0, 2, 4, 8, 100):
        bank.begin(epoch, {"a": [0]})
        shares.append(bank.epsilon)
    assert shares == pytest.approx([0.9, 0.7, 0.5, 0.1, 0.1])
    fixed = bank_of("dqn,epsilon_end=0.3,explore=0", "a")
    assert fixed.epsilon == 0.3


def test_what_an_agent_draws_does_not_depend_on_its_weights() -> None:
    """At every turn it draws two numbers: where both explore, agents with other weights do the same."""
    first, other = (
        build_bank(seats("a"), learner_spec("dqn,epsilon_start=0.5"), seed=seed, worlds=1) for seed in (1, 2)
    )
    rng, chances = np.random.default_rng(9), np.random.default_rng(5)
    explored = 0
    for bank in (first, other):
        bank.begin(0, {"a": [5]})
    for _ in range(60):
        seen = {("a", 0): rng.standard_normal(5, np.float32)}
        ours, theirs = first.act(seen)["a", 0].action, other.act(seen)["a", 0].action
        chance, which = chances.random(2)
        if chance < 0.5:
            explored += 1
            assert ours == theirs == int(which * 3)
    assert 15 < explored < 45


def target_of(bank: DQNBank) -> str:
    return digest(bank.snapshot()["agents"]["a"]["rows"]["target"])


def test_the_target_network_takes_the_weights_every_so_many_steps() -> None:
    """Counted in gradient steps of the agent, over updates."""
    bank = bank_of("dqn,steps=2,target_every=3,hidden=8", "a")
    found = [target_of(bank)]
    for update in range(3):
        bank.learn({"a": noise("a", update)})
        found.append(target_of(bank))
    assert [ours != theirs for ours, theirs in pairwise(found)] == [False, True, True]
    rows = bank.snapshot()["agents"]["a"]
    assert rows["steps"] == 6
    assert np.array_equal(rows["rows"]["target"], rows["rows"]["weights"])


def test_a_reward_over_several_rows_ends_with_the_episode() -> None:
    """`n_step` and `gamma` are what the window is asked for."""
    asked = []

    class Listening(Rows):
        def sample(self, count: int, *, steps: int = 1, discount: float = 1.0) -> dict[str, Any]:
            asked.append((count, steps, discount))
            return super().sample(count, steps=steps, discount=discount)

    bank = bank_of("dqn,n_step=4,gamma=0.5,batch=6,steps=10", "a")
    bank.learn({"a": Listening(noise("a", 0).columns, np.random.default_rng(0))})
    assert asked == [(48, 4, 0.5), (12, 4, 0.5)]
