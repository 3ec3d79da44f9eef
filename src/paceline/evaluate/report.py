"""Report: what an evaluation found, in the order in which it was planned, with a digest to compare it by."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from paceline.errors import EpisodesFailed
from paceline.evaluate.statistics import Summary, summarize
from paceline.seeds import digest
from paceline.types import Episode


@dataclass(frozen=True)
class Score:
    """How one policy did on one mission: its mean reward per seat, episode by episode.

    Attributes:
        mission: The mission; "*" is all of them.
        policy: The policy.
        seats: How many seats it had in an episode.
        reward: The summary over episodes.
        steps: The mean length of an episode.
        failed: How many episodes failed; they are in no mean.
        late: How many of its actions came late.
        stats: The means of the environment's own counts, per seat and episode.
    """

    mission: str
    policy: str
    seats: int
    reward: Summary
    steps: float | None
    failed: int
    late: int
    stats: dict[str, float]


@dataclass
class Report:
    """The result of an evaluation.

    Attributes:
        identity: What was asked: missions, policies, episodes, seed, lanes, device.
        episodes: The record of every episode that was played, in the order of the plan.
        planned: How many episodes were planned.
        plan: Where it ran, and why. Not part of the digest.
        notes: What is worth knowing of how it ran: fallbacks, lost workers. Not part of the digest.
        seconds: Wall time.
        verified: Episode → whether it came out the same when it was played again here.
        out: The directory that holds the results, if any.
        made_of: What its missions are made of, part by part, as far as it is known. Not part of the digest.
    """

    identity: dict[str, Any]
    episodes: list[Episode]
    planned: int
    plan: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    verified: dict[str, bool] = field(default_factory=dict)
    out: str | None = None
    made_of: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The same for the same run, wherever and however it was played."""
        played = [[e.mission, e.index, e.seed, e.seats, e.digest] for e in self.episodes]
        return digest([{k: self.identity[k] for k in ("seed", "lanes", "device")}, played])

    @property
    def failures(self) -> list[Episode]:
        """The episodes that failed."""
        return [episode for episode in self.episodes if episode.failure is not None]

    @property
    def complete(self) -> bool:
        """Whether everything that was planned was played."""
        return len(self.episodes) == self.planned

    @property
    def ok(self) -> bool:
        """Whether everything that was planned was played to its end, and came out the same where it was verified."""
        return self.complete and not self.failures and all(self.verified.values())

    def told_failures(self) -> str:
        """How many episodes failed, and why the first one did; empty if none has."""
        if not self.failures:
            return ""
        first = self.failures[0]
        assert first.failure is not None
        why = f"{first.name} (seed {first.seed}) by {first.failure.kind}: {first.failure.message}"
        return f"{len(self.failures)} of {len(self.episodes)} episodes failed, {why}"

    def raise_for_failures(self) -> None:
        """Raises an error if an episode failed.

        Raises:
            EpisodesFailed: one has; the error has this report.
        """
        if self.failures:
            raise EpisodesFailed(self)

    def played_to_the_end(self, mission: str) -> list[Episode]:
        """The episodes of a mission that did not fail ("*": of all missions)."""
        return [e for e in self.episodes if mission in (e.mission, "*") and e.failure is None]

    def game_stats(self) -> dict[str, dict[str, dict[str, float]]]:
        """Mission → the means over its episodes of what the game counts, at the end and over time; if it counts."""
        found = {}
        for mission in [mission["name"] for mission in self.identity["missions"]]:
            good = self.played_to_the_end(mission)
            if any(episode.game_stats for episode in good):
                found[mission] = {
                    "at_end": means([episode.game_stats for episode in good]),
                    "over_time": means([episode.time_averaged_game_stats for episode in good]),
                }
        return found

    def scores(self) -> list[Score]:
        """Per mission and policy, in the order of the plan; at the end per policy over all missions, if several."""
        missions = [mission["name"] for mission in self.identity["missions"]]
        policies = [policy["name"] for policy in self.identity["policies"]]
        found = [self._score(mission, policy) for mission in missions for policy in policies]
        if len(missions) > 1:
            found += [self._score("*", policy) for policy in policies]
        return [score for score in found if score.seats or score.failed]

    def _score(self, mission: str, policy: str) -> Score:
        mine = [e for e in self.episodes if mission in (e.mission, "*") and policy in e.seats.values()]
        good = [episode for episode in mine if episode.failure is None]
        return Score(
            mission,
            policy,
            max((list(episode.seats.values()).count(policy) for episode in mine), default=0),
            summarize([reward_of(episode, policy) for episode in good]),
            math.fsum(episode.steps for episode in good) / len(good) if good else None,
            len(mine) - len(good),
            sum(n for e in mine for agent, n in e.late.items() if e.seats.get(agent) == policy),
            _mean_stats(good, policy),
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        content: dict[str, Any] = plain(
            {
                "digest": self.digest,
                "run": self.identity,
                "planned": self.planned,
                "played": len(self.episodes),
                "failed": len(self.failures),
                "scores": [asdict(score) for score in self.scores()],
                "game_stats": self.game_stats(),
                "episodes": [asdict(episode) for episode in self.episodes],
                "plan": self.plan,
                "notes": self.notes,
                "verified": self.verified,
                "seconds": round(self.seconds, 3),
                "out": self.out,
            }
        )
        return content

    def as_csv(self) -> str:
        """One line per episode and agent."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["mission", "episode", "seed", "agent", "policy", "reward", "steps", "ended", "truncated", "failure"]
        )
        for e in self.episodes:
            failure = e.failure.kind if e.failure else ""
            for agent, policy in e.seats.items():
                reward = "" if e.failure else e.rewards.get(agent, "")
                writer.writerow(
                    [e.mission, e.index, e.seed, agent, policy, reward, e.steps, e.ended, e.truncated, failure]
                )
        return file.getvalue()


def in_plan_order(played: Mapping[tuple[str, int], Episode], identity: Mapping[str, Any]) -> list[Episode]:
    """The episodes that belong to a run, in the order in which they were planned."""
    numbers = {mission["name"]: number for number, mission in enumerate(identity["missions"])}
    indices = range(identity["episodes"])
    mine = [episode for (name, index), episode in played.items() if name in numbers and index in indices]
    return sorted(mine, key=lambda episode: (numbers[episode.mission], episode.index))


def reward_of(episode: Episode, policy: str | None = None) -> float:
    """The mean reward of a policy's seats in an episode (None: of all seats)."""
    rewards = [episode.rewards[agent] for agent, who in episode.seats.items() if policy in (None, who)]
    return math.fsum(rewards) / len(rewards)


def _mean_stats(episodes: Sequence[Episode], policy: str) -> dict[str, float]:
    mine = [(e, e.stats.get(agent, {})) for e in episodes for agent, who in e.seats.items() if who == policy]
    names = sorted({name for _, numbers in mine for name in numbers})
    return {name: _mean(mine, name) for name in names}


def _mean(mine: Sequence[tuple[Episode, Mapping[str, float]]], name: str) -> float:
    """The mean of one count; where a game that counts itself does not name it, it is 0."""
    values = [numbers.get(name, 0.0) for episode, numbers in mine if name in numbers or episode.game_stats]
    return math.fsum(values) / len(values)


def means(counts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each count of a game that counts itself: where it does not name one, that is 0."""
    names = sorted({name for row in counts for name in row})
    return {name: math.fsum(row.get(name, 0.0) for row in counts) / len(counts) for name in names}


def plain(value: Any) -> Any:
    """What JSON can hold: it has no NaN and no infinity, so they become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
