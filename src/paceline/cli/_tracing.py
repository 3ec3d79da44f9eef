"""The file of `--trace`: tried before anything is played, and written after the results, which are not lost with it."""

from __future__ import annotations

import sys
from pathlib import Path

from paceline.engine import Trace
from paceline.errors import BadInput


class TraceFile:
    """Where a trace goes.

    Args:
        path: The file; None: nothing is recorded.

    Raises:
        BadInput: it cannot be written there.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.trace = None if path is None else Trace()
        if path is not None:
            _try_out(path)

    def write(self) -> None:
        """Writes it; if that cannot be done, says so."""
        if self.trace is None or self._path is None:
            return
        try:
            self.trace.write(self._path)
        except OSError as error:
            print(f"error: --trace {self._path} cannot be written: {error.strerror}", file=sys.stderr)


def _try_out(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        path.open("ab").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise BadInput(f"--trace {path} cannot be written: {error.strerror}; give another file") from error
