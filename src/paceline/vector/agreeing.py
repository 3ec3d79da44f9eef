"""Whether the envs of a vector fit together, and which space they have then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.vector.utils import batch_differing_spaces, batch_space

from paceline.errors import BadInput
from paceline.spaces import leaves


def agreed(mode: str | tuple[Any, Any], abouts: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
    """The observation space of the vector, and that of one env.

    Raises:
        RuntimeError: the envs do not fit together, as in Gymnasium's `SyncVectorEnv`.
    """
    whole, single = _spaces(mode, [about["observation_space"] for about in abouts])
    actions = abouts[0]["action_space"]
    for number, about in enumerate(abouts):
        space = about["observation_space"]
        if not (space == single if mode == "same" else _alike(space, single)):
            raise RuntimeError(
                f"the sub-environments observation spaces are not equivalent. Env {number} has {space}, and env 0 "
                f"{single}. If this is intentional, use `observation_mode='different'` instead."
            )
        if about["action_space"] != actions:
            raise RuntimeError(f"env {number} has the action space {about['action_space']}, and env 0 {actions}")
    return whole, single


def check_each_is_its_own(worlds: Sequence[Any]) -> None:
    """One env behind two recipes would be stepped twice."""
    for number, world in enumerate(worlds):
        first = worlds.index(world)
        if first < number:
            raise BadInput(
                f"the recipes of envs {first} and {number} give one and the same env: let a recipe make a new one "
                "whenever it is called (lambda: MyEnv(), not lambda: env)"
            )


def _spaces(mode: str | tuple[Any, Any], each: list[Any]) -> tuple[Any, Any]:
    if isinstance(mode, tuple):
        return mode
    if mode == "same":
        return batch_space(each[0], len(each)), each[0]
    if mode == "different":
        return batch_differing_spaces(each), each[0]
    raise BadInput(
        "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and batch observation space, "
        f"actual got {mode}"
    )


def _alike(a: Any, b: Any) -> bool:
    """Whether two spaces lie in the same arrays, whatever their bounds."""
    found = leaves(a, "")
    return type(a) is type(b) if found is None else found == leaves(b, "")
