"""A report in the shape that `cogames run --format json|yaml` prints, with averages that are averages.

Upstream divides the stats of agents by the number of agents only, so that ten episodes count ten times. Here they are
means over agents and episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.evaluate import Report
from paceline.evaluate.report import means, plain, reward_of
from paceline.types import Episode


def summary(report: Report) -> dict[str, Any]:
    """The missions of a report as upstream's `MultiEpisodeRolloutSummary` has them; failed episodes are in no mean."""
    policies = [policy["name"] for policy in report.identity["policies"]]
    missions = [mission["name"] for mission in report.identity["missions"]]
    content: dict[str, Any] = plain(
        {
            "missions": [
                {"mission_name": name, "mission_summary": _mission(report.played_to_the_end(name), policies)}
                for name in missions
            ]
        }
    )
    return content


def _mission(episodes: Sequence[Episode], policies: Sequence[str]) -> dict[str, Any]:
    return {
        "episodes": len(episodes),
        "policy_summaries": [_policy(episodes, policy) for policy in policies],
        "avg_game_stats": means([episode.game_stats for episode in episodes]),
        "avg_time_averaged_game_stats": means([episode.time_averaged_game_stats for episode in episodes]),
        "per_episode_per_policy_avg_rewards": {
            episode.index: [reward_of(episode, p) if p in episode.seats.values() else None for p in policies]
            for episode in episodes
        },
    }


def _policy(episodes: Sequence[Episode], policy: str) -> dict[str, Any]:
    seats = [(e, agent) for e in episodes for agent, who in e.seats.items() if who == policy]
    first = list(episodes[0].seats.values()).count(policy) if episodes else 0
    return {
        "agent_count": first,
        "avg_agent_metrics": means([episode.stats.get(agent, {}) for episode, agent in seats]),
        "action_timeouts": sum(episode.late.get(agent, 0) for episode, agent in seats),
    }
