"""What an evaluation plays: frozen, planned before anything runs, and the same on every machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral

from paceline.errors import BadInput
from paceline.seeds import digest
from paceline.team import Player, Setting, assign
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


@dataclass(frozen=True)
class Run:
    """Everything that the result follows from, and how policies are watched over.

    Attributes:
        missions: What is played.
        players: Who plays.
        episodes: How many episodes of each mission.
        seed: Root of every seed; episode `i` of a mission has the environment seed `seed + i`.
        device: Where networks are to be put.
        setting: What all teams have in common; its lanes are part of the result.
    """

    missions: tuple[Mission, ...]
    players: tuple[Player, ...]
    episodes: int = 1
    seed: int = 0
    device: str = "cpu"
    setting: Setting = field(default_factory=Setting)

    def __post_init__(self) -> None:
        for name, value, least in (
            ("episodes", self.episodes, 1),
            ("lanes", self.setting.lanes, 1),
            ("seed", self.seed, 0),
        ):
            if not isinstance(value, Integral):
                raise BadInput(f"{name}={value!r:.60}; give a whole number, {least} or more")
            if value < least:
                raise BadInput(f"{name}={value}; give {least} or more")
        _check_names("mission", [mission.name for mission in self.missions])
        _check_names("policy", [player.name for player in self.players])

    def jobs(self) -> list[Job]:
        """Every episode, in the order of the report."""
        return [Job(number, index) for number in range(len(self.missions)) for index in range(self.episodes)]

    def seed_of(self, job: Job) -> int:
        """The environment's seed."""
        return self.seed + job.index

    def key(self, job: Job) -> tuple[str, int]:
        """Who an episode is."""
        return self.missions[job.mission].name, job.index

    def seating(self, job: Job, seats: int) -> list[int]:
        """Which player has which seat."""
        return assign(self.players, seats, self.seed, *self.key(job))

    def names(self, job: Job, seats: Sequence[Seat]) -> dict[str, str]:
        """Agent → the name of the policy that plays it."""
        seating = self.seating(job, len(seats))
        return {seat.agent: self.players[who].name for seat, who in zip(seats, seating, strict=True)}

    def with_agents(self, instead: Mapping[str, str]) -> Run:
        """The same run, with other modes for its agents: the result is the same."""
        players = tuple(replace(p, agents=p.agents and instead.get(p.agents, p.agents)) for p in self.players)
        mode = self.setting.agents
        return replace(self, players=players, setting=replace(self.setting, agents=instead.get(mode, mode)))

    def here(self) -> Run:
        """The same run, everything in one process and nothing that could be killed."""
        players = tuple(replace(player, agents=None) for player in self.players)
        return replace(self, players=players, setting=replace(self.setting, agents="off", call_deadline=None))

    def identity(self) -> dict[str, object]:
        """What a result of this run must have in common with another one, to be continued or compared."""
        return {
            "missions": [
                {"name": m.name, "options": {k: repr(v) for k, v in m.options.items()}, "steps": m.steps}
                for m in self.missions
            ],
            "policies": [{"name": player.name, "share": player.share} for player in self.players],
            "episodes": self.episodes,
            "seed": self.seed,
            "lanes": self.setting.lanes,
            "device": self.device,
        }

    def fingerprint(self) -> str:
        """A digest of the identity."""
        return digest(self.identity())


def _check_names(what: str, names: list[str]) -> None:
    if not names:
        raise BadInput(f"there is no {what} to evaluate")
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        raise BadInput(f"more than one {what} is called {', '.join(doubles)}; give each a name of its own")
