"""What an evaluation plays: frozen, planned before anything runs, and the same on every machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from paceline.errors import BadInput
from paceline.fingerprint import Fingerprint, fingerprint, options_text
from paceline.seeds import digest
from paceline.team import Player, Setting, assign, most_counts
from paceline.types import Mission, Seat


@dataclass(frozen=True)
class Job:
    """One episode to be played.

    Attributes:
        mission: The number of its mission.
        index: Which of the mission's episodes.
        tries: How often it has been tried, this time included.
    """

    mission: int
    index: int
    tries: int = 1

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in the plan."""
        return self.mission, self.index


@dataclass(frozen=True)
class Run:
    """Everything that the result follows from, and how policies are watched over.

    Attributes:
        missions: What is played.
        players: All policies that play.
        episodes: How many episodes of each mission.
        seed: Root of every seed; episode `i` of a mission has the environment seed `seed + i`.
        device: Where networks are to be put.
        setting: What all teams have in common; its lanes are part of the result.
        casts: Who plays each mission: a name may mean another policy on another kind of mission. Empty: all play all.
        replays: A directory for a replay of each episode; None: none is kept.
        mixes: Mission → the mission that it is a mix of, and how many seats the candidate has; see `replacement`.
    """

    missions: tuple[Mission, ...]
    players: tuple[Player, ...]
    episodes: int = 1
    seed: int = 0
    device: str = "cpu"
    setting: Setting = field(default_factory=Setting)
    casts: tuple[tuple[Player, ...], ...] = ()
    replays: str | None = None
    mixes: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_names("mission", [mission.name for mission in self.missions])
        for cast in self.casts or (self.players,):
            _check_names("policy", [player.name for player in cast])

    def jobs(self, *, by_episode: bool = False) -> Iterator[Job]:
        """Every episode, each made when it is asked for.

        Args:
            by_episode: Episode 0 of every mission comes first, then episode 1 …; otherwise the order is the report's.
        """
        missions, indices = range(len(self.missions)), range(self.episodes)
        if by_episode:
            return (Job(mission, index) for index in indices for mission in missions)
        return (Job(mission, index) for mission in missions for index in indices)

    @property
    def planned(self) -> int:
        """How many episodes there are."""
        return len(self.missions) * self.episodes

    def job(self, mission: str, index: int) -> Job:
        """The episode that is `key`."""
        return Job([each.name for each in self.missions].index(mission), index)

    def seed_of(self, job: Job) -> int:
        """The environment's seed."""
        return self.seed + job.index

    def key(self, job: Job) -> tuple[str, int]:
        """Who an episode is."""
        return self.missions[job.mission].name, job.index

    def cast(self, mission: int) -> tuple[Player, ...]:
        """Who plays a mission."""
        return self.casts[mission] if self.casts else self.players

    def setting_of(self, mission: int) -> Setting:
        """What the teams of a mission have in common: its policies may need more time for an action than is asked."""
        limit = self.setting.action_limit
        if limit is None:
            return self.setting
        told = [player.declares("told_timeout_ms") for player in self.cast(mission)]
        return replace(self.setting, action_limit=max([limit, *(ms / 1000 for ms in told if ms is not None)]))

    def seating(self, job: Job, seats: int) -> list[int]:
        """Which player of the mission's cast has which seat."""
        return assign(self.cast(job.mission), seats, self.seed, *self.key(job), self.missions[job.mission].seating)

    def replay_of(self, job: Job) -> Path | None:
        """The file for an episode's replay, named by mission, episode and seed; None: none is kept."""
        if self.replays is None:
            return None
        mission, index = self.key(job)
        stems = [_stem(each.name) for each in self.missions]
        stem = stems[job.mission]
        if stems.count(stem) > 1:
            stem = f"{stem}-{digest(mission)[:8]}"
        return Path(self.replays) / f"{stem}-{index}-seed{self.seed_of(job)}.json.z"

    def most(self, mission: int, seats: int) -> tuple[int, ...]:
        """The most seats that each player of a mission's cast has in an episode."""
        seating = self.missions[mission].seating
        if isinstance(seating, str):
            return most_counts(self.cast(mission), seats)
        return tuple(max(row.count(who) for row in seating) for who in range(len(self.cast(mission))))

    def names(self, job: Job, seats: Sequence[Seat]) -> dict[str, str]:
        """Agent → the name of the policy that plays it."""
        seating, cast = self.seating(job, len(seats)), self.cast(job.mission)
        return {seat.agent: cast[who].name for seat, who in zip(seats, seating, strict=True)}

    def with_agents(self, instead: Mapping[str, str]) -> Run:
        """The same run, with other modes for its agents: the result is the same."""
        mode = self.setting.agents
        run = replace(self, setting=replace(self.setting, agents=instead.get(mode, mode)))
        return run._with_each(
            lambda player: replace(player, agents=player.agents and instead.get(player.agents, player.agents))
        )

    def here(self) -> Run:
        """The same run, everything in one process and nothing that could be killed."""
        run = replace(self, setting=replace(self.setting, agents="off", call_deadline=None))
        return run._with_each(lambda player: replace(player, agents=None))

    def one_agent_at_a_time(self) -> Run:
        """The same run, with the agents of an episode asked one after another."""
        run = replace(self, setting=replace(self.setting, agents="off"))
        return run._with_each(lambda player: replace(player, agents=None))

    def with_blackbox(self, directory: str) -> Run:
        """The same run, with a directory in which policies write down who is being asked."""
        return replace(self, setting=replace(self.setting, blackbox=directory))

    def with_found(self, found: Sequence[Sequence[Any]]) -> Run:
        """The same run, with what the survey has found of the players of each mission's cast."""
        casts = [
            tuple(_as_found(player, *each) for player, each in zip(self.cast(number), mine, strict=True))
            for number, mine in enumerate(found)
        ]
        return replace(self, casts=tuple(casts))

    def _with_each(self, change: Callable[[Player], Player]) -> Run:
        casts = tuple(tuple(map(change, cast)) for cast in self.casts)
        return replace(self, players=tuple(map(change, self.players)), casts=casts)

    def identity(self) -> dict[str, object]:
        """What a result of this run must have in common with another one, to be continued or compared."""
        return {
            "missions": [
                {"name": m.name, "options": options_text(m.make, m.options), "steps": m.steps} for m in self.missions
            ],
            "policies": [{"name": player.name, "share": player.share} for player in self.players],
            "episodes": self.episodes,
            "seed": self.seed,
            "lanes": self.setting.lanes,
            "device": self.device,
            **({"timeout": repr(self.setting.action_limit)} if self.setting.timeout_action == "noop" else {}),
            **({"mixes": {name: list(mix) for name, mix in self.mixes.items()}} if self.mixes else {}),
        }

    def recipes(self) -> dict[str, Fingerprint]:
        """What its policies and missions are made of, by whose it is: part of what makes this run the one it is."""
        found = self.missions_made_of()
        for number, mission in enumerate(self.missions):
            for player in self.cast(number):
                owner, parts = f"policy {player.name!r}", fingerprint(player.factory)
                if found.setdefault(owner, parts) != parts:
                    found[f"{owner} on mission {mission.name!r}"] = parts
        return found

    def missions_made_of(self) -> dict[str, Fingerprint]:
        """What its missions are made of, by their names."""
        return {owner_of(m.name): fingerprint(partial(m.make, **m.options)) for m in self.missions}


def _as_found(player: Player, acts: bool | None, parts: Sequence[tuple[Sequence[int], str]] | None) -> Player:
    if parts is None:
        return replace(player, acts=acts)
    from paceline.team.sharing import Part  # here, because it needs cloudpickle

    return replace(player, acts=acts, parts=tuple(Part(tuple(members), shared) for members, shared in parts))


def owner_of(mission: str) -> str:
    """What a mission is called in `recipes`."""
    return f"mission {mission!r}"


def _stem(name: str) -> str:
    """A mission's name as the beginning of a file's."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name)


def _check_names(what: str, names: list[str]) -> None:
    if not names:
        raise BadInput(f"there is no {what} to evaluate")
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise BadInput(f"more than one {what} is called {', '.join(doubles)}; give each a name of its own")
