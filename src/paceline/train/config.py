"""What a file says about a training: the keywords of `train`, checked when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from paceline.errors import BadInput
from paceline.settings import Settings, read_yaml


class Config(Settings):
    """The settings of a training, named as the keywords of `train` are.

    Attributes:
        mission: The world, as `train` takes its name.
        learners: A learner for every agent, or one for each by name.
        plan: Where it runs: a word, or a number of workers.
        out: The directory of the run.
    """

    mission: str | None = None
    learners: str | dict[str, str] | None = None
    epochs: int | None = None
    train_interval: int | None = None
    updates_per_interval: int | None = None
    warmup: int | None = None
    capacity: int | None = None
    lag: int | None = None
    worlds: int | None = None
    turn: str | None = None
    max_turns: int | None = None
    priority: dict[str, float] | None = None
    on_failure: str | None = None
    deadline: float | None = None
    free_running: bool | None = None
    seed: int | None = Field(None, ge=0)
    lanes: int | None = None
    device: str | None = None
    plan: str | int | None = None
    speculate: bool | None = None
    out: str | None = None


def read_config(path: Path) -> dict[str, Any]:
    """What a file of YAML says; only what it says.

    Raises:
        BadInput: it cannot be read, has a key that there is none of, or a value that does not fit.
    """
    content = read_yaml(path, "mission and epochs")
    found = Config.read(content, f"{path}: train").model_dump(exclude_none=True)
    if "mission" not in found:
        raise BadInput(f"{path} has no mission: say what world is trained in, mission: treasure_hunt say")
    return found
