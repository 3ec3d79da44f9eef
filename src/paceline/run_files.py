"""The files in the directory of a run, which may have come from another: no link of theirs is written through."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

from paceline.errors import BadInput
from paceline.run_key import why_unknown

_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet", ".npz", ".pickles", ".png", ".log", ".part")


def anew(path: Path, mode: str, **options: Any) -> Any:
    """Opens a new file in the place of whatever is there.

    Args:
        path: The file.
        mode: "x" or "xb", as `open` has it: a link that is put there meanwhile is an error, and not followed.
        options: For `open`.
    """
    path.unlink(missing_ok=True)
    return path.open(mode, **options)


def unfollowed(path: str, flags: int) -> int:
    """For `open(opener=…)`: what is no file but a link, or a pipe that nothing reads, is an error."""
    try:
        found = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(error.errno, "it is a link", path) from error
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.EINVAL, "it is no file", path)
    return found


def check_files(path: Path) -> None:
    """Sees to it that what is in a run's directory can be read and written: nothing is found out only at its end.

    Raises:
        BadInput: a link leads nowhere, or a directory is in the place of a file.
    """
    try:
        entries = sorted(path.iterdir())
    except OSError:  # told when the plan is read
        return
    for entry in entries:
        if entry.is_symlink():
            _check_end(entry)
        if entry.suffix in _SUFFIXES and not entry.is_file():
            raise BadInput(f"{entry} is no file, and a run has one there: put back what was there, or remove it")


def check_unknown(path: Path) -> None:
    """Sees to it that the directory of a run that this user has not written there leads to no other place.

    Raises:
        BadInput: there is a link in it, or a pipe or its like.
    """
    for place, directories, files in os.walk(path):
        for name in sorted((*directories, *files)):
            _check_kind(Path(place, name), path)


def _check_kind(entry: Path, run: Path) -> None:
    try:
        kind = entry.lstat().st_mode
    except OSError:  # it is gone
        return
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return
    if stat.S_ISLNK(kind):
        _check_end(entry)
    what = "a link" if stat.S_ISLNK(kind) else "neither a file nor a directory"
    raise BadInput(
        f"{entry} is {what}, and {run} may be of another ({why_unknown()}): what is written there could end elsewhere. "
        "Put the file itself there, or remove it"
    )


def _check_end(link: Path) -> None:
    if not link.exists():
        raise BadInput(f"{link} is a link that leads nowhere: put back what was there, or remove it")
