"""The key of this user on this machine: what carries its mark was written here, and neither changed nor moved since.

    where a file lies, and its content ── HMAC-SHA256, key ──► a mark in the file ──► same place, content and key: own

The key is 32 random bytes, readable by its user alone, made when it is first needed. Without one nothing is marked, and
nothing is own: results are kept all the same.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import secrets
from pathlib import Path

from paceline.errors import BadInput

_BYTES = 32


def key_file() -> Path:
    """Where the key lies.

    Raises:
        BadInput: this user has no home.
    """
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        return (state if state.is_absolute() else Path.home() / ".local/state") / "paceline" / "key"
    except RuntimeError as error:
        raise BadInput(f"there is no place for a key of yours ({error}): set XDG_STATE_HOME") from error


def mark(path: Path, content: bytes) -> str:
    """The mark of a file with some content; "": there is no key.

    Args:
        path: The file. Its place is part of the mark, so that a copy of it has another one.
        content: What is marked: the file's content, or the digest of it.
    """
    try:
        key = _key()
    except BadInput:
        return ""
    place = os.fsencode(os.path.join(os.path.realpath(path.parent), path.name))
    return hmac.new(key, place + b"\0" + content, "sha256").hexdigest()


def is_own(path: Path, content: bytes, marked: object) -> bool:
    """Whether this user has written a file with this content to this place, on this machine."""
    if not isinstance(marked, str) or not marked:
        return False  # and no key is made to find that out
    expected = mark(path, content)
    return bool(expected) and hmac.compare_digest(expected.encode(), marked.encode(errors="replace"))


def why_unknown() -> str:
    """Why a file may be no own one, in words."""
    try:
        _key()
    except BadInput as error:
        return str(error)
    return "it was not written here by you, or was copied, moved or changed since"


def _key() -> bytes:
    """The key, made if there is none.

    Raises:
        BadInput: it cannot be read or made, or others can read it.
    """
    path = key_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        try:  # a directory that cannot be written may have a key
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            raise BadInput(f"your key {path} cannot be made or read: {error.strerror}") from error
    with os.fdopen(file, "rb", 0) as opened:
        return _read(path, opened.fileno())


def _read(path: Path, file: int) -> bytes:
    about = os.fstat(file)
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise BadInput(f"your key {path} can be read or changed by others: remove it, and another one is made")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # held until it is closed: of two processes one makes it
        if (key := os.pread(file, _BYTES + 1, 0)) == b"":
            key = secrets.token_bytes(_BYTES)
            os.pwrite(file, key, 0)
            os.fsync(file)
    except OSError as error:
        raise BadInput(f"your key {path} cannot be made or read: {error.strerror}") from error
    if len(key) != _BYTES:
        raise BadInput(f"your key {path} is damaged: remove it, and another one is made")
    return key
