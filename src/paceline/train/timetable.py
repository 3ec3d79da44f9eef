"""Timetable: which epoch unlocks which update of an agent, and from when on its weights act. Pure data.

    epoch 0 … 3   epoch 4 … 7   epoch 8 …        train_interval = 4, lag = 1
                │ update 0     │ update 1        unlocked by the epochs before
    version 0     version 0      version 1       acts: as many updates as are due, less the lag

It is counted in updates, never in seconds, so that executors may run an update when and where they like: what acts in
an epoch, and what an update learns from, are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True)
class Timetable:
    """When updates are due.

    Attributes:
        epochs: How many epochs there are.
        train_interval: After how many epochs updates are due, again and again.
        updates_per_interval: How many of an agent are due then.
        lag: By how many updates the weights that act are behind those that are due.
        priority: Agent → its share of the updates that are due; 1 where it is not named.
    """

    epochs: int
    train_interval: int = 1
    updates_per_interval: int = 1
    lag: int = 0
    priority: Mapping[str, float] = field(default_factory=dict)

    def due(self, agent: str, epochs: int) -> int:
        """How many updates of an agent are due, in all, once so many epochs have been played."""
        return math.floor(epochs // self.train_interval * self._per_interval(agent))

    def _per_interval(self, agent: str) -> Fraction:
        return self.updates_per_interval * Fraction(float(self.priority.get(agent, 1))).limit_denominator(1000)

    def epochs_apart(self, agent: str) -> int:
        """How many epochs there are between two updates of an agent, at the most; 0: it has none."""
        share = self._per_interval(agent)
        return self.train_interval * math.ceil(1 / share) if self.due(agent, self.epochs) else 0

    def unlocked(self, agent: str, epoch: int) -> range:
        """The numbers of the updates that become due when epoch number `epoch` has been played."""
        return range(self.due(agent, epoch), self.due(agent, epoch + 1))

    def version(self, agent: str, epoch: int) -> int:
        """Which version of an agent's weights acts in an epoch: how many of its updates are in it."""
        return max(0, self.due(agent, epoch) - self.lag)

    def epochs_behind(self) -> int:
        """How many epochs may be played, at the most, before the weights of an update that is due must be there."""
        return self.train_interval * (1 + -(-self.lag // self.updates_per_interval))
