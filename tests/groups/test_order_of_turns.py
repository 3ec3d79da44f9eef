"""Turns of one environment are taken in the order of their posts, and nothing comes after an end."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from interrupting import Interrupting, interrupted
from text_worlds import config, said

from paceline import BadInput, NotSendable, PlanNotMet, SharedRandomness
from paceline.groups import Groups

PLACES = pytest.mark.parametrize("plan", ["inline", 2], ids=["here", "2 workers"])


def told(groups: Groups, env_id: int) -> list[str]:
    return [turn["state"] for turn in groups.rollout_cache[env_id]["history"]]


def test_second_turns_never_overtake_first_ones() -> None:
    digests = set()
    for plan in ("inline", 2, 2):
        with Groups(config({"Told": 2}, group_size=2, most=99), plan=plan) as groups:
            groups.reset(seed=1)
            # Worker 0 is done with both turns of its members while worker 1 sleeps through its first.
            inputs = [said(0, "a"), said(1, "sleep 0.2"), said(0, "b"), said(1, "c"), said(2, "d"), said(3, "e")]
            groups.submit(said(0, "z"))
            groups.step(inputs, quorum=0.2)
            groups.step([said(1, "f"), said(1, "g"), said(3, "h")])
            groups.ready(min_ready=9)
            assert told(groups, 1)[-1] == "said: sleep 0.2 c f g"
            digests.add(groups.digest())
    assert len(digests) == 1


def test_random_interleavings_give_the_digest_of_one_after_another() -> None:
    def play(plan: Any) -> str:
        draw = random.Random(5)
        with Groups(config({"Ladder": 2, "Told": 1}, most=60), plan=plan) as groups:
            groups.reset(seed=3)
            for _ in range(25):
                inputs = [said(draw.randrange(6), draw.choice(["Up", "Down", "x"])) for _ in range(draw.randint(1, 9))]
                if draw.random() < 0.5:
                    groups.step(inputs)
                else:
                    for one in inputs:
                        groups.submit(one)
                    groups.ready(min_ready=draw.randint(1, len(inputs)))
            groups.reset(seed=4)  # what is under way is taken in before
            return groups.digest()

    assert play("inline") == play(2) == play(3)


@PLACES
def test_equal_words_of_other_kinds_stay_what_they_are(plan: Any) -> None:
    with Groups(config({"Kinds": 2}, most=9), plan=plan) as groups:
        groups.reset(seed=1)
        groups.step([said(0, "a"), said(1, np.str_("a")), said(2, np.str_("a")), said(3, "a")])
        assert [told(groups, env_id)[-1] for env_id in range(4)] == [
            f"said: {kind}" for kind in ("str", "str_", "str_", "str")
        ]


class Unsendable(str):
    def __reduce__(self) -> Any:
        raise TypeError("not this one")


@PLACES
def test_if_one_turn_cannot_be_sent_nobodys_is(plan: Any) -> None:
    with Groups(config({"Told": 20}, group_size=2, most=99), plan=plan) as groups:
        groups.reset(seed=1)
        with pytest.raises(NotSendable):
            groups.step([*(said(n, "a") for n in range(39)), said(39, Unsendable("a"))])
        assert groups.under_way == []
        assert len(groups.step([said(n, "b") for n in range(40)])) == 40
        assert {tuple(told(groups, n)) for n in range(40)} == {("said:", "said: b")}


@PLACES
def test_a_round_that_cannot_begin_leaves_alone_what_was_kept_back(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot() -> None:
        raise PlanNotMet("no room to move to")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with Groups(config({"Told": 2}, most=99), plan=plan) as groups:
        groups.reset(seed=1)
        monkeypatch.setattr(groups.pool, "run_here", interrupted)
        with pytest.raises(KeyboardInterrupt):
            groups.step([said(n, "a") for n in range(4)])
        monkeypatch.undo()
        monkeypatch.setattr(groups.pool, "round_begins", cannot)
        with pytest.raises(PlanNotMet):
            groups.step([said(n, "b") for n in range(4)])
        monkeypatch.undo()
        assert groups.under_way == [0, 1, 2, 3]
        groups.step([said(n, "c") for n in range(4)])
        assert {told(groups, n)[-1] for n in range(4)} == {"said: a c"}


@PLACES
def test_an_error_that_has_no_words_is_recorded_as_itself(plan: Any) -> None:
    with Groups(config({"Told": 1}, most=99), plan=plan) as groups:
        groups.reset(seed=1)
        groups.step([said(0, "raise wordless"), said(1, "a")])
        failures = [status.failure for status in groups.statuses]
        assert failures[0] is not None
        assert failures[0].kind == "Wordless"
        assert failures[1] is None


def test_what_was_sent_before_an_interrupt_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with Groups(config({"Told": 20}, group_size=2, most=99), plan=2) as groups:
        groups.reset(seed=1)
        post, parts = groups.pool.post_packed, []

        def interrupted(method: str, calls: Any, **options: Any) -> Any:
            parts.append(sorted(calls))
            if len(parts) == 2:
                raise KeyboardInterrupt
            return post(method, calls, **options)

        monkeypatch.setattr(groups.pool, "post_packed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            groups.step([said(n, "a") for n in range(40)])
        monkeypatch.undo()
        assert parts == [[*range(32)], [*range(32, 40)]]
        assert groups.under_way == list(range(40))
        assert sorted(answer.env_id for answer in groups.ready(40)) == list(range(40))
        assert {tuple(told(groups, n)) for n in range(40)} == {("said:", "said: a")}


@pytest.mark.parametrize("again", [(), (0, 3)], ids=["once each", "some twice"])
def test_wherever_a_step_here_is_interrupted_every_turn_is_played_once(again: tuple[int, ...]) -> None:
    inputs = [said(n, f"{n}") for n in range(4)] + [said(n, "again") for n in again]
    files = (
        "groups/turns.py",
        "engine/pool/inline_calls.py",
        "engine/host/ordinary_calls.py",
        "engine/host/host.py",
        "groups/trajectory.py",
        "text_worlds.py",
    )
    line, interrupted = 0, True
    while interrupted:
        with Groups(config({"Told": 2}, group_size=2), plan="inline") as groups:
            groups.reset(seed=1)
            groups.step([said(n, "a") for n in range(4)])
            try:
                with Interrupting(line, files, but_at=("with UNINTERRUPTED:",)):
                    groups.step(inputs)
                interrupted = False
            except KeyboardInterrupt:
                groups.ready(len(groups.under_way))
            played = [told(groups, n)[-1] for n in range(4)]
            expected = [f"said: a {n}" + " again" * (n in again) for n in range(4)]
            assert played in (expected, ["said: a"] * 4), line  # all, or it had not begun
            assert groups.render() == played
        line += 5
    assert line > 200


def test_after_ctrl_c_here_every_turn_comes_later_and_once() -> None:
    inputs = [said(n, "sleep 0.4" if n == 3 else f"{n}") for n in range(6)]
    with Groups(config({"Told": 3}, group_size=2), plan="inline") as groups:
        groups.reset(seed=1)
        groups.step([said(n, "a") for n in range(6)])
        with pytest.raises(KeyboardInterrupt):
            interrupted(lambda: groups.step(inputs))
        assert groups.under_way == list(range(6))
        assert sorted(answer.env_id for answer in groups.ready(6)) == list(range(6))
        digest = groups.digest()
        groups.use_multiprocessing = True  # they are rebuilt from their journals
        assert groups.render() == [f"said: a {said['actions'][0]}" for said in inputs]
    with Groups(config({"Told": 3}, group_size=2), plan=2) as groups:
        groups.reset(seed=1)
        groups.step([said(n, "a") for n in range(6)])
        groups.step(inputs)
        assert groups.digest() == digest


@PLACES
def test_turns_under_way_can_be_cut(plan: Any) -> None:
    with Groups(config({"Told": 2}, group_size=2), plan=plan) as groups:
        groups.reset(seed=1)
        groups.submit(said(0, "a"))
        groups.cut(groups.trajectories[:2], "enough")
        assert groups.under_way == []
        assert [cache["env_id"] for cache in groups.step([said(n, "b") for n in range(4)])] == [2, 3]
        assert [status.cut for status in groups.statuses] == ["enough", "enough", "", ""]


@PLACES
def test_what_is_wrong_with_the_plan_keeps_nobodys_turn_from_being_entered(plan: Any) -> None:
    with Groups(config({"Told": 2}, group_size=2), plan=plan) as groups:
        groups.reset(seed=1)
        groups.step([said(n, "a") for n in range(4)])
        with pytest.raises(PlanNotMet, match="of its own"):
            groups.step([said(n, "no plan" if n == 1 else "b") for n in range(4)])
        groups.ready(4)  # the other worker may still have been at work
        assert [told(groups, n)[-1] for n in range(4)] == ["said: a b", "said: a", "said: a b", "said: a b"]
        groups.step([said(n, "c") for n in range(4)])
        assert told(groups, 3)[-1] == "said: a b c"


@PLACES
def test_a_reset_that_is_interrupted_is_none(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = config({"Told": 2}, group_size=2, base=7)
    with Groups(asked, plan=plan) as groups, Groups(asked, plan="inline") as other:
        for each in (groups, other):
            each.reset()
            each.step([said(n, "a") for n in range(4)])
        call = groups.pool.call

        def interrupted(method: str, calls: Any, **options: Any) -> Any:
            call(method, {0: calls[0]}, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(groups.pool, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            groups.reset()
        monkeypatch.undo()
        for ask in (lambda: groups.step([said(0, "a")]), groups.get_rollout_states, groups.render):
            with pytest.raises(BadInput, match="reset"):
                ask()
        for each in (groups, other):
            each.reset()
            each.step([said(n, "b") for n in range(4)])
        assert groups.digest() == other.digest()


@PLACES
@pytest.mark.parametrize("shown", [None, 5, ["a picture"]], ids=["nothing", "a number", "words"])
def test_what_cannot_be_shown_ends_its_own_trajectory(plan: Any, shown: Any) -> None:
    with Groups(config({"Odd": 1, "Told": 1}, group_size=2, options={"shown": shown}), plan=plan) as groups:
        groups.reset(seed=1)
        groups.step([said(n, "a") for n in range(4)])
        after = groups.step([said(n, "odd" if n == 0 else "b") for n in range(4)])
        assert [cache["env_id"] for cache in after] == [1, 2, 3]
        failure = groups.statuses[0].failure
        assert failure is not None
        assert (
            failure.message == f"Odd: render() of Odd gave {shown!r}; a state is text, an RGB array or a list of them"
        )
        assert [len(told(groups, n)) for n in range(4)] == [3, 3, 3, 3]


@PLACES
def test_what_cannot_be_shown_at_the_beginning_is_a_failed_reset(plan: Any) -> None:
    never = {"shown": 5, "always": True}
    with Groups(config({"Odd": 1, "Told": 1}, group_size=2, options=never), plan=plan) as groups:
        groups.reset(seed=1)
        assert [status.failure is None for status in groups.statuses] == [False, False, True, True]
        assert len(groups.step([said(n, "a") for n in range(4)])) == 2


def test_inputs_that_are_none_are_refused() -> None:
    with Groups(config({"Told": 1})) as groups:
        groups.reset(seed=1)
        with pytest.raises(BadInput, match="give a list of dicts"):
            groups.step(None)  # type: ignore[arg-type]


@PLACES
def test_what_comes_after_a_failure_does_nothing(plan: Any) -> None:
    with Groups(config({"Told": 1}, group_size=1), plan=plan) as groups:
        groups.reset(seed=1)
        groups.step([said(0, "raise"), said(0, "end")])
        status = groups.statuses[0]
        assert (status.success, status.late) == (False, 1)
        assert status.failure is not None
        assert len(groups.rollout_cache[0]["history"]) == 2


@PLACES
def test_what_was_done_before_a_failure_is_kept(plan: Any) -> None:
    with Groups(config({"Told": 1}, group_size=1), plan=plan) as groups:
        groups.reset(seed=1)
        groups.step([said(0, "a", "b", "raise", "c")])
        turn = groups.rollout_cache[0]["history"][0]
        assert turn["actions"] == ["a", "b"]
        assert groups.statuses[0].num_actions == 2
        failure = groups.statuses[0].failure
        assert failure is not None
        assert (failure.kind, failure.step) == ("ArithmeticError", 2)


def test_environments_that_share_randomness_on_threads_are_the_plans_fault() -> None:
    with Groups(config({"Drawer": 2}), plan="thread") as groups, pytest.raises(SharedRandomness):
        groups.reset(seed=1)


def test_multiprocessing_may_be_switched_on_too() -> None:
    with Groups(config({"Ladder": 2}, use_multiprocessing=False, max_workers=2)) as groups:
        groups.reset(seed=1)
        groups.use_multiprocessing = True
        assert len(groups.pool.workers) == 2
        assert (groups.plan.backend, groups.plan.workers) == ("process", 2)
        with pytest.raises(BadInput, match="use_multiprocessing = 'no'; give True or False"):
            groups.use_multiprocessing = "no"
        groups.use_multiprocessing = False
        assert groups.plan.backend == "inline"
        assert len(groups.step([said(0, "Up")])) == 1


def test_a_deadline_under_auto_means_processes() -> None:
    with Groups(config({"Told": 1}, step_timeout=0.3)) as groups:
        assert groups.plan.backend == "process"
        assert groups.plan.why == "step_timeout is set, and only a process can be ended"
        groups.reset(seed=1)
        groups.step([said(0, "hang"), said(1, "a")])
        assert groups.statuses[0].failure is not None
        assert groups.statuses[0].failure.kind == "CallTimeout"
        assert told(groups, 1)[-1] == "said: a"
    with pytest.raises(BadInput, match="cannot stay in the caller's process"):
        Groups(config({"Told": 1}, step_timeout=0.3, sequential_env_types=["bandit"]))
    with pytest.raises(BadInput, match="is no kind of environment"):
        Groups(config({"Told": 1}, sequential_env_types=["bandid"]))


def test_options_of_environments_are_checked_before_anything_is_played() -> None:
    written = config({"SimpleSokoban": 1})
    written["custom_envs"]["SimpleSokoban"] = {"env_type": "sokoban", "env_config": {"num_boxs": 1}}
    with pytest.raises(BadInput, match=r"custom_envs\.SimpleSokoban\.env_config\.num_boxs is not known"):
        Groups(written)


def test_what_has_ended_is_not_cut_any_more() -> None:
    with Groups(config({"Ladder": 1}), plan="inline") as groups:
        groups.reset(seed=1)
        groups.step([said(0, "Up", "Up", "Up"), said(1, "Up")])
        groups.cut(groups.trajectories, "deadline")
        assert [(status.success, status.cut) for status in groups.statuses] == [(True, ""), (False, "deadline")]


def test_first_turns_are_taken_before_second_ones_when_both_have_come() -> None:
    with Groups(config({"Told": 2}, group_size=1), plan=1) as groups:
        groups.reset(seed=1)
        groups.submit(said(0, "a"))
        groups.ready()
        # One message for the first turns of both, one for their second: all have come when they are read.
        groups.step([said(0, "b"), said(1, "one"), said(1, "two"), said(0, "c")])
        assert told(groups, 1) == ["said:", "said: one", "said: one two"]
        assert told(groups, 0) == ["said:", "said: a", "said: a b", "said: a b c"]


@pytest.mark.parametrize(
    ("said_to_it", "words"),
    [
        ("five", "gave a tuple of 5; expected (state, reward, done, info)"),
        ("no info", "gave None for info, the last of (state, reward, done, info); expected a dict, {} will do"),
    ],
)
def test_an_answer_of_another_form_is_told_with_the_part_that_is_wrong(said_to_it: str, words: str) -> None:
    with Groups(config({"Told": 1}), plan="inline") as groups:
        groups.reset(seed=1)
        groups.step([said(0, said_to_it)])
        assert groups.statuses[0].failure is not None
        assert words in groups.statuses[0].failure.message
