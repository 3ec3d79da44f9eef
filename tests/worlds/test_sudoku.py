"""Sudoku: puzzles have one solution and follow from the seed; moves are read, refused and paid by the rules."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.worlds.text.sudoku import HOLES, Sudoku, SudokuConfig, read_move
from paceline.worlds.text.sudoku_grid import Puzzle, Search, _woven_grid, fitting, make_puzzle, solve, units

#   1 2 | 3 4
#   3 4 | 1 2
#   2 1 | 4 3
#   4 3 | 2 1
SOLUTION = (1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1)
SMALL = Puzzle((0, 0, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 0), SOLUTION)
OPEN = Puzzle((0, 0, 0, 4, 0, 4, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1), SOLUTION)


def begun(puzzle: Puzzle = SMALL, **config: Any) -> Sudoku:
    env = Sudoku({"grid_size": 4, **config})
    env.reset(0, layout=puzzle)
    return env


def is_full(cells: Any, size: int) -> bool:
    seen: list[set[int]] = [set() for _ in range(3 * size)]
    for place, number in enumerate(cells):
        for unit in units(size)[place]:
            seen[unit].add(number)
    return all(numbers == set(range(1, size + 1)) for numbers in seen)


def other_solution(puzzle: Puzzle, size: int) -> bool:
    """Whether the puzzle has a second solution: one that differs in some empty cell."""
    return any(
        Search(puzzle.given, size).exclude(place, puzzle.solution[place])
        for place, number in enumerate(puzzle.given)
        if not number
    )


# -- puzzles -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "seeds"), [(4, 12), (9, 2)])
@pytest.mark.parametrize("difficulty", HOLES)
def test_a_puzzle_has_exactly_one_solution(size: int, seeds: int, difficulty: str) -> None:
    config = SudokuConfig(grid_size=size, difficulty=difficulty)  # type: ignore[arg-type]
    for seed in range(seeds):
        puzzle = Sudoku.layout(config, seed, "train")
        assert puzzle.given.count(0) == int(size**2 * HOLES[difficulty])
        assert is_full(puzzle.solution, size)
        assert all(number in (0, right) for number, right in zip(puzzle.given, puzzle.solution, strict=True))
        assert solve(puzzle.given, size) == list(puzzle.solution)
        assert not other_solution(puzzle, size)


def test_a_puzzle_of_sixteen_is_made_too() -> None:
    puzzle = make_puzzle(16, 60, np.random.default_rng(0))
    assert puzzle.given.count(0) == 60
    assert is_full(puzzle.solution, 16)
    assert solve(puzzle.given, 16) == list(puzzle.solution)


@pytest.mark.parametrize("size", [4, 9, 16])
def test_a_grid_can_be_woven_without_a_search(size: int) -> None:
    grids = [_woven_grid(size, np.random.default_rng(seed)) for seed in range(3)]
    assert all(is_full(grid, size) for grid in grids)
    assert len({tuple(grid) for grid in grids}) > 1


def test_a_second_solution_would_be_found() -> None:
    loose = Puzzle((0,) * 16, SOLUTION)
    assert other_solution(loose, 4)


@pytest.mark.parametrize("cells", [[1, 1, *[0] * 14], [1, 2, 3, 0, *[0] * 3, 4, *[0] * 8]])
def test_a_grid_without_a_solution_is_known(cells: list[int]) -> None:
    assert solve(cells, 4) is None


def test_a_search_gives_up_in_time() -> None:
    search = Search([0] * 81, 9, patience=5)
    assert not search.fill()
    assert search.gave_up


def test_puzzles_follow_from_the_seed_alone() -> None:
    env, other = Sudoku({"grid_size": 4}), Sudoku({"grid_size": 4})
    states = [env.reset(seed) for seed in range(10)]
    assert states == [other.reset(seed, dynamics=1) for seed in range(10)]
    layout = pickle.loads(pickle.dumps(Sudoku.layout(env.config, 3, "train")))
    assert other.reset(3, layout=layout) == states[3]
    assert len(set(states)) == 10


# -- moves -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("place 5 at row 2 col 3", "Place 5 at row 2, column 3", "place 5 at (2,3)", "place 5 at 2, 3", "5 at 2,3"),
        *("(2,3,5)", "2,3,5", " 2 , 3 , 5 ", "I place 5 at row 2 col 3.", "PLACE 5 AT ROW 2 COL 3"),
    ],
)
def test_moves_are_read_in_many_forms(text: str) -> None:
    assert read_move(text, 9) == (11, 5)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "not understood"),
        ("5", "not understood"),
        ("2,3", "not understood"),
        ("٢,٣,٥", "not understood"),
        ("\x00\x1b[2J", "not understood"),
        ("0,3,5", "row must be from 1 to 9"),
        ("2,10,5", "column must be from 1 to 9"),
        ("place 12 at row 2 col 3", "number must be from 1 to 9"),
        ("9" * 100 + ",1,1", "row must be"),
        ("1,1,1" * 200_000, "too long"),
    ],
)
def test_what_is_no_move_is_refused_in_words(text: str, hint: str) -> None:
    said = read_move(text, 9)
    assert isinstance(said, str)
    assert hint in said


@given(st.text(max_size=100))
@settings(max_examples=50, deadline=None)
def test_any_text_is_a_move_or_refused(text: str) -> None:
    env = begun()
    assert env.step(text)[1] in (-0.1, 0.5, 1.0)


def test_right_numbers_pay_one_and_the_last_one_more() -> None:
    env = begun()
    _, reward, done, info = env.step("1,1,1")
    assert (reward, done, info["success"], info["correct_placement"]) == (1.0, False, False, True)
    assert (info["cells_filled"], info["cells_remaining"], info["steps_remaining"]) == (14, 2, 80)
    env.step("place 2 at row 1 col 2")
    state, reward, done, info = env.step("4,4,1")
    assert (reward, done, info["success"]) == (11.0, True, True)
    assert "solved" in state
    again = env.step("1,1,1")
    assert again == (state, 0.0, True, {"action_is_valid": False, "action_is_effective": False, "success": True})


@pytest.mark.parametrize(
    ("move", "hint"),
    [
        ("1,3,1", "is given and stays"),
        ("1,1,4", "4 is already in row 1 and column 1 and box 1; at (1,1) fit [1]"),
        ("nonsense", "not understood"),
        ("5,5,5", "must be from 1 to 4"),
    ],
)
def test_a_refused_move_costs_a_little_and_changes_nothing(move: str, hint: str) -> None:
    env = begun()
    grid = env.render().splitlines()[:5]
    state, reward, done, info = env.step(move)
    assert (reward, done) == (-0.1, False)
    assert not info["action_is_valid"]
    assert not info["action_is_effective"]
    assert hint in info["error"]
    assert hint in state
    assert state.splitlines()[:5] == grid


def test_a_cell_pays_no_more_than_once() -> None:
    env = begun(OPEN)
    rewards = [env.step(move)[1] for move in ("1,1,3", "1,1,1", "1,1,3", "1,1,1")]
    assert rewards == [0.5, 0.5, 0.0, 0.0]
    assert env.step("1,1,1")[1] == -0.1


def test_every_move_counts_towards_the_last() -> None:
    env = begun(max_steps=2)
    assert not env.step("nonsense")[2]
    _, reward, done, info = env.step("nonsense")
    assert (reward, done, info["success"]) == (-0.1, True, False)


def test_a_snapshot_goes_on_as_it_would_have() -> None:
    env = begun(OPEN)
    env.step("1,1,3")
    saved = pickle.loads(pickle.dumps(env.snapshot()))
    moves = ("1,1,1", "2,1,3", "9,9,9", "1,2,2")
    rest = [env.step(move) for move in moves]
    other = Sudoku({"grid_size": 4})
    other.restore(saved)
    assert [other.step(move) for move in moves] == rest
    env.restore(saved)
    assert [env.step(move) for move in moves] == rest


# -- views -------------------------------------------------------------------------------------------------


def test_the_plain_view_is_the_grid_alone() -> None:
    assert begun(render_format="simple").render() == ". . | 3 4\n3 4 | 1 2\n---------\n2 1 | 4 3\n4 3 | 2 ."


def test_the_full_view_tells_what_is_given_placed_and_possible() -> None:
    env = begun(render_format="with_feedback")
    state = env.step("1,1,1")[0]
    assert state.startswith(" 1   .  | [3] [4]\n[3] [4] | [1] [2]\n")
    assert "Placed 1 at (1,1): right." in state
    assert "  (1,2): [2]\n  (4,4): [1]" in state
    assert "Filled: 14 of 16 (13 given, 1 placed)\nMoves: 1 of 81" in state


def test_hints_can_be_switched_off() -> None:
    env = begun(render_format="with_feedback", show_conflicts=False, show_valid_numbers=False)
    state = env.step("1,1,4")[0]
    assert "Refused: 4 does not fit." in state
    assert "fits" not in state.lower().replace("does not fit", "")
    assert "  (4,1): [3, 4]" in begun(OPEN, render_format="with_feedback", show_candidates=True).render()


@pytest.mark.parametrize("place", range(16))
def test_what_fits_is_what_no_neighbour_has(place: int) -> None:
    cells = list(OPEN.given)
    near = {cells[other] for other in range(16) if other != place and set(units(4)[other]) & set(units(4)[place])}
    assert fitting(cells, 4, place) == [number for number in range(1, 5) if number not in near]


def test_settings_are_checked() -> None:
    for wrong in ({"grid_size": 6}, {"difficulty": "evil"}, {"render_format": "x"}, {"max_steps": 0}):
        with pytest.raises(BadInput, match=r"sudoku\."):
            Sudoku(wrong)
    with pytest.raises(BadInput, match="reset"):
        Sudoku().step("1,1,1")
