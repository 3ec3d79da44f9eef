"""Kinds: which part an object is, and which objects are none."""

from __future__ import annotations

import functools
import io
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterator
from enum import Enum
from types import CellType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from paceline.adapters.sorrel.parts.attributes import Attributes, slots_of
from paceline.adapters.sorrel.parts.blocks import Block
from paceline.adapters.sorrel.parts.captured import FUNCTIONS, Captured, Cell, captures
from paceline.adapters.sorrel.parts.containers import Elements, Mapping, Sequence
from paceline.adapters.sorrel.parts.notes import PLAIN
from paceline.adapters.sorrel.parts.part import Part
from paceline.adapters.sorrel.parts.streams import GENERATORS, Stream, is_process_wide
from paceline.adapters.sorrel.parts.tensors import is_tensor, is_torch_generator


def mutable(thing: Any) -> bool:
    """Whether an object has a state of its own that is looked at."""
    cls: Any = type(thing)
    kind = _kind_of_class(cls)
    if kind is Stream:
        return not is_process_wide(thing)
    return kind is not None and (cls is not FunctionType or captures(thing))


def followed(thing: Any) -> bool:
    """Whether it can be told how an object has changed, if it has: not of iterators, which nothing tells."""
    return mutable(thing) or isinstance(thing, io.IOBase) or not isinstance(thing, Iterator)


def part_of(thing: Any) -> Part:
    """The part that a mutable object is."""
    cls: Any = type(thing)
    kind = _kind_of_class(cls)
    assert kind is not None
    if kind is Block and type(thing) is np.ndarray and thing.dtype.hasobject:
        kind = Sequence
    return kind(thing)


@functools.cache
def _kind_of_class(cls: Any) -> type[Part] | None:
    if cls in PLAIN or cls is tuple or issubclass(cls, Enum | type | ModuleType | BaseException | np.generic):
        return None
    if issubclass(cls, np.ndarray) or is_tensor(cls):
        return Block
    if issubclass(cls, GENERATORS) or is_torch_generator(cls):
        return Stream
    if issubclass(cls, FUNCTIONS):
        return Captured
    if cls is CellType:
        return Cell
    for content, kind in ((dict, Mapping), (list, Sequence), (deque, Sequence), (set, Elements)):
        if issubclass(cls, content):
            return kind
    return Attributes if (cls.__dictoffset__ or slots_of(cls)) and not _of_python(cls) else None


def _of_python(cls: type) -> bool:
    """Whether a class is Python's own: functions, locks, loggers, paths … have no state that is looked at."""
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names - {"collections"} and cls not in (
        SimpleNamespace,
        Namespace,
    )
