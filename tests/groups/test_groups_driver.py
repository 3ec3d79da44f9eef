"""Rollouts: every trajectory at its own pace, and the same trajectories whatever the order of arrival."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from text_worlds import config

from paceline import BadInput
from paceline.groups import Groups, asking
from paceline.groups.driver import arollout, prompters, rollout
from paceline.groups.export import record
from paceline.groups.queueing import Turnstile
from paceline.groups.scores import summary
from paceline.records import Records, read_lines
from paceline.types import Reply, Turn


class Climber:
    """Climbs, or does not, as its turn's seed says; slow or quick, as it likes."""

    def __init__(self, slow: bool = False) -> None:
        self.slow, self.now, self.most = slow, 0, 0
        self.turns: list[Turn] = []

    async def answer(self, turn: Turn) -> Reply:
        self.turns.append(turn)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(random.random() * 0.01 if self.slow else 0)
        self.now -= 1
        word = "Up" if turn.seed % 3 else "Down"
        return Reply(f"<think>{turn.number}</think><answer>{word}</answer>", prompt_tokens=7, completion_tokens=2)


def play(policy: Any, plan: Any = "inline", **options: Any) -> Any:
    written = {**config({"Ladder": 3}, group_size=3, most=6), "agent_proxy": {"max_turn": 6}}
    with Groups(written, plan=plan) as groups:
        groups.reset(seed=4)
        return rollout(groups, policy, **options)


def test_trajectories_do_not_depend_on_the_order_of_arrival() -> None:
    quick = play(Climber())
    for plan in ("inline", 2):
        slow = Climber(slow=True)
        again = play(slow, plan, concurrency=4)
        assert again.digest == quick.digest
        assert slow.most == 4
    assert quick.usage.requests == sum(map(len, quick.replies.values()))
    assert quick.usage.prompt_tokens == 7 * quick.usage.requests
    assert len(quick.states) == 9
    assert {"Ladder/success", "Ladder/pass@3"} <= quick.states[0]["metrics"].keys()


@pytest.mark.parametrize("tag", ["Ladder", "Told"])
@pytest.mark.parametrize("plan", ["inline", 1], ids=["here", "1 worker"])
def test_a_long_answer_is_in_memory_once(tag: str, plan: Any, tmp_path: Path) -> None:
    thought = "é" * 1_000_000
    records = Records(tmp_path, "lines.jsonl", {"identity": {}})
    with Groups(config({tag: 1}, group_size=1), plan=plan) as groups:
        groups.reset(seed=4)
        writer = prompters(groups)[tag]
        lines: list[dict[str, Any]] = []
        played = rollout(
            groups,
            lambda turn: f"<think>{thought}</think><answer>Up</answer>",
            max_turns=1,
            on_end=lambda trajectory, replies: lines.append(record(trajectory, replies, writer)),
        )
    (line,), turn, said = lines, played.states[0]["history"][0], played.replies[0][0].text
    assert line["messages"][2]["content"] is turn["llm_response"] is turn["llm_raw_response"] is said
    assert line["history"][0]["llm_raw_response"] is said
    records.add(line)
    records.close()
    (again,) = read_lines(tmp_path / "lines.jsonl", summary)
    assert again == summary(line)
    assert len(json.dumps(again)) < 2000


def test_what_was_done_is_the_text_that_was_said() -> None:
    with Groups(config({"Told": 1}, group_size=1), plan=1) as groups:
        groups.reset(seed=4)
        said = "a word " * 3
        groups.step([{"env_id": 0, "actions": [said, "another"]}])
        assert groups.rollout_cache[0]["history"][0]["actions"][0] is said


