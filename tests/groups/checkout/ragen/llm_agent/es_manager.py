"""The manager: one environment after another, by the rules of a turn and of seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ragen.env import REGISTERED_ENV_CONFIGS, REGISTERED_ENVS


class EnvStateManager:
    """Environments in groups."""

    def __init__(self, config: Any, mode: str = "train") -> None:
        self.config, self.mode, self.side = config, mode, config.es_manager[mode]
        self.base_seed, self.seed_counter = config.seed[mode], 0
        tags = [tag for tag, n in zip(*self.side.env_configs.values(), strict=True) for _ in range(n)]
        self.envs = [
            self._entry(number, tag) for number, tag in enumerate(tag for tag in tags for _ in range(self._size))
        ]

    @property
    def _size(self) -> int:
        return int(self.side.group_size)

    def _entry(self, number: int, tag: str) -> dict[str, Any]:
        written = self.config.custom_envs[tag]
        options = REGISTERED_ENV_CONFIGS[written.env_type](**(written.env_config or {}))
        env = REGISTERED_ENVS[written.env_type](options)
        return {"env": env, "tag": tag, "group_id": number // self._size, "most": written.max_actions_per_traj}

    def _first_seed(self, seed: int | None) -> int:
        if self.mode == "val":
            return int(self.base_seed if seed is None else seed)
        if seed is not None:
            self.seed_counter = seed - self.base_seed + 1
            return seed
        self.seed_counter += self.side.env_groups
        return int(self.base_seed + self.seed_counter - self.side.env_groups)

    def reset(self, seed: int | None = None) -> list[dict[str, Any]]:
        first = self._first_seed(seed)
        self.rollout_cache = []
        for number, entry in enumerate(self.envs):
            seed = first + entry["group_id"]
            entry["env"].reset(seed=seed, mode=self.mode)
            entry["status"] = SimpleNamespace(
                seed=seed, num_actions=0, rewards=[], terminated=False, truncated=False, failure=None
            )
            told = {"env_id": number, "history": [], "group_id": entry["group_id"], "tag": entry["tag"], "penalty": 0}
            told["history"].append({"state": entry["env"].render(), "actions_left": entry["most"]})
            self.rollout_cache.append(told)
        return self.rollout_cache

    def step(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.rollout_cache[given["env_id"]] for given in inputs if not self._turn(given)]

    def _turn(self, given: dict[str, Any]) -> bool:
        entry, cache = self.envs[given["env_id"]], self.rollout_cache[given["env_id"]]
        status, valid = entry["status"], self._valid(entry, given["actions"])
        reward, raw, info, executed, done = 0, 0.0, {}, [], False
        for action in valid[: entry["most"] - status.num_actions]:
            _, gained, done, told = entry["env"].step(action)
            reward, raw = reward + gained, raw + told.get("raw_reward", 0.0)
            info |= told
            executed.append(action)
            if done:
                break
        info["raw_reward"] = raw
        if not valid:
            info["manager_invalid_action"] = True
        if len(valid) != len(given["actions"]) or not valid:
            cache["penalty"] += self.config.es_manager.format_penalty
        status.num_actions += len(executed)
        status.rewards.append(reward)
        cache["history"][-1] |= {"actions": executed, "reward": reward, "info": info}
        cache["history"][-1] |= {name: given[name] for name in ("llm_response", "llm_raw_response")}
        cache["history"].append({"state": entry["env"].render(), "actions_left": entry["most"] - status.num_actions})
        if not valid:
            cache["history"][-1]["manager_invalid_action"] = True
        status.terminated = done or status.num_actions >= entry["most"]
        status.truncated = status.terminated and not (done and info.get("success", False))
        return bool(status.terminated)

    @staticmethod
    def _valid(entry: dict[str, Any], actions: list[str]) -> list[Any]:
        lookup = getattr(entry["env"].config, "action_lookup", None)
        if lookup is None:
            return actions
        numbers = {name.lower(): number for number, name in lookup.items()}
        return [numbers[action.lower()] for action in actions if action.lower() in numbers]

    def get_rollout_states(self) -> list[dict[str, Any]]:
        return self.rollout_cache

    def close(self) -> None:
        for entry in self.envs:
            entry["env"].close()
