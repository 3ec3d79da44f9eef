"""Counts how often a process-wide generator is set, in processes that run members beside each other.

Whoever seeds one for a while and puts back what was there leaves no trace in it; but meanwhile somebody else may have
drawn from that seed. So the functions that set a generator count how often they are called, and do what they did.
Not counted: methods of the generators themselves, and functions that were imported by name before they were wrapped.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from functools import wraps
from itertools import count
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np

from paceline.engine.randomness.torch_import import TORCH_IMPORT


class Seedings:
    """How often anybody has set a generator.

    Attributes:
        count: Another number after every time, since it is watched.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers = count(1)  # given out by the interpreter in one step: no two threads get the same
        self._begun = self._torch_too = False
        self._lock = Lock()  # whoever came while another thread wraps would go on unwatched, or wrap once more

    def watch(self) -> None:
        """Counts from now on; for torch, from when it has been imported and this is called again. Hot once it does."""
        if not self._begun or ("torch" in sys.modules and not self._torch_too):
            with self._lock:
                self._wrap_what_is_there()

    def _wrap_what_is_there(self) -> None:
        if not self._begun:
            self._wrap(random, "seed", "setstate")
            for module in (np.random, np.random.mtrand):
                self._wrap(module, "seed", "set_state")
            self._begun = True
        if not self._torch_too and (torch := TORCH_IMPORT.done()) is not None:
            for module in (torch, torch.random):
                self._wrap(module, "manual_seed", "set_rng_state", "seed")
            self._torch_too = True

    def _wrap(self, module: ModuleType, *names: str) -> None:
        for name in names:
            counted = self._counting(getattr(module, name))
            counted.__module__, counted.__qualname__ = module.__name__, name  # pickled by name, as it was
            setattr(module, name, counted)

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.count = next(self._numbers)
            return function(*args, **kwargs)

        return counted


SEEDINGS = Seedings()
