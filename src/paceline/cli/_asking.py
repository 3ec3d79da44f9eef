"""What `eval` is asked, kept with the results, so that `--resume` and `rerun` can ask the same again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.catalog.missions import DEFAULT, find_missions
from paceline.catalog.resolve import casts_of
from paceline.cli._resuming import validated
from paceline.errors import BadInput
from paceline.evaluate import evaluate
from paceline.evaluate.given import chosen_device
from paceline.evaluate.replacement import mixed
from paceline.evaluate.run import Run
from paceline.records import PLAN
from paceline.run import Seconds, checked, options_of
from paceline.team import Setting


@dataclass
class Asked:
    """What a run follows from, as it was written on the command line."""

    missions: list[str] = field(default_factory=list)
    policies: list[str] = field(default_factory=list)
    seats: int | None = None
    steps: int | None = None
    episodes: int = 10
    seed: int = 0
    lanes: int = 8
    device: str = "cpu"
    map_seed: int | None = None
    variants: list[str] = field(default_factory=list)
    pool: list[str] = field(default_factory=list)
    action_timeout: float | None = None
    timeout_action: str = "late"
    replays: str | None = None

    @classmethod
    def of(cls, given: dict[str, Any]) -> Asked:
        """From what was given; what was not is as by default."""
        return cls(**{name: value for name, value in given.items() if value is not None})

    def setting(self, agents: str = "off", call_deadline: float | None = None) -> Setting:
        """What all teams have in common."""
        limit = self.action_timeout
        return Setting(self.seed, self.lanes, agents, None, call_deadline, limit, self.timeout_action)

    def run(self, setting: Setting, *, apart: bool = False) -> Run:
        """The run; what is wrong with it is told. `apart`: no mission or policy of a user's is loaded here."""
        checked("action_timeout", Seconds | None, self.action_timeout)
        same = ("episodes", "seed", "lanes", "device", "timeout_action")
        options_of(evaluate).check({name: getattr(self, name) for name in same})
        if self.timeout_action == "noop" and self.action_timeout is None:
            raise BadInput("--timeout-action noop needs a limit: give --action-timeout S")
        asked: dict[str, Any] = {
            "agents": self.seats,
            "steps": self.steps,
            "map_seed": self.map_seed,
            "variants": self.variants,
            "apart": apart,
        }
        missions = tuple(find_missions(self.missions or DEFAULT, **asked))
        if self.pool and len(self.policies) != 1:
            raise BadInput("--pool puts one candidate among others: give one -p, and no more")
        players, casts = casts_of(missions, [*self.policies, *self.pool], setting.action_limit, apart=apart)
        run = Run(missions, players, self.episodes, self.seed, self.device, setting, casts, self.replays)
        return mixed(run) if self.pool else run

    def about(self) -> dict[str, Any]:
        """For plan.json."""
        return {"asked": asdict(self), "directory": os.getcwd()}

    def settled(self) -> Asked:
        """With the device that "auto" means here: it is part of the result."""
        return Asked(**{**asdict(self), "device": chosen_device(self.device)})


def asked_before(out: Path, plan: Mapping[str, Any], given: Mapping[str, Any], home: Path) -> Asked:
    """What a run on disk was asked, by its plan; what is given now must not be something else, but for more episodes.

    Files are found from `home`.
    """
    if "asked" not in plan:
        raise BadInput(f"{out} was not begun by `paceline eval`, so it cannot be continued or played again here")
    if not isinstance(plan["asked"], dict) or not isinstance(plan.get("directory"), str):
        raise BadInput(f"{out / PLAN} is damaged: it does not say how the run was begun")
    before = {name: plan["asked"][name] for name in asdict(Asked()) if name in plan["asked"]}
    known = asdict(validated(Asked, {**asdict(Asked()), **before}, out))
    for name, value in given.items():
        if name == "episodes" and value is not None and value > known[name]:
            known[name] = value  # it goes on beyond its end
        elif value not in (None, [], known[name]):
            raise BadInput(f"{out} was asked {name}={known[name]!r}, and now {value!r}: leave it away, or begin anew")
    os.chdir(home)
    return Asked(**known)
