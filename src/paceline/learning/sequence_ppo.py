"""Proximal policy optimisation over whole rollouts: what makes RL² of a policy with a memory.

    collection ──► Sequences ── one forward ──► values ──► advantages over all episodes of each task
                                                               │
                  passes of minibatches of whole rollouts ◄────┘   which rollouts: drawn from (seed, update)

The network is that of the row policy which has collected the rollouts. Every forward of an update has the shape that
the collection says, so an update follows from the weights, the collection and its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.errors import BadInput, Diverged
from paceline.learning.row_policies import Markov
from paceline.learning.sequences import RewardScale, Rollout, Sequences, advantages, sequences_of
from paceline.learning.specs import SequencePPO
from paceline.seeds import sequence
from paceline.spaces import Array

FIGURES = ("policy_loss", "value_loss", "entropy", "clipped", "kl", "gradient", "lr", "reward_scale")
"""What `update` tells."""

_LEAST_RATE = 0.05  # of the learning rate, at the end
_TINY = 1e-8


class SequenceLearner:
    """Has a row policy learn from the rollouts that it has played.

    Args:
        policy: The policy: its network is changed.
        settings: How it learns.
        seed: What the order of minibatches follows from.

    Raises:
        BadInput: it has no critic.
    """

    def __init__(self, policy: Markov, settings: SequencePPO | None = None, *, seed: int = 0) -> None:
        if policy.network.critic is None:
            raise BadInput("PPO needs a critic beside the actor: leave critic=False away")
        self.policy, self.settings = policy, SequencePPO() if settings is None else settings
        self.updates = 0
        """How many have been made."""
        self._seed, self._scale = seed, RewardScale(self.settings.gamma)
        self._parameters = list(policy.network.parameters())
        self._adam = torch.optim.Adam(self._parameters, lr=self.settings.lr, eps=1e-5)

    def weights(self) -> dict[str, Array]:
        """The weights by name: copies."""
        return self.policy.weights()

    def see(self, collection: Any) -> None:
        """Takes in how large rewards are; any rollouts will do, those of random actions too.

        Raises:
            BadInput: a reward is not finite.
        """
        rewards = [np.asarray(rollout.columns["rewards"], np.float64) for rollout in collection]
        for number, each in enumerate(rewards):
            if not np.isfinite(each).all():
                raise BadInput(
                    f"rollout {number} has a reward of {each[~np.isfinite(each)][0]}, and nothing can be learned from "
                    "it: look at the world that gave it"
                )
        self._scale.see(rewards)

    def update(self, collection: Any, *, steps: int | None = None, left: float = 1.0) -> dict[str, float]:
        """Learns from rollouts that were collected with the weights as they are.

        Args:
            collection: The rollouts: a `paceline.Collection`.
            steps: How many gradient steps, each on one minibatch of whole rollouts; None: `passes` over all of them.
            left: Which share of the training is still to come; the learning rate goes down with it.

        Returns:
            `FIGURES`, means over the gradient steps.

        Raises:
            BadInput: they are no such rollouts.
            Diverged: losses or weights are not finite any more; the message names the update.
        """
        self.see(collection)
        rollouts: list[Rollout] = list(collection)
        sequences = sequences_of(rollouts, self.policy.head, self.policy.observations)
        rate = self.settings.lr * (max(_LEAST_RATE, left) if self.settings.anneal else 1.0)
        for group in self._adam.param_groups:
            group["lr"] = rate
        told = [self._step(batch) for batch in self._minibatches(sequences, steps)]
        self.updates += 1
        means = np.array(told, np.float64).mean(0)
        figures = dict(zip(FIGURES, [*map(float, means), rate, self._scale.spread], strict=True))
        self._check(figures)
        return figures

    def _minibatches(self, sequences: Sequences, steps: int | None) -> Iterator[dict[str, Tensor]]:
        """The minibatches of an update: each has as many rollouts; a last one is filled from the order's beginning."""
        columns = self._columns(sequences)
        count = len(sequences.terminated)
        size = -(-count // min(self.settings.minibatches, count))
        each = -(-count // size)
        for number in range(self.settings.passes * each if steps is None else steps):
            walk, place = divmod(number, each)
            order = np.random.default_rng(sequence(self._seed, "minibatches", self.updates, walk)).permutation(count)
            chosen = torch.from_numpy(np.take(order, range(place * size, (place + 1) * size), mode="wrap"))
            yield {name: column.index_select(1, chosen) for name, column in columns.items()}

    def _columns(self, sequences: Sequences) -> dict[str, Tensor]:
        """What gradient steps look at, [time (+ 1), rollouts, …], on the network's device."""
        settings, device = self.settings, self._parameters[0].device
        seen = {
            "observations": sequences.observations,
            "actions": sequences.actions,
            "last_rewards": sequences.last_rewards,
        }
        # torch.tensor copies into torch's own memory, which is aligned: bits may depend on that.
        given = {name: torch.tensor(array, device=device) for name, array in seen.items()}
        with torch.inference_mode():
            values = self._answer(given).values.cpu().numpy()
        rewards = sequences.rewards / np.float32(self._scale.spread)
        gains = advantages(sequences, rewards, values, settings.gamma, settings.gae)
        returns = (gains + values[:-1]) * sequences.mask
        rows = gains[sequences.mask]
        gains = (gains - rows.mean()) / (rows.std() + _TINY) * sequences.mask
        made = {
            "raw": sequences.raw,
            "log_probs": sequences.log_probs,
            "gains": gains.astype(np.float32),
            "returns": returns.astype(np.float32),
            "mask": sequences.mask.astype(np.float32),
        }
        given = {name: column[:-1] for name, column in given.items()}
        return {**given, **{name: torch.tensor(array, device=device) for name, array in made.items()}}

    def _answer(self, seen: Mapping[str, Tensor]) -> Any:
        network = self.policy.network
        state = network.start(seen["observations"].shape[1]).to(seen["observations"].device)
        return network(seen["observations"], seen["actions"], seen["last_rewards"], state)

    def _step(self, batch: Mapping[str, Tensor]) -> list[float]:
        """One gradient step. Gives the first of the `FIGURES`."""
        settings, head, spread = self.settings, self.policy.head, self.policy.network.spread
        answer, mask = self._answer(batch), batch["mask"]
        rows = mask.sum()
        logs = head.log_prob(answer.parameters, spread, batch["raw"])
        off = (logs - batch["log_probs"]) * mask
        ratio = off.exp()
        kept = ratio.clamp(1 - settings.ratio, 1 + settings.ratio)
        policy = -(torch.minimum(ratio * batch["gains"], kept * batch["gains"]) * mask).sum() / rows
        value = ((answer.values - batch["returns"]) ** 2 * mask).sum() / rows
        entropy = (head.entropy(answer.parameters, spread) * mask).sum() / rows
        loss = policy + settings.critic * value - settings.entropy * entropy
        self._adam.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, settings.clip)
        self._adam.step()
        with torch.no_grad():
            clipped = ((ratio != kept) * mask).sum() / rows
            kl = ((ratio - 1 - off) * mask).sum() / rows
        return [float(each.detach()) for each in (policy, value, entropy, clipped, kl, norm)]

    def _check(self, figures: Mapping[str, float]) -> None:
        bad = [name for name, value in figures.items() if not np.isfinite(value)]
        bad += [name for name, array in self.weights().items() if not np.isfinite(array).all()]
        if bad:
            raise Diverged(
                f"update {self.updates} gave numbers that are not finite: {', '.join(bad[:3])}; the weights are of no "
                "use any more"
            )

    # -- on disk and back --------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that it is: weights, optimizer, counters. For `restore`, in a learner of the same settings."""
        moments = {
            place: {name: each.detach().cpu().numpy().copy() for name, each in state.items()}
            for place, state in self._adam.state_dict()["state"].items()
        }
        return {
            "weights": self.weights(),
            "moments": moments,
            "updates": self.updates,
            "scale": self._scale.snapshot(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a snapshot."""
        self.policy.load(state["updates"], state["weights"])
        moments = {
            place: {name: torch.tensor(each) for name, each in own.items()} for place, own in state["moments"].items()
        }
        self._adam.load_state_dict({**self._adam.state_dict(), "state": moments})
        self.updates = state["updates"]
        self._scale.restore(state["scale"])
