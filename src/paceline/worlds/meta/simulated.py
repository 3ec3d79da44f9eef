"""SimulatedWorld: worlds with tasks on Gymnasium's MuJoCo envs."""

from __future__ import annotations

from typing import Any

from gymnasium.error import DependencyNotInstalled
from gymnasium.utils import EzPickle

from paceline.errors import BadInput
from paceline.worlds.meta.world import TaskWorld

try:
    from gymnasium.envs.mujoco.ant_v5 import AntEnv
    from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
    from gymnasium.envs.mujoco.humanoid_v5 import HumanoidEnv, mass_center
except (ImportError, DependencyNotInstalled) as error:
    raise BadInput(
        f"this world is simulated with MuJoCo, which could not be imported ({error}): pip install 'paceline[mujoco]'"
    ) from error

__all__ = ["AntEnv", "HalfCheetahEnv", "HumanoidEnv", "SimulatedWorld", "mass_center"]


class SimulatedWorld(TaskWorld, EzPickle):
    """A world with tasks on one of Gymnasium's MuJoCo envs, which is the second base.

    Args:
        options: Those of `TaskWorld`, and those of the env below.
    """

    horizon = 200

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        EzPickle.__init__(self, **options)  # the env below has noted its own arguments; a copy is built from these
