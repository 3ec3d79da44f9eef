"""What agents see: the window around each, as planes, as an image, or as text; built for all agents together.

    the world's cells ── one copy for all agents ──► windows [agents, kinds, rows, columns]
                                                      ├─► OneHot   as they are
                                                      ├─► Rgb      the colour of what is uppermost
                                                      └─► Ascii    its character

A window is cut out of the cells, so it costs what it holds, and not what the world holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from paceline.errors import BadInput
from paceline.worlds.board import Array, Planes
from paceline.worlds.grid.entities import Agent
from paceline.worlds.grid.world import World

FREE = ((235, 228, 212), ".")
"""How a place looks in which nothing is: its colour and its character."""


class View(Protocol):
    """How agents see a world."""

    space: spaces.Space[Any]

    def of(self, world: World, agents: Sequence[Agent]) -> Sequence[Any]:
        """What each of these agents sees now, in memory of its own."""


class OneHot:
    """A plane of zeros and ones per kind.

    All agents see themselves in the middle; that cell of their kind's plane says instead whether the last move went
    through, which is all that one needs to keep track of where one is.

    Args:
        world: What is seen.
    """

    def __init__(self, world: World) -> None:
        self.space = Planes(world.names, world.reach)
        self._own = world.names.index(Agent.kind)
        self._middle = world.reach

    def of(self, world: World, agents: Sequence[Agent]) -> Array:
        """[agents, kinds, rows, columns]"""
        seen = world.windows([agent.place for agent in agents])
        seen[:, self._own, self._middle, self._middle] = [agent.moved for agent in agents]
        return seen


class Rgb:
    """An image, a pixel per place.

    Args:
        world: What is seen.
    """

    def __init__(self, world: World) -> None:
        side = 2 * world.reach + 1
        self.space: spaces.Space[Any] = spaces.Box(0, 255, (side, side, 3), np.uint8)
        self._uppermost = _Uppermost(world)
        self._colours = np.array([*(kind.colour for kind in self._uppermost.kinds), FREE[0]], np.uint8)

    def of(self, world: World, agents: Sequence[Agent]) -> Array:
        """[agents, rows, columns, red green blue]"""
        image: Array = self._colours[self._uppermost.of(world, agents)]
        return image


class Ascii:
    """Lines of text, a character per place.

    Args:
        world: What is seen.
    """

    def __init__(self, world: World) -> None:
        side = 2 * world.reach + 1
        self._uppermost = _Uppermost(world)
        glyphs = [*(kind.glyph for kind in self._uppermost.kinds), FREE[1]]
        if strange := [glyph for glyph in glyphs if len(glyph) != 1 or not glyph.isascii()]:
            raise BadInput(f"{strange[0]!r} cannot be the glyph of a kind: give one character of ASCII")
        self._glyphs = np.array([ord(glyph) for glyph in glyphs], np.uint8)
        length = side * (side + 1) - 1
        self.space = spaces.Text(length, min_length=length, charset=frozenset([*glyphs, "\n"]))

    def of(self, world: World, agents: Sequence[Agent]) -> list[str]:
        """A text per agent."""
        characters = self._glyphs[self._uppermost.of(world, agents)]
        lines = np.full((*characters.shape[:-1], characters.shape[-1] + 1), ord("\n"), np.uint8)
        lines[..., :-1] = characters
        return [window.tobytes()[:-1].decode("ascii") for window in lines]


class _Uppermost:
    """Which kind lies uppermost in each cell of a window; the number after the last is a free cell."""

    def __init__(self, world: World) -> None:
        names = list(world.names)
        self.kinds = sorted(world.kinds, key=lambda kind: -kind.layer)
        self._order = [names.index(kind.kind) for kind in self.kinds]

    def of(self, world: World, agents: Sequence[Agent]) -> Array:
        """[agents, rows, columns]"""
        seen = world.windows([agent.place for agent in agents])[:, self._order]
        free = np.ones((len(seen), 1, *seen.shape[2:]), np.uint8)
        kinds: Array = np.concatenate([seen, free], 1).argmax(1)
        return kinds


VIEWS: Mapping[str, type] = MappingProxyType({"onehot": OneHot, "rgb": Rgb, "ascii": Ascii})
"""The views by the names that users write."""
