"""BenchMARL's independent Q-learning on treasure hunt, as a program: CPU seconds of an epoch, as JSON, a line each.

    PYTHON train_benchmarl.py AGENTS TURNS STEPS EPOCHS

PYTHON has BenchMARL, Paceline is found beside this file. Networks, batches, gradient steps and turns are those of
`train.py`; parameters are not shared. BenchMARL flattens nothing itself, so observations are flattened here.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarl.algorithms import IqlConfig
from benchmarl.environments.pettingzoo.common import PettingZooClass
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.experiment.callback import Callback
from benchmarl.models.mlp import MlpConfig
from gymnasium import spaces
from pettingzoo import ParallelEnv
from torchrl.envs import PettingZooWrapper

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
from paceline.worlds.treasure_hunt import TreasureHunt

HIDDEN, BATCH = [128, 128], 64


class Flat(ParallelEnv):  # type: ignore[misc]
    """A PettingZoo parallel env whose observations are flat.

    Args:
        env: What is flattened.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.metadata, self.possible_agents, self.render_mode = env.metadata, env.possible_agents, None
        low, high = (
            np.asarray(getattr(env.observation_space(self.possible_agents[0]), end)) for end in ("low", "high")
        )
        self._seen = spaces.Box(low.reshape(-1).astype(np.float32), high.reshape(-1).astype(np.float32))

    @property
    def agents(self) -> list[str]:
        return list(self._env.agents)

    def observation_space(self, agent: str) -> Any:
        return self._seen

    def action_space(self, agent: str) -> Any:
        return self._env.action_space(agent)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        seen, infos = self._env.reset(seed=seed, options=options)
        return self._flat(seen), infos

    def step(self, actions: Any) -> Any:
        seen, *others = self._env.step({agent: int(action) for agent, action in actions.items()})
        return self._flat(seen), *others

    def close(self) -> None:
        self._env.close()

    def _flat(self, seen: Any) -> Any:
        return {agent: np.asarray(value, np.float32).reshape(-1) for agent, value in seen.items()}


class Hunt(PettingZooClass):
    """Treasure hunt as a task of BenchMARL."""

    def get_env_fun(self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any) -> Any:
        agents, turns = self.config["agents"], self.config["max_cycles"]
        return lambda: PettingZooWrapper(
            env=Flat(TreasureHunt.parallel_env(agents=agents, steps=turns)),
            categorical_actions=True,
            device=device,
            seed=seed,
        )

    def supports_continuous_actions(self) -> bool:
        return False

    def supports_discrete_actions(self) -> bool:
        return True

    def has_state(self) -> bool:
        return False


class Clock(Callback):
    """Prints the CPU seconds of each epoch, from one batch of frames to the next."""

    _before: float | None = None

    def on_batch_collected(self, batch: Any) -> None:
        now = time.process_time()
        if self._before is not None:
            print(json.dumps({"seconds": now - self._before}), flush=True)
        self._before = now


def main(agents: int, turns: int, steps: int, epochs: int) -> None:
    """Trains."""
    torch.set_num_threads(1)
    config = ExperimentConfig.get_from_yaml()
    config.share_policy_params = False
    config.prefer_continuous_actions = False
    config.off_policy_collected_frames_per_batch, config.off_policy_n_envs_per_worker = turns, 1
    config.off_policy_n_optimizer_steps, config.off_policy_train_batch_size = steps, BATCH
    config.off_policy_memory_size = turns * epochs
    config.max_n_iters, config.max_n_frames = epochs, None
    config.evaluation, config.render, config.loggers, config.create_json = False, False, [], False
    network = MlpConfig(num_cells=HIDDEN, layer_class=torch.nn.Linear, activation_class=torch.nn.ReLU)
    with tempfile.TemporaryDirectory() as folder:
        config.save_folder = folder
        Experiment(
            task=Hunt("TREASURE_HUNT", {"agents": agents, "max_cycles": turns}),
            algorithm_config=IqlConfig(delay_value=True, loss_function="smooth_l1"),
            model_config=network,
            seed=0,
            config=config,
            callbacks=[Clock()],
        ).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
