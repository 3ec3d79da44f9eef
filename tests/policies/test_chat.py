"""A real client against a real server: whatever goes wrong between them, the answers are the same."""

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.policies.chat import ChatPolicy, Usage
from paceline.policies.chat_exchange import LONGEST_PAUSE, Fault, pause, reply_of, retry_after
from paceline.roles import TextPolicy
from paceline.testing.llm_faults import CALM, Faults
from paceline.testing.llm_http import receive, response
from paceline.testing.llm_server import LlmServer
from paceline.types import Reply, Turn

KEY = "sk-very-secret-key"
KINDS = {"429": "rate_limit", "500": "server", "cut": "connection", "malformed": "malformed"}


@pytest.fixture(autouse=True)
def no_settings_of_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def turn(number: int = 0, text: str = "Which way?") -> Turn:
    return Turn(
        number, 0, "T", "sokoban", 0, text, 5, ({"role": "user", "content": text},), seed=(number << 31) + number
    )


def policy(server: LlmServer, **options: Any) -> ChatPolicy:
    return ChatPolicy(options.pop("model", "test-model"), base_url=server.url, **{"backoff": 0.001, **options})


def ask(mind: ChatPolicy, *turns: Turn) -> list[Reply]:
    """All turns at once, in an event loop of their own."""

    async def together() -> list[Reply]:
        return await asyncio.gather(*map(mind.answer, turns))

    return asyncio.run(together())


def only(**rates: Any) -> Faults:
    return replace(CALM, **rates)


def test_it_is_a_policy_of_text() -> None:
    assert isinstance(ChatPolicy("m", base_url="http://127.0.0.1:1/v1"), TextPolicy)


def test_a_turn_is_sent_as_it_is() -> None:
    seen: list[dict[str, Any]] = []

    def script(request: dict[str, Any]) -> str:
        seen.append(request)
        return "<answer>Up</answer>"

    extra = {"top_p": 0.5, "chat_template_kwargs": {"enable_thinking": False}}
    with LlmServer(script) as server:
        (reply,) = ask(policy(server, temperature=0.7, max_tokens=9, extra=extra), turn(3))
        ask(policy(server, temperature=None, max_tokens=None), turn(3))
    assert reply == Reply("<answer>Up</answer>", prompt_tokens=reply.prompt_tokens, completion_tokens=8)
    assert seen[0] == {
        "model": "test-model",
        "messages": [{"role": "user", "content": "Which way?"}],
        "seed": 3,  # the lowest 31 bits of it
        "temperature": 0.7,
        "max_tokens": 9,
        **extra,
    }
    assert seen[1].keys() == {"model", "messages", "seed"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_is_tried_again(kind: str) -> None:
    with LlmServer() as server:
        (right,) = ask(policy(server), turn())
    with LlmServer(faults=only(**{f"rate_{kind}": 1.0}, retry_after=0.001)) as server:
        mind = policy(server)
        (reply,) = ask(mind, turn())
        assert reply == replace(right, retries=3)
        assert mind.usage == Usage(4, 3, reply.prompt_tokens, reply.completion_tokens, {KINDS[kind]: 3})
        assert server.traffic.outcomes == {kind: 3, "answered": 1}


@pytest.mark.parametrize("kind", KINDS)
def test_after_the_last_try_the_story_is_told(kind: str) -> None:
    with LlmServer(faults=only(**{f"rate_{kind}": 1.0}, retry_after=0.001)) as server:
        mind = policy(server, retries=2)
        with pytest.raises(ConnectionError, match=rf"no answer after 3 tries \({KINDS[kind]} × 3\)") as told:
            ask(mind, turn())
        assert f"{server.url}/chat/completions, model 'test-model'" in str(told.value)
        assert mind.usage.faults == {KINDS[kind]: 3}


def test_a_timeout_is_tried_again_and_told() -> None:
    with LlmServer(faults=only(latency=(600.0, 600.0))) as server:
        mind = policy(server, retries=1, timeout=0.05)
        with pytest.raises(TimeoutError, match=r"after 2 tries \(timeout × 2\); at last: no answer within 0.05 s"):
            ask(mind, turn())
    assert mind.usage.faults == {"timeout": 2}


def test_nobody_there_is_a_lost_connection() -> None:
    with LlmServer() as server:
        mind = policy(server, retries=1)
    with pytest.raises(ConnectionError, match=r"connection × 2"):
        ask(mind, turn())


def test_a_slow_drip_is_a_timeout() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.01)

    async def main() -> None:
        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        mind = ChatPolicy("m", base_url=url, timeout=0.1, retries=0)
        with pytest.raises(TimeoutError):
            await mind.answer(turn())
        await mind.close()
        server.close()
        await asyncio.sleep(0.05)  # until the drip sees that nobody is there

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"model": "other"}, r"model 'other': status 404: there is no model 'other'.*check the model's name"),
        ({"api_key": "wrong-key"}, r"status 401: the API key is wrong; check api_key"),
        ({"extra": {"top_p": 7}}, r"status 400: top_p: "),
    ],
)
def test_the_users_mistake_is_told_at_once(options: dict[str, Any], told: str) -> None:
    with LlmServer(api_key=KEY) as server:
        mind = policy(server, **{"api_key": KEY, **options})
        with pytest.raises(BadInput, match=told) as error:
            ask(mind, turn())
    assert str(error.value).startswith(f"http://127.0.0.1:{server_port(mind)}/v1/chat/completions")
    assert (mind.usage.requests, mind.usage.faults) == (1, {"refused": 1})


