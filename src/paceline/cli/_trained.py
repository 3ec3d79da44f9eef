"""What came of `paceline train`, for people: a table of agents, or of agents and seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli._tables import console, number, table
from paceline.evaluate.statistics import Summary, summarize
from paceline.report.curves import can_draw, draw_seeds
from paceline.train import Training

NO_CURVES = "no curves.png: matplotlib is not installed (pip install 'paceline[report]')"
_SHOWN = 5
_STATES = ("run", "skipped", "failed")


def show_training(training: Training) -> None:
    """Prints what each agent got and learned, where it was trained, and where the results are."""
    page = console()
    page.print(_agents(training))
    page.print()
    for note in training.notes[:_SHOWN]:
        page.print(Text(f"note: {note}", style="dim"))
    for agent in training.frozen:
        page.print(Text(f"agent {agent!r} was frozen: from then on it acted with its last weights", style="red"))
    if not training.reproducible:
        page.print(Text(training.freedom, style="red"))
    plan = training.plan
    page.print(Text(_how(training.as_dict(), plan.backend, plan.workers, plan.why), style="dim"))
    _show_directory(page, training.out)
    page.print(Text.assemble("digest:  ", (training.digest, "bold")))


def _agents(training: Training) -> Table:
    made = table("agent", "first tenth", "last tenth", *(f"updates {state}" for state in _STATES), "last loss")
    rewards, losses = training.rewards, training.losses
    tenth = tenth_of(len(rewards))
    for place, agent in enumerate(training.agents):
        mine = [update.status for update in training.updates if update.agent == agent]
        loss = losses.get(agent)
        made.add_row(
            agent,
            number(float(rewards[:tenth, place].mean())),
            number(float(rewards[-tenth:, place].mean())),
            *(str(mine.count(state)) if agent in training.weights else "–" for state in _STATES),
            number(loss[-1] if loss else None, 4),
        )
    first, last = float(rewards[:tenth].mean()), float(rewards[-tenth:].mean())
    made.add_row("all", number(first), number(last), *(str(training.count(state)) for state in _STATES), "")
    return made


def tenth_of(epochs: int) -> int:
    """How many epochs a tenth of them are; at least one."""
    return max(1, epochs // 10)


def _how(found: Mapping[str, Any], backend: str, workers: int | None, why: str) -> str:
    count = f" on {workers} worker{'s' if workers > 1 else ''}" if workers and backend != "inline" else ""
    seconds = sum(found["seconds"].values())
    return f"{found['epochs']} epochs, {found['steps']} steps in {seconds:.1f} s, {backend}{count}: {why or 'as asked'}"


def _show_directory(page: Console, out: str | None) -> None:
    if out is None:
        return
    if not can_draw():
        page.print(Text(f"note: {NO_CURVES}", style="dim"))
    page.print(Text(f"results: {out}", style="dim"))


# -- of several seeds ----------------------------------------------------------------------------------------


def show_seeds(found: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """Prints the rewards of the last tenth over seeds, and what each seed gave."""
    page = console()
    page.print(f"reward of the last tenth of {found[0]['epochs']} epochs, over {len(found)} seeds")
    made = table("agent", "mean", "± 95 %", "least", "most")
    for name, each in last_tenths(found).items():
        made.add_row(name, number(each.mean), number(each.ci), number(each.least), number(each.most))
    page.print(made)
    page.print()
    seeds = table("seed", "reward", *(f"updates {state}" for state in _STATES), "digest")
    for one in found:
        mean = statistics.fmean(_last_tenth(one, agent) for agent in one["agents"])
        seeds.add_row(str(one["seed"]), number(mean), *(str(one["updates"][state]) for state in _STATES), one["digest"])
    page.print(seeds)
    page.print()
    _show_directory(page, None if out is None else str(out))


def last_tenths(found: Sequence[Mapping[str, Any]]) -> dict[str, Summary]:
    """Agent → its rewards in the last tenth of the epochs, over seeds; "all": the mean of all agents."""
    agents = found[0]["agents"]
    rows = {agent: [_last_tenth(one, agent) for one in found] for agent in agents}
    rows["all"] = [statistics.fmean(values) for values in zip(*rows.values(), strict=True)]
    return {name: summarize(values) for name, values in rows.items()}


def draw_all(found: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Draws the mean over seeds with its interval, if that is possible here."""
    if can_draw():
        rewards = [np.mean([one["rewards"][agent] for agent in one["agents"]], 0) for one in found]
        draw_seeds(rewards, lambda values: summarize(values).ci, out / "curves.png")


def _last_tenth(one: Mapping[str, Any], agent: str) -> float:
    rewards = one["rewards"][agent]
    return statistics.fmean(rewards[-tenth_of(len(rewards)) :])
