"""Policies that work out what a text world asks for, from what it shows.

A solver has `actions(turn)`: the names, or the texts, of what to do next.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Any

SOLVERS = MappingProxyType(
    {
        "sokoban": "sokoban:SokobanSolver",
        "frozen_lake": "frozen_lake:FrozenLakeSolver",
        "countdown": "countdown:CountdownSolver",
        "sudoku": "sudoku:SudokuSolver",
        "webshop": "webshop:WebShopOracle",
        "bandit": "bandit:BanditSolver",
    }
)
"""env_type → where its solver is."""


def find_solver(env_type: str) -> Any:
    """Gives the class that solves this kind of environment; it is imported only now."""
    module, _, name = SOLVERS[env_type].partition(":")
    return getattr(importlib.import_module(f"paceline.policies.solvers.{module}"), name)
