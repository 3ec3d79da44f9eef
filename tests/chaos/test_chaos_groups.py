"""Environments that raise, die, hang, and cannot be made: typed outcomes, and everybody else goes on."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from text_worlds import Told, config, said

from paceline import BadInput
from paceline.catalog.text_envs import register_env_type
from paceline.groups import Groups
from paceline.groups.driver import rollout


def kinds(groups: Groups) -> list[str | None]:
    return [None if status.failure is None else status.failure.kind for status in groups.statuses]


@pytest.mark.parametrize(("sent", "kills"), [((0,), 3), ((0, 1), 4)], ids=["alone", "with another"])
def test_a_hang_is_tried_three_times_and_once_more_to_find_out_whose_it_is(sent: tuple[int, ...], kills: int) -> None:
    with Groups(config({"Told": 1}, step_timeout=0.3), plan=1) as groups:
        groups.reset(seed=1)
        groups.step([said(n, "a" if n else "hang") for n in sent])
        assert kinds(groups) == ["CallTimeout", None]
        assert [event.kind for event in groups.events].count("lost") == kills
        assert repr(groups.statuses[0].rewards) == "[0]"


@pytest.mark.parametrize("plan", ["inline", 2], ids=["here", "2 workers"])
def test_a_step_that_raises_ends_its_trajectory(plan: Any) -> None:
    with Groups(config({"Told": 2}), plan=plan) as groups:
        groups.reset(seed=1)
        outputs = groups.step([said(0, "a"), said(1, "raise"), said(2, "b"), said(3, "five")])
        assert [cache["env_id"] for cache in outputs] == [0, 2]
        assert kinds(groups) == [None, "ArithmeticError", None, "BadInput"]
        failure = groups.statuses[1].failure
        assert failure is not None
        assert "as it was told" in failure.message
        assert "ArithmeticError" in failure.traceback
        history = groups.rollout_cache[1]["history"]
        assert "failure" not in history[0]["info"]
        assert history[-1]["failure"] == "ArithmeticError"
        assert len(groups.step([said(0, "c"), said(2, "d")])) == 2
        assert len(groups.get_rollout_states()) == 4
        groups.reset(seed=2)
        assert kinds(groups) == [None] * 4
        assert len(groups.step([said(n, "e") for n in range(4)])) == 4


def test_a_worker_that_dies_is_replaced_and_nobody_notices(tmp_path: Path) -> None:
    digests = []
    for name, first in (("a", True), ("b", False)):
        mark = tmp_path / name
        if not first:
            mark.touch()
        with Groups(config({"Told": 2}, options={"mark": str(mark)}), plan=2) as groups:
            groups.reset(seed=1)
            groups.step([said(n, "hello") for n in range(4)])
            groups.step([said(n, "die once" if n == 1 else "go on") for n in range(4)])
            digests.append(groups.digest())
            assert kinds(groups) == [None] * 4
            assert any(event.kind == "lost" for event in groups.events) == first
    assert digests[0] == digests[1]


class Odd(Told):
    """Gives whatever its option says as a reward."""

    def step(self, text: str) -> Any:
        return self.render(), {"text": "1", "nothing": None, "nan": float("nan"), "vast": 10**400}[text], False, {}


@pytest.mark.parametrize("what", ["text", "nothing", "nan", "vast"])
def test_a_reward_that_is_no_number_is_told_with_its_environment(what: str) -> None:
    register_env_type("odd", Odd)
    written = config({"Told": 1})
    written["custom_envs"]["Told"]["env_type"] = "odd"
    with Groups(written, plan="inline") as groups:
        groups.reset(seed=1)
        groups.step([said(0, what)])
        failure = groups.statuses[0].failure
        assert failure is not None
        assert failure.message.startswith(f"Told: step('{what}') of Odd gave a reward of ")
        assert len(failure.message) < 120


def test_an_action_that_kills_every_time_ends_its_trajectory_alone() -> None:
    with Groups(config({"Told": 2}), plan=2) as groups:
        groups.reset(seed=1)
        outputs = groups.step([said(0, "a"), said(1, "die"), said(2, "b"), said(3, "c")])
        assert [cache["env_id"] for cache in outputs] == [0, 2, 3]
        assert kinds(groups) == [None, "WorkerLost", None, None]
        assert groups.rollout_cache[3]["history"][-1]["state"] == "said: c"
        assert len(groups.step([said(0, "d"), said(3, "e")])) == 2


def test_an_action_that_hangs_is_ended_with_its_worker() -> None:
    with Groups(config({"Told": 2}, step_timeout=0.3), plan=2) as groups:
        groups.reset(seed=1)
        groups.step([said(n, "hello") for n in range(4)])
        outputs = groups.step([said(0, "hang"), said(1, "a"), said(2, "b"), said(3, "c")])
        assert [cache["env_id"] for cache in outputs] == [1, 2, 3]
        assert kinds(groups) == ["CallTimeout", None, None, None]
        assert groups.rollout_cache[2]["history"][-1]["state"] == "said: hello b"


def two_tags(first: dict[str, Any], second: dict[str, Any], **manager: Any) -> dict[str, Any]:
    """Told under two names, each with limits of its own; two environments each."""
    written = config({"Told": 2}, **manager)
    told = written["custom_envs"]["Told"]
    written["custom_envs"] = {"Quick": {**told, **first}, "Slow": {**told, **second}}
    written["es_manager"]["train"]["env_configs"] = {"tags": ["Quick", "Slow"], "n_groups": [1, 1]}
    return written


def test_a_tag_may_have_a_deadline_of_its_own() -> None:
    with Groups(two_tags({}, {"step_timeout": 60.0}, step_timeout=0.4), plan=1) as groups:
        groups.reset(seed=1)
        outputs = groups.step([said(0, "hang"), said(1, "a"), said(2, "sleep 0.8"), said(3, "b")])
        assert [cache["env_id"] for cache in outputs] == [1, 2, 3]
        assert kinds(groups) == ["CallTimeout", None, None, None]


def test_a_trajectory_has_so_many_seconds_of_its_own() -> None:
    with Groups(two_tags({}, {"trajectory_timeout": 0.3}), plan=1) as groups:
        groups.reset(seed=1)
        every = range(4)  # the others wait for the first, on the same worker: that is not their own time
        assert len(groups.step([said(n, "a" if n else "sleep 0.4") for n in every])) == 4
        groups.step([said(2, "sleep 0.2"), said(3, "b")])
        assert [cache["env_id"] for cache in groups.step([said(2, "hang"), said(3, "c")])] == [3]
        assert kinds(groups) == [None, None, "TrajectoryTimeout", None]
        failure = groups.statuses[2].failure
        assert failure is not None
        assert "in the middle of a call, after 0.3 s in all; its trajectory_timeout is 0.3 s" in failure.message
        assert groups.rollout_cache[2]["history"][-1]["failure"] == "TrajectoryTimeout"
        assert groups.get_rollout_states()[2]["metrics"]["Slow/failed"] == 1.0


def test_limits_that_are_kept_change_nothing() -> None:
    digests = set()
    for limits, plan in (({}, "inline"), ({"step_timeout": 60.0, "trajectory_timeout": 60.0}, "auto")):
        with Groups(two_tags({}, limits), plan=plan) as groups:
            assert groups.plan.backend == ("process" if limits else "inline")
            groups.reset(seed=1)
            groups.step([said(n, f"word {n}") for n in (3, 0, 2, 1, 3, 2)])
            rollout(groups, lambda turn: f"<think></think><answer>{turn.number}</answer>", max_turns=4)
            digests.add(groups.digest())
    assert len(digests) == 1


def test_a_reset_counts_and_so_does_a_turn_that_nothing_can_end(caplog: pytest.LogCaptureFixture) -> None:
    slow = {"trajectory_timeout": 0.3, "env_config": {"slow": 9.0}}
    with Groups(two_tags({}, slow, trajectory_timeout=0.6), plan=2) as groups:
        assert [cache["env_id"] for cache in groups.reset(seed=1)] == [0, 1]
        assert kinds(groups) == [None, None, "TrajectoryTimeout", "TrajectoryTimeout"]
        groups.use_multiprocessing = False
        assert "es_manager.trajectory_timeout is not kept in the caller's process" in caplog.text
        for left in (2, 1):
            assert len(groups.step([said(0, "a"), said(1, "sleep 0.4")])) == left
        assert kinds(groups)[:2] == [None, "TrajectoryTimeout"]
        assert groups.rollout_cache[1]["history"][-1]["state"] == "said: sleep 0.4 sleep 0.4"


async def asleep(turn: Any) -> str:
    if turn.env_id == 1:
        await asyncio.Event().wait()
    return "<think></think><answer>end</answer>"


def blocked(turn: Any) -> str:
    if turn.env_id == 1:
        threading.Event().wait(9.0)
    return "<think></think><answer>end</answer>"


@pytest.mark.parametrize("policy", [asleep, blocked])
def test_a_policy_that_does_not_answer_ends_its_trajectory_in_time(policy: Any) -> None:
    with Groups(two_tags({"trajectory_timeout": 0.5}, {}), plan=1) as groups:
        groups.reset(seed=1)
        played = rollout(groups, policy, concurrency=1)
    assert kinds(groups) == [None, "TrajectoryTimeout", None, None]
    assert played.usage.unanswered == 1
    assert [status.success for status in groups.statuses] == [True, False, True, True]


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("custom_envs.Quick.step_timeout", two_tags({"step_timeout": 9.0}, {})),
        ("custom_envs.Slow.trajectory_timeout", two_tags({}, {"trajectory_timeout": 9.0})),
        ("es_manager.trajectory_timeout", two_tags({}, {}, trajectory_timeout=9.0)),
    ],
)
def test_limits_are_refused_where_nothing_could_be_ended(key: str, written: dict[str, Any]) -> None:
    for plan in ("inline", "thread"):
        with pytest.raises(BadInput, match=f"{key}: 9.0 cannot be kept on the {plan} backend"):
            Groups(written, plan=plan)


@pytest.mark.parametrize("plan", ["inline", 2], ids=["here", "2 workers"])
@pytest.mark.parametrize(("option", "kind"), [("unbuildable", "RuntimeError"), ("no_reset", "ValueError")])
@pytest.mark.parametrize("failed", [(2, 3), (0, 1)], ids=["the last", "the first"])
def test_one_that_cannot_be_made_or_reset_is_not_handed_out(
    plan: Any, option: str, kind: str, failed: tuple[int, ...]
) -> None:
    tags = {"Ladder": 1, "Told": 1} if failed[0] else {"Told": 1, "Ladder": 1}
    written, ids, asked = config(tags, options={option: True}), [n for n in range(4) if n not in failed], set()
    with Groups(written, plan=plan) as groups:
        caches = groups.reset(seed=1)  # a trainer asks its model about these
        assert [cache["env_id"] for cache in caches] == ids
        assert kinds(groups) == [kind if n in failed else None for n in range(4)]
        assert groups.rollout_cache[failed[0]]["history"] == [{"state": "", "actions_left": 0, "failure": kind}]
        assert [cache["env_id"] for cache in groups.step([said(n, "Up") for n in ids])] == ids
        states = groups.get_rollout_states()
        tags = [state["tag"] for state in states]
        assert [state["metrics"][f"{tag}/failed"] for state, tag in zip(states, tags, strict=True)] == [
            float(n in failed) for n in range(4)
        ]
        played = rollout(groups, lambda turn: asked.add(turn.env_id) or "<think></think><answer>Up</answer>")
        assert asked == set(ids)
        assert len(played.states) == 4
