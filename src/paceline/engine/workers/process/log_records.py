"""Log records of a worker, as fields: JSON, on a descriptor of their own, into main's own logging.

    worker: logging ──► RecordSender ──► one line of JSON ──► pipe ──► RecordReader ──► logging.getLogger(name).handle

A worker's output is only ever text, and no record is ever unpickled: whatever else writes to the pipe is a line that
is no record, and is told as such.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from paceline.engine.workers.process.pipe_reader import PipeReader

Fields = dict[str, Any]

_LONGEST = 1 << 20  # bytes of a record; a longer one is cut
_KINDS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "msg": (str,),
    "levelname": (str,),
    "levelno": (int,),
    "pathname": (str,),
    "filename": (str,),
    "module": (str,),
    "lineno": (int,),
    "funcName": (str, type(None)),
    "created": (int, float),
    "msecs": (int, float),
    "relativeCreated": (int, float),
    "thread": (int, type(None)),
    "threadName": (str, type(None)),
    "processName": (str, type(None)),
    "process": (int, type(None)),
    "taskName": (str, type(None)),
    "exc_text": (str, type(None)),
    "stack_info": (str, type(None)),
}
"""What a record itself has. Everything else in it is what a user gave as `extra`."""

SPEAKING = threading.RLock()
"""Held while what a worker wrote or logged is handed on: a fork waits for that."""

_log = logging.getLogger("paceline")


def fields_of(record: logging.LogRecord, tag: str) -> Fields:
    """A record as data: its message with its arguments in it, its exception as text."""
    fields = {name: _simple(value) for name, value in vars(record).items() if name not in ("args", "exc_info")}
    fields["msg"] = f"[{tag}] {record.getMessage()}"
    if record.exc_info and not record.exc_text:
        fields["exc_text"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _simple(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_simple(item) for item in value]
    if value is None or isinstance(value, bool):
        return value
    kind = next((kind for kind in (int, float) if isinstance(value, kind)), str)
    return kind(value)  # of the very kind: what is derived from it may be anything


def handle_fields(fields: Any) -> None:
    """Gives a record that came from a worker to the logger of its name, whose level and handlers decide."""
    record = record_of(fields)
    logger = logging.getLogger(record.name)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


def record_of(fields: Any) -> logging.LogRecord:
    """The record of these fields.

    Raises:
        ValueError: they are not those of a record.
    """
    if not isinstance(fields, dict):
        raise ValueError("not the fields of a log record")
    blank = vars(logging.makeLogRecord({}))
    content: Fields = {}
    for name, value in fields.items():
        if name in _KINDS:
            if not isinstance(value, _KINDS[name]):
                raise ValueError(f"the field {name} of a log record is a {type(value).__name__}")
        elif name in blank or hasattr(logging.LogRecord, name):  # args, exc_info, or a method's name
            continue
        content[name] = tuple(value) if isinstance(value, list) else value
    return logging.makeLogRecord(content)


class RecordReader(PipeReader):
    """Main's end of the pipe.

    Args:
        fd: The descriptor to read; closed with the reader.
        tag: Says which worker it is.
    """

    def __init__(self, fd: int, tag: Callable[[], str]) -> None:
        super().__init__(fd)
        self._tag = tag
        self._rest = b""

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest if len(rest) <= _LONGEST else b""  # no record of ours: it will not be read as JSON
        with SPEAKING:
            for line in lines:
                self._record(line)

    def _record(self, line: bytes) -> None:
        try:
            fields = json.loads(line)
            record_of(fields)
        except (ValueError, RecursionError) as error:
            _log.warning("[%s] a log record could not be read: %s", self._tag(), error)
            return
        with contextlib.suppress(Exception):  # a handler of the user's may raise: the others must still be heard
            handle_fields(fields)


class RecordSender(logging.Handler):
    """Sends a worker's log records to main, where main's own handlers and levels decide."""

    def __init__(self, fd: int, tag: Callable[[], str]) -> None:
        super().__init__()
        self._fd = fd
        self._tag = tag

    def emit(self, record: logging.LogRecord) -> None:
        try:
            data = _line(fields_of(record, self._tag()))
            while data:
                data = data[os.write(self._fd, data) :]
        except Exception:
            self.handleError(record)


def _line(fields: Fields) -> bytes:
    data = json.dumps(fields).encode()
    if len(data) >= _LONGEST:
        own = {name: value for name, value in fields.items() if name in _KINDS}
        cut = {name: value[: _LONGEST // 64] if isinstance(value, str) else value for name, value in own.items()}
        data = json.dumps(cut).encode()
    return data + b"\n"
