"""The frozen lake moves as Gymnasium's does, its lakes are functions of the seed, and there is always a way."""

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.roles import TextEnv
from paceline.seeds import sequence
from paceline.worlds.text.frozen_lake import (
    INSTRUCTION,
    LEGEND,
    FrozenLake,
    FrozenLakeConfig,
    lake,
    outcomes,
    reachable,
)

LEFT, DOWN, RIGHT, UP = 1, 2, 3, 4
CLASSIC = "SFFF\nFHFH\nFFFH\nHFFG"

seeds = st.integers(0, 10**6)
actions = st.lists(st.integers(1, 4), max_size=40)
rates = st.one_of(st.none(), st.floats(0, 1))


def begun(layout: str = CLASSIC, dynamics: int = 0, **options: Any) -> FrozenLake:
    env = FrozenLake({"is_slippery": False, **options})
    env.reset(0, layout=layout, dynamics=dynamics)
    return env


def info(valid: bool, effective: bool, success: bool) -> dict[str, bool]:
    return {"action_is_effective": effective, "action_is_valid": valid, "success": success}


def lines(tiles: str, columns: int) -> list[str]:
    return [tiles[start : start + columns] for start in range(0, len(tiles), columns)]


# -- as Gymnasium ------------------------------------------------------------------------------------------


def gymnasium_lake(rows: list[str], sure: float | None) -> FrozenLakeEnv:
    slippery = {"is_slippery": False} if sure is None else {"is_slippery": True, "success_rate": sure}
    return FrozenLakeEnv(desc=rows, **slippery)


@given(seeds, st.integers(2, 6), st.floats(0, 1), rates)
@settings(max_examples=40, deadline=None)
def test_every_outcome_of_every_move_is_gymnasiums(seed: int, size: int, p: float, sure: float | None) -> None:
    tiles = lake(size, p, np.random.default_rng(seed))
    table = gymnasium_lake(lines(tiles, size), sure).P
    for spot in range(len(tiles)):
        for direction in range(4):
            assert outcomes(tiles, size, spot, direction, sure) == table[spot][direction]


@pytest.mark.parametrize("rows", [["SFHF", "FFFG"], ["SF", "HF", "FF", "GF", "HH"]])
def test_lakes_need_not_be_square(rows: list[str]) -> None:
    table = gymnasium_lake(rows, 0.6).P
    tiles = "".join(rows)
    for spot, ways in table.items():
        assert [outcomes(tiles, len(rows[0]), spot, way, 0.6) for way in range(4)] == [*ways.values()]


@given(seeds, actions, rates)
@settings(max_examples=40, deadline=None)
def test_the_same_draws_lead_to_the_same_spots_as_in_gymnasium(
    seed: int, played: list[int], sure: float | None
) -> None:
    env = FrozenLake({"is_slippery": sure is not None, "success_rate": 0.8 if sure is None else sure})
    env.reset(0, layout=CLASSIC, dynamics=seed)
    theirs = gymnasium_lake(CLASSIC.split(), sure)
    theirs.reset()
    theirs.np_random = np.random.default_rng(sequence(seed, "frozen_lake", "dynamics"))
    for action in played:
        _, reward, done, _ = env.step(action)
        spot, their_reward, their_done, _, _ = theirs.step(action - 1)
        assert (env.snapshot()[2], reward, done) == (spot, their_reward, their_done)
        if done:
            break


# -- rules -------------------------------------------------------------------------------------------------


def test_it_is_a_text_env_that_says_what_it_is_about() -> None:
    env = FrozenLake()
    assert isinstance(env, TextEnv)
    assert env.action_lookup == {1: "Left", 2: "Down", 3: "Right", 4: "Up"}
    assert "<answer>" in INSTRUCTION
    assert "".join(LEGEND) == "P_OGX√"
    assert env.config.legend == LEGEND


