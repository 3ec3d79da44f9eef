"""A real HTTP server on this machine that speaks the OpenAI chat protocol, for tests of whatever talks to a model.

    client ── HTTP/1.1, kept alive ──► connection ──► route ──► wait ──► fault, or answer
                                       (one task each, on an event loop in a thread of the server's own)

It holds no model: an answer follows from the request alone, or from a script of yours. What goes wrong, and how often,
is for you to choose, and follows from the request and the server's seed: whoever retries gets the same texts as if
nothing had gone wrong, in whatever order the requests come.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from paceline.errors import BadInput
from paceline.testing.llm_answers import (
    Choice,
    Question,
    Refusal,
    Script,
    answer,
    asked,
    chunks,
    completion,
    error_body,
    models,
    read,
)
from paceline.testing.llm_faults import CALM, Faults
from paceline.testing.llm_http import MOST_HEAD, Request, event_response, receive, response, whole_response

__all__ = ["LlmServer", "Traffic"]

_WAITING = 1024  # connections that the kernel holds until they are accepted


@dataclass(frozen=True)
class Traffic:
    """What a server has seen so far.

    Attributes:
        requests: How many chat requests there were, retries included.
        outcomes: What became of them: "answered", "429", "500", "cut", "malformed", "refused" (the request was wrong),
            "left" (the server ended first) → how many.
        most_at_once: The most chat requests that were in the server at the same time.
    """

    requests: int
    outcomes: Mapping[str, int]
    most_at_once: int


class LlmServer:
    """An endpoint at `url`, from `with` to the end of its block.

    The same request gets the same answer, at any time and from any server. A seed changes it unless the temperature is
    0; `max_tokens` and `stop` only cut it, and `stream` only sends it in pieces.

    Args:
        answer: Plays the model: the request as a dict → the text. It is called in the server's thread, one request at
            a time, and should be a function of the request. By default an answer is drawn that looks like
            `<think>…</think><answer>Up || Left</answer>`.
        faults: What goes wrong; by default nothing.
        seed: Other seeds, other requests that meet faults.
        models: The models there are; a request for another one is refused with a 404.
        api_key: What clients must send as their key; None: nobody looks.
        port: Where to listen; 0: wherever it is free.
    """

    def __init__(
        self,
        answer: Script | None = None,
        *,
        faults: Faults = CALM,
        seed: int = 0,
        models: Iterable[str] = ("test-model",),
        api_key: str | None = None,
        port: int = 0,
    ) -> None:
        if answer is not None and not callable(answer):
            raise BadInput(f"answer is {answer!r}; give a function from a request to a text, or None")
        if seed < 0:
            raise BadInput(f"seed is {seed}; give a number that is not negative")
        self.models = (models,) if isinstance(models, str) else tuple(models)
        self._script, self._faults, self._seed = answer, faults, seed
        self._bearer = None if api_key is None else f"Bearer {api_key}"
        self._asked_port = port
        self._port: int | None = None
        self._tries: dict[str, tuple[int, int]] = {}  # digest of a request → its attempts so far, and the faults met
        self._requests = self._now = self._most = 0
        self._outcomes: Counter[str] = Counter()

    @property
    def url(self) -> str:
        """The base URL for clients, up to `/v1`.

        Raises:
            BadInput: the server is not running.
        """
        if self._port is None:
            raise BadInput("the server is not running: use it as `with LlmServer() as server:`")
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def traffic(self) -> Traffic:
        """What it has seen so far, also after its end."""
        return Traffic(self._requests, dict(self._outcomes), self._most)

    def __enter__(self) -> Self:
        if self._port is not None:
            raise BadInput("the server is running already")
        listener = socket.create_server(("127.0.0.1", self._asked_port), backlog=_WAITING)
        self._port = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(listener,), name="paceline-llm-server", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._port = None

    def _run(self, listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        attended: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._stop.is_set():  # accepted, but too late to be attended to
                writer.transport.abort()
                return
            task = asyncio.create_task(self._attend(reader, writer))
            attended[task] = writer
            task.add_done_callback(attended.pop)

        server = await asyncio.start_server(connected, sock=listener, limit=MOST_HEAD, backlog=_WAITING)
        await self._stop.wait()
        server.close()
        for task, writer in attended.items():
            task.cancel()
            writer.transport.abort()  # close() would wait for a client that does not read
        if attended:
            await asyncio.wait(list(attended))

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Looks after a connection from its beginning to its end."""
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has hung up
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of a connection, one after another, until either side has enough."""
        keep = True
        while keep:
            try:
                request = await receive(reader, writer)
            except Refusal as refusal:  # what cannot be read to its end cannot be followed by another request
                writer.write(response(refusal.status, refusal.body, keep=False))
                return
            raw, keep = await self._route(request)
            writer.write(raw)
            await writer.drain()

    async def _route(self, request: Request) -> tuple[bytes, bool]:
        """Gives the response to a request, and whether the connection lives on after it."""
        keep = request.keep
        try:
            self._check(request)
            if request.path == "/v1/models":
                return response(200, models(self.models), keep=keep), keep
            return await self._chat(request)
        except Refusal as refusal:
            return response(refusal.status, refusal.body, keep=keep), keep

    def _check(self, request: Request) -> None:
        method = _PATHS.get(request.path)
        if method is None:
            raise Refusal(404, f"there is nothing at {request.path}; there are {', '.join(_PATHS)}")
        if request.method != method:
            raise Refusal(405, f"{request.path} takes {method} only")
        if self._bearer is not None and request.headers.get("authorization") != self._bearer:
            raise Refusal(401, "the API key is wrong", code="invalid_api_key")

    async def _chat(self, request: Request) -> tuple[bytes, bool]:
        self._requests += 1
        self._now += 1
        self._most = max(self._most, self._now)
        outcome = "left"
        try:
            outcome, raw = await self._settle(request)
        except Refusal:
            outcome = "refused"
            raise
        finally:
            # Before the first byte is sent: a client that has its answer may look here, and send its next request.
            self._now -= 1
            self._outcomes[outcome] += 1
        return raw, request.keep and outcome != "cut"

    async def _settle(self, request: Request) -> tuple[str, bytes]:
        """Answers a chat request, or lets it meet its fault: gives which, and the response."""
        sent, question, name = read(request.body)
        if question.model not in self.models:
            message = f"there is no model {question.model!r}; there are {', '.join(self.models)}"
            raise Refusal(404, message, code="model_not_found", param="model")
        attempt, met = self._tries.get(name, (0, 0))
        fault = self._faults.fault(self._seed, name, attempt, met)
        self._tries[name] = attempt + 1, met + (fault is not None)
        await asyncio.sleep(self._faults.wait(self._seed, name, attempt))
        if fault in ("429", "500"):
            return fault, self._failure(int(fault), request.keep)
        identity = asked(sent, question)
        said = answer(sent, question, self._script, rambles=self._faults.rambles(self._seed, identity))
        sending = _streamed if question.stream else _whole
        return fault or "answered", sending(identity, question, said, fault, request.keep)

    def _failure(self, status: int, keep: bool) -> bytes:
        after = self._faults.retry_after
        headers = {"Retry-After": f"{after:g}"} if status == 429 and after is not None else {}
        message = "too many requests; come back later" if status == 429 else "the server failed, as it was told to"
        return response(status, error_body(status, message), keep=keep, headers=headers)


_PATHS = {"/v1/models": "GET", "/v1/chat/completions": "POST"}


def _whole(identity: str, question: Question, said: list[Choice], fault: str | None, keep: bool) -> bytes:
    raw = json.dumps(completion(identity, question, said)).encode()
    if fault is None:
        return whole_response(raw, keep=keep)
    return whole_response(raw[: len(raw) // 2], keep=keep, size=len(raw) if fault == "cut" else None)


def _streamed(identity: str, question: Question, said: list[Choice], fault: str | None, keep: bool) -> bytes:
    events = [json.dumps(chunk) for chunk in chunks(identity, question, said)]
    middle = len(events) // 2
    if fault == "cut":
        return event_response(events[:middle], keep=keep, ended=False)
    if fault == "malformed":
        events[middle] = events[middle][: len(events[middle]) // 2]
    return event_response([*events, "[DONE]"], keep=keep)
