"""The process-wide random generators, cheap to watch and to swap, so that each member can have its own.

    random       ─┐                ┌─ peek         has anybody drawn or seeded?    after every call
    numpy.random ─┼── Generators ──┼─ save, load   swap one member for another     only if they draw
    torch (CPU)  ─┘                └─ fresh        streams for a new member

The official way to look at these generators takes up to 50 µs, too much for every call of every member.
So they are looked at in memory, where a self-test has proven them to be; it works on *twins*, objects of the
same class, and only reads the process's own. Whatever is unexpected makes `fast` False: then the official
API serves, with the same results. Memory is written for `random` (under the GIL) and numpy (under its lock)
alone; torch, which is never imported from here, is only peeked at in memory.
"""

from __future__ import annotations

import _random
import operator
import pickle
import random
import struct
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_char
from itertools import product
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from paceline.engine.randomness.memory_layout import (
    DOUBLE_IS_CACHED,
    FLOAT_IS_CACHED,
    TWISTER,
    RandomStateMemory,
    TorchMemory,
    Twister,
    without_padding,
)
from paceline.engine.randomness.torch_import import TORCH_IMPORT

Peek: TypeAlias = tuple[object, ...]


class Generators:
    """The process-wide generators of this process."""

    def __init__(self, fast: bool = True) -> None:
        self._allow_fast = fast
        self._known: dict[str, Generator] = {}
        self.peek: Callable[[], Peek] = self._peek_each
        """Gives a fingerprint that changes whenever anybody draws or seeds; replaced by a flat function."""

    def known(self) -> Mapping[str, Generator]:
        """The generators that are here now, by name; the `fast` of each says how it is read."""
        if not self._known:
            TORCH_IMPORT.expect()
            self._meet(PythonRandom(self._allow_fast), NumpyRandom(self._allow_fast))
        if "torch" in sys.modules and "torch" not in self._known and (torch := TORCH_IMPORT.done()):
            self._meet(TorchRandom(torch, self._allow_fast))
        return self._known

    def touched(self, before: Peek) -> tuple[str, ...]:
        """Names the generators that differ from `before`; a torch imported since, only if it was used."""
        now = self.peek()
        if now == before:
            return ()
        if len(before) == 4 < len(now) and TORCH_IMPORT.state == self._known["torch"].save():
            before = (*before, *now[4:])
        pairs = [slice(i, i + 2) for i in range(0, len(now), 2)]
        known = zip(self._known.values(), pairs, strict=True)
        return tuple(source.name for source, pair in known if source.differ(before[pair], now[pair]))

    def save(self) -> dict[str, object]:
        """The whole states, cached gaussians too; they can be pickled and compared, and never change."""
        return {name: generator.save() for name, generator in self.known().items()}

    def load(self, states: Mapping[str, object]) -> None:
        """Puts states back; a generator absent from `states` is left alone."""
        known = self.known()
        for name, state in states.items():
            if name not in known:
                raise RuntimeError(f"the state of {name} cannot be loaded: it is not imported here")
            known[name].load(state)

    def restore(self, states: Mapping[str, object]) -> None:
        """Puts everything back as `save` found it; a torch imported since, as it was when it was imported."""
        late = "torch" in self.known() and "torch" not in states and TORCH_IMPORT.state is not None
        self.load({**states, "torch": TORCH_IMPORT.state} if late else states)

    def fresh(self, seed: int | Sequence[int]) -> dict[str, object]:
        """States of newly seeded, independent generators; leaves the current ones as they are."""
        return {name: generator.fresh(seed) for name, generator in self.known().items()}

    def _meet(self, *generators: Generator) -> None:
        self._known = {**self._known, **{generator.name: generator for generator in generators}}
        fast = all(generator.fast for generator in self._known.values())
        self.peek = _flat_peek(self._peek_each, *self._known.values()) if fast else self._peek_each

    def _peek_each(self) -> Peek:
        return tuple(part for generator in self.known().values() for part in generator.peek())


def _flat_peek(each: Callable[[], Peek], python: Any, numpy: Any, torch: Any = None) -> Callable[[], Peek]:
    """All peeks in one frame: to call three methods would double the cost."""
    source, rand, home, modules = python.source, numpy.rand, numpy.home, sys.modules
    a, b, c = python.memory.window, numpy.memory.window, numpy.memory.gauss
    d, e = (torch.memory.window, torch.memory.normals) if torch else (a, a)

    def peek_at_two() -> Peek:
        if rand._bit_generator is not home or "torch" in modules:
            return each()
        return a.raw, source.gauss_next, b.raw, c.raw

    def peek_at_three() -> Peek:
        if rand._bit_generator is not home:
            return each()
        return a.raw, source.gauss_next, b.raw, c.raw, d.raw, e.raw

    return peek_at_three if torch else peek_at_two


