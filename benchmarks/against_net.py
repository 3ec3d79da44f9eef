"""The network of `against.py`'s torch policy. A module of its own, and a small one: workers import it."""

from __future__ import annotations

import torch


class Net(torch.nn.Module):
    """Scores the two actions of CartPole."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.layers(obs)
        return scores
