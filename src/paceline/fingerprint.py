"""Fingerprints: what a recipe is made of, part by part, as texts that are the same in every process.

    partial(Says, what=1)  ──►  {"": "players.Says", "what": "1"}
    lambda o: k            ──►  {"": "__main__.<lambda>", "code": "Python 3.11 9f2c…", "closure k": "1"}

A run keeps them in its plan.json, so that `resume` continues it only with what it was begun with; no digest of results
depends on them. Installed code is known by its name, a user's module by its name and its file, everything else by its
bytecode, values and state. No text holds an address or follows the order of a set. What has no such text is marked
with `UNKNOWN`.
"""

from __future__ import annotations

import copyreg
import hashlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from paceline.sources import content_digest, own_file, weights_in

Fingerprint = dict[str, str]
"""Part → what it is; the recipe itself is the part ""."""

UNKNOWN = "?"
"""Stands before the type of a part that cannot be compared."""

_NAMED_LEVELS = 2  # parts of parts; what lies below is in their digests
_NAMED_PARTS = 32  # of one thing; if it has more, it has one digest
_DEEPEST = 60
_LONGEST = 100  # characters of a value that is shown as it is
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented), range)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_NEW_OBJECT = ("__newobj__", "__newobj_ex__")  # of `copyreg`: the class is called, as `object.__new__` would

Opened = tuple[str, dict[str, Any]]
"""What a thing is, in a word, and its parts by name."""


def fingerprint(recipe: Any) -> Fingerprint:
    """What a recipe is made of: of a `partial` its function and arguments; of a function its code, defaults and
    closure; of a class its methods; of an object its class and its state."""
    reader = _Reader()
    found = dict(reader.named("", recipe, _NAMED_LEVELS))
    return {**found, **reader.unknown}


def unknown_parts(found: Fingerprint) -> list[str]:
    """The parts that cannot be compared, each with its type."""
    return [f"{part or 'itself'} ({text[1:]})" for part, text in found.items() if text.startswith(UNKNOWN)]


def differences(before: Mapping[str, Fingerprint], now: Mapping[str, Fingerprint]) -> list[str]:
    """What is not as it was, in words; by owner, as "policy 'x'". An owner that was not read before is not compared."""
    return [
        f"{part} of {owner} was {was}, and is {here}" if part else f"{owner} was {was}, and is {here}"
        for owner, parts in now.items()
        if owner in before
        for part in {**before[owner], **parts}
        if (was := before[owner].get(part, "not given")) != (here := parts.get(part, "not given"))
        and not (was.startswith(UNKNOWN) or here.startswith(UNKNOWN))
    ]


def plain_text(value: Any) -> str:
    """A value in one line: its `repr`, unless that holds an address or the order of a set."""
    shown = repr(value)
    return shown if " at 0x" not in shown and not isinstance(value, set | frozenset) else _Reader().text("", value)


def options_text(make: Any, options: Mapping[str, Any]) -> dict[str, str]:
    """The options that something is made with, and what its recipe says of itself (`recipe_identity`), as texts."""
    told: Mapping[str, Any] = getattr(make, "recipe_identity", dict)()
    return {name: plain_text(value) for name, value in {**options, **told}.items()}


