"""PPO on CartPole in one file: a plain training loop over `make_vec`, which any Gymnasium vector env could replace.

    python examples/ppo_cartpole.py [--seed 1] [--plan auto] [--steps 60000]

Needs torch (pip install 'paceline[train]'). Prints the mean return as it learns, and at the end a digest of the
weights: the same for every plan.
"""

import argparse

import numpy as np
import torch
from torch import nn

import paceline
from paceline import make_vec

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--plan", default="auto")
parser.add_argument("--steps", type=int, default=60_000)
parser.add_argument("--envs", type=int, default=8)

ROLLOUT, EPOCHS, MINIBATCHES = 128, 4, 4
GAMMA, LAMBDA, CLIP, ENTROPY, RATE = 0.99, 0.95, 0.2, 0.01, 1e-3


class Agent(nn.Module):
    def __init__(self, seen: int, actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, actions))
        self.critic = nn.Sequential(nn.Linear(seen, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def act(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chances = torch.distributions.Categorical(logits=self.actor(obs))
        action = chances.sample()
        return action, chances.log_prob(action), self.critic(obs).squeeze(-1)


def advantages(rewards, values, next_values, ended, over):
    """Generalised advantage estimation. An episode that was cut off would have gone on: its last state has a value."""
    gains, running = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        running = (
            rewards[t] + GAMMA * next_values[t] * (1 - ended[t]) - values[t] + GAMMA * LAMBDA * (1 - over[t]) * running
        )
        gains[t] = running
    return gains


def update(agent, optimizer, obs, actions, logps, gains, returns):
    order = torch.randperm(len(obs))
    for batch in order.chunk(MINIBATCHES):
        chances = torch.distributions.Categorical(logits=agent.actor(obs[batch]))
        ratio = (chances.log_prob(actions[batch]) - logps[batch]).exp()
        gain = (gains[batch] - gains[batch].mean()) / (gains[batch].std() + 1e-8)
        policy_loss = torch.max(-gain * ratio, -gain * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        value_loss = 0.5 * (agent.critic(obs[batch]).squeeze(-1) - returns[batch]).pow(2).mean()
        loss = policy_loss + 0.5 * value_loss - ENTROPY * chances.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()


def main() -> None:
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    plan = int(args.plan) if args.plan.isdigit() else args.plan
    envs = make_vec("CartPole-v1", args.envs, plan=plan)
    agent = Agent(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=RATE)
    obs, _ = envs.reset(seed=args.seed)
    over = np.zeros(args.envs, bool)
    returns_now, finished = np.zeros(args.envs), []
    for turn in range(args.steps // (ROLLOUT * args.envs)):
        steps = []
        for _ in range(ROLLOUT):
            seen = torch.from_numpy(obs)
            with torch.no_grad():
                action, logp, value = agent.act(seen)
            begins = over  # the step after an episode's last one begins the next, whatever the action: nothing to learn
            obs, reward, ended, cut, _ = envs.step(action.numpy())
            over = ended | cut
            returns_now += reward
            finished += returns_now[over].tolist()
            returns_now[over] = 0
            flags = [torch.from_numpy(flag.astype(np.float32)) for flag in (ended, over | begins, ~begins)]
            steps.append((seen, action, logp, value, torch.tensor(reward).float(), *flags))
        all_obs, actions, logps, values, rewards, ends, overs, real = map(torch.stack, zip(*steps, strict=True))
        with torch.no_grad():
            last_value = agent.critic(torch.from_numpy(obs)).squeeze(-1)
        next_values = torch.cat([values[1:], last_value[None]])  # where an episode ends, obs is still its last one
        gains = advantages(rewards, values, next_values, ends, overs)
        flat = [part[real > 0] for part in (all_obs, actions, logps, gains, gains + values)]
        optimizer.param_groups[0]["lr"] = RATE * (1 - turn * ROLLOUT * args.envs / args.steps)
        for _ in range(EPOCHS):
            update(agent, optimizer, *flat)
        if turn % 10 == 9:
            print(f"{(turn + 1) * ROLLOUT * args.envs:7d} steps   mean return {np.mean(finished[-50:]):6.1f}")
    print(f"{envs.plan.backend}: {envs.plan.why}")
    print(f"weights {paceline.digest([p.detach() for p in agent.parameters()])[:16]}")
    envs.close()


if __name__ == "__main__":
    main()
