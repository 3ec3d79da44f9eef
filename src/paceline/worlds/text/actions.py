"""What the worlds of words have in common about actions: how one is found by its name, and what comes after the end."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

Outcome = tuple[str, float, bool, dict[str, Any]]
"""What a step gives: the state, the reward, whether it is over, and the info."""

LONGEST_NAME = 100  # longer text is no name; it is not even looked at


def find(action: Any, lookup: Mapping[int, str]) -> int | None:
    """Gives the number of an action that is said by number or by name, in any case; None if there is none such."""
    if isinstance(action, str):
        said = action.strip().casefold() if len(action) <= LONGEST_NAME else ""
        return next((number for number, name in lookup.items() if name.casefold() == said), None)
    try:
        number = operator.index(action)
    except TypeError:
        return None
    return number if number in lookup else None


def after_the_end(state: str, success: bool) -> Outcome:
    """What a step gives when the episode is over: nothing happens any more, and a success stays one."""
    return state, 0.0, True, {"action_is_valid": False, "action_is_effective": False, "success": success}
