"""The rules of Sokoban, and its settings. A step changes three cells at most, and draws no picture unless asked to.

layout(config, seed, mode) ──► room as text ── reset ──► cells ── step(action) ──► state, reward, done, info
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds import picture
from paceline.worlds.text.actions import find
from paceline.worlds.text.sokoban import views
from paceline.worlds.text.sokoban.cells import moves
from paceline.worlds.text.sokoban.rooms import generate
from paceline.worlds.text.sokoban.views import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    MEANINGS,
    PLAYER,
    PLAYER_ON_TARGET,
    SYMBOLS,
    TARGET,
    WIDEST,
)

Array = np.ndarray[Any, Any]

INSTRUCTION = """\
This is Sokoban. You are the player in a room seen from above, and every box must be brought onto a target.
Walk against a box to push it one cell further. That works only if the cell behind it is free: no wall, no other box.
Boxes cannot be pulled, so think before you push one into a corner.
Answer with the moves to make, in their order, like this: <answer>Up || Left || Left</answer>"""
"""What a model is told about the task and the form of its answer."""

LEGEND: Mapping[str, str] = MappingProxyType(dict(zip(SYMBOLS, MEANINGS, strict=True)))
"""The symbols of the grid."""

STEP, PLACED, SOLVED = (
    -0.1,
    1.0,
    10.0,
)  # rewards: for each step, for each box put on a target (or taken off), at the end

_BOX_IN = {FLOOR: BOX, TARGET: BOX_ON_TARGET}
_PLAYER_IN = {FLOOR: PLAYER, TARGET: PLAYER_ON_TARGET}
_IN_THE_WAY = (BOX, BOX_ON_TARGET)
_LEFT = {BOX: FLOOR, BOX_ON_TARGET: TARGET, PLAYER: FLOOR, PLAYER_ON_TARGET: TARGET}

Side = Annotated[int, Field(ge=3, le=WIDEST)]


class SokobanConfig(Settings):
    """The settings of a Sokoban; sizes include the walls."""

    dim_room: tuple[Side, Side] = Field((6, 6), description="Rows and columns.")
    dim_x: Side | None = Field(None, description="Rows; together with dim_y, another way to give dim_room.")
    dim_y: Side | None = Field(None, description="Columns.")
    num_boxes: int = Field(3, ge=1, description="How many boxes; at most a third of the cells inside the walls.")
    max_steps: int = Field(100, ge=1, description="After so many steps the episode is over.")
    search_depth: int = Field(300, ge=1, le=10_000, description="How many moves a room is played backwards.")
    grid_lookup: dict[int, str] = Field(
        default_factory=lambda: dict(enumerate(SYMBOLS)), description="The symbol of each kind of cell, by its number."
    )
    grid_vocab: dict[str, str] | None = Field(None, description="What the symbols mean; None: the usual words.")
    action_lookup: dict[int, str] = Field(
        default_factory=lambda: {1: "Up", 2: "Down", 3: "Left", 4: "Right"}, description="The names of the actions."
    )
    render_mode: Literal["text", "rgb_array"] = Field("text", description="Whether states are text or pictures.")
    observation_format: Literal["grid", "coord", "grid_coord"] = Field("grid", description="Which text.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.dim_x is None) != (self.dim_y is None):
            raise ValueError("dim_x and dim_y are given together, or not at all")
        if self.dim_x and "dim_room" in self.model_fields_set and self.size != self.dim_room:
            raise ValueError("dim_room and dim_x, dim_y say different things; give one of them")
        rows, columns = self.size
        most = (rows - 2) * (columns - 2) // 3
        if max(rows, columns) < 5:
            raise ValueError(f"a room of {rows} × {columns} is too small to push a box in; one side must be 5 or more")
        if self.num_boxes > most:
            raise ValueError(f"a room of {rows} × {columns} holds {most} boxes at most, and num_boxes is more")
        return self

    @model_validator(mode="after")
    def _names_all(self) -> Self:
        signs = ["".join(sign.split()) for sign in self.grid_lookup.values()]
        if sorted(self.grid_lookup) != list(range(len(MEANINGS))) or len({*signs}) < len(MEANINGS) or "" in signs:
            raise ValueError("grid_lookup must give the numbers 0 to 6 a symbol each, all different")
        names = {name.strip().lower() for name in self.action_lookup.values()}
        if sorted(self.action_lookup) != [1, 2, 3, 4] or len(names) < 4 or "" in names:
            raise ValueError("action_lookup must give the numbers 1 to 4 (up, down, left, right) different names")
        return self

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns, however they were given."""
        return (self.dim_x, self.dim_y) if self.dim_x and self.dim_y else self.dim_room

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols by the kind of cell."""
        return tuple(self.grid_lookup[kind] for kind in range(len(MEANINGS)))

    @property
    def legend(self) -> dict[str, str]:
        """What each symbol means, for the instructions."""
        return self.grid_vocab or dict(zip(self.symbols, MEANINGS, strict=True))


class Sokoban:
    """A room with boxes, played in words. Nothing is random after the reset.

    Args:
        config: Settings, or a mapping with some of them.

    Raises:
        BadInput: a setting is wrong.
    """

    Config = SokobanConfig

    def __init__(self, config: Mapping[str, Any] | SokobanConfig | None = None) -> None:
        self.config = SokobanConfig.read(config, "sokoban")
        self.action_lookup: Mapping[int, str] = self.config.action_lookup
        self._signs = views.signs(self.config.symbols)
        self._usual = self._mode(self.config.render_mode)
        self._shown: str | None = None  # what render() gave, until something moves
        self._enter(b"", 0, 0)

    @staticmethod
    def layout(config: SokobanConfig, seed: int, mode: str = "train") -> str:
        """Makes the room of a seed, as a grid in the usual symbols; the same for every mode."""
        rng = np.random.default_rng(sequence(seed, "sokoban", "layout"))
        rows, columns = config.size
        return views.grid(generate(rows, columns, config.num_boxes, config.search_depth, rng), columns)

    def reset(self, seed: int, mode: str = "train", *, layout: str | None = None, dynamics: int | None = None) -> Any:
        """Begins an episode and shows it.

        Args:
            seed: Decides the room.
            mode: "train" or "val"; rooms are the same in both.
            layout: The room, if it has been made already: what `layout` gives, or any grid in the usual symbols.
            dynamics: Not used: nothing is random after the reset.

        Raises:
            BadInput: the layout is not a room, or has been solved already.
        """
        cells, columns = views.read(self.layout(self.config, seed, mode) if layout is None else layout)
        if BOX not in cells:
            raise BadInput("the layout of this Sokoban is solved already: no box is off its target")
        self._enter(bytes(cells), columns, 0)
        return self.render()

    def step(self, action: int | str) -> tuple[Any, float, bool, dict[str, Any]]:
        """Moves the player, and a box if one is in the way; an unknown action costs a step and does nothing.

        Raises:
            BadInput: it has not been reset.
        """
        most = self.config.max_steps
        if self._placed == self._boxes or self._steps >= most:
            info = {"action_is_effective": False, "action_is_valid": False, "success": self.success}
            return self.render(), 0.0, True, info
        move = self._moves.get(action if type(action) is int else find(action, self.action_lookup))
        before, reward = self._placed, STEP
        moved = move is not None and self._go(move)
        self._steps += 1
        if moved:
            self._shown = None
        solved = self._placed == self._boxes
        if self._placed != before:
            reward += PLACED if self._placed > before else -PLACED
            reward += SOLVED if solved else 0.0
        info = {"action_is_effective": moved, "action_is_valid": move is not None, "success": solved}
        return self.render(), reward, solved or self._steps >= most, info

    @property
    def success(self) -> bool:
        """Whether every box is on a target."""
        return self._placed == self._boxes

    @property
    def over(self) -> bool:
        """Whether the episode has ended, solved or out of steps; or has not begun."""
        return self._placed == self._boxes or self._steps >= self.config.max_steps

    def render(self, mode: str | None = None) -> str | Array:
        """Shows the room.

        Args:
            mode: "grid", "coord", "grid_coord"; "text": that of them which is configured; "ansi": coloured, for a
                terminal; "rgb_array": a picture; None: as configured.

        Raises:
            BadInput: there is no such mode, or it has not been reset.
        """
        if mode is None and self._shown is not None:
            return self._shown
        shown = self._view(self._usual if mode is None else self._mode(mode))
        if mode is None and isinstance(shown, str):
            self._shown = shown
        return shown

    def _mode(self, mode: str) -> str:
        return self.config.observation_format if mode == "text" else mode

    def _view(self, mode: str) -> str | Array:
        if not self._board:
            raise BadInput("this Sokoban has no room yet: call reset() first")
        if mode == "grid":
            return views.shown(self._board, self._signs)
        cells = views.cells_of(self._board)
        if mode == "coord":
            return views.coordinates(cells, self._columns)
        if mode == "grid_coord":
            return views.grid_and_coordinates(cells, self._columns, self.config.symbols)
        if mode in ("rgb_array", "ansi"):
            scene = views.scene(cells, self._columns)
            return picture.rgb(scene) if mode == "rgb_array" else picture.text(scene)
        raise BadInput(f"Sokoban has no render mode {mode[:60]!r}: text, grid, coord, grid_coord, ansi or rgb_array")

    def close(self) -> None:
        """Nothing is held that must be given back."""

    def snapshot(self) -> tuple[bytes, int, int]:
        """The state in mid-episode: cells, columns, steps."""
        return views.cells_of(self._board), self._columns, self._steps

    def restore(self, state: tuple[bytes, int, int]) -> None:
        """Goes on from a snapshot."""
        cells, columns, steps = state
        self._enter(cells, columns, steps)

    def _enter(self, cells: bytes, columns: int, steps: int) -> None:
        self._board = bytearray(views.lines(cells, columns))  # as it is shown: cells, and marks where a row ends
        self._columns, self._steps, self._shown = columns, steps, None
        self._moves: dict[int | None, int] = dict(enumerate(moves(columns + 1), start=1))
        self._placed = cells.count(BOX_ON_TARGET)
        self._boxes = cells.count(BOX) + self._placed
        self._player = next((n for n, cell in enumerate(self._board) if cell in (PLAYER, PLAYER_ON_TARGET)), 0)

    def _go(self, move: int) -> bool:
        cells, player = self._board, self._player
        ahead = player + move
        if cells[ahead] in _IN_THE_WAY:
            if cells[ahead + move] not in _BOX_IN:
                return False
            self._push(ahead, ahead + move)
        entered = _PLAYER_IN.get(cells[ahead])
        if entered is None:
            return False
        cells[player] = _LEFT[cells[player]]
        cells[ahead] = entered
        self._player = ahead
        return True

    def _push(self, box: int, onto: int) -> None:
        cells = self._board
        self._placed += (cells[onto] == TARGET) - (cells[box] == BOX_ON_TARGET)
        cells[onto] = _BOX_IN[cells[onto]]
        cells[box] = _LEFT[cells[box]]
