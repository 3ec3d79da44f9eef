"""Models of Stable-Baselines3 as policies: saved ones, and those that a training loop holds."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import sys
from typing import Any

from paceline.errors import BadInput
from paceline.fingerprint import fingerprint
from paceline.types import Seat

_log = logging.getLogger("paceline")


class _Plays:
    """Plays a seat with a model.

    Args:
        model: Has `predict`.
        sampled: Whether actions are drawn; otherwise the likeliest is taken.
        normalized: The `VecNormalize` that its observations went through; None: none.
    """

    reuse = True  # `reset` forgets all that an episode leaves behind, so a worker reads the model once

    def __init__(self, model: Any, sampled: bool = False, normalized: Any = None) -> None:
        self._model, self._sampled, self._normalized = model, sampled, normalized
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
        seen = obs if self._normalized is None else self._normalized.normalize_obs(obs)
        action, self._state = self._model.predict(
            seen, state=self._state, episode_start=[self._begins], deterministic=not self._sampled
        )
        self._begins = False
        return action


class Model(_Plays):
    """Plays a seat with a saved model of Stable-Baselines3.

    Its file holds pickles, which can run anything when they are loaded, so that must be allowed.

    Args:
        seat: Who is played.
        algorithm: "PPO", "A2C", "DQN" …
        weights: The file that the model was saved to.
        trust: Whether the file may be loaded.
        sampled: Whether actions are drawn; otherwise the likeliest is taken.
        normalize: The file that the `VecNormalize` of its training was saved to, if there was one.

    Raises:
        BadInput: it is not trusted, not readable, or Stable-Baselines3 is not installed.
    """

    def __init__(
        self,
        seat: Seat,
        algorithm: str,
        weights: str = "",
        trust: bool = False,
        sampled: bool = False,
        normalize: str = "",
    ) -> None:
        if not weights:
            raise BadInput(f"sb3:{algorithm} needs the model's file: write sb3:{algorithm},weights=FILE.zip,trust=true")
        if trust is not True:
            raise BadInput(
                f"{weights} is loaded by pickle, which can run anything: add trust=true if you trust its origin"
            )
        model = _algorithm(algorithm).load(weights, device=seat.device)
        if not normalize and getattr(model, "_last_original_obs", None) is not None:
            _log.warning(
                "%s was trained under VecNormalize, and is shown observations as they are: save that with "
                "vec.save('vec.pkl'), and add normalize=vec.pkl",
                weights,
            )
        super().__init__(model, sampled, _normalizer(normalize) if normalize else None)


class Held:
    """The recipe of a model that a training loop holds: as it is when it is given, without its env and its buffers.

    Args:
        model: The model.

    Raises:
        BadInput: it cannot be saved.
    """

    reuse = True

    def __init__(self, model: Any) -> None:
        self._kind, saved = type(model), io.BytesIO()
        try:
            model.save(saved)
        except Exception as error:
            raise BadInput(
                f"this {self._kind.__name__} cannot be saved, and so not be copied: {type(error).__name__}: {error}; "
                "give a class that makes it where it is played"
            ) from error
        self._saved, self._normalized = saved.getvalue(), copy.deepcopy(model.get_vec_normalize_env())
        normalized = fingerprint(getattr(self._normalized, "obs_rms", None))
        self._identity = {"normalized": normalized, **fingerprint(dict(model.policy.state_dict()))}

    def __call__(self, seat: Seat) -> _Plays:
        return _Plays(self._kind.load(io.BytesIO(self._saved), device=seat.device), normalized=self._normalized)

    def recipe_identity(self) -> dict[str, Any]:
        """What a run must have in common with another one to be the same: an archive holds times, too."""
        return {**self._identity, "": self._kind.__name__}


def is_model(given: Any) -> bool:
    """Whether it is a model of Stable-Baselines3, or of what stands on it."""
    base = sys.modules.get("stable_baselines3.common.base_class")
    return base is not None and isinstance(given, base.BaseAlgorithm)


def _normalizer(path: str) -> Any:
    """A saved `VecNormalize`, as it normalizes observations."""
    with open(path, "rb") as file:
        try:
            found = pickle.load(file)
        except Exception as error:
            raise BadInput(f"{path} cannot be read as a saved VecNormalize: {type(error).__name__}: {error}") from error
    if not hasattr(found, "normalize_obs"):
        raise BadInput(f"{path} holds {type(found).__name__}, and no VecNormalize: give the file that vec.save() wrote")
    return found


def _algorithm(name: str) -> Any:
    try:
        import stable_baselines3
    except ImportError as error:
        raise BadInput("this policy needs Stable-Baselines3: pip install stable-baselines3") from error
    found = getattr(stable_baselines3, name, None)
    if found is None or not hasattr(found, "load"):
        raise BadInput(f"Stable-Baselines3 has no algorithm {name!r}; it has PPO, A2C, DQN, SAC, TD3 and DDPG")
    return found
