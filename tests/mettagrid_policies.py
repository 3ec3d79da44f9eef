"""Policies of mettagrid that the tests of its adapter play. Workers import this module by name."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy, StatefulAgentPolicy, StatefulPolicyImpl
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.simulator.interface import AgentObservation
from mettagrid.types import Action

LONGEST = 100.0  # seconds that agents wait for each other: less than pytest waits before it shows every stack


def seen_in(obs: AgentObservation) -> list[tuple[Any, ...]]:
    """What an observation holds, as plain numbers."""
    return [
        (token.feature.id, token.feature.name, int(token.value), *map(int, token.raw_token), token.location)
        for token in obs.tokens
    ]


# -- every agent has its own state -------------------------------------------------------------------------


class Wanderer(AgentPolicy):
    """Walks by what it has seen in all steps so far, and by a generator of its own."""

    def __init__(self, interface: PolicyEnvInterface, agent_id: int) -> None:
        super().__init__(interface)
        self.agent_id, self.steps, self.resets = agent_id, 0, 0
        self.moves = [name for name in interface.action_names if name.startswith("move")]
        self.names = interface.action_names  # the interface's own list, which all agents hold
        self.rng = np.random.default_rng(agent_id)
        self.places: list[Any] = []

    def step(self, obs: AgentObservation) -> Action:
        self.steps += 1
        self.places += [token.location for token in obs.tokens if token.feature.name == "tag"][:5]
        number = sum((place.row + 2 * place.col) * (i + 1) for i, place in enumerate(self.places[-40:]) if place)
        self._infos = {"steps": self.steps, "places": len(self.places)}
        return Action(self.moves[(number + int(self.rng.integers(3))) % len(self.moves)])

    def reset(self) -> None:
        self.resets += 1
        self.steps, self.places = 0, []

    def add_steps(self, count: int, *, twice: bool = False) -> int:
        self.steps += 2 * count if twice else count
        return self.steps


class Wanderers(MultiAgentPolicy):
    """Makes a policy per agent, anew for every episode."""

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Wanderer(self.policy_env_info, agent_id)


class Dozer(Wanderer):
    """Waits a while in every step."""

    def step(self, obs: AgentObservation) -> Action:
        time.sleep(0.002)
        return super().step(obs)


class Dozers(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Dozer(self.policy_env_info, agent_id)


class Regulars(MultiAgentPolicy):
    """Keeps the policies of its agents from one episode to the next, and counts how often it is asked for them."""

    def __init__(self, interface: PolicyEnvInterface, **options: Any) -> None:
        super().__init__(interface, **options)
        self._kept: dict[int, Wanderer] = {}
        self.asked = 0

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        self.asked += 1
        return self._kept.setdefault(agent_id, Wanderer(self.policy_env_info, agent_id + self.asked))


# -- agents that share state -------------------------------------------------------------------------------


class Sheep(AgentPolicy):
    """Does what follows from what all sheep have seen; nothing of that is forgotten at a reset."""

    def __init__(self, herd: Herd, agent_id: int) -> None:
        super().__init__(herd.policy_env_info)
        self.herd, self.agent_id = herd, agent_id

    def step(self, obs: AgentObservation) -> Action:
        self.herd.total += len(obs.tokens) * (self.agent_id + 1)
        self.herd.turns.append(self.agent_id)
        names = self.policy_env_info.action_names
        return Action(names[self.herd.total % len(names)])


class Herd(MultiAgentPolicy):
    """Agents that all change one number."""

    def __init__(self, interface: PolicyEnvInterface, **options: Any) -> None:
        super().__init__(interface, **options)
        self.total, self.turns, self.made = 0, [], 0

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        self.made += 1
        self.total += self.made
        return Sheep(self, agent_id)

    def reset(self) -> None:
        self.total = 0

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def save_policy_data(self, policy_data_path: str) -> None:
        Path(policy_data_path).write_text(str(self.total))


# -- a batch of agents -------------------------------------------------------------------------------------


class Oarsman(AgentPolicy):
    """One row of the crew's batch."""

    def __init__(self, crew: Crew, agent_id: int) -> None:
        super().__init__(crew.policy_env_info)
        self.crew, self.agent_id = crew, agent_id

    def step(self, obs: AgentObservation) -> Action:
        rows = np.array([token.raw_token for token in obs.tokens], np.uint8)
        return Action(self.policy_env_info.all_action_names[self.crew.row(self.agent_id, rows)])


class Crew(MultiAgentPolicy):
    """Answers for all agents in one call; what each does follows from all that it has seen."""

    def __init__(self, interface: PolicyEnvInterface, wrong: bool = False, **options: Any) -> None:
        super().__init__(interface, **options)
        self.sums, self.batches, self.wrong = [0] * interface.num_agents, 0, wrong

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Oarsman(self, agent_id)

    def row(self, agent_id: int, rows: Any) -> int:
        held = rows[rows[:, 1] != 0xFF]
        self.sums[agent_id] += int(held.astype(int).sum()) + agent_id
        return self.sums[agent_id] % len(self.policy_env_info.all_action_names)

    def step_batch(self, raw_observations: Any, raw_actions: Any) -> None:
        self.batches += 1
        for agent_id, rows in enumerate(raw_observations):
            raw_actions[agent_id] = 1000 if self.wrong else self.row(agent_id, rows)


