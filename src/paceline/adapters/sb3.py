"""A saved model of Stable-Baselines3 as a policy."""

from __future__ import annotations

from typing import Any

from paceline.errors import BadInput
from paceline.types import Seat


class Model:
    """Plays a seat with a model of Stable-Baselines3.

    Its file holds pickles, which can run anything when they are loaded, so that must be allowed.

    Args:
        seat: Who is played.
        algorithm: "PPO", "A2C", "DQN" …
        weights: The file that the model was saved to.
        trust: Whether the file may be loaded.
        sampled: Whether actions are drawn; otherwise the likeliest is taken.

    Raises:
        BadInput: it is not trusted, not readable, or Stable-Baselines3 is not installed.
    """

    def __init__(
        self, seat: Seat, algorithm: str, weights: str = "", trust: bool = False, sampled: bool = False
    ) -> None:
        if not weights:
            raise BadInput(f"sb3:{algorithm} needs the model's file: write sb3:{algorithm},weights=FILE.zip,trust=true")
        if trust is not True:
            raise BadInput(
                f"{weights} is loaded by pickle, which can run anything: add trust=true if you trust its origin"
            )
        self._sampled = sampled
        self._model = _algorithm(algorithm).load(weights, device=seat.device)
        self._state: Any = None
        self._begins = True

    def reset(self, seed: int) -> None:
        """Begins an episode: a recurrent model forgets, and draws follow the seed."""
        self._state, self._begins = None, True
        if self._sampled:
            import torch

            torch.manual_seed(seed)

    def act(self, obs: Any) -> Any:
        """Answers an observation."""
        action, self._state = self._model.predict(
            obs, state=self._state, episode_start=[self._begins], deterministic=not self._sampled
        )
        self._begins = False
        return action


def _algorithm(name: str) -> Any:
    try:
        import stable_baselines3
    except ImportError as error:
        raise BadInput("this policy needs Stable-Baselines3: pip install stable-baselines3") from error
    found = getattr(stable_baselines3, name, None)
    if found is None or not hasattr(found, "load"):
        raise BadInput(f"Stable-Baselines3 has no algorithm {name!r}; it has PPO, A2C, DQN, SAC, TD3 and DDPG")
    return found
