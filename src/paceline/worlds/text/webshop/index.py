"""The index: one read-only SQLite file with products, goals and the words to search by.

products, goals ── write_index ──► file ◄── Index, one per process: search · product · goal
                                    └ its pages are mapped, so that all processes of a machine share them
"""

from __future__ import annotations

import atexit
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from paceline.errors import BadInput
from paceline.worlds.text.webshop.goods import Goal, Product

HITS = 50  # a search gives at most so many products
LONGEST_QUERY = 1000  # characters of a query that are read …
MOST_WORDS = 64  # … and different words of it that are looked for
LONGEST_WORD = 64
MAPPED = 1 << 30  # bytes

SCHEMA = """
CREATE TABLE products (id INTEGER PRIMARY KEY, asin TEXT UNIQUE, title TEXT, tag TEXT, facts TEXT);
CREATE TABLE goals (id INTEGER PRIMARY KEY, instruction TEXT, asin TEXT, weight REAL, facts TEXT);
CREATE INDEX instructions ON goals (instruction);
CREATE VIRTUAL TABLE words USING fts5 (document, content = '', tokenize = 'porter unicode61');
"""
# Rounded, so that a last bit in which two machines differ decides nothing; equals stand in the catalogue's order.
SEARCH = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY round(bm25(words), 6), rowid LIMIT ?"

_WORDS = re.compile(r"[^\W_]+")

# Too common to look for; the original's search engine leaves out the same sort of words.
STOP_WORDS = frozenset(
    _WORDS.findall(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they "
        "this to was will with"
    )
)


class Listing(NamedTuple):
    """What a page of results says of a product."""

    asin: str
    title: str
    tag: str


def write_index(path: Path, products: Sequence[Product], goals: Iterable[Goal]) -> None:
    """Writes products and goals to a new file; both are numbered from 0.

    Raises:
        BadInput: this SQLite cannot search texts.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;" + SCHEMA)
        rows = ((i, p.asin, p.title, p.price_tag, p.to_json()) for i, p in enumerate(products))
        connection.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?)", rows)
        documents = ((i, p.document()) for i, p in enumerate(products))
        connection.executemany("INSERT INTO words (rowid, document) VALUES (?, ?)", documents)
        errands = ((i, g.instruction_text, g.asin, g.weight, g.to_json()) for i, g in enumerate(goals))
        connection.executemany("INSERT INTO goals VALUES (?, ?, ?, ?, ?)", errands)
        connection.execute("INSERT INTO words (words) VALUES ('optimize')")
        connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise BadInput("the SQLite of this Python cannot search texts; use a Python whose SQLite has FTS5") from error
    finally:
        connection.close()


class Index:
    """Reads an index file. One object serves all environments of a process, on any thread.

    Args:
        path: A file that `write_index` has written; nobody changes it afterwards.

    Raises:
        BadInput: there is no index in the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._open()
        try:
            self.goal_count = self._number("SELECT count(*) FROM goals")
            self.product_count = self._number("SELECT count(*) FROM products")
        except sqlite3.Error as error:
            self.close()
            raise BadInput(f"{path} is no catalogue of the shop ({error}); delete it and it is made anew") from error
        self._find = lru_cache(256)(self._find_words)  # the members of a group often search for the same
        self.product = lru_cache(256)(self._product)
        self.goal = lru_cache(256)(self._goal)
        atexit.register(self.close)

    def __reduce__(self) -> tuple[type[Self], tuple[Path]]:
        return type(self), (self.path,)

    def search(self, text: str) -> tuple[int, ...]:
        """Gives the numbers of the products that fit best, at most 50.

        Any text is a list of words here, never a query language. What is too long is cut: 1000 characters, 64 words.
        """
        words = _WORDS.findall(text[:LONGEST_QUERY].lower())
        wanted = dict.fromkeys(word[:LONGEST_WORD] for word in words if word not in STOP_WORDS)
        return self._find(" OR ".join(f'"{word}"' for word in [*wanted][:MOST_WORDS])) if wanted else ()

    def listings(self, numbers: Sequence[int]) -> list[Listing]:
        """Gives what a page of results says of these products, in this order."""
        marks = ", ".join("?" * len(numbers))
        rows = self._rows(f"SELECT id, asin, title, tag FROM products WHERE id IN ({marks})", *numbers)
        found = {number: Listing(*rest) for number, *rest in rows}
        return [found[number] for number in numbers]

    def number_of(self, asin: str) -> int:
        """Gives the number of the product that has this asin."""
        return self._number("SELECT id FROM products WHERE asin = ?", asin)

    def goals_told(self, instruction: str) -> list[int]:
        """Gives the numbers of the goals with exactly this instruction."""
        return [
            number for (number,) in self._rows("SELECT id FROM goals WHERE instruction = ? ORDER BY id", instruction)
        ]

    def weights(self) -> list[float]:
        """Gives the weight of each goal."""
        return [weight for (weight,) in self._rows("SELECT weight FROM goals ORDER BY id")]

    def close(self) -> None:
        """Closes the file."""
        self._connection.close()

    def _find_words(self, words: str) -> tuple[int, ...]:
        return tuple(number for (number,) in self._rows(SEARCH, words, HITS))

    def _product(self, number: int) -> Product:
        return Product.from_json(self._rows("SELECT facts FROM products WHERE id = ?", number)[0][0])

    def _goal(self, number: int) -> Goal:
        return Goal.from_json(self._rows("SELECT facts FROM goals WHERE id = ?", number)[0][0])

    def _number(self, query: str, *values: Any) -> int:
        return int(self._rows(query, *values)[0][0])

    def _rows(self, query: str, *values: Any) -> list[Any]:
        if self._process != os.getpid():
            self._leave_to_parent()
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def _leave_to_parent(self) -> None:
        """After a fork: SQLite forbids to use the parent's connection, and even to close it."""
        self._parents = self._connection
        self._lock = threading.Lock()
        self._open()

    def _open(self) -> None:
        self._process = os.getpid()
        try:
            self._connection = sqlite3.connect(
                f"file:{quote(str(self.path))}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._connection.execute(f"PRAGMA mmap_size = {MAPPED}")
        except sqlite3.Error as error:
            raise BadInput(f"the catalogue {self.path} cannot be opened: {error}") from error
