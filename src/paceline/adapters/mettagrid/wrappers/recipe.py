"""A group as a recipe for the engine: policies are pickled when their pool opens, and not again in any step.

Recipe ── called in this process ──► a copy whose classes are the caller's own
       └─ sent to another ─────────► the same, with what that process cannot import (`__main__`) by value
"""

from __future__ import annotations

import io
import pickle
import types
from functools import partial
from typing import Any

import cloudpickle

from paceline.adapters.mettagrid.wrappers.group import Group


class Recipe:
    """Makes copies of a group as it is now.

    A pickle that holds classes by value must not be loaded here: cloudpickle would put the methods in it in the place
    of the caller's own.

    Args:
        group: The policies. They are pickled together, so that what they share stays shared.
        here: Whether it may be called in this process.
    """

    def __init__(self, group: Group, *, here: bool) -> None:
        self._sent = cloudpickle.dumps(group)
        file = io.BytesIO()
        pickler = _HerePickler(file)
        if here:
            pickler.dump(group)
        self._here, self._kept = file.getvalue(), pickler.kept

    def __call__(self) -> Group:
        group: Group = _HereUnpickler(io.BytesIO(self._here), self._kept).load()
        return group

    def __reduce__(self) -> Any:
        return partial, (pickle.loads, self._sent)


class _HerePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Keeps classes, modules and functions as they are; but copies a function that holds variables, with these."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.kept: list[Any] = []

    def persistent_id(self, value: Any) -> int | None:
        named = isinstance(value, type | types.ModuleType)
        if not named and not (isinstance(value, types.FunctionType) and value.__closure__ is None):
            return None
        self.kept.append(value)
        return len(self.kept) - 1


class _HereUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self._kept = kept

    def persistent_load(self, number: int) -> Any:
        return self._kept[number]