def server_port(mind: ChatPolicy) -> int:
    return int(repr(mind).rpartition(":")[2].partition("/")[0])


def test_a_wrong_path_is_told_at_once() -> None:
    with LlmServer() as server:
        mind = ChatPolicy("test-model", base_url=server.url.removesuffix("/v1"))
        with pytest.raises(BadInput, match=r"status 404: there is nothing at /chat/completions.*base_url ends"):
            ask(mind, turn())
    assert mind.usage.requests == 1


def test_a_cut_off_answer_is_an_answer() -> None:
    with LlmServer(faults=only(rate_long=1.0)) as server:
        (reply,) = ask(policy(server, max_tokens=20), turn())
    assert (reply.finish_reason, reply.completion_tokens, reply.retries) == ("length", 20, 0)


def test_log_probabilities_are_kept() -> None:
    with LlmServer() as server:
        plain, full = ask(policy(server), turn())[0], ask(policy(server, logprobs=True), turn())[0]
    assert plain.extra == {}
    assert "".join(row["token"] for row in full.extra["logprobs"]["content"]) == full.text == plain.text


def test_many_at_once_answer_as_one_by_one_whatever_goes_wrong() -> None:
    turns = [turn(number, f"state {number % 20}") for number in range(40)]
    with LlmServer() as server:
        one_by_one = [reply.text for reply in ask(policy(server, concurrency=1), *turns)]
        assert server.traffic.most_at_once == 1
    faults = Faults(
        latency=(0.001, 0.02), retry_after=0.002, rate_429=0.2, rate_500=0.1, rate_cut=0.1, rate_malformed=0.1
    )
    for seed in (0, 1):
        with LlmServer(faults=faults, seed=seed) as server:
            mind = policy(server, concurrency=16)
            replies = ask(mind, *turns)
        assert [reply.text for reply in replies] == one_by_one
        assert sum(reply.retries for reply in replies) == mind.usage.retries > 0
        assert mind.usage.faults.keys() == set(KINDS.values())
        assert mind.usage.completion_tokens == sum(reply.completion_tokens for reply in replies)
        assert server.traffic.requests == mind.usage.requests


def test_no_more_than_so_many_are_under_way() -> None:
    with LlmServer(faults=only(latency=(0.01, 0.01), rate_500=0.3)) as server:
        ask(policy(server, concurrency=3), *map(turn, range(20)))
        assert server.traffic.most_at_once <= 3


def test_one_policy_serves_several_event_loops() -> None:
    with LlmServer() as server:
        mind = policy(server)
        first = ask(mind, turn(1), turn(2))
        assert ask(mind, turn(1), turn(2)) == first

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(lambda _: ask(mind, turn(1), turn(2)), range(4))) == [first] * 4

        async def closed_between() -> list[Reply]:
            replies = [await mind.answer(turn(1))]
            await mind.close()
            await mind.close()
            replies.append(await mind.answer(turn(2)))
            return replies

        assert asyncio.run(closed_between()) == first
        assert mind.usage.requests == 14
    assert not [thread for thread in threading.enumerate() if "llm-server" in thread.name]


