"""Trajectories as JSON lines: RAGEN's shape, and messages with masks for trainers.

{env_id, group_id, tag, seed, success, …, history: [turns], messages: [chat], mask: [1 where the model spoke], …}
contexts: [what the model was shown, turn by turn], where that was not the whole conversation
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paceline.groups.prompts import Prompter
from paceline.groups.trajectory import Trajectory
from paceline.types import Reply

_LEFT_OUT = ("images", "metrics")  # pictures are in the messages, metrics in the report


def record(trajectory: Trajectory, replies: Sequence[Reply], prompter: Prompter) -> dict[str, Any]:
    """One trajectory, ready for `json.dumps`."""
    cache, status = trajectory.cache, trajectory.status
    messages = prompter.messages(trajectory, whole=True)
    return {
        **{key: cache[key] for key in ("env_id", "group_id", "tag", "penalty")},
        "seed": status.seed,
        "success": status.success,
        "terminated": status.terminated,
        "truncated": status.truncated,
        "cut": status.cut,
        "failure": None if status.failure is None else asdict(status.failure),
        "reward": sum(status.rewards),
        "rewards": list(status.rewards),
        "num_actions": status.num_actions,
        "history": [_turn(turn) for turn in trajectory.history],
        "messages": messages,
        "mask": [int(message["role"] == "assistant") for message in messages],
        **({} if prompter.shows_all else {"contexts": prompter.contexts(trajectory)}),
        **({"extra": [_plain(reply.extra) for reply in replies]} if any(reply.extra for reply in replies) else {}),
        "usage": {
            "requests": len(replies),
            "unanswered": int(trajectory.tries_in_vain > 0),
            "retries": sum(reply.retries for reply in replies) + max(0, trajectory.tries_in_vain - 1),
            "prompt_tokens": sum(reply.prompt_tokens for reply in replies),
            "completion_tokens": sum(reply.completion_tokens for reply in replies),
            "finish_reasons": [reply.finish_reason for reply in replies],
        },
        "digest": trajectory.digest(),
    }


def _turn(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in turn.items() if key not in _LEFT_OUT}


def _plain(value: Any) -> Any:
    """Numbers of NumPy as Python's; what JSON does not know as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
