"""What every worker is told before it builds or runs anything: state of main's process that recipes rely on.

    tell_workers(adopt, given) ──► given() in main, before a build ──► new entries ──► adopt(entries) in the worker

A recipe may look something up in a table that its process fills (Gymnasium's registry of environments). Main's table
is the one that counts. The engine knows nothing of what is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paceline.engine.transport import codec
from paceline.errors import NotSendable

Entries = Mapping[str, Any]
Adopt = Callable[[dict[str, Any]], None]
Told = tuple[codec.Packed, ...]
"""What a worker is told, packed: the same object for as long as nothing has changed."""

_tables: list[_Table] = []
_told: Told = ()


def tell_workers(adopt: Adopt, given: Callable[[], Entries]) -> None:
    """Has workers that live in other processes adopt what this process has.

    Args:
        adopt: Called in the worker with entries, by name. It can be imported. In place of an entry that could not be
            packed, or not be unpacked there, it is given the exception that says why.
        given: The entries as they are now. Asked before every build; an entry is sent again if it is another object.
    """
    _tables.append(_Table(adopt, given))


def current() -> Told:
    """What a worker has to know by now."""
    global _told
    changed = [table.refresh() for table in _tables]
    if any(changed):
        _told = tuple(codec.pack((table.adopt, table.packed)) for table in _tables if table.packed)
    return _told


def adopt_all(told: Told) -> None:
    """Adopts what main has told, in a worker."""
    for packed in told:
        adopt, entries = codec.unpack(packed)
        adopt({name: _unpacked(entry) for name, entry in entries.items()})


class _Table:
    def __init__(self, adopt: Adopt, given: Callable[[], Entries]) -> None:
        self.adopt, self._given = adopt, given
        self._known: dict[str, Any] = {}
        self.packed: dict[str, codec.Packed] = {}

    def refresh(self) -> bool:
        """Packs what is new. Returns whether anything is."""
        now = dict(self._given())
        known, packed = self._known, self.packed
        if now.keys() == known.keys() and all(entry is known[name] for name, entry in now.items()):
            return False
        same = {name for name, entry in now.items() if name in known and entry is known[name]}
        self.packed = {name: packed[name] if name in same else _packed(name, entry) for name, entry in now.items()}
        self._known = now
        return True


def _packed(name: str, entry: Any) -> codec.Packed:
    try:
        return codec.settle(codec.pack(entry))
    except NotSendable as error:
        return codec.pack(NotSendable(f"{name}: {error}"))


def _unpacked(entry: codec.Packed) -> Any:
    try:
        return codec.fresh(entry)
    except Exception as error:  # what it needs may not be importable there
        return error
