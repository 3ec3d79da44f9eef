"""Data and nothing else, to bytes and back: what main reads of a worker that it does not trust.

    value ── pack ──► Plain(head, [buffer, …])  large arrays and bytes apart     unpack ──► the same value, or NotData

The reader knows None, booleans, numbers, text, bytes, arrays and numpy scalars without objects in them, and lists,
tuples, sets and dicts of these; and the records of a closed table, each field of which must be what its class
declares. It never looks up a name, and calls nothing that a stream could choose. It reads no further than it was given:
a count is never more than the bytes that are left, and nesting has a limit.
"""

from __future__ import annotations

import re
import struct
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np

from paceline.errors import NotData

DEPTH = 100
"""How deep containers may be nested."""

APART = 1 << 14
"""Bytes from which on an array, or bytes, travel beside the head."""

_INT, _FLOAT, _COMPLEX, _COUNT, _LONG = (struct.Struct(form) for form in ("<q", "<d", "<dd", "<I", "<Q"))
_RUN = 8  # numbers in a list from which on they are written as one block
_DTYPE = re.compile(r"[<>|][biufcSUVmM][0-9]{1,9}(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?")
_SCALARS = frozenset(np.sctypeDict.values()) - {np.object_}
_ONLY = (
    "is not data, and with trust='data' only arrays, numbers, text, bytes and plain lists, tuples, sets and dicts "
    "of these come back from a worker. Convert it where it is made, or leave trust='data' (--untrusted) away if you "
    "trust what runs there"
)

Kind = TypeVar("Kind", bound=type)


class Plain:
    """A value as bytes that only this module reads: bytes of the value itself, and its large parts."""

    __slots__ = ("buffers", "head")

    def __init__(self, head: bytes, buffers: Sequence[Any] = ()) -> None:
        self.head = head
        self.buffers = list(buffers)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plain)
            and self.head == other.head
            and list(map(bytes, self.buffers)) == list(map(bytes, other.buffers))
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def nbytes(self) -> int:
        """Bytes that travel."""
        return len(self.head) + sum(memoryview(buffer).nbytes for buffer in self.buffers)


def pack(value: Any) -> Plain:
    """Writes a value down.

    Raises:
        NotData: names the path to what is not data.
    """
    writer = _Writer()
    try:
        writer.value(value, DEPTH)
    except NotData:
        raise NotData(_culprit(value, type(value).__name__, DEPTH)) from None
    return Plain(bytes(writer.out), writer.buffers)


def unpack(packed: Plain) -> Any:
    """Gives the value back. Large arrays lie in the buffers that came with it.

    Raises:
        NotData: these bytes are not those of a value.
    """
    try:
        return _Reader(packed.head, packed.buffers).whole()
    except NotData:
        raise
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise NotData(f"what came back from a worker cannot be read as data: {error}") from None


def to_bytes(value: Any) -> bytes:
    """A value in one piece.

    Raises:
        NotData: names the path to what is not data.
    """
    packed = pack(value)
    parts = [packed.head, *packed.buffers]
    lengths = [memoryview(part).nbytes for part in parts]
    return b"".join([_COUNT.pack(len(parts)), *map(_LONG.pack, lengths), *parts])


def from_bytes(data: bytes) -> Any:
    """The value of `to_bytes`.

    Raises:
        NotData: these bytes are not those of a value.
    """
    content = memoryview(bytearray(data))
    try:
        (count,) = _COUNT.unpack_from(content)
        at, parts = _COUNT.size + count * _LONG.size, list[memoryview]()
        for number in range(count):
            (length,) = _LONG.unpack_from(content, _COUNT.size + number * _LONG.size)
            parts.append(content[at : at + length])
            at += length
        head, *buffers = parts
    except (ValueError, struct.error) as error:
        raise NotData(f"what came back from a worker cannot be read as data: {error}") from None
    return unpack(Plain(bytes(head), buffers))


def is_data(value: Any) -> bool:
    """Whether it can be written down."""
    try:
        pack(value)
    except NotData:
        return False
    return True


# -- records -------------------------------------------------------------------------------------------

_records: dict[str, tuple[type, tuple[str, ...]]] = {}
_names: dict[type, str] = {}


