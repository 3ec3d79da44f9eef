"""What stacking learners gains: agents of one architecture in a bank, against a network, an Adam and a loop for each.

    python benchmarks/train_stacked.py           # aims: learning ≥ 2× at 8 agents and ≥ 2.5× from 32, acting ≥ 3×
    python benchmarks/train_stacked.py --quick

Both sides learn from rows that lie ready, 64-128-128-6, batch 64, and are measured in CPU seconds of this process on
one torch thread: the other work of the machine is not in them, but for its caches.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from command import run
from gymnasium import spaces
from quiet import Quiet, Row, gain_row, interleave

from paceline.learning import DQN, build_bank
from paceline.types import Seat

INPUTS, HIDDEN, ACTIONS, BATCH = 64, 128, 6, 64
_SETTINGS = DQN(hidden=(HIDDEN, HIDDEN), batch=BATCH, steps=8, epsilon_start=0.1)
_LEARNING_AIMS = {8: 2.0, 32: 2.5, 128: 2.5}
_ACTING_AIM = 3.0


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    agents: tuple[int, ...] = (2, 8, 32, 128)
    rounds: int = 15
    seconds: float = 0.25


class Ready:
    """A window whose rows lie ready: what is measured is the learning."""

    def __init__(self, agent: int) -> None:
        rng, count = np.random.default_rng(agent), BATCH * _SETTINGS.steps
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
    """One agent as people write it: a module, a target, torch's Adam and its clip."""

    def __init__(self) -> None:
        self.net, self.target = _network(), _network()
        self.target.load_state_dict(self.net.state_dict())
        self.adam = torch.optim.Adam(self.net.parameters(), lr=_SETTINGS.lr)
        self.steps, self.rng = 0, np.random.default_rng(0)

    def learn(self, window: Ready) -> float:
        total = 0.0
        rows = {name: torch.from_numpy(array) for name, array in window.sample(BATCH * _SETTINGS.steps).items()}
        for first in range(0, BATCH * _SETTINGS.steps, BATCH):
            batch = {name: tensor[first : first + BATCH] for name, tensor in rows.items()}
            with torch.no_grad():
                best = self.net(batch["next_observations"]).argmax(-1, keepdim=True)
                later = self.target(batch["next_observations"]).gather(-1, best).squeeze(-1)
                wanted = batch["rewards"] + batch["discounts"] * later
            values = self.net(batch["observations"]).gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
            loss = torch.nn.functional.smooth_l1_loss(values, wanted)
            self.adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), _SETTINGS.clip)
            self.adam.step()
            total += float(loss.detach())
            self.steps += 1
            if self.steps % _SETTINGS.target_every == 0:
                self.target.load_state_dict(self.net.state_dict())
        return total

    def act(self, seen: Any) -> int:
        chance, which = self.rng.random(2)
        with torch.inference_mode():
            best = int(self.net(torch.from_numpy(seen).unsqueeze(0)).argmax(-1))
        return int(which * ACTIONS) if chance < _SETTINGS.epsilon_start else best


def _network() -> torch.nn.Sequential:
    linear = torch.nn.Linear
    inner = (linear(INPUTS, HIDDEN), torch.nn.ReLU(), linear(HIDDEN, HIDDEN), torch.nn.ReLU())
    return torch.nn.Sequential(*inner, linear(HIDDEN, ACTIONS))


def _bank(agents: int) -> Any:
    seen, done = spaces.Box(-10, 10, (INPUTS,), np.float32), spaces.Discrete(ACTIONS)
    seats = [Seat(str(number), number, seen, done, "benchmark") for number in range(agents)]
    bank = build_bank(seats, _SETTINGS, seed=0, worlds=1)
    bank.begin(0, {agent: [number] for number, agent in enumerate(bank.agents)})
    return bank


def per_agent(call: Callable[[], Any], agents: int, seconds: float) -> Callable[[], float]:
    """A slice: CPU seconds of a call per agent."""

    def measure() -> float:
        count, begin = 0, time.process_time()
        while time.process_time() - begin < seconds:
            call()
            count += 1
        return (time.process_time() - begin) / count / agents

    call()
    return measure


def _row(sizes: Sizes, measure: str, agents: int, calls: dict[str, Any], aim: float | None) -> Row:
    slices = {name: per_agent(call, agents, sizes.seconds) for name, call in calls.items()}
    found = interleave(Quiet(limit=math.inf), slices, sizes.rounds)  # CPU time is our own: no slice is disturbed
    return gain_row(measure, found["bank"], found["loop"], aim)


def learning(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of an update of eight gradient steps."""
    for agents in sizes.agents:
        bank, loop = _bank(agents), [Single() for _ in range(agents)]
        windows = {agent: Ready(number) for number, agent in enumerate(bank.agents)}
        calls = {
            "bank": lambda bank=bank, windows=windows: bank.learn(windows),
            "loop": lambda loop=loop, windows=windows: [
                one.learn(window) for one, window in zip(loop, windows.values(), strict=True)
            ],
        }
        name = f"learning, {agents} agents: loop / bank, per agent-update of {_SETTINGS.steps} steps"
        yield _row(sizes, name, agents, calls, _LEARNING_AIMS.get(agents))


def acting(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of an action, exploration and encoding included."""
    for agents in sizes.agents:
        bank, loop = _bank(agents), [Single() for _ in range(agents)]
        seen = np.random.default_rng(0).standard_normal((agents, INPUTS), np.float32)
        shown = {(agent, 0): row for agent, row in zip(bank.agents, seen, strict=True)}
        calls = {
            "bank": lambda bank=bank, shown=shown: bank.act(shown),
            "loop": lambda loop=loop, seen=seen: [one.act(row) for one, row in zip(loop, seen, strict=True)],
        }
        aim = _ACTING_AIM if agents in _LEARNING_AIMS else None
        yield _row(sizes, f"acting, {agents} agents: loop / bank, per action", agents, calls, aim)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(
        "Stacked learners",
        "What stacking independent learners gains, in CPU time.",
        {"learning": learning, "acting": acting},
        Sizes(),
        Sizes(agents=(8, 32), rounds=5, seconds=0.1),
        ("paceline", "torch", "numpy"),
    )
