"""2048: tiles slide and merge by the rules, begin alike in a group, and differ later by the dynamics."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.worlds.text.game2048 import DOWN, GOAL, LEFT, RIGHT, UP, Game2048, Grid, slide

TILES = st.sampled_from([0, 0, 2, 4, 8])
GRIDS = st.integers(2, 5).flatmap(
    lambda size: st.lists(st.lists(TILES, min_size=size, max_size=size), min_size=size, max_size=size)
)


def begun(seed: int = 0, dynamics: int | None = None, **config: Any) -> Game2048:
    env = Game2048(config)
    env.reset(seed, dynamics=dynamics)
    return env


def put(env: Game2048, grid: Grid) -> None:
    """Sets a grid of our own."""
    env.restore((grid, 0, env.snapshot()[2]))


@pytest.mark.parametrize(
    ("line", "slid", "merged"),
    [
        ([0, 0, 0, 2], [2, 0, 0, 0], 0),
        ([2, 0, 2, 0], [4, 0, 0, 0], 4),
        ([2, 2, 2, 0], [4, 2, 0, 0], 4),
        ([2, 2, 2, 2], [4, 4, 0, 0], 8),
        ([4, 2, 2, 0], [4, 4, 0, 0], 4),
        ([2, 2, 4, 0], [4, 4, 0, 0], 4),
        ([2, 4, 2, 4], [2, 4, 2, 4], 0),
    ],
)
def test_a_line_slides_and_each_tile_merges_once(line: list[int], slid: list[int], merged: int) -> None:
    rest = [[0] * 4 for _ in range(3)]
    assert slide([line, *rest], LEFT) == ([slid, *rest], merged)
    assert slide([line[::-1], *rest], RIGHT) == ([slid[::-1], *rest], merged)
    column = [[tile, 0, 0, 0] for tile in line]
    assert slide(column, UP) == ([[tile, 0, 0, 0] for tile in slid], merged)
    assert slide(column[::-1], DOWN) == ([[tile, 0, 0, 0] for tile in slid[::-1]], merged)


@given(GRIDS, st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_a_move_keeps_the_sum_and_leaves_no_gap(grid: Grid, move: int) -> None:
    before = [row.copy() for row in grid]
    slid, merged = slide(grid, move)
    assert grid == before
    assert np.sum(slid) == np.sum(grid)
    assert merged % 4 == 0
    turned = np.rot90(slid, {UP: 1, RIGHT: 2, DOWN: 3, LEFT: 0}[move])
    assert all(not row[place] or row[place - 1] for row in turned for place in range(1, len(row)))


def test_a_group_begins_alike_and_goes_its_own_ways() -> None:
    assert len({begun(5, member).render() for member in range(8)}) == 1
    later = set()
    for member in range(8):
        env = begun(5, member)
        for move in (0, 1, 2, 3):
            env.step(move)
        later.add(env.render())
    assert len(later) > 1
    assert sorted(tile for row in begun(5).grid for tile in row if tile)[0] in (2, 4)
    assert sum(tile > 0 for row in begun(5).grid for tile in row) == 2


def test_rewards_are_what_was_merged() -> None:
    env, plain = begun(1), begun(1, use_log_reward=False)
    for game in (env, plain):
        put(game, [[2, 2, 4, 4], [0] * 4, [0] * 4, [0] * 4])
    state, reward, done, info = env.step("left")
    assert reward == pytest.approx(0.1 * math.log2(13))
    assert not done
    assert info["action_is_valid"]
    assert info["action_is_effective"]
    assert (info["raw_reward"], info["score"], info["max_tile"], info["success"]) == (12.0, 12, 8, False)
    assert "Score: 12" in state
    assert plain.step(LEFT)[1] == 12.0


def test_a_move_that_changes_nothing_is_lost() -> None:
    env, plain = begun(1), begun(1, use_log_reward=False)
    for game, reward in ((env, 0.0), (plain, -0.1)):
        put(game, [[2, 4, 0, 0], [0] * 4, [0] * 4, [0] * 4])
        before, snapshot = game.render(), game.snapshot()
        state, got, done, info = game.step("Left")
        assert (state, got, done) == (before, reward, False)
        assert (info["action_is_valid"], info["action_is_effective"], info["raw_reward"]) == (False, False, -0.1)
        assert game.snapshot() == snapshot
        assert game.valid_actions() == [RIGHT, DOWN]
        assert "Possible moves: Right, Down." in before


@pytest.mark.parametrize("action", [4, -1, 0.5, "", "Sideways", "x" * 1_000_000, "\x00", None, [1]])
def test_an_unknown_move_changes_nothing(action: Any) -> None:
    env = begun(3)
    before = env.snapshot()
    _, reward, done, info = env.step(action)
    assert (reward, done, info["action_is_valid"]) == (0.0, False, False)
    assert env.snapshot() == before


@pytest.mark.parametrize("seed", range(4))
def test_a_game_ends_when_no_move_is_left(seed: int) -> None:
    env = begun(seed, size=3)
    rng = np.random.default_rng(seed)
    done, moves = False, 0
    while not done:
        state, _, done, info = env.step(int(rng.choice(env.valid_actions())))
        moves += 1
        assert info["max_tile"] == max(map(max, env.grid))
    assert moves > 5
    assert env.valid_actions() == []
    assert "Possible moves: none." in state
    again = env.step("Up")
    assert again == (state, 0.0, True, {"action_is_valid": False, "action_is_effective": False, "success": False})


def test_the_goal_is_a_success() -> None:
    env = begun(0, size=2)
    put(env, [[GOAL // 2, GOAL // 2], [2, 8]])
    assert env.step("Left")[3]["success"]


def test_a_snapshot_goes_on_as_it_would_have() -> None:
    env = begun(8, 3)
    env.step(env.valid_actions()[0])
    saved = pickle.loads(pickle.dumps(env.snapshot()))
    rest = [env.step(move % 4) for move in range(30)]
    other = Game2048()
    other.restore(saved)
    assert [other.step(move % 4) for move in range(30)] == rest
    env.restore(saved)
    assert [env.step(move % 4) for move in range(30)] == rest


def test_settings_are_checked() -> None:
    env = begun(0, action_lookup={0: "U", 1: "R", 2: "D", 3: "L"})
    assert env.action_lookup[2] == "D"
    assert begun(0, action_lookup=None).action_lookup[0] == "Up"
    for wrong in ({"action_lookup": {0: "Up"}}, {"action_lookup": dict.fromkeys(range(4), "Up")}, {"size": 1}):
        with pytest.raises(BadInput, match=r"game_2048\."):
            Game2048(wrong)
    with pytest.raises(BadInput, match="reset"):
        Game2048().step(0)


def test_the_share_of_twos_is_as_set() -> None:
    tiles = [tile for seed in range(20) for row in begun(seed, two_prob=0.0).grid for tile in row if tile]
    assert tiles == [4] * 40
