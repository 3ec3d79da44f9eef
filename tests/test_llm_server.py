"""The test server keeps to the protocol, answers by content alone, and goes wrong exactly as it was told to."""

import http.client
import json
import socket
import threading
import urllib.parse
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waits import until

from paceline.errors import BadInput
from paceline.seeds import digest
from paceline.testing.llm_faults import CALM, KINDS, Faults
from paceline.testing.llm_server import LlmServer

ASKED = {"model": "test-model", "messages": [{"role": "user", "content": "Which way?"}], "seed": 5}


class Client:
    """One kept-alive connection."""

    def __init__(self, server: LlmServer) -> None:
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=20)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> http.client.HTTPResponse:
        self.connection.request(method, path, body, headers)
        return self.connection.getresponse()

    def post(self, **body: Any) -> tuple[int, Any]:
        return self.post_bytes(json.dumps({**ASKED, **body}).encode())

    def post_bytes(self, body: bytes, **headers: str) -> tuple[int, Any]:
        response = self.raw("POST", "/v1/chat/completions", body, **headers)
        return response.status, json.loads(response.read())

    def text(self, **body: Any) -> str:
        text: str = self.post(**body)[1]["choices"][0]["message"]["content"]
        return text

    def events(self, **body: Any) -> list[str]:
        response = self.raw("POST", "/v1/chat/completions", json.dumps({**ASKED, "stream": True, **body}).encode())
        assert response.headers["Content-Type"] == "text/event-stream"
        return [event.removeprefix("data: ") for event in response.read().decode().split("\n\n") if event]


@pytest.fixture(scope="module")
def client() -> Any:
    with LlmServer() as server, Client(server) as client:
        yield client


def only(**rates: Any) -> Faults:
    return replace(CALM, **rates)


