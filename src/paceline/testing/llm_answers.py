"""What the test server says: a request is checked, answered in tokens, and put into the shapes of the OpenAI protocol.

body ── read ──► Question ── answer ──► Choice × n ──┬─► completion   one JSON object
                                                     └─► chunks       the same, token by token
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from paceline.seeds import digest, sequence

Script = Callable[[dict[str, Any]], str]
"""Plays the model: the request as it was sent → the text of the answer."""

CONTEXT = 4096
"""After so many tokens even a model that never comes to its end is cut off."""

_TOKEN = re.compile(r"\s?\w{1,6}|\s?[^\w\s]|\s")
_ACTIONS = ("Up", "Down", "Left", "Right")
_MUSINGS = ("so", "the", "box", "is", "near", "a", "wall", "and", "each", "free", "cell", "may", "lead", "on", "again")
_BORN = 1_700_000_000  # when every answer says that it was made: a clock would make two answers differ


class Refusal(Exception):
    """A request that is answered with an error: the status, and what is wrong."""

    def __init__(self, status: int, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(status, message, code=code, param=param)


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")

    role: str = Field(min_length=1)
    content: str | list[dict[str, Any]] | None = None


class _StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")

    include_usage: bool = False


class Question(BaseModel):
    """A chat request, checked; what is not named here is let through and changes nothing."""

    model_config = ConfigDict(strict=True, extra="allow")

    model: str
    messages: list[_Message] = Field(min_length=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)
    n: int | None = Field(None, ge=1, le=128)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    stream: bool | None = None
    stream_options: _StreamOptions | None = None

    @property
    def limit(self) -> int | None:
        """How many tokens the answer may have; None: as many as it likes."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens


@dataclass(frozen=True)
class Choice:
    """One answer: its tokens, and why it ended."""

    tokens: list[str]
    finish_reason: str
    logprobs: list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.tokens)


def read(body: bytes) -> tuple[dict[str, Any], Question, str]:
    """Reads a request: as it was sent, the same checked, and its digest.

    Raises:
        Refusal: it is no JSON object, or a field is missing or wrong.
    """
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(sent, dict):
        raise Refusal(400, f"the body is a {type(sent).__name__}; expected a JSON object with model and messages")
    try:
        return sent, Question.model_validate(sent), digest(sent)
    except RecursionError:
        raise Refusal(400, "the body is nested too deeply") from None
    except ValidationError as error:
        fault = error.errors()[0]
        path = ".".join(str(part) for part in fault["loc"])
        raise Refusal(400, f"{path}: {fault['msg'][:1].lower()}{fault['msg'][1:]}", param=path) from None


def asked(sent: Mapping[str, Any], question: Question) -> str:
    """A digest of what decides about the content of an answer; how it is sent, and where it is cut, do not."""
    temperature = 1.0 if question.temperature is None else float(question.temperature)
    seed = question.seed if temperature else None  # a greedy answer has nothing to draw
    return digest([question.model, sent["messages"], temperature, question.top_p, seed])


def answer(sent: dict[str, Any], question: Question, script: Script | None, *, rambles: bool) -> list[Choice]:
    """Gives the answers, as many as are asked for.

    Args:
        sent: The request as it was sent.
        question: The same, checked.
        script: Plays the model; None: something that looks right is drawn.
        rambles: The model never comes to its answer.

    Raises:
        Refusal: the script raised, or gave no text.
    """
    identity = asked(sent, question)
    choices = []
    for index in range(question.n or 1):
        rng = np.random.default_rng(sequence(int(identity[:16], 16), "choice", index))
        if rambles:
            choices.append(_ramble(question, rng))
        else:
            choices.append(_cut(_drawn(rng) if script is None else _played(script, sent), question, rng))
    return choices


def _ramble(question: Question, rng: np.random.Generator) -> Choice:
    limit = min(question.limit or CONTEXT, CONTEXT)
    return _choice([f" {word}" for word in rng.choice(_MUSINGS, limit)], "length", question, rng)


