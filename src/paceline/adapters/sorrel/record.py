"""What a run leaves beside the caller's own objects: rewards, trainings, failures, and what was decided."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from paceline.train.updates import Update
from paceline.types import Failure

_log = logging.getLogger("paceline.sorrel")


@dataclass
class Record:
    """A run.

    Attributes:
        rewards: Epoch by epoch, the sum of the rewards of each agent.
        updates: Every training that was due, in the order in which agents took it over: "run", "skipped" or "failed".
        failures: Agent → why it is not trained any more.
        notes: What happened beside the plan, and where it was decided that workers do not pay. Each is said once.
        asked: How many answers were asked for in workers.
        asked_again: How many of them did not hold, because what the agent saw or was had changed by its turn.
        seconds: What main spent on "collecting" and on "learning", waiting included.
    """

    rewards: list[dict[str, float]] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    asked: int = 0
    asked_again: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"collecting": 0.0, "learning": 0.0})

    def note(self, text: str) -> None:
        """Says something once."""
        if text not in self.notes:
            self.notes.append(text)
            _log.warning(text)

    def losses(self, epoch: int) -> float:
        """The sum of the losses of the trainings that an epoch has made due and that have come in."""
        return sum(update.figures.get("loss", 0.0) for update in self.updates if update.epoch == epoch)
