"""What a world looks like: as an image, drawn with array operations alone, or as coloured text for a terminal.

Neither is on the way of a step: a world describes its scene only when it is asked to render.

    Scene ──┬─► rgb    ground, then a small picture per thing, then the agents; each agent in its own colour
            └─► text   two characters per cell
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Colour = tuple[int, int, int]
Cell = tuple[int, int]

MEADOW: tuple[Colour, Colour] = ((132, 176, 92), (126, 169, 87))
ORCHARD: tuple[Colour, Colour] = ((150, 180, 104), (143, 173, 99))
SAND: tuple[Colour, Colour] = ((232, 214, 168), (226, 207, 160))
RIVER: tuple[Colour, Colour] = ((88, 160, 210), (82, 153, 204))
FLOOR: tuple[Colour, Colour] = ((240, 232, 218), (233, 224, 208))

_WIDEST = 960  # pixels of the longer side; cells are as large as that lets them
_SMALLEST, _LARGEST = 8, 40
_FINE = 4  # a sprite is drawn so many times finer and then averaged, for smooth edges


@dataclass(frozen=True)
class Scene:
    """What there is to be seen.

    Attributes:
        ground: A colour per cell.
        things: The name of a thing → where it is.
        agents: The cell of each agent, in the order of the agents.
        loaded: The cells of agents who carry something.
        looks: The name of a thing that has no picture here → its colour and its character.
    """

    ground: Array
    things: Mapping[str, Array]
    agents: Sequence[Cell]
    loaded: Sequence[Cell] = ()
    looks: Mapping[str, tuple[Colour, str]] = field(default_factory=dict)


def checkered(height: int, width: int, colours: tuple[Colour, Colour]) -> Array:
    """A ground of two colours that take turns."""
    ground: Array = np.array(colours, np.uint8)[np.indices((height, width)).sum(0) % 2]
    return ground


def colour_of(agent: int) -> Colour:
    """An agent's own colour: neighbours in number are far apart in hue."""
    hue = (0.58 + agent * 0.618034) % 1.0
    light = (1.0, 0.82, 0.66)[agent // 12 % 3]
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.72, light)
    return round(255 * red), round(255 * green), round(255 * blue)


# -- an image ----------------------------------------------------------------------------------------------


