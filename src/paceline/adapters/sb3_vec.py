"""A vector of envs as Stable-Baselines3 knows it: a `VecEnv`, for its algorithms.

PaceVectorEnv (SameStep) ──► step ──► observations, rewards as float32, dones, a dict per env
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from paceline.adapters.agent_rows import AgentRows
from paceline.errors import BadInput
from paceline.vector import PaceVectorEnv


def as_sb3(envs: PaceVectorEnv | AgentRows) -> Any:
    """Gives the `stable_baselines3.common.vec_env.VecEnv` of a vector that was made with `autoreset="SameStep"`.

    Raises:
        BadInput: Stable-Baselines3 is not installed, or the vector is none, or resets its envs at another time.
    """
    if not hasattr(envs, "num_envs"):
        raise BadInput(f'as_sb3({envs!r:.60}); give it a vector: as_sb3(make_vec(…, autoreset="SameStep"))')
    if envs.metadata["autoreset_mode"] != AutoresetMode.SAME_STEP:
        raise BadInput('Stable-Baselines3 resets envs in the step that ends them: make_vec(…, autoreset="SameStep")')
    try:
        from stable_baselines3.common.vec_env import VecEnv
    except ImportError as error:
        raise BadInput("this needs Stable-Baselines3: pip install stable-baselines3") from error
    return _vec_env(VecEnv)(envs)


def _vec_env(base: Any) -> Any:
    class PaceVecEnv(base):  # type: ignore[misc]
        """Steps a vector of ours."""

        def __init__(self, envs: PaceVectorEnv | AgentRows) -> None:
            self.envs = envs
            super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

        def reset(self) -> Any:
            seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
            options = self._options if any(self._options) else None
            if options is not None:
                raise BadInput("options per env are not passed on: set them as tasks of make_vec")
            observations, infos = self.envs.reset(seed=seeds)
            self.reset_infos = [info_of(infos, env) for env in range(self.num_envs)]
            self._reset_seeds()
            self._reset_options()
            return observations

        def step_async(self, actions: Any) -> None:
            self.envs.step_async(actions)

        def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
            observations, rewards, ended, cut, infos = self.envs.step_wait()
            told = [_told(infos, observations, env, bool(ended[env]), bool(cut[env])) for env in range(self.num_envs)]
            return observations, rewards.astype(np.float32), ended | cut, told

        def close(self) -> None:
            self.envs.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            values = self.envs.get_attr(attr_name)
            return [values[env] for env in self._chosen(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            self.envs.call_some(self._chosen(indices), "put", (attr_name, value))

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            return self.envs.call_some(self._chosen(indices), "ask", (method_name, args, kwargs))

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return self.envs.call_some(self._chosen(indices), "is_wrapped", (wrapper_class,), record=False)

        def get_images(self) -> Sequence[Any]:
            return list(self.envs.render())

        def _chosen(self, indices: Any) -> list[int]:
            return sorted(self._get_indices(indices))

    return PaceVecEnv


def info_of(infos: dict[str, Any], env: int) -> dict[str, Any]:
    """One env's info, out of Gymnasium's vector form."""
    found: dict[str, Any] = {}
    for key, value in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None or not mask[env]:  # a mask itself, or an env that gave nothing under this key
            continue
        found[key] = info_of(value, env) if isinstance(value, dict) else value[env]
    return found


def _told(infos: dict[str, Any], observations: Any, env: int, ended: bool, cut: bool) -> dict[str, Any]:
    info = info_of(infos, env)
    final, last = info.pop("final_obs", None), info.pop("final_info", None)
    if not (ended or cut):
        return {**info, "TimeLimit.truncated": False}
    if final is None:  # an agent's part is over before its env's: what it sees now is what it saw last
        final, last = _row(observations, env), info
    return {**(last or {}), "terminal_observation": final, "TimeLimit.truncated": cut and not ended}


def _row(batch: Any, env: int) -> Any:
    if isinstance(batch, dict):
        return {key: _row(part, env) for key, part in batch.items()}
    return tuple(_row(part, env) for part in batch) if isinstance(batch, tuple) else np.array(batch[env])
