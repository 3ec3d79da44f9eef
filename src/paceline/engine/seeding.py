"""Counts how often a process-wide generator is set, in processes that run members beside each other.

Whoever seeds one for a while and puts back what was there leaves no trace in it; but meanwhile somebody else may have
drawn from that seed. So the functions that set a generator count how often they are called, and do what they did.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from paceline.engine.torch_import import TORCH_IMPORT


class Seedings:
    """How often anybody has set a generator.

    Attributes:
        count: So often, since it is watched.
    """

    def __init__(self) -> None:
        self.count = 0
        self._watched: set[str] = set()

    def watch(self) -> None:
        """Counts from now on; for torch, from when it has been imported and this is called again. Hot once it does."""
        if not self._watched:
            self._wrap(random, "seed", "setstate")
            self._wrap(np.random, "seed", "set_state")
        if "torch" in sys.modules and "torch" not in self._watched and (torch := TORCH_IMPORT.done()) is not None:
            self._wrap(torch, "manual_seed", "set_rng_state", "seed")

    def _wrap(self, module: ModuleType, *names: str) -> None:
        self._watched.add(module.__name__)
        for name in names:
            setattr(module, name, self._counting(getattr(module, name)))

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return function(*args, **kwargs)

        return counted


SEEDINGS = Seedings()
