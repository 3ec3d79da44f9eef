"""A group as a recipe for the engine: policies are pickled when their pool opens, and not again in any step.

Recipe ── called in this process ──► a copy whose classes are the caller's own
       └─ sent to another ─────────► the same, with what that process cannot import (`__main__`) by value
"""

from __future__ import annotations

import io
import pickle
from functools import partial
from typing import Any

import cloudpickle

from paceline.adapters.mettagrid.wrappers.group import Group
from paceline.adapters.mettagrid.wrappers.pickles import KeepingPickler, KeepingUnpickler


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
        pickler = KeepingPickler(file)
        if here:
            pickler.dump(group)
        self._here, self._kept = file.getvalue(), pickler.kept

    def __call__(self) -> Group:
        group: Group = KeepingUnpickler(io.BytesIO(self._here), self._kept).load()
        return group

    def __reduce__(self) -> Any:
        return partial, (pickle.loads, self._sent)