def rgb(scene: Scene) -> Array:
    """The scene as an image: rows × columns × (red, green, blue), 0 to 255."""
    height, width = scene.ground.shape[:2]
    size = int(np.clip(_WIDEST // max(height, width), _SMALLEST, _LARGEST))
    canvas = np.repeat(np.repeat(scene.ground.astype(np.float32), size, 0), size, 1)
    tiles = canvas.reshape(height, size, width, size, 3)
    for name, mask in scene.things.items():
        _stamp(tiles, mask.nonzero(), sprite(name, size) if name in _DRAW else tile(scene.looks[name][0], size))
    for number, (row, column) in enumerate(scene.agents):
        _stamp(tiles, (np.array([row]), np.array([column])), agent_sprite(colour_of(number), size))
    for row, column in scene.loaded:
        _stamp(tiles, (np.array([row]), np.array([column])), sprite("load", size))
    image: Array = np.clip(canvas + 0.5, 0, 255).astype(np.uint8)
    return image


def _stamp(tiles: Array, cells: tuple[Array, ...], picture: Array) -> None:
    rows, columns = cells
    colour, alpha = picture[..., :3], picture[..., 3:]
    below = tiles[rows, :, columns]
    tiles[rows, :, columns] = below + (colour - below) * alpha


class Brush:
    """Draws on one cell, whose sides run from 0 to 1; what is drawn later covers what was drawn before.

    Args:
        size: The cell's width in pixels.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        fine = size * _FINE
        self._x, self._y = (np.indices((fine, fine))[::-1] + 0.5) / fine
        self._layers = np.zeros((fine, fine, 4), np.float32)

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> Brush:
        """A disc."""
        return self.ellipse(x, y, radius, radius, colour)

    def ellipse(self, x: float, y: float, wide: float, high: float, colour: Colour) -> Brush:
        """An ellipse, by its half axes."""
        return self._fill(((self._x - x) / wide) ** 2 + ((self._y - y) / high) ** 2 <= 1, colour)

    def box(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> Brush:
        """A rectangle."""
        inside = (self._x >= left) & (self._x < right) & (self._y >= top) & (self._y < bottom)
        return self._fill(inside, colour)

    def gable(self, x: float, top: float, bottom: float, wide: float, colour: Colour) -> Brush:
        """A triangle that stands on its base."""
        down = (self._y - top) / (bottom - top)
        return self._fill((down >= 0) & (down < 1) & (abs(self._x - x) <= down * wide), colour)

    def shade(self, y: float, wide: float) -> Brush:
        """A soft shadow on the ground."""
        inside = ((self._x - 0.5) / wide) ** 2 + ((self._y - y) / 0.12) ** 2 <= 1
        self._layers[inside] = (20, 30, 10, 0.28)
        return self

    def done(self) -> Array:
        """The picture: red, green, blue from 0 to 255, and how much it covers, from 0 to 1."""
        shape = (self._size, _FINE, self._size, _FINE, 4)
        fine = self._layers.reshape(shape)
        cover = fine[..., 3].mean((1, 3))
        colour = (fine[..., :3] * fine[..., 3:]).mean((1, 3)) / np.maximum(cover, 1e-6)[..., None]
        return np.concatenate([colour, cover[..., None]], -1)

    def _fill(self, inside: Array, colour: Colour) -> Brush:
        self._layers[inside] = (*colour, 1.0)
        return self


@lru_cache(maxsize=512)
def agent_sprite(colour: Colour, size: int) -> Array:
    """A round fellow with two eyes."""
    dark, bright = _mix(colour, (20, 20, 30), 0.45), _mix(colour, (255, 255, 255), 0.35)
    brush = Brush(size).shade(0.88, 0.38).disc(0.5, 0.5, 0.46, (255, 255, 255)).disc(0.5, 0.5, 0.41, dark)
    brush.disc(0.5, 0.49, 0.36, colour)
    brush.ellipse(0.42, 0.3, 0.16, 0.09, bright)
    for x in (0.37, 0.63):
        brush.ellipse(x, 0.5, 0.105, 0.13, (255, 255, 255)).disc(x, 0.53, 0.06, (25, 25, 35))
    return brush.done()


@lru_cache(maxsize=128)
def sprite(name: str, size: int) -> Array:
    """The picture of a thing."""
    return _DRAW[name](Brush(size)).done()


@lru_cache(maxsize=128)
def tile(colour: Colour, size: int) -> Array:
    """A plain square, for things that have no picture."""
    return (
        Brush(size)
        .box(0.08, 0.08, 0.92, 0.92, _mix(colour, (20, 20, 30), 0.4))
        .box(0.14, 0.14, 0.86, 0.86, colour)
        .done()
    )


def _mix(one: Colour, other: Colour, part: float) -> Colour:
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _bush(brush: Brush) -> Brush:
    brush.shade(0.84, 0.4)
    for x, y, radius in ((0.3, 0.6, 0.22), (0.7, 0.6, 0.22), (0.5, 0.42, 0.25), (0.5, 0.66, 0.22)):
        brush.disc(x, y, radius, (72, 112, 62))
    return brush.disc(0.42, 0.4, 0.12, (88, 130, 74)).disc(0.64, 0.56, 0.1, (88, 130, 74))


def _berries(brush: Brush) -> Brush:
    brush.shade(0.84, 0.42)
    for x, y, radius in ((0.28, 0.58, 0.25), (0.72, 0.58, 0.25), (0.5, 0.38, 0.28), (0.5, 0.66, 0.25)):
        brush.disc(x, y, radius, (38, 112, 58))
    for x, y in ((0.5, 0.3), (0.28, 0.52), (0.71, 0.5), (0.5, 0.58), (0.36, 0.74), (0.65, 0.74)):
        brush.disc(x, y, 0.1, (214, 38, 66)).disc(x - 0.03, y - 0.03, 0.035, (255, 170, 180))
    return brush


def _rock(brush: Brush) -> Brush:
    brush.shade(0.82, 0.46).ellipse(0.5, 0.56, 0.42, 0.34, (104, 106, 112)).ellipse(
        0.46, 0.5, 0.36, 0.27, (142, 144, 150)
    )
    return brush.ellipse(0.38, 0.42, 0.18, 0.11, (172, 174, 180))


def _wave(brush: Brush) -> Brush:
    brush.ellipse(0.3, 0.36, 0.16, 0.05, (150, 205, 238)).ellipse(0.3, 0.33, 0.14, 0.04, (86, 157, 208))
    return brush.ellipse(0.68, 0.7, 0.18, 0.05, (150, 205, 238)).ellipse(0.68, 0.67, 0.16, 0.04, (86, 157, 208))


def _dirt(brush: Brush) -> Brush:
    brush.ellipse(0.5, 0.54, 0.44, 0.36, (84, 92, 52)).ellipse(0.44, 0.48, 0.3, 0.22, (106, 112, 58))
    brush.disc(0.64, 0.62, 0.1, (66, 70, 44)).disc(0.34, 0.64, 0.07, (66, 70, 44))
    return brush.disc(0.42, 0.44, 0.07, (150, 156, 92)).disc(0.68, 0.4, 0.05, (150, 156, 92))


def _soil(brush: Brush) -> Brush:
    brush.ellipse(0.5, 0.62, 0.3, 0.14, (120, 92, 60))
    return brush.box(0.47, 0.38, 0.53, 0.62, (78, 128, 58)).ellipse(0.6, 0.4, 0.12, 0.06, (96, 150, 70))


def _apple(brush: Brush) -> Brush:
    brush.shade(0.86, 0.34).disc(0.4, 0.58, 0.26, (186, 24, 34)).disc(0.6, 0.58, 0.26, (186, 24, 34))
    brush.disc(0.41, 0.56, 0.22, (226, 44, 48)).disc(0.58, 0.56, 0.22, (226, 44, 48))
    brush.box(0.47, 0.16, 0.53, 0.38, (92, 60, 34)).ellipse(0.63, 0.24, 0.13, 0.07, (84, 160, 62))
    return brush.ellipse(0.36, 0.48, 0.07, 0.1, (255, 160, 150))


def _gem(brush: Brush) -> Brush:
    brush.shade(0.86, 0.3)
    for row in range(8):  # a diamond: wide at a third of its height, and pointed below
        top, wide = 0.22 + 0.08 * row, (0.2, 0.27, 0.34, 0.28, 0.21, 0.15, 0.09, 0.04)[row]
        brush.box(0.5 - wide, top, 0.5 + wide, top + 0.09, (26, 128, 168))
        brush.box(0.53 - wide, top, 0.47 + wide, top + 0.07, (64, 190, 220))
    return brush.box(0.36, 0.26, 0.47, 0.44, (188, 240, 250))


def _brick(brush: Brush) -> Brush:
    brush.box(0, 0, 1, 1, (104, 84, 76))
    for top, left in ((0.0, 0.0), (0.34, -0.5), (0.67, 0.0)):
        for start in (left, left + 1.0):
            brush.box(start + 0.03, top + 0.04, start + 0.97, top + 0.31, (156, 106, 88))
    return brush.box(0, 0, 1, 0.03, (176, 130, 108))


def _house(brush: Brush, roof: Colour = (110, 122, 150), wall: Colour = (250, 246, 236)) -> Brush:
    brush.shade(0.88, 0.44).box(0.18, 0.46, 0.82, 0.88, _mix(wall, (90, 80, 70), 0.5)).box(0.21, 0.46, 0.79, 0.85, wall)
    brush.gable(0.5, 0.08, 0.5, 0.46, roof).box(0.42, 0.6, 0.58, 0.85, (122, 84, 58))
    return brush.box(0.26, 0.56, 0.36, 0.68, (140, 190, 220)).box(0.64, 0.56, 0.74, 0.68, (140, 190, 220))


def _address(brush: Brush) -> Brush:
    brush.box(0.02, 0.02, 0.98, 0.98, (255, 208, 92))
    return _house(brush, roof=(214, 58, 54), wall=(255, 250, 240))


def _parcel(brush: Brush) -> Brush:
    brush.shade(0.84, 0.38).box(0.18, 0.26, 0.82, 0.82, (132, 92, 52)).box(0.21, 0.29, 0.79, 0.79, (206, 156, 98))
    return brush.box(0.21, 0.29, 0.79, 0.41, (222, 176, 120)).box(0.45, 0.26, 0.55, 0.82, (246, 232, 200))


def _load(brush: Brush) -> Brush:
    brush.box(0.52, 0.6, 0.96, 0.98, (110, 74, 40)).box(0.55, 0.63, 0.93, 0.95, (206, 156, 98))
    return brush.box(0.71, 0.6, 0.78, 0.98, (246, 232, 200))


def _hare(brush: Brush) -> Brush:
    brush.shade(0.86, 0.3).ellipse(0.42, 0.3, 0.07, 0.2, (150, 108, 70)).ellipse(0.6, 0.3, 0.07, 0.2, (150, 108, 70))
    brush.ellipse(0.5, 0.66, 0.28, 0.2, (186, 140, 96)).disc(0.5, 0.5, 0.16, (196, 152, 108))
    return brush.disc(0.44, 0.48, 0.03, (25, 25, 35)).disc(0.56, 0.48, 0.03, (25, 25, 35))


def _stag(brush: Brush) -> Brush:
    brush.shade(0.88, 0.42)
    for x in (0.24, 0.76):
        brush.box(x - 0.03, 0.08, x + 0.03, 0.36, (92, 66, 40)).box(min(x, 0.5), 0.3, max(x, 0.5), 0.36, (92, 66, 40))
    brush.ellipse(0.5, 0.64, 0.36, 0.24, (120, 70, 40)).ellipse(0.5, 0.46, 0.17, 0.2, (146, 92, 56))
    return brush.disc(0.43, 0.43, 0.035, (25, 25, 35)).disc(0.57, 0.43, 0.035, (25, 25, 35))


def _under(brush: Brush) -> Brush:
    return brush.box(0.02, 0.02, 0.98, 0.98, (214, 58, 54)).box(0.08, 0.08, 0.92, 0.92, (240, 150, 140))


_DRAW: Mapping[str, Callable[[Brush], Brush]] = {
    "bush": _bush,
    "berries": _berries,
    "rock": _rock,
    "wave": _wave,
    "dirt": _dirt,
    "soil": _soil,
    "apple": _apple,
    "gem": _gem,
    "brick": _brick,
    "house": _house,
    "address": _address,
    "parcel": _parcel,
    "load": _load,
    "hare": _hare,
    "stag": _stag,
    "mark": _under,
}

# -- text --------------------------------------------------------------------------------------------------

_GLYPHS: Mapping[str, tuple[str, Colour]] = {
    "bush": ("♣ ", (72, 112, 62)),
    "berries": ("♣•", (190, 24, 54)),
    "rock": ("▟▙", (104, 106, 112)),
    "wave": ("∼ ", (150, 205, 238)),
    "dirt": ("▒▒", (84, 92, 52)),
    "soil": ("· ", (120, 92, 60)),
    "apple": ("● ", (206, 24, 34)),
    "gem": ("◆ ", (20, 120, 165)),
    "brick": ("██", (126, 92, 80)),
    "house": ("⌂ ", (70, 82, 120)),
    "address": ("⌂!", (214, 40, 40)),
    "parcel": ("■ ", (150, 100, 50)),
    "hare": ("v ", (150, 108, 70)),
    "stag": ("Ψ ", (120, 70, 40)),
    "mark": ("░░", (214, 58, 54)),
}
_PLAIN = "\x1b[0m"


def text(scene: Scene) -> str:
    """The scene as lines of text with colours, two characters per cell."""
    ground: list[list[Colour]] = scene.ground.tolist()
    cells = [[(tuple(colour), tuple(colour), "  ") for colour in row] for row in ground]
    for name, mask in scene.things.items():
        glyph, colour = _GLYPHS[name] if name in _GLYPHS else (f"{scene.looks[name][1]} ", scene.looks[name][0])
        for row, column in np.argwhere(mask).tolist():
            cells[row][column] = (cells[row][column][0], colour, glyph)
    for number, (row, column) in enumerate(scene.agents):
        load = "▪" if (row, column) in scene.loaded else ""
        cells[row][column] = (colour_of(number), (15, 15, 25), f"{number}{load}"[:2].ljust(2))
    return "\n".join("".join(_coloured(*cell) for cell in row) + _PLAIN for row in cells)


def _coloured(back: Sequence[int], fore: Sequence[int], glyph: str) -> str:
    behind, before = (";".join(map(str, colour)) for colour in (back, fore))
    return f"\x1b[48;2;{behind};38;2;{before}m{glyph}"