def test_an_answer_has_the_shape_of_the_protocol(client: Client) -> None:
    status, answer = client.post()
    (choice,) = answer["choices"]
    text = choice["message"]["content"]
    assert status == 200
    assert (answer["object"], answer["model"]) == ("chat.completion", "test-model")
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "stop", None)
    assert text.startswith("<think>")
    assert text.endswith("</answer>")
    usage = answer["usage"]
    assert 0 < usage["prompt_tokens"] < usage["total_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_an_answer_follows_from_what_is_asked(client: Client) -> None:
    first = client.text()
    assert client.text() == first
    assert client.text(stream=False, user="me", n=1) == first
    assert client.text(seed=6) != first
    assert client.text(messages=[{"role": "user", "content": "And now?"}]) != first
    assert client.text(temperature=0.5) != first
    assert client.text(temperature=0, seed=6) == client.text(temperature=0, seed=7)
    with LlmServer(seed=9) as other, Client(other) as elsewhere:
        assert elsewhere.text() == first


def test_a_limit_and_a_stop_only_cut(client: Client) -> None:
    whole = client.post()[1]
    text, count = whole["choices"][0]["message"]["content"], whole["usage"]["completion_tokens"]
    for name in ("max_tokens", "max_completion_tokens"):
        cut = client.post(**{name: 4})[1]
        assert cut["choices"][0]["finish_reason"] == "length"
        assert cut["usage"]["completion_tokens"] == 4
        assert text.startswith(cut["choices"][0]["message"]["content"])
    assert client.post(max_tokens=count)[1]["choices"][0]["finish_reason"] == "stop"
    assert client.text(stop=["</think>", "nowhere"]) == text.partition("</think>")[0]


def test_several_choices_differ(client: Client) -> None:
    choices = client.post(n=3)[1]["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in choices}) == 3
    assert choices[0]["message"]["content"] == client.text()


def test_log_probabilities_are_there_if_asked_for(client: Client) -> None:
    (choice,) = client.post(logprobs=True, top_logprobs=2)[1]["choices"]
    rows = choice["logprobs"]["content"]
    assert "".join(row["token"] for row in rows) == choice["message"]["content"]
    assert all(row["logprob"] <= 0 and len(row["top_logprobs"]) == 2 for row in rows)
    assert all(bytes(row["bytes"]).decode() == row["token"] for row in rows)


def test_a_stream_brings_the_same_answer_in_pieces(client: Client) -> None:
    whole = client.post(logprobs=True, n=2)[1]
    *events, done = client.events(logprobs=True, n=2, stream_options={"include_usage": True})
    *chunks, last = (json.loads(event) for event in events)
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    for choice in whole["choices"]:
        pieces = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == choice["index"]]
        assert pieces[0]["delta"]["role"] == "assistant"
        assert "".join(piece["delta"].get("content", "") for piece in pieces) == choice["message"]["content"]
        assert pieces[-1]["finish_reason"] == choice["finish_reason"]
        rows = [row for piece in pieces if piece["logprobs"] for row in piece["logprobs"]["content"]]
        assert rows == choice["logprobs"]["content"]


def test_a_script_plays_the_model() -> None:
    def parrot(request: dict[str, Any]) -> str:
        return str(request["messages"][-1]["content"]).upper()

    with LlmServer(parrot) as server, Client(server) as client:
        assert client.text() == "WHICH WAY?"
        long = "ä" * 1_000_000
        assert client.text(messages=[{"role": "user", "content": long}]) == long.upper()


@pytest.mark.parametrize(("script", "said"), [(lambda _: 1 / 0, "ZeroDivisionError"), (lambda _: None, "NoneType")])
def test_a_script_that_fails_is_told_at_once(script: Any, said: str) -> None:
    with LlmServer(script) as server, Client(server) as client:
        status, body = client.post()
        assert status == 400
        assert said in body["error"]["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": None}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"content": "hello"}]}, "messages.0.role"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"seed": 1 << 63}, "seed"),
        ({"n": 0}, "n"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_a_wrong_field_is_named(client: Client, body: dict[str, Any], param: str) -> None:
    status, answer = client.post(**body)
    assert (status, answer["error"]["type"], answer["error"]["param"]) == (400, "invalid_request_error", param)
    assert param in answer["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"hello"', b"\xff\xfe", b"[" * 100_000, b'{"model": 1}'])
def test_what_is_no_request_is_refused(client: Client, body: bytes) -> None:
    status, answer = client.post_bytes(body)
    assert status == 400
    assert answer["error"]["message"]


@settings(deadline=None)  # a machine at work elsewhere is no fault
@given(body=st.binary(max_size=200) | st.from_type(dict).map(lambda each: repr(each).encode()))
def test_no_body_breaks_it(client: Client, body: bytes) -> None:
    assert client.post_bytes(body)[0] == 400


@pytest.mark.parametrize("depth", [200, 800, 950, 990, 20_000])
def test_a_body_may_be_nested_as_deeply_as_it_likes(client: Client, depth: int) -> None:
    deep = json.dumps(ASKED)[:-1].encode() + b', "more": ' + b"[" * depth + b"]" * depth + b"}"
    assert client.post_bytes(deep)[0] in {200: (200,), 20_000: (400,)}.get(depth, (200, 400))
    assert client.post()[0] == 200


def test_paths_methods_and_models(client: Client) -> None:
    def ask(method: str, path: str) -> tuple[int, Any]:
        response = client.raw(method, path)
        return response.status, json.loads(response.read())

    status, answer = ask("GET", "/v1/models?limit=1")
    assert (status, [model["id"] for model in answer["data"]]) == (200, ["test-model"])
    assert ask("GET", "/v1/nowhere")[0] == 404
    assert ask("GET", "/v1/chat/completions")[0] == 405
    status, answer = client.post(model="other")
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


def test_a_key_can_be_demanded() -> None:
    with LlmServer(api_key="right") as server, Client(server) as client:
        assert client.post()[0] == 401
        assert client.post_bytes(json.dumps(ASKED).encode(), Authorization="Bearer right")[0] == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, 431),
    ],
)
def test_what_cannot_be_read_ends_the_connection(client: Client, head: bytes, status: int) -> None:
    with socket.create_connection((client.connection.host, client.connection.port), timeout=20) as raw:
        raw.sendall(head)
        assert raw.recv(4096).startswith(f"HTTP/1.1 {status} ".encode())


def test_curl_may_ask_before_it_sends(client: Client) -> None:
    body = json.dumps(ASKED).encode()
    with socket.create_connection((client.connection.host, client.connection.port), timeout=20) as raw:
        raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\n")
        raw.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
        assert raw.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw.sendall(body)
        assert raw.recv(4096).startswith(b"HTTP/1.1 200 ")


def outcomes(server: LlmServer, count: int, **body: Any) -> list[str]:
    """What becomes of a request that is sent again and again."""
    return [outcome(server, **body) for _ in range(count)]


def outcome(server: LlmServer, **body: Any) -> str:
    with Client(server) as client:
        try:
            status, _ = client.post(**body)
        except http.client.IncompleteRead:
            return "cut"
        except json.JSONDecodeError:
            return "malformed"
        return "answered" if status == 200 else str(status)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_happens_as_often_as_it_may_and_no_more(kind: str) -> None:
    with LlmServer(faults=only(**{f"rate_{kind}": 1.0}, worst=2)) as server:
        assert outcomes(server, 4) == [kind, kind, "answered", "answered"]
        assert server.traffic.outcomes == {kind: 2, "answered": 2}
        assert server.traffic.requests == 4


