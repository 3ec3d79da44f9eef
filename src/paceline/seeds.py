"""Identity in, seed out; value in, digest out.

Seeds follow who something is (a mission, an episode, a member), never where or when it runs. Digests are how two
results are shown to be the same: a canonical walk over a value feeds tagged bytes to a hash.

    value ── walk ──► chunks of bytes ──┬─► SHA-256   digest(): what results carry
                                        └─► CRC-32    check(): what the journal compares on replay
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pickle
import struct
import sys
import zlib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

Key = int | str | tuple["Key", ...]
"""What names a member, an episode, an agent: an int, a string, or a tuple of those."""

_WHOLE = 1 << 16  # check() reads arrays up to this many bytes whole, and samples larger ones
_SAMPLES = 16
_FLOAT = struct.Struct("<cd").pack
_STRINGS = frozenset({str})


def sequence(root: int, *key: Key) -> np.random.SeedSequence:
    """Gives the seed sequence of `key` under `root`; different keys never share a stream."""
    return np.random.SeedSequence(root, spawn_key=_words(key))


def seed_of(root: int, *key: Key) -> int:
    """Gives a 63-bit seed for `key` under `root`."""
    return int(sequence(root, *key).generate_state(1, np.uint64)[0] >> 1)


def env_seed(root: int, *key: Key) -> int:
    """Gives an environment's seed for `key` under `root`, in 31 bits, which every environment takes."""
    return seed_of(root, *key) >> 32


def digest(value: Any) -> str:
    """Gives the SHA-256 of `value` as hex: type tags, dtypes, shapes and bytes; dicts by sorted key."""
    sha = hashlib.sha256()
    _feed(value, sha.update)
    return sha.hexdigest()


