"""A policy of mettagrid that talks, and moves by what it hears."""

from typing import Any

from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.simulator import Action, AgentObservation


class TalkerAgent(AgentPolicy):
    def __init__(self, policy_env_info: Any, agent_id: int) -> None:
        super().__init__(policy_env_info)
        self._agent_id, self._steps = agent_id, 0

    def step(self, obs: AgentObservation) -> Action:
        self._steps += 1
        heard = sum(len(talk.text) + talk.remaining_steps + talk.location.row for talk in obs.talk)
        name = self.policy_env_info.action_names[(heard + self._steps) % 5]
        return Action(name=name, talk="hello" * (1 + self._agent_id) if self._steps == 1 else None)


class Talker(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return TalkerAgent(self.policy_env_info, agent_id)
