"""The solvers of the grid worlds solve what can be solved, from what is shown, and chance does not."""

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.policies.solvers.frozen_lake import FrozenLakeSolver, best_moves
from paceline.policies.solvers.sokoban import SokobanSolver, solve
from paceline.types import Turn
from paceline.worlds.text.frozen_lake import FrozenLake, outcomes
from paceline.worlds.text.sokoban import Sokoban, SokobanConfig, views

BUDGET = 10
"""How many actions a trajectory has where these worlds are usually played."""


def turn(state: Any, left: int = 100) -> Turn:
    return Turn(env_id=0, group_id=0, tag="Grid", env_type="grid", number=0, state=state, actions_left=left)


def played(env: Any, solver: Any, seed: int, most: int) -> bool:
    """Whether a solver succeeds with so many actions, asked again whenever its answer has been carried out."""
    state = env.reset(seed)
    left = most
    while left and (answer := solver.actions(turn(state, left))):
        for action in answer[:left]:
            state, _, done, info = env.step(action)
            left -= 1
            if done:
                return bool(info["success"])
    return False


def by_chance(env: Any, seed: int, most: int) -> bool:
    rng = np.random.default_rng(seed)
    env.reset(seed)
    for action in rng.integers(1, 5, most).tolist():
        _, _, done, info = env.step(action)
        if done:
            return bool(info["success"])
    return False


# -- Sokoban -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", ["grid", "coord", "grid_coord"])
def test_every_small_room_is_solved(shown: str) -> None:
    env = Sokoban({"num_boxes": 1, "observation_format": shown})
    assert all(played(env, SokobanSolver(), seed, 100) for seed in range(60))


def test_within_the_usual_budget_the_solver_is_far_above_chance() -> None:
    env = Sokoban({"num_boxes": 1})
    solved = sum(played(env, SokobanSolver(), seed, BUDGET) for seed in range(60))
    lucky = sum(by_chance(env, seed, BUDGET) for seed in range(60))
    assert solved >= 57
    assert lucky <= 20


@pytest.mark.parametrize(
    ("options", "rooms"),
    [
        ({"num_boxes": 2}, 30),
        ({"num_boxes": 3}, 30),
        ({"dim_room": (8, 8), "num_boxes": 2, "search_depth": 10}, 30),
        ({"dim_room": (8, 8), "num_boxes": 3}, 10),
        ({"dim_room": (10, 7), "num_boxes": 4}, 5),
    ],
)
def test_more_boxes_are_solved_too(options: dict[str, Any], rooms: int) -> None:
    env = Sokoban(options)
    assert all(played(env, SokobanSolver(), seed, 100) for seed in range(rooms))


def fewest(cells: list[int], columns: int) -> int:
    """How many moves a room needs at least, by plain breadth-first search over moves."""
    env = Sokoban({"max_steps": 10**6})
    start = bytes(cells), columns, 0
    far = {start[0]: 0}
    queue = deque([start[0]])
    while queue:
        room = queue.popleft()
        for action in (1, 2, 3, 4):
            env.restore((room, columns, 0))
            _, _, done, _ = env.step(action)
            after = env.snapshot()[0]
            if done:
                return far[room] + 1
            if after not in far:
                far[after] = far[room] + 1
                queue.append(after)
    return 0


@pytest.mark.parametrize("boxes", [1, 2])
def test_it_finds_the_fewest_moves(boxes: int) -> None:
    config = SokobanConfig(dim_room=(5, 6), num_boxes=boxes)
    for seed in range(12):
        cells, columns = views.read(Sokoban.layout(config, seed))
        assert len(solve(cells, columns)) == fewest(cells, columns) > 0


@pytest.mark.parametrize(
    "room",
    [
        "######\n#P√__#\n######",  # solved
        "######\n#X_PO#\n######",  # a box in a corner
        "#######\n#_____#\n#PXX__#\n#_XX__#\n#OOOO_#\n#######",  # four boxes in a square
        "#######\n#_P#XO#\n#######",  # out of reach
    ],
)
def test_there_is_nothing_to_do_where_nothing_can_be_done(room: str) -> None:
    assert SokobanSolver().actions(turn(room)) == []


def test_effort_is_bounded_and_any_solution_will_do_then() -> None:
    config = SokobanConfig(dim_room=(10, 10), num_boxes=4)
    cells, columns = views.read(Sokoban.layout(config, 0))
    best, quick = solve(cells, columns), solve(cells, columns, effort=1000)
    assert len(quick) >= len(best) > 0
    assert solve(cells, columns, effort=1) == []


def test_other_symbols_and_names_are_understood() -> None:
    lookup = {0: " W ", 1: " . ", 2: " G ", 3: " C ", 4: " B ", 5: " A ", 6: " @ "}
    names = {1: "north", 2: "south", 3: "west", 4: "east"}
    env = Sokoban({"grid_lookup": lookup, "action_lookup": names})
    state = env.reset(0, layout="######\n#PXO_#\n######")
    assert SokobanSolver(lookup, names).actions(turn(state)) == ["east"]


