"""Sokoban keeps its rules, its rooms are functions of the seed and can be solved, and its views say the same."""

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.policies.solvers.sokoban import solve
from paceline.roles import TextEnv
from paceline.worlds.text.sokoban import INSTRUCTION, LEGEND, Sokoban, SokobanConfig, rooms, views
from paceline.worlds.text.sokoban.views import BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET, TARGET

UP, DOWN, LEFT, RIGHT = 1, 2, 3, 4
ONE_PUSH = "######\n#PXO_#\n######"
CORRIDOR = "#######\n#_P_X_#\n#__O__#\n#_____#\n#######"

seeds = st.integers(0, 10**6)
actions = st.lists(st.integers(1, 4), max_size=60)


@st.composite
def configs(draw: st.DrawFn) -> SokobanConfig:
    """Settings of any size that is allowed."""
    rows, columns = draw(st.integers(3, 10)), draw(st.integers(3, 10))
    assume(max(rows, columns) >= 5)
    boxes = draw(st.integers(1, min((rows - 2) * (columns - 2) // 3, 4)))
    return SokobanConfig(dim_room=(rows, columns), num_boxes=boxes, search_depth=draw(st.integers(1, 40)))


def begun(room: str, **options: Any) -> Sokoban:
    env = Sokoban(options)
    env.reset(0, layout=room)
    return env


def count(env: Sokoban, *kinds: int) -> int:
    cells, _ = views.read(str(env.render("grid")))
    return sum(cell in kinds for cell in cells)


def info(valid: bool, effective: bool, success: bool) -> dict[str, bool]:
    return {"action_is_effective": effective, "action_is_valid": valid, "success": success}


# -- rules -------------------------------------------------------------------------------------------------


def test_it_is_a_text_env_that_says_what_it_is_about() -> None:
    env = Sokoban()
    assert isinstance(env, TextEnv)
    assert env.action_lookup == {1: "Up", 2: "Down", 3: "Left", 4: "Right"}
    assert "<answer>" in INSTRUCTION
    assert "".join(LEGEND) == "#_O√XPS"
    assert env.config.legend == LEGEND


def test_a_box_on_its_target_solves_the_room() -> None:
    assert begun(ONE_PUSH).step(RIGHT) == ("######\n#_P√_#\n######", -0.1 + 1 + 10, True, info(True, True, True))


def test_a_box_on_and_off_a_target_is_paid_and_taken_back() -> None:
    env = begun("#######\n#PXO__#\n#_XO__#\n#######")
    rewards = [env.step(action)[1] for action in (RIGHT, RIGHT, LEFT)]
    assert rewards == [-0.1 + 1, -0.1 - 1, -0.1]
    assert env.render() == "#######\n#_POX_#\n#_XO__#\n#######"


def test_the_player_on_a_target_is_shown_and_leaves_it_behind() -> None:
    env = begun(CORRIDOR)
    shown = [env.step(action)[0] for action in (DOWN, RIGHT, LEFT)]
    assert [state.split("\n")[2] for state in shown] == ["#_PO__#", "#__S__#", "#_PO__#"]


@pytest.mark.parametrize(
    ("room", "action"),
    [
        ("######\n#P_XO#\n######", LEFT),  # a wall
        ("########\n#PXX_OO#\n########", RIGHT),  # a second box behind the first
        ("######\n#O_PX#\n######", RIGHT),  # a wall behind the box
    ],
)
def test_walls_and_blocked_boxes_stop_the_player_at_the_price_of_a_step(room: str, action: int) -> None:
    env = begun(room)
    assert env.step(action) == (room, -0.1, False, info(True, False, False))


def test_steps_run_out_without_success() -> None:
    env = begun(ONE_PUSH, max_steps=2)
    assert env.step(LEFT)[2] is False
    assert env.step(LEFT)[1:] == (-0.1, True, info(True, False, False))


def test_the_last_step_may_be_the_solution() -> None:
    assert begun(ONE_PUSH, max_steps=1).step(RIGHT)[2:] == (True, info(True, True, True))


@pytest.mark.parametrize(("action", "solved"), [(RIGHT, True), (LEFT, False)])
def test_after_the_end_nothing_changes(action: int, solved: bool) -> None:
    env = begun(ONE_PUSH, max_steps=1)
    last = env.step(action)[0]
    for further in (LEFT, RIGHT, "nonsense"):
        assert env.step(further) == (last, 0.0, True, info(False, False, solved))


@pytest.mark.parametrize("said", ["Right", " right\n", "RIGHT", np.int64(4)])
def test_actions_have_names_and_numbers(said: Any) -> None:
    assert begun(ONE_PUSH).step(said)[3]["success"]


@pytest.mark.parametrize("said", [0, 5, -1, 10**30, "", "jump", "R" * 10**6, "\0\x1b[2J", None, 1.5, [1]])
def test_an_unknown_action_costs_a_step_and_does_nothing(said: Any) -> None:
    env = begun(ONE_PUSH, max_steps=2)
    assert env.step(said) == (ONE_PUSH, -0.1, False, info(False, False, False))
    assert env.step(said)[2] is True


@given(configs(), seeds, actions)
@settings(max_examples=25, deadline=None)
def test_boxes_targets_walls_and_player_stay_what_they_are(config: SokobanConfig, seed: int, played: list[int]) -> None:
    env = Sokoban(config)
    first = str(env.reset(seed))
    walls = [number for number, sign in enumerate(first) if sign == "#"]
    placed = count(env, BOX_ON_TARGET)
    for action in played:
        state, reward, done, told = env.step(action)
        assert [number for number, sign in enumerate(state) if sign == "#"] == walls
        assert count(env, BOX, BOX_ON_TARGET) == count(env, TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET) == config.num_boxes
        assert count(env, PLAYER, PLAYER_ON_TARGET) == 1
        assert told["success"] == (count(env, BOX_ON_TARGET) == config.num_boxes)
        change, placed = count(env, BOX_ON_TARGET) - placed, count(env, BOX_ON_TARGET)
        assert reward == pytest.approx(-0.1 + change + 10 * told["success"])
        if done:
            break


@given(seeds, actions, actions)
@settings(max_examples=20, deadline=None)
def test_a_snapshot_goes_on_as_the_episode_would_have(seed: int, before: list[int], after: list[int]) -> None:
    env, other = Sokoban({"max_steps": 40}), Sokoban({"max_steps": 40})
    env.reset(seed)
    for action in before:
        env.step(action)
    other.restore(pickle.loads(pickle.dumps(env.snapshot())))
    assert other.render() == env.render()
    assert [other.step(action) for action in after] == [env.step(action) for action in after]


# -- rooms -------------------------------------------------------------------------------------------------


@given(configs(), seeds)
@settings(max_examples=30, deadline=None)
def test_every_room_can_be_solved_in_as_many_moves_as_it_was_played_back(config: SokobanConfig, seed: int) -> None:
    room = Sokoban.layout(config, seed, "train")
    cells, columns = views.read(room)
    assert (len(cells) // columns, columns) == config.size
    assert BOX in cells
    assert cells.count(BOX) + cells.count(BOX_ON_TARGET) == config.num_boxes
    assert 1 <= len(solve(cells, columns)) <= config.search_depth + rooms.STROLL
    assert Sokoban.layout(config, seed, "val") == room


@pytest.mark.parametrize(("rows", "columns", "boxes"), [(6, 6, 1), (6, 6, 3), (3, 5, 1), (9, 3, 2), (5, 5, 3)])
def test_where_no_try_succeeds_a_room_is_laid_out_by_hand(
    rows: int, columns: int, boxes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "TRIES", 0)
    for seed in range(20):
        room = views.grid(rooms.generate(rows, columns, boxes, 9, np.random.default_rng(seed)), columns)
        cells, _ = views.read(room)
        assert cells.count(BOX) == 1
        assert 1 <= len(solve(cells, columns)) <= 1 + rooms.STROLL


def test_rooms_differ_and_boxes_start_off_their_targets() -> None:
    for boxes in (1, 2):
        config = SokobanConfig(num_boxes=boxes)
        made = [Sokoban.layout(config, seed) for seed in range(40)]
        assert len(set(made)) >= 38
        assert not any("√" in room for room in made)


def test_a_layout_that_was_made_elsewhere_gives_the_same_episode() -> None:
    env = Sokoban({"num_boxes": 2})
    room = pickle.loads(pickle.dumps(Sokoban.layout(env.config, 8, "train")))
    assert env.reset(8, layout=room) == env.reset(8) == env.reset(8, "val", dynamics=5) == room


def test_a_seed_is_the_same_room_in_every_process() -> None:
    program = (
        "from paceline.worlds.text.sokoban import Sokoban\n"
        "for boxes in (1, 3):\n"
        "    for seed in range(6): print(Sokoban({'num_boxes': boxes}).reset(seed))"
    )
    expected = "\n".join(str(Sokoban({"num_boxes": boxes}).reset(seed)) for boxes in (1, 3) for seed in range(6))
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONIOENCODING": "utf-8"}
    run = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, check=True, env=environment)
    assert run.stdout.decode().strip() == expected


def test_the_global_generators_are_left_alone() -> None:
    np.random.seed(3)
    Sokoban().reset(1)
    assert np.random.random() == np.random.RandomState(3).random_sample()


def test_a_room_has_not_changed_since_it_was_first_made() -> None:
    assert Sokoban.layout(SokobanConfig(num_boxes=1), 0) == ROOM_OF_SEED_0


# -- views -------------------------------------------------------------------------------------------------


@given(configs(), seeds, actions)
@settings(max_examples=25, deadline=None)
def test_every_text_can_be_read_back(config: SokobanConfig, seed: int, played: list[int]) -> None:
    env = Sokoban(config)
    env.reset(seed)
    for action in played:
        env.step(action)
    room = views.read(str(env.render("grid")))
    assert views.read(str(env.render("coord"))) == views.read(str(env.render("grid_coord"))) == room


def test_coordinates_name_everything_once() -> None:
    env = begun("######\n#P√O_#\n#__X_#\n######", observation_format="coord")
    assert str(env.render()).split("\n")[0] == "The board has 4 rows and 6 columns; (0, 0) is at the top left."
    assert str(env.render()).split("\n")[2:] == [
        "Targets: (1, 2), (1, 3)",
        "Boxes: (2, 3)",
        "Boxes on targets: (1, 2)",
        "Player: (1, 1)",
    ]
    env.reset(0, layout="######\n#S_X_#\n######")
    assert str(env.render("text")).endswith("Boxes: (1, 3)\nPlayer on a target: (1, 1)")
    assert str(env.render("grid_coord")).endswith("\nGrid:\n######\n#S_X_#\n######")


def test_other_symbols_and_names_are_used_throughout() -> None:
    lookup = dict(enumerate(["W", ".", "G", "C", "B", "A", "@"]))
    names = {1: "north", 2: "south", 3: "west", 4: "east"}
    env = Sokoban({"grid_lookup": lookup, "action_lookup": names})
    assert env.reset(0, layout=ONE_PUSH) == "WWWWWW\nWABG.W\nWWWWWW"
    assert env.config.legend["@"] == "player on target"
    assert env.step("East")[3]["success"]
    assert views.read(str(env.render()), env.config.symbols) == views.read("######\n#_P√_#\n######")


def test_a_picture_shows_every_kind_of_cell_differently() -> None:
    env = begun("######\n#P√O_#\n#__X_#\n######", render_mode="rgb_array")
    image = env.render()
    assert isinstance(image, np.ndarray)
    assert image.dtype == np.uint8
    tiles = image.reshape(4, image.shape[0] // 4, 6, -1, 3).swapaxes(1, 2)
    assert image.shape[0] / 4 == image.shape[1] / 6 == tiles.shape[2]
    seen = {tiles[cell].tobytes() for cell in ((0, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 3))}
    assert len(seen) == 6
    state, *_ = env.step(LEFT)
    assert (state == image).all()  # a wall: nothing has moved


def test_no_picture_is_drawn_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "scene", None)
    env = begun(ONE_PUSH, observation_format="grid_coord")
    assert env.step(RIGHT)[2]


def test_a_terminal_gets_colours() -> None:
    shown = str(begun(ONE_PUSH).render("ansi"))
    assert shown.count("\x1b[0m") == shown.count("\n") + 1 == 3


# -- users' mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"num_box": 1}, "num_boxes"),
        ({"dim_room": (2, 6)}, "dim_room"),
        ({"dim_room": (6, 600)}, "dim_room"),
        ({"dim_room": (4, 4), "num_boxes": 1}, "too small"),
        ({"num_boxes": 6}, "5 boxes at most"),
        ({"num_boxes": 0}, "num_boxes"),
        ({"dim_x": 6}, "dim_x and dim_y"),
        ({"dim_x": 6, "dim_y": 7, "dim_room": [6, 6]}, "different things"),
        ({"max_steps": 0}, "max_steps"),
        ({"search_depth": 10**9}, "search_depth"),
        ({"observation_format": "picture"}, "observation_format"),
        ({"grid_lookup": {0: "#"}}, "grid_lookup"),
        ({"grid_lookup": dict.fromkeys(range(7), "#")}, "grid_lookup"),
        ({"action_lookup": {1: "Up", 2: "up", 3: "Left", 4: "Right"}}, "action_lookup"),
    ],
)
def test_wrong_settings_are_refused_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        Sokoban(options)


def test_both_ways_to_give_the_size() -> None:
    assert SokobanConfig(dim_x=6, dim_y=8).size == SokobanConfig(dim_room=(6, 8)).size == (6, 8)


@pytest.mark.parametrize(
    ("room", "told"),
    [
        ("", "lengths"),
        ("######\n#PXO\n######", "lengths"),
        ("######\n#PX?O#\n######", "symbols"),
        ("######\n#_XO_#\n######", "one player"),
        ("######\n#PXOP#\n######", "one player"),
        ("######\n#PX__#\n######", "targets as boxes"),
        ("######\n#P___#\n######", "targets as boxes"),
        ("######\n#PXO__\n######", "walls all round"),
        ("######\n#P√__#\n######", "solved already"),
        ("#" * 200_000, "too long"),
        ("\n".join(["#" * 51] * 51), "3 to 50"),
        ("The board has 3 rows and 6 columns\nPlayer: (9, 1)", r"no cell \(9, 1\)"),
        ("The board has 999 rows and 999 columns", "3 to 50"),
        ("The board has 0 rows and 0 columns", "3 to 50"),
        (["######"], "text"),
    ],
)
def test_what_is_no_room_is_refused(room: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        begun(room)


def test_a_step_before_the_reset_and_an_unknown_view_are_refused() -> None:
    with pytest.raises(BadInput, match="reset"):
        Sokoban().step(UP)
    with pytest.raises(BadInput, match="render mode 'human'"):
        begun(ONE_PUSH).render("human")


def test_it_can_be_closed_twice() -> None:
    env = begun(ONE_PUSH)
    env.close()
    env.close()


ROOM_OF_SEED_0 = """\
######
##___#
##PX_#
###O_#
#____#
######"""
