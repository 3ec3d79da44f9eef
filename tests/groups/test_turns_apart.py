"""Asynchronous use: submit and ready, quorums, deadlines, and what becomes of stragglers."""

from __future__ import annotations

import pytest
from text_worlds import config, said
from waits import until

from paceline import BadInput
from paceline.groups import Groups


def test_whoever_is_ready_is_given_and_nobody_twice() -> None:
    with Groups(config({"Told": 2}), plan=2) as groups:
        groups.reset(seed=1)
        for env_id, text in enumerate(["a", "sleep 0.5", "b", "c"]):
            groups.submit(said(env_id, text))
        got = []
        while len(got) < 4:
            got += [answer.env_id for answer in groups.ready(min_ready=1)]
        assert sorted(got) == [0, 1, 2, 3]
        assert got[-1] != 0  # worker 0 has 0 and 2, worker 1 has 1, which sleeps, and 3 behind it
        assert groups.ready() == []


def test_ready_waits_for_as_many_as_asked() -> None:
    with Groups(config({"Ladder": 2})) as groups:
        groups.reset(seed=1)
        for env_id in range(4):
            groups.submit(said(env_id, "Up", "Up", "Up"))
        answers = groups.ready(min_ready=4)
        assert [answer.env_id for answer in answers] == [0, 1, 2, 3]
        assert all(answer.done and len(answer.cache["history"]) == 2 for answer in answers)


def test_submitted_turns_give_what_a_step_gives() -> None:
    digests = set()
    for apart in (False, True):
        with Groups(config({"Ladder": 2}), plan=2) as groups:
            groups.reset(seed=1)
            for turn in ("Up", "Down", "Up"):
                inputs = [said(env_id, turn) for env_id in range(4)]
                if apart:
                    for one in reversed(inputs):
                        groups.submit(one)
                    groups.ready(min_ready=4)
                else:
                    groups.step(inputs)
            digests.add(groups.digest())
    assert len(digests) == 1


def test_stragglers_come_with_a_later_step() -> None:
    with Groups(config({"Told": 2}, group_size=1, most=10_000), plan=2) as groups:
        groups.reset(seed=1)
        outputs = groups.step([said(0, "a"), said(1, "sleep 0.4")], quorum=0.5)
        assert [cache["env_id"] for cache in outputs] == [0]
        until(lambda: any(cache["env_id"] == 1 for cache in groups.step([said(0, "b")])))
        assert groups.statuses[1].cut == ""
        assert len(groups.rollout_cache[1]["history"]) == 2


@pytest.mark.parametrize(("quorum", "deadline", "why"), [(0.5, None, "quorum"), (None, 0.2, "deadline")])
def test_stragglers_may_be_cut_and_then_the_record_says_so(
    quorum: float | None, deadline: float | None, why: str
) -> None:
    with Groups(config({"Told": 2}, group_size=1), plan=2) as groups:
        groups.reset(seed=1)
        outputs = groups.step([said(0, "a"), said(1, "sleep 1")], quorum=quorum, deadline=deadline, late="truncate")
        assert [cache["env_id"] for cache in outputs] == [0]
        status = groups.statuses[1]
        assert (status.cut, status.truncated, status.terminated) == (why, True, True)
        assert groups.rollout_cache[1]["history"][-1]["cut"] == why
        groups.reset(seed=1)  # the answer of the one that was cut belongs to nobody
        assert len(groups.step([said(1, "b")])[0]["history"]) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quorum": 0}, "quorum=0"),
        ({"quorum": 2}, "quorum=2"),
        ({"deadline": 0}, "deadline=0"),
        ({"late": "x"}, "late"),
    ],
)
def test_straggling_that_makes_no_sense_is_refused(options: dict, words: str) -> None:
    with Groups(config({"Ladder": 1})) as groups:
        groups.reset(seed=1)
        with pytest.raises(BadInput, match=words):
            groups.step([said(0, "Up")], **options)


def test_whoever_hangs_in_a_turn_that_was_cut_is_ended() -> None:
    with Groups(config({"Told": 2}, group_size=1), plan=1) as groups:
        groups.reset(seed=1)
        groups.step([said(0, "a"), said(1, "b")])
        outputs = groups.step([said(0, "c"), said(1, "hang")], deadline=0.5, late="truncate")
        assert [cache["env_id"] for cache in outputs] == [0]
        assert [status.cut for status in groups.statuses] == ["", "deadline"]
        states = groups.get_rollout_states()  # nobody waits for a minute
        assert [state["history"][-1]["state"] for state in states] == ["said: a c", "said: b"]
        groups.reset(seed=1)
        assert len(groups.step([said(0, "d"), said(1, "e")])) == 2
