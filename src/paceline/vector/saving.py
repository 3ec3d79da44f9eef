"""Whether an env can be saved, and whether a seed makes it new: asked carefully, because a wrong yes changes results.

A pickle is taken for the env if it holds only parts whose pickle is known to be all of them, and if the copy that comes
out of it spells out the same, byte for byte.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from abc import ABCMeta
from types import GetSetDescriptorType
from typing import Any

from gymnasium import wrappers
from gymnasium.utils import EzPickle

from paceline.vector.attributes import attributes, set_attributes
from paceline.vector.recipe_classes import Classes, class_name, recipe_classes

_OWN_WAYS = ("__reduce__", "__reduce_ex__", "__getstate__")
_ODD_WAYS = ("__del__", "__setattr__", "__delattr__")
_NEW_WAYS = ("__new__", "__getnewargs__", "__getnewargs_ex__", "__getattribute__")
_KNOWN = ("builtins", "collections", "numpy", "gymnasium", "random", "_random", "enum", "functools", "operator")
_MOST = 4 << 20  # bytes: what spells out longer is not worth it

_STATELESS = (
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.ClipAction,
    wrappers.RescaleAction,
    wrappers.FlattenObservation,
    wrappers.ReshapeObservation,
    wrappers.DtypeObservation,
    wrappers.FilterObservation,
    wrappers.RescaleObservation,
)


def begins_afresh(env: Any) -> bool:
    """Whether a reset with a seed makes what was before void: Gymnasium asks that of envs, not of wrappers, some of
    which remember (a running mean, say)."""
    layer = env
    while layer is not env.unwrapped:
        if type(layer) not in _STATELESS:
            return False
        layer = layer.env
    return True


def pickled(env: Any) -> bytes | None:
    """A pickle that is the env, or None if there is none."""
    try:
        classes = recipe_classes(env)
        said = _spelled_out(env, classes)  # first: it refuses what would be built anew by its pickle
        packed = _packed(env, classes)
        faithful = len(packed) < _MOST and _spelled_out(unpickled(packed, classes), classes) == said
    except Exception:
        return None
    return packed if faithful else None


def unpickled(packed: bytes, classes: Classes) -> Any:
    """The env of a pickle, with the `recipe_classes` of an env that the same recipe has built."""
    return _Unpickler(packed, classes).load()


def twin(part: Any) -> Any:
    """A copy of an env's part to be sent: whoever pickles the part itself slows it, and every step that looks at it.

    The part itself, if it has a way of its own to be pickled.
    """
    try:
        return pickle.loads(_packed(part, {}))
    except Exception:
        return part


def _packed(env: Any, classes: Classes) -> bytes:
    written = io.BytesIO()
    _Plain(written, 5, classes).dump(env)
    return written.getvalue()


def _spelled_out(env: Any, classes: Classes | None = None) -> bytes:
    """A pickle that says everything as often as it occurs: it does not depend on which equal parts are one object."""
    written = _Capped()
    pickler = _Plain(written, 5, classes or {})
    pickler.fast = True
    pickler.dump(env)
    return b"".join(written.parts)


def _is_plain(kind: Any) -> bool:
    """Whether what there is of an object are its attributes: nothing of it is its class's own way, or lies in C.

    Asked without a look at any object. Who is not plain is pickled in the ordinary way.
    """
    if type(kind) not in (type, ABCMeta) or _form(kind) != _form(_Empty):
        return False
    usual = all(getattr(kind, way, None) is getattr(object, way, None) for way in (*_OWN_WAYS, *_NEW_WAYS))
    odd = any(name in vars(base) for base in kind.__mro__[:-1] for name in _ODD_WAYS)
    own = [vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)]
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    return usual and not odd and not slots and all(isinstance(each, GetSetDescriptorType) for each in own)


def _may_be_set(kind: Any, state: dict[str, Any]) -> bool:
    """Whether attributes can be set one by one: no descriptor of the class would hear of it."""
    for name in state:
        of_class = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
        if type(name) is not str or hasattr(type(of_class), "__set__"):
            return False
    return bool(state)


class _Empty:
    """A class without a base in C."""


def _form(kind: Any) -> tuple[int, ...]:
    return kind.__basicsize__, kind.__itemsize__, kind.__dictoffset__, kind.__weakrefoffset__


def _name(item: tuple[Any, Any]) -> str:
    return str(item[0])


class _Capped:
    """Takes so many bytes and no more: what is shared may be spelled out a thousand times."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._left = _MOST

    def write(self, data: Any) -> int:
        self._left -= len(data)
        if self._left < 0:
            raise pickle.PicklingError("too much")
        self.parts.append(bytes(data))
        return len(data)


class _Plain(pickle.Pickler):
    """Refuses parts that have a way of their own to be pickled, which may leave something out."""

    def __init__(self, file: Any, protocol: int, classes: Classes) -> None:
        super().__init__(file, protocol)
        self._classes = classes
        self._states: dict[int, tuple[Any, dict[str, Any]]] = {}  # with whom they are of, so that it stays

    def reducer_override(self, part: Any) -> Any:
        kind = part if isinstance(part, type) else type(part)
        if kind is part and self._classes.get(class_name(kind)) is kind:
            return _class_of_the_recipe, (class_name(kind),)
        if kind is part and kind.__module__ == "__main__":
            raise pickle.PicklingError(f"{kind} is not there in another process")
        if isinstance(part, EzPickle):
            raise pickle.PicklingError("built anew when it is unpickled")
        root = kind.__module__.partition(".")[0]
        known = root in _KNOWN or root.startswith("_cython")  # functions of NumPy's generators
        if not known and any(getattr(kind, way, None) is not getattr(object, way, None) for way in _OWN_WAYS):
            raise pickle.PicklingError(f"{kind} has a way of its own")
        if kind is part or kind in copyreg.dispatch_table or not _is_plain(kind):
            return NotImplemented
        state = self._state(part)
        if not _may_be_set(kind, state):
            return NotImplemented
        new = copyreg.__newobj__  # type: ignore[attr-defined]
        if self.fast or getattr(kind, "__setstate__", None) is not None:
            return new, (kind,), state
        return new, (kind,), state, None, None, set_attributes

    def _state(self, part: Any) -> dict[str, Any]:
        """One dict for each object, so that a cycle is found out. Spelled out, whatever the order of its attributes."""
        if id(part) not in self._states:
            found = attributes(part)
            self._states[id(part)] = part, dict(sorted(found.items(), key=_name)) if self.fast else found
        return self._states[id(part)][1]


def _class_of_the_recipe(name: str) -> type:
    """Stands in a pickle for a class of this name."""
    raise pickle.UnpicklingError(f"{name} is in no module")


class _Unpickler(pickle.Unpickler):
    """Knows the classes of a recipe."""

    def __init__(self, packed: bytes, classes: Classes) -> None:
        super().__init__(io.BytesIO(packed))
        self._classes = classes

    def find_class(self, module: str, name: str) -> Any:
        stand_in = (module, name) == (__name__, _class_of_the_recipe.__name__)
        return self._classes.__getitem__ if stand_in else super().find_class(module, name)
