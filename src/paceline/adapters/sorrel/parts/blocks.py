"""Blocks: arrays and tensors of numbers, of which only the words that were written are sent."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from paceline.adapters.sorrel.parts.notes import same
from paceline.adapters.sorrel.parts.part import Change, Item, Part
from paceline.adapters.sorrel.parts.tensors import torch_if_loaded

_BLOCK = 512  # words that are sent together
_PIECE = 1 << 17  # words that are compared together: they fit into a cache


class Block(Part):
    """An array or a tensor of numbers: compared and sent in blocks."""

    is_numbers = True

    def __init__(self, thing: Any) -> None:
        super().__init__(thing)
        self._tensor = not isinstance(thing, np.ndarray)
        self._shadow: Any = None
        self._grad: Any = None

    def _words(self) -> Any:
        """Its memory as a row of words; a copy where it is not in one piece, or not in the memory of this process."""
        thing = self.thing
        if self._tensor:
            thing = (
                thing.detach().cpu().reshape(-1).view(torch_if_loaded().uint8).numpy()
                if thing.numel()
                else np.empty(0, "u1")
            )
        else:
            thing = np.ascontiguousarray(thing).reshape(-1).view(np.uint8)
        return thing.view(np.uint64) if thing.nbytes % 8 == 0 else thing

    def memory(self) -> tuple[int, int]:
        """Where its memory begins and ends, gaps included."""
        thing = self.thing
        if self._tensor:
            if thing.layout is not torch_if_loaded().strided:
                return 0, 0
            first, size, steps = (
                thing.data_ptr(),
                thing.element_size(),
                [step * thing.element_size() for step in thing.stride()],
            )
        else:
            first, size, steps = thing.__array_interface__["data"][0], thing.itemsize, thing.strides
        if 0 in thing.shape:
            return 0, 0
        spans = [(length - 1) * step for length, step in zip(thing.shape, steps, strict=True)]
        return first + sum(span for span in spans if span < 0), first + size + sum(span for span in spans if span > 0)

    @property
    def _in_place(self) -> bool:
        if self._tensor:
            return bool(self.thing.is_contiguous() and self.thing.device.type == "cpu")
        return bool(self.thing.flags.c_contiguous)

    def children(self) -> Iterable[tuple[Hashable, Any]]:
        grad = self.thing.grad if self._tensor and self.thing.is_leaf else None
        return (("grad", grad),) if grad is not None else ()

    def is_finite(self) -> bool:
        """Whether there is no NaN and no infinity in it."""
        return _finite(self.thing)

    def was_finite(self) -> bool:
        """Whether there was none when its shadow was taken."""
        words = self._shadow.view(np.uint8)
        return _finite((torch_if_loaded().from_numpy(words) if self._tensor else words).view(self.thing.dtype))

    def take_shadow(self, other: Block) -> None:
        """Has it what another one was."""
        self._shadow, self._grad = other._shadow, other._grad

    def begin(self, item: Item) -> None:
        self._shadow, self._grad = self._words().copy(), item(self._gradient())

    def _gradient(self) -> Any:
        return self.thing.grad if self._tensor and self.thing.is_leaf else None

    def changes(self, item: Item) -> Iterator[Change]:
        if not same(item(self._gradient()), self._grad):
            yield "grad", self._gradient()
        now = self._words()
        if len(now) != len(self._shadow):  # resized in place
            yield "whole", self.thing.copy() if not self._tensor else self.thing.detach().clone()
            return
        starts = list(_differing(now, self._shadow))
        if starts:
            yield "bytes", starts, b"".join(now[start : start + _BLOCK].tobytes() for start in starts)

    def make(self, change: Change) -> None:
        _, what, *values = change
        if what == "grad":
            self.thing.grad = values[0]
        elif what == "bytes":
            words = self._words()
            _write(words, *values)
            self._give_back(words)
        elif self._tensor:
            self.thing.data = values[0]
        else:
            self.thing.resize(values[0].shape, refcheck=False)
            self.thing[...] = values[0]

    def _give_back(self, words: Any) -> None:
        """Writes words back where they were a copy."""
        if self._in_place:
            return
        if self._tensor:
            whole = (
                torch_if_loaded()
                .from_numpy(words.view(np.uint8).copy())
                .view(self.thing.dtype)
                .reshape(self.thing.shape)
            )
            self.thing.data.copy_(whole)
        else:
            self.thing[...] = words.view(np.uint8).view(self.thing.dtype).reshape(self.thing.shape)

    def agree(self, change: Change, item: Item) -> None:
        _, what, *values = change
        if what == "grad":
            self._grad = item(values[0])
        elif what == "bytes":
            _write(self._shadow, *values)
        else:
            self._shadow = self._words().copy()

    def revert(self, value: Callable[[Any], Any]) -> None:
        words = self._words()
        if self._tensor and self.thing.is_leaf:
            self.thing.grad = value(self._grad)
        words[:] = self._shadow
        self._give_back(words)


def _finite(numbers: Any) -> bool:
    """A sum finds out faster, unless it overflows itself."""
    try:
        if isinstance(numbers, np.ndarray):
            with np.errstate(all="ignore"):
                return numbers.dtype.kind not in "fc" or bool(np.isfinite(numbers.sum()) or np.isfinite(numbers).all())
        if not (numbers.is_floating_point() or numbers.is_complex()):
            return True
        isfinite, numbers = torch_if_loaded().isfinite, numbers.detach()
        return bool(isfinite(numbers.sum()) or isfinite(numbers).all())
    except (RuntimeError, ValueError):  # a kind of tensor that cannot be summed
        return True


def _differing(now: Any, before: Any) -> Iterator[int]:
    """Where the blocks begin that differ."""
    for piece in range(0, len(now), _PIECE):
        differs = now[piece : piece + _PIECE] != before[piece : piece + _PIECE]
        if differs.any():
            places = np.flatnonzero(differs) // _BLOCK
            yield from (piece + int(place) * _BLOCK for place in np.unique(places))


def _write(words: Any, starts: list[int], content: bytes) -> None:
    new, place = np.frombuffer(content, words.dtype), 0
    for start in starts:
        block = words[start : start + _BLOCK]
        block[:] = new[place : place + len(block)]
        place += len(block)
