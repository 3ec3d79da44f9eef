"""Notes the state that torch's generator begins with, whenever torch is imported; never imports it itself.

In a worker it also holds torch to one thread: how many there are belongs to the process, so a member that set it would
change the last bits of what the others compute.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any


class TorchImport:
    """Witnesses the import of torch, whenever it comes, and notes the state that torch begins with.

    torch seeds its generator at random, so later nobody could tell its own seed from one that a member set.
    """

    def __init__(self) -> None:
        self.state: bytes | None = None
        self._one_thread = False

    def expect(self) -> None:
        """Begins to watch the imports."""
        if "torch" not in sys.modules and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def hold_to_one_thread(self) -> None:
        """Has torch compute on one thread in this process, from its import on, whatever members ask for."""
        self._one_thread = True
        if (torch := self.done()) is not None:
            _hold_to_one_thread(torch)
        self.expect()

    def done(self) -> ModuleType | None:
        """torch, if somebody has imported it, to the end."""
        torch = sys.modules.get("torch")
        importing = getattr(getattr(torch, "__spec__", None), "_initializing", False)
        return torch if hasattr(torch, "default_generator") and not importing else None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Finds nothing itself: has the other finders find torch, and adds a note to what they found."""
        if name != "torch":
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec: Any = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        loader: Any = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module") and not isinstance(loader, type):  # a class would serve others too
            loader.exec_module = self._noting(loader.exec_module)
        return spec

    def _noting(self, run: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
        def run_and_note(module: ModuleType) -> None:
            run(module)
            with suppress(Exception):  # without a note torch counts as touched, which is always safe
                self.state = bytes(module.default_generator.get_state().tolist())
                sys.meta_path.remove(self)
            if self._one_thread:
                _hold_to_one_thread(module)

        return run_and_note


def _hold_to_one_thread(torch: Any) -> None:
    """Has torch compute on one thread for good."""
    told: list[int] = []

    def set_num_threads(count: int) -> None:
        """Leaves it at one thread, and says so once."""
        if count != 1 and not told:
            told.append(count)
            logging.getLogger("paceline").warning(
                "torch.set_num_threads(%s) has no effect in a worker: torch computes on one thread there, which its "
                "members share",
                count,
            )

    torch.set_num_threads(1)
    torch.set_num_threads = set_num_threads


TORCH_IMPORT = TorchImport()