class PythonRandom:
    """The generator behind the functions of `random`; its state is (position and words, cached gaussian)."""

    name = "random"
    layout = struct.Struct("=i624I")  # struct RandomObject { PyObject_HEAD; int index; uint32_t state[624]; }

    def __init__(self, allow_fast: bool) -> None:
        self.source: Any = random._inst
        self.fast = allow_fast and _proven(self._self_test)

    differ = staticmethod(operator.ne)

    def peek(self) -> Peek:
        return (self.memory.window.raw, self.source.gauss_next) if self.fast else (self.save(), None)

    def save(self) -> tuple[Any, ...]:
        return (self.memory.whole.raw, self.source.gauss_next) if self.fast else self._official(self.source)

    def load(self, state: Any) -> None:
        twister, gauss_next = state
        if self.fast:
            self.memory.write(twister)
            self.source.gauss_next = gauss_next
        else:
            position, *words = self.layout.unpack(twister)
            self.source.setstate((self.source.VERSION, (*words, position), gauss_next))

    def fresh(self, seed: int | Sequence[int]) -> tuple[Any, ...]:
        words = _branch(seed, self.name).generate_state(8).astype("<u4")
        return self._official(random.Random(int.from_bytes(words.tobytes(), "little")))

    def _official(self, source: Any) -> tuple[Any, ...]:
        _, (*words, position), gauss_next = source.getstate()
        return self.layout.pack(position, *words), gauss_next

    def _memory_of(self, source: Any) -> Twister:
        if type(source) is not random.Random or _random.Random.__basicsize__ < object.__basicsize__ + TWISTER:
            raise LookupError("not laid out as expected")
        return Twister(source, id(source) + object.__basicsize__, position=0)

    def _self_test(self) -> bool:
        twin, model = random.Random(1), random.Random(2)
        model.getrandbits(32 * 700)
        self.memory, *twins = memories = [self._memory_of(source) for source in (self.source, twin, model)]
        if any(memory.whole.raw != self._official(memory.owner)[0] for memory in memories):
            return False
        twins[0].write(twins[1].whole.raw)
        return twin.getstate() == model.getstate()


class NumpyRandom:
    """The RandomState behind `numpy.random`; its state is (None, words and position, cached gaussian).

    Under a bit generator that a user has put there with `numpy.random.set_bit_generator`, the state is that
    very object, which the user may hold too, and its official state, pickled.
    """

    name = "numpy.random"
    layout = struct.Struct("=624Ii")  # mt19937_state { uint32_t key[624]; int pos; }, in the bit generator
    gauss = struct.Struct("=i4xd")  # int has_gauss; double gauss, in the RandomState

    def __init__(self, allow_fast: bool) -> None:
        self.rand: Any = np.random.mtrand._rand
        current = self.rand._bit_generator
        self.home: Any = current if type(current) is np.random.MT19937 else np.random.MT19937()
        self.fast = allow_fast and current is self.home and _proven(self._self_test)

    differ = staticmethod(operator.ne)

    def peek(self) -> Peek:
        fast = self.fast and self.rand._bit_generator is self.home
        return (self.memory.window.raw, self.memory.gauss.raw) if fast else (self.save(), None)

    def save(self) -> tuple[Any, ...]:
        if self.rand._bit_generator is not self.home:
            return self.rand._bit_generator, pickle.dumps(self.rand.get_state(legacy=False)), None
        if self.fast:
            return None, self.memory.whole.raw, self.memory.gauss.raw
        return self._official(self.rand)

    def load(self, state: Any) -> None:
        guest, twister, gauss = state
        if self.rand._bit_generator is not (guest or self.home):
            np.random.mtrand.set_bit_generator(guest or self.home)
        if guest:
            self.rand.set_state(pickle.loads(twister))
        elif self.fast:
            self.memory.write(twister, gauss)
        else:
            *words, position = self.layout.unpack(twister)
            self.rand.set_state(("MT19937", words, position, *self.gauss.unpack(gauss)))

    def fresh(self, seed: int | Sequence[int]) -> tuple[Any, ...]:
        return self._official(np.random.RandomState(_branch(seed, self.name).generate_state(8)))

    def _official(self, rand: Any) -> tuple[Any, ...]:
        _, words, position, *gauss = rand.get_state()
        twister = np.asarray(words, np.uint32).tobytes() + struct.pack("=i", position)
        return None, twister, self.gauss.pack(*gauss)

    def _self_test(self) -> bool:
        twin, model = np.random.RandomState(1), np.random.RandomState(2)
        model.standard_normal(701)  # an odd number leaves a cached gaussian
        self.memory, *twins = memories = [RandomStateMemory(rand) for rand in (self.rand, twin, model)]
        if any((None, m.whole.raw, m.gauss.raw) != self._official(m.rand) for m in memories):
            return False
        twins[0].write(twins[1].whole.raw, twins[1].gauss.raw)
        return self._official(twin) == self._official(model)


