"""Environments and their options, in two registries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class CorridorConfig:
    """Options of a corridor, with its actions and its symbols."""

    length: int = 4
    action_lookup: dict[int, str] = field(default_factory=lambda: {1: "Left", 2: "Right"})
    grid_vocab: dict[str, str] = field(default_factory=lambda: {"_": "floor", "P": "player"})

    def __post_init__(self) -> None:
        self.size = self.length + 1


class Corridor:
    """A way to the right end. Pays 1 there, an int, and half a point for coming nearer."""

    def __init__(self, config: CorridorConfig) -> None:
        self.config = config

    def reset(self, seed: int | None = None, mode: str | None = None) -> str:
        self.place = int(np.random.default_rng(seed).integers(self.config.length))
        return self.render()

    def step(self, action: int) -> tuple[str, Any, bool, dict[str, Any]]:
        before, self.place = self.place, max(0, self.place + (1 if action == 2 else -1))
        done = self.place == self.config.length
        reward = 1 if done else np.float64(0.5) if self.place > before else 0
        return self.render(), reward, done, {"success": done, "action_is_effective": self.place != before}

    def render(self) -> str:
        return "".join("P" if place == self.place else "_" for place in range(self.config.size))

    def close(self) -> None:
        pass


@dataclass
class ParrotConfig:
    """No options."""


class Parrot:
    """Free text: pays a flag for a new word, and ends at the word end."""

    def __init__(self, config: ParrotConfig) -> None:
        self.config = config

    def reset(self, seed: int | None = None, mode: str | None = None) -> str:
        self.words = [f"{mode} {seed}"]
        return self.render()

    def step(self, text: str) -> tuple[str, bool, bool, dict[str, Any]]:
        new = text not in self.words
        self.words.append(text)
        return self.render(), new, text == "Left", {"success": new}

    def render(self) -> str:
        return ", ".join(self.words)

    def close(self) -> None:
        pass


REGISTERED_ENVS = {"sokoban": Corridor, "parrot": Parrot}
REGISTERED_ENV_CONFIGS = {"sokoban": CorridorConfig, "parrot": ParrotConfig}
