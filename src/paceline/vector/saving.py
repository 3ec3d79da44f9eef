"""Whether an env can be saved, and whether a seed makes it new: asked carefully, because a wrong yes changes results.

A pickle is taken for the env if it holds only parts whose pickle is known to be all of them, and if the copy that comes
out of it spells out the same, byte for byte.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from functools import lru_cache
from typing import Any

from gymnasium import wrappers
from gymnasium.utils import EzPickle

from paceline.vector.attributes import attributes, set_attributes

_OWN_WAYS = ("__reduce__", "__reduce_ex__", "__getstate__")
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
        said = _spelled_out(env)  # first: it refuses what would be built anew by its pickle
        packed = _packed(env)
        faithful = len(packed) < _MOST and _spelled_out(pickle.loads(packed)) == said
    except Exception:
        return None
    return packed if faithful else None


def _packed(env: Any) -> bytes:
    written = io.BytesIO()
    _Plain(written, 5).dump(env)
    return written.getvalue()


def _spelled_out(env: Any) -> bytes:
    """A pickle that says everything as often as it occurs: it does not depend on which equal parts are one object."""
    written = _Capped()
    pickler = _Plain(written, 5)
    pickler.fast = True
    pickler.dump(env)
    return b"".join(written.parts)


@lru_cache(maxsize=256)
def _is_plain(kind: Any) -> bool:
    """Whether what there is of an object are its attributes: nothing of it is its class's own way, or lies in C."""
    usual = all(getattr(kind, way, None) is getattr(object, way, None) for way in (*_OWN_WAYS, *_NEW_WAYS))
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    return usual and not slots and _form(kind) == _form(_Empty)


class _Empty:
    """A class without a base in C."""


def _form(kind: Any) -> tuple[int, ...]:
    return kind.__basicsize__, kind.__itemsize__, kind.__dictoffset__, kind.__weakrefoffset__


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

    def reducer_override(self, part: Any) -> Any:
        kind = part if isinstance(part, type) else type(part)
        if kind.__module__ == "__main__":
            raise pickle.PicklingError(f"{kind} is not there in another process")
        if isinstance(part, EzPickle):
            raise pickle.PicklingError("built anew when it is unpickled")
        root = kind.__module__.partition(".")[0]
        known = root in _KNOWN or root.startswith("_cython")  # functions of NumPy's generators
        if not known and any(getattr(kind, way, None) is not getattr(object, way, None) for way in _OWN_WAYS):
            raise pickle.PicklingError(f"{kind} has a way of its own")
        if kind is part or kind in copyreg.dispatch_table or not _is_plain(kind):
            return NotImplemented
        new, state = copyreg.__newobj__, attributes(part)  # type: ignore[attr-defined]
        if self.fast:  # spelled out: whatever the order in which they were set
            return new, (kind,), dict(sorted(state.items()))
        return (
            (new, (kind,), state)
            if hasattr(part, "__setstate__")
            else (new, (kind,), state, None, None, set_attributes)
        )
