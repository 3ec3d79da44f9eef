"""Bandit, solved: it knows which names are the bold ones."""

from __future__ import annotations

from paceline.types import Turn
from paceline.worlds.text.bandit import ARMS

BOLD = frozenset(bold for pairs in ARMS.values() for _, bold in pairs)


class BanditSolver:
    """Pulls the bold arm."""

    def actions(self, turn: Turn) -> list[str]:
        """The name of the bold arm of the two that the state names; nothing if it names none."""
        words = turn.state.replace(".", " ").replace("<", " ").replace(">", " ").split()
        return next(([word] for word in words if word in BOLD), []) if "points" not in words else []
