"""The table of vectors as a picture: a line for each race, a mark for each contestant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from contestants import AUTO, CONTESTANTS, LOOP
from lanes import Found
from quiet import Slices
from vector_aims import Results

_BLUES = ("#08306b", "#2171b5", "#4292c6", "#6baed6", "#9ecae1")
_SHAPES = "sD^v<>PX*"


def plot(results: Results, path: Path) -> None:
    """Draws how many times as fast as a plain loop everybody is."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    races = [(race, found) for race, found in results.items() if isinstance(found.get(LOOP), Slices)]
    figure, axes = plt.subplots(figsize=(10, max(4.2, 1.5 + 0.36 * len(races))), layout="constrained")
    for name, look in _looks().items():
        marks = [(gain, row) for row, (_, found) in enumerate(races) if (gain := _gain(found, name)) is not None]
        if marks:
            axes.plot(*zip(*marks, strict=True), linestyle="", label=name, **look)
    axes.set_yticks(range(len(races)), [f"{workload}, {envs} envs" for (workload, envs), _ in races])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.grid(alpha=0.3)
    axes.set_xlabel("steps per second, a plain loop = 1")
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _looks() -> dict[str, dict[str, Any]]:
    """Ours are blue discs above all others; who lies beneath is still seen, being larger."""
    names = [name for name in CONTESTANTS if name != LOOP]
    ours = [name for name in names if name.startswith("ours")]
    looks: dict[str, dict[str, Any]] = {}
    for place, name in enumerate(ours):
        looks[name] = {"marker": "o", "color": _BLUES[place], "markersize": 8 if name == AUTO else 6, "zorder": 5}
    for place, name in enumerate(name for name in names if name not in ours):
        shape, colour = _SHAPES[place % len(_SHAPES)], f"C{(place + 1) % 10}"
        looks[name] = {"marker": shape, "color": colour, "markersize": 8, "markerfacecolor": "none", "zorder": 3}
    return looks


def _gain(found: Found, name: str) -> float | None:
    base, other = found[LOOP], found.get(name)
    return base.over(other).median() if isinstance(base, Slices) and isinstance(other, Slices) else None
