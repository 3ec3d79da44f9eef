"""Puts every question to one env, and draws the conclusion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline.doctor import questions
from paceline.doctor.costs import measure
from paceline.doctor.slowed import slowed
from paceline.doctor.target import loaded
from paceline.testing.envs import Trial, conformance
from paceline.testing.findings import Finding, Report

_STEPS, _SECONDS = 200, 2.0  # of a trajectory, of which there are about twenty
DETERMINISM = ("again", "restart", "process", "slowed", "twin", "order")
"""The findings that decide whether an env is reproducible on its own."""


@dataclass(frozen=True)
class Diagnosis(Report):
    """What the doctor found.

    Attributes:
        steps: How long each trajectory was.
        seed: What it was reset with.
    """

    steps: int
    seed: int

    @property
    def reproducible(self) -> bool:
        """Whether the env on its own gave the same trajectory from the same seed, however it was played."""
        return all(name in self and self[name].verdict == "ok" for name in DETERMINISM)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data: what `paceline doctor --json` prints."""
        return {
            "target": self.subject,
            "steps": self.steps,
            "seed": self.seed,
            "reproducible": self.reproducible,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def examine(
    target: str | Callable[[], Any],
    *,
    steps: int | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> Diagnosis:
    """Examines an env: is it sendable, deterministic, dear, and which plan would be chosen for it?

    The env is built and played many times, here, in a new process and in pools, with actions sampled from its own
    action space. The caller's random generators are left as they are.

    Args:
        target: A Gymnasium id ("CartPole-v1"), a text environment ("sokoban", "text:…"), "file.py:factory",
            "package.module:factory", or a factory.
        steps: How long each trajectory is; None: 200 steps, or as many as take two seconds.
        seed: Seeds the resets and the actions.
        progress: Told what is being asked.

    Raises:
        BadInput: the target cannot be loaded, or builds no env.
    """
    with loaded(target) as found:
        seconds = _SECONDS if steps is None else math.inf
        trial = Trial(found.factory, _STEPS if steps is None else steps, seed, found.recipe, seconds)
        return Diagnosis(found.name, tuple(_findings(trial, progress)), trial.steps, seed)


def _findings(trial: Trial, progress: Callable[[str], None]) -> list[Finding]:
    progress("playing it")
    findings = conformance(trial)
    if trial.look.stopped:
        return findings
    for what, ask in _PLAYED:
        progress(what)
        findings.append(ask(trial))
    findings += trial.run(lambda: questions.lasting(trial))
    progress("timing it")
    costs = trial.run(lambda: measure(trial.factory, trial.seed))
    return [*findings, questions.cost(trial, costs), questions.waiting(trial, costs), questions.plan(trial, costs)]


_PLAYED: list[tuple[str, Callable[[Trial], Finding]]] = [
    ("playing it slowed down", slowed),
    ("playing it beside a twin", questions.twin),
    ("playing it after another", questions.order),
    ("playing it in a pool", questions.paceline),
    ("saving it", questions.snapshot),
]
