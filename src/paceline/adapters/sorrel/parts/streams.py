"""Streams: random generators that an object owns, of Python, of numpy and of torch.

The process-wide generators are nobody's, though objects may hold them: `torch.manual_seed` gives one, and
`random.random` is a method of one. Each process has its own, so they are sent by name.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from paceline.adapters.sorrel.parts.part import Change, Item, Part
from paceline.adapters.sorrel.parts.tensors import is_torch_generator, torch_if_loaded

GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)


def process_wide() -> dict[str, Any]:
    """The generators that are this process's, by name."""
    torch, numpy = torch_if_loaded(), np.random.mtrand._rand
    here = {"random": random._inst, "numpy": numpy, "numpy's bits": numpy._bit_generator}
    return here if torch is None else {**here, "torch": torch.default_generator}


def is_process_wide(thing: Any) -> bool:
    """Whether a generator is the process's own."""
    return any(thing is each for each in process_wide().values())


def reduced_stream(thing: Any) -> tuple[Any, ...] | None:
    """How a process-wide generator is pickled: as that of the process where it is unpickled."""
    if not (isinstance(thing, GENERATORS) or is_torch_generator(type(thing))):
        return None
    return next(((_process_wide, (name,)) for name, each in process_wide().items() if thing is each), None)


def _process_wide(name: str) -> Any:
    return process_wide()[name]


class Stream(Part):
    """A random generator that an object owns."""

    is_numbers = True

    def _state(self) -> bytes:
        thing = self.thing
        if isinstance(thing, random.Random):
            return pickle.dumps(thing.getstate(), 5)
        if isinstance(thing, np.random.Generator):
            return pickle.dumps(thing.bit_generator.state, 5)
        if isinstance(thing, np.random.BitGenerator):
            return pickle.dumps(thing.state, 5)
        return pickle.dumps(
            thing.get_state(legacy=False) if isinstance(thing, np.random.RandomState) else _bytes(thing)
        )

    def begin(self, item: Item) -> None:
        self._shadow = self._state()

    def changes(self, item: Item) -> Iterator[Change]:
        now = self._state()
        if now != self._shadow:
            yield "state", now

    def make(self, change: Change) -> None:
        thing, state = self.thing, pickle.loads(change[2])
        if isinstance(thing, random.Random):
            thing.setstate(state)
        elif isinstance(thing, np.random.Generator):
            thing.bit_generator.state = state
        elif isinstance(thing, np.random.BitGenerator):
            thing.state = state
        elif isinstance(thing, np.random.RandomState):
            thing.set_state(state)
        else:
            thing.set_state(torch_if_loaded().frombuffer(bytearray(state), dtype=torch_if_loaded().uint8))

    def agree(self, change: Change, item: Item) -> None:
        self._shadow = change[2]

    def revert(self, value: Callable[[Any], Any]) -> None:
        self.make(((), "state", self._shadow))


def _bytes(generator: Any) -> bytes:
    return bytes(generator.get_state().tolist())
