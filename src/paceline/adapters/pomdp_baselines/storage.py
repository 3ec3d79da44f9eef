"""What a learner keeps of its rollouts: replay buffers of ours that take what pomdp-baselines files, by its names."""

from __future__ import annotations

from typing import Any

from paceline.learning import SequenceReplay, StepReplay


class SampleStorage(StepReplay):
    """Single transitions, for agents without a memory; see `StepReplay`."""

    def add_sample(self, observation: Any, action: Any, reward: Any, terminal: Any, next_observation: Any) -> None:
        """Adds one transition; reward and terminal may be arrays with one number."""
        super().add_sample(observation, action, reward, terminal, next_observation)

    def add_episode(
        self, observations: Any, actions: Any, rewards: Any, terminals: Any, next_observations: Any
    ) -> None:
        """Adds transitions in their order: arrays [rows, …]."""
        super().add_episode(observations, actions, rewards, terminals, next_observations)


class EpisodeStorage(SequenceReplay):
    """Whole rollouts, for agents with a memory; see `SequenceReplay`."""

    def add_episode(
        self, observations: Any, actions: Any, rewards: Any, terminals: Any, next_observations: Any
    ) -> None:
        """Adds a rollout: arrays [rows, …]."""
        super().add_episode(observations, actions, rewards, terminals, next_observations)
