"""The numbers of a rollout, in upstream's names: "{tag}/success", means of what infos say, "{tag}/pass@{k}"."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.groups.config import GroupsConfig
from paceline.groups.trajectory import Trajectory

_BY_TURN = ("action_is_effective", "action_is_valid", "end_of_page")
_log = logging.getLogger("paceline")
_told: set[tuple[str, str]] = set()


def add_metrics(
    trajectories: Sequence[Trajectory], facts: Mapping[int, Mapping[str, Any]], group_size: int, config: GroupsConfig
) -> None:
    """Writes `metrics` into every cache, and what the environments themselves had to tell."""
    raw = _tags_with_raw_rewards(trajectories, facts)
    for trajectory in trajectories:
        cache, known = trajectory.cache, facts.get(trajectory.cache["env_id"], {})
        series = _series(trajectory)
        cache["history"][-1]["metrics"] = series
        numbers = _numbers(trajectory, series, known, raw=cache["tag"] in raw)
        cache["metrics"] = {f"{cache['tag']}/{name}": value for name, value in numbers}
        if "correct_answer" in known:
            cache["correct_answer"] = known["correct_answer"]
    for first in range(0, len(trajectories), group_size):
        group = trajectories[first : first + group_size]
        passed = float(any(trajectory.status.success for trajectory in group))
        for trajectory in group:
            trajectory.cache["metrics"][f"{trajectory.cache['tag']}/pass@{group_size}"] = passed


def _tags_with_raw_rewards(trajectories: Sequence[Trajectory], facts: Mapping[int, Mapping[str, Any]]) -> set[str]:
    """Whose environments say `raw_reward` themselves. By tag: one that failed, or was cut, has no facts to tell."""
    return {
        t.cache["tag"]
        for t in trajectories
        if facts.get(t.env_id, {}).get("tells_raw_reward") or any(_raw(turn) for turn in t.history)
    }


def _raw(turn: Mapping[str, Any]) -> Any:
    return turn.get("info", {}).get("raw_reward")


def _series(trajectory: Trajectory) -> dict[str, list[float]]:
    """What the infos say, turn by turn."""
    series: dict[str, list[float]] = {}
    for turn in trajectory.history:
        for name, value in turn.get("info", {}).items():
            if name == "success":
                continue
            numbers = series.setdefault(name, [])  # empty, and 0 in the metrics, for what is no number, as upstream
            try:
                numbers.append(float(value))
            except (TypeError, ValueError, OverflowError):
                _tell(trajectory.cache["tag"], name, value)
    return series


def _tell(tag: str, name: str, value: Any) -> None:
    if (tag, name) not in _told:
        _told.add((tag, name))
        _log.info("%s: %r in infos is %.60r, not a number: left out of its metric", tag, name, value)


def _numbers(
    trajectory: Trajectory, series: Mapping[str, list[float]], known: Mapping[str, Any], *, raw: bool
) -> list[tuple[str, float]]:
    status, turns = trajectory.status, max(1, len(trajectory.history) - 1)
    numbers: list[tuple[str, float]] = [("success", float(status.success)), ("num_actions", status.num_actions)]
    numbers.append(("failed", float(status.failure is not None)))
    largest = known.get("max_tile", next(iter(series.get("max_tile", ())[-1:]), None))
    if largest is not None:  # at the end, not a mean over turns
        numbers.append(("max_tile", int(largest)))
    if "raw_reward" in series:  # in every info; it is 0 where nobody says it, and then rewards are what is returned
        numbers.append(("episodic_return", float(sum(series["raw_reward"] if raw else status.rewards))))
    by_page = "webshop" in trajectory.cache["tag"].lower()
    for name, values in series.items():
        if name == "max_tile" and largest is not None:
            continue
        whole = by_page and name not in _BY_TURN
        numbers.append((f"traj_sum/{name}", sum(values)) if whole else (name, sum(values) / turns))
    if series.get("score"):
        numbers.append(("final_score", series["score"][-1]))
    return numbers