def data_record(kind: Kind) -> Kind:
    """Enters a class of ours in the table of records that may come back: a dataclass or a NamedTuple of plain data."""
    names = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else tuple(kind._fields)  # type: ignore[attr-defined]
    _names[kind] = f"{kind.__module__}.{kind.__qualname__}"
    _records[_names[kind]] = kind, names
    return kind


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _record(name: str, values: list[Any]) -> Any:
    if name not in _records:
        raise NotData(f"a worker sent a record called {name[:80]!r}, which no part of Paceline sends back")
    kind, names = _records[name]
    hints = _hints(kind)
    if len(names) != len(values):
        raise NotData(f"a worker sent a {kind.__name__} of {len(values)} fields; it has {len(names)}")
    for field, value in zip(names, values, strict=True):
        if not fits(value, hints[field]):
            raise NotData(f"a worker sent a {kind.__name__} whose {field} is a {type(value).__name__}")
    return kind(*values)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what a type hint says, as far as data goes."""
    if hint is Any or hint is object:
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in args)
    if origin is None:
        return isinstance(value, _STANDS_FOR.get(hint, hint))
    if not isinstance(value, _CONTAINERS.get(origin, origin)):
        return False
    if issubclass(origin, Mapping):
        return all(fits(key, args[0]) and fits(item, args[1]) for key, item in value.items())
    if origin is tuple and args[-1:] != (Ellipsis,):
        return len(value) == len(args) and all(map(fits, value, args))
    return all(fits(item, args[0]) for item in value)


_STANDS_FOR: dict[Any, Any] = {
    float: (float, int, np.floating, np.integer, np.bool_),
    int: (int, np.integer, np.bool_),
    bool: (bool, np.bool_),
}
_CONTAINERS: dict[Any, Any] = {Mapping: dict, Sequence: (list, tuple)}


# -- writing -------------------------------------------------------------------------------------------


class _Writer:
    __slots__ = ("buffers", "out")

    def __init__(self) -> None:
        self.out = bytearray()
        self.buffers: list[Any] = []

    def value(self, value: Any, depth: int) -> None:
        write = _WRITERS.get(type(value))
        if write is None:
            self._other(value, depth)
        else:
            write(self, value, depth)

    def _other(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind in _names:
            values = [getattr(value, name) for name in _records[_names[kind]][1]]
            self.out += b"r"
            self._text(_names[kind])
            self._sequence(b"l", values, depth)
        elif kind is np.ndarray:
            self._array(value, depth)
        elif kind in _SCALARS:
            self.out += b"n"
            self._dtype(value.dtype, depth)
            self._content(value.tobytes())
        else:
            raise NotData

    def none(self, value: None, depth: int) -> None:
        self.out += b"N"

    def boolean(self, value: bool, depth: int) -> None:
        self.out += b"T" if value else b"F"

    def integer(self, value: int, depth: int) -> None:
        if -(1 << 63) <= value < 1 << 63:
            self.out += b"i" + _INT.pack(value)
        else:
            self.out += b"I"
            self._content(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))

    def as_float(self, value: float, depth: int) -> None:
        self.out += b"f" + _FLOAT.pack(value)

    def as_complex(self, value: complex, depth: int) -> None:
        self.out += b"c" + _COMPLEX.pack(value.real, value.imag)

    def text(self, value: str, depth: int) -> None:
        self.out += b"s"
        self._text(value)

    def as_bytes(self, value: bytes, depth: int) -> None:
        self.out += b"b"
        self._content(value)

    def as_bytearray(self, value: bytearray, depth: int) -> None:
        self.out += b"y"
        self._content(bytes(value))

    def as_list(self, value: list[Any], depth: int) -> None:
        if len(value) >= _RUN and type(value[0]) in (int, float) and self._run(value):
            return
        self._sequence(b"l", value, depth)

    def as_tuple(self, value: tuple[Any, ...], depth: int) -> None:
        self._sequence(b"t", value, depth)

    def as_set(self, value: set[Any], depth: int) -> None:
        self._sequence(b"S", list(value), depth)

    def as_frozenset(self, value: frozenset[Any], depth: int) -> None:
        self._sequence(b"Z", list(value), depth)

    def as_dict(self, value: dict[Any, Any], depth: int) -> None:
        if not depth:
            raise NotData
        self.out += b"d" + _COUNT.pack(len(value))
        for key, item in value.items():
            self.value(key, depth - 1)
            self.value(item, depth - 1)

    def packed(self, value: Plain, depth: int) -> None:
        """A value within a message: its reader hands it on unread."""
        self.out += b"p"
        self._content(value.head)
        self.out += _COUNT.pack(len(value.buffers))
        for buffer in value.buffers:
            self._content(memoryview(buffer).cast("B"))

    def _sequence(self, tag: bytes, values: Sequence[Any], depth: int) -> None:
        if not depth:
            raise NotData
        self.out += tag + _COUNT.pack(len(values))
        for item in values:
            self.value(item, depth - 1)

    def _run(self, values: list[Any]) -> bool:
        """Writes a list of floats, or of ints, as one block, if it is one."""
        kind = type(values[0])
        if any(type(value) is not kind for value in values):
            return False
        try:
            block = struct.pack(f"<{len(values)}{'d' if kind is float else 'q'}", *values)
        except struct.error:  # an int that is too large
            return False
        self.out += b"G" if kind is float else b"H"
        self._content(block)
        return True

    def _text(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self.out += _COUNT.pack(len(data))
        self.out += data

    def _content(self, data: Any) -> None:
        """Bytes, here or apart: their number says where, and apart they come in order."""
        self.out += _LONG.pack(len(data))
        if len(data) < APART:
            self.out += data
        else:
            self.buffers.append(data)

    def _array(self, value: np.ndarray[Any, Any], depth: int) -> None:
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = value.ravel("K") if fortran else np.ascontiguousarray(value).reshape(-1)
        self.out += b"A" if fortran else b"a"
        self._dtype(value.dtype, depth)
        self._sequence(b"t", value.shape, 1)
        self._content(flat.view(np.uint8).data if flat.size and value.dtype.itemsize else b"")

    def _dtype(self, dtype: np.dtype[Any], depth: int) -> None:
        if not _is_written(dtype):
            raise NotData
        self.value(np.lib.format.dtype_to_descr(dtype), depth)


@cache
def _is_written(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype can be written down and read again."""
    if dtype.hasobject or not dtype.itemsize or type(dtype).__module__ != "numpy.dtypes":
        return False
    try:
        return _read_dtype(np.lib.format.dtype_to_descr(dtype)) == dtype
    except (NotData, TypeError, ValueError):
        return False


