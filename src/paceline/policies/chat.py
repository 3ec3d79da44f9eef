"""A policy that asks a language model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, OpenAI itself.

    turn ──► body ──► [slot] POST …/chat/completions ──► choice ──► Reply
                        ▲                │
                        └──── pause ◄────┘ 429, 5xx, cut, timeout, broken JSON

What it answers depends on the messages, the turn's seed and the server alone: never on the order of arrival, nor on
how many turns are asked at once, nor on what had to be tried again.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus, urlsplit, urlunsplit

from pydantic import SecretStr

from paceline.errors import BadInput
from paceline.policies.chat_exchange import Fault, fault_of, pause, reply_of, valid
from paceline.types import Reply, Turn

__all__ = ["ChatPolicy", "Usage"]

OPENAI = "https://api.openai.com/v1"
_MOST_CONNECTIONS = 1000  # the openai package opens no more
_OWN = ("model", "messages", "seed", "stream", "n")  # what a turn decides, or the reading of an answer relies on
_MOST_SAID = 500  # characters of a server's words that an error repeats
_SHORT = 4  # characters: what is no longer may stand in any text
_LOW_31 = (1 << 31) - 1
_LOW_63 = (1 << 63) - 1


@dataclass(frozen=True)
class Usage:
    """What a policy has used so far.

    Attributes:
        requests: Requests that were sent, retries included.
        retries: Those of them that asked again.
        prompt_tokens: As the endpoint counted them, over all answers.
        completion_tokens: The same for what was answered.
        faults: Kind of fault ("rate_limit", "server", "connection", "timeout", "malformed", "refused") → how many.
    """

    requests: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    faults: Mapping[str, int]


@dataclass
class _Line:
    """What belongs to one event loop: a client, the slots, and what closes the client when the loop ends."""

    client: Any
    slots: asyncio.Semaphore
    keeper: AsyncGenerator[Any, None]


class ChatPolicy:
    """Answers turns with the model at an endpoint; many at once, from any number of event loops.

    A seed is sent with each turn: its lowest 31 bits, since some servers take no more (and take −1 as "draw your own").
    A cut-off answer (`finish_reason` "length") is an answer. Connections live until `close()`, or until `asyncio.run`
    ends; the policy can be used again after either.

    Args:
        model: Its name at the endpoint.
        base_url: The endpoint, up to and with `/v1`; by default OPENAI_BASE_URL, else OpenAI's own.
        api_key: By default OPENAI_API_KEY; an endpoint of your own gets "none" if there is neither.
        temperature: For sampling; None: not sent.
        max_tokens: The most tokens of an answer; None: not sent.
        concurrency: How many requests are under way at once, per event loop; a pause between two tries is not counted.
        timeout: Seconds for one try, from the first byte sent to the last one read.
        retries: How often a turn is asked again after 429, 408, 5xx, a lost connection, a timeout or a broken answer.
        backoff: Seconds before the first retry; they double from one to the next. A Retry-After counts before it.
        logprobs: Whether to ask for log-probabilities; they are in the reply's `extra`.
        extra: More fields for the body of each request, `{"top_p": 0.9}` or what only your server knows.

    Raises:
        BadInput: an argument makes no sense, or the `openai` package is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 1.0,
        max_tokens: int | None = 512,
        concurrency: int = 64,
        timeout: float = 60.0,
        retries: int = 5,
        backoff: float = 0.5,
        logprobs: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._openai = _import_openai()
        self.model = model
        self._url, self._key = _endpoint(base_url, api_key)
        self._concurrency, self._retries = concurrency, retries
        self._timeout, self._backoff = timeout, backoff
        _check(model, concurrency, timeout, retries, backoff)
        self._body = _body(temperature, max_tokens, logprobs, extra)
        self._lock = threading.Lock()
        self._lines: dict[asyncio.AbstractEventLoop, _Line] = {}
        self._counts = dict.fromkeys(("requests", "retries", "prompt_tokens", "completion_tokens"), 0)
        self._faults: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"ChatPolicy({self.model!r}, base_url={_without_secrets(self._url)!r})"

    @property
    def usage(self) -> Usage:
        """What has been used so far, by all event loops together."""
        with self._lock:
            return Usage(**self._counts, faults=dict(self._faults))

    async def answer(self, turn: Turn) -> Reply:
        """Asks the model, again and again if need be.

        Raises:
            BadInput: the turn has no messages, or the endpoint refuses the request.
            ConnectionError: there was no answer at the last try either; its `tries` says how many there were.
            TimeoutError: the same, and the last try was a timeout.
        """
        body = self._request(turn)
        seen: list[Fault] = []
        while True:
            outcome = await self._try(body, len(seen))
            if isinstance(outcome, Reply):
                return outcome
            seen.append(outcome)
            if not outcome.passing or len(seen) > self._retries:
                failure = self._failure(seen)
                failure.tries = len(seen)  # type: ignore[attr-defined]  # for whoever counts what was asked
                raise failure
            await asyncio.sleep(pause(outcome, len(seen), turn.seed & _LOW_63, self._backoff))

    async def close(self) -> None:
        """Closes the connections of the running event loop; those of other loops end with them."""
        with self._lock:
            line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.keeper.aclose()

    def _request(self, turn: Turn) -> dict[str, Any]:
        if not turn.messages:
            raise BadInput(f"turn {turn.number} of environment {turn.env_id} has no messages; a chat model needs some")
        messages = [
            {name: valid(value) if isinstance(value, str) else value for name, value in message.items()}
            for message in turn.messages
        ]
        return {**self._body, "model": self.model, "messages": messages, "seed": turn.seed & _LOW_31}

    async def _try(self, body: dict[str, Any], retries: int) -> Reply | Fault:
        line = await self._line()
        async with line.slots:
            self._count(requests=1, retries=int(retries > 0))
            try:
                # The package's own timeout starts anew with every byte that comes; a slow drip would never end.
                async with asyncio.timeout(self._timeout):
                    # Not chat.completions.create: it walks through every message, which takes longer than the rest.
                    said = await line.client.post("/chat/completions", cast_to=str, body=body)
                outcome = reply_of(said, retries)
            except Exception as error:
                outcome = fault_of(error, self._openai, self._timeout)
        if isinstance(outcome, Reply):
            self._count(prompt_tokens=outcome.prompt_tokens, completion_tokens=outcome.completion_tokens)
        else:
            with self._lock:
                self._faults[outcome.kind] += 1
        return outcome

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                self._counts[name] += number

    async def _line(self) -> _Line:
        loop = asyncio.get_running_loop()
        line = self._lines.get(loop)
        if line is None:
            keeper = self._keep_client()  # its first step does not give way, so no two turns make a line each
            line = _Line(await anext(keeper), asyncio.Semaphore(self._concurrency), keeper)
            with self._lock:
                for other in [other for other in self._lines if other.is_closed()]:
                    del self._lines[other]
                self._lines[loop] = line
        return line

    async def _keep_client(self) -> AsyncGenerator[Any, None]:
        """Lends a client. `asyncio.run` closes the generators that are left, so no connection outlives its loop."""
        client = self._openai.AsyncOpenAI(
            api_key=self._key.get_secret_value(), base_url=self._url, timeout=self._timeout, max_retries=0
        )
        try:
            yield client
        finally:
            await client.close()

    def _failure(self, seen: list[Fault]) -> Exception:
        last = seen[-1]
        where = f"{_without_secrets(self._url)}/chat/completions, model {self.model!r}"
        # Some servers repeat the key that they refuse. It is looked for before the text is cut: half a key is one, too.
        said = str(last)
        for secret in _secrets(self._url, self._key.get_secret_value()):
            said = said.replace(secret, "***")
        said = said[:_MOST_SAID]
        if not last.passing:
            return BadInput(f"{where}: {said}{_advice(last.status)}")
        kinds = ", ".join(f"{kind} × {count}" for kind, count in Counter(fault.kind for fault in seen).items())
        kind = TimeoutError if last.kind == "timeout" else ConnectionError
        return kind(f"{where}: no answer after {len(seen)} tries ({kinds}); at last: {said}")


