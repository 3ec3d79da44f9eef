"""The treasure hunt keeps the rules that its module states: conflicts, bumps, gems that come back, windows."""

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import digest
from paceline.worlds import make_treasure_hunt
from paceline.worlds.treasure_hunt import BUMP, GEM

STAY, NORTH, SOUTH, WEST, EAST = range(5)
Cell = tuple[int, int]


def placed(cells: list[Cell], gems: tuple[Cell, ...] = (), seed: int = 0, size: int = 9) -> Any:
    """A hunt in which agents and gems are where a test wants them."""
    env = make_treasure_hunt(agents=len(cells), size=size, gems=max(1, len(gems)))
    env.reset(seed=seed)
    env.world.clear()
    for agent, cell in zip(env.game.agents, cells, strict=True):
        env.world.add(agent, place(env, cell))
    env.world.fill("gem", [place(env, cell) for cell in gems])
    return env


def place(env: Any, cell: Cell) -> int:
    return int(env.world.inside[cell[0] * env.world.width + cell[1]])


def cells(env: Any) -> list[Cell]:
    return list(env.game.cells())


def step(env: Any, *choices: int) -> tuple[list[int], list[float]]:
    """Steps; gives the order in which moves were made, and the rewards."""
    order = copy.deepcopy(env.game.rng).permutation(len(choices)).tolist()
    rewards = env.step(dict(zip(env.agents, choices, strict=True)))[1]
    return order, list(rewards.values())


def draw(env: Any, rng: np.random.Generator) -> dict[str, int]:
    return dict(zip(env.agents, rng.integers(5, size=len(env.agents)).tolist(), strict=True))


# -- moves and conflicts -----------------------------------------------------------------------------------


def test_the_first_in_the_order_gets_a_cell_that_two_want() -> None:
    """The order is drawn, so each agent wins about as often; the loser stays and pays."""
    wins = [0, 0]
    for seed in range(100):
        env = placed([(4, 3), (4, 5)], gems=((4, 4),), seed=seed)
        order, rewards = step(env, EAST, WEST)
        winner, loser = order
        assert cells(env)[winner] == (4, 4)
        assert cells(env)[loser] == [(4, 3), (4, 5)][loser]
        assert (rewards[winner], rewards[loser]) == (GEM, BUMP)
        wins[winner] += 1
    assert min(wins) > 30


@pytest.mark.parametrize("seed", range(8))
def test_two_that_want_to_change_places_are_both_blocked(seed: int) -> None:
    env = placed([(4, 4), (4, 5)], seed=seed)
    assert step(env, EAST, WEST)[1] == [BUMP, BUMP]
    assert cells(env) == [(4, 4), (4, 5)]


@pytest.mark.parametrize("seed", range(8))
def test_a_ring_of_agents_does_not_turn(seed: int) -> None:
    ring = [(4, 4), (4, 5), (5, 5), (5, 4)]
    env = placed(ring, seed=seed)
    assert step(env, EAST, SOUTH, WEST, NORTH)[1] == [BUMP] * 4
    assert cells(env) == ring


def test_a_cell_that_is_being_left_is_free_for_those_later_in_the_order() -> None:
    followed = set()
    for seed in range(30):
        env = placed([(4, 4), (4, 5)], seed=seed)
        order, rewards = step(env, EAST, EAST)
        follows = order == [1, 0]
        assert cells(env) == [(4, 5 if follows else 4), (4, 6)]
        assert rewards == [0.0 if follows else BUMP, 0.0]
        followed.add(follows)
    assert followed == {True, False}


def test_walls_and_agents_that_stay_cost_a_bump_and_staying_costs_nothing() -> None:
    env = placed([(0, 0), (0, 1), (8, 8)])
    for choices in ((NORTH, STAY, SOUTH), (WEST, STAY, EAST), (EAST, STAY, STAY)):
        rewards = step(env, *choices)[1]
        assert rewards == [BUMP if choice else 0.0 for choice in choices]
        assert cells(env) == [(0, 0), (0, 1), (8, 8)]
    assert [agent.counts["blocked"] for agent in env.game.agents] == [3, 0, 2]


