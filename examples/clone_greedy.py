"""Behaviour cloning in one file: a small network learns to act like the greedy policy, from what greedy would do.

The teacher plays a built-in world, and a part of its actions is replaced by random ones, so that the network learns
too what to do where the teacher would never get to by itself. Everything follows from --seed. The weights that Paceline
ships were made by this file. Run it with: python examples/clone_greedy.py [--mission forage] [--out weights.npz]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from paceline import seed_of
from paceline.policies import POLICIES, TorchNet
from paceline.types import Mission, Seat
from paceline.worlds import MISSIONS

STRAY = 0.25  # the part of actions that are random while the teacher shows what it would do
HIDDEN = 64
BATCH = 256

Factory = Callable[[Seat], object]


class Table:
    """One env with a policy per seat: the worlds of many and those of one, played alike."""

    def __init__(self, mission: Mission, factory: Factory) -> None:
        self.env = env = mission.build()
        self.many = hasattr(env, "possible_agents")
        names = env.possible_agents if self.many else ["agent"]
        spaces = [(env.observation_space(a), env.action_space(a)) for a in names] if self.many else []
        spaces = spaces or [(env.observation_space, env.action_space)]
        self.seats = [Seat(name, i, *spaces[i], mission.name) for i, name in enumerate(names)]
        self.policies = [factory(seat) for seat in self.seats]

    def reset(self, seed: int) -> list[np.ndarray]:
        for seat, policy in zip(self.seats, self.policies, strict=True):
            policy.reset(seed_of(seed, "policy", seat.agent))
        obs, _ = self.env.reset(seed=seed)
        return [obs[seat.agent] for seat in self.seats] if self.many else [obs]

    def step(self, actions: list[int]) -> tuple[list[np.ndarray], float, bool]:
        """Gives the observations, the mean reward of the seats, and whether it is over."""
        names = [seat.agent for seat in self.seats]
        if not self.many:
            obs, reward, terminated, truncated, _ = self.env.step(actions[0])
            return [obs], float(reward), terminated or truncated
        obs, rewards, _, _, _ = self.env.step(dict(zip(names, actions, strict=True)))
        return [obs[name] for name in names], sum(rewards.values()) / len(rewards), not self.env.agents

    def act(self, obs: list[np.ndarray]) -> list[int]:
        return [policy.act(each) for policy, each in zip(self.policies, obs, strict=True)]


def show(mission: Mission, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What is seen, and what the teacher would do: so many pairs."""
    table, rng = Table(mission, POLICIES["greedy"]), np.random.default_rng(seed)
    seen: list[np.ndarray] = []
    done: list[int] = []
    episode = 0
    while len(seen) < samples:
        obs, over = table.reset(seed_of(seed, "show", episode)), False
        while not over:
            actions = table.act(obs)
            seen += obs
            done += actions
            stray = rng.random(len(actions)) < STRAY
            moves = rng.integers(table.seats[0].action_space.n, size=len(actions))
            obs, _, over = table.step([int(m) if s else a for a, m, s in zip(actions, moves, stray, strict=True)])
        episode += 1
    return np.stack(seen[:samples]), np.array(done[:samples])


def clone(seen: np.ndarray, done: np.ndarray, actions: int, epochs: int, seed: int) -> nn.Sequential:
    """Trains a network to do what was done where it was seen."""
    torch.manual_seed(seed)
    width = seen[0].size
    net = nn.Sequential(
        nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, actions)
    )
    inputs, targets = torch.from_numpy(seen.reshape(len(seen), -1)), torch.from_numpy(done)
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(inputs)).split(BATCH):
            loss = nn.functional.cross_entropy(net(inputs[rows].float()), targets[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(rows)
        schedule.step()
        print(f"epoch {epoch + 1:2}   loss {total / len(inputs):.4f}")
    return net


def save(net: nn.Sequential, path: Path) -> None:
    """Writes the weights as plain arrays, in half the bits: no pickle, and small."""
    layers = [layer for layer in net if isinstance(layer, nn.Linear)]
    arrays = {f"weight{i}": layer.weight for i, layer in enumerate(layers)}
    arrays |= {f"bias{i}": layer.bias for i, layer in enumerate(layers)}
    np.savez_compressed(path, **{name: array.detach().numpy().astype(np.float16) for name, array in arrays.items()})


def score(mission: Mission, factory: Factory, episodes: int) -> np.ndarray:
    """The mean reward per seat, of each episode."""
    totals = []
    for episode in range(episodes):
        table, total, over = Table(mission, factory), 0.0, False
        obs = table.reset(episode)
        while not over:
            obs, reward, over = table.step(table.act(obs))
            total += reward
        totals.append(total)
    return np.array(totals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mission", default="forage", choices=sorted(MISSIONS))
    parser.add_argument("--samples", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("weights.npz"))
    args = parser.parse_args()

    torch.set_num_threads(1)  # so that the last bits do not depend on the machine's cores
    start = time.perf_counter()
    mission = MISSIONS[args.mission]
    seen, done = show(mission, args.samples, args.seed)
    print(f"{len(seen)} pairs of window and action after {time.perf_counter() - start:.0f} s")
    net = clone(seen, done, Table(mission, POLICIES["random"]).seats[0].action_space.n, args.epochs, args.seed)
    save(net, args.out)
    print(f"{args.out}: {args.out.stat().st_size / 1024:.0f} KB after {time.perf_counter() - start:.0f} s")

    for name, factory in [*POLICIES.items(), ("clone", partial(TorchNet, weights=args.out))]:
        if name != "torch":
            scores = score(mission, factory, args.episodes)
            print(f"{name:8} {scores.mean():7.2f} ± {scores.std():.2f} per seat and episode")


if __name__ == "__main__":
    main()
