"""Values to bytes and back: what crosses from the caller to a member, and from a member to the caller.

Every backend passes arguments and answers through here, inline too, so that nobody ever shares an object with
a member: what is kept beyond the call is a copy.

    value ── pack ──► head                          small values: one pickle
                  └─► (head, [buffer, …])           large arrays: their memory apart, never through pickle

Of a worker that is trusted with data only, answers and errors come as `Plain` (plain_data.py): nothing is unpickled.
"""

from __future__ import annotations

import functools
import io
import pickle
import traceback
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from copyreg import _extension_registry  # type: ignore[attr-defined]  # classes that pickles name by a number
from types import FunctionType
from typing import Any

from paceline import errors
from paceline.engine.transport import plain_data
from paceline.engine.transport.plain_data import Plain
from paceline.errors import NotData, NotSendable, PacelineError, RemoteError

Packed = bytes | tuple[bytes, list[Any]] | Plain
"""A pickle, or a pickle and the buffers that it refers to; or data, which is not read by pickle."""

_APART = 1 << 14  # smaller buffers are cheaper inside the pickle
_MAIN = b"__main__"
_CLASS = pickle.STACK_GLOBAL[0]  # a pickle without this byte names no class: found in a tenth of the time of a word
_TRACEBACK_LIMIT = 20_000


class _Apart(list[pickle.PickleBuffer]):
    """Takes the buffers that are large enough to travel beside their pickle."""

    __slots__ = ()

    def __call__(self, buffer: pickle.PickleBuffer) -> bool:
        small = buffer.raw().nbytes < _APART
        if not small:
            self.append(buffer)
        return small


_spare: list[_Apart] = []  # that met no large buffer, as nearly always: to make one takes a tenth of a small pickle


def pack(value: Any) -> Packed:
    """Pickles `value`; lambdas, closures and classes of `__main__` go by value.

    Raises:
        NotSendable: names the path to the part that cannot be pickled.
    """
    try:
        buffers = _spare.pop()
    except IndexError:
        buffers = _Apart()
    try:
        head = pickle.dumps(value, 5, buffer_callback=buffers)
        by_value = _CLASS in head and _MAIN in head  # no worker has this process's `__main__`
    except Exception:  # anything a reducer may raise; cloudpickle's word is the one that counts
        by_value = True
    if by_value:
        buffers.clear()
        head = _by_value(value, buffers)
    if buffers:
        return head, list(buffers)
    _spare.append(buffers)
    return head


def names_no_class(packed: Packed) -> bool:
    """Whether it is plain data for sure: then no code of anybody's has run to pack it."""
    return type(packed) is bytes and _CLASS not in packed and not _extension_registry


def unpack(packed: Packed) -> Any:
    """Gives the value back; large arrays lie in the buffers that came with it."""
    if isinstance(packed, bytes):
        return pickle.loads(packed)
    if isinstance(packed, Plain):
        return plain_data.unpack(packed)
    head, buffers = packed
    return pickle.loads(head, buffers=buffers)


def settle(packed: Packed) -> Packed:
    """Copies buffers that still belong to somebody else, so that the packed value may be kept."""
    if isinstance(packed, bytes):
        return packed
    if isinstance(packed, Plain):
        return Plain(packed.head, [pickle.PickleBuffer(bytearray(buffer)) for buffer in packed.buffers])
    head, buffers = packed
    return head, [pickle.PickleBuffer(bytearray(buffer)) for buffer in buffers]


def fresh(packed: Packed) -> Any:
    """Gives a value of its own, also when the packed one is kept and will be unpacked again."""
    return pickle.loads(packed) if isinstance(packed, bytes) else unpack(settle(packed))


def size(packed: Packed) -> int:
    """Counts the bytes that travel."""
    if isinstance(packed, bytes):
        return len(packed)
    if isinstance(packed, Plain):
        return packed.nbytes
    head, buffers = packed
    return len(head) + sum(memoryview(buffer).nbytes for buffer in buffers)


