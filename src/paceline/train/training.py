"""What comes of a training: rewards, updates and weights; the digest that tells whether it is the same."""

from __future__ import annotations

import csv
import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from paceline.engine import Plan
from paceline.seeds import digest
from paceline.spaces import Array
from paceline.train.updates import Update
from paceline.types import Failure


@dataclass(frozen=True)
class Speculated:
    """What speculation has done in a training whose turns were ordered; it changes no bit of the result.

    Attributes:
        answers: How many answers agents gave.
        ahead: How many of them in turns that were speculated.
        again: How many of those were made again, because the agent saw something else when it was due.
        why: Whether turns are speculated, and why.
    """

    answers: int
    ahead: int
    again: int
    why: str

    @property
    def rate(self) -> float:
        """The share of answers in speculated turns that were made again."""
        return self.again / max(1, self.ahead)

    def __str__(self) -> str:
        done = f"{self.ahead} of {self.answers} answers in speculated turns, {self.rate:.0%} of them made again"
        return f"speculation: {done if self.ahead else 'none'}; {self.why}"


@dataclass
class Training:
    """The result of `train`.

    Attributes:
        agents: All agents, in the environment's order.
        totals: What agents got, [epochs, worlds, agents].
        updates: Every update that was due, with what became of it.
        weights: Agent → its last version; only of those that learn.
        steps: Steps of all worlds.
        rows: How many rows learners have seen: agent-steps.
        lags: By how many updates the weights that acted were behind those that were due, [epochs, learning agents].
        frozen: Agent → why it did not learn to the end.
        plan: Where it was trained, and why there.
        seconds: What main spent its time on.
        notes: What there is to tell.
        turn: "simultaneous" or "ordered".
        speculation: What speculation did, if turns were ordered.
        reproducible: False where learners ran free of the timetable.
        out: The directory of the run, if there is one.
    """

    agents: list[str]
    totals: Array
    updates: list[Update]
    weights: dict[str, Any]
    steps: int = 0
    rows: int = 0
    lags: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    frozen: dict[str, Failure] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    turn: str = "simultaneous"
    speculation: Speculated | None = None
    reproducible: bool = True
    out: str | None = None

    @property
    def rewards(self) -> Array:
        """What each agent got in an epoch, the mean over worlds: [epochs, agents]."""
        mean: Array = self.totals.mean(1)
        return mean

    @property
    def losses(self) -> dict[str, list[float]]:
        """Agent → the loss of each of its updates that were run, if its learner tells one."""
        return {
            agent: [u.figures["loss"] for u in self.updates if u.agent == agent and "loss" in u.figures]
            for agent in self.weights
        }

    @property
    def summed_losses(self) -> list[float]:
        """Number of an update → the losses of all agents in it added up; a sum can hide what one agent's loss shows."""
        sums: dict[int, float] = {}
        for update in self.updates:
            if "loss" in update.figures:
                sums[update.number] = sums.get(update.number, 0.0) + update.figures["loss"]
        return [sums[number] for number in sorted(sums)]

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights of every agent and of all rewards."""
        return digest({"weights": self.weights, "totals": self.totals})

    @property
    def ratio(self) -> float:
        """Updates per row."""
        return sum(update.status == "run" for update in self.updates) / max(1, self.rows)

    @property
    def freedom(self) -> str:
        """What a training says that ran free of the timetable, with the lag and the ratio that were measured."""
        behind = f"{self.lags.mean():.2f} updates behind, {self.lags.max()} at the most" if self.lags.size else "new"
        return f"free-running: NOT reproducible; weights that acted were {behind}; {self.ratio:.3g} updates per row"

    def count(self, status: str) -> int:
        """How many updates were "run", "skipped" or "failed"."""
        return sum(update.status == status for update in self.updates)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the weights, as JSON has it."""
        ahead = self.speculation
        return {
            "digest": self.digest,
            "reproducible": self.reproducible,
            "epochs": len(self.totals),
            "steps": self.steps,
            "rows": self.rows,
            "lag": {"mean": float(self.lags.mean()), "most": int(self.lags.max())} if self.lags.size else None,
            "agents": self.agents,
            "rewards": {agent: self.rewards[:, place].tolist() for place, agent in enumerate(self.agents)},
            "losses": self.losses,
            "summed_losses": self.summed_losses,
            "updates": {status: self.count(status) for status in ("run", "skipped", "failed")},
            "reasons": sorted({update.reason for update in self.updates if update.reason}),
            "update_to_data": self.ratio,
            "frozen": {agent: asdict(failure) for agent, failure in self.frozen.items()},
            "plan": {"backend": self.plan.backend, "workers": self.plan.workers, "why": self.plan.why},
            "turn": self.turn,
            "speculation": None if ahead is None else {**asdict(ahead), "rate": ahead.rate},
            "seconds": self.seconds,
            "notes": self.notes,
            "out": self.out,
        }

    def write(self, path: Path) -> None:
        """Writes the result to a directory: training.json, epochs.csv, updates.csv and weights.npz."""
        (path / "training.json").write_text(json.dumps(self.as_dict(), indent=1) + "\n", encoding="utf-8")
        with (path / "epochs.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["epoch", "world", "agent", "reward"])
            for epoch, world, place in np.ndindex(self.totals.shape):
                rows.writerow([epoch, world, self.agents[place], self.totals[epoch, world, place]])
        names = sorted({name for update in self.updates for name in update.figures})
        with (path / "updates.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["agent", "number", "epoch", "rows", "new", "status", "reason", *names])
            for update in self.updates:
                told = [update.figures.get(name, "") for name in names]
                known = (update.agent, update.number, update.epoch, update.rows, update.new, update.status)
                rows.writerow([*known, update.reason, *told])
        arrays = {f"{agent}/{name}": array for agent, mine in self.weights.items() for name, array in _arrays(mine)}
        np.savez(path / "weights.npz", **cast(Any, arrays))

    def __repr__(self) -> str:
        return f"<Training of {len(self.agents)} agents, {len(self.totals)} epochs, digest {self.digest[:16]}>"

    def __str__(self) -> str:
        last = self.rewards[-max(1, len(self.rewards) // 10) :]
        means = ", ".join(f"{agent} {statistics.fmean(last[:, i]):.2f}" for i, agent in enumerate(self.agents))
        free = "" if self.reproducible else f", {self.freedom}"
        done = f"{self.count('run')} updates, {self.count('skipped')} skipped, {self.count('failed')} failed{free}"
        return f"{len(self.totals)} epochs, {done}; rewards of the last tenth: {means}\ndigest: {self.digest}"


def _arrays(weights: Any) -> list[tuple[str, Array]]:
    """The arrays of a version by their names; of a snapshot those that it has at its first level."""
    if not isinstance(weights, Mapping):
        return []
    inner = weights.get("weights", weights.get("snapshot", weights))
    if not isinstance(inner, Mapping):
        return []
    return [(str(name), value) for name, value in inner.items() if isinstance(value, np.ndarray)]
