"""A vector of envs as Stable-Baselines3 knows it: a `VecEnv`, for its algorithms.

PaceVectorEnv (SameStep) ──► step ──► observations, rewards as float32, dones, a dict per env
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
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

        def __init__(self, vector: PaceVectorEnv | AgentRows) -> None:
            self._vector = vector
            vector.tell_infos_apart()
            super().__init__(vector.num_envs, vector.single_observation_space, vector.single_action_space)

        @property
        def envs(self) -> list[Any]:
            """The envs themselves, where all of them live in this process."""
            found = self._vector.envs
            return found if isinstance(found, list) else found.envs

        def reset(self) -> Any:
            observations, infos = self._vector.reset_each(self._seeds, [each or None for each in self._options])
            self.reset_infos = [infos.get(env, {}) for env in range(self.num_envs)]
            self._reset_seeds()
            self._reset_options()
            return observations

        def step_async(self, actions: Any) -> None:
            self._vector.step_async(_batched(self.action_space, actions))

        def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
            observations, rewards, ended, cut, infos = self._vector.step_wait()
            told = [infos.get(env, {}) for env in range(self.num_envs)]
            over = ended | cut
            for env, info in enumerate(told):
                if over[env]:
                    told[env], self.reset_infos[env] = _at_the_end(info, observations, env)
                told[env]["TimeLimit.truncated"] = bool(cut[env] and not ended[env])
            return observations, rewards.astype(np.float32), over, told

        def close(self) -> None:
            self._vector.close()

        def has_attr(self, attr_name: str) -> bool:
            return all(self._each("has", (attr_name,), None, record=False))

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            found = zip(self._chosen(indices), self._each("look", (attr_name,), indices, record=False), strict=True)
            return [value[0] if value else partial(self._method, env, attr_name) for env, value in found]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            self._each("put", (attr_name, value), indices)

        def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
            if method_name == "action_masks" and not (
                args or kwargs
            ):  # asked before every step, of a policy with masks
                return self._each("read", (method_name,), indices, record=False)
            return self._each("ask", (method_name, args, kwargs), indices)

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return self._each("is_wrapped", (wrapper_class,), indices, record=False)

        def get_images(self) -> Sequence[Any]:
            if self.render_mode != "rgb_array":
                warnings.warn(f"these envs draw no pictures: their render_mode is {self.render_mode!r}", stacklevel=2)
                return [None] * self.num_envs
            return list(self._vector.render())

        def _method(self, env: int, name: str, *args: Any, **kwargs: Any) -> Any:
            return self.env_method(name, *args, indices=env, **kwargs)[0]

        def _chosen(self, indices: Any) -> list[int]:
            """The numbers of envs, in the order in which they are named; an env may be named twice, or from the end."""
            return [range(self.num_envs)[index] for index in self._get_indices(indices)]

        def _each(self, method: str, args: tuple[Any, ...], indices: Any, *, record: bool = True) -> list[Any]:
            """What envs answer, as often as each is named."""
            left = list(enumerate(self._chosen(indices)))
            answers: list[Any] = [None] * len(left)
            while left:
                once = {env: place for place, env in reversed(left)}
                envs = sorted(once)
                for env, answer in zip(envs, self._vector.call_some(envs, method, args, record=record), strict=True):
                    answers[once[env]] = answer
                left = [(place, env) for place, env in left if once[env] != place]
            return answers

    return PaceVecEnv


def _at_the_end(info: dict[str, Any], batch: Any, env: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The info of an episode's last step, and that of the next one's beginning."""
    final, last = info.pop("final_obs", None), info.pop("final_info", {})
    if final is None:  # an agent's part is over before its env's: what it sees now is what it saw last
        return {**info, "terminal_observation": _row(batch, env)}, {}
    return {**last, "terminal_observation": final}, info


def _batched(space: Any, actions: Any) -> Any:
    """Actions of parts, one for each env, as those of all envs part by part; others as they are."""
    if isinstance(space, spaces.Dict) and not isinstance(actions, Mapping):
        return {key: _batched(part, [each[key] for each in actions]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple) and all(isinstance(each, tuple | list) for each in actions):
        return tuple(_batched(part, [each[place] for each in actions]) for place, part in enumerate(space))
    return actions


def _row(batch: Any, env: int) -> Any:
    if isinstance(batch, dict):
        return {key: _row(part, env) for key, part in batch.items()}
    return tuple(_row(part, env) for part in batch) if isinstance(batch, tuple) else np.array(batch[env])
