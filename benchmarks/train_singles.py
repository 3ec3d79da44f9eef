"""Independent learners as people write them: a module, a target, torch's Adam and a loop over agents.

64-128-128-6, batch 64: the sizes that stacked learners are compared at. Rows lie ready in `Ready`, so that what is
measured is the learning.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from paceline.learning import DQN, build_bank
from paceline.types import Seat

INPUTS, HIDDEN, ACTIONS, BATCH = 64, 128, 6, 64
SETTINGS = DQN(hidden=(HIDDEN, HIDDEN), batch=BATCH, steps=8, epsilon_start=0.1)
SPEC = f"dqn,hidden={HIDDEN}x{HIDDEN},batch={BATCH},steps={SETTINGS.steps}"


class Sampled(Protocol):
    """What a learner draws its rows from."""

    def sample(self, count: int, **_: Any) -> dict[str, Any]:
        """Rows of some gradient steps."""


class Ready:
    """A window whose rows lie ready."""

    def __init__(self, agent: int) -> None:
        rng, count = np.random.default_rng(agent), BATCH * SETTINGS.steps
        self.rng = rng
        self.drawn = {
            "observations": rng.standard_normal((count, INPUTS), np.float32),
            "next_observations": rng.standard_normal((count, INPUTS), np.float32),
            "actions": rng.integers(ACTIONS, size=count),
            "rewards": rng.standard_normal(count).astype(np.float32),
            "discounts": np.full(count, 0.95, np.float32),
        }

    def __len__(self) -> int:
        return len(self.drawn["rewards"])

    def sample(self, count: int, **_: Any) -> dict[str, Any]:
        return self.drawn


class Single:
    """One agent: its network, its target, its Adam."""

    def __init__(self) -> None:
        self.net, self.target = _network(), _network()
        self.target.load_state_dict(self.net.state_dict())
        self.adam = torch.optim.Adam(self.net.parameters(), lr=SETTINGS.lr)
        self.steps, self.rng = 0, np.random.default_rng(0)

    def learn(self, window: Sampled) -> float:
        """An update of several gradient steps; gives the sum of their losses."""
        total = 0.0
        rows = {name: torch.from_numpy(array) for name, array in window.sample(BATCH * SETTINGS.steps).items()}
        for first in range(0, BATCH * SETTINGS.steps, BATCH):
            batch = {name: tensor[first : first + BATCH] for name, tensor in rows.items()}
            total += self._step(batch)
        return total

    def _step(self, batch: dict[str, torch.Tensor]) -> float:
        with torch.no_grad():
            best = self.net(batch["next_observations"]).argmax(-1, keepdim=True)
            later = self.target(batch["next_observations"]).gather(-1, best).squeeze(-1)
            wanted = batch["rewards"] + batch["discounts"] * later
        values = self.net(batch["observations"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        loss = torch.nn.functional.smooth_l1_loss(values, wanted)
        self.adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), SETTINGS.clip)
        self.adam.step()
        self.steps += 1
        if self.steps % SETTINGS.target_every == 0:
            self.target.load_state_dict(self.net.state_dict())
        return float(loss.detach())

    def act(self, seen: Any) -> int:
        """An action, sometimes a random one."""
        chance, which = self.rng.random(2)
        with torch.inference_mode():
            best = int(self.net(torch.from_numpy(seen).unsqueeze(0)).argmax(-1))
        return int(which * ACTIONS) if chance < SETTINGS.epsilon_start else best


def _network() -> torch.nn.Sequential:
    linear = torch.nn.Linear
    inner = (linear(INPUTS, HIDDEN), torch.nn.ReLU(), linear(HIDDEN, HIDDEN), torch.nn.ReLU())
    return torch.nn.Sequential(*inner, linear(HIDDEN, ACTIONS))


def bank_of(agents: int) -> Any:
    """So many stacked agents of the same sizes, ready to act."""
    seen, done = spaces.Box(-10, 10, (INPUTS,), np.float32), spaces.Discrete(ACTIONS)
    seats = [Seat(str(number), number, seen, done, "benchmark") for number in range(agents)]
    bank = build_bank(seats, SETTINGS, seed=0, worlds=1)
    bank.begin(0, {agent: [number] for number, agent in enumerate(bank.agents)})
    return bank
