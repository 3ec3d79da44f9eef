"""Meta: agents that learn to learn, by PPO over collected rollouts of several episodes of a task each."""

from paceline.meta.meta import meta
from paceline.meta.result import Evaluation, MetaTraining

__all__ = ["Evaluation", "MetaTraining", "meta"]
