"""Wrappers: agents of mettagrid stepped in processes, on threads or in batches, in the user's own rollout code.

    Rollout ── step_group ──► agents.py ──► pool.py ──► homes.py ──► engine's pools ──► group.py ──► AgentPolicy.step

agents.py     the wrapper of one agent's policy, for each place     multi_agent.py  all agents of a policy
pool.py       registration, opening, steps, the end                 homes.py        where agents live; a round of steps
group.py      agents that live together, in their worker            recipe.py       how they get there
pickles.py    copies of them in this process
"""

from paceline.adapters.mettagrid.wrappers.agents import (
    PerAgentAutoWrapper,
    PerAgentBatchWrapper,
    PerAgentGPUWrapper,
    PerAgentProcessWrapper,
    PerAgentSubprocessWrapper,
    PerAgentThreadWrapper,
    PolicyWrapper,
)
from paceline.adapters.mettagrid.wrappers.multi_agent import WrappedMultiAgentPolicy
from paceline.adapters.mettagrid.wrappers.pool import AgentPool

__all__ = [
    "AgentPool",
    "PerAgentAutoWrapper",
    "PerAgentBatchWrapper",
    "PerAgentGPUWrapper",
    "PerAgentProcessWrapper",
    "PerAgentSubprocessWrapper",
    "PerAgentThreadWrapper",
    "PolicyWrapper",
    "WrappedMultiAgentPolicy",
]
