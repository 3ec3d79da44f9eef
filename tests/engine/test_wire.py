"""Values and exceptions cross as themselves."""

from __future__ import annotations

import functools
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from members import TwoArguments

from paceline import NotSendable, RemoteError
from paceline.engine.transport import codec
from paceline.engine.transport.channel import WAKE, Channel, encode

arrays = hnp.arrays(
    hnp.scalar_dtypes().filter(lambda dtype: dtype.isnative), hnp.array_shapes(min_dims=0, max_dims=3, max_side=6)
)


@given(st.lists(arrays, max_size=4))
def test_arrays_come_back_as_they_were(values: list[np.ndarray]) -> None:
    for got, sent in zip(codec.unpack(codec.pack(values)), values, strict=True):
        assert got.dtype == sent.dtype
        assert got.tobytes() == sent.tobytes()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0, 10, 5_000, 20_000, 70_000, 300_000, 1_500_000]), max_size=5))
def test_messages_of_any_size_cross_a_channel(sizes: list[int]) -> None:
    ours, theirs = (Channel(sock) for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    try:
        message = [np.random.default_rng(size).integers(0, 255, size, np.uint8) for size in sizes]
        ours.send(encode(("a", [codec.pack(part) for part in message])))
        ours.send(encode("after"))
        tag, packed = theirs.receive()
        got = [codec.unpack(part) for part in packed]
        assert tag == "a"
        assert all(np.array_equal(a, b) for a, b in zip(got, message, strict=True))
        assert all(a.flags.writeable for a in got)
        assert theirs.receive() == "after"
        assert theirs.receive() is None
    finally:
        ours.close()
        theirs.close()


def test_a_variable_that_functions_share_stays_shared() -> None:
    def counting() -> tuple[Callable[[], None], Callable[[], int]]:
        count = 0

        def more() -> None:
            nonlocal count
            count += 1

        return more, lambda: count

    more, told = codec.unpack(codec.pack(counting()))
    more()
    assert told() == 1


def test_a_full_line_keeps_what_it_cannot_send() -> None:
    ours, theirs = (Channel(sock) for sock in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    for number in range(200):
        ours.send(encode((number, b"x" * 10_000)))
    assert ours.clogged
    got = []
    while len(got) < 200:
        message = theirs.receive()
        if message is not None:
            got.append(message[0])
        ours.flush()
    assert got == list(range(200))
    assert not ours.clogged
    ours.wake()
    assert theirs.receive() is WAKE
    ours.close()
    with pytest.raises(EOFError):
        theirs.receive()
    theirs.send(encode("to nobody"))
    theirs.close()


def test_small_values_need_no_buffers_and_large_ones_do() -> None:
    assert isinstance(codec.pack((1, "a", np.zeros(10))), bytes)
    head, buffers = codec.pack(np.zeros(100_000))
    assert len(buffers) == 1
    assert len(head) < 1000
    assert codec.size((head, buffers)) > 800_000


def test_settled_values_are_independent() -> None:
    array = np.zeros(100_000)
    packed = codec.settle(codec.pack(array))
    array[:] = 1
    first = codec.fresh(packed)
    assert not first.any()
    first[:] = 2
    assert not codec.fresh(packed).any()


def test_the_path_to_what_cannot_be_sent() -> None:
    lock = threading.Lock()
    cases = {
        "dict['env']['lock']": {"env": {"lock": lock}},
        "list[1]": [1, lock],
        "<closure lock>": lambda: lock,
        ".keywords['x']": functools.partial(print, x=lock),
    }
    for path, value in cases.items():
        with pytest.raises(NotSendable) as caught:
            codec.pack(value)
        assert path in str(caught.value)
        assert "_thread.lock" in str(caught.value)


class Unsendable(Exception):
    def __reduce__(self) -> object:  # type: ignore[override]
        raise RuntimeError("not me")

    def __str__(self) -> str:
        raise RuntimeError("nor my words")


class Picky(Exception):
    def __new__(cls, *args: object) -> Picky:
        if len(args) != 2:
            raise TypeError("two, please")
        return super().__new__(cls, *args)

    def __init__(self, a: object, b: object) -> None:
        super().__init__(a)
        self.b = b


@pytest.mark.parametrize(
    "error",
    [
        ValueError("plain"),
        KeyError("k"),
        OSError(2, "no such thing", "file"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        TwoArguments("what", 3),
        ValueError("with a lock", threading.Lock()),
        ExceptionGroup("many", [ValueError(1), KeyError(2)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_exceptions_cross_as_themselves(error: Exception) -> None:
    try:
        raise error
    except Exception as caught:
        got = codec.unpack_error(codec.pack_error(caught))
    assert type(got) is type(error)
    assert str(error)[:10] in str(got)
    assert "test_wire.py" in str(got.__cause__)


def test_attributes_that_cannot_cross_are_named_in_a_note() -> None:
    error = ValueError("no room")
    error.__notes__ = ["while it packed"]
    error.code, error.lock, error.file = 7, threading.Lock(), threading.Lock()  # type: ignore[attr-defined]
    there = codec.unpack_error(codec.pack_error(error))
    assert (type(there), there.args, there.code) == (ValueError, ("no room",), 7)  # type: ignore[attr-defined]
    lost = "without the attributes that could not be sent from its worker: "
    assert there.__notes__ == ["while it packed", f"{lost}file, lock"]
    there = codec.unpack_error(codec.pack_error_as_data(error))
    assert there.__notes__ == ["while it packed", f"{lost}code, file, lock"]


@pytest.mark.parametrize(
    "do",
    [
        lambda: os.open("/nowhere/at/all", os.O_RDONLY),
        lambda: os.listdir(Path("/nowhere")),
        lambda: os.rename("/nowhere/from", b"/nowhere/to"),
    ],
)
def test_errors_of_the_system_keep_their_files_as_data(do: Callable[[], object]) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        do()
    here, there = caught.value, codec.unpack_error(codec.pack_error_as_data(caught.value))
    assert isinstance(there, FileNotFoundError)
    assert (there.errno, there.strerror, there.args) == (here.errno, here.strerror, here.args)
    assert (there.filename, there.filename2) in (
        (here.filename, here.filename2),
        (str(here.filename), here.filename2),  # a path is no data
    )
    assert str(there) == str(here).replace("PosixPath('/nowhere')", "'/nowhere'")


def test_what_cannot_cross_at_all_is_told_in_words() -> None:
    for error, name in ((Picky(1, 2), "Picky"), (Unsendable(), "Unsendable")):
        got = codec.unpack_error(codec.pack_error(error))
        assert type(got) in (type(error), RemoteError)
        assert name in repr(got) or name in str(got)


def test_what_was_said_before_the_end_is_received_also_if_our_last_word_was_not_read() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here, there = Channel(ours), Channel(theirs)
    there.send_blocking("the last words")
    here.send(encode("never read"))
    there.close()
    assert here.receive() == "the last words"
    with pytest.raises(EOFError):
        here.receive()
    here.close()
