"""Wrapped policies of mettagrid do what they do bare, in upstream's own rollout, wherever they live."""

from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from cogs import LateAndLocked, LateDrawing, Recurrent
from mettagrid.config.mettagrid_config import MettaGridConfig
from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.policy.random_agent import RandomMultiAgentPolicy
from mettagrid.runner.rollout import resolve_env_for_seed, single_episode_rollout
from mettagrid.simulator.rollout import Rollout
from mettagrid_policies import (
    MEETINGS,
    Crew,
    Dozers,
    Grouped,
    Groupers,
    Gru,
    Herd,
    Keepers,
    LockedOnes,
    Meets,
    Regulars,
    Stumble,
    Stumblers,
    Wanderer,
    Wanderers,
)
from waits import is_alive, until, until_over

from paceline.adapters.mettagrid.builders import empty_room, market
from paceline.adapters.mettagrid.wrappers import (
    AgentPool,
    PerAgentAutoWrapper,
    PerAgentBatchWrapper,
    PerAgentGPUWrapper,
    PerAgentProcessWrapper,
    PerAgentSubprocessWrapper,
    PerAgentThreadWrapper,
    WrappedMultiAgentPolicy,
)
from paceline.adapters.mettagrid.wrappers.group import LiveGroup, _Small, _tell_of_copies
from paceline.errors import BadInput, Closed, NotSendable, SharedRandomness

COGS, STEPS = 4, 120
EVERYWHERE = ["process", "thread", "batch", "auto"]


def mission(steps: int = STEPS, build: Callable[[int], MettaGridConfig] = empty_room) -> MettaGridConfig:
    config = build(COGS)
    config.game.max_steps = steps
    return resolve_env_for_seed(config, 7)


ROOM = mission()
INTERFACE = PolicyEnvInterface.from_mg_cfg(ROOM)


def play(
    policies: list[AgentPolicy],
    config: MettaGridConfig = ROOM,
    keys: list[int] | None = None,
    meanwhile: Callable[[int], None] = lambda step: None,
) -> list[Any]:
    """An episode in upstream's own rollout: what was done in every step, and what policies told of it."""
    rollout = Rollout(config, policies, policy_group_keys=keys or [0] * len(policies), seed=3)
    core, told = rollout._sim._c_sim, []
    while not rollout.is_done():
        rollout.step()
        told.append((core.actions().tolist(), core.vibe_actions().tolist(), copy.deepcopy(rollout._policy_infos)))
        meanwhile(len(told))
    if rollout._policy_step_pool is not None:
        rollout._policy_step_pool.shutdown()
    return [*told, [float(reward) for reward in rollout._sim.episode_rewards]]


def episode(policy: MultiAgentPolicy, config: MettaGridConfig = ROOM, **options: Any) -> list[Any]:
    played = play([policy.agent_policy(number) for number in range(COGS)], config, **options)
    for _, _, infos in played[:-1]:
        for info in infos.values():
            info.pop("policy_name", None)
    return played


def wandering(agent_id: int = 0) -> Wanderer:
    return Wanderer(INTERFACE, agent_id)


@pytest.fixture(scope="module")
def seen() -> Any:
    """An observation."""
    rollout = Rollout(ROOM, [wandering(number) for number in range(COGS)], seed=3)
    return rollout._agents[0].observation


# -- the same as bare --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", EVERYWHERE)
@pytest.mark.parametrize("make", [Wanderers, Regulars, Herd, Crew, Gru])
def test_two_episodes_are_those_of_the_bare_policy(make: Any, wrapper: str) -> None:
    """Actions, infos and rewards, with what policies carry over from one episode to the next."""
    bare = make(INTERFACE)
    expected = [episode(bare), episode(bare)]
    assert len(expected[0]) > 100
    with WrappedMultiAgentPolicy(make(INTERFACE), wrapper) as wrapped:
        assert [episode(wrapped), episode(wrapped)] == expected
        if hasattr(bare, "total"):
            assert (wrapped.total, wrapped.turns[-8:]) == (bare.total, bare.turns[-8:])