class Grouped(Wanderer):
    """Has a `step_group` of its own."""

    groups = 0

    def can_step_group(self, policies: Any) -> bool:
        self._others = {policy.agent_id: policy for policy in policies}
        return True

    def step_group(self, observations: list[tuple[int, AgentObservation]]) -> list[Action]:
        type(self).groups += 1
        return [self._others[agent_id].step(obs) for agent_id, obs in observations]


class Groupers(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Grouped(self.policy_env_info, agent_id)


# -- torch -------------------------------------------------------------------------------------------------


class GruImpl(StatefulPolicyImpl[Any]):
    """A small recurrent network that all agents share; each has a state of its own."""

    def __init__(self, interface: PolicyEnvInterface, seed: int) -> None:
        import torch

        self.names = interface.action_names
        self.network = torch.nn.ModuleDict(
            {"cell": torch.nn.GRUCell(8, 16), "head": torch.nn.Linear(16, len(self.names))}
        )
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in self.network.parameters():
                weights.copy_(torch.randn(weights.shape, generator=generator))

    def initial_agent_state(self) -> Any:
        import torch

        return torch.zeros(1, 16)

    def step_with_state(self, obs: AgentObservation, state: Any) -> tuple[Action, Any]:
        import torch

        values = np.zeros(8, np.float32)
        for number, token in enumerate(obs.tokens):
            values[number % 8] += float(token.value) * (number + 1) / 500
        state = self.network["cell"](torch.from_numpy(values)[None], state)
        return Action(self.names[int(self.network["head"](state).argmax())]), state


class Gru(MultiAgentPolicy):
    def __init__(self, interface: PolicyEnvInterface, seed: int = 0, device: str = "cpu") -> None:
        super().__init__(interface, device=device)
        self.impl = GruImpl(interface, seed)

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return StatefulAgentPolicy(self.impl, self.policy_env_info, agent_id)

    def network(self) -> Any:
        return self.impl.network


# -- peculiar ones -----------------------------------------------------------------------------------------


class Locked(Wanderer):
    """Holds what no pickle can."""

    def __init__(self, interface: PolicyEnvInterface, agent_id: int) -> None:
        super().__init__(interface, agent_id)
        self.lock = threading.Lock()

    def step(self, obs: AgentObservation) -> Action:
        with self.lock:
            return super().step(obs)


class LockedOnes(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Locked(self.policy_env_info, agent_id)


class Stumble(Exception):
    """An error of the policy's own."""


class Stumbler(Wanderer):
    def step(self, obs: AgentObservation) -> Action:
        action = super().step(obs)
        if self.agent_id % 2 and self.steps == 3:
            raise Stumble(f"agent {self.agent_id} has stumbled")
        return action


class Stumblers(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Stumbler(self.policy_env_info, agent_id)


class Keeper(AgentPolicy):
    """Keeps observations, tells what is in them, and talks."""

    def __init__(self, interface: PolicyEnvInterface, agent_id: int) -> None:
        super().__init__(interface)
        self.agent_id, self.kept = agent_id, []

    def step(self, obs: AgentObservation) -> Action:
        self.kept.append((obs, seen_in(obs)))
        types = {type(number) for token in obs.tokens for number in (token.value, *token.raw_token)}
        heard = [(talk.agent_id, talk.text, tuple(talk.location), talk.remaining_steps) for talk in obs.talk]
        self._infos = {"agent": obs.agent_id, "seen": seen_in(obs), "heard": heard, "plain": types == {int}}
        return Action("noop", talk=f"I am {self.agent_id}" if len(self.kept) % 3 == 1 else None)

    @property
    def changed(self) -> int:
        """How many of the observations that it keeps are not what they were."""
        return sum(seen_in(obs) != seen for obs, seen in self.kept)


class Keepers(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return Keeper(self.policy_env_info, agent_id)


MEETINGS: dict[str, threading.Barrier] = {}
"""Where agents on threads meet, by name."""


class Meets(AgentPolicy):
    """Waits in every step until so many agents are in theirs: on threads at a barrier, else by files."""

    def __init__(self, interface: PolicyEnvInterface, agent_id: int, place: str, count: int) -> None:
        super().__init__(interface)
        self.agent_id, self.place, self.count, self.steps = agent_id, place, count, 0

    def step(self, obs: AgentObservation) -> Action:
        self.steps += 1
        if self.place in MEETINGS:
            MEETINGS[self.place].wait(LONGEST)
            return Action("noop")
        folder = Path(self.place, str(self.steps))
        folder.mkdir(exist_ok=True)
        (folder / str(self.agent_id)).write_text(str(os.getpid()))
        end = time.monotonic() + LONGEST
        while len(list(folder.iterdir())) < self.count:
            if time.monotonic() > end:
                raise TimeoutError("the others are not stepped at the same time")
            time.sleep(0.005)
        return Action("noop")
