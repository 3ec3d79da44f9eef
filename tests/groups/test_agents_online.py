"""Agents behind a real endpoint that is slow and fails: every trajectory is complete, and the same as without."""

from __future__ import annotations

from typing import Any

from text_worlds import config

from paceline.groups import Groups
from paceline.groups.driver import rollout
from paceline.policies.chat import ChatPolicy
from paceline.policies.expert_chat import ExpertChat
from paceline.testing import CALM, Faults, LlmServer

BAD_DAY = Faults(
    latency=(0.001, 0.02), rate_429=0.15, retry_after=0.01, rate_500=0.1, rate_cut=0.05, rate_malformed=0.05
)


def played(faults: Faults, concurrency: int) -> tuple[Any, LlmServer]:
    """64 agents, four kinds of environments."""
    tags = {"SimpleSokoban": 4, "Countdown": 4, "FrozenLake": 4, "Sudoku": 4}
    written = {**config(tags, group_size=4), "agent_proxy": {"max_turn": 4}}
    with LlmServer(answer=ExpertChat(2), faults=faults) as server, Groups(written) as groups:
        groups.reset(seed=1)
        policy = ChatPolicy("test-model", base_url=server.url, temperature=0.0, concurrency=concurrency)
        result = rollout(groups, policy, concurrency=concurrency)
        assert all(status.failure is None for status in groups.statuses)
        return result, server


def test_64_agents_on_a_bad_day_end_complete_and_as_on_a_good_one() -> None:
    good, calm = played(CALM, 64)
    bad, busy = played(BAD_DAY, 48)
    assert bad.digest == good.digest
    assert set(calm.traffic.outcomes) == {"answered"}
    assert {"429", "500", "answered"} <= set(busy.traffic.outcomes)
    assert bad.usage.retries > 0
    assert busy.traffic.most_at_once <= 48
    assert all(len(state["history"]) >= 2 for state in bad.states)
    assert sum(state["metrics"][f"{state['tag']}/success"] for state in good.states) >= 40


def test_pictures_reach_the_model() -> None:
    seen: list[Any] = []

    def look(request: Any) -> str:
        seen.append(request["messages"][-1]["content"])
        return "<think></think><answer>Up</answer>"

    with LlmServer(answer=look) as server, Groups(config({"Picture": 1})) as groups:
        groups.reset(seed=1)
        result = rollout(groups, ChatPolicy("test-model", base_url=server.url), max_turns=1)
    assert [part["type"] for part in seen[0]] == ["image_url", "text"]
    assert all("failure" not in state["history"][-1] for state in result.states)
