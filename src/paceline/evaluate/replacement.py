"""Value over replacement: what a candidate is worth in every mix with a pool of other policies.

    mission of N seats ──► N + 1 mixes, the candidate in N … 0 of them ──► score in each − score of the pool alone

Each mix is a mission of its own in the run, with the same environment seeds and its seats written out beforehand.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from paceline.errors import BadInput, attempt
from paceline.evaluate.report import Report, reward_of
from paceline.evaluate.run import Run
from paceline.rollout import Rollout
from paceline.team import Player, counts
from paceline.types import Episode, Mission

_MOST_EPISODES = 100_000


@dataclass(frozen=True)
class Mix:
    """How the candidate did with so many seats.

    Attributes:
        mission: The mission that was mixed.
        candidates: How many seats the candidate had.
        others: How many the pool had.
        episodes: How many episodes were played to their end.
        score: The candidate's mean reward per seat; that of the pool where there is no candidate. None: no episode.
        value: That score over the pool's alone; None where one of the two is missing.
    """

    mission: str
    candidates: int
    others: int
    episodes: int
    score: float | None
    value: float | None = None


@dataclass(frozen=True)
class Replacement:
    """The value of a candidate on one mission.

    Attributes:
        mission: Which mission.
        candidate: The candidate's name.
        pool: The names of the others.
        replacement: The score of the pool alone.
        mixes: Every mix, the one with most candidates first.
        value: The value over all mixes, weighted by the candidate's seats.
    """

    mission: str
    candidate: str
    pool: tuple[str, ...]
    replacement: float | None
    mixes: tuple[Mix, ...]
    value: float | None


def mixed(run: Run) -> Run:
    """The run of all mixes: the first policy of each cast is the candidate, the others are the pool.

    Raises:
        BadInput: there is no pool.
    """
    missions: list[Mission] = []
    casts: list[tuple[Player, ...]] = []
    mixes: dict[str, tuple[str, int]] = {}
    for number, mission in enumerate(run.missions):
        cast = run.cast(number)
        if len(cast) < 2:
            raise BadInput("a pool has one policy or more: give --pool NAME")
        if run.episodes > _MOST_EPISODES:
            raise BadInput(
                f"a pool has the seats of every mix written out beforehand, for {_MOST_EPISODES} episodes at the most: "
                "give fewer --episodes"
            )
        if any(player.share != 1 for player in cast):
            raise BadInput("a candidate is played in every mix with its pool: leave shares of seats away")
        rng = random.Random(run.seed)  # one for all mixes of a mission, as `cogames pickup` has it
        seats = _seats(mission)
        for candidates in range(seats, -1, -1):
            name = f"{mission.name} c{candidates}"
            missions.append(replace(mission, name=name, seating=_seating(cast, seats, candidates, run.episodes, rng)))
            casts.append(cast)
            mixes[name] = mission.name, candidates
    return replace(run, missions=tuple(missions), casts=tuple(casts), mixes=mixes)


def replacements(report: Report) -> list[Replacement]:
    """What a report of mixes says of the candidate, mission by mission."""
    mixes: dict[str, tuple[str, int]] = report.identity.get("mixes", {})
    names = [policy["name"] for policy in report.identity["policies"]]
    by_mission: dict[str, list[Episode]] = {}
    for episode in report.episodes:
        if episode.failure is None:
            by_mission.setdefault(episode.mission, []).append(episode)
    return [
        _replacement(base, names[0], tuple(names[1:]), _mixes(base, mixes, names[0], by_mission))
        for base in dict.fromkeys(base for base, _ in mixes.values())
    ]


def _mixes(
    base: str, mixes: dict[str, tuple[str, int]], candidate: str, episodes: dict[str, list[Episode]]
) -> list[Mix]:
    mine = {name: count for name, (of, count) in mixes.items() if of == base}
    seats = max(mine.values())
    found = []
    for name, count in mine.items():
        played = episodes.get(name, [])
        scores = [reward_of(episode, candidate if count else None) for episode in played]
        mean = math.fsum(scores) / len(scores) if scores else None
        found.append(Mix(base, count, seats - count, len(played), mean))
    return found


def _replacement(base: str, candidate: str, pool: tuple[str, ...], mixes: list[Mix]) -> Replacement:
    alone = next((mix.score for mix in mixes if mix.candidates == 0), None)
    valued = [
        replace(mix, value=mix.score - alone) if mix.candidates and mix.score is not None and alone is not None else mix
        for mix in mixes
    ]
    weights = [(mix.value, mix.candidates * mix.episodes) for mix in valued if mix.value is not None]
    total = sum(weight for _, weight in weights)
    value = math.fsum(value * weight for value, weight in weights) / total if total else None
    return Replacement(base, candidate, pool, alone, tuple(valued), value)


def _seats(mission: Mission) -> int:
    rollout = attempt(lambda: Rollout(mission), f"mission {mission.name!r}")
    try:
        seats: int = len(rollout.seats())
        return seats
    finally:
        rollout.close()


def _seating(
    cast: Sequence[Player], seats: int, candidates: int, episodes: int, rng: random.Random
) -> tuple[tuple[int, ...], ...]:
    pool = [replace(player, share=1) for player in cast[1:]]
    shared = _shared(pool, seats - candidates)
    order = [0] * candidates + [number for number, count in enumerate(shared, 1) for _ in range(count)]
    rows = []
    for _ in range(episodes):
        rng.shuffle(order)
        rows.append(tuple(order))
    return tuple(rows)


def _shared(pool: Sequence[Player], seats: int) -> list[int]:
    """The pool's seats in equal parts; where there are too few for all, the first ones have them."""
    if seats < len(pool):
        return [int(number < seats) for number in range(len(pool))]
    return counts(pool, seats)
