"""A world: a board in which entities stand in layers, and nothing enters a place that is blocked.

    add, remove, move ──► one entity: its planes, what blocks the way, who stands where
    fill, empty       ──► a kind in many places at once, with array operations

Entities that change, move or act are objects (`add`). What has no state of its own, walls and gems, say, is no object
until it is asked for (`at`): a bit in its kind's plane is all of it, so that a game can treat thousands at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.worlds.board import Array, Board
from paceline.worlds.grid.entities import Agent, Entity, Wall


class World(Board):
    """A grid of entities.

    Args:
        kinds: The kinds of entities that there may be, in the order of their planes; `Wall` comes first.
        height: Rows that can be walked on.
        width: Columns that can be walked on.
        reach: How far agents see, in each direction.

    Attributes:
        turn: Which turn it is, from 1.
        total_reward: What all agents have earned in the episode.
        earners: The agents that have earned something in the last step.
        rng: The generator for everything random in the world.
    """

    rng: np.random.Generator

    def __init__(self, kinds: Sequence[type[Entity]], height: int, width: int, reach: int) -> None:
        if strange := [kind for kind in kinds if not (isinstance(kind, type) and issubclass(kind, Entity))]:
            raise BadInput(f"kinds: {strange[0]!r} is no kind of entity; give classes made from Entity")
        names = [kind.kind for kind in kinds]
        if not kinds or kinds[0] is not Wall or len(set(names)) < len(names):
            raise BadInput(f"kinds={names}: give each kind of entity once, and Wall first")
        self.kinds = tuple(kinds)
        self.turn = 0
        self.total_reward = 0.0
        self.earners: list[Agent] = []
        self._number = {name: number for number, name in enumerate(names)}
        # For each kind: the other kinds of its layer; a mover needs to look only at those that do not block anyway.
        numbers = range(len(kinds))
        self._rivals = [[n for n in numbers if n != own and kinds[n].layer == kinds[own].layer] for own in numbers]
        self._soft = [[rival for rival in rivals if kinds[rival].passable] for rivals in self._rivals]
        self._solid = [number for number, kind in enumerate(kinds) if not kind.passable]
        self._objects: list[dict[int, Entity]] = [{} for _ in kinds]  # by kind and place
        self.blocked = np.zeros((height + 2 * reach) * (width + 2 * reach), np.uint8)
        super().__init__(names, height, width, reach)
        self.clear()

    def _bind(self) -> None:
        super()._bind()
        self._planes = {name: plane.view() for name, plane in zip(self.names, self.cells, strict=True)}
        for plane in self._planes.values():
            plane.flags.writeable = False
        # Python reads and writes single bytes several times faster through these than through arrays.
        self._bits, self._shut = [plane.data for plane in self.cells], self.blocked.data

    def __getstate__(self) -> dict[str, Any]:
        """Without views."""
        views = ("_planes", "_bits", "_shut")
        return {name: value for name, value in super().__getstate__().items() if name not in views}

    def __getitem__(self, name: str) -> Array:
        """The plane of a kind, to read, by place."""
        try:
            return self._planes[name]
        except KeyError:
            raise self._no_kind(name) from None

    def clear(self) -> None:
        """Empties the world, but for the wall around it."""
        self.cells[:] = 0
        self.cells[0] = 1
        self.cells[0, self.inside] = 0
        self.blocked[:] = self.cells[0]
        self.turn, self.total_reward, self.earners = 0, 0.0, []
        for objects in self._objects:
            objects.clear()

    # -- one entity ----------------------------------------------------------------------------------------

    def add(self, entity: Entity, place: int) -> None:
        """Puts an entity somewhere.

        Raises:
            BadInput: it already stands somewhere, its kind is none of this world, or the place is taken, or no place.
        """
        if not isinstance(entity, Entity):
            raise BadInput(f"{entity!r} is no entity: give an object of one of the kinds {', '.join(self._number)}")
        if not isinstance(place, int | np.integer) or not 0 <= place < self.blocked.size:
            raise BadInput(f"{place!r} is no place of this world: give one of World.inside or World.free(), a number")
        number = self._number_of(entity.kind)
        if self._objects[number].get(entity.place) is entity:
            raise BadInput(f"this {entity.kind} already stands at {self.cell(entity.place)}: use World.move")
        if not self.has_room(entity, place):
            there = ", ".join(known.kind for known in self.at(place))
            raise BadInput(f"there is no room for a {entity.kind} at {self.cell(place)}: {there} is there")
        self._set(entity, number, int(place))

    def remove(self, entity: Entity) -> None:
        """Takes an entity away that was added. It keeps its place, as the one where it was last."""
        number = self._number_of(entity.kind)
        if self._objects[number].pop(entity.place, None) is not entity:
            raise BadInput(f"this {entity.kind} does not stand in this world")
        self._bits[number][entity.place] = 0
        if not entity.passable:
            self._shut[entity.place] = 0

    def move(self, entity: Entity, place: int) -> bool:
        """Moves an entity that was added, unless the place is blocked or taken. Returns whether it has moved."""
        if self._shut[place]:
            return False
        number, old = self._number[entity.kind], entity.place
        for rival in self._soft[number]:
            if self._bits[rival][place]:
                return False
        bits, objects = self._bits[number], self._objects[number]
        if bits[place]:
            return False
        bits[old], bits[place] = 0, 1
        del objects[old]
        objects[place] = entity
        if not entity.passable:
            self._shut[old], self._shut[place] = 0, 1
        entity.place = place
        return True

    def has_room(self, entity: Entity, place: int) -> bool:
        """Whether an entity could be put there: its layer is free, and nothing that blocks is where it would block."""
        number = self._number_of(entity.kind)
        if not entity.passable and self._shut[place]:
            return False
        return not any(self._bits[rival][place] for rival in (number, *self._rivals[number]))

    def at(self, place: int) -> list[Entity]:
        """The entities in a place, from the lowest layer to the highest."""
        there = [number for number, bits in enumerate(self._bits) if bits[place]]
        return [self._entity(number, place) for number in sorted(there, key=lambda number: self.kinds[number].layer)]

    def find(self, kind: str, place: int) -> Entity | None:
        """The entity of a kind in a place, if there is one."""
        number = self._number_of(kind)
        return self._entity(number, place) if self._bits[number][place] else None

    def movers(self) -> list[Entity]:
        """The entities, agents aside, that change by themselves: kind after kind, by place."""
        found = []
        for kind, objects in zip(self.kinds, self._objects, strict=True):
            if kind.has_transitions:
                found += [objects[place] for place in sorted(objects)]
        return found

    # -- many ----------------------------------------------------------------------------------------------

    def fill(self, kind: str, places: Any) -> None:
        """Puts things of a kind in all of these places; where there is one already it stays.

        Raises:
            BadInput: a place holds something else in that layer, or the kind has transitions; such are added.
        """
        number, places = self._number_of(kind), np.asarray(places, np.intp)
        if self.kinds[number].has_transitions:
            raise BadInput(f"a {kind} changes by itself: add each with World.add")
        if not places.size:
            return
        rivals = self._rivals[number] if self.kinds[number].passable else [n for n in self._solid if n != number]
        if any(self.cells[rival, places].any() for rival in rivals):
            raise BadInput(f"not all of these places have room for a {kind}: something else is in its layer there")
        self.cells[number, places] = 1
        if not self.kinds[number].passable:
            self.blocked[places] = 1

    def empty(self, kind: str, places: Any) -> None:
        """Takes the things of a kind away from these places; where there is none nothing happens."""
        number = self._number_of(kind)
        self.cells[number, places] = 0
        if not self.kinds[number].passable:
            self.blocked[places] = self.cells[self._solid][:, places].any(0)

    # -- how it is done ------------------------------------------------------------------------------------

    def _set(self, entity: Entity, number: int, place: int) -> None:
        self._bits[number][place] = 1
        self._objects[number][place] = entity
        if not entity.passable:
            self._shut[place] = 1
        entity.place = place

    def _entity(self, number: int, place: int) -> Entity:
        known = self._objects[number].get(place)
        if known is not None:
            return known
        made = self.kinds[number]()
        made.place = place
        return made

    def _number_of(self, kind: str) -> int:
        if kind not in self._number:
            raise self._no_kind(kind)
        return self._number[kind]

    def _no_kind(self, name: object) -> BadInput:
        return BadInput(f"{name!r} is no kind of this world; it has {', '.join(self._number)}")
