"""The scores of a rollout by tag, from the summaries of its trajectories' records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any

from paceline.seeds import digest

_TEXTS = ("history", "messages", "mask", "contexts", "extra")
_KINDS: Mapping[str, type | tuple[type, ...]] = MappingProxyType(
    {
        "env_id": int,
        "group_id": int,
        "tag": str,
        "success": bool,
        "reward": (int, float),
        "penalty": (int, float),
        "num_actions": int,
        "rewards": list,
        "failure": (dict, str, NoneType),
        "cut": (str, bool, NoneType),
        "digest": str,
        "usage": dict,
    }
)
"""What of a record the functions below count on."""


def summary(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the functions below need of a record: everything but the texts, which may be long.

    Raises:
        KeyError, TypeError: it lacks something, or has it in another kind.
    """
    for name, kind in _KINDS.items():
        if not isinstance(record[name], kind):
            raise TypeError(f"its {name} is {record[name]!r:.60}")
    for name, value in record["usage"].items():
        if not isinstance(value, list if name == "finish_reasons" else int):
            raise TypeError(f"its usage has {name}={value!r:.60}")
    kept = {key: value for key, value in record.items() if key not in _TEXTS}
    # Not the turns in which nothing was done: an environment may fail in the first action, and that is valid.
    invalid = sum("manager_invalid_action" in turn.get("info", ()) for turn in record["history"])
    return {**kept, "invalid": invalid}


def scores(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Tag → trajectories, success, pass@k, mean return, actions and turns, failures, cuts."""
    records = sorted(records, key=lambda record: int(record["env_id"]))
    tags = dict.fromkeys(record["tag"] for record in records)
    return {tag: _score([record for record in records if record["tag"] == tag]) for tag in tags}


def finished(records: Iterable[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """Environment → its trajectory; of one that was played again, the last word."""
    return {int(record["env_id"]): record for record in records}


def to_play_again(record: Mapping[str, Any]) -> bool:
    """Whether a trajectory did not come to an end of its own: it failed, or was cut by the clock."""
    return record["failure"] is not None or bool(record["cut"])


def rollout_digest(records: Sequence[Mapping[str, Any]]) -> str:
    """One digest for all trajectories, in the order of their environments, whenever they ended."""
    return digest([record["digest"] for record in sorted(records, key=lambda record: int(record["env_id"]))])


def tokens(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What was asked for and counted."""
    names = ("requests", "unanswered", "retries", "prompt_tokens", "completion_tokens")
    sums = {name: sum(record["usage"].get(name, 0) for record in records) for name in names}  # older runs lack some
    cut_off = sum(record["usage"]["finish_reasons"].count("length") for record in records)
    return {**sums, "cut_off": cut_off, "invalid": sum(record["invalid"] for record in records)}


def _score(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    groups: dict[int, bool] = {}
    for record in records:
        groups[record["group_id"]] = groups.get(record["group_id"], False) or record["success"]
    return {
        "trajectories": len(records),
        "groups": len(groups),
        "success": _mean([float(record["success"]) for record in records]),
        "pass": _mean([float(passed) for passed in groups.values()]),
        "return": _mean([record["reward"] for record in records]),
        "penalty": _mean([record["penalty"] for record in records]),
        "actions": _mean([record["num_actions"] for record in records]),
        "turns": _mean([len(record["rewards"]) for record in records]),
        "failures": sum(record["failure"] is not None for record in records),
        "cuts": sum(bool(record["cut"]) for record in records),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
