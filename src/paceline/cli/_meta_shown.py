"""What came of `paceline meta`, for people: returns by episode of a task, beside what others get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from paceline.cli._tables import console, number, table
from paceline.cli._trained import NO_CURVES
from paceline.evaluate.statistics import summarize
from paceline.meta.references import NAMES
from paceline.report.curves import can_draw


def show_meta(found: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """Prints what the agent gets in each episode of an unseen task, and what others get."""
    first, page = found[0], console()
    episodes = len(first["return_eval_episodes"])
    made = table("", *(f"episode {place}" for place in range(1, episodes + 1)), "total", "± 95 %")
    rows = [one["return_eval_episodes"] for one in found]
    means = [sum(column) / len(column) for column in zip(*rows, strict=True)]
    interval = summarize([sum(row) for row in rows]).ci
    made.add_row(first["agent"], *map(number, means), number(sum(means)), number(interval))
    for name, values in _others(first).items():
        made.add_row(NAMES[name], *map(number, values), number(sum(values)), "")
    page.print(f"{first['env']}: {first['unit']}, mean over {first['eval_tasks']} evaluation tasks{_over(found)}")
    page.print(made)
    page.print()
    for note in first["notes"]:
        page.print(Text(f"note: {note}", style="dim"))
    for one in found:
        page.print(Text(_how(one), style="dim"))
    if out is not None:
        page.print(Text(f"results: {out}{'' if can_draw() else f' ({NO_CURVES})'}", style="dim"))
    for one in found:
        page.print(Text.assemble("digest:  ", (one["digest"], "bold")))


def _over(found: Sequence[Mapping[str, Any]]) -> str:
    return f" and {len(found)} seeds" if len(found) > 1 else ""


def _others(one: Mapping[str, Any]) -> dict[str, list[float]]:
    known = one["references"]
    return {"random": one["return_random_episodes"]} if known is None else dict(known)


def _how(one: Mapping[str, Any]) -> str:
    plan, seconds = one["plan"], one["seconds"]
    total = sum(seconds.values()) or 1.0
    shares = ", ".join(f"{name} {100 * spent / total:.0f} %" for name, spent in seconds.items())
    count = f" on {plan['workers']} workers" if plan["workers"] and plan["backend"] != "inline" else ""
    return (
        f"seed {one['seed']}: {one['env_steps']} steps, {one['rollouts']} rollouts, {one['rl_steps']} gradient steps "
        f"in {total:.1f} s ({shares}), {plan['backend']}{count}: {plan['why'] or 'as asked'}"
    )
