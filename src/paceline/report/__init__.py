"""Report: results as pictures, and as what other tools show."""

from paceline.report.board import Board, MetaBoard
from paceline.report.curves import draw_agents, draw_returns, draw_seeds

__all__ = ["Board", "MetaBoard", "draw_agents", "draw_returns", "draw_seeds"]
