"""The built-in worlds keep to their protocols, are functions of seed and actions, and keep their own rules."""

import copy
import pickle
import re
import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test

from paceline import digest
from paceline.errors import BadInput
from paceline.testing import check_env
from paceline.types import Mission, typed_name
from paceline.worlds import MISSIONS, make_cleanup, make_courier, make_forage, make_treasure_hunt
from paceline.worlds.cleanup import CHOKED, CLEAN, TREES, WATER

MANY = [name for name in MISSIONS if not name.startswith("courier")]
ONE = [name for name in MISSIONS if name.startswith("courier")]


def draw(env: Any, rng: np.random.Generator) -> Any:
    """Random actions for all who are in play."""
    if not hasattr(env, "possible_agents"):
        return int(rng.integers(env.action_space.n))
    return {agent: int(rng.integers(env.action_space(agent).n)) for agent in env.agents}


# -- missions ----------------------------------------------------------------------------------------------


def test_there_are_six_missions_or_more_and_each_says_what_it_is() -> None:
    assert len(MISSIONS) >= 6
    assert {"forage", "cleanup", "courier"} <= MISSIONS.keys()
    for name, mission in MISSIONS.items():
        assert typed_name(mission.name) == name
        assert mission.about.endswith(".")


@pytest.mark.parametrize("name", MISSIONS)
def test_a_mission_can_be_sent(name: str) -> None:
    mission: Mission = pickle.loads(pickle.dumps(MISSIONS[name]))
    first = (mission.build().reset(seed=3), MISSIONS[name].build().reset(seed=3))
    assert digest(first[0]) == digest(first[1])


def test_to_list_the_missions_imports_nothing_heavy() -> None:
    program = (
        "import sys, paceline.worlds; print([m for m in ('gymnasium', 'torch', 'pettingzoo') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize(
    ("make", "options", "hint"),
    [
        (make_forage, {"agents": 1}, "from 2 to 64"),
        (make_forage, {"agents": 65}, "from 2 to 64"),
        (make_forage, {"agents": "8"}, "whole number"),
        (make_forage, {"agents": 64, "size": 10}, "size=10"),
        (make_forage, {"bushes": 0}, "bushes=0"),
        (make_forage, {"steps": True}, "steps=True"),
        (make_forage, {"agnets": 3}, "it has agents, steps, size"),
        (make_forage, {"render_mode": "human"}, "'rgb_array' for images"),
        (make_cleanup, {"width": 2}, "width=2"),
        (make_cleanup, {"agents": 0}, "agents=0"),
        (make_courier, {"rooms": 1}, "rooms=1"),
        (make_courier, {"houses": 10}, "from 1 to 9"),
        (make_courier, {"agents": 2}, "courier has no option agents"),
        (make_treasure_hunt, {"agents": 0}, "from 1 to 64"),
        (make_treasure_hunt, {"agents": 64, "size": 11}, "size=11"),
        (make_treasure_hunt, {"size": 3, "gems": 6}, "from 1 to 5"),
        (make_treasure_hunt, {"view": 0}, "view=0"),
    ],
)
def test_a_bad_option_is_refused_with_what_to_do(make: Any, options: dict[str, Any], hint: str) -> None:
    with pytest.raises(BadInput, match=re.escape(hint)):
        make(**options)


