"""Report: results as pictures, and as what other tools show."""

from paceline.report.board import Board
from paceline.report.curves import draw_agents, draw_seeds

__all__ = ["Board", "draw_agents", "draw_seeds"]