_WRITERS: dict[type, Callable[[_Writer, Any, int], None]] = {
    type(None): _Writer.none,
    bool: _Writer.boolean,
    int: _Writer.integer,
    float: _Writer.as_float,
    complex: _Writer.as_complex,
    str: _Writer.text,
    bytes: _Writer.as_bytes,
    bytearray: _Writer.as_bytearray,
    list: _Writer.as_list,
    tuple: _Writer.as_tuple,
    set: _Writer.as_set,
    frozenset: _Writer.as_frozenset,
    dict: _Writer.as_dict,
    Plain: _Writer.packed,
}


def _culprit(value: Any, path: str, depth: int) -> str:
    """Says where the first part is that cannot be written down."""
    if depth == 0:
        return f"{path[:200]}… is nested more than {DEPTH} deep, so it cannot come back from a worker as data"
    for step, part in _parts(value):
        if not _writes(part, depth - 1):
            return _culprit(part, path + step, depth - 1)
    if type(value) is np.ndarray:
        return f"{path} (an array of dtype {value.dtype}) {_ONLY}"
    return f"{path} (a {type(value).__module__}.{type(value).__qualname__}) {_ONLY}"


def _writes(value: Any, depth: int) -> bool:
    try:
        _Writer().value(value, depth)
    except NotData:
        return False
    return True


def _parts(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)
    if kind is dict:
        keys = [(f".<key {number}>", key) for number, key in enumerate(value)]
        return keys + [(f"[{key!r:.40}]" if type(key) in _WRITERS else "[…]", item) for key, item in value.items()]
    if kind in (list, tuple, set, frozenset):
        return [(f"[{number}]", item) for number, item in enumerate(value)]
    if kind in _names:
        return [(f".{name}", getattr(value, name)) for name in _records[_names[kind]][1]]
    return []


# -- reading -------------------------------------------------------------------------------------------


