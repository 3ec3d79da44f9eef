"""What learns is made of: policies with networks that answer rows, replay buffers, and banks of independent learners.

Markov, Memory, MemoryMarkov    row policies (`paceline.roles.RowPolicy`) on torch    paceline.learning.row_policies
StepReplay, SequenceReplay      replay buffers on NumPy                               paceline.learning.buffers
SequenceLearner, SequencePPO    PPO over whole rollouts, RL² with a memory            paceline.learning.sequence_ppo
DQN, PPO, learner_spec          learners by name; `build_bank` stacks them            paceline.learning.specs
Exactness, selftest             whether stacks keep their bits on this machine        paceline.learning.exactness

Torch is imported when a policy or a bank is built, and not before; the modules `bank`, `exactness` and
`sequence_ppo` import it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paceline.learning.buffers import SequenceReplay, StepReplay, episode_of
from paceline.learning.row_policies import Markov, Memory, MemoryMarkov

if TYPE_CHECKING:
    from paceline.learning.sequence_ppo import SequenceLearner
    from paceline.learning.specs import DQN, PPO, SequencePPO, architecture, build_bank, learner_spec

__all__ = [
    "DQN",
    "PPO",
    "Markov",
    "Memory",
    "MemoryMarkov",
    "SequenceLearner",
    "SequencePPO",
    "SequenceReplay",
    "StepReplay",
    "architecture",
    "build_bank",
    "episode_of",
    "learner_spec",
]


def __getattr__(name: str) -> Any:
    """Brings in a name when it is first asked for: settings take a while to import, and torch longer."""
    if name in __all__:
        home = "sequence_ppo" if name == "SequenceLearner" else "specs"
        return getattr(import_module(f"paceline.learning.{home}"), name)
    raise AttributeError(f"module 'paceline.learning' has no attribute {name!r}")