def test_a_walk_to_the_goal() -> None:
    env = begun()
    way = [DOWN, "down", "Right", "RIGHT ", np.int64(DOWN), RIGHT]
    played = [env.step(action) for action in way]
    assert played[0] == ("____\nPO_O\n___O\nO__G", 0.0, False, info(True, True, False))
    assert played[-1] == ("____\n_O_O\n___O\nO__√", 1.0, True, info(True, True, True))
    assert env.step(LEFT) == ("____\n_O_O\n___O\nO__√", 0.0, True, info(False, False, True))


def test_a_hole_ends_the_walk_without_success() -> None:
    env = begun()
    env.step(RIGHT)
    assert env.step(DOWN) == ("____\n_X_O\n___O\nO__G", 0.0, True, info(True, True, False))
    assert env.step(UP) == ("____\n_X_O\n___O\nO__G", 0.0, True, info(False, False, False))


def test_the_edge_of_the_lake_holds() -> None:
    assert begun().step(LEFT)[1:] == (0.0, False, info(True, False, False))


@pytest.mark.parametrize("said", [0, 5, -1, 10**30, "", "jump", "L" * 10**6, "\0\x1b[2J", None, 1.5, [1]])
def test_an_unknown_action_does_nothing(said: Any) -> None:
    env = begun(is_slippery=True)
    before = env.snapshot()
    assert env.step(said) == (env.render(), 0.0, False, info(False, False, False))
    assert env.snapshot() == before


@given(seeds, actions, actions)
@settings(max_examples=30, deadline=None)
def test_a_snapshot_goes_on_as_the_episode_would_have(seed: int, before: list[int], after: list[int]) -> None:
    env, other = FrozenLake({"size": 6}), FrozenLake({"size": 6})
    env.reset(seed)
    for action in before:
        env.step(action)
    other.restore(pickle.loads(pickle.dumps(env.snapshot())))
    assert [other.step(action) for action in after] == [env.step(action) for action in after]


def test_slips_follow_from_dynamics_and_the_lake_from_the_seed() -> None:
    env = FrozenLake({"size": 8, "p": 1, "success_rate": 0.4})
    played = {}
    for dynamics in (None, 4, 5):
        first = env.reset(4, dynamics=dynamics)
        played[dynamics] = [first, *(env.step(RIGHT)[0] for _ in range(8))]
    assert played[None] == played[4] != played[5]
    assert played[4][0] == played[5][0]


def test_slips_are_as_frequent_as_the_settings_say() -> None:
    env = FrozenLake({"success_rate": 0.8})
    row = "F" * 20
    went = []
    for dynamics in range(400):
        env.reset(0, layout=f"{row}\nFFFFFFFFFFSFFFFFFFFF\n{'F' * 19}G", dynamics=dynamics)
        env.step(RIGHT)
        went.append(divmod(env.snapshot()[2], 20))
    shares = [went.count(spot) / len(went) for spot in ((1, 11), (0, 10), (2, 10))]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.06)


# -- lakes -------------------------------------------------------------------------------------------------


@given(seeds, st.integers(2, 12), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_there_is_always_a_way_to_the_goal(seed: int, size: int, p: float) -> None:
    tiles = lake(size, p, np.random.default_rng(seed))
    assert len(tiles) == size * size
    assert tiles.count("S") == tiles.count("G") == 1
    assert tiles.index("G") in reachable(tiles, size, tiles.index("S"))


def test_where_no_try_succeeds_a_way_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.worlds.text.frozen_lake.TRIES", 1)
    for seed in range(30):
        tiles = lake(9, 0.0, np.random.default_rng(seed))
        (row, column), (to_row, to_column) = divmod(tiles.index("S"), 9), divmod(tiles.index("G"), 9)
        assert tiles.index("G") in reachable(tiles, 9, tiles.index("S"))
        assert tiles.count("F") == abs(row - to_row) + abs(column - to_column) - 1


def test_start_and_goal_are_anywhere() -> None:
    made = [FrozenLake().reset(seed) for seed in range(60)]
    assert len(set(made)) >= 55
    assert len({state.index("P") for state in made}) == len({state.index("G") for state in made}) == 16


def test_a_map_seed_holds_the_lake_still() -> None:
    env = FrozenLake({"map_seed": 0, "size": 6})
    assert env.reset(5) == env.reset(6, "val") == FrozenLake({"size": 6}).reset(0)


def test_a_seed_is_the_same_walk_in_every_process() -> None:
    program = (
        "from paceline.worlds.text.frozen_lake import FrozenLake\n"
        "env = FrozenLake({'size': 6, 'p': 0.5})\n"
        "for seed in range(6):\n"
        "    print(env.reset(seed))\n"
        "    for action in (1, 2, 3, 4): print(env.step(action)[0])"
    )
    env = FrozenLake({"size": 6, "p": 0.5})
    expected = [state for seed in range(6) for state in (env.reset(seed), *(env.step(way)[0] for way in (1, 2, 3, 4)))]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, check=True, env=environment)
    assert run.stdout.decode().strip() == "\n".join(expected)


