"""What a worker that is trusted with data only may say: the answer to what it was asked, in the form that it has.

    send(request) ──► asked          receive ──► heard: is this a reply to the first request without one?

The reader of plain_data.py sees to it that a message is data. This sees to it that the data is a reply: that it answers
for those who were asked, each once, so that nothing in main meets a number or a name that it does not know.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.engine.host.host import named_in
from paceline.engine.host.member import ERROR, OK, SHARED, STALE
from paceline.engine.transport.plain_data import Plain, fits
from paceline.engine.workers.base import Reply, Request
from paceline.errors import NotData

_ROOM = 1 << 20  # bytes of a message beside its answers
_ABILITIES = {"snapshots": bool, "recalls": bool, "isolated": bool, "stood": str}
_Layout = dict[str, tuple[tuple[int, ...], str]]


class Sentry:
    """Stands at main's end of one worker.

    Args:
        max_message: Bytes that one answer may have.
        on_threads: Whether it runs members on threads, where they may be seen to share a random stream.
    """

    def __init__(self, max_message: int, on_threads: bool) -> None:
        self._max_message = max_message
        self._kinds = (OK, ERROR, STALE, SHARED) if on_threads else (OK, ERROR, STALE)
        self._due: deque[tuple[str, list[int], Sequence[Any]]] = deque()
        self._ports: dict[int, tuple[set[int], _Layout]] = {}
        self.most = _ROOM
        """Bytes that the next message may have."""

    def asked(self, request: Request) -> None:
        """Takes note of what a worker is asked."""
        op, *content = request
        if op == "bind":
            number, _, rows, inputs, arrays = content
            written = {name: array for name, array in arrays.items() if name not in {*inputs, "asked"}}
            self._ports[number] = {item for item, _ in rows.values()}, written
        elif op == "unbind":
            self._ports.pop(content[0], None)
        names = named_in(request)
        self._due.append((op, names, content[:3] if op == "ship" else ()))
        rows = _nbytes(self._port(content[0])[1]) if op == "ship" else 0
        self.most = max(self.most, _ROOM + (len(names) + 1) * self._max_message + rows)

    def heard(self, message: Any) -> Reply:
        """Gives the message, if it is one.

        Raises:
            NotData: says what is wrong with it.
        """
        if not fits(message, tuple[str, tuple[Any, ...]]):
            raise _odd("a message that is neither a reply nor news")
        kind, content = message
        if kind == "reply" and self._due and fits(content, tuple[Any, list[tuple[str, int, float, float]]]):
            self._check_answer(*self._due.popleft(), content[0])
        elif kind == "news" and fits(content, tuple[int, int, Any]):
            self._check_news(*content)
        else:
            raise _odd("a reply to nothing that it was asked")
        return kind, content

    def _check_answer(self, op: str, names: list[int], shipped: Sequence[Any], answer: Any) -> None:
        if op in ("build", "call", "map", "snapshot"):
            if type(answer) is not list or Counter(self._result(op, each) for each in answer) != Counter(names):
                raise _odd(f"answers of others than were asked ({op})")
        elif op == "bind":
            if type(answer) is not list or not all(self._result(op, each) in names for each in answer):
                raise _odd("answers of others than were bound")
        elif op == "ship":
            self._check_rows(shipped, answer)
        elif answer is not None:
            raise _odd(f"an answer to {op}, which has none")

    def _check_news(self, number: int, item: int, result: Any) -> None:
        self._result("news", result)
        if number in self._ports and item not in self._ports[number][0]:  # else it has been closed meanwhile
            raise _odd("news of an item that it does not have")

    def _port(self, number: int) -> tuple[set[int], _Layout]:
        return self._ports.get(number, (set(), {}))

    def _check_rows(self, shipped: Sequence[Any], answer: Any) -> None:
        if answer is None:  # it could not be run: there is news of each
            return
        number, items, numbers = shipped
        _, layout = self._port(number)
        if not fits(answer, tuple[dict[str, np.ndarray], np.ndarray]):
            raise _odd("rows of no port")
        outputs, state = answer
        if outputs.keys() != layout.keys() - {"state"}:
            raise _odd("other rows than the outputs of the port")
        for name, rows, count in (*((*each, len(numbers)) for each in outputs.items()), ("state", state, len(items))):
            if rows.shape != (count, *layout[name][0][1:]) or rows.dtype.str != layout[name][1]:
                raise _odd(f"rows of another shape than those of the port ({name[:40]})")

    def _result(self, op: str, result: Any) -> int:
        """Checks one result. Returns whose it is."""
        if not fits(result, tuple[int, int, Any, int | None, Any]) or result[1] not in self._kinds:
            raise _odd("a result that is none")
        index, kind, payload, checked, base = result
        if kind == STALE:
            sound = payload is None
        elif kind != OK:
            sound = type(payload) is Plain
        elif op == "build":
            sound = type(payload) is dict and {name: type(each) for name, each in payload.items()} == _ABILITIES
        elif op == "snapshot":
            sound = payload is None and base is not None
        else:
            sound = type(payload) is Plain
        if not sound or (checked is None and kind != OK) or not _is_base(base):
            raise _odd("a result that is none")
        if type(payload) is Plain and payload.nbytes > self._max_message:
            raise _odd(f"an answer of {payload.nbytes} bytes, above max_message")
        return int(index)


def _nbytes(layout: _Layout) -> int:
    return sum(int(np.prod(shape)) * np.dtype(kind).itemsize for shape, kind in layout.values())


def _is_base(base: Any) -> bool:
    return fits(base, tuple[bytes | tuple[bytes, list[bytes]] | None, bytes | None] | None)


def _odd(what: str) -> NotData:
    return NotData(f"it sent {what}")
