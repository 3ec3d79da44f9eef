"""A multi-agent policy whose agents are wrapped, with what upstream's runner asks of one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mettagrid.policy.policy import MultiAgentPolicy

from paceline.adapters.mettagrid.wrappers.agents import (
    PerAgentAutoWrapper,
    PerAgentBatchWrapper,
    PerAgentGPUWrapper,
    PerAgentProcessWrapper,
    PerAgentThreadWrapper,
    PolicyWrapper,
    checked_pool,
)
from paceline.adapters.mettagrid.wrappers.pool import AgentPool
from paceline.errors import BadInput

_BY_WORD: dict[str, Callable[..., PolicyWrapper]] = {
    "process": PerAgentProcessWrapper,
    "thread": PerAgentThreadWrapper,
    "batch": PerAgentBatchWrapper,
    "gpu": PerAgentGPUWrapper,
    "auto": PerAgentAutoWrapper,
}

Wrapping = str | Callable[..., Any]
"""A wrapper class (or a `partial` of one), a word for it, or a function that gives one of these for an agent id."""


class WrappedMultiAgentPolicy(MultiAgentPolicy):
    """A multi-agent policy whose agents are wrapped: `agent_policy()` gives wrappers that share a pool.

    When the pool opens a copy of the policy goes with its agents into their processes. From then on that copy makes the
    policies of later episodes, and attributes are read there, so what agents leave behind in it is found again. Methods
    run here and in every copy. `network()` and `step_batch()` are those of the policy here.

    Args:
        policy: The policy.
        wrapper: A wrapper class, or a `partial` of one; "process", "thread", "batch", "gpu"; "auto": chosen by
            measurement, `pool.why` says what and why; or a function from an agent's id to one of these, so that some
            agents live on threads and others in processes.
        pool: The workers; None: a pool of its own, which `close()` ends.
    """

    def __init__(self, policy: MultiAgentPolicy, wrapper: Wrapping = "auto", *, pool: AgentPool | None = None) -> None:
        self._policy, self._wrapper = policy, wrapper
        self._own = pool is None
        self._pool = checked_pool(pool)
        super().__init__(policy.policy_env_info)
        self._policy_name = getattr(policy, "_policy_name", None)  # upstream's runner shows it
        if _is_choice(wrapper):
            _chosen(wrapper)

    @property
    def pool(self) -> AgentPool:
        """The workers of its agents."""
        return self._pool

    @property
    def minimum_action_timeout_ms(self) -> int:  # type: ignore[override]
        """The policy's."""
        return self._policy.minimum_action_timeout_ms

    @property
    def action_timeout_ms(self) -> int:
        """The policy's."""
        return self._policy.action_timeout_ms

    def agent_policy(self, agent_id: int) -> PolicyWrapper:
        """The wrapped policy of an agent."""
        choice = self._wrapper if _is_choice(self._wrapper) else self._wrapper(agent_id)  # type: ignore[operator]
        policy = self._policy.agent_policy(agent_id)
        return _chosen(choice)(policy, pool=self._pool, agent_id=agent_id, parent=self._policy)

    def load_policy_data(self, policy_data_path: str) -> None:
        """Loads data into the policy here, and into every copy."""
        self._everywhere("load_policy_data", policy_data_path)

    def save_policy_data(self, policy_data_path: str) -> None:
        """Saves the policy as it is where its agents live."""
        copies = self._pool.copies(self._policy)
        if copies:
            copies[0].invoke(None, "save_policy_data", policy_data_path)
        else:
            self._policy.save_policy_data(policy_data_path)

    def network(self) -> Any:
        """The network of the policy here. Copies that live in processes have their own."""
        return self._policy.network()

    def reset(self) -> None:
        """Resets the policy here, and every copy."""
        self._everywhere("reset")

    def configure_action_timeout_ms(self, action_timeout_ms: int) -> None:
        """Tells the policy here, and every copy."""
        self._everywhere("configure_action_timeout_ms", action_timeout_ms)

    def step_batch(self, raw_observations: Any, raw_actions: Any) -> None:
        """The policy's own, here: for loops that have raw buffers and use no agents."""
        self._policy.step_batch(raw_observations, raw_actions)

    def close(self) -> None:
        """Ends the pool if it is its own; in another's pool, what was kept for later episodes. May be called again."""
        if self._own:
            self._pool.close()
        else:
            self._pool.forget(self._policy)

    def __enter__(self) -> WrappedMultiAgentPolicy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        copies = self._pool.copies(self._policy)
        value = copies[0].read(None, name) if copies else getattr(self._policy, name)
        return partial(self._everywhere, name) if copies and callable(value) else value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._policy, name, value)
            for home in self._pool.copies(self._policy):
                home.write(None, name, value)

    def _everywhere(self, name: str, *args: Any, **keywords: Any) -> Any:
        """Calls a method of the policy here, and of every copy. Gives the first copy's answer, if there is one."""
        answer = getattr(self._policy, name)(*args, **keywords)
        answers = [home.invoke(None, name, *args, **keywords) for home in self._pool.copies(self._policy)]
        return answers[0] if answers else answer


def _is_choice(wrapper: Any) -> bool:
    """Whether it says what the wrapper is, rather than being asked for each agent."""
    made = wrapper.func if isinstance(wrapper, partial) else wrapper
    return isinstance(made, str) or (isinstance(made, type) and issubclass(made, PolicyWrapper))


def _chosen(choice: Any) -> Callable[..., PolicyWrapper]:
    if isinstance(choice, str) and choice in _BY_WORD:
        return _BY_WORD[choice]
    if _is_choice(choice) and not isinstance(choice, str):
        made: Callable[..., PolicyWrapper] = choice
        return made
    raise BadInput(f"wrapper={choice!r:.60}: give a wrapper class, or one of {', '.join(_BY_WORD)}")
