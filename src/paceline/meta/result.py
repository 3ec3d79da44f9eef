"""What comes of a meta-training: weights, and returns on tasks that it has learned on and on others."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from paceline.engine import Plan
from paceline.meta.references import References
from paceline.records import write_whole
from paceline.seeds import digest
from paceline.spaces import Array

WEIGHTS = "weights.npz"
"""The file of weights in the directory of a run."""
UNIT = "sum of rewards of an episode"
"""What returns are."""


@dataclass(frozen=True)
class Evaluation:
    """What came of tasks that the agent has not learned on, with its likeliest actions.

    Attributes:
        iteration: After which iteration.
        env_steps: After how many steps of learning.
        steps: How many steps it took.
        returns: Of each episode of each task: [tasks, episodes].
    """

    iteration: int
    env_steps: int
    steps: int
    returns: Array

    @property
    def episodes(self) -> list[float]:
        """The mean return of each episode of a task."""
        return [float(mean) for mean in self.returns.mean(0)]

    def figures(self) -> dict[str, float]:
        """As they are logged."""
        return {
            "metrics/return_eval_total": sum(self.episodes),
            **{f"metrics/return_eval_episode_{place}": mean for place, mean in enumerate(self.episodes, 1)},
            "metrics/total_steps_eval": self.steps / len(self.returns),
        }


@dataclass
class MetaTraining:
    """The result of `meta`.

    Attributes:
        env: The world.
        agent: Who has learned.
        seed: Root of everything random.
        weights: The last weights of its network.
        env_steps: How many steps it has learned from, those of random actions too.
        rollouts: How many rollouts they were.
        rl_steps: How many gradient steps there were.
        returns: Of each episode of each rollout: [iterations, rollouts, episodes].
        random: Of random actions: [rollouts, episodes].
        evaluations: What came of unseen tasks; the last one is on all of them.
        rows: What was logged, a row for each iteration.
        references: What other agents get in this world, if the library knows it.
        plan: Where rollouts were played, and why there.
        seconds: What it spent its time on.
        notes: What there is to tell.
        out: The directory of the run, if there is one.
    """

    env: str
    agent: str
    seed: int
    weights: Mapping[str, Array]
    env_steps: int
    rollouts: int
    rl_steps: int
    returns: Array
    random: Array
    evaluations: Sequence[Evaluation]
    rows: Sequence[Mapping[str, float]] = ()
    references: References | None = None
    plan: Plan = field(default_factory=Plan)
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    out: str | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights and of all returns."""
        returns = [self.random, self.returns, [each.returns for each in self.evaluations]]
        return digest({"weights": dict(self.weights), "returns": returns})

    @property
    def return_eval_episodes(self) -> list[float]:
        """The mean return of each episode of a task, over all unseen tasks, at the end."""
        return self.evaluations[-1].episodes

    def as_dict(self) -> dict[str, Any]:
        """Everything but weights and single returns, as JSON has it."""
        return {
            "digest": self.digest,
            "env": self.env,
            "agent": self.agent,
            "seed": self.seed,
            "env_steps": self.env_steps,
            "rollouts": self.rollouts,
            "rl_steps": self.rl_steps,
            "iterations": len(self.returns),
            "unit": UNIT,
            "return_eval_episodes": self.return_eval_episodes,
            "return_eval_total": sum(self.return_eval_episodes),
            "eval_tasks": len(self.evaluations[-1].returns),
            "return_random_episodes": [float(mean) for mean in self.random.mean(0)],
            "references": None if self.references is None else asdict(self.references),
            "curve": [[each.env_steps, *each.episodes] for each in self.evaluations],
            "plan": {"backend": self.plan.backend, "workers": self.plan.workers, "why": self.plan.why},
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
            "out": self.out,
        }

    def write(self, path: Path) -> None:
        """Writes the result to a directory: meta.json, progress.csv and weights.npz."""
        write_whole(path / "meta.json", self.as_dict())
        write_rows(path / "progress.csv", self.rows)
        write_weights(path, self.weights)

    def __repr__(self) -> str:
        return f"<MetaTraining of {self.agent} in {self.env}, {self.env_steps} steps, digest {self.digest[:16]}>"

    def __str__(self) -> str:
        means = ", ".join(f"{mean:.2f}" for mean in self.return_eval_episodes)
        random = ", ".join(f"{mean:.2f}" for mean in self.random.mean(0))
        return (
            f"{self.agent} in {self.env}, {self.env_steps} steps: {means} in the episodes of a task ({UNIT}; random "
            f"actions {random})\ndigest: {self.digest}"
        )


def write_weights(path: Path, weights: Mapping[str, Array]) -> None:
    """Writes weights to a directory, as row policies read them."""
    np.savez(path / WEIGHTS, **cast(Any, dict(weights)))


def write_rows(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Writes what was logged as a table; what a row does not say is left blank."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, names, restval="")
        table.writeheader()
        table.writerows(rows)
