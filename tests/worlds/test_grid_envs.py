"""Games of the grid kit in PettingZoo's two forms: its own tests pass, and turns mean what the kit says."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

from paceline import digest, worlds
from paceline.errors import BadInput
from paceline.worlds.grid import Aec, Agent, Entity, Game, Wall, World

GAMES = ("treasure_hunt", "cleanup", "forage", "stag_hunt", "tag")
MAKE = {name: getattr(worlds, f"make_{name}") for name in GAMES}
EPISODES = json.loads((Path(__file__).parent / "grid_episodes.json").read_text())


def aec(name: str, turn: str, **options: Any) -> Aec:
    return Aec(MAKE[name](turn=turn, **options).game)


@pytest.mark.parametrize("golden", EPISODES, ids=lambda golden: golden["world"])
def test_an_episode_is_what_it_has_always_been(golden: dict[str, Any]) -> None:
    """Observations, rewards and infos of random play, recorded."""
    env, rng = MAKE[golden["world"]](**golden["options"], steps=60), np.random.default_rng(0)
    answers: list[Any] = [env.reset(seed=7)]
    while env.agents:
        answers.append(env.step({agent: int(rng.integers(env.action_space(agent).n)) for agent in env.agents}))
    assert digest(answers) == golden["digest"]


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("turn", ["simultaneous", "ordered"])
def test_the_aec_form_keeps_to_pettingzoo(name: str, turn: str, capsys: pytest.CaptureFixture[str]) -> None:
    env = aec(name, turn, agents=3, steps=20)
    assert isinstance(env, AECEnv)
    assert env.metadata["is_parallelizable"] == (turn == "simultaneous")
    api_test(env, num_cycles=30)
    seed_test(lambda: aec(name, turn, agents=3, steps=20), num_cycles=30)
    assert "Passed API test" in capsys.readouterr().out


@pytest.mark.parametrize("name", GAMES)
def test_the_parallel_form_keeps_to_pettingzoo(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(MAKE[name](), ParallelEnv)
    parallel_api_test(MAKE[name](steps=20), num_cycles=50)
    parallel_seed_test(lambda: MAKE[name](steps=20), num_cycles=30)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize("name", GAMES)
def test_both_forms_of_a_simultaneous_game_are_the_same_game(name: str) -> None:
    """Rewards, observations and infos of a turn; what agents see does not change before all have chosen."""
    parallel, turns = MAKE[name](steps=15), aec(name, "simultaneous", steps=15)
    rng = np.random.default_rng(1)
    seen, _ = parallel.reset(seed=4)
    turns.reset(seed=4)
    while parallel.agents:
        actions = {agent: int(rng.integers(parallel.action_space(agent).n)) for agent in parallel.agents}
        for agent in parallel.agents:
            assert turns.agent_selection == agent
            assert digest(turns.last()[0]) == digest(seen[agent])
            turns.step(actions[agent])
        seen, rewards, _, truncated, infos = parallel.step(actions)
        assert (turns.rewards, turns.truncations, turns.infos) == (rewards, truncated, infos)
        assert digest(turns.observe_all()) == digest(seen)
    while turns.agents:
        turns.step(None)


def test_in_ordered_turns_each_sees_what_those_before_it_did() -> None:
    """The second sees the first leave the cell beside it; in simultaneous turns it sees that in the next turn."""
    shown = {}
    for turn in ("ordered", "simultaneous"):
        env = aec("treasure_hunt", turn, agents=2)
        env.reset(seed=0)
        world, middle = env.world, env.world.reach
        for agent, column in zip(env.game.agents, (4, 5), strict=True):
            world.remove(agent)
            world.add(agent, int(world.inside[10 * world.width + column]))
        beside = world.names.index("agent"), middle, middle - 1
        before = env.observe("agent_1")[beside]
        env.step(1)
        assert env.agent_selection == "agent_1"
        shown[turn] = before, env.last()[0][beside]
    assert shown == {"ordered": (1, 0), "simultaneous": (1, 1)}


def test_observations_built_together_are_those_of_each_agent() -> None:
    env, rng = aec("cleanup", "ordered", agents=5), np.random.default_rng(0)
    env.reset(seed=1)
    for _ in range(23):
        env.step(int(rng.integers(6)))
        together = env.observe_all()
        assert list(together) == env.agents
        for agent in env.agents:
            np.testing.assert_array_equal(together[agent], env.observe(agent))


def test_an_ordered_game_goes_on_from_a_copy() -> None:
    env, rng = aec("treasure_hunt", "ordered"), np.random.default_rng(0)
    env.reset(seed=3)
    for _ in range(18):
        env.step(int(rng.integers(5)))
    other = pickle.loads(pickle.dumps(env))
    for action in rng.integers(5, size=30).tolist():
        env.step(action)
        other.step(action)
        assert digest([env.observe_all(), env.rewards]) == digest([other.observe_all(), other.rewards])


def test_what_is_done_wrong_in_turns_is_said() -> None:
    env = aec("treasure_hunt", "ordered", agents=2, steps=1)
    with pytest.raises(BadInput, match="call reset"):
        env.step(0)
    with pytest.raises(BadInput, match="call reset"):
        env.last()
    env.reset(seed=0)
    with pytest.raises(BadInput, match="action 5 of agent_0"):
        env.step(5)
    with pytest.raises(BadInput, match="no agent 'agent_7'; there are agent_0, agent_1"):
        env.observe("agent_7")
    env.step(0)
    env.step(0)
    with pytest.raises(BadInput, match="its last step takes None"):
        env.step(0)
    with pytest.raises(BadInput, match=r"make its AEC form with env\(\)"):
        env.game.parallel_env(turn="ordered")
    for options in ({"turn": "both"}, {"sees": "heat"}, {"view": "all"}):
        with pytest.raises(BadInput, match="give "):
            MAKE["forage"](**options)


def test_both_forms_need_no_pettingzoo() -> None:
    """Where it is not installed they follow its protocol; to evaluate the AEC form is refused with what to do."""
    program = """
