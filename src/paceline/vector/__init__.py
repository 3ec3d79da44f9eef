"""Vector: many envs as one, a true `gymnasium.vector.VectorEnv` on the engine's ports.

actions ──► rows in shared memory ──► Instance.step_rows, in place ──► observations, rewards, flags, infos
"""

from paceline.vector.env import PaceVectorEnv
from paceline.vector.making import make_vec

__all__ = ["PaceVectorEnv", "make_vec"]
