"""Solves Sokoban from what it shows: A* over pushes, which finds the fewest moves there are.

    text ── read ──► boxes, player ── A*: walk to a box, push it ──► pushes ── fill in the walks ──► moves

Boxes and floor are sets of cells as whole numbers, so all the cells that the player can walk to in n steps, and all the
boxes that can be pushed from there, are a few shifts away.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import pairwise

from paceline.types import Turn
from paceline.worlds.text.sokoban.cells import around, members, moves, shift, together
from paceline.worlds.text.sokoban.env import SokobanConfig
from paceline.worlds.text.sokoban.views import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET, WALL, read

EFFORT = 100_000
HASTE = 5  # how much more a push that is still missing weighs than a move made, once the fewest moves are out of reach

MATCHED = 5  # up to so many boxes are each given a target of their own to measure how far they are from solved
NEVER = 1 << 30

State = tuple[int, int]
"""The cells of the boxes, and the player's."""


class SokobanSolver:
    """Answers a turn with the moves that solve the room.

    Args:
        grid_lookup: The symbols, if the environment was given others than the usual.
        action_lookup: The names of the actions, likewise.
        effort: How many pushes are tried, at most. If that does not do for the fewest moves, as many again are tried
            for any solution.

    Raises:
        BadInput: symbols or names are wrong.
    """

    def __init__(
        self,
        grid_lookup: Mapping[int, str] | None = None,
        action_lookup: Mapping[int, str] | None = None,
        effort: int = EFFORT,
    ) -> None:
        given = {"grid_lookup": grid_lookup, "action_lookup": action_lookup}
        config = SokobanConfig.read({key: value for key, value in given.items() if value}, "sokoban")
        self._symbols = config.symbols
        self._names = [config.action_lookup[number] for number in (1, 2, 3, 4)]
        self._effort = effort

    def actions(self, turn: Turn) -> list[str]:
        """The moves that solve what the turn shows; none if it is solved, cannot be, or takes too much effort.

        Raises:
            BadInput: the turn shows no Sokoban room.
        """
        cells, columns = read(turn.state, self._symbols)
        return [self._names[number] for number in solve(cells, columns, self._effort)]


def solve(cells: list[int], columns: int, effort: int = EFFORT) -> list[int]:
    """The moves that solve a room, as 0 to 3 for up, down, left, right; the fewest, if they are found with `effort`."""
    search = _Search(cells, columns)
    return search.run(1, effort) or search.run(HASTE, effort)