def test_the_same_in_a_larger_mission() -> None:
    config = mission(100, market)
    interface = PolicyEnvInterface.from_mg_cfg(config)
    expected = episode(Wanderers(interface), config)
    for wrapper in ("process", "thread"):
        with WrappedMultiAgentPolicy(Wanderers(interface), wrapper) as wrapped:
            assert episode(wrapped, config) == expected


def test_the_same_without_groups_and_with_several() -> None:
    """A loop that steps agent by agent, and groups that upstream steps on threads of its own."""
    expected = episode(Wanderers(INTERFACE))
    with WrappedMultiAgentPolicy(Wanderers(INTERFACE), "process") as wrapped:
        assert episode(wrapped, keys=[0, 1, 0, 1]) == expected
        assert episode(wrapped, keys=[0, 1, 2, 3]) == expected
    with AgentPool() as pool:
        agents = [PerAgentThreadWrapper(wandering(number), pool=pool) for number in range(COGS)]
        told = []
        rollout = Rollout(ROOM, agents, seed=3)
        while not rollout.is_done():
            rollout.step()
            told.append(rollout._sim._c_sim.actions().tolist())
        assert told == [actions for actions, _, _ in expected[:-1]]


def test_upstreams_runner_plays_wrapped_policies() -> None:
    options: Any = {"seed": 3, "max_action_time_ms": 100_000, "render_mode": "none", "autostart": False}
    options |= {"capture_replay": False, "assignments": [0, 1, 0, 1], "env": ROOM}
    bare, _ = single_episode_rollout([Wanderers(INTERFACE), Herd(INTERFACE)], **options)
    with AgentPool() as pool:
        wrapped = [
            WrappedMultiAgentPolicy(Wanderers(INTERFACE), PerAgentSubprocessWrapper, pool=pool),
            WrappedMultiAgentPolicy(Herd(INTERFACE), PerAgentThreadWrapper, pool=pool),
        ]
        result, _ = single_episode_rollout(wrapped, **options)
    assert result == bare


def test_an_observation_is_the_original_and_may_be_kept() -> None:
    """What a policy sees and hears; upstream's own observations change while a policy keeps them."""
    config = mission(12)
    config.game.talk.enabled, config.game.talk.cooldown_steps = True, 2
    interface = PolicyEnvInterface.from_mg_cfg(config)
    expected = episode(Keepers(interface), config)
    assert any(infos[0]["heard"] for _, _, infos in expected[:-1])
    for wrapper in EVERYWHERE:
        with WrappedMultiAgentPolicy(Keepers(interface), wrapper) as wrapped:
            agents = [wrapped.agent_policy(number) for number in range(COGS)]
            for (*did, infos), (*should, before) in zip(play(agents, config)[:-1], expected[:-1], strict=True):
                assert did == should
                for number in range(COGS):
                    name = infos[number]["policy_name"]
                    assert infos[number] == {**before[number], "plain": True, "policy_name": name}
            assert [agent.changed for agent in agents] == [0] * COGS


# -- where agents live -------------------------------------------------------------------------------------


def test_agents_that_share_state_live_together() -> None:
    with WrappedMultiAgentPolicy(Herd(INTERFACE), "process") as wrapped:
        wrapped.agent_policy(0)
        wrapped.agent_policy(1).reset()
        assert wrapped.pool.groups == [(0, 1)]
    with WrappedMultiAgentPolicy(Wanderers(INTERFACE), "process") as wrapped:
        agents = [wrapped.agent_policy(number) for number in range(COGS)]
        agents[0].reset()
        assert wrapped.pool.groups == [(0,), (1,), (2,), (3,)]
        assert {worker.backend for worker in wrapped.pool.workers} == {"process"}


def test_split_gives_every_agent_a_copy() -> None:
    """A network that all agents share is copied: then they live apart, and still do the same."""
    expected = episode(Gru(INTERFACE))
    pool = AgentPool(split=True, workers=2)
    with pool, WrappedMultiAgentPolicy(Gru(INTERFACE), "process", pool=pool) as wrapped:
        assert episode(wrapped) == expected
        assert len(pool.groups) == COGS
        assert len(pool.workers) == 2


