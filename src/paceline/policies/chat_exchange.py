"""What comes of one request to a chat server: an answer, or a fault, and how long to wait after it.

body of an answer ─────────────── reply_of ──► Reply, or Fault
exception of the openai package ─ fault_of ──► Fault: its kind, what was said, what the server asks to wait
Fault, number of the try, seed ── pause ─────► seconds
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from paceline.seeds import seed_of
from paceline.types import Reply

LONGEST_PAUSE = 60.0
"""Nobody waits for more seconds than this between two tries, whatever the server asks for."""

_MOST_SAID = 5000  # characters of a server's words that are kept
_KEPT = ("logprobs", "token_ids", "prompt_token_ids", "reasoning_content", "reasoning", "refusal")


@dataclass(frozen=True)
class Fault:
    """Why a request was not answered.

    Attributes:
        kind: "rate_limit", "server", "connection", "timeout", "malformed", or "refused".
        said: What the server, or the connection, had to say.
        status: The status of the answer; None if there was none.
        wait: The seconds that the server asks to wait; None if it does not.
    """

    kind: str
    said: str
    status: int | None = None
    wait: float | None = None

    @property
    def passing(self) -> bool:
        """Whether another try may do better; if not, the request itself is wrong."""
        return self.kind != "refused"

    def __str__(self) -> str:
        return self.said if self.status is None else f"status {self.status}: {self.said}"


def reply_of(content: str, retries: int) -> Reply | Fault:
    """Reads an answer; what is no chat completion is a fault, since another try may well bring one.

    Args:
        content: The body of a response whose status was fine.
        retries: How often the question was asked before.
    """
    try:
        answer = json.loads(content)
        choice = answer["choices"][0]
        message, usage = choice["message"], answer.get("usage") or {}
        text = valid(message.get("content") or "")
        used = {name: int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")}
        fields = {**answer, **message, **choice}
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        said = f"the answer is not a chat completion ({type(error).__name__}: {error}): {content[:200]!r}"
        return Fault("malformed", said[:_MOST_SAID], 200)
    kept = {name: fields[name] for name in _KEPT if fields.get(name) is not None}
    return Reply(text, str(choice.get("finish_reason") or "stop"), **used, retries=retries, extra=kept)


def valid(text: str) -> str:
    """The text, with a question mark for each half of a surrogate pair: a Python string may have one, UTF-8 may not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text  # the very string: a conversation is sent again with every turn


def fault_of(error: Exception, openai: Any, timeout: float) -> Fault:
    """Tells what an exception means. One that is no fault of the exchange is raised again.

    Args:
        error: What a request raised.
        openai: The package of that name.
        timeout: How many seconds the request had.
    """
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Fault("timeout", f"no answer within {timeout:g} s")
    if isinstance(error, openai.APIStatusError):
        return _fault_of_status(error.status_code, _words(error), error.response.headers)
    if isinstance(error, openai.APIConnectionError):
        root = error.__cause__ or error
        return Fault("connection", f"{type(root).__name__}: {root}"[:_MOST_SAID])
    raise error


def _fault_of_status(status: int, said: str, headers: Mapping[str, str]) -> Fault:
    wait = retry_after(headers, time.time())
    if status == 429:
        return Fault("rate_limit", said, status, wait)
    if status >= 500 or status == 408:  # 408: the server did not get the whole request in time
        return Fault("server", said, status, wait)
    return Fault("refused", said, status)


def _words(error: Any) -> str:
    body = error.body
    said = body.get("message") if isinstance(body, Mapping) else body
    return str(said or error.message)[:_MOST_SAID]


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Reads what a server asks to wait, in seconds: from Retry-After (seconds or a date), or retry-after-ms.

    Args:
        headers: Of the answer.
        now: Seconds since the epoch, for a date.

    Returns:
        Seconds, never negative; None if there is no such header, or nobody can read it.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (said := headers.get(name)) is not None:
            seconds = _number(said, unit)
            if seconds is None and unit == 1.0:
                seconds = _until(said, now)
            if seconds is not None:
                return max(0.0, seconds)
    return None


def _number(said: str, unit: float) -> float | None:
    try:
        number = float(said) * unit
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _until(said: str, now: float) -> float | None:
    try:
        return parsedate_to_datetime(said).timestamp() - now
    except (ValueError, OverflowError):
        return None


def pause(fault: Fault, tried: int, seed: int, first: float) -> float:
    """How many seconds to wait before the next try.

    What the server asks for counts; else the pause doubles with each try. Both are spread a little, so that those who
    failed together do not come back together; the spread follows from the seed, not from a clock or a global generator.

    Args:
        fault: What went wrong.
        tried: How many tries there were, 1 or more.
        seed: The turn's.
        first: The pause after the first try, if the server asks for none.
    """
    spread = seed_of(seed, "pause", tried) / (1 << 63)
    if fault.wait is not None:
        return min(fault.wait * (1 + spread / 4), LONGEST_PAUSE)
    return min(first * 2.0 ** min(tried - 1, 30), LONGEST_PAUSE) * (0.5 + spread / 2)