class _Reader:
    """Reads a thing part by part; each object once."""

    def __init__(self) -> None:
        self.unknown: Fingerprint = {}
        self._texts: dict[int, tuple[Any, str]] = {}  # with the object, so that its id stays its own
        self._under_way: list[int] = []

    def named(self, path: str, thing: Any, levels: int) -> Iterator[tuple[str, str]]:
        """A thing and its parts, each with a name and a text."""
        what, parts = self._open(path, thing)
        if not levels or isinstance(thing, CodeType) or not 0 < len(parts) <= _NAMED_PARTS:
            yield path, self.text(path, thing)
            return
        yield path, what
        self._under_way.append(id(thing))
        for name, part in parts.items():
            yield from self.named(_below(path, name), part, levels - 1)
        self._under_way.pop()

    def text(self, path: str, thing: Any) -> str:
        """A thing and everything in it, in one line."""
        if id(thing) in self._under_way:
            return f"what lies {len(self._under_way) - self._under_way.index(id(thing))} above"
        if id(thing) in self._texts:
            return self._texts[id(thing)][1]
        what, parts = self._open(path, thing)
        if parts:
            self._under_way.append(id(thing))
            inside = sorted(f"{name}={self.text(_below(path, name), part)}" for name, part in parts.items())
            self._under_way.pop()
            what = f"{what} {_sha(chr(0).join(inside))}"
        self._texts[id(thing)] = thing, what
        return what

    def _open(self, path: str, thing: Any) -> Opened:
        try:
            opened = _open(thing) if len(self._under_way) < _DEEPEST else None
        except Exception:  # whatever an object of a user's raises when it is asked for its state
            opened = None
        if opened is None:
            opened = f"{UNKNOWN}{_name(type(thing))}", {}
            self.unknown[path] = opened[0]
        elif isinstance(thing, set | frozenset):
            opened = f"{opened[0]} {sorted(self.text(path, each) for each in thing)}", {}
        return opened


def _open(thing: Any) -> Opened | None:
    """What something is, and its parts; None: it cannot be told from another of its type."""
    if isinstance(thing, Enum):
        return f"{_name(type(thing))}.{thing.name}", {}
    if isinstance(thing, _PLAIN):
        return _shortened(repr(thing)), {}
    if isinstance(thing, PurePath):
        return repr(str(thing)), {}
    if isinstance(thing, ModuleType):
        return f"module {thing.__name__}", {}
    if isinstance(thing, CodeType):
        return f"Python {sys.version_info.major}.{sys.version_info.minor}", _parts_of_code(thing)
    if isinstance(thing, partial):
        return _open_partial(thing)
    if isinstance(thing, FunctionType | type):
        return _open_definition(thing)
    if isinstance(thing, _GENERATORS):
        return None  # where a generator stands is an accident of when it was made
    if isinstance(thing, Mapping):
        return _name(type(thing)), {key if isinstance(key, str) else plain_text(key): thing[key] for key in thing}
    if isinstance(thing, list | tuple):
        return _name(type(thing)), {str(number): each for number, each in enumerate(thing)}
    if isinstance(thing, set | frozenset):
        return _name(type(thing)), {}
    return _open_tensor(thing) or _open_object(thing)


def _open_partial(recipe: partial[Any]) -> Opened:
    what, parts = _open(recipe.func) or (f"{UNKNOWN}{_name(type(recipe.func))}", {})
    arguments = {f"argument {number}": each for number, each in enumerate(recipe.args)}
    # Files that are read are compared by what is in them, wherever they lie; see `sources`.
    keywords = {key: next((path.name for path in weights_in({key: it})), it) for key, it in recipe.keywords.items()}
    return what, {**({"function": recipe.func} if parts else {}), **arguments, **keywords}


def _open_definition(made: FunctionType | type) -> Opened:
    if is_found_by_name(made):
        file = own_file(made)
        return _name(made) if file is None else f"{_name(made)} in {file.name} {content_digest(file)[:16]}", {}
    return _name(made), _parts_of_function(made) if isinstance(made, FunctionType) else _parts_of_class(made)


