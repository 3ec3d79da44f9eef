"""Policies of mettagrid for tests: scripted with state, drawing, sharing, recurrent, and faulty ones."""

import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy, StatefulAgentPolicy, StatefulPolicyImpl
from mettagrid.simulator import Action, AgentObservation


def told(obs: AgentObservation) -> int:
    """A number that depends on everything an agent sees."""
    return sum(
        (place + 1) * (7 * token.value + 3 * (token.location.row if token.location else 1) + len(token.feature.name))
        for place, token in enumerate(obs.tokens)
    )


class WalkerAgent(AgentPolicy):
    """Walks and changes its vibe as a function of all that it has seen, old observations included."""

    def __init__(self, policy_env_info: Any, agent_id: int) -> None:
        super().__init__(policy_env_info)
        self.agent_id = agent_id
        self.reset()

    def reset(self, simulation: Any = None) -> None:
        self.steps, self.kept = 0, list[AgentObservation]()

    def step(self, obs: AgentObservation) -> Action:
        self.steps += 1
        self.kept = [*self.kept[-3:], obs]
        number = sum(told(old) for old in self.kept[-1:]) + self.steps * 7 + self.agent_id * 3
        names, vibes = self.policy_env_info.action_names, self.policy_env_info.vibe_action_names
        if vibes and number % 5 == 0:
            return Action(name=vibes[number % len(vibes)])
        if vibes and number % 7 == 0:
            return Action(name=names[number % len(names)], vibe=vibes[number % len(vibes)])
        return Action(name=names[number % len(names)])


class Walker(MultiAgentPolicy):
    """Agents that know nothing of each other."""

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return WalkerAgent(self.policy_env_info, agent_id)


class SightedAgent(WalkerAgent):
    """Tells where it is asked."""

    def __init__(self, policy_env_info: Any, agent_id: int, log: str) -> None:
        super().__init__(policy_env_info, agent_id)
        self.log = log

    def step(self, obs: AgentObservation) -> Action:
        with Path(self.log).open("a") as file:
            file.write(f"{self.agent_id} {os.getpid()}\n")
        return super().step(obs)


class Sighted(MultiAgentPolicy):
    """Agents that know nothing of each other, and tell where they are asked."""

    def __init__(self, policy_env_info: Any, log: str) -> None:
        super().__init__(policy_env_info)
        self.log = log

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return SightedAgent(self.policy_env_info, agent_id, self.log)


class NoticedAgent(WalkerAgent):
    """Writes on a board that its class holds."""

    board: list[int] = []  # noqa: RUF012

    def step(self, obs: AgentObservation) -> Action:
        if self.steps == 0:
            self.board.clear()
        self.board.append(told(obs))
        self.steps += len(self.board)
        return super().step(obs)