def _by_value(value: Any, buffers: _Apart) -> bytes:
    import cloudpickle

    content = io.BytesIO()
    try:
        _pickler()(content, 5, buffer_callback=buffers).dump(value)
        return content.getvalue()
    except Exception as error:
        # Where pickle refused says nothing that the words do not; where code of the value's own raised does.
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        cause = None if last == cloudpickle.dumps.__code__.co_filename else error
        raise NotSendable(f"{_named(value)}: {words(error)}. {_REMEDY}") from cause


@functools.cache
def _pickler() -> Any:
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        """Keeps a variable shared that several functions of a closure share; cloudpickle gives each one of its own."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._empty: dict[int, Any] = {}  # cell → the empty one that is sent in its place, and filled there

        def reducer_override(self, thing: Any) -> Any:
            reduced = super().reducer_override(thing)
            if not (isinstance(thing, FunctionType) and thing.__closure__ and isinstance(reduced, tuple)):
                return reduced
            make, (*arguments, empty), *rest = reduced
            cells = zip(thing.__closure__, empty, strict=True)
            return make, (*arguments, tuple(self._empty.setdefault(id(cell), sent) for cell, sent in cells)), *rest

    return Pickler


_REMEDY = "Make it where it is used (within the recipe, or the call), or keep everybody here: workers=0, or plan=0"


# -- naming what cannot be sent ------------------------------------------------------------------------


def _named(value: Any) -> str:
    name = type(value).__name__
    try:
        return _culprit(value, name)
    except Exception:  # to look for the culprit runs code of the value's own
        return f"{name} cannot be sent to a worker"


def _culprit(value: Any, path: str, depth: int = 0) -> str:
    if depth < 12:
        for step, part in _parts(value):
            if not _sendable(part):
                return _culprit(part, path + step, depth + 1)
    return f"{path} (a {type(value).__module__}.{type(value).__qualname__}) cannot be sent to a worker"


def _sendable(value: Any) -> bool:
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"[{_shown(key)}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    else:
        yield from _function_parts(value)
        yield from ((f".{name}", item) for name, item in getattr(value, "__dict__", {}).items())


def _shown(key: object) -> str:
    try:
        return repr(key)
    except Exception:
        return f"a {type(key).__name__}"


def _function_parts(value: Any) -> Iterator[tuple[str, Any]]:
    code = getattr(value, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, getattr(value, "__closure__", None) or (), strict=False):
        yield f".<closure {name}>", cell.cell_contents
    scope = getattr(value, "__globals__", {})
    yield from ((f".<global {name}>", scope[name]) for name in code.co_names if name in scope)


# -- exceptions ----------------------------------------------------------------------------------------


class RemoteTraceback(Exception):
    """The cause of an exception that came from a worker: its traceback there, as text."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def pack_error(error: BaseException) -> Packed:
    """Packs an exception so that it can be raised elsewhere as itself, whatever its constructor takes."""
    name = f"{type(error).__module__}.{type(error).__qualname__}: {words(error)}"
    text = _traceback(error)
    for form in (_as_pickled, _as_parts, _as_parts_in_words):
        try:
            packed = settle(pack(form(error)))
            if type(_formed(packed)) is type(error):
                return pack((packed, name, text))
        except Exception:  # whatever its reducer or constructor raises: the next form asks less of it
            continue
    return pack((None, name, text))