def _drawn(rng: np.random.Generator) -> str:
    musing = " ".join(rng.choice(_MUSINGS, rng.integers(4, 12)))
    actions = " || ".join(rng.choice(_ACTIONS, rng.integers(1, 4)))
    return f"<think>{musing}</think><answer>{actions}</answer>"


def _played(script: Script, sent: dict[str, Any]) -> str:
    # 400 and not 500: whoever wrote the script wants to see the error at once, not after some retries.
    try:
        text = script(sent)
    except Exception as error:
        message = f"the server's answer function raised {type(error).__name__}: {error}"
        raise Refusal(400, message, code="answer_raised") from error
    if not isinstance(text, str):
        message = f"the server's answer function gave a {type(text).__name__}; expected a string"
        raise Refusal(400, message, code="answer_raised")
    return text


def _cut(text: str, question: Question, rng: np.random.Generator) -> Choice:
    stops = [question.stop] if isinstance(question.stop, str) else question.stop or []
    ends = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    tokens = _TOKEN.findall(text[: min(ends, default=None)])
    limit = question.limit
    if limit is None or len(tokens) <= limit:
        return _choice(tokens, "stop", question, rng)
    return _choice(tokens[:limit], "length", question, rng)


def _choice(tokens: list[str], reason: str, question: Question, rng: np.random.Generator) -> Choice:
    return Choice(tokens, reason, _likelihoods(tokens, question, rng) if question.logprobs else None)


def _likelihoods(tokens: list[str], question: Question, rng: np.random.Generator) -> list[dict[str, Any]]:
    rows = []
    for token in tokens:
        likely = -float(rng.random())
        others = [_likelihood(f" {word}", likely - place - 1) for place, word in enumerate(_MUSINGS * 2)]
        top = [_likelihood(token, likely), *others][: question.top_logprobs or 0]
        rows.append({**_likelihood(token, likely), "top_logprobs": top})
    return rows


def _likelihood(token: str, likely: float) -> dict[str, Any]:
    return {"token": token, "logprob": likely, "bytes": list(token.encode("utf-8", "replace"))}


def completion(identity: str, question: Question, choices: list[Choice]) -> dict[str, Any]:
    """The answer as one object."""
    rows = [
        {
            "index": index,
            "message": {"role": "assistant", "content": choice.text},
            "logprobs": None if choice.logprobs is None else {"content": choice.logprobs},
            "finish_reason": choice.finish_reason,
        }
        for index, choice in enumerate(choices)
    ]
    return {**_head(identity, question, "chat.completion"), "choices": rows, "usage": _usage(question, choices)}


def chunks(identity: str, question: Question, choices: list[Choice]) -> Iterator[dict[str, Any]]:
    """The answer token by token, in the objects of a stream."""
    head = _head(identity, question, "chat.completion.chunk")
    for index, choice in enumerate(choices):
        yield {**head, "choices": [_piece(index, {"role": "assistant", "content": ""})]}
        for number, token in enumerate(choice.tokens):
            likely = None if choice.logprobs is None else {"content": [choice.logprobs[number]]}
            yield {**head, "choices": [{**_piece(index, {"content": token}), "logprobs": likely}]}
        yield {**head, "choices": [_piece(index, {}, choice.finish_reason)]}
    if question.stream_options is not None and question.stream_options.include_usage:
        yield {**head, "choices": [], "usage": _usage(question, choices)}


def _piece(index: int, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


def _head(identity: str, question: Question, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{identity[:24]}", "object": kind, "created": _BORN, "model": question.model}


def _usage(question: Question, choices: list[Choice]) -> dict[str, int]:
    prompt = sum(3 + len(_TOKEN.findall(_shown(message.content))) for message in question.messages)
    said = sum(len(choice.tokens) for choice in choices)
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}


def _shown(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return content or ""


def models(names: tuple[str, ...]) -> dict[str, Any]:
    """The list of models."""
    rows = [{"id": name, "object": "model", "created": _BORN, "owned_by": "paceline"} for name in names]
    return {"object": "list", "data": rows}


_TYPES = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error"}


def error_body(status: int, message: str, *, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error in the shape of the OpenAI protocol."""
    kind = _TYPES.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
