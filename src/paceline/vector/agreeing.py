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
                f"env {number} has the observation space {space}, and env 0 {single}; "
                "if that is meant, give observation_mode='different'"
            )
        if about["action_space"] != actions:
            raise RuntimeError(f"env {number} has the action space {about['action_space']}, and env 0 {actions}")
    return whole, single


def _spaces(mode: str | tuple[Any, Any], each: list[Any]) -> tuple[Any, Any]:
    if isinstance(mode, tuple):
        return mode
    if mode == "same":
        return batch_space(each[0], len(each)), each[0]
    if mode == "different":
        return batch_differing_spaces(each), each[0]
    raise BadInput(f"observation_mode={mode!r}; give 'same', 'different', or a pair of spaces")


def _alike(a: Any, b: Any) -> bool:
    """Whether two spaces lie in the same arrays, whatever their bounds."""
    found = leaves(a, "")
    return type(a) is type(b) if found is None else found == leaves(b, "")