class TorchRandom:
    """torch's default CPU generator; its state is the bytes of its `get_state()`."""

    name = "torch"

    def __init__(self, torch: ModuleType, allow_fast: bool) -> None:
        self._torch, self._generator = torch, torch.default_generator
        self._tensor: Any = torch.empty_like(self._generator.get_state())  # what set_state wants to be given
        self._bytes: Any = (c_char * self._tensor.numel()).from_address(self._tensor.data_ptr())
        self._flagged = False  # whether it is known where in memory it says that a normal is cached
        self._latest: tuple[Peek, bytes] = (), b""  # what was saved or loaded last, and what it looked like
        self.fast = allow_fast and _proven(self._self_test)

    def peek(self) -> Peek:
        return (self.memory.window.raw, self.memory.normals.raw) if self.fast else (self.save(), None)

    def differ(self, before: Peek, now: Peek) -> bool:
        """Whether two peeks are of different states: to load one leaves other bytes in padding and in empty caches."""
        comparable = self.fast and self._flagged and len(before) == len(now)  # else torch was imported in between
        return before != now and not (comparable and without_padding(*before) == without_padding(*now))

    def save(self) -> bytes:
        if not self.fast:
            return self._save(self._generator)
        if (peek := self.peek()) != self._latest[0]:  # many members draw from the others only
            self._latest = peek, self._save(self._generator)
        return self._latest[1]

    def load(self, state: Any) -> None:
        if len(state) != len(self._bytes):
            raise ValueError(f"a state of torch has {len(self._bytes)} bytes here, not {len(state)}")
        self._bytes.raw = state
        self._generator.set_state(self._tensor)
        if self.fast:
            self._latest = self.peek(), state

    def fresh(self, seed: int | Sequence[int]) -> bytes:
        word = int(_branch(seed, self.name).generate_state(1, np.uint64)[0])
        return self._save(self._torch.Generator("cpu").manual_seed(word))

    def _save(self, generator: Any) -> bytes:
        state = generator.get_state()
        content: bytes = type(self._bytes).from_address(state.data_ptr()).raw  # numpy() takes twice as long
        return content

    def _self_test(self) -> bool:
        twin = self._torch.Generator("cpu").manual_seed(1)
        memory, self.memory = (TorchMemory(owner, self._save(owner)) for owner in (twin, self._generator))
        peeks = []
        for seed in (1, 2, 2 + 2**32):  # the words know the low half of a seed only
            twin.manual_seed(seed)
            for draws in (0, 1, 1, 624):  # normals come in twos: to give the second, the engine does not move
                self._torch.empty(draws, dtype=self._torch.double, device="cpu").normal_(generator=twin)
                peeks.append((memory.window.raw, memory.normals.raw))
        self._flagged = self._caches_as_told(twin, memory)
        return len(set(peeks)) == len(peeks) and memory.offset == self.memory.offset

    def _caches_as_told(self, twin: Any, memory: TorchMemory) -> bool:
        """Whether the flags in memory say what the official states say: no normal cached, a double, a float, both."""
        for double, single in product((0, 1), repeat=2):
            state = bytearray(self._save(twin))
            if len(state) <= FLOAT_IS_CACHED:
                return False
            state[DOUBLE_IS_CACHED], state[FLOAT_IS_CACHED] = double, single
            twin.set_state(self._torch.frombuffer(state, dtype=self._torch.uint8).clone())
            _, *normals = without_padding(memory.window.raw, memory.normals.raw)
            if [value is not None for value in normals] != [single == 1, double == 1]:
                return False
        return True


Generator: TypeAlias = PythonRandom | NumpyRandom | TorchRandom


def _proven(self_test: Callable[[], bool]) -> bool:
    """Whether memory may be used: only in a CPython of 64 bits with a GIL, and if nothing surprises us."""
    try:
        plain = sys.implementation.name == "cpython" and struct.calcsize("Pi") == 12
        return plain and getattr(sys, "_is_gil_enabled", lambda: True)() and self_test()
    except Exception:
        return False


def _branch(seed: int | Sequence[int], name: str) -> np.random.SeedSequence:
    """The branch of the seed that belongs to one generator, whichever others are here."""
    return np.random.SeedSequence(seed, spawn_key=tuple(name.encode()))


GENERATORS = Generators()


@contextmanager
def draws_of() -> Iterator[Callable[[], tuple[str, ...]]]:
    """Watches the process-wide generators. Gives a function that names those which have been drawn from or seeded."""
    GENERATORS.known()
    before = GENERATORS.peek()
    yield lambda: GENERATORS.touched(before)
