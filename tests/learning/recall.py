"""A world in which what is shown first is to be done last. A PettingZoo parallel env; workers import it."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


class Recall:
    """Each agent sees one of two cues, then nothing, and is rewarded for the cue's number at the end."""

    metadata = {"name": "recall"}  # noqa: RUF012
    render_mode = None

    def __init__(self, agents: int = 2, length: int = 4) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self._length = length

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        rng = np.random.default_rng(seed)
        self._time, self.agents = 0, list(self.possible_agents)
        self._cues = {agent: int(rng.integers(2)) for agent in self.agents}
        return self._look(), {agent: {} for agent in self.agents}

    def _look(self) -> dict[str, Any]:
        last = float(self._time == self._length - 1)
        return {
            agent: np.array([(2 * cue - 1) * (not self._time), last], np.float32) for agent, cue in self._cues.items()
        }

    def step(self, actions: dict[str, int]) -> Any:
        over = self._time == self._length - 1
        rewards = {agent: float(over and actions[agent] == self._cues[agent]) for agent in self.agents}
        self._time += 1
        played = list(self.agents)
        self.agents = [] if over else played
        return (
            self._look(),
            rewards,
            dict.fromkeys(played, over),
            dict.fromkeys(played, False),
            {agent: {} for agent in played},
        )

    def close(self) -> None:
        pass
