"""Bandit: two arms that are named after people; one pays a little for sure, the other much but seldom.

state    a text that names both arms, then "Trader: 1.0 points"
action   the name of an arm; which names there are is known after the reset
reward   the sure arm 0.1; the bold arm 1 with a chance of 1/4, and else 0
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from pydantic import Field

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds.text.actions import Outcome, after_the_end, find

INSTRUCTION = """\
You play a game with two arms, and may pull one of them once. Answer with the name of an arm.
Example: <think>A trader sounds bolder than a teacher, and the bold pay more.</think><answer>Trader</answer>"""

QUESTION = """\
Two arms stand before you. They are named {one} and {other}.
Each arm pays by a rule of its own, and its name hints at the rule: think of what each name stands for.
Which of them pays more on average? Answer with <answer>{one}</answer> or <answer>{other}</answer>."""

ARMS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "train": (
            ("Teacher", "Trader"),
            ("Librarian", "Gambler"),
            ("Nurse", "Founder"),
            ("Accountant", "Speculator"),
            ("Pharmacist", "Inventor"),
            ("Clerk", "Stuntman"),
            ("Postman", "Explorer"),
            ("Gardener", "Prospector"),
            ("Cook", "Rockstar"),
            ("Tailor", "Pirate"),
            ("Farmer", "Magician"),
            ("Optician", "Racer"),
        ),
        "test": (
            ("Archivist", "Filmmaker"),
            ("Bookkeeper", "Adventurer"),
            ("Cashier", "Diver"),
            ("Mechanic", "Novelist"),
            ("Plumber", "Treasurehunter"),
            ("Dentist", "Daredevil"),
            ("Janitor", "Smuggler"),
            ("Surveyor", "Astronaut"),
        ),
    }
)
"""For each split, pairs of names: the sure arm, and the bold one."""


class BanditConfig(Settings):
    """Which names there are, and what the arms pay."""

    split: Literal["train", "test"] = Field("train", description="Which names are used.")
    action_space_start: int = Field(1, ge=0, description="The number of the first arm.")
    lo_arm_score: float = Field(0.1, description="What the sure arm pays.")
    hi_arm_loscore: float = Field(0.0, description="What the bold arm pays most of the time.")
    hi_arm_hiscore: float = Field(1.0, description="What the bold arm pays now and then.")
    hi_arm_hiscore_prob: float = Field(0.25, ge=0, le=1, description="How often that is.")
    render_mode: Literal["text"] = "text"
    action_lookup: None = Field(None, description="Always none: the arms get their names at each reset.")


class Bandit:
    """One pull of one of two arms; who pulls the bold one has succeeded.

    Attributes:
        action_lookup: Number → name of the arms; None before the first reset.
    """

    Config = BanditConfig

    def __init__(self, config: Mapping[str, Any] | BanditConfig | None = None) -> None:
        self.config = BanditConfig.read(config, "bandit")
        self.action_lookup: Mapping[int, str] | None = None
        self._bold = ""
        self._shown = ""
        self._over = False
        self._success = False
        self._chance = np.random.default_rng(0)

    def reset(self, seed: int, mode: str = "train", *, layout: Any = None, dynamics: int | None = None) -> str:
        """Names the arms by the seed; what the bold one will pay follows from `dynamics`, or else from the seed too."""
        rng = np.random.default_rng(sequence(seed, "bandit", "layout"))
        self._chance = np.random.default_rng(sequence(seed if dynamics is None else dynamics, "bandit", "dynamics"))
        pairs = ARMS[self.config.split]
        names = list(pairs[int(rng.integers(len(pairs)))])
        self._bold = names[1]
        if rng.random() < 0.5:
            names.reverse()
        self.action_lookup = dict(enumerate(names, self.config.action_space_start))
        self._over, self._success = False, False
        self._shown = QUESTION.format(one=names[0], other=names[1])
        return self._shown

    def step(self, action: int | str) -> Outcome:
        """Pulls an arm, and that is the end."""
        if self.action_lookup is None:
            raise BadInput("the arms have no names yet: call reset() before the first step")
        if self._over:
            return after_the_end(self._shown, self._success)
        arm = find(action, self.action_lookup)
        if arm is None:
            return self._shown, 0.0, False, {"action_is_valid": False, "action_is_effective": False, "success": False}
        name = self.action_lookup[arm]
        self._over, self._success = True, name == self._bold
        reward = self._pull_bold() if self._success else self.config.lo_arm_score
        self._shown = f"{name}: {reward} points"
        info = {"action_is_valid": True, "action_is_effective": True, "success": self._success}
        return self._shown, reward, True, info

    def render(self, mode: str | None = None) -> str:
        """What was shown last."""
        return self._shown

    def close(self) -> None:
        """Nothing to release."""

    def snapshot(self) -> Any:
        """Everything that an episode is, the state of chance too."""
        chance = self._chance.bit_generator.state
        return self.action_lookup, self._bold, self._shown, self._over, self._success, chance

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self.action_lookup, self._bold, self._shown, self._over, self._success, chance = state
        self._chance.bit_generator.state = chance

    def _pull_bold(self) -> float:
        lucky = self._chance.random() < self.config.hi_arm_hiscore_prob
        return self.config.hi_arm_hiscore if lucky else self.config.hi_arm_loscore
