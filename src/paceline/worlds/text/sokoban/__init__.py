"""Sokoban: push every box onto a target; there is no pulling, so a box in a corner stays there.

rooms    seed ──► a room that can be solved: it was played backwards from its solution
env      room, action ──► room, reward
views    room ──► grid, coordinates, colours or picture; and the text back to the room
cells    sets of cells as whole numbers, for everything that searches
"""

from paceline.worlds.text.sokoban.env import INSTRUCTION, LEGEND, Sokoban, SokobanConfig

__all__ = ["INSTRUCTION", "LEGEND", "Sokoban", "SokobanConfig"]