# -- views -------------------------------------------------------------------------------------------------


def test_coordinates_name_everything() -> None:
    env = begun(observation_format="coord")
    assert str(env.render()).split("\n") == [
        "The lake has 4 rows and 4 columns; (0, 0) is at the top left.",
        "Start: (0, 0)",
        "Goal: (3, 3)",
        "Player: (0, 0)",
        "Holes: (1, 1), (1, 3), (2, 3), (3, 0)",
    ]
    assert env.step(RIGHT)[0] == env.render("coord")
    assert "Player: (0, 1)" in str(env.render())
    env.step(DOWN)
    assert "Player in a hole: (1, 1)" in str(env.render("grid_coord"))
    assert str(env.render("grid_coord")).endswith("\nGrid:\n____\n_X_O\n___O\nO__G")


def test_other_symbols_and_names_are_used_throughout() -> None:
    names = {1: "west", 2: "south", 3: "east", 4: "north"}
    env = begun("SF\nHG", grid_lookup=dict(enumerate("@.o*x!")), action_lookup=names)
    assert env.render() == "@.\no*"
    assert env.config.legend["!"] == "player on goal"
    assert env.step("East")[0] == ".@\no*"


def test_a_picture_shows_every_kind_of_cell_differently() -> None:
    env = begun("SF\nHG", render_mode="rgb_array")
    image = env.render()
    assert isinstance(image, np.ndarray)
    tiles = image.reshape(2, image.shape[0] // 2, 2, -1, 3).swapaxes(1, 2)
    assert len({tiles[row, column].tobytes() for row in range(2) for column in range(2)}) == 4
    state, *_ = env.step(RIGHT)
    assert (state != image).any()
    assert str(env.render("ansi")).count("\x1b[0m") == 2


# -- users' mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"slippery": True}, "is_slippery"),
        ({"size": 1}, "size"),
        ({"size": 51}, "size"),
        ({"p": 1.1}, "p is 1.1"),
        ({"success_rate": -0.1}, "success_rate"),
        ({"render_mode": "human"}, "render_mode"),
        ({"grid_lookup": dict.fromkeys(range(6), "#")}, "grid_lookup"),
        ({"action_lookup": {1: "Left"}}, "action_lookup"),
    ],
)
def test_wrong_settings_are_refused_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        FrozenLake(options)


@pytest.mark.parametrize(
    ("layout", "told"),
    [("", "lines"), ("SF\nG", "lines"), ("SX\nFG", "SFHG"), ("SS\nFG", "one S"), ("SF\nFF", "a G"), (7, "lines")],
)
def test_what_is_no_lake_is_refused(layout: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        FrozenLake().reset(0, layout=layout)


def test_a_step_before_the_reset_and_an_unknown_view_are_refused() -> None:
    with pytest.raises(BadInput, match="reset"):
        FrozenLake().step(UP)
    with pytest.raises(BadInput, match="render mode 'human'"):
        begun().render("human")


def test_settings_can_be_given_as_such() -> None:
    config = FrozenLakeConfig(size=5)
    env = FrozenLake(config)
    assert env.config is config
    assert len(str(env.reset(1)).split("\n")) == 5
    env.close()
