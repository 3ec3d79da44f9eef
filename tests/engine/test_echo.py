"""What a journal keeps of answers: enough to see in a replay that one of them differs, and not more than it may."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import Pool, ReplayDiverged
from paceline.engine.journal import journal
from paceline.engine.journal.fingerprint import condensed, echo_of, recognised
from paceline.engine.transport import codec

_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def kept(answer: Any) -> int | bytes:
    packed = codec.pack(answer)
    check = echo_of(answer, packed)
    if check is not None:
        return check
    assert isinstance(packed, bytes)
    return packed


class Bookish:
    """Answers in words, short or long; one that was built twice may answer otherwise."""

    def __init__(self, name: str, faithful: bool) -> None:
        self.name, self.calls = name, 0
        self.mark = "" if faithful else str(os.getpid())

    def say(self, length: int) -> tuple[str, str, str]:
        self.calls += 1
        text = f"{self.name} {self.calls} " * length
        return text, text, self.mark if self.calls == 3 else ""


def story(faithful: bool, length: int) -> list[Any]:
    with Pool([lambda: Bookish("a", faithful)], backend="process", workers=1) as pool:
        said = [pool.call("say", {0: (length,)}) for _ in range(40)]
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        return [*said, pool.call("say", {0: (length,)})]


@pytest.mark.parametrize("length", [1, 500], ids=["itself", "its check"])
def test_a_replay_compares_every_answer(length: int) -> None:
    assert story(True, length)[-1][0][0].startswith("a 41 ")
    with pytest.raises(ReplayDiverged, match="call 2, say"):
        story(False, length)


def test_answers_beyond_what_a_journal_may_keep_become_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_ECHOES", 300)
    assert story(True, 1)[-1][0][0] == "a 41 "
    with pytest.raises(ReplayDiverged, match="call 2, say"):
        story(False, 1)


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_ECHOES", 1000)
    log = journal.Journal()
    for number in range(200):
        log.add(("call", "say", b"", kept(f"answer {number}")), None)
        assert sum(len(entry[3]) for entry in log.story[1] if isinstance(entry[3], bytes)) <= 1000
    assert len(log) == 200
    log.start_anew((None, None))
    assert log.echoes == 0


@given(_PLAIN)
def test_an_answer_is_recognised_whatever_is_kept_of_it(answer: Any) -> None:
    echo = kept(answer)
    again = codec.unpack(codec.pack(answer))
    for expected in (echo, condensed(echo)):
        assert recognised(expected, answer)
        assert recognised(expected, again)
        assert not recognised(expected, [answer])


def test_the_same_words_in_other_objects_are_the_same() -> None:
    word = "a word of some length"
    twice, apart = (word, word), (word, "".join([*word]))
    assert codec.pack(twice) != codec.pack(apart)
    assert recognised(kept(twice), apart)
    assert recognised(kept(apart), twice)