# -- protocols ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MANY)
def test_many_keep_to_pettingzoo(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    mission = MISSIONS[name]
    parallel_api_test(mission.make(**{**mission.options, "steps": 40}), num_cycles=100)
    assert "Passed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ONE)
def test_one_keeps_to_gymnasium(name: str) -> None:
    check_gymnasium(MISSIONS[name].build(), skip_render_check=True)


@pytest.mark.parametrize(
    "factory",
    [
        partial(make_forage, agents=2, steps=50),
        partial(make_forage, agents=8, steps=50),
        partial(make_forage, agents=64, steps=50),
        partial(make_cleanup, agents=2, steps=50),
        partial(make_cleanup, agents=64, steps=50),
        partial(make_courier, steps=50),
        partial(make_treasure_hunt, agents=1),
        partial(make_treasure_hunt, agents=64),
    ],
    ids=["forage-2", "forage-8", "forage-64", "cleanup-2", "cleanup-64", "courier", "hunt-1", "hunt-64"],
)
def test_it_is_fit_to_be_run_in_parallel(factory: Any) -> None:
    report = check_env(factory, steps=70)
    assert all(finding.verdict == "ok" for finding in report.findings), str(report)


@pytest.mark.parametrize("name", MISSIONS)
def test_a_copy_made_in_mid_play_goes_on_the_same(name: str) -> None:
    env, rng = MISSIONS[name].build(), np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(20):
        env.step(draw(env, rng))
    other = pickle.loads(pickle.dumps(env))
    actions = [draw(env, rng) for _ in range(20)]
    assert digest([env.step(action) for action in actions]) == digest([other.step(action) for action in actions])


@pytest.mark.parametrize("name", MISSIONS)
def test_seeds_and_resets_without_one_give_other_episodes(name: str) -> None:
    env = MISSIONS[name].build()
    starts = [digest(env.reset(seed=1)), digest(env.reset()), digest(env.reset(seed=2)), digest(env.reset(seed=1))]
    assert len(set(starts)) == 3
    assert starts[0] == starts[3]


@pytest.mark.parametrize("name", MANY)
def test_what_is_done_wrong_is_said(name: str) -> None:
    env = MISSIONS[name].build()
    with pytest.raises(BadInput, match="call reset"):
        env.step({})
    env.reset(seed=0)
    stay = dict.fromkeys(env.agents, 0)
    with pytest.raises(BadInput, match="no action for agent_1"):
        env.step({agent: 0 for agent in env.agents if agent != "agent_1"})
    for wrong in (17, -1, None, "north"):
        with pytest.raises(BadInput, match=r"action .* of agent_0 is not in Discrete"):
            env.step({**stay, "agent_0": wrong})
    env.step(stay)


def test_the_courier_says_what_is_done_wrong() -> None:
    env = make_courier()
    with pytest.raises(BadInput, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(BadInput, match="Discrete"):
        env.step(5)


# -- rules -------------------------------------------------------------------------------------------------


def places(env: Any) -> list[int]:
    """Where the agents of a world of many are."""
    return [agent.place for agent in env.game.agents]


def board(env: Any) -> Any:
    """What a world is on: an agent alone has no game."""
    return env.world if hasattr(env, "world") else env.board


def put(env: Any, spots: list[int]) -> None:
    """Puts the agents of a world of many somewhere else."""
    for agent in env.game.agents:
        if agent.place in env.world["agent"].nonzero()[0]:
            env.world.remove(agent)
    for agent, spot in zip(env.game.agents, spots, strict=True):
        env.world.add(agent, spot)


def check_board(env: Any) -> None:
    """What holds in every world of many, at any time."""
    world, spots = env.world, places(env)
    assert len(set(spots)) == len(env.possible_agents), "two in one cell"
    assert not world["wall"][spots].any(), "an agent in a wall"
    assert sorted(world["agent"].nonzero()[0]) == sorted(spots)
    assert world.cells.max() == 1
    margin = np.ones(world.cells.shape[1], bool)
    margin[world.inside] = False
    assert world["wall"][margin].all()
    assert not world.cells[1:, margin].any()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(agents=st.integers(2, 64), seed=st.integers(0, 2**31), dense=st.booleans())
def test_forage_keeps_its_rules(agents: int, seed: int, dense: bool) -> None:
    env = make_forage(
        agents=agents, steps=25, regrow=6, **({"size": max(6, int(2 * agents**0.5) + 1)} if dense else {})
    )
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    total = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        ripe = int(env.world["ripe"].sum())
        _, rewards, terminated, truncated, infos = env.step(draw(env, rng))
        check_board(env)
        grown = int(env.world["ripe"].sum()) - ripe + sum(rewards.values())
        assert 0 <= grown <= env.game.bushes
        assert env.world["ripe"].sum() + env.world["bare"].sum() == env.game.bushes
        assert not (env.world["ripe"] & env.world["bare"]).any()
        assert not any(terminated.values())
        for agent, reward in rewards.items():
            total[agent] += reward
            assert infos[agent]["collected"] == total[agent]
            assert infos[agent]["moved"] + infos[agent]["blocked"] <= env.world.turn
    assert all(truncated.values())


@settings(max_examples=20, deadline=None, derandomize=True)
@given(agents=st.integers(2, 64), seed=st.integers(0, 2**31))
def test_cleanup_keeps_its_rules(agents: int, seed: int) -> None:
    env = make_cleanup(agents=agents, steps=25)
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    total = dict.fromkeys(env.possible_agents, 0.0)
    while env.agents:
        _, rewards, _, _, infos = env.step(draw(env, rng))
        check_board(env)
        assert not env.world.shape("dirt")[WATER:].any(), "dirt on land"
        assert not env.world.shape("apple")[:-TREES].any(), "apples outside the orchard"
        assert not (env.world["apple"] & ~env.world["soil"] & 1).any()
        assert not env.world["apple"][places(env)].any(), "an apple under somebody's feet"
        for agent, reward in rewards.items():
            total[agent] += reward
            assert infos[agent]["collected"] == total[agent]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(rooms=st.integers(2, 6), seed=st.integers(0, 2**31))
def test_the_courier_keeps_its_rules(rooms: int, seed: int) -> None:
    env = make_courier(rooms=rooms, houses=3, parcels=2, steps=60)
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    assert reachable(env) == int((env.board["wall"][env.board.inside] == 0).sum()), "a room is cut off"
    total, over = 0.0, False
    while not over:
        _, reward, _, over, info = env.step(int(rng.integers(5)))
        total += reward
        assert not env.board["wall"][env.spot]
        assert env.board["house"].sum() == 3
        assert env.board["parcel"].sum() + (env.address > 0) == 2
        assert info["delivered"] == total == info["collected"] - (env.address > 0)


def reachable(env: Any) -> int:
    found, queue = {env.spot}, [env.spot]
    for place in queue:
        for move in env.board.moves:
            if not env.board["wall"][place + move] and place + move not in found:
                found.add(place + move)
                queue.append(place + move)
    return len(found)


def test_a_bush_is_ripe_again_after_its_time() -> None:
    env = make_forage(agents=2, regrow=5)
    env.reset(seed=0)
    place = int(env.world["ripe"].nonzero()[0][0])
    stay = dict.fromkeys(env.agents, 0)
    away = env.world.free().tolist()[:2]
    put(env, [place, away[0]])
    env.step(stay)  # gathers
    put(env, away)
    ripe = []
    for _ in range(6):
        env.step(stay)
        ripe.append(bool(env.world["ripe"][place]))
    assert ripe == [False] * 4 + [True] * 2


def test_who_wants_the_same_berries_gets_them_as_often() -> None:
    """Two stand on either side of a bush; a draw decides, and in the long run it is fair."""
    env = make_forage(agents=2, size=12, bushes=1)
    won = np.zeros(2)
    for seed in range(200):
        env.reset(seed=seed)
        env.world.clear()
        bush = int(env.world.inside[66])
        env.world.fill("ripe", bush)
        put(env, [bush - 1, bush + 1])
        _, rewards, _, _, infos = env.step({"agent_0": 4, "agent_1": 3})
        assert sum(rewards.values()) == 1
        assert sum(info["contested"] for info in infos.values()) == 1
        won += list(rewards.values())
    assert 75 <= won[0] <= 125


def test_nothing_grows_while_the_river_is_dirty_and_cleaning_helps() -> None:
    lazy, busy = make_cleanup(agents=6, steps=100), make_cleanup(agents=6, steps=100)
    for env in (lazy, busy):
        env.reset(seed=0)
        assert env.world["dirt"].sum() / env.world["river"].sum() > CHOKED
        put(env, [int(env.world.inside[env.world.width * 2 + column]) for column in range(1, 12, 2)])
    for _ in range(100):
        lazy.step(dict.fromkeys(lazy.agents, 0))
        *_, infos = busy.step(dict.fromkeys(busy.agents, CLEAN))
    assert lazy.world["apple"].sum() == 0
    assert busy.world["apple"].sum() > 10
    assert sum(info["cleaned"] for info in infos.values()) > 20


# -- what is seen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MANY)
def test_a_window_shows_what_is_around_and_whether_the_last_move_went_through(name: str) -> None:
    env, rng = MISSIONS[name].build(), np.random.default_rng(1)
    env.reset(seed=1)
    reach = env.world.reach
    for _ in range(10):
        before = places(env)
        obs, *_ = env.step(draw(env, rng))
        for number, agent in enumerate(env.possible_agents):
            seen, (row, column) = obs[agent], env.world.cell(places(env)[number])
            assert seen[env.world.names.index("agent"), reach, reach] == (places(env)[number] != before[number])
            for plane, what in zip(seen, env.world.names, strict=True):
                padded = np.pad(env.world.shape(what), reach, constant_values=what == "wall")
                expected = padded[row : row + 2 * reach + 1, column : column + 2 * reach + 1].astype(np.uint8)
                if what == "agent":
                    expected[reach, reach] = plane[reach, reach]
                np.testing.assert_array_equal(plane, expected)


@pytest.mark.parametrize("name", MISSIONS)
def test_observation_spaces_know_their_planes_also_when_they_were_sent(name: str) -> None:
    env = MISSIONS[name].build()
    space = env.observation_space("agent_0") if name in MANY else env.observation_space
    assert pickle.loads(pickle.dumps(space)).planes == copy.deepcopy(space).planes == board(env).names


@pytest.mark.parametrize("name", MISSIONS)
def test_images_and_texts(name: str) -> None:
    mission = MISSIONS[name]
    pictures = {}
    for mode in ("rgb_array", "ansi"):
        env, rng = mission.make(**mission.options, render_mode=mode), np.random.default_rng(0)
        env.reset(seed=0)
        assert mode in env.metadata["render_modes"]
        frames = [env.render()]
        for _ in range(15):
            env.step(draw(env, rng))
        pictures[mode] = [*frames, env.render()]
        shape = board(env).height, board(env).width
    for image in pictures["rgb_array"]:
        assert image.dtype == np.uint8
        assert image.shape[2] == 3
        assert image.shape[0] / shape[0] == image.shape[1] / shape[1] >= 7
        assert len(np.unique(image @ np.array([1, 256, 65536]))) > 50  # colours
    assert (pictures["rgb_array"][0] != pictures["rgb_array"][1]).any()
    for text in pictures["ansi"]:
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")
        assert [len(line) for line in plain] == [2 * shape[1]] * shape[0]


@pytest.mark.parametrize("name", MISSIONS)
def test_rendering_changes_nothing(name: str) -> None:
    mission = MISSIONS[name]
    ends = []
    for looking in (False, True):
        env, rng = mission.make(**mission.options, render_mode="ansi"), np.random.default_rng(0)
        env.reset(seed=0)
        answers = []
        for _ in range(10):
            answers.append(env.step(draw(env, rng)))
            if looking:
                env.render()
        ends.append(digest(answers))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("name", ["forage", "courier"])
def test_to_render_without_a_mode_is_refused(name: str) -> None:
    env = MISSIONS[name].build()
    env.reset(seed=0)
    with pytest.raises(BadInput, match="render_mode="):
        env.render()
