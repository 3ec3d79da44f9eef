"""Where the process-wide generators lie in memory: looked at there in a fraction of the time that their APIs take.

generators.py proves by self-tests, on twins, that they lie where it is thought here; otherwise nobody looks.
"""

from __future__ import annotations

import os
import struct
from ctypes import c_char, c_uint64
from typing import Any

# All three are Mersenne Twisters: 624 words and a position. The position does not tell a draw of 624 words
# from none, nor one seed from another, and word 0 is the same after every `random.seed`. So a peek takes the
# words next to the position too: 64 bytes cost no more than 4, while all 2500 would cost three times as much.
WINDOW = 64
TWISTER = 4 + 624 * 4


class Twister:
    """A Mersenne Twister in its owner's memory: 624 words, with the position before or after them."""

    def __init__(self, owner: Any, at: int, position: int) -> None:
        self.owner = owner  # held, so that the memory stays
        self.whole = (c_char * TWISTER).from_address(at)
        self.window = (c_char * WINDOW).from_address(at if position == 0 else at + TWISTER - WINDOW)
        self._position = struct.Struct(f"={position}xi")

    def write(self, state: bytes) -> None:
        if len(state) != TWISTER or not 0 <= self._position.unpack_from(state)[0] <= 624:
            raise ValueError("this is not the state of a Mersenne Twister")  # it would run past its words
        self.whole.raw = state


class RandomStateMemory:
    """A numpy RandomState in memory: the Mersenne Twister of its bit generator, and its cached gaussian."""

    def __init__(self, rand: Any) -> None:
        self.rand, bits = rand, rand._bit_generator
        start, end = bits.ctypes.state_address, id(bits) + type(bits).__basicsize__
        if not id(bits) < start <= end - TWISTER:
            raise LookupError("not laid out as expected")
        self._twister, self._lock = Twister(bits, start, position=TWISTER - 4), bits.lock
        self.whole, self.window = self._twister.whole, self._twister.window
        self.gauss = (c_char * 16).from_address(self._find_gauss(start))

    def _find_gauss(self, state: int) -> int:
        # in RandomState: bitgen_t { void *state; … }, and { bitgen_t *; int has_gauss; double gauss; }
        start, size = id(self.rand), type(self.rand).__basicsize__
        slots = (c_uint64 * (size // 8)).from_address(start)
        inward = [i for i in range(len(slots) - 2) if slots[i] - start in range(0, 8 * len(slots), 8)]
        (pointer,) = (i for i in inward if slots[(slots[i] - start) // 8] == state)
        return start + 8 * (pointer + 1)

    def write(self, twister: bytes, gauss: bytes) -> None:
        if len(gauss) != len(self.gauss):
            raise ValueError("this is not a cached gaussian")
        with self._lock:  # the position must not move under a thread that draws without the GIL
            self._twister.write(twister)
            self.gauss.raw = gauss


class TorchMemory:
    """A torch CPUGeneratorImpl in memory: the head of its engine and its cached normals, never written."""

    def __init__(self, owner: Any, state: bytes) -> None:
        # { uint64 seed; int left; bool seeded; uint32 next, state[624]; } optional<float>; optional<double>;
        self.owner, self.offset = owner, self._find_engine(owner._cdata, state)
        self.window = (c_char * WINDOW).from_address(owner._cdata + self.offset)
        self.normals = (c_char * 24).from_address(owner._cdata + self.offset + 2520)

    @staticmethod
    def _find_engine(start: int, state: bytes) -> int:
        with open("/proc/self/mem", "rb", buffering=0) as memory:  # a bad address is an error, not a crash
            seen = os.pread(memory.fileno(), 4096, start)
        # the official state has the same words, in 8 bytes each, from byte 24
        offset = seen.index(struct.pack("=624I", *struct.unpack_from("=624Q", state, 24))) - 20
        if offset < 8 or offset % 8 or offset + 2520 + 24 > len(seen):
            raise LookupError("not laid out as expected")
        return offset


# In the bytes of `get_state()`: { … double normal_y, normal_rho; int normal_is_valid; } float next; bool next_is_valid;
DOUBLE_IS_CACHED, FLOAT_IS_CACHED = 5040, 5052


def without_padding(window: Any, normals: Any) -> tuple[bytes, bytes | None, bytes | None]:
    """A peek at a `TorchMemory` without the bytes that mean nothing: those after a flag, and of a normal that is not
    cached. Gives the window, the cached float and the cached double."""
    return window[:13] + window[16:], normals[:4] if normals[4] else None, normals[8:16] if normals[16] else None
