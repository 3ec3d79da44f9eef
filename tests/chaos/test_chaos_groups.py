"""Environments that raise, die, hang, and cannot be made: typed outcomes, and everybody else goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from text_worlds import Told, config, said

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