def test_a_stream_can_be_cut_and_malformed() -> None:
    with (
        LlmServer(faults=only(rate_cut=1.0, worst=1)) as server,
        Client(server) as client,
        pytest.raises(http.client.IncompleteRead),
    ):
        client.events()
    with LlmServer(faults=only(rate_malformed=1.0, worst=1)) as server, Client(server) as client:
        *events, done = client.events()
        assert done == "[DONE]"
        with pytest.raises(json.JSONDecodeError):
            [json.loads(event) for event in events]


def test_retry_after_is_named() -> None:
    for after, header in ((0.25, "0.25"), (2, "2"), (None, None)):
        with LlmServer(faults=only(rate_429=1.0, retry_after=after)) as server, Client(server) as client:
            response = client.raw("POST", "/v1/chat/completions", json.dumps(ASKED).encode())
            assert (response.status, response.headers["Retry-After"]) == (429, header)
            assert json.loads(response.read())["error"]["type"] == "rate_limit_error"


def test_faults_follow_from_request_and_attempt_not_from_arrival() -> None:
    faults = only(rate_429=0.2, rate_500=0.2, rate_cut=0.1, rate_malformed=0.1)
    seeds = range(12)
    with LlmServer(faults=faults, seed=3) as server:
        one_by_one = {seed: outcomes(server, 4, seed=seed) for seed in seeds}
    with LlmServer(faults=faults, seed=3) as server:
        rounds = [{seed: outcome(server, seed=seed) for seed in reversed(seeds)} for _ in range(4)]
    assert one_by_one == {seed: [each[seed] for each in rounds] for seed in seeds}
    assert len({tuple(met) for met in one_by_one.values()}) > 3
    with LlmServer(faults=faults, seed=4) as server:
        assert one_by_one != {seed: outcomes(server, 4, seed=seed) for seed in seeds}


def test_an_answer_without_end_is_content() -> None:
    with LlmServer(faults=only(rate_long=1.0)) as server, Client(server) as client:
        first = client.post(max_tokens=50)[1]
        assert first["choices"][0]["finish_reason"] == "length"
        assert first["usage"]["completion_tokens"] == 50
        assert client.post(max_tokens=50)[1] == first
        assert client.post(max_tokens=10**12)[1]["usage"]["completion_tokens"] == 4096


class Slow(Faults):
    """All requests wait for ever, but one."""

    def wait(self, seed: int, request: str, attempt: int) -> float:
        return 0.0 if request == digest(ASKED) else 600.0


def test_two_hundred_wait_and_hold_up_nobody() -> None:
    with LlmServer(faults=Slow(**vars(CALM))) as server, ExitStack() as stack:
        for seed in range(200):
            waiting = stack.enter_context(Client(server))
            waiting.connection.request("POST", "/v1/chat/completions", json.dumps({**ASKED, "seed": 1000 + seed}))
        until(lambda: server.traffic.requests >= 200)
        assert outcome(server) == "answered"
        assert server.traffic.most_at_once == 201


def test_nothing_outlives_its_with() -> None:
    before = threading.active_count()
    with LlmServer(faults=only(latency=(600.0, 600.0))) as server:
        with Client(server) as idle, Client(server) as waiting:
            idle.raw("GET", "/v1/models").read()
            waiting.connection.request("POST", "/v1/chat/completions", json.dumps(ASKED))
            until(lambda: server.traffic.requests)
            url = server.url
            server.__exit__(None, None, None)
            with pytest.raises(ConnectionError):
                waiting.connection.getresponse()
        server.__enter__()
    assert threading.active_count() == before
    assert server.traffic.outcomes == {"left": 1}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((urllib.parse.urlsplit(url).hostname, urllib.parse.urlsplit(url).port)).close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate_429": 1.5},
        {"rate_long": -0.1},
        {"rate_429": 0.6, "rate_500": 0.6},
        {"latency": (0.2, 0.1)},
        {"latency": (-1.0, 0.1)},
        {"retry_after": -1},
        {"worst": -1},
        {"rate_cut": float("nan")},
    ],
)
def test_faults_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        only(**wrong)


def test_mistakes_with_the_server_are_told() -> None:
    with pytest.raises(BadInput, match="not running"):
        _ = LlmServer().url
    with pytest.raises(BadInput, match="a function from a request"):
        LlmServer("hello")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="not negative"):
        LlmServer(seed=-1)
    with LlmServer() as server, pytest.raises(BadInput, match="running already"):
        server.__enter__()
