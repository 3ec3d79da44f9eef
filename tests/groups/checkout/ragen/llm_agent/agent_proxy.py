"""The proxy: asks a model turn by turn, with a barrier between asking and stepping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragen.env import REGISTERED_ENV_CONFIGS

from .es_manager import EnvStateManager


class ContextManager:
    """Writes what the model is shown; refuses environments that are not in the registry."""

    def __init__(self, config: Any) -> None:
        for tag in config.custom_envs.values():
            if tag.env_type not in REGISTERED_ENV_CONFIGS:
                raise ValueError(f"Environment {tag.env_type} is not installed")

    def prompt(self, cache: dict[str, Any]) -> str:
        parts = []
        for number, turn in enumerate(cache["history"]):
            again = " Try again." if turn.get("manager_invalid_action") else ""
            parts.append(f"Turn {number}:\n{turn['state']}{again} {turn['actions_left']} left\n")
            if "reward" in turn:
                parts.append(f"{turn['llm_response']}\nReward:\n{turn['reward']}\n")
        return "".join(parts)


class LLMAgentProxy:
    """A rollout per call, of train or val."""

    def __init__(self, config: Any, model: Callable[[str, int], list[str]]) -> None:
        self.config, self.model, self.context = config, model, ContextManager(config)
        self.train_es_manager = EnvStateManager(config, mode="train")
        self.val_es_manager = EnvStateManager(config, mode="val")
        self.prompts: list[str] = []

    def rollout(self, val: bool = False) -> list[dict[str, Any]]:
        manager = self.val_es_manager if val else self.train_es_manager
        outputs = manager.reset()
        for _ in range(self.config.agent_proxy.max_turn):
            if not outputs:
                break
            outputs = manager.step([self._asked(cache) for cache in outputs])
        return manager.get_rollout_states()

    def _asked(self, cache: dict[str, Any]) -> dict[str, Any]:
        prompt = self.context.prompt(cache)
        self.prompts.append(prompt)
        actions = self.model(prompt, cache["env_id"])
        said = " || ".join(actions)
        return {"env_id": cache["env_id"], "actions": actions, "llm_response": said, "llm_raw_response": said}