def pack_error_as_data(error: BaseException) -> Plain:
    """Packs an exception as its name, its words, its traceback and its notes; with its arguments, if they are data."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    args = error.args if plain_data.is_data(error.args) else (words(error),)
    if isinstance(error, OSError):  # its files are no part of its args
        args = tuple(arg if plain_data.is_data(arg) else words(arg) for arg in OSError.__reduce__(error)[1])
    notes = [*(words(note) for note in _notes(error)), *_lost(vars(error).keys())]
    return plain_data.pack((name, args, words(error), _traceback(error), notes))


def _notes(error: BaseException) -> list[Any]:
    notes = getattr(error, "__notes__", None)
    return notes if isinstance(notes, list) else []


def _lost(names: AbstractSet[str]) -> list[str]:
    """A note on the attributes that do not come back with an exception, if there are any."""
    lost = sorted(name for name in names if name != "__notes__")
    return [f"without the attributes that could not be sent from its worker: {', '.join(lost)}"] if lost else []


def _error_of_data(packed: Plain) -> BaseException:
    """Builds an exception of a kind on our own list; of any other, a `RemoteError` that says what it was."""
    try:
        content = plain_data.unpack(packed)
        if not plain_data.fits(content, tuple[str, tuple[Any, ...], str, str, list[str]]):
            raise NotData("an exception came back from a worker in a form that is none")
    except NotData as unreadable:
        return unreadable
    name, args, said, text, notes = content
    kind = _KNOWN_ERRORS.get(name)
    try:
        error: BaseException = RemoteError(f"{name}: {said}") if kind is None else kind(*args)
    except Exception:  # it takes other arguments than these
        error = RemoteError(f"{name}: {said}")
    for note in notes:
        error.add_note(note)
    error.__cause__ = RemoteTraceback(text[-_TRACEBACK_LIMIT:])
    return error


_KNOWN_ERRORS: dict[str, type[Exception]] = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (
        *(kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PacelineError)),
        *(Exception, ArithmeticError, AssertionError, AttributeError, BufferError, EOFError, FloatingPointError),
        *(ImportError, IndexError, KeyError, LookupError, MemoryError, ModuleNotFoundError, NameError),
        *(NotImplementedError, OverflowError, RecursionError, ReferenceError, RuntimeError, SyntaxError, TypeError),
        *(UnboundLocalError, UnicodeError, ValueError, ZeroDivisionError, Warning, UserWarning, DeprecationWarning),
        *(OSError, BlockingIOError, BrokenPipeError, ChildProcessError, ConnectionAbortedError, ConnectionError),
        *(ConnectionRefusedError, ConnectionResetError, FileExistsError, FileNotFoundError, InterruptedError),
        *(IsADirectoryError, NotADirectoryError, PermissionError, ProcessLookupError, TimeoutError),
    )
}
"""The exceptions that come back as themselves where only data is trusted."""


def unpack_error(packed: Packed) -> BaseException:
    """Gives the exception back, with the remote traceback as its cause. Where its class cannot be had, in words."""
    if isinstance(packed, Plain):
        return _error_of_data(packed)
    form, name, text = unpack(packed)
    try:
        error = RemoteError(name) if form is None else _formed(form)
    except Exception:
        error = RemoteError(name)
    error.__cause__ = RemoteTraceback(text)
    return error


def _formed(packed: Packed) -> BaseException:
    make, *parts = unpack(packed)
    error: BaseException = make(*parts) if parts else make
    return error


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))[-_TRACEBACK_LIMIT:]
    except Exception:
        return f"{type(error).__name__}: {words(error)}"


def _as_pickled(error: BaseException) -> tuple[Any, ...]:
    return (error,)


def _as_parts(error: BaseException) -> tuple[Any, ...]:
    return _revive, type(error), error.args, dict(vars(error))


def _as_parts_in_words(error: BaseException) -> tuple[Any, ...]:
    state = {name: value for name, value in vars(error).items() if _sendable(value)}
    if len(state) < len(vars(error)):
        state["__notes__"] = [*_notes(error), *_lost(vars(error).keys() - state.keys())]
    return _revive, type(error), tuple(a if _sendable(a) else words(a) for a in error.args), state


def _revive(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    # Past __init__, which may ask for other arguments than `args` (the usual reason why unpickling fails).
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(state)
    return error


def check_sendable(value: Any) -> None:
    """Raises `NotSendable` for what cannot be sent to a worker; better told now than when workers have been started."""
    pack(value)


def words(value: object) -> str:
    """What `str` says of it, or that it says nothing."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} whose str() raised {type(error).__name__}>"
