"""The solvers of numbers and arms solve everything that their worlds set, from the text alone."""

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.policies.solvers.bandit import BanditSolver
from paceline.policies.solvers.countdown import CountdownSolver, solve
from paceline.policies.solvers.sudoku import SudokuSolver
from paceline.types import Turn
from paceline.worlds.text.arithmetic import evaluate
from paceline.worlds.text.bandit import Bandit
from paceline.worlds.text.countdown import Countdown
from paceline.worlds.text.sudoku import Sudoku


def turn(state: str) -> Turn:
    return Turn(env_id=0, group_id=0, tag="", env_type="", number=0, state=state, actions_left=100)


NONSENSE = [
    "",
    "no task here",
    "Target: x, nums: []",
    "Target: 3, nums: []",
    "\x00" * 50,
    "1" * 1_000_000,
    "|" * 100_000,
]


@pytest.mark.parametrize("solver", [BanditSolver(), CountdownSolver(), SudokuSolver()])
@pytest.mark.parametrize("state", NONSENSE, ids=range(len(NONSENSE)))
def test_where_there_is_nothing_to_solve_there_is_nothing_to_do(solver: Any, state: str) -> None:
    assert solver.actions(turn(state)) == []


# -- Bandit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_bold_arm_is_always_pulled(split: str) -> None:
    env, solver = Bandit({"split": split}), BanditSolver()
    for seed in range(60):
        (arm,) = solver.actions(turn(env.reset(seed)))
        state, _, _, info = env.step(arm)
        assert info["success"]
        assert solver.actions(turn(state)) == []


# -- Countdown ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, {"max_numbers": 5, "min_numbers": 5, "max_number": 30}])
def test_every_task_that_is_made_is_solved(config: dict[str, int]) -> None:
    env, solver = Countdown(config), CountdownSolver()
    for seed in range(120 if not config else 6):
        state = env.reset(seed)
        (expression,) = solver.actions(turn(state))
        assert env.step(expression)[1:3] == (1.0, True), state


def test_chance_is_far_below_the_solver() -> None:
    env, rng = Countdown(), np.random.default_rng(0)
    hits = 0
    for seed in range(100):
        env.reset(seed)
        assert env._task is not None
        nums = rng.permutation(env._task.nums)
        hits += env.step("".join(f"{rng.choice(list('+-*'))}{number}" for number in nums).lstrip("*"))[3]["success"]
    assert hits < 40


def test_a_task_that_needs_fractions_is_solved(tmp_path: Path) -> None:
    expression = solve(24, [3, 3, 8, 8])
    assert expression is not None
    assert evaluate(expression).value == 24


def test_a_task_without_a_solution_has_none() -> None:
    assert CountdownSolver().actions(turn("Target: 1000, nums: [1, 1, 1, 2]")) == []
    assert CountdownSolver().actions(turn("Target: 7, nums: [7]")) == ["7"]
    assert CountdownSolver().actions(turn("Target: -3, nums: [2, 5]")) == ["2 - 5"]
    assert CountdownSolver().actions(turn(f"Target: 1, nums: {[1] * 9}")) == []


@given(st.lists(st.integers(0, 9), min_size=2, max_size=3), st.integers(-10, 30))
@settings(max_examples=40, deadline=None)
def test_what_the_solver_finds_is_exactly_what_there_is(nums: list[int], target: int) -> None:
    found = solve(target, nums)
    assert (found is not None) == (target in reachable(tuple(map(Fraction, nums))))
    if found is not None:
        said = evaluate(found)
        assert said.value == target
        assert sorted(said.numbers) == sorted(nums)


def reachable(values: tuple[Fraction, ...]) -> set[Fraction]:
    """All that can be made of the numbers, by the plainest way to see it."""
    if len(values) == 1:
        return set(values)
    made = set()
    for a, b, *rest in itertools.permutations(values):
        for joined in (a + b, a - b, a * b, *([a / b] if b else [])):
            made |= reachable((joined, *rest))
    return made


# -- Sudoku ------------------------------------------------------------------------------------------------

VIEWS = ["simple", "detailed", "with_feedback"]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("size", "difficulty", "seeds"), [(4, "hard", 8), (9, "easy", 2), (9, "hard", 2)])
def test_every_puzzle_is_solved_from_every_view(view: str, size: int, difficulty: str, seeds: int) -> None:
    env = Sudoku({"grid_size": size, "difficulty": difficulty, "render_format": view})
    for seed in range(seeds):
        state, done, total = env.reset(seed), False, 0.0
        for move in SudokuSolver().actions(turn(state)):
            assert not done
            state, reward, done, info = env.step(move)
            total += reward
        assert info["success"]
        assert total == 10 + int(size**2 * {"easy": 0.4, "hard": 0.6}[difficulty])
        assert SudokuSolver().actions(turn(state)) == []


def test_it_goes_on_from_the_middle_and_mends_what_was_placed_wrongly() -> None:
    env = Sudoku({"grid_size": 9, "difficulty": "hard", "max_steps": 200})
    mended = 0
    for seed in range(3):
        state = env.reset(seed)
        number, row, column = (int(word) for word in SudokuSolver().actions(turn(state))[0].split() if word.isdigit())
        for wrong in range(1, 10):
            mended += wrong != number and env.step(f"{row},{column},{wrong}")[3]["action_is_valid"]
        for move in SudokuSolver().actions(turn(env.render())):
            info = env.step(move)[3]
        assert info["success"]
    assert mended


def test_a_puzzle_of_sixteen_is_solved() -> None:
    env = Sudoku({"grid_size": 16, "max_steps": 256})
    for move in SudokuSolver().actions(turn(env.reset(1))):
        info = env.step(move)[3]
    assert info["success"]


@pytest.mark.parametrize(
    "state", ["1 1 | . .\n" * 4, "1 2 3 | 4\n" * 3, "99 1 | . .\n. . | . .\n. . | . .\n. . | . .\n5"]
)
def test_a_grid_that_is_none_has_no_moves(state: str) -> None:
    assert SudokuSolver().actions(turn(state)) == []