class RunningDigest:
    """A digest of many values, one after another; what has been taken in need not be kept."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, *mappings: Mapping[Any, Any]) -> None:
        """Takes mappings in: what everybody sees, does, gets. Values of one kind are taken in side by side."""
        chunks: list[Any] = []
        for mapping in mappings:
            _feed_column(mapping, chunks.append)
        self._sha.update(b"".join(chunks))

    def hexdigest(self) -> str:
        """The SHA-256 of everything so far."""
        return self._sha.hexdigest()


def check(value: Any) -> int:
    """Gives a quick 32-bit check of `value`, enough to see that a replayed answer differs.

    Arrays above 64 KiB are sampled in blocks; `digest` reads every byte.
    """
    chunks: list[Any] = []
    _feed(value, chunks.append, whole=_WHOLE)
    if len(chunks) < 64:
        return zlib.crc32(b"".join(chunks))
    crc = 0
    for chunk in chunks:
        crc = zlib.crc32(chunk, crc)
    return crc


def _words(key: tuple[Key, ...]) -> tuple[int, ...]:
    # Through a hash, because a spawn key takes 32-bit words only, and "1" must differ from 1.
    raw = hashlib.sha256(repr(key).encode()).digest()
    return struct.unpack("<8I", raw)


_Sink = Callable[[Any], object]


def _feed(value: Any, out: _Sink, whole: int | None = None) -> None:
    kind = type(value)
    if kind is float:
        out(_FLOAT(b"f", value))
    elif kind is tuple or kind is list:
        out(b"(%d" % len(value) if kind is tuple else b"[%d" % len(value))
        for item in value:
            _feed(item, out, whole)
    elif kind is np.ndarray:
        _feed_array(value, out, whole)
    elif value is None or kind is bool:
        out(b"N" if value is None else (b"T" if value else b"F"))
    elif kind is int:
        out(b"i%x;" % value)
    elif kind is str:
        raw = value.encode("utf-8", "surrogatepass")
        out(b"s%d:" % len(raw) + raw)
    elif kind is dict:
        _feed_mapping(value, out, whole)
    else:
        _feed_other(value, out, whole)


def _feed_array(array: np.ndarray[Any, Any], out: _Sink, whole: int | None) -> None:
    out(_array_tag(array.dtype, array.shape))
    if array.dtype.hasobject:
        for item in array.ravel():
            _feed(item, out, whole)
    elif array.nbytes <= _WHOLE:
        out(array.tobytes())  # to copy a small array costs a tenth of making a view of its bytes
    else:
        _feed_bytes(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, out, sampled=whole is not None)


@functools.lru_cache(maxsize=1024)
def _array_tag(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return b"a" + dtype.str.encode() + repr(shape).encode()


def _feed_bytes(raw: memoryview, out: _Sink, sampled: bool) -> None:
    if not sampled:
        out(raw)
        return
    step = raw.nbytes // _SAMPLES
    for start in range(0, raw.nbytes, step):
        out(raw[start : start + _WHOLE // _SAMPLES])
    out(raw[-64:])


def _feed_mapping(value: Mapping[Any, Any], out: _Sink, whole: int | None) -> None:
    out(b"{%d" % len(value))
    if not value:
        return
    keys = list(value)
    if _STRINGS.issuperset(map(type, keys)):
        keys.sort()
    else:
        keys.sort(key=lambda key: (type(key).__name__, digest(key)))
    for key in keys:
        _feed(key, out, whole)
        _feed(value[key], out, whole)


def _feed_column(mapping: Mapping[Any, Any], out: _Sink) -> None:
    """A mapping by its keys, then its values. Hot: a step of many agents has five of these."""
    if set(map(type, mapping)) != {str}:
        _feed_mapping(mapping, out, None)
        return
    keys = sorted(mapping)
    values = [mapping[key] for key in keys]
    out("\0".join(keys).encode("utf-8", "surrogatepass"))
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is float:
        out(struct.pack(f"<c{len(values)}d", b"f", *values))
    elif kind is bool:
        out(b"?" + bytes(values))
    elif (
        kind is np.ndarray
        and len({(value.dtype, value.shape) for value in values}) == 1
        and not values[0].dtype.hasobject
    ):
        out(_array_tag(values[0].dtype, values[0].shape))
        for value in values:
            out(value.tobytes())
    else:
        for value in values:
            _feed(value, out, None)


def _feed_other(value: Any, out: _Sink, whole: int | None) -> None:
    if isinstance(value, np.generic):
        out(b"g" + value.dtype.str.encode() + value.tobytes())
    elif isinstance(value, bytes | bytearray | memoryview):
        out(b"b%d:" % len(value) + bytes(value))
    elif isinstance(value, complex):
        out(b"c" + struct.pack("<dd", value.real, value.imag))
    elif isinstance(value, Mapping):
        _feed_mapping(value, out, whole)
    elif isinstance(value, AbstractSet):
        out(b"S%d" % len(value))
        for item in sorted(digest(item) for item in value):
            out(item.encode())
    else:
        _feed_object(value, out, whole)


def _feed_object(value: Any, out: _Sink, whole: int | None) -> None:
    out(b"o" + type(value).__qualname__.encode())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        _feed_mapping({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, out, whole)
    elif isinstance(value, tuple | list):
        _feed(list(value), out, whole)
    elif isinstance(value, str | int | float):
        _feed(_plain(value), out, whole)
    elif hasattr(value, "detach") and hasattr(value, "numpy"):
        _feed_tensor(value.detach().cpu().contiguous(), out, whole)
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        out(f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, BaseException):
        _feed([str(arg) for arg in value.args], out, whole)
    elif _holds_plain_state(value):
        _feed_mapping(vars(value), out, whole)
    else:
        out(pickle.dumps(value, protocol=5))


def _feed_tensor(tensor: Any, out: _Sink, whole: int | None) -> None:
    try:
        _feed_array(tensor.numpy(), out, whole)
    except TypeError:  # a dtype that numpy does not have, bfloat16 say: its bytes and its name
        out(str(tensor.dtype).encode() + repr(tuple(tensor.shape)).encode())
        _feed_array(tensor.reshape(-1).view(sys.modules["torch"].uint8).numpy(), out, whole)


def _holds_plain_state(value: Any) -> bool:
    kind: Any = type(value)
    return hasattr(value, "__dict__") and kind.__reduce_ex__ is object.__reduce_ex__


def _plain(value: str | int | float) -> str | int | float:
    # Enum members and subclasses of the builtins count by their value; the class name is in the tag.
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, int) else float(value)
