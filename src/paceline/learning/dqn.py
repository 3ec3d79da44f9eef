"""Deep Q-learning in a bank: double and dueling networks, rewards over several rows, a target network.

    window.sample ──► rows of each agent [steps, agents, batch, …] ──► targets, losses [agents] ──► a gradient step each

An agent draws two numbers from its generator whenever it is due, whether the action will be a random one and which, so
what it draws later does not depend on what it saw before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from paceline.learning.bank import Bank, Figures, Place, means
from paceline.learning.specs import DQN
from paceline.learning.stacked import Layers, Learning, Parameters, padded, stacked
from paceline.roles import Window
from paceline.spaces import Array
from paceline.types import Acted, Seat

_DRAWN = 8  # gradient steps whose rows are drawn at once

Batch = dict[str, Tensor]
"""The rows of a gradient step: name → [agents, batch, …]."""


class DQNBank(Bank):
    """Independent learners of the values of their actions; see `Bank` and `specs.DQN`."""

    _kept = ("weights", "first", "second", "target")
    _draws = 2  # whether the action is a random one, and which
    _settings: DQN

    def __init__(self, seats: Sequence[Seat], config: DQN, *, seed: int, worlds: int, device: str = "cpu") -> None:
        super().__init__(seats, config, seed=seed, worlds=worlds, device=device)
        self._rows["target"].copy_(self._rows["weights"])

    def _networks(self) -> tuple[Layers, ...]:
        outputs = self._actions + self._settings.dueling  # the first one is the value of the state
        return (Layers("values", (self._inputs, *self._settings.hidden, outputs), "relu", 0.1),)

    def _values(self, parameters: Parameters, seen: Tensor) -> Tensor:
        """Values of actions [agents, rows, actions]."""
        outputs = self._layers[0](parameters, seen)
        if not self._settings.dueling:
            return outputs
        advantages = outputs[..., 1:]
        return outputs[..., :1] + advantages - advantages.mean(-1, keepdim=True)

    # -- acting ------------------------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """The share of random actions in this epoch."""
        settings = self._settings
        gone = min(1.0, self._epoch / settings.explore) if settings.explore else 1.0
        return (1 - gone) * settings.epsilon_start + gone * settings.epsilon_end

    def _choose(self, parameters: Parameters, seen: Tensor, first: int, due: Sequence[Place]) -> list[Acted]:
        best = self._values(parameters, seen).cpu().numpy().argmax(-1).tolist()
        epsilon, acted = self.epsilon, []
        for agent, world in due:
            chance, which = self._drawn[agent, world].tolist()
            number = int(which * self._actions) if chance < epsilon else best[agent - first][world]
            acted.append(Acted(number + self._starts[agent], {}))
        return acted

    # -- learning ----------------------------------------------------------------------------------------------

    def _update(self, windows: Mapping[int, Window]) -> dict[int, Figures]:
        windows = {number: window for number, window in windows.items() if len(window)}
        if not windows:
            return {}
        learning = self._gather(padded(list(windows)))
        figures: dict[str, list[Tensor]] = {"loss": [], "grad_norm": [], "value": []}
        for batch in self._batches(windows):
            losses, values = self._losses(learning, batch)
            figures["grad_norm"].append(learning.descend(losses))
            figures["loss"].append(losses.detach())
            figures["value"].append(values.detach().mean(1))
            self._refresh_target(learning)
        self._scatter(learning, list(windows))
        return means(figures, list(windows))

    def _batches(self, windows: Mapping[int, Window]) -> Iterator[Batch]:
        for first in range(0, self._settings.steps, _DRAWN):
            steps = min(_DRAWN, self._settings.steps - first)
            drawn = [self._draw(number, window, steps) for number, window in windows.items()]
            rows = {name: stacked([own[name] for own in drawn], 1).to(self._device) for name in drawn[0]}
            for step in range(steps):
                yield {name: tensor[step] for name, tensor in rows.items()}

    def _draw(self, number: int, window: Window, steps: int) -> dict[str, Array]:
        """One agent's rows of some gradient steps: name → [steps, batch, …]."""
        settings, encode = self._settings, self._observations[number].rows
        rows = window.sample(settings.batch * steps, steps=settings.n_step, discount=settings.gamma)
        found = {
            "seen": encode(rows["observations"]),
            "next": encode(rows["next_observations"]),
            "actions": self._indices(number, rows["actions"]),
            "rewards": np.asarray(rows["rewards"], np.float32),
            "discounts": np.asarray(rows["discounts"], np.float32),
        }
        return {name: array.reshape(steps, settings.batch, *array.shape[1:]) for name, array in found.items()}

    def _losses(self, learning: Learning, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses [agents], and the values of what was done [agents, batch]."""
        with torch.no_grad():
            later = self._values(learning.others["target"], batch["next"])
            chosen = self._values(learning.parameters, batch["next"]) if self._settings.double else later
            best = later.gather(-1, chosen.argmax(-1, keepdim=True)).squeeze(-1)
            targets = batch["rewards"] + batch["discounts"] * best
        values = self._values(learning.parameters, batch["seen"])
        values = values.gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        return functional.smooth_l1_loss(values, targets, reduction="none").mean(1), values

    def _refresh_target(self, learning: Learning) -> None:
        """The target networks of those agents whose own counter says so take their weights."""
        for place, step in enumerate(learning.steps):
            if step % self._settings.target_every == 0:
                learning.rows["target"][place].copy_(learning.rows["weights"][place])
