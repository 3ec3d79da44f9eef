"""Where the goods come from, and the file that holds them: made once on a machine, then only read.

Source ── key ──► cache/webshop/<key>.sqlite ── there? ──► Index, one per process
                         ▲                        │ no
                         └── rename ◄── temporary file ◄── products, goals
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from paceline.errors import BadInput
from paceline.seeds import digest
from paceline.worlds.text.webshop.catalogue import make_catalogue
from paceline.worlds.text.webshop.goals import make_goals
from paceline.worlds.text.webshop.goods import Product, Wish
from paceline.worlds.text.webshop.index import Index, write_index
from paceline.worlds.text.webshop.originals import Files, load_originals

EDITION = (
    1  # of our catalogue and of the file's form: raise it when either changes, or old files would be taken for new
)
OWN_COMBINATIONS = 4  # goals that a product of our own catalogue gives, at most
ALL_COMBINATIONS = 1000  # … and one of the original files


@dataclass(frozen=True)
class Source:
    """What decides a catalogue.

    Attributes:
        seed: Of our own catalogue, and of the prices and limits of any.
        products: How many products our own catalogue has.
        first: Only so many products are taken; None: all.
        human_goals: Whether goals are what people have written.
        files: The original files; None: our own catalogue.
    """

    seed: int
    products: int
    first: int | None = None
    human_goals: bool = False
    files: Files | None = None

    def key(self) -> str:
        """Names the catalogue: the same for the same goods, on every machine."""
        contents = [_contents(name) for name in self.files] if self.files else ["own", self.products]
        return digest((EDITION, self.seed, self.first, self.human_goals, contents))[:24]

    def goods(self) -> Iterable[tuple[Product, list[Wish]]]:
        """Makes the products, or reads them."""
        if self.files is None:
            return make_catalogue(self.seed, min(self.products, self.first or self.products))
        return load_originals(self.files, seed=self.seed, first=self.first, human_goals=self.human_goals)


@lru_cache(None)
def open_stock(source: Source) -> Index:
    """Opens the index of a source, once in a process; makes it if nobody on this machine has done so before.

    Raises:
        BadInput: the cache cannot be written, or the source gives no products or no goals.
    """
    path = cache_directory() / "webshop" / f"{source.key()}.sqlite"
    if not path.exists():
        _make(path, source)
    return Index(path)


def cache_directory() -> Path:
    """Where Paceline keeps what can be made again: PACELINE_CACHE, or a directory in the user's cache."""
    if own := os.environ.get("PACELINE_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paceline"


def _make(path: Path, source: Source) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # many workers that start at once would else all make the same file
            if not path.exists():
                _write(path, source)
    except (OSError, sqlite3.Error) as error:
        raise BadInput(
            f"the shop's catalogue cannot be written to {path.parent} ({error}); "
            "set PACELINE_CACHE to a directory that can be written"
        ) from error


def _write(path: Path, source: Source) -> None:
    """Writes beside its place and renames: whoever looks sees a whole file or none, also where locks do not hold."""
    stock = list(source.goods())
    goals = make_goals(stock, source.seed, ALL_COMBINATIONS if source.files else OWN_COMBINATIONS)
    if not goals:
        raise BadInput(f"the shop has {len(stock)} products and no goals; give the file that says what to look for")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        write_index(Path(name), [product for product, _ in stock], goals)
        os.fchmod(handle, 0o644)  # the cache may be shared
        os.fsync(handle)
        os.replace(name, path)
    finally:
        os.close(handle)
        Path(name).unlink(missing_ok=True)


def _contents(name: str) -> str:
    if not name:
        return ""
    try:
        with Path(name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(
            f"{name} cannot be read: {error.strerror}; check the path in the shop's configuration"
        ) from error