def test_a_hybrid_of_threads_and_processes() -> None:
    def wrapper(agent_id: int) -> Any:
        return [PerAgentThreadWrapper, "process", PerAgentBatchWrapper, PerAgentAutoWrapper][agent_id]

    expected = episode(Wanderers(INTERFACE))
    with WrappedMultiAgentPolicy(Wanderers(INTERFACE), wrapper) as wrapped:
        assert [episode(wrapped), episode(wrapped)] == [expected, expected]
        assert wrapped.pool.why.splitlines()[:2] == ["agents 0: thread: as asked", "agents 1: process: as asked"]
        assert "agents 2: here: as asked" in wrapped.pool.why


def test_agents_that_share_state_cannot_live_in_different_places() -> None:
    def wrapper(agent_id: int) -> str:
        return "thread" if agent_id % 2 else "process"

    with WrappedMultiAgentPolicy(Herd(INTERFACE), wrapper) as wrapped:
        agents = [wrapped.agent_policy(number) for number in range(COGS)]
        with pytest.raises(BadInput, match=r"4 agents share a .* different places \(process, thread\)"):
            agents[0].reset()


def test_auto_says_why(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "paceline")
    with WrappedMultiAgentPolicy(Wanderers(INTERFACE)) as wrapped:
        episode(wrapped, mission(400))
        assert "a round of 4 calls takes" in wrapped.pool.why
    assert "a round of 4 calls takes" in caplog.text


def test_auto_may_move_policies_that_wait() -> None:
    """Whatever it chooses, nothing changes."""
    expected = episode(Dozers(INTERFACE))
    with WrappedMultiAgentPolicy(Dozers(INTERFACE), "auto") as wrapped:
        assert episode(wrapped) == expected


def test_policies_that_cannot_be_sent_stay_here_which_is_said_once() -> None:
    expected = episode(Wanderers(INTERFACE))
    with WrappedMultiAgentPolicy(LockedOnes(INTERFACE), "process") as wrapped:
        with pytest.warns(
            UserWarning, match=r"agents 0, 1, 2, 3 stay in this process: Locked cannot be sent.*lock"
        ) as told:
            assert [episode(wrapped), episode(wrapped)] == [expected, expected]
        assert len(told) == 1
        assert {worker.pid for worker in wrapped.pool.workers} == {os.getpid()}
    with WrappedMultiAgentPolicy(LockedOnes(INTERFACE), "thread") as wrapped:  # nothing has to be sent there
        assert episode(wrapped) == expected
        assert wrapped.pool.groups == [(0,), (1,), (2,), (3,)]


_SCRIPT = """
    from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
    from mettagrid.policy.policy_env_interface import PolicyEnvInterface
    from mettagrid.simulator.rollout import Rollout
    from mettagrid.types import Action
    from paceline.adapters.mettagrid import WrappedMultiAgentPolicy
    from paceline.adapters.mettagrid.builders import empty_room

    class Mine(AgentPolicy):
        KNOWN: tuple = ("a class's own", [])

        def __init__(self, interface, number):
            super().__init__(interface)
            self.number = number
            self.count = lambda: self.number

        def step(self, obs):
            self.number += len(obs.tokens)
            return Action(self.policy_env_info.action_names[self.count() % 5])

    class Ours(MultiAgentPolicy):
        def agent_policy(self, agent_id):
            return Mine(self.policy_env_info, agent_id)

    if __name__ == "__main__":
        config, step = empty_room(2), Mine.step
        config.game.max_steps, config.game.map_builder.seed = 20, 3
        policy = Ours(PolicyEnvInterface.from_mg_cfg(config))
        for wrapper in ("batch", "process", "auto"):
            with WrappedMultiAgentPolicy(policy, wrapper) as wrapped:
                agents = [wrapped.agent_policy(number) for number in range(2)]
                Rollout(config, agents, policy_group_keys=[0, 0]).run_until_done()
                print([agent.number for agent in agents], len(wrapped.pool.groups), Mine.step is step)
"""


