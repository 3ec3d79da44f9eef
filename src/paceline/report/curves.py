"""Learning curves as PNG: rewards over epochs, of each agent or over several seeds; returns over steps beside lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from paceline.errors import BadInput

_NAMED = 12  # agents that have a name of their own in the legend
_DASHES = ("dotted", "dashdot", "dashed", "solid")  # of lines, as they come
_PARTS = 20  # a curve is the mean over this part of all epochs


def can_draw() -> bool:
    """Whether curves can be drawn here."""
    return find_spec("matplotlib") is not None


def draw_agents(rewards: Any, agents: Sequence[str], path: Path) -> None:
    """Draws a curve for each agent, and their mean.

    Args:
        rewards: What each agent got in an epoch, [epochs, agents].
        agents: Their names.
        path: The file.

    Raises:
        BadInput: matplotlib is missing.
    """
    smooth = smoothed(np.asarray(rewards, np.float64))
    epochs = _epochs(smooth, len(rewards))

    def draw(axes: Any) -> None:
        for place, agent in enumerate(agents):
            name = agent if len(agents) <= _NAMED else None
            axes.plot(epochs, smooth[:, place], linewidth=1, alpha=0.6, label=name)
        axes.plot(epochs, smooth.mean(1), color="black", linewidth=2, label="mean of agents")

    _draw(draw, path)


def draw_seeds(rewards: Any, widths: Callable[[Sequence[float]], float | None], path: Path) -> None:
    """Draws the mean over seeds of what all agents got, with a band.

    Args:
        rewards: The mean over agents, [seeds, epochs].
        widths: Gives half the width of the band, of the numbers of one epoch.
        path: The file.

    Raises:
        BadInput: matplotlib is missing.
    """
    smooth = smoothed(np.asarray(rewards, np.float64).T)
    epochs, mean = _epochs(smooth, len(rewards[0])), smooth.mean(1)
    half = np.array([widths(row.tolist()) or 0.0 for row in smooth])

    def draw(axes: Any) -> None:
        axes.plot(epochs, mean, color="black", linewidth=2, label=f"mean of {len(rewards)} seeds")
        axes.fill_between(epochs, mean - half, mean + half, alpha=0.3, label="95 % interval")

    _draw(draw, path)


def draw_returns(
    curves: Mapping[str, tuple[Sequence[float], Any]],
    lines: Mapping[str, float],
    widths: Callable[[Sequence[float]], float | None],
    path: Path,
    about: str,
) -> None:
    """Draws returns over steps: means over seeds with their bands, and lines for what others get.

    Args:
        curves: Name → steps [points], and returns [seeds, points].
        lines: Name → what is got, with however many steps.
        widths: Gives half the width of the band, of the numbers of one point.
        path: The file.
        about: What returns are.

    Raises:
        BadInput: matplotlib is missing.
    """

    def draw(axes: Any) -> None:
        for name, (steps, rows) in curves.items():
            returns = np.asarray(rows, np.float64)
            mean, half = returns.mean(0), np.array([widths(each.tolist()) or 0.0 for each in returns.T])
            axes.plot(steps, mean, linewidth=2, label=name)
            axes.fill_between(steps, mean - half, mean + half, alpha=0.25)
        for number, (name, value) in enumerate(lines.items()):
            axes.axhline(value, color="black", linewidth=1, linestyle=_DASHES[number % len(_DASHES)], label=name)

    _draw(draw, path, "env steps", about)


def smoothed(rows: Any) -> Any:
    """The moving mean of each column, over a small part of all rows, [rows − part + 1, …]."""
    part = max(1, len(rows) // _PARTS)
    sums = np.cumsum(np.concatenate([np.zeros_like(rows[:1]), rows]), 0)
    return (sums[part:] - sums[:-part]) / part


def _epochs(smooth: Any, count: int) -> Any:
    """The last epoch of each mean, counted from 1."""
    return np.arange(count - len(smooth) + 1, count + 1)


def _draw(draw: Callable[[Any], None], path: Path, across: str = "epoch", up: str = "reward") -> None:
    if not can_draw():
        raise BadInput("learning curves need matplotlib: pip install 'paceline[report]'")
    from matplotlib.figure import Figure  # not pyplot: it keeps every figure, and picks a window system

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    draw(axes)
    axes.set(xlabel=across, ylabel=up)
    axes.legend()
    half = path.with_name(f"{path.name}.part")
    figure.savefig(half, format="png", dpi=120)
    half.replace(path)
