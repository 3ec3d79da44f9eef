"""Checkpoints: everything that a training goes on from, in files that are whole or not there.

    state ──► checkpoint.json      numbers and text, the digests of the other files, and this user's mark
          ├─► checkpoint.npz       arrays
          └─► checkpoint.pickles   what is a user's own, `Apart`: only it can run code when it is read

Files are written under other names, piece by piece, as rows can be most of what there is memory for. The checkpoint is
there when its JSON is: the files that it names are given their names behind it, now or when it is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from io import BufferedIOBase, BufferedReader, BytesIO
from pathlib import Path
from time import perf_counter
from typing import IO, Any, TypeVar

import numpy as np

from paceline import trees
from paceline.errors import BadInput, NotKept, PacelineError
from paceline.run_files import anew
from paceline.run_key import is_own, mark, why_unknown
from paceline.spaces import Array

FILE, ARRAYS, PICKLES = "checkpoint.json", "checkpoint.npz", "checkpoint.pickles"
_OLD = "checkpoint.pkl"
_FORM = re.compile(
    rb'\{"check": "([0-9a-f]{64})", "mark": "([0-9a-f]*)", ("files": (\{[^{}]*\}), "state": (.*))\}\n', re.DOTALL
)
Taken = TypeVar("Taken")
_SHARE = 0.05  # of the time that checkpoints may take
_FIRST = 1.0  # seconds before the first
_ANEW = "and the training begins again from its first epoch"


class Checkpoints:
    """The checkpoint of a run, written now and then.

    Args:
        path: The directory of the run.
        trusted: Whether the user has said that what another has pickled may be loaded.
    """

    def __init__(self, path: Path, trusted: bool = False) -> None:
        self._path, self._trusted = path, trusted
        self._next = perf_counter() + _FIRST

    @property
    def due(self) -> bool:
        """Whether it is time for one: they take a small share of the time."""
        return perf_counter() >= self._next

    def save(self, state: Any, since: float) -> int:
        """Writes a checkpoint; `since` is when the trainer began to make it. Gives its bytes.

        Args:
            state: A tree of data, with what is a user's own in `trees.Apart`.

        Raises:
            NotKept: it cannot be written.
        """
        written = trees.write(state)
        files: dict[str, Callable[[Any], object]] = {ARRAYS: partial(_write_arrays, written.arrays)}
        if written.apart:
            files[PICKLES] = partial(pickle.dump, written.apart, protocol=5)
        parts = {name: self._path / f"{name}.part" for name in (*files, FILE)}
        whole = False
        try:
            try:
                content = self._signed(
                    {name: _write(parts[name], write) for name, write in files.items()}, written.json
                )
                _write(parts[FILE], lambda file: file.write(content))
                whole = True
                parts[FILE].replace(self._path / FILE)
            finally:
                if whole and not parts[FILE].exists():  # it has its name, even if an interrupt came right behind that
                    for name in files:
                        parts[name].replace(self._path / name)
                else:  # what is half written takes room, and is of no use
                    for part in parts.values():
                        with suppress(OSError):
                            part.unlink()
        except OSError as error:
            before = "the one before is kept" if (self._path / FILE).exists() else "there is none before it"
            raise NotKept(f"{self._path / FILE} cannot be written: {error.strerror}; {before}") from error
        if PICKLES not in files:
            (self._path / PICKLES).unlink(missing_ok=True)
        took = perf_counter() - since
        self._next = perf_counter() + took / _SHARE
        return sum((self._path / name).stat().st_size for name in (*files, FILE))

    def taken(self, take: Callable[[], Taken]) -> Taken:
        """Has what was loaded be gone on from.

        Raises:
            BadInput: it cannot be: it is of another training, or of none.
        """
        try:
            return take()
        except PacelineError:
            raise
        except Exception as error:
            raise BadInput(f"{_damaged(self._path / FILE)} ({type(error).__name__}: {error})") from error

    def _signed(self, files: dict[str, str], state: Any) -> bytes:
        content = f'"files": {json.dumps(files)}, "state": {json.dumps(state, allow_nan=False)}'.encode()
        check = hashlib.sha256(content).hexdigest()
        marked = mark(self._path / FILE, check.encode())
        return b'{"check": "%b", "mark": "%b", %b}\n' % (check.encode(), marked.encode(), content)

    def load(self) -> Any:
        """What was saved last, with what is a user's own in `trees.Apart`; None: nothing.

        Raises:
            BadInput: it is damaged, or has pickles that this user has not written here, and has not trusted.
        """
        found = _read(self._path)
        if found is None:
            return None
        files, state, own = found
        with ExitStack() as stack:
            opened = {name: stack.enter_context(_opened(self._path / name, files[name])) for name in files}
            if PICKLES in files and not (own or self._trusted):
                raise BadInput(
                    f"{self._path / PICKLES} would be unpickled, which can run anything ({why_unknown()}): look at "
                    "where it is from, and say trust=True (--trust) if you trust who wrote it"
                )
            apart = _unpickled(self._path / PICKLES, opened[PICKLES]) if PICKLES in files else []
            try:
                arrays = stack.enter_context(zipfile.ZipFile(opened[ARRAYS]))
                return trees.read(state, lambda number: _array(arrays, number), apart.__getitem__)
            except Exception as error:  # of another's arrays, zipfile and NumPy say what is wrong in many ways
                raise _damaged(self._path / FILE) from error


def strange_pickles(path: Path) -> bool:
    """Whether a run goes on from pickles that this user has not written there; nothing is loaded.

    Raises:
        BadInput: its checkpoint is damaged.
    """
    found = _read(path)
    return found is not None and PICKLES in found[0] and not found[2]


def _read(path: Path) -> tuple[dict[str, str], bytes, bool] | None:
    """The digests of a checkpoint's files, its state as JSON, and whether it is this user's own; None: there is none.

    Raises:
        BadInput: it is damaged, or of an older release.
    """
    try:
        content = (path / FILE).read_bytes()
    except FileNotFoundError:
        if not (path / _OLD).exists():
            return None
        raise BadInput(
            f"{path / _OLD} is a checkpoint of an older release, a pickle, and is not read: remove it, {_ANEW}"
        ) from None
    except OSError as error:
        raise BadInput(f"{path / FILE} cannot be read: {error.strerror}; remove it, {_ANEW}") from error
    found = _FORM.fullmatch(content)
    if found is None or hashlib.sha256(found[3]).hexdigest().encode() != found[1]:
        raise _damaged(path / FILE)
    try:
        files = json.loads(found[4])
    except ValueError as error:
        raise _damaged(path / FILE) from error
    if ARRAYS not in files or not files.keys() <= {ARRAYS, PICKLES}:
        raise _damaged(path / FILE)
    return files, found[5], is_own(path / FILE, found[1], found[2].decode())


def _opened(path: Path, digest: str) -> BytesIO | BufferedReader:
    """A file of a checkpoint, with the content that it was saved with. Pickles are read once: what is loaded is what
    was compared, though the file may have changed since.

    Raises:
        BadInput: it is damaged, or not there.
    """
    places = (path, path.with_name(f"{path.name}.part"))
    for each in places:
        try:
            file = BytesIO(each.read_bytes()) if path.name == PICKLES else each.open("rb")
            if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                if each != path:  # what wrote it was killed before it gave it its name
                    each.replace(path)
                file.seek(0)
                return file
            file.close()
        except OSError:
            continue
    if any(each.exists() for each in places):
        raise _damaged(path)
    raise BadInput(f"{path} is not there: put it back, or remove {path.with_name(FILE)}, {_ANEW}")


def _damaged(path: Path) -> BadInput:
    remove = "it" if path.name == FILE else f"{path.with_name(FILE)}"
    return BadInput(f"{path} is damaged: remove {remove}, {_ANEW}")


def _unpickled(path: Path, file: BufferedIOBase) -> list[Any]:
    try:
        found: list[Any] = pickle.load(file)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise BadInput(f"{path} cannot be read ({why}): put back the code that it is of, or remove {FILE}") from error
    return found


def _array(arrays: zipfile.ZipFile, number: int) -> Array:
    about = arrays.getinfo(_name(number))
    if about.compress_type != zipfile.ZIP_STORED or about.flag_bits & 1:
        raise ValueError("arrays are neither packed nor encrypted")
    with arrays.open(about) as member:
        found: Array = np.lib.format.read_array(member, allow_pickle=False)
        return found


def _name(number: int) -> str:
    return f"{number:d}.npy"


# -- writing -----------------------------------------------------------------------------------------------------


def _write(path: Path, write: Callable[[Any], object]) -> str:
    """Writes a file, and sees to it that it is on disk. Gives its digest."""
    with anew(path, "xb") as file:
        digested = _Digested(file)
        write(digested)
        file.flush()
        os.fsync(file.fileno())
    return digested.digest()


def _write_arrays(arrays: Sequence[Array], file: Any) -> None:
    """As `numpy.savez` has it, but without a copy of any array."""
    with zipfile.ZipFile(file, "w") as zipped:
        for number, array in enumerate(arrays):
            with zipped.open(zipfile.ZipInfo(_name(number)), "w", force_zip64=True) as member:
                if not (array.flags.c_contiguous or array.flags.f_contiguous):
                    array = np.ascontiguousarray(array)
                np.lib.format.write_array_header_2_0(member, np.lib.format.header_data_from_array_1_0(array))
                if array.nbytes:
                    member.write(array.ravel("K").view(np.uint8).data)


class _Digested:
    """A file that is written from its beginning to its end, and the digest of what is written to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, piece: Any) -> int:
        self._hash.update(piece)
        return self._file.write(piece)

    def flush(self) -> None:
        """A zip file asks for it now and then."""

    def digest(self) -> str:
        return self._hash.hexdigest()
