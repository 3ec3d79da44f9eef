"""Torch modules that the tests of adapters play. Workers import this module by name."""

from __future__ import annotations

import torch


class Net(torch.nn.Module):
    """Scores two actions of CartPole."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layers(obs)
