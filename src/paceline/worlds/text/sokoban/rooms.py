"""Makes rooms: a walker clears the floor, then the solved room is played backwards until its boxes are far from home.

    draws ── carve ──► floor ── place ──► solved room ── pull, pull, pull … ──► the room furthest from solved

Every pull is a push undone, so the way back is a solution: a room that is made here can be solved. The work is bounded
by a fixed number of tries and of pulls; if no try does, a simple room is laid out by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from paceline.worlds.text.sokoban.cells import around, members, moves, reach, shift, together
from paceline.worlds.text.sokoban.views import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

TRIES = 12
PULLS = 150  # in each try
TURNING = 0.35  # how often the walker who clears the floor changes its direction
CLEARING = 1.7  # how many steps it makes, per row and column of the room
STROLL = 3  # how many steps the player may have gone since the last pull

_CLEARED = ((0, 1), (2, 3), (0, 3), (3, 1), (1, 2), (2, 0))  # at each step, two of the four neighbours as well


@dataclass(frozen=True)
class Plan:
    """A room as sets and numbers of cells; the box at `boxes[i]` was pulled from `targets[i]`."""

    floor: int
    targets: tuple[int, ...]
    boxes: tuple[int, ...]
    player: int


def generate(rows: int, columns: int, boxes: int, depth: int, rng: np.random.Generator) -> list[int]:
    """Makes a room that is not solved yet, and can be in `depth` moves and a stroll (`STROLL`).

    Args:
        rows: Height, walls included; the inside must have room for three cells in a line.
        columns: Width, walls included.
        boxes: How many; at most a third of the inside.
        depth: How many moves to play backwards, at most; 1 or more.
        rng: Only its `random` is called, so that a seed means the same room under every numpy.

    Returns:
        What stands in each cell, row by row, as `views` numbers it.
    """
    plan = _best_try(rows, columns, boxes, depth, rng) or _by_hand(rows, columns, boxes, rng)
    free = plan.floor & ~together([*plan.boxes])
    near = list(members(reach(1 << plan.player, free, columns, STROLL)))
    return _cells(plan, near[int(rng.random() * len(near))], rows * columns)


def _best_try(rows: int, columns: int, boxes: int, depth: int, rng: np.random.Generator) -> Plan | None:
    best, most = None, 0
    for _ in range(TRIES):
        floor = _carve(rows, columns, rng)
        cells = _shuffled(list(members(floor)), rng)
        if len(cells) < boxes + 2:
            continue
        away, plan = _play_back(Plan(floor, (*cells[:boxes],), (*cells[:boxes],), cells[boxes]), columns, depth, rng)
        if away > most:
            best, most = plan, away
        if away == boxes:
            break
    return best


def _carve(rows: int, columns: int, rng: np.random.Generator) -> int:
    """A connected floor: wherever a walker comes, its cell and two of the neighbours are cleared."""
    inside = _inside(rows, columns)
    ways = moves(columns)
    draws = rng.random((int(CLEARING * (rows + columns)), 3)).tolist()
    spot = _shuffled(list(members(inside)), rng)[0]
    way = ways[int(rng.random() * 4)]
    floor = 1 << spot
    for turn, direction, shape in draws:
        if turn < TURNING:
            way = ways[int(direction * 4)]
        if inside >> (spot + way) & 1:
            spot += way
        one, other = _CLEARED[int(shape * len(_CLEARED))]
        floor |= 1 << spot | 1 << spot + ways[one] | 1 << spot + ways[other]
    return floor & inside


def _play_back(solved: Plan, columns: int, depth: int, rng: np.random.Generator) -> tuple[int, Plan]:
    """Pulls boxes at random, and begins again where it cannot go on or would be `depth` moves from the solution.

    Returns:
        How many boxes are off the targets in the room furthest from solved, and that room.
    """
    best, score = solved, (0, 0)
    boxes, player, made = [*solved.boxes], solved.player, 0
    stands = list(members(solved.floor & ~together(boxes)))
    for draw in rng.random(PULLS).tolist():
        pulls = [pull for pull in _pulls(solved.floor, boxes, player, columns) if made + pull[0] < depth]
        if not pulls:
            boxes, player, made = [*solved.boxes], stands[int(draw * len(stands))], 0
            continue
        walk, box, move = pulls[int(draw * len(pulls))]
        boxes[boxes.index(box)] += move
        player, made = box + 2 * move, made + walk + 1
        if (now := _score(boxes, solved.targets, columns)) > score:
            best, score = Plan(solved.floor, solved.targets, (*boxes,), player), now
    return score[0], best


def _pulls(floor: int, boxes: list[int], player: int, columns: int) -> Iterator[tuple[int, int, int]]:
    """Steps to walk, the box that can then be pulled, and which way: from beside it, with free floor behind."""
    taken = together(boxes)
    free = floor & ~taken
    stands = [(move, shift(taken, move) & free & shift(free, -move)) for move in moves(columns)]
    walk, seen, edge = 0, 0, 1 << player
    while edge:
        for move, cells in stands:
            if ready := edge & cells:
                yield from ((walk, cell - move, move) for cell in members(ready))
        seen |= edge
        edge = around(edge, columns) & free & ~seen
        walk += 1


def _score(boxes: list[int], targets: tuple[int, ...], columns: int) -> tuple[int, int]:
    """How many boxes are off the targets; then, how far they all are from where they came from."""
    away = sum(box not in targets for box in boxes)
    far = 0
    for box, target in zip(boxes, targets, strict=True):
        far += abs(box // columns - target // columns) + abs(box % columns - target % columns)
    return away, far


def _by_hand(rows: int, columns: int, boxes: int, rng: np.random.Generator) -> Plan:
    """An open room that is one push from solved: the last resort."""
    inside = _inside(rows, columns)
    move = 1 if columns >= rows else columns
    target, box, player = (columns + 1 + steps * move for steps in range(3))
    others = [cell for cell in _shuffled(list(members(inside)), rng) if cell not in (target, box, player)][: boxes - 1]
    return Plan(inside, (target, *others), (box, *others), player)


def _inside(rows: int, columns: int) -> int:
    line = (1 << columns - 2) - 1 << 1
    return sum(line << row * columns for row in range(1, rows - 1))


def _shuffled(cells: list[int], rng: np.random.Generator) -> list[int]:
    draws = rng.random(len(cells)).tolist()
    return [cell for _, cell in sorted(zip(draws, cells, strict=True))]


def _cells(plan: Plan, player: int, count: int) -> list[int]:
    cells = [FLOOR if plan.floor >> number & 1 else WALL for number in range(count)]
    for target in plan.targets:
        cells[target] = TARGET
    for box in plan.boxes:
        cells[box] = BOX_ON_TARGET if box in plan.targets else BOX
    cells[player] = PLAYER_ON_TARGET if player in plan.targets else PLAYER
    return cells
