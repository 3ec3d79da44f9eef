"""Notes the state that torch's generator begins with, whenever torch is imported; never imports it itself.

It also holds torch to one thread while members compute, because a sum has other last bits on more of them. In a
worker it does so for good: a member that set their number would change what the others compute. In the caller's
process it does so for as long as members are called, and then the caller has its own number again.
"""

from __future__ import annotations

import logging
import sys
import threading
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any


class TorchImport:
    """Witnesses the import of torch, whenever it comes, and notes the state that torch begins with.

    torch seeds its generator at random, so later nobody could tell its own seed from one that a member set.
    """

    def __init__(self) -> None:
        self.state: bytes | None = None
        self._one_thread = False
        self._torch: ModuleType | None = None
        self._calling: dict[int, int] = {}  # threads that are within members while torch is not there: how deep,
        self._default: dict[int, int] = {}  # and how many threads it began with, where it was imported there
        self._lock = threading.Lock()
        self._held = 0  # how many threads that only run members are within one

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

    def threads(self) -> int:
        """How many threads torch computes on for whoever asks; 0: it is not there. Hot."""
        if self._torch is None:
            self._torch = self.done() if "torch" in sys.modules else None
        return 0 if self._torch is None else self._torch.get_num_threads()

    def hold(self, before: int) -> None:
        """Has torch compute on one thread for the caller's thread, which is about to call members. `release` ends that.

        Args:
            before: What `threads` gave: if that is 1, neither needs to be called.
        """
        if self._torch is not None and before:
            self._torch.set_num_threads(1)
        else:
            me = get_ident()
            self._calling[me] = self._calling.get(me, 0) + 1

    def release(self, before: int) -> None:
        """Gives the caller's thread its own number again, or the one that torch had when a member imported it."""
        me = get_ident()
        if not before:
            depth = self._calling.pop(me, 1) - 1
            if depth:
                self._calling[me] = depth
            else:
                before = self._default.pop(me, 0)
        if before and (torch := self.done()) is not None:
            torch.set_num_threads(before)

    def on_one_thread(self, run: Callable[..., Any], *args: Any) -> Any:
        """Calls what calls members in the caller's thread."""
        before = self.threads()
        if before == 1:
            return run(*args)
        try:
            self.hold(before)
            return run(*args)
        finally:
            self.release(before)

    @contextmanager
    def held(self, callers: int) -> Iterator[None]:
        """The same on a thread that only runs members. The libraries below torch have one number for the process, so
        that is the caller's again when no such thread is within a member any more.

        Args:
            callers: What `threads` gave on the caller's thread.
        """
        with self._lock:
            self._held += 1
            before = self.threads()
            if before != 1 or self._held == 1:
                self.hold(before)
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
                if not before:
                    callers = max(callers, self._default.get(get_ident(), 0))
                    self.release(0)
                if not self._held and callers > 1 and self._torch is not None:
                    self._torch.set_num_threads(callers)

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
            elif get_ident() in self._calling:
                self._default[get_ident()] = module.get_num_threads()
                module.set_num_threads(1)

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