class _Search:
    """One room: what never changes in it, and the search."""

    def __init__(self, cells: list[int], columns: int) -> None:
        where = {kind: together([number for number, cell in enumerate(cells) if cell == kind]) for kind in range(7)}
        self.columns, self.moves = columns, moves(columns)
        self.walls = where[WALL]
        self.floor = (1 << len(cells)) - 1 ^ self.walls
        self.targets = where[TARGET] | where[BOX_ON_TARGET] | where[PLAYER_ON_TARGET]
        player = where[PLAYER] | where[PLAYER_ON_TARGET]
        self.start: State = where[BOX] | where[BOX_ON_TARGET], player.bit_length() - 1
        targets = list(members(self.targets))
        self.matched = len(targets) <= MATCHED
        groups = [[target] for target in targets] if self.matched else [targets]
        self.far = [self._pushes_to(group) for group in groups]
        self.live = together([cell for far in self.far for cell in far])
        self.bounds: dict[int, int] = {}

    def run(self, weight: int, effort: int) -> list[int]:
        """A*; every move costs 1, and `weight` times the pushes that are missing at least is what is still to come."""
        missing = self._missing(self.start[0])
        costs: dict[State, int] = {self.start: 0}
        before: dict[State, tuple[State, int]] = {}
        queue = [(weight * missing, missing, 0, self.start)] if missing < NEVER else []
        while queue and effort > 0:
            _, missing, cost, state = heapq.heappop(queue)
            if cost > costs[state]:
                continue  # a shorter way to it has been found since
            if not missing:
                return self._moves_to(state, before)
            for walk, box, move in self._pushes(state):
                effort -= 1
                after = state[0] ^ 1 << box ^ 1 << box + move, box
                price = cost + walk + 1
                if price >= costs.get(after, NEVER) or (left := self._missing(after[0])) >= NEVER:
                    continue
                costs[after], before[after] = price, (state, move)
                heapq.heappush(queue, (price + weight * left, left, price, after))
        return []

    def _pushes(self, state: State) -> Iterator[tuple[int, int, int]]:
        """Steps to walk, the box that is then pushed, and which way; never onto a dead cell."""
        boxes, player = state
        free = self.floor & ~boxes
        roads = [(move, boxes & shift(free & self.live, -move)) for move in self.moves]
        seen = edge = 1 << player
        walk = 0
        while edge:
            for move, movable in roads:
                if movable and (ready := shift(edge, move) & movable):
                    yield from ((walk, box, move) for box in members(ready))
            edge = around(edge, self.columns) & free & ~seen
            seen |= edge
            walk += 1

    def _pushes_to(self, targets: list[int]) -> dict[int, int]:
        """For each cell, the pushes that bring a box from there to one of the targets if no other is in the way."""
        far = dict.fromkeys(targets, 0)
        queue = list(targets)
        for cell in queue:
            for move in self.moves:
                box = cell - move  # it came from there, with the player one cell further back
                if self.floor >> box & 1 and self.floor >> (box - move) & 1 and box not in far:
                    far[box] = far[cell] + 1
                    queue.append(box)
        return far

    def _missing(self, boxes: int) -> int:
        """How many pushes are missing at least, with a target for each box; NEVER if it cannot be done at all."""
        if (bound := self.bounds.get(boxes)) is None:
            bound = self.bounds[boxes] = NEVER if self._stuck(boxes) else self._matched([*members(boxes)])
        return bound

    def _matched(self, boxes: list[int]) -> int:
        """The cheapest way to give each box a target of its own; of many boxes, each just the nearest."""
        if not self.matched:
            return sum(self.far[0].get(box, NEVER) for box in boxes)
        costs = {0: 0}  # sets of targets given away → the pushes to them
        for box in boxes:
            prices = [far.get(box, NEVER) for far in self.far]
            given: dict[int, int] = {}
            for taken, cost in costs.items():
                for number, price in enumerate(prices):
                    now = taken | 1 << number
                    if now != taken and cost + price < given.get(now, NEVER):
                        given[now] = cost + price
            costs = given
        return min(costs.values(), default=NEVER)

    def _stuck(self, boxes: int) -> bool:
        """Whether a box off its target is in a square of four that are all boxes or walls: none can ever be moved."""
        columns, full, astray = self.columns, boxes | self.walls, boxes & ~self.targets
        squares = full & full >> 1
        squares &= squares >> columns
        beside = astray | astray >> 1
        return bool(squares & (beside | beside >> columns))

    def _moves_to(self, state: State, before: dict[State, tuple[State, int]]) -> list[int]:
        states, pushes = [state], list[int]()
        while state in before:
            state, move = before[state]
            states.append(state)
            pushes.append(move)
        found: list[int] = []
        for ((boxes, player), (_, box)), move in zip(pairwise(reversed(states)), reversed(pushes), strict=True):
            found += [*self._walk(player, box - move, self.floor & ~boxes), self.moves.index(move)]
        return found

    def _walk(self, start: int, goal: int, free: int) -> list[int]:
        """A shortest way: cells by their distance from the goal, then downhill."""
        rings = [1 << goal]
        seen = rings[0]
        while not rings[-1] >> start & 1:
            rings.append(around(rings[-1], self.columns) & free & ~seen)
            seen |= rings[-1]
        way = []
        for ring in reversed(rings[:-1]):
            number = next(number for number, move in enumerate(self.moves) if ring >> (start + move) & 1)
            way.append(number)
            start += self.moves[number]
        return way