def _import_openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise BadInput("ChatPolicy needs the openai package: pip install 'paceline[llm]'") from error
    return openai


def _endpoint(base_url: str | None, api_key: str | None) -> tuple[str, SecretStr]:
    if base_url is not None and not base_url.strip():
        # Most likely a variable of the shell that is not set: what was meant for a server of one's own, and a key with
        # it, must not go to OpenAI.
        raise BadInput("base_url is empty; give one like http://127.0.0.1:8000/v1, or leave it out for OpenAI's")
    own = base_url or os.environ.get("OPENAI_BASE_URL")
    key = (api_key or os.environ.get("OPENAI_API_KEY") or ("none" if own else "")).strip()
    if not key:
        raise BadInput("OpenAI's endpoint needs a key: set OPENAI_API_KEY, or give base_url for a server of your own")
    if not (key.isascii() and key.isprintable()):
        raise BadInput("the API key has characters that no HTTP header can carry; copy it anew")
    url = (own or OPENAI).rstrip("/")
    if not _is_url(url):
        raise BadInput(f"base_url is {_without_secrets(url)!r}; give one like http://127.0.0.1:8000/v1")
    return url, SecretStr(key)


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _check(model: str, concurrency: int, timeout: float, retries: int, backoff: float) -> None:
    if not model:
        raise BadInput("model is empty; give its name at the endpoint")
    if not 1 <= concurrency <= _MOST_CONNECTIONS:
        raise BadInput(f"concurrency is {concurrency}; give 1 to {_MOST_CONNECTIONS}")
    if not timeout > 0:
        raise BadInput(f"timeout is {timeout}; give seconds, more than 0")
    if retries < 0 or backoff < 0:
        raise BadInput(f"retries is {retries} and backoff is {backoff}; neither can be negative")


def _body(
    temperature: float | None, max_tokens: int | None, logprobs: bool, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    if taken := [name for name in extra or {} if name in _OWN]:
        raise BadInput(f"extra sets {', '.join(taken)}; that is the policy's own to set")
    chosen = {"temperature": temperature, "max_tokens": max_tokens, "logprobs": logprobs or None, **(extra or {})}
    return {name: value for name, value in chosen.items() if value is not None}


def _advice(status: int | None) -> str:
    if status in (401, 403):
        return "; check api_key, or OPENAI_API_KEY"
    return "; check the model's name, and that base_url ends where /chat/completions begins" if status == 404 else ""


def _without_secrets(url: str) -> str:
    """An address as it may be shown: without a password, and without the values of its query, which may be keys."""
    try:
        parts = urlsplit(url)
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    except ValueError:
        pass  # it is none, and is about to be refused
    return re.sub(r"([?&][^=&#]*)=[^&#]*", r"\1=***", url)


def _secrets(url: str, key: str) -> list[str]:
    """What must not be repeated in what a server says: the longest first, as one may be a part of another."""
    parts = urlsplit(url)
    given = re.findall(r"[?&][^=&#]*=([^&#]*)", url)
    found = {key, parts.password or "", *given, *map(unquote_plus, given)}
    return sorted((each for each in found if len(each) > _SHORT), key=len, reverse=True)