def test_a_turn_tells_a_policy_everything() -> None:
    policy = Climber()
    play(policy, max_turns=2)
    first = next(turn for turn in policy.turns if turn.env_id == 4 and turn.number == 0)
    second = next(turn for turn in policy.turns if turn.env_id == 4 and turn.number == 1)
    assert (first.group_id, first.tag, first.actions, first.actions_left) == (1, "Ladder", ("Up", "Down"), 6)
    assert first.state in str(first.messages[-1]["content"])
    assert len(second.messages) == 4
    assert first.seed != second.seed
    assert 0 <= first.seed < 2**31
    assert max(turn.number for turn in policy.turns) == 1


def test_a_plain_function_is_a_policy_too() -> None:
    answered = play(lambda turn: "<think></think><answer>Up</answer>")
    assert all(state["metrics"]["Ladder/success"] == 1.0 for state in answered.states)


def test_a_policy_that_fails_ends_its_trajectory_and_no_other() -> None:
    async def answer(turn: Turn) -> str:
        if turn.env_id == 4:
            raise ConnectionError("nobody there")
        return "<think></think><answer>Up</answer>"

    ended = []
    answered = play(answer, on_end=lambda trajectory, replies: ended.append((trajectory, len(replies))))
    failed = next(trajectory for trajectory, _ in ended if trajectory.cache["env_id"] == 4)
    assert failed.status.failure.kind == "ConnectionError"
    assert len(ended) == 9
    assert sum(state["metrics"]["Ladder/success"] for state in answered.states) == 8


class Exits:
    async def answer(self, turn: Turn) -> str:
        raise SystemExit(3)


class CancelsItself:
    async def answer(self, turn: Turn) -> str:
        raise asyncio.CancelledError


def exits(turn: Turn) -> str:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        (lambda turn: 42, "BadInput"),
        (lambda turn: Reply(None), "BadInput"),  # type: ignore[arg-type]
        (Exits(), "MemberExit"),
        (exits, "MemberExit"),
        (CancelsItself(), "CancelledError"),
    ],
)
def test_nonsense_from_a_policy_is_that_trajectorys_failure(policy: Any, kind: str) -> None:
    answered = play(policy)
    assert all(state["history"][-1]["failure"] == kind for state in answered.states)
    assert all(len(state["history"]) == 1 for state in answered.states)  # no turn that nobody took
    assert (answered.usage.unanswered, answered.usage.retries) == (9, 0)


def test_a_success_is_not_cut() -> None:
    async def answer(turn: Turn) -> str:
        await asyncio.sleep(0.02 * turn.env_id)
        return "<think></think><answer>Up || Up || Up</answer>"

    written = {**config({"Ladder": 3}, group_size=3), "agent_proxy": {"max_actions_per_turn": 3}}
    with Groups(written) as groups:
        for seed in range(3):
            groups.reset(seed=seed)
            rollout(groups, answer, quorum=0.5)
            for trajectory in groups.trajectories:
                won = any(turn.get("info", {}).get("success") for turn in trajectory.history)
                assert trajectory.status.success == won


def test_a_plain_policy_that_never_comes_back_holds_nobody_up() -> None:
    import threading

    never = threading.Event()

    def answer(turn: Turn) -> str:
        if turn.env_id == 0:
            never.wait(60)
        return "<think></think><answer>Up</answer>"

    answered = play(answer, deadline=1.0)
    assert answered.states[0]["history"][-1]["cut"] == "deadline"
    assert sum(state["metrics"]["Ladder/success"] for state in answered.states) == 8
    never.set()


def test_seeds_go_on_when_a_trajectory_does() -> None:
    policy = Climber()
    with Groups(config({"Ladder": 1})) as groups:
        groups.reset(seed=1)
        for turns in (1, 2):
            rollout(groups, policy, max_turns=turns)
    numbers = {(turn.env_id, turn.number): turn.seed for turn in policy.turns}
    assert len(numbers) == len(set(numbers.values())) == 4


