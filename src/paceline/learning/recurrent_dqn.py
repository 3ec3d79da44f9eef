"""Deep Q-learning with a memory: what an agent saw and did in the epoch so far counts for the values of its actions.

    observation, last action ──► Recurrence ──► state ─┬─► values ──► action        a state per (agent, world)
                                 observation ──────────┘
    window.sequences ──► rows before (they lead the memory there), rows that are learned from, what came after

Sequences never cross the end of an episode, and so never an epoch's. A memory begins as zeros in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from paceline.learning.bank import Place
from paceline.learning.dqn import Batch, DQNBank
from paceline.learning.recurrence import Recurrence
from paceline.learning.specs import DQN
from paceline.learning.stacked import Layers, Learning, Parameters, stacked
from paceline.roles import Window
from paceline.spaces import Array
from paceline.types import Acted, Seat


class RecurrentDQNBank(DQNBank):
    """Independent learners of values that depend on what was before; see `DQNBank`, and `memory` of `specs.DQN`."""

    memoryless = False

    def __init__(self, seats: Sequence[Seat], config: DQN, *, seed: int, worlds: int, device: str = "cpu") -> None:
        super().__init__(seats, config, seed=seed, worlds=worlds, device=device)
        stack = len(self._seen)
        self._states = torch.zeros(stack, worlds, config.memory, device=device)
        self._acted = torch.zeros(stack, worlds, self._actions)  # the last action of each, one place for each number

    def _networks(self) -> tuple[Layers, ...]:
        (values,) = super()._networks()
        return (Layers(values.name, (values.sizes[0] + self._settings.memory, *values.sizes[1:]), "relu", 0.1),)

    def _recurrences(self) -> tuple[Recurrence, ...]:
        return (Recurrence("memory", self._inputs + self._actions, self._settings.memory),)

    # -- acting ------------------------------------------------------------------------------------------------

    def begin(self, epoch: int, seeds: Mapping[str, Sequence[int]]) -> None:
        """Begins an epoch: nothing of the one before is remembered."""
        super().begin(epoch, seeds)
        self._states.zero_()
        self._acted.zero_()

    def _choose(self, parameters: Parameters, seen: Tensor, first: int, due: Sequence[Place]) -> list[Acted]:
        (memory,), part = self._memories, slice(first, first + len(seen))
        inputs = torch.cat([seen, self._acted[part].to(self._device)], -1)
        states = memory.step(parameters, memory.project(parameters, inputs), self._states[part])
        acted = super()._choose(parameters, torch.cat([states, seen], -1), first, due)
        for (agent, world), answer in zip(due, acted, strict=True):
            self._states[agent, world] = states[agent - first, world]
            self._acted[agent, world] = 0
            self._acted[agent, world, answer.action - self._starts[agent]] = 1
        return acted

    def _state(self, number: int) -> dict[str, Any]:
        remembered = {"states": self._states[number].cpu().numpy().copy(), "acted": self._acted[number].numpy().copy()}
        return {**super()._state(number), **remembered}

    def _restore_agent(self, number: int, own: Mapping[str, Any]) -> None:
        super()._restore_agent(number, own)
        for kept, name in ((self._states, "states"), (self._acted, "acted")):
            if own[name].shape == tuple(kept[number].shape):  # of a bank in as many worlds: a learner has only one
                kept[number].copy_(torch.from_numpy(own[name]))

    # -- learning ----------------------------------------------------------------------------------------------

    def _batches(self, windows: Mapping[int, Window]) -> Iterator[Batch]:
        for _ in range(self._settings.steps):
            drawn = [self._sequences(number, window) for number, window in windows.items()]
            yield {name: stacked([own[name] for own in drawn]).to(self._device) for name in drawn[0]}

    def _sequences(self, number: int, window: Window) -> dict[str, Array]:
        """One agent's sequences of a gradient step: name → [time, sequences, …], or [sequences, …] by row."""
        settings, encode = self._settings, self._observations[number].rows
        count, behind = max(1, settings.batch // settings.sequence), settings.sequence + settings.n_step - 1
        rows = window.sequences(count, behind, lead=settings.lead)
        mask, lead = rows["mask"], settings.lead
        time = mask.shape[1]
        seen = np.zeros((count, time + 1, self._inputs), np.float32)
        for name, where in (("observations", slice(0, time)), ("next_observations", slice(1, time + 1))):
            # The second writes over what the first has written: the same, but behind the end of an episode.
            seen[:, where][mask] = encode(rows[name])[mask.reshape(-1)]
        numbers = self._indices(number, rows["actions"]).reshape(mask.shape)
        acted = np.zeros((count, time + 1, self._actions), np.float32)
        acted[:, 1:][mask] = np.eye(self._actions, dtype=np.float32)[numbers[mask]]
        known = np.zeros((count, time + 1), bool)
        known[:, :time], known[:, 1:] = mask, known[:, 1:] | mask
        sums = _sums(rows, mask, lead, settings.sequence, settings.n_step, settings.gamma)
        by_time = {"inputs": np.concatenate([seen, acted], -1), "begun": known[..., None].astype(np.float32)}
        return {
            **{name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in by_time.items()},
            "actions": numbers[:, lead : lead + settings.sequence],
            **sums,
        }

    def _losses(self, learning: Learning, batch: Batch) -> tuple[Tensor, Tensor]:
        """Losses [agents], and the values of what was done [agents, rows]."""
        with torch.no_grad():
            later = self._values_of(learning.others["target"], batch)
        values = self._values_of(learning.parameters, batch)  # [agents, sequences, time, actions]
        following = batch["following"].unsqueeze(-1).expand(-1, -1, -1, self._actions)
        with torch.no_grad():
            later = later.gather(2, following)
            chosen = values.gather(2, following) if self._settings.double else later
            best = later.gather(-1, chosen.argmax(-1, keepdim=True)).squeeze(-1)
            targets = batch["rewards"] + batch["discounts"] * best
        values = values[:, :, : self._settings.sequence].gather(-1, batch["actions"].unsqueeze(-1)).squeeze(-1)
        errors = functional.smooth_l1_loss(values, targets, reduction="none") * batch["counts"]
        return errors.sum((1, 2)) / batch["counts"].sum((1, 2)), values.flatten(1)

    def _values_of(self, parameters: Parameters, batch: Batch) -> Tensor:
        """Values of actions from the first row that is learned from on: [agents, sequences, time, actions]."""
        (memory,), lead = self._memories, self._settings.lead
        inputs, begun = batch["inputs"], batch["begun"]
        states = memory.unroll(parameters, inputs, begun.unbind(1))
        joined = torch.cat([states, inputs[..., : self._inputs]], -1)[:, lead:]
        agents, time, rows, size = joined.shape
        values = self._values(parameters, joined.reshape(agents, time * rows, size))
        return values.view(agents, time, rows, -1).transpose(1, 2)


def _sums(rows: Mapping[str, Any], mask: Array, lead: int, length: int, steps: int, gamma: float) -> dict[str, Array]:
    """For each row that is learned from [sequences, length]: rewards added up, and what a value afterwards counts."""
    count, earned, over = len(mask), *(np.reshape(rows[name], mask.shape) for name in ("rewards", "terminations"))
    rewards, discounts = np.zeros((count, length), np.float32), np.ones((count, length), np.float32)
    following = np.tile(np.arange(length), (count, 1))
    for step in range(steps):
        part = slice(lead + step, lead + step + length)
        goes_on = mask[:, part]
        rewards += np.where(goes_on, discounts * earned[:, part], 0).astype(np.float32)
        left = np.where(over[:, part], 0.0, gamma)
        discounts = np.where(goes_on, discounts * left, discounts).astype(np.float32)
        following += goes_on
    counts = mask[:, lead : lead + length].astype(np.float32)
    return {"rewards": rewards, "discounts": discounts, "following": following, "counts": counts}