class Noticed(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return NoticedAgent(self.policy_env_info, agent_id)


class Ranked(MultiAgentPolicy):
    """Who is made first is the first, whatever its number: its agents share nothing, and cannot be made apart."""

    def __init__(self, policy_env_info: Any) -> None:
        super().__init__(policy_env_info)
        self.made = 0

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        self.made += 1
        return WalkerAgent(self.policy_env_info, 7 * self.made)


class Even(Walker):
    """Plays at even places only."""

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        if agent_id % 2:
            raise LookupError("no agent for an odd place")
        return super().agent_policy(agent_id)


class Locked(Walker):
    """Holds what cannot be sent to another process, once it is built."""

    def __init__(self, policy_env_info: Any, device: str = "cpu") -> None:
        super().__init__(policy_env_info, device)
        self.lock = threading.Lock()


class RememberingAgent(WalkerAgent):
    """Acts on what it saw three steps ago: a view of the simulator's buffer would have changed since."""

    def step(self, obs: AgentObservation) -> Action:
        self.kept = [*self.kept[-3:], obs]
        return Action(name=self.policy_env_info.action_names[told(self.kept[0]) % 5])


class Remembering(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return RememberingAgent(self.policy_env_info, agent_id)


class TeamAgent(AgentPolicy):
    def __init__(self, policy_env_info: Any, board: list[int]) -> None:
        super().__init__(policy_env_info)
        self._board = board

    def step(self, obs: AgentObservation) -> Action:
        self._board.append(told(obs))
        return Action(name=self.policy_env_info.action_names[sum(self._board[-8:]) % 5])


class Team(MultiAgentPolicy):
    """Agents that write on one board: an agent's action depends on what the others have seen."""

    def __init__(self, policy_env_info: Any, device: str = "cpu") -> None:
        super().__init__(policy_env_info, device)
        self._board: list[int] = []

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return TeamAgent(self.policy_env_info, self._board)


class Counted(MultiAgentPolicy):
    """Has a real `step_batch`, which answers as its agents do."""

    asked_in_batches = 0

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return CountedAgent(self.policy_env_info)

    def step_batch(self, raw_observations: np.ndarray, raw_actions: np.ndarray) -> None:
        Counted.asked_in_batches += 1
        tokens = (raw_observations[:, :, 1] != 0xFF).sum(axis=1)
        raw_actions[...] = tokens % len(self.policy_env_info.action_names)


class CountedAgent(AgentPolicy):
    def step(self, obs: AgentObservation) -> Action:
        names = self.policy_env_info.action_names
        return Action(name=names[len(obs.tokens) % len(names)])


class Drawing(AgentPolicy):
    """An AgentPolicy by itself; draws from the process-wide generators."""

    def step(self, obs: AgentObservation) -> Action:
        number = random.randrange(100) + int(np.random.default_rng(random.randrange(9)).integers(10))
        return Action(name=self.policy_env_info.action_names[number % 5])


class LateDrawingAgent(WalkerAgent):
    """Draws from its eighth step on, and acts on all that it has drawn."""

    def step(self, obs: AgentObservation) -> Action:
        if self.steps >= 8:
            self.agent_id += random.randrange(100)
        return super().step(obs)


class LateDrawing(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return LateDrawingAgent(self.policy_env_info, agent_id)


class LateAndLockedAgent(LateDrawingAgent):
    """The same, and holds what no pickle can."""

    def __init__(self, policy_env_info: Any, agent_id: int) -> None:
        super().__init__(policy_env_info, agent_id)
        self.lock = threading.Lock()


class LateAndLocked(MultiAgentPolicy):
    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return LateAndLockedAgent(self.policy_env_info, agent_id)


class Reseeding(AgentPolicy):
    """Draws from a generator that it has seeded, and puts back what was there."""

    def __init__(self, policy_env_info: Any, agent_id: int) -> None:
        super().__init__(policy_env_info)
        self.seed = agent_id

    def step(self, obs: AgentObservation) -> Action:
        before = random.getstate()
        random.seed(self.seed)
        time.sleep(0.001)
        number = random.randrange(1000)
        self.seed += number
        random.setstate(before)
        return Action(name=self.policy_env_info.action_names[number % 5])


class RecurrentImpl(StatefulPolicyImpl[Any]):
    """A small GRU over counts of features, with weights from a generator of its own, or from a file."""

    def __init__(self, policy_env_info: Any, hidden: int) -> None:
        import torch

        self._names = policy_env_info.action_names
        self._hidden, generator = hidden, torch.Generator().manual_seed(3)
        self.cell, self.head = torch.nn.GRUCell(64, hidden), torch.nn.Linear(hidden, len(self._names))
        for parameter in (*self.cell.parameters(), *self.head.parameters()):
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.5

    def initial_agent_state(self) -> Any:
        import torch

        return torch.zeros(1, self._hidden)

    def step_with_state(self, obs: AgentObservation, state: Any) -> tuple[Action, Any]:
        import torch

        seen = torch.zeros(1, 64)
        for token in obs.tokens:
            seen[0, token.feature.id % 64] += token.value / 255
        state = self.cell(seen, state)
        scores = self.head(state)[0]
        if torch.rand(()) < 0.1:  # explores, by torch's own generator
            return Action(name=self._names[int(torch.randint(len(self._names), ()))]), state
        return Action(name=self._names[int(scores.argmax())]), state


class Recurrent(MultiAgentPolicy):
    """All agents share one network; each has a state of its own."""

    def __init__(self, policy_env_info: Any, device: str = "cpu", hidden: int = 16) -> None:
        super().__init__(policy_env_info, device)
        self._impl = RecurrentImpl(policy_env_info, hidden)

    def load_policy_data(self, policy_data_path: str) -> None:
        import torch

        self._impl.cell.load_state_dict(torch.load(policy_data_path, weights_only=True))

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        return StatefulAgentPolicy(self._impl, self.policy_env_info, agent_id)


class FaultyAgent(WalkerAgent):
    def __init__(self, policy_env_info: Any, agent_id: int, kind: str, marker: str, once: bool) -> None:
        self._kind, self._marker, self._once = kind, Path(marker), once
        super().__init__(policy_env_info, agent_id)

    def step(self, obs: AgentObservation) -> Action:
        if self.steps == 0:
            self._first = str(told(obs))
        if self.steps == 5 and self.agent_id == 1 and self._is_due():
            self._fail()
        return super().step(obs)

    def _is_due(self) -> bool:
        """In the episode that gets there first, which is known by its first observation, and in no other."""
        try:
            with self._marker.open("x") as file:
                file.write(self._first)
            return True
        except FileExistsError:
            return not self._once and self._marker.read_text() == self._first

    def _fail(self) -> None:
        if self._kind == "raise":
            raise RuntimeError("out of ideas")
        if self._kind == "exit":
            os._exit(3)
        if self._kind == "sys.exit":
            sys.exit(3)
        time.sleep(3600)


class Faulty(MultiAgentPolicy):
    """Agent 1 fails in its sixth step of one episode: it raises, hangs, or ends its process."""

    def __init__(self, policy_env_info: Any, device: str = "cpu", **how: Any) -> None:
        super().__init__(policy_env_info, device)
        self._how = how

    def agent_policy(self, agent_id: int) -> AgentPolicy:
        how = self._how
        return FaultyAgent(self.policy_env_info, agent_id, how["kind"], how["marker"], bool(how.get("once", False)))