@pytest.mark.parametrize("plan", ["inline", 2], ids=["here", "2 workers"])
def test_a_rollout_that_is_interrupted_and_begun_again_ends_as_if_it_had_not_been(plan: Any) -> None:
    def played(interrupted: bool) -> tuple[str, list[int]]:
        left = 20 if interrupted else 10**9

        async def answer(turn: Turn) -> str:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
            return f"<think>{turn.seed}</think><answer>Down</answer>"

        with Groups(config({"Ladder": 3}), plan=plan) as groups:
            groups.reset(seed=1)
            if interrupted:
                with pytest.raises(KeyboardInterrupt):
                    rollout(groups, answer, max_turns=5)
            result = rollout(groups, answer, max_turns=5)
            return result.digest, [len(state["history"]) - 1 for state in result.states]

    once = played(False)
    assert set(once[1]) == {5}
    assert played(True) == once


def test_one_rollout_at_a_time_and_what_was_left_is_taken_in() -> None:
    async def twice() -> None:
        with Groups(config({"Ladder": 2}), plan=2) as groups:
            groups.reset(seed=1)
            first = asyncio.ensure_future(arollout(groups, Climber(slow=True)))
            await asyncio.sleep(0.005)
            with pytest.raises(BadInput, match="one rollout at a time"):
                await arollout(groups, Climber())
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            played = await arollout(groups, Climber())
            for state in played.states:
                said = len(played.replies.get(state["env_id"], []))
                assert said <= len(state["history"]) - 1

    asyncio.run(twice())


@pytest.mark.parametrize(("options", "why"), [({"deadline": 0.3}, "deadline"), ({"quorum": 0.8}, "quorum")])
def test_what_is_late_may_be_cut_and_says_so(options: dict, why: str) -> None:
    async def answer(turn: Turn) -> str:
        await asyncio.sleep(30 if turn.env_id == 0 else 0)
        return "<think></think><answer>Up</answer>"

    ended = []
    answered = play(answer, on_end=lambda trajectory, _: ended.append(trajectory), **options)
    assert answered.states[0]["history"][-1]["cut"] == why
    assert sum(bool(trajectory.status.cut) for trajectory in ended) >= 1
    assert len(ended) == 9


def test_some_may_be_played_alone() -> None:
    policy = Climber()
    play(policy, only={2, 5})
    assert {turn.env_id for turn in policy.turns} == {2, 5}


def test_a_loop_that_runs_already_is_told_what_to_do() -> None:
    async def inside() -> None:
        with Groups(config({"Ladder": 1})) as groups:
            groups.reset(seed=1)
            with pytest.raises(BadInput, match="await arollout"):
                rollout(groups, Climber())
            assert len((await arollout(groups, Climber())).states) == 2

    asyncio.run(inside())


def test_bad_options_are_refused() -> None:
    for options in ({"concurrency": 0}, {"max_turns": -1}):
        with pytest.raises(BadInput, match="whole numbers from 1"):
            play(Climber(), **options)
    with pytest.raises(BadInput, match=r"is the class Climber; give one of its kind: Climber\(…\)"):
        play(Climber)
    with pytest.raises(BadInput, match="needs answer"):
        play(3)
    for options in ({"quorum": 1.5}, {"quorum": 0}, {"deadline": -1}, {"only": [99]}):
        with pytest.raises(BadInput, match=r"quorum|deadline|only"):
            play(Climber(), **options)
    with Groups(config({"Ladder": 1})) as groups, pytest.raises(BadInput, match="before reset"):
        rollout(groups, Climber())


def test_an_action_that_fails_is_no_invalid_answer() -> None:
    async def answer(turn: Turn) -> str:
        return "<think></think><answer>raise</answer>" if turn.env_id else "nothing of the kind"

    lines: dict[int, dict[str, Any]] = {}
    with Groups(config({"Told": 1}), plan="inline") as groups:
        groups.reset(seed=1)
        writers = prompters(groups)

        def keep(trajectory: Any, replies: Any) -> None:
            lines[trajectory.env_id] = summary(record(trajectory, replies, writers["Told"]))

        rollout(groups, answer, max_turns=2, on_end=keep)
    assert [lines[0]["invalid"], lines[1]["invalid"]] == [2, 0]
    assert lines[1]["failure"]["kind"] == "ArithmeticError"