def _parts_of_function(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    bound = {f"closure {name}": cell.cell_contents for name, cell in cells if is_bound(cell)}
    defaults = {f"default {number}": each for number, each in enumerate(function.__defaults__ or ())}
    named = {f"default {name}": each for name, each in (function.__kwdefaults__ or {}).items()}
    return {"code": function.__code__, **bound, **defaults, **named, **_globals(function)}


def _globals(function: FunctionType) -> dict[str, Any]:
    """The constants and functions that a function of a script or a notebook uses; modules are compared by file."""
    if function.__module__ != "__main__":
        return {}
    used = {name for code in _codes(function.__code__) for name in code.co_names} & function.__globals__.keys()
    known = {name: function.__globals__[name] for name in sorted(used)}
    return {f"global {name}": value for name, value in known.items() if _is_constant(value)}


def _parts_of_class(made: type) -> dict[str, Any]:
    parts: dict[str, Any] = {f"base {base.__name__}": base for base in made.__bases__ if base is not object}
    for name, value in vars(made).items():
        inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(inner, FunctionType) or (not name.startswith("__") and _is_constant(inner)):
            parts[name] = inner
    return parts


def _is_constant(value: Any) -> bool:
    """Whether it stays what it is while others use it: lists and objects do not."""
    return isinstance(value, (*_PLAIN, Enum, FunctionType, type)) or (
        isinstance(value, tuple | frozenset) and all(map(_is_constant, value))
    )


def _parts_of_code(code: CodeType) -> dict[str, Any]:
    """Without lines and files: a script is edited to ask for `resume`."""
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {"does": code.co_code, "names": (code.co_names, code.co_freevars, arguments), "constants": code.co_consts}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def is_bound(cell: CellType) -> bool:
    """Whether a variable of a closure has a value."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _open_tensor(thing: Any) -> Opened | None:
    """Arrays and tensors by their content, torch modules by their weights and settings."""
    if isinstance(thing, np.ndarray | np.generic) and not thing.dtype.hasobject:
        return f"{thing.dtype} {thing.shape} {_sha(np.ascontiguousarray(thing).tobytes())}", {}
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(thing, torch.Tensor):
        content = thing.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{thing.dtype} {tuple(thing.shape)} {_sha(content)}", {}
    if isinstance(thing, torch.nn.Module):
        own = {name: part for name, part in vars(thing).items() if not name.startswith("_") and name != "training"}
        for kind in ("_parameters", "_buffers", "_modules"):
            own |= vars(thing)[kind]
        return _open_instance(type(thing), own)
    return None


def _open_object(thing: Any) -> Opened:
    """An object by what it says of itself, or by what pickle would keep of it."""
    told: Callable[[], Mapping[str, Any]] | None = getattr(thing, "recipe_identity", None)
    if told is not None:
        return _open_instance(type(thing), told())
    reduce = copyreg.dispatch_table.get(type(thing))
    reduced = reduce(thing) if reduce is not None else thing.__reduce_ex__(2)
    if isinstance(reduced, str):
        return f"{getattr(thing, '__module__', type(thing).__module__)}.{reduced}", {}
    made, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    state = state if isinstance(state, tuple) and all(isinstance(each, dict | None) for each in state) else (state,)
    parts: dict[str, Any] = {}
    for each in state:
        parts |= each if isinstance(each, dict) else {} if each is None else {"(state)": each}
    more = {"(items)": list(items or ()), "(pairs)": list(pairs or ()), "(arguments)": arguments}
    if getattr(made, "__name__", "") in _NEW_OBJECT:
        more["(arguments)"] = arguments[1:]  # the first is the class
    else:
        more["(made by)"] = made
    return _open_instance(type(thing), {**parts, **{name: part for name, part in more.items() if part}})


def _open_instance(kind: type, parts: Mapping[str, Any]) -> Opened:
    what, written_here = _open_definition(kind)
    return what, {**({"class": kind} if written_here else {}), **parts}


def is_found_by_name(made: Any) -> bool:
    """Whether a new process that imports its module finds the same under its name."""
    module = sys.modules.get(getattr(made, "__module__", None) or "")
    if module is None or module.__name__ == "__main__":
        return False
    found: Any = module
    for name in made.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is made


def _name(made: Any) -> str:
    return f"{made.__module__}.{made.__qualname__}"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shortened(shown: str) -> str:
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST // 2]}… {_sha(shown)}"


def _sha(content: str | bytes) -> str:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:16]