class _Reader:
    __slots__ = ("_at", "_buffers", "_data", "_used")

    def __init__(self, head: Any, buffers: Sequence[Any]) -> None:
        self._data = head if type(head) is bytes else bytes(head)
        self._buffers = buffers
        self._at = self._used = 0

    def whole(self) -> Any:
        value = self._value(DEPTH)
        if self._at != len(self._data) or self._used != len(self._buffers):
            raise NotData("what came back from a worker is longer than the value in it")
        return value

    def _value(self, depth: int) -> Any:
        tag = self._data[self._at]
        self._at += 1
        read = _READERS.get(tag)
        if read is None:
            raise NotData(f"what came back from a worker holds a mark that means nothing ({tag})")
        return read(self, depth)

    def _unpacked(self, form: struct.Struct) -> Any:
        value = form.unpack_from(self._data, self._at)
        self._at += form.size
        return value

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise NotData("what came back from a worker ends too early")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _content(self) -> Any:
        (length,) = self._unpacked(_LONG)
        if length < APART:
            return self._take(length)
        buffer = memoryview(self._buffers[self._used]).cast("B")  # each is used once: nothing grows by being read
        self._used += 1
        if buffer.nbytes != length:
            raise NotData(f"a part of {buffer.nbytes} bytes came back from a worker in the place of one of {length}")
        return buffer

    def _items(self, depth: int, each: int = 1) -> list[Any]:
        if not depth:
            raise NotData(f"what came back from a worker is nested more than {DEPTH} deep")
        (count,) = self._unpacked(_COUNT)
        if count * each > len(self._data) - self._at:
            raise NotData("what came back from a worker ends too early")
        value = self._value
        return [value(depth - 1) for _ in range(count * each)]

    def none(self, depth: int) -> None:
        return None

    def true(self, depth: int) -> bool:
        return True

    def false(self, depth: int) -> bool:
        return False

    def integer(self, depth: int) -> Any:
        return self._unpacked(_INT)[0]

    def long(self, depth: int) -> int:
        return int.from_bytes(self._content(), "little", signed=True)

    def as_float(self, depth: int) -> Any:
        return self._unpacked(_FLOAT)[0]

    def as_complex(self, depth: int) -> complex:
        return complex(*self._unpacked(_COMPLEX))

    def text(self, depth: int) -> str:
        return str(self._take(self._unpacked(_COUNT)[0]), "utf-8", "surrogatepass")

    def as_bytes(self, depth: int) -> bytes:
        return bytes(self._content())

    def as_bytearray(self, depth: int) -> bytearray:
        return bytearray(self._content())

    def as_list(self, depth: int) -> list[Any]:
        return self._items(depth)

    def floats(self, depth: int) -> list[Any]:
        block = self._content()
        return list(struct.unpack(f"<{len(block) // 8}d", block))

    def integers(self, depth: int) -> list[Any]:
        block = self._content()
        return list(struct.unpack(f"<{len(block) // 8}q", block))

    def as_tuple(self, depth: int) -> tuple[Any, ...]:
        return tuple(self._items(depth))

    def as_set(self, depth: int) -> set[Any]:
        return set(self._items(depth))

    def as_frozenset(self, depth: int) -> frozenset[Any]:
        return frozenset(self._items(depth))

    def as_dict(self, depth: int) -> dict[Any, Any]:
        items = self._items(depth, 2)
        return dict(zip(items[::2], items[1::2], strict=True))

    def packed(self, depth: int) -> Plain:
        head = bytes(self._content())
        (count,) = self._unpacked(_COUNT)
        if count > len(self._data) - self._at:
            raise NotData("what came back from a worker ends too early")
        return Plain(head, [self._content() for _ in range(count)])

    def record(self, depth: int) -> Any:
        name = self.text(depth)
        values = self._value(depth)
        if type(values) is not list:
            raise NotData("a worker sent a record without fields")
        return _record(name, values)

    def scalar(self, depth: int) -> Any:
        dtype = _read_dtype(self._value(depth))
        return np.frombuffer(bytearray(self._content()), dtype, 1)[0]

    def array(self, depth: int, order: str = "C") -> Any:
        dtype, shape = _read_dtype(self._value(depth)), self._value(2)
        if type(shape) is not tuple or not all(type(length) is int and length >= 0 for length in shape):
            raise NotData("an array came back from a worker without a shape")
        content = self._content()
        if type(content) is bytes:
            content = bytearray(content)  # an array may be written to
        return np.frombuffer(content, dtype).reshape(shape, order=order)  # type: ignore[call-overload]

    def fortran(self, depth: int) -> Any:
        return self.array(depth, "F")


def _read_dtype(described: Any) -> np.dtype[Any]:
    """The dtype of a description, as numpy's own files describe them; never one with objects."""
    dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(_checked(described))
    if dtype.hasobject or not dtype.itemsize:
        raise NotData("an array of objects came back from a worker")
    return dtype


def _checked(described: Any) -> Any:
    if type(described) is str and _DTYPE.fullmatch(described):
        return described
    if type(described) is list and all(_is_field(part) for part in described):
        return [(part[0], _checked(part[1]), *part[2:]) for part in described]
    raise NotData("an array of a kind that is not data came back from a worker")


def _is_field(part: Any) -> bool:
    named = type(part) is tuple and len(part) in (2, 3) and type(part[0]) is str
    shape = part[2] if named and len(part) == 3 else ()
    return named and type(shape) is tuple and all(type(length) is int and length >= 0 for length in shape)


_READERS: dict[int, Callable[[_Reader, int], Any]] = {
    ord(mark): read
    for mark, read in {
        "N": _Reader.none,
        "T": _Reader.true,
        "F": _Reader.false,
        "i": _Reader.integer,
        "I": _Reader.long,
        "f": _Reader.as_float,
        "c": _Reader.as_complex,
        "s": _Reader.text,
        "b": _Reader.as_bytes,
        "y": _Reader.as_bytearray,
        "l": _Reader.as_list,
        "G": _Reader.floats,
        "H": _Reader.integers,
        "t": _Reader.as_tuple,
        "S": _Reader.as_set,
        "Z": _Reader.as_frozenset,
        "d": _Reader.as_dict,
        "p": _Reader.packed,
        "r": _Reader.record,
        "n": _Reader.scalar,
        "a": _Reader.array,
        "A": _Reader.fortran,
    }.items()
}