def test_connections_are_kept_alive_and_end_with_their_loop() -> None:
    """Twenty turns, one after another, take one connection; when the loop is over the server has seen it close."""
    events: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        events.append("opened")
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await receive(reader, writer):
                writer.write(response(200, {"choices": [{"message": {"content": "hi"}}]}, keep=True))
        events.append("closed")
        writer.close()

    async def one_after_another(mind: ChatPolicy) -> None:
        for number in range(20):
            assert (await mind.answer(turn(number))).text == "hi"

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        mind = ChatPolicy("m", base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        await asyncio.to_thread(asyncio.run, one_after_another(mind))
        async with asyncio.timeout(60):
            while events.count("closed") < events.count("opened"):
                await asyncio.sleep(0.001)
        server.close()

    asyncio.run(main())
    assert events == ["opened", "closed"]


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(request: dict[str, Any]) -> str:
        raise ValueError(f"what is {KEY}? " + 99 * KEY)

    with LlmServer(api_key=KEY) as server:
        assert ask(policy(server, api_key=KEY), turn())
        monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
        mind = policy(server)
        assert ask(mind, turn())
        assert KEY not in repr(mind) + str(vars(mind)) + caplog.text
    with LlmServer(echo) as server, pytest.raises(BadInput, match=r"what is \*\*\*\?") as told:
        ask(policy(server), turn())
    assert KEY[:6] not in str(told.value)
    assert len(str(told.value)) < 700
    assert told.value.__cause__ is None


def test_an_endpoint_of_ones_own_gets_none_as_its_key() -> None:
    with LlmServer(api_key="none") as server:
        assert ask(policy(server), turn())


def test_a_password_in_the_url_is_not_shown() -> None:
    assert "secret" not in repr(ChatPolicy("m", base_url="http://me:secret@127.0.0.1:1/v1"))


def test_a_key_in_the_query_of_the_url_is_not_shown() -> None:
    with LlmServer(api_key=None) as server:
        closed = f"{server.url}?api_key=top-secret&user=me"
    mind = ChatPolicy("m", base_url=closed, retries=0)
    assert "?api_key=***&user=***" in repr(mind)
    with pytest.raises(ConnectionError, match=r"\?api_key=\*\*\*&user=\*\*\*") as told:
        ask(mind, turn())
    assert "top-secret" not in repr(mind) + "".join(traceback.format_exception(told.value))
    with pytest.raises(BadInput) as refused:
        ChatPolicy("m", base_url="127.0.0.1:1/v1?api_key=top-secret")
    assert "top-secret" not in str(refused.value)


def test_half_a_surrogate_pair_is_no_reason_to_fail() -> None:
    with LlmServer(lambda request: request["messages"][-1]["content"] + "\ud800") as server:
        (reply,) = ask(policy(server), turn(0, "x\udc00ü"))
    assert reply.text == "x?ü?"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"base_url": None}, "OPENAI_API_KEY"),
        ({"base_url": " ", "api_key": "k"}, "base_url is empty"),
        ({"base_url": "127.0.0.1:8000"}, "base_url is '127.0.0.1:8000'"),
        ({"base_url": "http://[::1/v1"}, "base_url"),
        ({"model": ""}, "model is empty"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": 1001}, "concurrency is 1001"),
        ({"timeout": 0}, "timeout is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"extra": {"seed": 1, "top_p": 1}}, "extra sets seed;"),
        ({"api_key": "s\u00e9cret"}, "no HTTP header can carry"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        ChatPolicy(**{"model": "m", "base_url": "http://127.0.0.1:1/v1", **options})


def test_turns_that_cannot_be_answered() -> None:
    mind = ChatPolicy("m", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(BadInput, match="turn 0 of environment 7 has no messages"):
        ask(mind, Turn(7, 0, "T", "bandit", 0, "", 1))


def test_without_openai_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(BadInput, match=r"pip install 'paceline\[llm\]'"):
        ChatPolicy("m", base_url="http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "1e999"}, float("inf")),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "?", "retry-after": "9"}, 9.0),
    ],
)
def test_what_a_server_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, 1_000_000.0) == seconds


@settings(deadline=None)
@given(
    wait=st.none() | st.floats(0, allow_nan=False),
    tried=st.integers(1, 5000),
    seed=st.integers(0, (1 << 63) - 1),
    first=st.floats(0, 100),
)
def test_a_pause_honours_the_server_and_follows_from_the_seed(
    wait: float | None, tried: int, seed: int, first: float
) -> None:
    fault = Fault("rate_limit", "", 429, wait)
    seconds = pause(fault, tried, seed, first)
    assert seconds == pause(fault, tried, seed, first)
    assert 0 <= seconds <= LONGEST_PAUSE
    if wait is not None:
        assert seconds >= min(wait, LONGEST_PAUSE)


def test_pauses_double_and_are_spread() -> None:
    fault = Fault("server", "", 500)
    for tried in (1, 2, 3, 4):
        pauses = [pause(fault, tried, seed, 1.0) for seed in range(50)]
        assert all(2.0 ** (tried - 2) <= seconds <= 2.0 ** (tried - 1) for seconds in pauses)
        assert len(set(pauses)) == 50


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nonsense",
        "null",
        "[]",
        "{}",
        '{"choices": []}',
        '{"choices": [null]}',
        '{"choices": [{"message": null}]}',
        '{"choices": [{"message": {"content": 5}}]}',
        '{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 1e999}}',
        '{"error": {"message": "overloaded"}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_completion_is_malformed(body: str) -> None:
    outcome = reply_of(body, 0)
    assert isinstance(outcome, Fault)
    assert (outcome.kind, outcome.passing) == ("malformed", True)
    assert len(outcome.said) < 1000


@settings(deadline=None)
@given(st.text())
def test_whatever_is_answered_is_no_reason_to_raise(body: str) -> None:
    assert isinstance(reply_of(body, 0), Fault)


def test_a_lean_completion_will_do() -> None:
    assert reply_of('{"choices": [{"message": {"content": null}}]}', 2) == Reply("", retries=2)
    full = '{"choices": [{"message": {"content": "x", "reasoning_content": "y"}, "token_ids": [1]}], "usage": null}'
    assert reply_of(full, 0) == Reply("x", extra={"token_ids": [1], "reasoning_content": "y"})
