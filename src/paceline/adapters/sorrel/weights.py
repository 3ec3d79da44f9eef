"""Weights: the arrays and tensors of a model, its memory aside, of which a training may make numbers that are none."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from paceline.adapters.sorrel.parts import Block, mutable, part_of


class Weights:
    """The arrays and tensors of a model before a training: parameters, and what its optimizer keeps of them.

    They are known by their places, in which a training may put others.

    Args:
        model: The model. What its `memory` holds is not looked into.
    """

    def __init__(self, model: Any) -> None:
        self._holders: list[tuple[Any, dict[Hashable, Block]]] = []
        blocks: dict[int, Block] = {}
        seen, stack = {id(model), id(getattr(model, "memory", None))}, [model]
        while stack:
            holder = stack.pop()
            mine: dict[Hashable, Block] = {}
            for key, value in _held(holder):
                if type(value) is tuple:
                    stack.append(value)
                elif mutable(value):
                    if isinstance(part := blocks.get(id(value)) or part_of(value), Block):
                        if id(value) in blocks or _begun(part):
                            mine[key] = blocks[id(value)] = part
                    elif id(value) not in seen:
                        seen.add(id(value))
                        stack.append(value)
            if mine:
                self._holders.append((holder, mine))

    def are_spoiled(self) -> bool:
        """Whether an array is not finite that is in the place of one that was: a mask of −inf is no failure."""
        finite: dict[int, bool] = {}
        for before, now in self._pairs():
            if id(now.thing) not in finite:
                finite[id(now.thing)] = now.is_finite()
            if not finite[id(now.thing)] and before.was_finite():
                return True
        return False

    def put_back(self) -> None:
        """Writes what there was to where it was.

        Raises:
            ValueError: an array of another shape is there now.
        """
        for before, now in self._pairs():
            now.take_shadow(before)
            now.revert(_itself)

    def _pairs(self) -> Iterator[tuple[Block, Block]]:
        """Every array that there was, and the one that is in its place now."""
        for holder, mine in self._holders:
            held = dict(_held(holder))
            for key, block in mine.items():
                now = held.get(key)
                if now is block.thing:
                    yield block, block
                elif mutable(now) and isinstance(part := part_of(now), Block):
                    yield block, part


def _begun(block: Block) -> bool:
    """Takes the shadow of an array. Whether that can be: a parameter of a lazy layer, say, has no numbers yet."""
    try:
        block.begin(_itself)
    except (RuntimeError, ValueError):
        return False
    return True


def _held(holder: Any) -> Iterable[tuple[Hashable, Any]]:
    return enumerate(holder) if type(holder) is tuple else part_of(holder).children()


def _itself(value: Any) -> Any:
    return value
