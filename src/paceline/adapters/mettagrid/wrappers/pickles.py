"""Pickles of this process: copies whose classes, modules and functions are the caller's own."""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Iterable
from typing import Any

import cloudpickle


class KeepingPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps classes, modules and functions as they are; but copies a function that holds variables, with these.

    Args:
        file: Where it writes.
        keep: Other objects that are kept as they are.
        refuse: Objects that must not be met.
    """

    def __init__(self, file: io.BytesIO, keep: Iterable[Any] = (), refuse: Iterable[Any] = ()) -> None:
        super().__init__(file, 5)
        self.kept: list[Any] = []
        self._keep = {id(value): value for value in keep}
        self._refuse = {id(value): value for value in refuse if value is not None}

    def persistent_id(self, value: Any) -> int | None:
        if id(value) in self._refuse:
            raise pickle.PicklingError(f"a {type(value).__name__} is held that others hold too")
        named = isinstance(value, type | types.ModuleType) or id(value) in self._keep
        if not named and not (isinstance(value, types.FunctionType) and value.__closure__ is None):
            return None
        self.kept.append(value)
        return len(self.kept) - 1


class KeepingUnpickler(pickle.Unpickler):
    """Reads what `KeepingPickler` wrote.

    Args:
        file: What it reads.
        kept: What was kept.
    """

    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        return self._kept[number]
