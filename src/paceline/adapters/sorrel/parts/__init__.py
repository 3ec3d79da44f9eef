"""Parts: mutable objects one by one, each with a shadow of its state, and what a change of it is.

part.py        what a part is · notes.py how a shadow notes a value · kinds.py which part an object is
attributes.py  Attributes    objects with attributes          attr, delattr
containers.py  Mapping       dicts                            item, refill
               Sequence      lists, deques, arrays of objects at, tail
               Elements      sets                             elements
blocks.py      Block         arrays and tensors of numbers    bytes, grad, whole
captured.py    Captured      functions, methods, partials     what they have captured
               Cell          variables of closures            cell
streams.py     Stream        random generators                state
tensors.py     what is asked of torch, where it is loaded
"""

from paceline.adapters.sorrel.parts.blocks import Block
from paceline.adapters.sorrel.parts.kinds import followed, mutable, part_of
from paceline.adapters.sorrel.parts.notes import PLAIN, Ref, Whole, same, whole
from paceline.adapters.sorrel.parts.part import Part
from paceline.adapters.sorrel.parts.streams import reduced_stream
from paceline.adapters.sorrel.parts.tensors import reduced_tensor

__all__ = [
    "PLAIN",
    "Block",
    "Part",
    "Ref",
    "Whole",
    "followed",
    "mutable",
    "part_of",
    "reduced_stream",
    "reduced_tensor",
    "same",
    "whole",
]
