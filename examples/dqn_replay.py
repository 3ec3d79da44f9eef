"""Off-policy on collected rollouts: a small DQN that learns CartPole from `paceline.learning.StepReplay`.

    python examples/dqn_replay.py               # about a minute
    python examples/dqn_replay.py --workers 2   # the same digest

The loop is yours, the rollouts are collected: a copy of the policy plays in each worker, with the weights of the
iteration. The network's numbers are values of actions, and the policy draws by a softmax over them.
"""

from __future__ import annotations

import argparse
import copy
import json
from functools import partial
from typing import Any

import gymnasium
import torch

import paceline
from paceline import Collector
from paceline.learning import Markov, StepReplay, episode_of
from paceline.types import Seat

ENV, GAMMA, BATCH = "CartPole-v1", 0.98, 128


def main() -> None:
    """Collects, files, takes gradient steps, and prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--steps", type=int, default=200, help="gradient steps of an iteration")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()

    torch.set_num_threads(1)
    env = gymnasium.make(ENV)
    policy = Markov(Seat("agent_0", 0, env.observation_space, env.action_space, ENV), critic=False, seed=asked.seed)
    replay = StepReplay(50_000, env.observation_space, env.action_space, seed=asked.seed)
    adam = torch.optim.Adam(policy.network.parameters(), lr=1e-3)
    returns = []
    with Collector(ENV, partial(Markov, critic=False), seed=asked.seed, plan=asked.workers) as collector:
        for iteration in range(asked.iterations):
            rollouts = collector.collect(8, weights=policy.weights(), iteration=iteration)
            for rollout in rollouts:  # in the order of their numbers: batches follow from it
                replay.add_episode(*episode_of(rollout.columns).values())
            returns.append(float(rollouts.returns.mean()))
            learn(policy.network, replay, adam, asked.steps)
    print(json.dumps({"returns": returns, "digest": paceline.digest([returns, policy.weights()])}))


def learn(network: Any, replay: StepReplay, adam: Any, steps: int) -> None:
    """Gradient steps towards what actions are worth, by a network that stays as it was when they began."""
    target = copy.deepcopy(network)
    for _ in range(steps):
        batch = replay.sample(BATCH)
        actions = torch.as_tensor(batch["actions"], dtype=torch.int64)
        rewards = torch.as_tensor(batch["rewards"], dtype=torch.float32)
        goes_on = torch.as_tensor(~batch["terminations"], dtype=torch.float32)
        with torch.no_grad():
            wanted = rewards + GAMMA * goes_on * values(target, batch["next_observations"]).max(-1).values
        known = values(network, batch["observations"]).gather(-1, actions[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(known, wanted)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        adam.step()


def values(network: Any, observations: Any) -> Any:
    """What each action is worth: [rows, actions]."""
    rows = torch.as_tensor(observations, dtype=torch.float32)[None]
    nothing = torch.zeros(1, rows.shape[1])
    return network(rows, nothing[..., None], nothing, network.start(rows.shape[1])).parameters[0]


if __name__ == "__main__":
    main()
