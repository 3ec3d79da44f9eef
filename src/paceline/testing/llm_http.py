"""HTTP/1.1, as much of it as the test server needs: read a request, put a response into bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from paceline.testing.llm_answers import Refusal

MOST_HEAD = 1 << 16
"""The most bytes of a request line with its headers; the limit of the stream reader."""

_MOST_BODY = 1 << 26


@dataclass(frozen=True)
class Request:
    """A request; header names are in lower case, and `keep` is whether the client wants to go on after it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keep: bool


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    """Reads one request.

    Raises:
        Refusal: it is no HTTP, too large, or of unknown length.
    """
    try:
        top = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise Refusal(431, f"the headers are longer than {MOST_HEAD} bytes") from None
    line, *rows = top.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise Refusal(400, f"this is no HTTP/1.1 request: {line[:80]!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (row.partition(":") for row in rows)}
    size = _length(headers)
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    keep = headers.get("connection", "keep-alive" if parts[2] == "HTTP/1.1" else "close").lower() != "close"
    return Request(parts[0], parts[1].partition("?")[0], headers, await reader.readexactly(size), keep)


def _length(headers: Mapping[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise Refusal(411, "the body comes in chunks; send it whole, with a Content-Length")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Refusal(400, f"Content-Length is {length[:40]!r}; expected a number")
    if len(length) > 18 or int(length) > _MOST_BODY:
        raise Refusal(413, f"the body is longer than {_MOST_BODY} bytes")
    return int(length)


def response(status: int, body: Any, *, keep: bool, headers: Mapping[str, str] | None = None) -> bytes:
    """A response with a JSON body."""
    return whole_response(json.dumps(body).encode(), status=status, keep=keep, headers=headers)


def whole_response(
    raw: bytes, *, status: int = 200, keep: bool, size: int | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """A response with this body; `size` is how many bytes it claims to have, if not as many as it has."""
    length = str(len(raw) if size is None else size)
    return _head(status, {"Content-Type": "application/json", "Content-Length": length, **(headers or {})}, keep) + raw


def event_response(events: Iterable[str], *, keep: bool, ended: bool = True) -> bytes:
    """A stream of server-sent events, each a chunk; one that is not ended lacks the chunk that says so."""
    rows = (f"data: {event}\n\n".encode() for event in events)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(row), row) for row in rows)
    headers = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
    return _head(200, headers, keep) + chunks + (b"0\r\n\r\n" if ended else b"")


def _head(status: int, headers: Mapping[str, str], keep: bool) -> bytes:
    rows = {**headers, "Connection": "keep-alive" if keep else "close"}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in rows.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
