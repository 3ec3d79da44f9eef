"""Notes the state that torch's generator begins with, whenever somebody imports torch; never imports it itself."""

from __future__ import annotations

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

    def expect(self) -> None:
        """Begins to watch the imports."""
        if "torch" not in sys.modules and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

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

        return run_and_note


TORCH_IMPORT = TorchImport()
