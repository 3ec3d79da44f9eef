"""A row per agent: what comes out is what the parallel envs show when they are played by hand."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest
from mpe2 import simple_adversary_v3, simple_spread_v3
from players import Meeting
from stable_baselines3 import PPO

from paceline import BadInput
from paceline.adapters.agent_rows import AgentRows, agent_rows
from paceline.adapters.sb3_vec import as_sb3

PLANS = [0, 2]


class Again(Meeting):
    """Goes on with its generator when it begins again without a seed."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        rng = None if seed is not None else self.rng
        answer = super().reset(seed, options)
        self.rng = rng or self.rng
        return answer


meeting = partial(Again, agents=4, length=6, leave={1: 3, 2: 5})


def spread() -> Any:
    return simple_spread_v3.parallel_env(N=2, max_cycles=7)


def by_hand(make: Any, seeds: list[int], rounds: list[np.ndarray]) -> list[Any]:
    """Rewards, flags and who is alive, row by row: envs begin again in the step after the one that ended them."""
    envs = [make() for _ in seeds]
    agents = envs[0].possible_agents
    for env, seed in zip(envs, seeds, strict=True):
        env.reset(seed=seed)
    over, told = [False] * len(envs), []
    for actions in rounds:
        rows: list[Any] = []
        for number, env in enumerate(envs):
            mine = dict(zip(agents, actions.reshape(len(envs), -1)[number], strict=True))
            if over[number]:
                seen, _ = env.reset()
                rewards, ended, cut = {}, {}, {}
            else:
                seen, rewards, ended, cut, _ = env.step({agent: mine[agent] for agent in env.agents})
            over[number] = not env.agents
            for agent in agents:
                shown = seen[agent].tobytes() if agent in seen else None
                flags = bool(ended.get(agent)), bool(cut.get(agent))
                rows.append((shown, float(rewards.get(agent, 0.0)), *flags, agent in seen))
        told.append(rows)
    return told


def by_rows(envs: AgentRows, seeds: list[int], rounds: list[np.ndarray]) -> list[Any]:
    envs.reset(seed=seeds)
    told = []
    for actions in rounds:
        seen, rewards, ended, cut, infos = envs.step(actions)
        alive = infos["alive"]
        assert not seen[~alive].any()
        shown = [row.tobytes() if here else None for row, here in zip(seen, alive, strict=True)]
        told.append(list(zip(shown, rewards.tolist(), ended.tolist(), cut.tolist(), alive.tolist(), strict=True)))
    return told


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("make", [spread, meeting])
def test_rows_are_what_the_agents_see(make: Any, plan: int) -> None:
    with agent_rows(make, 3, plan=plan) as envs:
        envs.action_space.seed(4)
        rounds = [envs.action_space.sample() for _ in range(20)]
        assert by_rows(envs, [5, 6, 7], rounds) == by_hand(make, [5, 6, 7], rounds)


def test_a_seed_is_spread_over_the_envs() -> None:
    with agent_rows(spread, 2, plan=0) as envs:
        one, _ = envs.reset(seed=8)
        two, _ = envs.reset(seed=[8, 9])
        assert one.tobytes() == two.tobytes()


def test_plan_and_seed_are_those_of_the_envs() -> None:
    with agent_rows(spread, 2, plan=0, seed=8) as envs:
        assert envs.seed == 8
        assert envs.plan == envs.envs.plan
        assert envs.plan.backend == "inline"
        assert envs.reset()[0].tobytes() == envs.reset(seed=8)[0].tobytes()


class Tasked(Meeting):
    """Tells its task."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        seen, _ = super().reset(seed, options)
        return seen, {agent: {"task": (options or {}).get("task")} for agent in seen}


def test_a_task_is_given_to_an_env_not_to_a_row() -> None:
    with agent_rows(partial(Tasked, agents=2), 2, plan=0) as envs:
        _, infos = envs.reset(seed=1, options={"tasks": ["a", "b"]})
        assert infos["task"].tolist() == ["a", "a", "b", "b"]


def test_in_the_same_step_rewards_are_of_the_end_and_rows_of_the_beginning() -> None:
    with agent_rows(spread, 1, plan=0, autoreset="SameStep") as envs:
        envs.reset(seed=1)
        for _ in range(7):
            seen, rewards, _, cut, infos = envs.step(np.ones(2, np.int64))
        assert cut.tolist() == [True, True]
        assert rewards.all()
        assert infos["_final_obs"].all()
        assert infos["final_obs"][1].tobytes() != seen[1].tobytes()
        assert envs.step(np.ones(2, np.int64))[3].tolist() == [False, False]


def test_agents_that_differ_are_refused() -> None:
    with pytest.raises(BadInput, match=r"observation space .* pad them first"):
        agent_rows(simple_adversary_v3.parallel_env, 2, plan=0)


def test_ppo_shares_one_policy_among_the_agents() -> None:
    envs = as_sb3(agent_rows(spread, 2, plan=0, autoreset="SameStep"))
    model = PPO("MlpPolicy", envs, n_steps=16, batch_size=16, seed=3, device="cpu")
    model.learn(128)
    assert envs.num_envs == 4
    assert envs.get_attr("agents", [0, 3]) == [["agent_0", "agent_1"]] * 2
    assert envs.env_method("get_wrapper_attr", "render_mode", indices=[0, 3]) == [None, None]
    envs.close()


def test_who_leaves_early_has_a_last_observation_too() -> None:
    envs = as_sb3(agent_rows(meeting, 1, plan=0, autoreset="SameStep"))
    envs.seed(1)
    envs.reset()
    for turn in range(1, 7):
        seen, _, dones, infos = envs.step(np.ones(4, np.int64))
        if turn == 3:
            assert dones.tolist() == [False, True, False, False]
            assert infos[1]["terminal_observation"].tobytes() == seen[1].tobytes()
            assert infos[1]["name"] == "agent_1"
    assert dones.tolist() == [True, False, False, True]
    assert "terminal_observation" not in infos[1]
    envs.close()


class Says(Again):
    """Gives an agent something else for an info."""

    def __init__(self, first: Any, then: Any) -> None:
        super().__init__(agents=2)
        self.first, self.then = first, then

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        seen, infos = super().reset(seed, options)
        return seen, {**infos, "agent_1": self.first}

    def step(self, actions: Any) -> Any:
        *rest, infos = super().step(actions)
        return *rest, {**infos, "agent_1": self.then}


def stepped(make: Any) -> None:
    with closing(agent_rows(make, 1, plan=0)) as envs:
        envs.reset(seed=1)
        envs.step(np.zeros(2, np.int64))


def test_every_info_of_an_agent_is_a_dict() -> None:
    for first, then, told in (("x", {}, r"reset\(\) gave 'x' \(str\)"), ({}, [], r"step\(\) gave \[\] \(list\)")):
        with pytest.raises(BadInput, match=rf"Says: {told} as the info of agent 'agent_1'; it must be a dict"):
            stepped(partial(Says, first, then))