def test_policies_of_a_script_are_sent_by_value(tmp_path: Path) -> None:
    """And the script's own classes stay what they are."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(_SCRIPT))
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    process = subprocess.Popen([sys.executable, script], stdout=-1, stderr=-1, text=True, env=environment)
    said, complaints = until_over(process)
    first, *others = said.splitlines()
    numbers = first.removesuffix(" 1 True")
    assert others == [f"{numbers} 2 True"] * 2, complaints


# -- at the same time --------------------------------------------------------------------------------------


def meeting(wrapper: Any, place: str, count: int, **options: Any) -> None:
    with AgentPool(**options) as pool:
        agents = [wrapper(Meets(INTERFACE, number, place, count), pool=pool) for number in range(count)]
        config = mission(3)
        play([*agents, *(wandering() for _ in range(COGS - count))], config, [0] * count + [1] * (COGS - count))


def test_agents_on_threads_are_stepped_at_the_same_time() -> None:
    MEETINGS["room"] = threading.Barrier(COGS)
    meeting(PerAgentThreadWrapper, "room", COGS)


def test_agents_in_processes_are_stepped_at_the_same_time(tmp_path: Path) -> None:
    meeting(PerAgentProcessWrapper, str(tmp_path), 2, workers=2)
    pids = {int(path.read_text()) for path in tmp_path.glob("*/*")}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_threads_and_processes_are_stepped_at_the_same_time(tmp_path: Path) -> None:
    with AgentPool() as pool:
        agents = [
            PerAgentProcessWrapper(Meets(INTERFACE, 0, str(tmp_path), 2), pool=pool),
            PerAgentThreadWrapper(Meets(INTERFACE, 1, str(tmp_path), 2), pool=pool),
        ]
        play([*agents, wandering(), wandering()], mission(3), [0, 0, 1, 1])


# -- batches -----------------------------------------------------------------------------------------------


def test_a_batch_is_one_call_of_step_batch() -> None:
    crew = Crew(INTERFACE)
    expected = episode(Crew(INTERFACE))
    with WrappedMultiAgentPolicy(crew, PerAgentBatchWrapper) as wrapped:
        assert episode(wrapped) == expected
    assert crew.batches == STEPS


def test_a_step_batch_that_answers_no_action_is_told(seen: Any) -> None:
    with WrappedMultiAgentPolicy(Crew(INTERFACE, wrong=True), "batch") as wrapped:
        agent = wrapped.agent_policy(0)
        assert agent.can_step_group([agent])
        with pytest.raises(BadInput, match="answered 1000, which is no action"):
            agent.step_group([(0, seen)])


def test_without_step_batch_the_policies_own_step_group_is_called() -> None:
    expected = episode(Wanderers(INTERFACE))
    Grouped.groups = 0
    with WrappedMultiAgentPolicy(Groupers(INTERFACE), "batch") as wrapped:
        assert episode(wrapped) == expected
    assert Grouped.groups == STEPS


def test_a_gpu_wrapper_moves_the_network() -> None:
    expected = episode(Gru(INTERFACE))
    policy = Gru(INTERFACE)
    with WrappedMultiAgentPolicy(policy, partial(PerAgentGPUWrapper, device="cpu")) as wrapped:
        assert episode(wrapped) == expected
    PerAgentGPUWrapper(policy.agent_policy(0), device="cpu").close()  # found in the policy itself
    assert {weights.device.type for weights in policy.network().parameters()} == {"cpu"}


def test_a_device_that_is_not_there_is_told() -> None:
    import torch

    device = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(BadInput, match=f"device='{device}' is not there"):
        PerAgentGPUWrapper(Gru(INTERFACE).agent_policy(0), device=device)
    with pytest.raises(BadInput, match="Wanderer has no network"):
        PerAgentGPUWrapper(wandering(), device="cpu")


# -- attributes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", [PerAgentProcessWrapper, PerAgentThreadWrapper, PerAgentBatchWrapper])
def test_attributes_are_live(wrapper: Any, seen: Any) -> None:
    with wrapper(wandering()) as wrapped:
        assert (wrapped.steps, wrapped.resets) == (0, 0)
        wrapped.reset()
        action = wrapped.step(seen)
        assert (wrapped.steps, wrapped.resets, wrapped.infos["steps"]) == (1, 1, 1)
        assert len(wrapped.places) == wrapped.infos["places"]
        assert wrapped.add_steps(2, twice=True) == 5
        wrapped.steps = 10
        wrapped.step(seen)
        assert (wrapped.steps, wrapped.infos["steps"]) == (11, 11)
        assert not hasattr(wrapped, "nothing")
        assert not hasattr(wrapped, "_nothing")
        assert wrapped.policy_env_info == INTERFACE
    bare = wandering()
    assert action == bare.step(seen)


def test_a_thread_wrapper_does_not_copy(seen: Any) -> None:
    policy = wandering()
    with PerAgentThreadWrapper(policy) as wrapped:
        wrapped.step(seen)
        assert policy.steps == 1
        assert wrapped.places is policy.places


def test_attributes_of_a_multi_agent_policy_are_live(tmp_path: Path) -> None:
    with WrappedMultiAgentPolicy(Herd(INTERFACE), "process") as wrapped:
        episode(wrapped, mission(5))
        assert wrapped.turns == [0, 1, 2, 3] * 5
        before = wrapped.total
        assert wrapped.add(3) == before + 3
        wrapped.save_policy_data(str(tmp_path / "data"))
        assert (tmp_path / "data").read_text() == str(wrapped.total)
        wrapped.reset()
        wrapped.made = 7
        assert (wrapped.total, wrapped.made) == (0, 7)
        wrapped.configure_action_timeout_ms(77)
        assert wrapped.action_timeout_ms == 77
        with pytest.raises(AttributeError):
            _ = wrapped.nothing


def test_a_wrapper_is_neither_copied_nor_pickled() -> None:
    with PerAgentProcessWrapper(wandering()) as wrapped, WrappedMultiAgentPolicy(Herd(INTERFACE)) as policy:
        for each in (wrapped, policy):
            with pytest.raises(NotSendable, match="pickle the policies"):
                pickle.dumps(each)
            with pytest.raises(NotSendable, match="pickle the policies"):
                copy.deepcopy(each)


# -- random numbers ----------------------------------------------------------------------------------------


HYBRID = {0: "thread", 1: "process", 2: "batch", 3: "thread"}


def drawn(make: Any, wrapper: Any, seed: int | None = None, steps: int = 30) -> list[Any]:
    with AgentPool(seed=seed) as pool, WrappedMultiAgentPolicy(make(INTERFACE), wrapper, pool=pool) as wrapped:
        return [episode(wrapped, mission(steps)), episode(wrapped, mission(steps))]


@pytest.mark.parametrize("make", [RandomMultiAgentPolicy, LateDrawing, LateAndLocked, Recurrent])
def test_every_wrapper_gives_one_result_of_agents_that_draw(make: Any) -> None:
    """From process-wide generators: each agent, or all that share state, has its own streams, wherever it lives."""
    wrappers: list[Any] = ["batch", "process", "thread", "auto", HYBRID.__getitem__]
    if make is LateAndLocked:
        wrappers = ["batch", "auto"]
    if make is Recurrent:  # its agents share a network, so they live in one place
        wrappers.pop()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*stay in this process")
        first, *others = [drawn(make, wrapper, seed=0) for wrapper in wrappers]
    assert all(other == first for other in others)
    assert drawn(make, "batch", seed=1) != first


def test_streams_follow_from_what_the_caller_has_seeded() -> None:
    """One number is drawn of each generator when the pool opens; with a seed, none."""

    def after(seeded: int, wrapper: str, seed: int | None = None) -> tuple[list[Any], float]:
        random.seed(seeded)
        return drawn(RandomMultiAgentPolicy, wrapper, seed, steps=8), random.random()

    first, left = after(1, "process")
    assert after(1, "batch") == (first, left)
    assert after(2, "batch")[0] != first
    assert after(1, "batch", seed=0)[1] == random.Random(1).random()


def test_agents_that_draw_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    drawn(RandomMultiAgentPolicy, "thread", steps=3)
    told = "agents 0, 1, 2, 3 draw from process-wide random generators: .* unwrapped they would .* one at a time"
    assert len(re.findall(told, caplog.text)) == 1
    caplog.clear()
    drawn(Wanderers, "batch", steps=3)
    with pytest.warns(UserWarning, match="stay in this process"):
        drawn(LockedOnes, "process", steps=3)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_who_draws_late_on_threads_and_cannot_be_put_back_is_the_named_error() -> None:
    with pytest.raises(SharedRandomness, match=r"LateAndLockedAgent has drawn .* use PerAgentProcessWrapper"):
        drawn(LateAndLocked, "thread")


def test_what_cannot_be_saved_is_not_tried_in_every_step() -> None:
    tried: list[int] = []

    class Tries:
        def __reduce__(self) -> Any:
            tried.append(1)
            raise TypeError("cannot pickle this")

    agent = LateDrawing(INTERFACE).agent_policy(0)
    agent.held = Tries()  # type: ignore[attr-defined]
    group = LiveGroup(None, [agent])
    for _ in range(3):
        group.reset(0)
    assert (len(tried), group.goes_back) == (1, False)
    with pytest.raises(OverflowError, match="too much to be kept"):
        _Small().write(bytes(1 << 20))


def test_that_an_agent_was_put_back_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    _tell_of_copies.cache_clear()
    drawn(LateDrawing, "thread")
    assert caplog.text.count("a LateDrawingAgent was put back") == 1


def test_a_batch_of_one_after_another_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    with WrappedMultiAgentPolicy(Wanderers(INTERFACE), "batch") as wrapped:
        episode(wrapped, mission(5))
        assert "nothing is batched" not in caplog.text
    with WrappedMultiAgentPolicy(Wanderers(INTERFACE), "batch") as wrapped:
        episode(wrapped, mission(5), keys=[0, 1, 2, 3])
    assert caplog.text.count("agents 0, 1, 2, 3 are stepped one by one, so nothing is batched") == 1


# -- what goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapper", EVERYWHERE)
def test_an_error_is_the_policys_own_and_all_agents_have_been_stepped(wrapper: str) -> None:
    with WrappedMultiAgentPolicy(Stumblers(INTERFACE), wrapper) as wrapped:
        agents = [wrapped.agent_policy(number) for number in range(COGS)]
        with pytest.raises(Stumble, match="agent 1 has stumbled") as caught:
            play(agents)
        assert "in step() of agent 1" in caught.value.__notes__
        if wrapper != "batch":
            assert [agent.steps for agent in agents] == [3] * COGS


@pytest.mark.parametrize("make", [Wanderers, Herd, Gru])
def test_a_worker_that_is_killed_is_replaced(make: Any) -> None:
    expected = [episode(make(INTERFACE))]
    killed = []

    def kill(step: int) -> None:
        if step in (30, 90):
            killed.append(wrapped.pool.workers[0].pid)
            os.kill(killed[-1], signal.SIGKILL)

    with WrappedMultiAgentPolicy(make(INTERFACE), "process") as wrapped:
        assert [episode(wrapped, meanwhile=kill)] == expected
        assert len(set(killed)) == 2
        assert [event.kind for event in wrapped.pool.events].count("lost") == 2


def test_a_worker_that_is_killed_in_a_later_episode_is_replaced() -> None:
    """By then its journal has begun anew, with a snapshot."""
    bare, config = Herd(INTERFACE), mission(400)
    expected = [episode(bare, config) for _ in range(4)]

    def kill(step: int) -> None:
        if step == 200:
            os.kill(wrapped.pool.workers[0].pid, signal.SIGKILL)

    with WrappedMultiAgentPolicy(Herd(INTERFACE), "process") as wrapped:
        told = [episode(wrapped, config) for _ in range(3)]
        assert [*told, episode(wrapped, config, meanwhile=kill)] == expected
        assert wrapped.total == bare.total


# -- registration and the end ------------------------------------------------------------------------------


def test_wrappers_of_one_pool_are_stepped_as_a_group(seen: Any) -> None:
    with AgentPool() as pool, AgentPool() as other:
        first, second = (PerAgentThreadWrapper(wandering(n), pool=pool, agent_id=5 - n) for n in range(2))
        third = PerAgentThreadWrapper(wandering(2), pool=other)
        assert not first.can_step_group([first, third])
        assert not first.can_step_group([first, wandering()])
        assert first.can_step_group([first, second])
        expected = [wandering(n).step(seen) for n in range(2)]
        assert first.step_group([(0, seen), (1, seen)]) == expected  # in the order of the group, whatever the ids
        first.step_group([(4, seen)])  # known by its id
        assert (first.steps, second.steps) == (1, 2)
        with pytest.raises(BadInput, match=r"agents \[9\]"):
            first.step_group([(9, seen)])


def test_a_wrapper_may_register_with_a_pool_that_is_open(seen: Any) -> None:
    with AgentPool() as pool:
        first = PerAgentProcessWrapper(wandering(0), pool=pool)
        first.step(seen)
        second = PerAgentProcessWrapper(wandering(1), pool=pool)
        assert second.can_step_group([first, second])
        bare = wandering(0)
        bare.step(seen)
        assert second.step_group([(0, seen), (1, seen)]) == [bare.step(seen), wandering(1).step(seen)]
        pids = [worker.pid for worker in pool.workers]
        assert len(pids) == 2
        first.close()
        assert [worker.pid for worker in pool.workers] == pids[1:]  # a worker ends with the last who lives there
        with pytest.raises(Closed):
            first.step(seen)
        assert second.steps == 1
        del second
        gc.collect()
        third = PerAgentThreadWrapper(wandering(2), pool=pool)  # dropped wrappers are noticed when something is asked
        third.step(seen)
        assert {worker.backend for worker in pool.workers} == {"thread"}


def test_nothing_is_left_after_close(seen: Any) -> None:
    threads = threading.active_count()
    wrapped = WrappedMultiAgentPolicy(Wanderers(INTERFACE), lambda agent: ["process", "thread"][agent % 2])
    agents = [wrapped.agent_policy(number) for number in range(COGS)]
    agents[0].reset()
    alone = PerAgentProcessWrapper(wandering())
    alone.reset()
    pids = {worker.pid for pool in (wrapped.pool, alone._pool) for worker in pool.workers} - {os.getpid()}
    assert len(pids) > 1
    wrapped.close()
    wrapped.close()
    alone.close()
    alone.close()
    until(lambda: threading.active_count() == threads)
    assert not any(psutil.pid_exists(pid) for pid in pids)
    with pytest.raises(Closed):
        agents[0].step(seen)
    with pytest.raises(Closed):
        wrapped.agent_policy(0)
    agents[0].close()


def test_nothing_is_left_of_what_is_dropped(seen: Any) -> None:
    wrapped = WrappedMultiAgentPolicy(Wanderers(INTERFACE), "process")
    agents = [wrapped.agent_policy(number) for number in range(COGS)]
    agents[0].step(seen)
    pids = [worker.pid for worker in wrapped.pool.workers]
    del wrapped, agents
    gc.collect()
    until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_shared_pool_outlives_the_policies_in_it() -> None:
    with AgentPool() as pool:
        with WrappedMultiAgentPolicy(Herd(INTERFACE), "process", pool=pool) as wrapped:
            episode(wrapped, mission(3))
            assert len(pool.workers) == 1
        gc.collect()
        pool.sweep()
        assert pool.workers == []
        with WrappedMultiAgentPolicy(Wanderers(INTERFACE), "thread", pool=pool) as wrapped:
            episode(wrapped, mission(3))


def test_what_makes_no_sense_is_told() -> None:
    with pytest.raises(BadInput, match="give an AgentPool"):
        PerAgentProcessWrapper(wandering(), pool=3)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="wrapper='fast': give a wrapper class, or one of process, thread, batch"):
        WrappedMultiAgentPolicy(Wanderers(INTERFACE), "fast")
    with pytest.raises(BadInput, match="wrapper=None"):
        WrappedMultiAgentPolicy(Wanderers(INTERFACE), lambda agent: None).agent_policy(0)


def test_both_names_of_the_process_wrapper_are_one() -> None:
    assert PerAgentProcessWrapper is PerAgentSubprocessWrapper
