"""Cleanup: apples grow only while the river is clean, and who cleans it eats none meanwhile.

The river runs in the north, the orchard lies in the south, and waste keeps drifting into the river. The more of the
river is dirty, the slower apples grow; from a point on they do not grow at all, and that is where an episode begins.
Whoever walks onto an apple eats it: a reward of 1, for that agent alone. To clean clears the agent's own cell and the
eight around it. Observations are the planes `wall`, `river`, `dirt`, `soil`, `apple` and `agent`; actions are to stay,
to go north, south, west, east, and to clean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from paceline.worlds.arena import Arena
from paceline.worlds.board import MODES, Array, whole
from paceline.worlds.picture import ORCHARD, RIVER, SAND, Scene, checkered

PLANES = ("wall", "river", "dirt", "soil", "apple", "agent")
CLEAN = 5
WATER, BANK, TREES = 4, 3, 8  # rows of each, from north to south
HEIGHT = WATER + BANK + TREES
SOIL = 0.5  # of the orchard's cells
GROWTH = 0.02  # how likely an apple is to appear on a bare piece of soil, in a step, when the river is clean
DRIFT = 0.008  # how likely a clean piece of the river is to become dirty, in a step
CHOKED = 0.4  # from this part of the river on, nothing grows


class Cleanup(Arena):
    """A social dilemma for 2 to 64 agents.

    Args:
        agents: How many agents there are.
        steps: How long an episode is.
        width: Columns; by default there are more of them with more agents.
        render_mode: "rgb_array", "ansi" or None.

    Raises:
        BadInput: an option is out of its limits.
    """

    metadata: ClassVar[dict[str, Any]] = {**MODES, "name": "cleanup"}

    def __init__(
        self, agents: int = 6, steps: int = 300, width: int | None = None, render_mode: str | None = None
    ) -> None:
        agents = whole("agents", agents, 2, 64)
        width = whole("width", max(12, 2 * agents) if width is None else width, max(6, agents // 2), 512)
        counts = ("collected", "cleaned")
        super().__init__(
            PLANES, 6, counts, agents=agents, height=HEIGHT, width=width, steps=steps, render_mode=render_mode
        )
        cells = self.board.inside.reshape(HEIGHT, width)
        self._river, self._bank, self._orchard = cells[:WATER].ravel(), cells[WATER:-TREES].ravel(), cells[-TREES:]
        self._soil = self._orchard.ravel()
        stride = self.board.stride
        self._around = np.array([row * stride + column for row in (-1, 0, 1) for column in (-1, 0, 1)])

    def _lay_out(self, rng: np.random.Generator) -> None:
        places = self._orchard.ravel()
        self._soil = places[rng.random(len(places)) < SOIL]
        self.board["river"][self._river] = 1
        self.board["soil"][self._soil] = 1
        choked = round(CHOKED * len(self._river)) + 1
        self.board["dirt"][rng.choice(self._river, choked, replace=False)] = 1

    def _homes(self) -> Array:
        return np.concatenate([self._bank, self._orchard.ravel()])

    def _act(self, turns: Sequence[int], choices: Sequence[int], rewards: list[float]) -> None:
        self._move(turns, choices)
        for who in turns:
            if choices[who] == CLEAN:
                self._clean(who)
        apple = self.board["apple"]
        for who in apple[self.spots].nonzero()[0].tolist():
            apple[self.spots[who]] = 0
            rewards[who] = 1.0
            self.counts["collected"][who] += 1

    def _clean(self, who: int) -> None:
        reached = self.spots[who] + self._around
        dirt = self.board["dirt"]
        self.counts["cleaned"][who] += int(dirt[reached].sum())
        dirt[reached] = 0

    def _go_on(self, rng: np.random.Generator) -> None:
        dirt, apple = self.board["dirt"], self.board["apple"]
        growth = GROWTH * max(0.0, 1.0 - np.count_nonzero(dirt[self._river]) / len(self._river) / CHOKED)
        # Both draws are as long in every step: what agents do must not shift the draws that follow.
        apple[self._soil] |= rng.random(len(self._soil)) < growth
        apple[self.spots] = 0  # none grows under somebody's feet: to eat one, walk onto it
        dirt[self._river] |= rng.random(len(self._river)) < DRIFT

    def _scene(self) -> Scene:
        board = self.board
        ground = checkered(board.height, board.width, SAND)
        ground[:WATER] = checkered(WATER, board.width, RIVER)
        ground[-TREES:] = checkered(TREES, board.width, ORCHARD)
        things = {name: board.shape(name) for name in ("dirt", "soil", "apple")}
        things["wave"] = board.shape("river") & ~things["dirt"]
        things["soil"] &= ~things["apple"]
        return Scene(ground, things, [board.cell(spot) for spot in self.spots])
