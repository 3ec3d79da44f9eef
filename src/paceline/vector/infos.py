"""Infos: numbers in rows of shared memory, everything else by message; Gymnasium's vector form comes out.

{"x": 1.5, "alive": True} ── schema (("x", float), ("alive", bool)), known by number ──► 8-byte cells
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from paceline.engine import data_record, fits
from paceline.errors import NotData

Array = np.ndarray[Any, Any]
Schema = tuple[tuple[str, type], ...]
Told = tuple[tuple[Any, str], ...]
"""A schema as it is sent: types by their names."""

HEAD, CELLS = 4, 24
"""The tail of an env's rows, eight bytes each: reward, two flags (in their first byte) and the number of a schema; then
the numbers of its info."""

TAIL = HEAD + CELLS

SENT = -1
"""In place of a number: the info comes by message."""

_WHOLE = (int, bool, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32)
_BROKEN = (float, np.float64, np.float32, np.float16)
_KINDS = {f"{kind.__module__}.{kind.__name__}": kind for kind in (*_WHOLE, *_BROKEN)}
_LIMIT = 1 << 63


def columns(tails: Array) -> tuple[Array, Array, Array]:
    """Rewards, and the two flags, of all envs: views."""
    flags = tails.view(np.bool_)
    return tails[:, 0], flags[:, 8], flags[:, 16]


@data_record
class NewSchema(NamedTuple):
    """What a number means, sent when an env first uses it: to ask would mean to wait for a worker that may be busy."""

    number: int
    schema: Told


class InfoWriter:
    """An env's side: fills cells and says by a number what they mean, or that the info must be sent."""

    def __init__(self) -> None:
        self._numbers: dict[Schema, int] = {}
        self._schemas: dict[int, Schema] = {}
        self._told = {0}

    def write(self, info: Mapping[str, Any], cells: Array) -> int:
        """Writes an info. Returns the number of its schema; 0: it is empty, -1: it must be sent."""
        if not info:
            return 0
        if len(info) > CELLS:
            return SENT
        whole = cells.view(np.int64)
        schema = []
        for place, (key, value) in enumerate(info.items()):
            kind = type(value)
            if kind in _BROKEN:
                cells[place] = value
            elif kind in _WHOLE and -_LIMIT <= value < _LIMIT:
                whole[place] = value
            else:
                return SENT
            schema.append((key, kind))
        return self._number(tuple(schema))

    def told(self, number: int) -> Told:
        """What a number means."""
        return tuple((key, f"{kind.__module__}.{kind.__name__}") for key, kind in self._schemas[number])

    def news(self, number: int) -> NewSchema | None:
        """What a number means, the first time."""
        if number in self._told:
            return None
        self._told.add(number)
        return NewSchema(number, self.told(number))

    def _number(self, schema: Schema) -> int:
        number = self._numbers.get(schema)
        if number is None:
            # From what it says, not from when it was first seen: a rebuilt env must use the same numbers.
            number = self._numbers[schema] = 1 + zlib.crc32(repr(schema).encode())
            self._schemas[number] = schema
        return number


class InfoReader:
    """The caller's side: puts the infos of all envs together as Gymnasium does.

    Args:
        tails: The tails of all envs' rows.
        ask: Gives the schema of an env's number, if what it sent was lost.
        add: Gymnasium's own way to add one env's info.
    """

    def __init__(
        self, tails: Array, ask: Callable[[int, int], Told], add: Callable[[dict[str, Any], Any, int], Any]
    ) -> None:
        self._schemas: dict[int, Schema] = {0: ()}
        self.numbers, self._cells = tails.view(np.int64)[:, HEAD - 1], tails[:, HEAD:]
        self._ask, self._add = ask, add
        self.in_columns = True  # whether what all envs have given alike may be handed out as Gymnasium does it

    def read(self, envs: Sequence[int], sent: Mapping[int, Any]) -> dict[str, Any]:
        """The infos of these envs; `sent` holds those that came by message, to be added in their order."""
        sent = self._learnt(sent) if sent else sent
        numbers, cells = self.numbers.tolist(), self._cells
        if not sent and not any(numbers):
            return {}
        if self.in_columns and not sent and len(envs) == len(numbers) and numbers.count(numbers[0]) == len(numbers):
            return _columns(self._schema(0, numbers[0]), cells) if numbers[0] else {}
        infos: dict[str, Any] = {}
        for env in envs:
            for info in sent[env] if env in sent else [self._single(env, numbers[env], cells[env])]:
                infos = self._add(infos, info, env)
        return infos

    def _learnt(self, sent: Mapping[int, Any]) -> dict[int, Any]:
        """Takes in what numbers mean; gives what else was sent."""
        for told in sent.values():
            if type(told) is NewSchema:
                self._schemas[told.number] = _understood(told.schema)
        return {env: infos for env, infos in sent.items() if type(infos) is not NewSchema}

    def _schema(self, env: int, number: int) -> Schema:
        if number not in self._schemas:
            self._schemas[number] = _understood(self._ask(env, number))
        return self._schemas[number]

    def _single(self, env: int, number: int, cells: Array) -> dict[str, Any]:
        whole = cells.view(np.int64)
        return {
            key: kind(cells[place]) if kind in _BROKEN else kind(whole[place])
            for place, (key, kind) in enumerate(self._schema(env, number))
        }


def add_apart(infos: dict[Any, Any], info: Mapping[str, Any], env: int) -> dict[Any, Any]:
    """Adds one env's info to {env: its info}, in which values stay as the env gave them."""
    infos[env] = {**infos.get(env, {}), **info}
    return infos


def _understood(told: Any) -> Schema:
    if not fits(told, Told) or any(kind not in _KINDS for _, kind in told):
        raise NotData("an env sent an info of numbers that are none")
    return tuple((key, _KINDS[kind]) for key, kind in told)


def _columns(schema: Schema, cells: Array) -> dict[str, Any]:
    """All envs have given the same: a column each, and a mask of ones."""
    infos: dict[str, Any] = {}
    whole = cells.view(np.int64)
    for place, (key, kind) in enumerate(schema):
        column = cells if kind in _BROKEN else whole
        infos[key] = column[:, place].astype(kind)
        infos[f"_{key}"] = np.ones(len(cells), np.bool_)
    return infos
