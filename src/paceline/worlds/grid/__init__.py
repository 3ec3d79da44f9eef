"""A small kit for games on a grid, for social scientists as for benchmarks: docs/grid.md says it on a page.

World     entities in layers, by place              paceline.worlds.grid.world
Entity    what stands there; Agent, Wall            paceline.worlds.grid.entities
View      what agents see: OneHot, Rgb, Ascii       paceline.worlds.grid.views
Game      turns and rules                           paceline.worlds.grid.game
Parallel, Aec    its two forms for PettingZoo       paceline.worlds.grid.envs
"""

from paceline.worlds.board import Array
from paceline.worlds.grid.entities import Agent, Entity, Wall
from paceline.worlds.grid.envs import Aec, Parallel
from paceline.worlds.grid.game import Game
from paceline.worlds.grid.views import Ascii, OneHot, Rgb, View
from paceline.worlds.grid.world import World

__all__ = ["Aec", "Agent", "Array", "Ascii", "Entity", "Game", "OneHot", "Parallel", "Rgb", "View", "Wall", "World"]