# -- frozen lake -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"size": 8, "p": 0.7}, {"size": 6, "p": 0.02}, {"observation_format": "coord"}]
)
def test_ice_that_is_not_slippery_is_always_crossed(options: dict[str, Any]) -> None:
    env = FrozenLake({"is_slippery": False, **options})
    assert all(played(env, FrozenLakeSolver(is_slippery=False), seed, 60) for seed in range(60))


@pytest.mark.parametrize("shown", ["grid", "grid_coord"])
def test_slippery_ice_is_mostly_crossed_and_chance_drowns(shown: str) -> None:
    env = FrozenLake({"size": 6, "p": 0.8, "observation_format": shown})
    crossed = sum(played(env, FrozenLakeSolver(), seed, 100) for seed in range(60))
    lucky = sum(by_chance(env, seed, 100) for seed in range(60))
    assert crossed >= 50
    assert lucky <= 15


def test_the_usual_lake_within_the_usual_budget() -> None:
    env = FrozenLake()
    crossed = sum(played(env, FrozenLakeSolver(), seed, BUDGET) for seed in range(60))
    lucky = sum(by_chance(env, seed, BUDGET) for seed in range(60))
    assert crossed >= 50
    assert lucky <= 30


def test_it_keeps_away_from_holes_where_it_can() -> None:
    assert FrozenLakeSolver(is_slippery=False).actions(turn("_____\nP___G\nOOOOO")) == ["Right"] * 4
    assert FrozenLakeSolver().actions(turn("_____\nP___G\nOOOOO"))[0] == "Up"


def test_it_says_more_than_one_move_only_if_nothing_it_could_see_would_change_them() -> None:
    tiles, columns = "FFFFG", 5
    best = best_moves(tiles, columns, 0.8)
    assert FrozenLakeSolver().actions(turn("P___G", 9)) == ["Right"] * 9  # above and below is the edge
    assert best[:4].argmax(1).tolist() == [2] * 4
    assert len(FrozenLakeSolver().actions(turn("P__\n_O_\n__G", 9))) == 1


@given(st.text("FH", min_size=9, max_size=9), st.floats(0.1, 1))
@settings(max_examples=25, deadline=None)
def test_no_other_first_move_is_better(tiles: str, sure: float) -> None:
    """One sweep of the values of the policy: whatever it prefers is at least as good as everything else."""
    tiles = tiles[:8] + "G"
    best = best_moves(tiles, 3, sure)
    values = np.zeros(9)
    for _ in range(3000):
        worth = np.array([[_worth(tiles, spot, way, sure, values) for way in range(4)] for spot in range(9)])
        before, values = values, worth.max(1)
        if abs(values - before).max() < 1e-12:
            break
    assert (worth[best] >= np.repeat(worth.max(1), best.sum(1)) - 1e-6).all()
    assert (best.any(1) == (worth.max(1) > 1e-6)).all()


def _worth(tiles: str, spot: int, way: int, sure: float, values: Any) -> float:
    ends = outcomes(tiles, 3, spot, way, sure)
    return sum(chance * (reward + 0.99 * (0 if over else values[after])) for chance, after, reward, over in ends)


@pytest.mark.parametrize("state", ["X__\n__G", "__√\n___"])
def test_a_walk_that_is_over_needs_no_moves(state: str) -> None:
    assert FrozenLakeSolver().actions(turn(state)) == []
    assert FrozenLakeSolver(is_slippery=False).actions(turn(state)) == []


@pytest.mark.parametrize("slippery", [False, True])
def test_a_goal_out_of_reach_needs_none_either(slippery: bool) -> None:
    assert FrozenLakeSolver(slippery).actions(turn("PO_\nO_G")) == []


# -- users' mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [SokobanSolver(), FrozenLakeSolver()])
@pytest.mark.parametrize(
    "state",
    [
        "",
        "hello",
        "#P\n",
        "_" * 10**6,
        "(0, 0)" * 10**5,
        "The board has 3 rows and 3 columns\nWalls: (7, 7)",
        "The lake has 3 rows and 3 columns\nHoles: (7, 7)",
        "The lake has 0 rows and 0 columns",
        "The board has 0 rows and 0 columns",
        "__\n__",
        "PP\nPP",
    ],
)
def test_what_shows_no_world_is_refused(solver: Any, state: str) -> None:
    with pytest.raises(BadInput):
        solver.actions(turn(state))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(BadInput, match="success_rate"):
        FrozenLakeSolver(success_rate=2)
    with pytest.raises(BadInput, match="grid_lookup"):
        SokobanSolver({0: "#"})
