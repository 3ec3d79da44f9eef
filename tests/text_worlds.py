"""Text environments for tests: one that climbs, one that does what it is told, and one that draws from everywhere."""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline import PlanNotMet


class Ladder:
    """Climb to the goal; the state tells the rung and a number that was drawn at the reset."""

    action_lookup = {1: "Up", 2: "Down"}  # noqa: RUF012

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.goal = (config or {}).get("goal", 3)
        self.correct_answer = f"up {self.goal} times"

    def reset(self, seed: int, mode: str = "train") -> str:
        self.drawn = int(np.random.default_rng(seed).integers(1000))
        self.rung, self.mode = 0, mode
        return self.render()

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        self.rung += 1 if action == 1 else -1
        done = self.rung == self.goal
        info = {"success": done, "action_is_valid": True, "raw_reward": 0.5, "score": self.rung, "note": "text"}
        return self.render(), 1.0 if done else -0.1, done, info

    def render(self) -> str:
        return f"{self.mode}: rung {self.rung} of {self.goal}, number {self.drawn}"


class Saved(Ladder):
    """A ladder that can be saved."""

    def snapshot(self) -> Any:
        return vars(self)

    def restore(self, state: Any) -> None:
        vars(self).update(state)


class Wordless(Exception):
    """Says nothing, not even when it is asked."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Told:
    """Does what the text says: dies, hangs, raises; everything else is fine."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.config = config or {}
        if self.config.get("unbuildable"):
            raise RuntimeError("this one cannot be built")

    def reset(self, seed: int, mode: str = "train") -> str:
        if self.config.get("no_reset"):
            raise ValueError("this one cannot be reset")
        time.sleep(self.config.get("slow", 0.0))
        self.said: list[str] = []
        return self.render()

    def step(self, text: str) -> tuple[str, float, bool, dict[str, Any]]:
        if text == "die":
            os._exit(13)
        if text == "die once" and not os.path.exists(self.config["mark"]):
            open(self.config["mark"], "w").close()
            os._exit(13)
        if text == "hang":
            while True:
                time.sleep(0.01)
        if text.startswith("sleep"):
            time.sleep(float(text.split()[1]))
        if text == "raise":
            raise ArithmeticError("as it was told")
        if text == "raise wordless":
            raise Wordless
        if text == "no plan":
            raise PlanNotMet("a pool of its own could not be had")
        if text == "five":
            return "", 0.0, False, False, {}  # type: ignore[return-value]
        if text == "no info":
            return "", 0.0, False, None  # type: ignore[return-value]
        self.said.append(text)
        return self.render(), 0.0, text == "end", {"success": text == "end"}

    def render(self) -> str:
        return " ".join(["said:", *self.said])


class Kinds(Told):
    """Remembers of what kind the words were."""

    def step(self, text: str) -> tuple[str, float, bool, dict[str, Any]]:
        return super().step(type(text).__name__)


class Odd(Told):
    """Shows what it is configured to, after the word "odd" or always."""

    def render(self) -> Any:
        shown: Any = self.config["shown"]
        return shown if self.config.get("always") or "odd" in self.said else super().render()


class Drawer(Ladder):
    """Draws from the global generators at every step, as badly kept environments do."""

    def reset(self, seed: int, mode: str = "train") -> str:
        random.seed(seed)
        np.random.seed(seed)
        self.drawn, self.rung, self.mode = 0, 0, mode
        return self.render()

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        self.drawn = random.randrange(1000) + np.random.randint(1000)
        return super().step(action)


class Planned(Ladder):
    """Its number is planned before: once for a group."""

    @staticmethod
    def layout(config: Any, seed: int, mode: str) -> int:
        return seed * 1000 + len(mode) + (config or {}).get("goal", 3)

    def reset(self, seed: int, mode: str = "train", layout: int = 0) -> str:  # type: ignore[override]
        super().reset(seed, mode)
        self.drawn = layout
        return self.render()


class Careless(Ladder):
    """Does not follow its seed."""

    made = 0

    def reset(self, seed: int, mode: str = "train") -> str:
        Careless.made += 1
        super().reset(seed, mode)
        self.drawn = Careless.made
        return self.render()


class Raw(Ladder):
    """Says the raw reward that it is told to say, or none."""

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__(config)
        self.raw = {"raw_reward": config["raw"]} if config and "raw" in config else {}

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        state, reward, done, _ = super().step(action)
        return state, reward, done, {"success": done, **self.raw}


class Paying(Ladder):
    """Pays what it is told to pay, one after another, in the kind in which it is told."""

    def reset(self, seed: int, mode: str = "train") -> str:
        self.owed = list(self.pays)
        return super().reset(seed, mode)

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        super().__init__({"goal": 99})
        self.pays = (config or {}).get("pays", [])

    def step(self, action: int) -> tuple[str, Any, bool, dict[str, Any]]:
        return super().step(action)[0], self.owed.pop(0), False, {}


@dataclass
class BesideConfig:
    """Options as RAGEN's environments have them: a dataclass with the actions in it."""

    goal: int = 5
    action_lookup: dict[int, str] = field(default_factory=lambda: {1: "Rise", 2: "Fall"})

    def __post_init__(self) -> None:
        if self.goal < 0:
            raise ValueError("a goal is above the ground")


class Beside(Ladder):
    """Says nowhere what it takes: its options stand beside it."""

    action_lookup = None  # type: ignore[assignment]

    def __init__(self, config=None) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        self.config = config or BesideConfig()
        self.goal = self.config.goal


class Annotated(Beside):
    """Says it in the annotation."""

    def __init__(self, config: BesideConfig | None) -> None:
        super().__init__(config)


class Optioned(Beside):
    """Says it in an attribute."""

    Config = BesideConfig

    def __init__(self, options) -> None:  # type: ignore[no-untyped-def]
        super().__init__(options)


class Tiles(Ladder):
    """Has its numbers in a grid."""

    def reset(self, seed: int, mode: str = "train") -> str:
        self.grid = np.full((2, 2), 32)
        return super().reset(seed, mode)

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        self.grid[0, 0] = 64
        return super().step(action)


class Picture(Ladder):
    """Shows a picture."""

    def render(self) -> Any:
        frame = np.zeros((4, 4, 3), np.uint8)
        frame[self.rung % 4] = 255
        return frame


def config(
    tags: dict[str, int],
    *,
    group_size: int = 2,
    most: int = 5,
    options: dict[str, Any] | None = None,
    base: Any = None,
    **manager: Any,
) -> dict[str, Any]:
    """A configuration in RAGEN's shape; a tag is a class of this module, or a built-in tag."""
    own = {name: kind for name, kind in globals().items() if isinstance(kind, type) and name in tags}
    custom = {
        name: {"env_type": f"text_worlds:{name}", "max_actions_per_traj": most, "env_config": options} for name in own
    }
    side = {
        "env_groups": sum(tags.values()),
        "group_size": group_size,
        "env_configs": {"tags": list(tags), "n_groups": list(tags.values())},
    }
    found: dict[str, Any] = {"es_manager": {"train": side, "val": side, **manager}, "custom_envs": custom}
    return found if base is None else {**found, "seed": {"train": base, "val": base}}


def said(env_id: int, *actions: str) -> dict[str, Any]:
    """One input."""
    return {"env_id": env_id, "actions": list(actions), "llm_response": "r", "llm_raw_response": "raw"}