async def deaf(turn: Turn) -> str:
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:  # as retry loops do that catch everything
            continue


def test_a_policy_that_cannot_be_cancelled_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(asking, "_PATIENCE", 0.05)
    played = play(deaf, deadline=0.05)
    assert {state["history"][-1]["cut"] for state in played.states} == {"deadline"}
    gc.collect()
    assert [record.message for record in caplog.records] == [
        "9 policies do not let themselves be cancelled: they are left to themselves"
    ]


def test_ctrl_c_ends_a_rollout_whatever_its_policies_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def interrupted(turn: Turn) -> str:
        asked.append(turn.env_id)
        if len(asked) == 9:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return await deaf(turn)

    monkeypatch.setattr(asking, "_PATIENCE", 0.05)
    with pytest.raises(KeyboardInterrupt):
        play(interrupted)


@pytest.mark.parametrize("where", ["a policy", "a record", "the environments"])
def test_ctrl_c_is_raised_once_and_printed_never(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def press(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    async def answer(turn: Turn) -> str:
        return press() if where == "a policy" else "<think></think><answer>Up</answer>"

    if where == "the environments":
        monkeypatch.setattr(Groups, "submit", press)
    with pytest.raises(KeyboardInterrupt):
        play(answer, on_end=press if where == "a record" else None)
    gc.collect()  # asyncio tells of an exception that nobody has looked at when its task is freed
    assert not caplog.records


async def unhurried(turn: Turn) -> str:
    for _ in range(20):  # longer than a step takes: every trajectory is back in line before the next answer is there
        await asyncio.sleep(0)
    return "<think></think><answer>Up</answer>"


def forty(policy: Any, **options: Any) -> Any:
    written = {**config({"Ladder": 10}, group_size=4, options={"goal": 99}), "agent_proxy": {"max_turn": 5}}
    with Groups(written, plan="inline") as groups:
        groups.reset(seed=4)
        return rollout(groups, policy, **options)


def test_trajectories_are_finished_before_others_are_begun() -> None:
    begun, ended, most = set(), set(), 0

    async def answer(turn: Turn) -> str:
        nonlocal most
        begun.add(turn.env_id)
        most = max(most, len(begun) - len(ended))
        return await unhurried(turn)

    few = forty(answer, concurrency=4, on_end=lambda trajectory, _: ended.add(trajectory.env_id))
    assert most <= 8  # four with the policy, and four that came back from their steps meanwhile
    assert {forty(unhurried, concurrency=count).digest for count in (1, 7, 64)} == {few.digest}


def test_a_run_that_is_interrupted_late_keeps_most_of_it() -> None:
    asked, ended = [], []

    async def answer(turn: Turn) -> str:
        asked.append(turn.env_id)
        if len(asked) == 170:  # of 200
            raise KeyboardInterrupt
        return await unhurried(turn)

    with pytest.raises(KeyboardInterrupt):
        forty(answer, concurrency=4, on_end=lambda trajectory, _: ended.append(trajectory.env_id))
    assert len(ended) >= (170 - 8 * 5) / 5
    assert sorted(ended) == list(range(len(ended)))


def test_a_place_that_was_given_to_somebody_who_left_is_passed_on() -> None:
    turnstile = Turnstile(1)
    order = []

    async def ask(turns: int, env_id: int) -> None:
        await turnstile.enter(turns, env_id)
        order.append(env_id)
        turnstile.leave()

    async def everybody() -> None:
        await turnstile.enter(0, 0)
        others = [asyncio.ensure_future(ask(turns, env_id)) for env_id, turns in enumerate([3, 2, 1, 2, 1])]
        others[1].cancel()  # before it stands in line
        await asyncio.sleep(0)
        others[3].cancel()  # in line
        turnstile.leave()
        others[0].cancel()  # given the place, and not there yet
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run(everybody())
    assert order == [2, 4]