def test_the_order_of_the_dict_of_actions_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    envs = make_treasure_hunt(agents=30, size=8), make_treasure_hunt(agents=30, size=8)
    for env in envs:
        env.reset(seed=3)
    for _ in range(20):
        actions = draw(envs[0], rng)
        backward = dict(reversed(actions.items()))
        assert digest(envs[0].step(actions)) == digest(envs[1].step(backward))


# -- gems --------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, derandomize=True)
@given(agents=st.integers(1, 64), seed=st.integers(0, 2**31), spare=st.integers(0, 12), packed=st.booleans())
def test_gems_are_conserved(agents: int, seed: int, spare: int, packed: bool) -> None:
    """Each that is taken comes back in the same step, on a cell that was free; the others stay."""
    size = max(3, int((2 * agents) ** 0.5) + 1) + spare
    env = make_treasure_hunt(agents=agents, size=size, steps=15, **({"gems": size**2 - agents} if packed else {}))
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    total = np.zeros(agents)
    while env.agents:
        before = env.world["gem"].copy()
        _, rewards, _, _, infos = env.step(draw(env, rng))
        gem, taken = env.world["gem"], [who for who, reward in enumerate(rewards.values()) if reward == GEM]
        assert gem.sum() == env.game.gems
        assert not (gem & (env.world["agent"] | env.world["wall"])).any()
        assert set((before & ~gem).nonzero()[0]) == {env.game.agents[who].place for who in taken}
        assert (gem & ~before).sum() == len(taken)
        total += list(rewards.values())
        collected, blocked = (np.array([info[name] for info in infos.values()]) for name in ("collected", "blocked"))
        np.testing.assert_allclose(total, GEM * collected + BUMP * blocked, atol=1e-9)


def test_gems_come_back_anywhere() -> None:
    """A lone gem is taken in many episodes: it comes back in each quarter of the grid."""
    found = []
    for seed in range(60):
        env = placed([(4, 3)], gems=((4, 4),), seed=seed)
        step(env, EAST)
        found.append(env.world.cell(int(env.world["gem"].nonzero()[0][0])))
    assert {(row > 4, column > 4) for row, column in found} == {(a, b) for a in (True, False) for b in (True, False)}
    assert len(set(found)) > 30


def test_what_agents_do_does_not_shift_the_draws_that_follow() -> None:
    idle, busy = make_treasure_hunt(), make_treasure_hunt()
    rng = np.random.default_rng(1)
    idle.reset(seed=5)
    busy.reset(seed=5)
    for _ in range(30):
        idle.step(dict.fromkeys(idle.agents, STAY))
        busy.step(draw(busy, rng))
    assert sum(agent.counts["collected"] for agent in busy.game.agents) > 0
    assert idle.game.rng.bit_generator.state == busy.game.rng.bit_generator.state


def test_there_are_forty_gems_by_default_and_more_on_a_larger_grid() -> None:
    assert [make_treasure_hunt(size=size).game.gems for size in (3, 10, 21, 42)] == [1, 9, 40, 160]


# -- the whole ---------------------------------------------------------------------------------------------


def played(seed: int, **options: Any) -> str:
    env, rng = make_treasure_hunt(**options), np.random.default_rng(0)
    answers: list[Any] = [env.reset(seed=seed)]
    while env.agents:
        answers.append(env.step(draw(env, rng)))
    return digest(answers)


def test_an_episode_is_a_function_of_seed_and_actions() -> None:
    assert played(1) == played(1)
    assert played(1) != played(2)


@pytest.mark.parametrize(("agents", "view"), [(1, 4), (5, 1), (12, 4), (3, 16)])
def test_windows_are_crops_of_the_board(agents: int, view: int) -> None:
    """What is built together is what each agent would cut out alone; its own cell says whether it has moved."""
    env, rng = make_treasure_hunt(agents=agents, view=view, size=8), np.random.default_rng(1)
    env.reset(seed=1)
    for _ in range(10):
        before = cells(env)
        seen = env.step(draw(env, rng))[0]
        names = env.world.names
        whole = np.stack([np.pad(env.world.shape(name), view, constant_values=name == "wall") for name in names])
        for agent, (row, column), was in zip(seen, cells(env), before, strict=True):
            crop = whole[:, row : row + 2 * view + 1, column : column + 2 * view + 1].astype(np.uint8)
            crop[names.index("agent"), view, view] = (row, column) != was
            np.testing.assert_array_equal(seen[agent], crop)
            assert env.observation_space(agent).contains(seen[agent])
