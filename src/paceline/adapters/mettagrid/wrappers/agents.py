"""Per-agent wrappers: an `AgentPolicy` that runs another one elsewhere.

Agents overlap within a step through `step_group`, which upstream's rollout calls if it is given `policy_group_keys`,
as upstream's runner does. A loop that calls `step()` agent by agent waits for each answer: there nothing can overlap.

    with WrappedMultiAgentPolicy(policy, PerAgentProcessWrapper) as wrapped:
        agents = [wrapped.agent_policy(agent_id) for agent_id in range(config.game.num_agents)]
        Rollout(config, agents, policy_group_keys=[0] * len(agents)).run_until_done()
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.simulator import Simulation
from mettagrid.simulator.interface import AgentObservation
from mettagrid.types import Action

from paceline.adapters.mettagrid.wrappers.homes import Place
from paceline.adapters.mettagrid.wrappers.pool import AgentPool
from paceline.errors import BadInput


class PolicyWrapper(AgentPolicy):
    """What all wrappers have in common. Use one of those below.

    Attributes that a wrapper does not have itself are its policy's, as they are now: they are read, and set, where the
    policy lives, and its methods run there. Names that begin with an underscore are the wrapper's own.

    Observations are made anew for the policy, which may keep them: nothing in them changes later, as it does in those
    of upstream's rollout.

    Args:
        policy: The policy. It moves when the pool opens: use it through the wrapper from then on.
        pool: The workers that it shares with other agents; None: workers of its own, which end with `close()`.
        agent_id: Its number in the game; None: how many agents have registered with the pool without one.
        parent: The multi-agent policy that made it.
    """

    _wants: ClassVar[Place]

    group_step_infos = None  # upstream's rollout asks for it in every step; `infos` tells the same

    def __init__(
        self,
        policy: AgentPolicy,
        *,
        pool: AgentPool | None = None,
        agent_id: int | None = None,
        parent: MultiAgentPolicy | None = None,
    ) -> None:
        super().__init__(policy.policy_env_info)
        self._own = pool is None
        self._pool = checked_pool(pool)
        self._seat = self._pool.register(policy, self._wants, agent_id, parent)
        self._group: Sequence[PolicyWrapper] = (self,)
        weakref.finalize(self, self._pool.release, self._seat).atexit = False

    def step(self, obs: AgentObservation) -> Action:
        """Steps the policy, and waits for its action."""
        ((action, self._infos),) = self._pool.step([(self._seat, obs)])
        return action

    def reset(self, simulation: Simulation | None = None) -> None:
        """Resets the policy, bare: some take no argument, and a simulation cannot be sent."""
        self._pool.home(self._seat).call("reset", self._seat.place)

    def can_step_group(self, policies: Sequence[AgentPolicy]) -> bool:
        """Whether all of them are wrappers that live in the same pool. If so, `step_group` steps these."""
        wrappers = [policy for policy in policies if isinstance(policy, PolicyWrapper)]
        able = len(wrappers) == len(policies) and all(wrapper._pool is self._pool for wrapper in wrappers)
        if able:
            self._group = wrappers
        return able

    def step_group(self, observations: list[tuple[int, AgentObservation]]) -> list[Action]:
        """Steps the agents that `can_step_group` was last asked about, at the same time as far as they can be.

        Args:
            observations: Agent id and observation of each, in the same order; or of some of them, known by their ids.
        """
        wrappers = self._asked([agent_id for agent_id, _ in observations])
        asked = [(wrapper._seat, obs) for wrapper, (_, obs) in zip(wrappers, observations, strict=True)]
        answers = self._pool.step(asked, together=True)
        for wrapper, (_, infos) in zip(wrappers, answers, strict=True):
            wrapper._infos = infos
        return [action for action, _ in answers]

    def _asked(self, agent_ids: list[int]) -> Sequence[PolicyWrapper]:
        if len(agent_ids) == len(self._group):
            return self._group
        known = {wrapper._seat.agent_id: wrapper for wrapper in self._group}
        if not known.keys() >= set(agent_ids):
            raise BadInput(f"step_group of agents {agent_ids}: ask can_step_group about these first")
        return [known[agent_id] for agent_id in agent_ids]

    def close(self) -> None:
        """Ends the wrapper, and its pool if that is its own. May be called again."""
        self._pool.release(self._seat)
        if self._own:
            self._pool.close()
        else:
            self._pool.sweep()

    def __enter__(self) -> PolicyWrapper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # so that a copy, or a pickle, that asks a wrapper half made does not come here again
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._pool.home(self._seat).read(self._seat.place, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self._pool.home(self._seat).write(self._seat.place, name, value)


class PerAgentSubprocessWrapper(PolicyWrapper):
    """Runs a policy in a process. One that cannot be sent stays here; a warning says why, once for each pool."""

    _wants = "process"


PerAgentProcessWrapper = PerAgentSubprocessWrapper


class PerAgentThreadWrapper(PolicyWrapper):
    """Runs a policy on a thread: for those that wait (a model's answer), or release the GIL. It is not copied."""

    _wants = "thread"


class PerAgentAutoWrapper(PolicyWrapper):
    """Measures the first steps here, then chooses processes, threads, or to stay here. `AgentPool.why` says why."""

    _wants = "auto"


class PerAgentBatchWrapper(PolicyWrapper):
    """Steps policies here, in one call, if they know how to.

    `step_group` calls the parent's `step_batch`, if it has one of its own; else the policies' own `step_group`; else it
    steps them one by one. `step` steps the policy itself; where nothing else is called, a warning of the log says so.
    Policies are not copied. Their random streams are those that they have with every other wrapper: see `AgentPool`.
    """

    _wants = "here"


class PerAgentGPUWrapper(PerAgentBatchWrapper):
    """As `PerAgentBatchWrapper`, with the policy's network moved to a device first.

    The network is what the parent's `network()` gives, or a torch module that the policy has as an attribute. To choose
    a device for all agents: `WrappedMultiAgentPolicy(policy, partial(PerAgentGPUWrapper, device="cuda:1"))`. What a
    policy puts beside its network must be on the same device, so it should be made for that device, too.

    Args:
        policy: As for all wrappers.
        device: "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is.
        options: As for all wrappers.

    Raises:
        BadInput: the device is not there, or the policy has no network.
    """

    def __init__(self, policy: AgentPolicy, *, device: str = "auto", **options: Any) -> None:
        from paceline.team.device import find_device

        target = find_device(device)
        network = _network_of(policy, options.get("parent"))
        if network is None:
            raise BadInput(f"{type(policy).__name__} has no network to move to {target}: use PerAgentBatchWrapper")
        network.to(target)
        super().__init__(policy, **options)


def _network_of(policy: AgentPolicy, parent: MultiAgentPolicy | None) -> Any:
    from torch.nn import Module

    network = None if parent is None else parent.network()
    if network is not None:
        return network
    holders = [policy, getattr(policy, "_base_policy", None)]  # where upstream's recurrent policies have theirs
    held = [value for holder in holders for value in getattr(holder, "__dict__", {}).values()]
    return next((value for value in held if isinstance(value, Module)), None)


def checked_pool(pool: AgentPool | None) -> AgentPool:
    """The pool that was given, or a new one."""
    if pool is None:
        return AgentPool()
    if not isinstance(pool, AgentPool):
        raise BadInput(f"pool={pool!r:.60}: give an AgentPool, or None for workers of its own")
    return pool
