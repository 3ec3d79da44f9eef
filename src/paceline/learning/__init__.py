"""What learns is made of: policies with networks that answer rows, and replay buffers.

Markov, Memory, MemoryMarkov    row policies (`paceline.roles.RowPolicy`) on torch    paceline.learning.row_policies
StepReplay, SequenceReplay      replay buffers on NumPy                               paceline.learning.buffers

Torch is imported when a policy is built, and not before.
"""

from paceline.learning.buffers import SequenceReplay, StepReplay, episode_of
from paceline.learning.row_policies import Markov, Memory, MemoryMarkov

__all__ = ["Markov", "Memory", "MemoryMarkov", "SequenceReplay", "StepReplay", "episode_of"]