import sys
sys.modules["pettingzoo"] = None
from paceline import evaluate, worlds
env = worlds.make_tag(turn="ordered", agents=2, steps=3)
env.reset(seed=0)
for agent in env.agent_iter():
    env.step(None if any(env.last()[2:4]) else 1)
print(env.agents, evaluate("tag,steps=3", "random", episodes=1, plan="inline").episodes[0].steps)
try:
    evaluate("tag,turn=ordered", "random", episodes=1, plan="inline")
except Exception as error:
    print(type(error).__name__, "pip install pettingzoo" in str(error))
"""
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == ["[] 3", "BadInput True"]


# -- agents for whom the game is over before others --------------------------------------------------------


class Exit(Entity):
    """Whose place ends the game for the agent that walks onto it."""


class Leaver(Agent):
    """Walks."""

    def act(self, world: World, action: int) -> float:
        return 1.0 if self.walk(world, action) else 0.0

    def is_done(self, world: World) -> bool:
        return world.find("exit", self.place) is not None


class Corridor(Game):
    """Two agents in a row of five places; the way out is at the eastern end."""

    kinds = (Wall, Exit, Leaver)

    def __init__(self, turn: str = "simultaneous") -> None:
        super().__init__(agents=2, height=1, width=5, steps=8, turn=turn)

    def new_agent(self, number: int) -> Agent:
        return Leaver(number)

    def populate(self, rng: np.random.Generator) -> None:
        self.world.fill("exit", self.world.inside[4])


def placed_in_corridor(env: Any) -> None:
    env.reset(seed=0)
    for agent in env.game.agents:
        env.world.remove(agent)
    for agent, place in zip(env.game.agents, (3, 1), strict=True):
        env.world.add(agent, int(env.world.inside[place]))


def test_an_agent_for_whom_the_game_is_over_leaves_the_world_and_the_others_go_on() -> None:
    env = Corridor.parallel_env()
    placed_in_corridor(env)
    seen, rewards, ended, cut, _ = env.step({"agent_0": 4, "agent_1": 0})
    assert (ended, cut) == ({"agent_0": True, "agent_1": False}, {"agent_0": False, "agent_1": False})
    assert rewards["agent_0"] == 1.0
    assert seen["agent_0"].shape == seen["agent_1"].shape
    assert env.agents == ["agent_1"]
    assert env.world["agent"].sum() == 1
    while env.agents:
        _, _, ended, cut, _ = env.step({"agent_1": 3})
    assert (ended, cut) == ({"agent_1": False}, {"agent_1": True})


@pytest.mark.parametrize("turn", ["ordered", "simultaneous"])
def test_in_the_aec_form_it_answers_none_and_is_not_asked_again(turn: str) -> None:
    env = Corridor.env(turn=turn)
    placed_in_corridor(env)
    asked = []
    for agent in env.agent_iter():
        _, _, ended, cut, _ = env.last()
        asked.append(agent)
        env.step(None if ended or cut else {"agent_0": 4, "agent_1": 3}[agent])
        assert list(env.rewards) == list(env.infos) == env.agents
    assert asked == ["agent_0", "agent_1", "agent_0", *["agent_1"] * 8]
