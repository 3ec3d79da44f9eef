"""A call of a command that trains, one seed or several: until it has ended, failed, or was stopped."""

from __future__ import annotations

import errno
import json
import shlex
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, TextIO

from paceline.checkpoints import FILE
from paceline.cli._failures import first_failure, own_frames
from paceline.cli._output import OUTPUT
from paceline.cli._tracing import TraceFile
from paceline.cli._trained import NO_CURVES
from paceline.engine import Trace
from paceline.errors import BadInput, Diverged, PacelineError, RolloutsFailed
from paceline.report.curves import can_draw

Watcher = Callable[[Any], None]
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class TrainingCall(ABC):
    """A call of a command.

    Args:
        asked: What is trained: it has `seeds`, `numbers` and `place`.
        out: Where results go; None: nowhere.
        resume: Whether to go on with what is there.
        page: For JSON; None: a table is printed.
        trust: Whether pickles of others may be loaded.
    """

    # -- a command says these ----------------------------------------------------------------------------------

    command: str
    """Its name."""

    @abstractmethod
    def one(self, watcher: Watcher, trace: Trace | None) -> Any:
        """Trains one seed. Gives what came of it, which has `as_dict`."""

    @abstractmethod
    def several(self, watcher: Callable[[int], Watcher]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Trains seeds; gives each with what came of it, as JSON has it."""

    @abstractmethod
    def begin_several(self, out: Path) -> None:
        """Makes the directory of several seeds."""

    @abstractmethod
    def progress(self, *name: str) -> AbstractContextManager[Any]:
        """A bar, which has `tell`."""

    @abstractmethod
    def show_one(self, training: Any) -> None:
        """Prints what came of one seed."""

    @abstractmethod
    def show_several(self, found: Sequence[Mapping[str, Any]]) -> None:
        """Prints what came of several."""

    @abstractmethod
    def draw(self, found: Sequence[Mapping[str, Any]], out: Path) -> None:
        """Draws the curve of several."""

    @abstractmethod
    def how_far(self, seen: Any) -> str:
        """What the last checkpoint of this call holds, in words, of what a watcher has seen last; "": there is none."""

    def failed(self, found: Mapping[str, Any]) -> bool:
        """Whether a part of a training has failed that came to its end."""
        return False

    # -- machinery ---------------------------------------------------------------------------------------------

    def __init__(self, asked: Any, out: Path | None, resume: bool, page: TextIO | None, *, trust: bool = False) -> None:
        self.asked, self.out, self.resume, self._page, self.trust = asked, out, resume, page, trust
        self._seen: Any = None  # by a watcher, last
        self._done: dict[int, dict[str, Any]] = {}  # seed → what came of it, of several

    def go(self, trace: Path | None) -> int:
        """Trains, and gives the exit code."""
        OUTPUT.results = self.out
        try:
            return self._of_one(trace) if self.asked.seeds is None else self._of_several()
        except KeyboardInterrupt:
            self._say_goodbye("interrupted")
            return 130
        except BadInput:
            raise
        except PacelineError as error:
            print("\n  ".join([f"error: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
            if isinstance(error, RolloutsFailed):
                print(first_failure(error.collection), file=sys.stderr)
            self._say_goodbye("stopped", goes_on=not isinstance(error, Diverged))  # it would come to the same update
            return 3
        except Exception as error:
            if frames := own_frames("".join(traceback.format_exception(error))):
                print(frames, file=sys.stderr)
            elif isinstance(error, OSError) and error.errno in _FULL:
                print(f"error: the results cannot be written: {error.strerror}", file=sys.stderr)
            else:
                raise  # it is a bug of Paceline's
            self._say_goodbye("stopped")
            return 3

    def _of_one(self, trace: Path | None) -> int:
        file = TraceFile(trace)
        try:
            with self.progress() as progress:
                training = self.one(self._watcher(progress.tell), file.trace)
        finally:
            file.write()
        self._print(training.as_dict()) if self._page is not None else self.show_one(training)
        return 3 if self.failed(training.as_dict()) else 0

    def _of_several(self) -> int:
        if self.out is not None and not self.resume:
            self.begin_several(self.out)
        with ExitStack() as stack:

            def watcher(seed: int) -> Watcher:
                stack.close()  # one bar after another
                return self._watcher(stack.enter_context(self.progress(f"seed {seed}")).tell)

            for seed, result in self.several(watcher):
                self._done[seed] = result
                if sys.stderr.isatty():
                    print(f"seed {seed}: {len(self._done)} of {self.asked.seeds} done", file=sys.stderr)
        found = [self._done[seed] for seed in self.asked.numbers]
        if self.out is not None:
            self.draw(found, self.out)
        self._print(found) if self._page is not None else self.show_several(found)
        return 3 if any(map(self.failed, found)) else 0

    def _watcher(self, tell: Watcher) -> Watcher:
        def watch(seen: Any) -> None:
            self._seen = seen
            tell(seen)

        return watch

    def _print(self, value: Any) -> None:
        print(json.dumps(value), file=self._page)
        if self.out is not None:
            print(f"results: {self.out}{'' if can_draw() else f' ({NO_CURVES})'}", file=sys.stderr)

    def _say_goodbye(self, how: str, *, goes_on: bool = True) -> None:
        """What is on disk, and how to go on."""
        if self.out is None:
            print(f"{how}; nothing was kept (--no-save)", file=sys.stderr)
        elif not (self.out / "plan.json").exists():
            print(f"{how} before anything was trained", file=sys.stderr)
        else:
            print(f"{how}; {self._kept(self.out)}", file=sys.stderr)
            if not goes_on:
                return
            print(f"go on with: paceline {self.command} --resume {shlex.quote(str(self.out))}", file=sys.stderr)

    def _kept(self, out: Path) -> str:
        if self.asked.seeds is not None:
            return f"{len(self._done)} of {self.asked.seeds} seeds are done, and checkpoints of others on disk: {out}"
        if self._seen is not None and (far := self.how_far(self._seen)):
            return f"on disk is the checkpoint after {far}: {out}"
        if (out / FILE).exists():
            return f"the last checkpoint is on disk: {out}"
        return f"there is no checkpoint yet, only the plan: {out}"
