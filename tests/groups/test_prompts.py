"""What a model is shown, and what is made of its answer."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_worlds import config, said

from paceline.groups import Groups
from paceline.groups.config import Talk
from paceline.groups.driver import prompters
from paceline.groups.prompts import parse

PIECES = st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", " ", "\n", "Up", "||", "x", "<|im_end|>"])


def by_expression(text: str, *, think: bool) -> tuple[str, str] | None:
    """Upstream's expression, which takes quadratic time on some texts."""
    pattern = r"<think>(.*?)</think>\s*<answer>(.*?)</answer>" if think else r"()<answer>(.*?)</answer>"
    found = re.search(pattern, text, re.DOTALL)
    return None if found is None else (found[1], found[2])


@given(st.lists(PIECES, max_size=14), st.booleans())
def test_an_answer_is_found_where_the_expression_finds_it(pieces: list[str], think: bool) -> None:
    text = "".join(pieces)
    _, actions = parse(text, Talk(enable_think=think, max_actions_per_turn=99))
    found = by_expression(text, think=think)
    if found is None:
        assert actions == []
    else:
        answer = found[1]
        for token in ("<think>", "</think>", "<answer>", "</answer>", "<|im_start|>", "<|im_end|>"):
            answer = answer.replace(token, "").strip()
        assert actions == [part.strip() for part in answer.split("||") if part.strip()]


def test_actions_are_cut_to_what_a_turn_may_have() -> None:
    talk = Talk(max_actions_per_turn=2)
    kept, actions = parse("<think> hm </think> <answer>Up || Left||Down</answer> and more", talk)
    assert actions == ["Up", "Left"]
    assert kept == "<think>hm</think><answer>Up || Left</answer>"
    assert parse("no form at all", talk) == ("no form at all", [])
    assert parse("<answer>Up</answer>", talk)[1] == []
    assert parse("<answer>Up</answer>", Talk(enable_think=False)) == ("<answer>Up</answer>", ["Up"])


@pytest.mark.parametrize("text", ["<think>" * 150_000, "</think>" * 130_000, "<think>" + "</think> " * 110_000])
def test_a_megabyte_of_tags_is_read_in_no_time(text: str) -> None:
    assert parse(text, Talk()) == (text, [])


def conversation(**talk: object) -> tuple[Groups, list[dict]]:
    written = {**config({"Ladder": 1}), "agent_proxy": talk}
    written["custom_envs"]["Ladder"] |= {"env_instruction": "Climb.", "max_tokens": 60}
    with Groups(written) as groups:
        groups.reset(seed=1)
        groups.step([said(0, "Up")])
        groups.step([said(0, "Fly")])
        return groups, prompters(groups)["Ladder"].messages(groups.trajectories[0])


def test_a_conversation_has_everything_that_was_said() -> None:
    _, messages = conversation()
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    system, first, answer, second, _, third = (message["content"] for message in messages)
    assert system.startswith("You're a helpful assistant. Climb.")
    assert "Up, Down" in system
    assert '" || "' in system
    assert first.startswith("Turn 1:\nState:\ntrain: rung 0 of 3")
    assert "You have 5 actions left" in first
    assert "<think>" in first
    assert "Max response length: 60" in first
    assert answer == "r"
    assert second.startswith("Reward:\n-0.1\n\nTurn 2:\nState:\ntrain: rung 1 of 3")
    assert "no valid action" in third


def test_windows_show_the_last_turns_only() -> None:
    _, limited = conversation(context_window_mode="limited_multi_turn", max_context_window=2)
    assert [message["role"] for message in limited] == ["system", "user", "assistant", "user"]
    assert limited[1]["content"].startswith("Turn 2:")
    _, single = conversation(context_window_mode="single_turn", max_context_window=1)
    assert len(single) == 2
    assert single[1]["content"].startswith("Turn 3:")
    _, past = conversation(context_window_mode="single_turn", max_context_window=-1)
    assert len(past) == 2
    assert "Turn 1:" in past[1]["content"]
    assert "You answered: r" in past[1]["content"]
    assert "<think>" not in conversation(enable_think=False)[1][1]["content"]


def test_pictures_are_sent_as_pictures() -> None:
    with Groups(config({"Picture": 1})) as groups:
        groups.reset(seed=1)
        content = prompters(groups)["Picture"].messages(groups.trajectories[0])[1]["content"]
    assert content[0]["image_url"]["url"].startswith("data:image/png;base64,")
    assert "<images>" in content[1]["text"]
