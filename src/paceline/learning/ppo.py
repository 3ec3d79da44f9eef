"""Proximal policy optimisation in a bank: a softmax over numbered actions, and a critic beside it.

    window.new ──► values of final observations ──► advantages of each agent's rows ──► passes of minibatches
                                                                                           │
                             clipped objective, critic's error, entropy: losses [agents] ◄─┘

A minibatch has as many rows as the settings say: the last one of a pass is filled up from the beginning of its order.
Agents with as many minibatches as each other are stacked; those with more or fewer rows learn in a stack of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.learning.bank import Bank, Figures, Place, means
from paceline.learning.heads import Categorical
from paceline.learning.specs import PPO
from paceline.learning.stacked import Layers, Learning, Parameters, padded, stacked
from paceline.roles import Window
from paceline.spaces import Array
from paceline.types import Acted, Seat

Rows = dict[str, Array]
"""What an agent learns from in one update: name → [rows, …]."""


class PPOBank(Bank):
    """Independent actors and critics; see `Bank` and `specs.PPO`. With each action it says `log_prob` and `value`."""

    on_policy = True
    _draws = 1
    _settings: PPO

    def __init__(self, seats: Sequence[Seat], config: PPO, *, seed: int, worlds: int, device: str = "cpu") -> None:
        super().__init__(seats, config, seed=seed, worlds=worlds, device=device)
        self._head = Categorical(seats[0].action_space)
        self._spread = torch.zeros(0, device=device)  # numbered actions have none

    def _networks(self) -> tuple[Layers, ...]:
        sizes = (self._inputs, *self._settings.hidden)
        # The actor begins with actions that are nearly alike.
        return Layers("actor", (*sizes, self._actions), "tanh", 0.01), Layers("critic", (*sizes, 1), "tanh", 1.0)

    # -- acting ------------------------------------------------------------------------------------------------

    def _choose(self, parameters: Parameters, seen: Tensor, first: int, due: Sequence[Place]) -> list[Acted]:
        rows = [(agent - first, world) for agent, world in due]
        noise = np.zeros((*seen.shape[:2], 1))
        for row, place in zip(rows, due, strict=True):
            noise[row] = self._drawn[place]
        actor, critic = self._layers
        scores = actor(parameters, seen)
        raw = self._head.raw(scores, self._spread, torch.from_numpy(noise).to(seen.device), True)
        logs = self._head.log_prob(scores, self._spread, raw).cpu().numpy()
        values = critic(parameters, seen).squeeze(-1).cpu().numpy()
        numbers = raw.cpu().numpy()
        return [
            Acted(int(numbers[row]) + self._starts[agent], {"log_prob": logs[row], "value": values[row]})
            for row, (agent, _) in zip(rows, due, strict=True)
        ]

    # -- learning ----------------------------------------------------------------------------------------------

    def _update(self, windows: Mapping[int, Window]) -> dict[int, Figures]:
        columns = {number: window.new for number, window in windows.items()}
        finals = self._values_of_finals(columns)
        rows = {number: self._rows_of(number, own, finals[number]) for number, own in columns.items()}
        alike: dict[int, list[int]] = defaultdict(list)
        for number, own in rows.items():
            alike[-(-len(own["seen"]) // self._settings.batch)].append(number)
        learned = [
            (agents, *self._descend([rows[n] for n in agents], [windows[n].rng for n in agents], agents, count))
            for count, agents in alike.items()
            if count
        ]
        for agents, learning, _ in learned:  # when nothing can fail any more
            self._scatter(learning, agents)
        return {number: own for _, _, figures in learned for number, own in figures.items()}

    def _values_of_finals(self, columns: Mapping[int, Mapping[str, Any]]) -> dict[int, Array]:
        """What each agent's critic says to the last observations of its episodes, in forwards of `batch` rows."""
        size = self._settings.batch
        seen = {
            number: self._encoded(number, own["final_observations"], own["ends"]) for number, own in columns.items()
        }
        found: dict[int, list[Array]] = {number: [np.zeros(0, np.float32)] for number in columns}
        for first in range(0, max(map(len, seen.values()), default=0), size):
            due = [number for number, rows in seen.items() if len(rows) > first]
            parts = [seen[number][first : first + size] for number in due]
            full = [np.pad(part, ((0, size - len(part)), (0, 0))) for part in parts]
            with torch.inference_mode():
                parameters = self._layout.views(self._rows["weights"][padded(due)])
                values = self._layers[1](parameters, stacked(full).to(self._device)).squeeze(-1).cpu().numpy()
            for place, (number, part) in enumerate(zip(due, parts, strict=True)):
                found[number].append(values[place, : len(part)])
        return {number: np.concatenate(parts) for number, parts in found.items()}

    def _encoded(self, number: int, observations: Any, rows: Any) -> Array:
        """Observations [rows, …] as rows of numbers; there may be none, and then they have no shape either."""
        return self._observations[number].rows(observations) if len(rows) else np.zeros((0, self._inputs), np.float32)

    def _rows_of(self, number: int, columns: Mapping[str, Any], finals: Array) -> Rows:
        advantages, returns = estimates(columns, finals, self._settings.gamma, self._settings.gae)
        kept = len(advantages)
        spread = advantages.std() + 1e-8 if kept else 1.0
        return {
            "seen": self._encoded(number, columns["observations"], columns["rewards"])[:kept],
            "actions": self._indices(number, columns["actions"])[:kept],
            "logs": np.asarray(columns["log_prob"], np.float32)[:kept],
            "advantages": ((advantages - advantages.sum() / max(1, kept)) / spread).astype(np.float32),
            "returns": returns.astype(np.float32),
        }

    def _descend(
        self, rows: Sequence[Rows], rngs: Sequence[np.random.Generator], agents: Sequence[int], count: int
    ) -> tuple[Learning, dict[int, Figures]]:
        """Goes through the rows of agents that have as many minibatches as each other; changes copies of theirs."""
        learning = self._gather(padded(agents))
        figures: dict[str, list[Tensor]] = defaultdict(list)
        for _ in range(self._settings.passes):
            orders = [self._order(rng, len(own["seen"]), count) for rng, own in zip(rngs, rows, strict=True)]
            for number in range(count):
                batch = {
                    name: stacked([own[name][order[number]] for own, order in zip(rows, orders, strict=True)])
                    for name in rows[0]
                }
                losses, parts = self._losses(learning, {name: part.to(self._device) for name, part in batch.items()})
                norms = learning.descend(losses)
                for name, figure in {"loss": losses, "grad_norm": norms, **parts}.items():
                    figures[name].append(figure.detach())
        return learning, means(figures, agents)

    def _order(self, rng: np.random.Generator, rows: int, count: int) -> Array:
        """The rows of each minibatch of a pass: [count, batch]."""
        return np.resize(rng.permutation(rows), (count, self._settings.batch))

    def _losses(self, learning: Learning, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses [agents], and what they are made of."""
        settings, (actor, critic) = self._settings, self._layers
        scores = actor(learning.parameters, batch["seen"])
        values = critic(learning.parameters, batch["seen"]).squeeze(-1)
        ratios = (self._head.log_prob(scores, self._spread, batch["actions"]) - batch["logs"]).exp()
        clipped = ratios.clamp(1 - settings.ratio, 1 + settings.ratio)
        policy = -torch.min(ratios * batch["advantages"], clipped * batch["advantages"]).mean(1)
        error = (values - batch["returns"]).square().mean(1)
        entropy = self._head.entropy(scores, self._spread).mean(1)
        losses = policy + settings.critic * error - settings.entropy * entropy
        return losses, {"policy_loss": policy, "value_loss": error, "entropy": entropy}


def estimates(columns: Mapping[str, Any], finals: Array, gamma: float, gae: float) -> tuple[Array, Array]:
    """Generalised advantages and returns of one agent's rows, in double precision.

    An episode that terminated is worth nothing after its end; one that was cut off is worth what the critic says of
    its final observation. If the last row is no end, what came of it is not known: it is left out, and its value is
    what the row before it led to.

    Args:
        columns: `rewards`, `value`, `terminations` of the rows, and `ends`.
        finals: The critic's values of the final observations.
        gamma: What a reward counts one row later.
        gae: How much further rows count.

    Returns:
        Advantages and returns, [rows] each.
    """
    rewards, values = (np.asarray(columns[name], np.float64) for name in ("rewards", "value"))
    ends, rows = np.asarray(columns["ends"], np.int64), len(rewards)
    kept = rows if len(ends) and ends[-1] == rows - 1 else max(0, rows - 1)
    later, goes_on = np.zeros(rows), np.ones(rows)
    later[:-1] = values[1:]
    later[ends] = np.where(np.asarray(columns["terminations"], bool)[ends], 0.0, np.asarray(finals, np.float64))
    goes_on[ends] = 0.0
    errors = (rewards + gamma * later - values).tolist()
    factors = (gamma * gae * goes_on).tolist()
    advantages, following = np.zeros(kept), 0.0
    for row in reversed(range(kept)):
        following = errors[row] + factors[row] * following
        advantages[row] = following
    return advantages, advantages + values[:kept]
