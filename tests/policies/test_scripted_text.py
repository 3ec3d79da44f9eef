"""Policies of text that need no model."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.policies.scripted_text import drawn_action


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ("Look for a lamp\nAvailable actions: click[next >]", "click[next >]"),
        ("\n" * 3000 + "search[<keywords>]", "search[anything]"),  # the words stand too far below to be read
        ("小鸟\nsearch[…]", "search[search]"),
    ],
)
def test_what_is_drawn_is_of_the_kind_that_the_state_asks_for(state: str, action: str) -> None:
    assert drawn_action((), state, np.random.default_rng(0)) == action


@pytest.mark.parametrize(
    "state", ["", "Thank you for shopping with us!", "Available actions: ", "nums: []", None, b"pixels"]
)
def test_a_state_that_asks_for_nothing_is_answered_all_the_same(state: object) -> None:
    assert drawn_action((), state, np.random.default_rng(0)).isdigit()
