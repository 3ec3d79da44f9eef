"""Mettagrid: its missions, its policies, and the names of the source documents' wrappers, for users' own rollout code.

tokens.py      raw rows and numbers ↔ mettagrid's observations and actions
world.py       a simulation as a PettingZoo env           builders.py  missions of ours on mettagrid's engine
missions.py    missions by what users write               games.py     missions of games that are installed
policies.py    mettagrid's policies at our seats          specs.py     policies by what users write
wrappers/      per-agent wrappers                         rollouts.py  `multi_episode_rollout`, upstream's, in parallel

Needs `pip install 'paceline[mettagrid]'`. What needs mettagrid is imported when it is asked for.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.adapters.mettagrid.rollouts import multi_episode_rollout
    from paceline.adapters.mettagrid.world import MettaGridWorld
    from paceline.adapters.mettagrid.wrappers import (
        AgentPool,
        PerAgentBatchWrapper,
        PerAgentGPUWrapper,
        PerAgentProcessWrapper,
        PerAgentSubprocessWrapper,
        PerAgentThreadWrapper,
        WrappedMultiAgentPolicy,
    )

__all__ = [
    "AgentPool",
    "MettaGridWorld",
    "PerAgentBatchWrapper",
    "PerAgentGPUWrapper",
    "PerAgentProcessWrapper",
    "PerAgentSubprocessWrapper",
    "PerAgentThreadWrapper",
    "WrappedMultiAgentPolicy",
    "multi_episode_rollout",
]

_ELSEWHERE = {"MettaGridWorld": "world", "multi_episode_rollout": "rollouts"}


def __getattr__(name: str) -> Any:
    """Brings a name in when it is first asked for."""
    if name in __all__:
        return getattr(_import_module(f"{__name__}.{_ELSEWHERE.get(name, 'wrappers')}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
