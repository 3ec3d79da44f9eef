"""Countdown: reach a target with the given numbers, each used once, and + - * / and parentheses.

state    "Target: 70, nums: [95, 36, 11]"
action   an expression, "95 - 36 + 11"
reward   1 if it gives the target; 0.1 if it uses the numbers but gives something else; 0 if it is neither
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.settings import Settings
from paceline.worlds.text.actions import Outcome, after_the_end
from paceline.worlds.text.arithmetic import NotArithmetic, evaluate
from paceline.worlds.text.datafiles import Row, load

INSTRUCTION = """\
You are given a target and a list of numbers. Write an expression that gives the target.
Use each number exactly once, and only + - * / and parentheses. Write no equals sign in the answer.
Example: <think>From [3, 5, 2] to 4: 2 + 5 is 7, and 7 - 3 is 4.</think><answer>2 + 5 - 3</answer>"""

MOST_NUMBERS = 8  # a row with more could not be searched in reasonable time


class CountdownConfig(Settings):
    """Where the tasks come from, and what an answer is worth."""

    train_path: str | None = Field(
        None, description="A Parquet or JSON lines file of target and nums; none: tasks are made from the seed."
    )
    max_instances: int = Field(20000, ge=1, description="How many rows of the file are read.")
    keep: Literal["sums", "all"] = Field(
        "sums", description="Which rows of the file are used: those that + and - alone can solve, or all."
    )
    score: float = Field(1.0, description="For the target.")
    format_score: float = Field(0.1, description="For an expression of the right numbers with another value.")
    render_mode: Literal["text"] = "text"
    min_numbers: int = Field(3, ge=2, le=MOST_NUMBERS, description="Of a task that is made: fewest numbers,")
    max_numbers: int = Field(4, ge=2, le=MOST_NUMBERS, description="most numbers,")
    max_number: int = Field(99, ge=2, le=10_000, description="largest number,")
    max_target: int = Field(100, ge=2, le=10_000, description="and largest target.")


@dataclass(frozen=True)
class Instance:
    """A task: the target, and the numbers to reach it with."""

    target: int
    nums: tuple[int, ...]

    def __str__(self) -> str:
        return f"Target: {self.target}, nums: {list(self.nums)}"


class Countdown:
    """One answer to one task."""

    Config = CountdownConfig
    action_lookup: Mapping[int, str] | None = None

    def __init__(self, config: Mapping[str, Any] | CountdownConfig | None = None) -> None:
        self.config = CountdownConfig.read(config, "countdown")
        if self.config.min_numbers > self.config.max_numbers:
            raise BadInput(
                f"countdown.min_numbers is {self.config.min_numbers}, above max_numbers, {self.config.max_numbers}"
            )
        self._file = _instances(self.config) if self.config.train_path else ()
        self._task: Instance | None = None
        self._shown = ""
        self._over = False
        self._success = False

    def reset(self, seed: int, mode: str = "train", *, layout: Any = None, dynamics: int | None = None) -> str:
        """Sets a task. It follows from the seed alone: nothing else is random here.

        Of a file, seeds take the rows in turn, so that neighbouring groups get different tasks.
        """
        self._task = self._file[seed % len(self._file)] if self._file else _make(self.config, seed)
        self._over, self._success = False, False
        self._shown = str(self._task)
        return self._shown

    def step(self, action: int | str) -> Outcome:
        """Judges an answer, and that is the end."""
        if self._task is None:
            raise BadInput("there is no task yet: call reset() before the first step")
        if self._over:
            return after_the_end(self._shown, self._success)
        reward, self._success, error = self._judge(self._task, str(action))
        self._over = True
        self._shown = f"Your answer is worth {reward} points."
        info = {"action_is_valid": not error, "action_is_effective": reward > 0, "success": self._success}
        return self._shown, reward, True, {**info, "error": error} if error else info

    def render(self, mode: str | None = None) -> str:
        """What was shown last."""
        return self._shown

    def close(self) -> None:
        """Nothing to release: the tasks are shared by the process."""

    def snapshot(self) -> Any:
        """Everything that an episode is."""
        return self._task, self._shown, self._over, self._success

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._task, self._shown, self._over, self._success = state

    def _judge(self, task: Instance, answer: str) -> tuple[float, bool, str]:
        """The reward, whether the target is reached, and what is wrong with the form."""
        try:
            said = evaluate(answer)
        except NotArithmetic as error:
            return 0.0, False, str(error)
        if sorted(said.numbers) != sorted(task.nums):
            return 0.0, False, f"it uses other numbers than {list(task.nums)}"
        if said.value == task.target:
            return self.config.score, True, ""
        return self.config.format_score, False, ""


def _make(config: CountdownConfig, seed: int) -> Instance:
    """A task with a solution: a value is walked from number to number, and where it arrives is the target."""
    rng = np.random.default_rng(sequence(seed, "countdown", "layout"))
    count = int(rng.integers(config.min_numbers, config.max_numbers + 1))
    value = int(rng.integers(1, config.max_number + 1))
    nums = [value]
    while len(nums) < count:
        # On the way a value may be above the largest target, but one subtraction must be able to bring it back.
        last = len(nums) == count - 1
        limit = config.max_target if last else config.max_target + config.max_number - 1
        ways = {sign: numbers for sign in "+-*/" if (numbers := _partners(sign, value, limit, config.max_number))}
        sign = list(ways)[int(rng.integers(len(ways)))]
        number = ways[sign][int(rng.integers(len(ways[sign])))]
        value = _apply(sign, value, number)
        nums.append(number)
    return Instance(value, tuple(nums[place] for place in rng.permutation(count)))


def _partners(sign: str, value: int, limit: int, largest: int) -> range | list[int]:
    """The numbers that keep a value whole and from 1 to the limit."""
    if sign == "+":
        return range(1, min(largest, limit - value) + 1)
    if sign == "-":
        return range(max(1, value - limit), min(largest, value - 1) + 1)
    if sign == "*":
        return range(2, min(largest, limit // value) + 1)
    return [number for number in range(2, min(largest, value) + 1) if value % number == 0 and value // number <= limit]


def _apply(sign: str, value: int, number: int) -> int:
    if sign == "+":
        return value + number
    if sign == "-":
        return value - number
    return value * number if sign == "*" else value // number


def _instances(config: CountdownConfig) -> tuple[Instance, ...]:
    assert config.train_path is not None
    make = instance if config.keep == "all" else _if_sums_solve_it
    return load(config.train_path, make, config.max_instances)


def _if_sums_solve_it(row: Row, where: str) -> Instance | None:
    task = instance(row, where)
    return task if task.target in _sums(task.nums) else None


def instance(row: Row, where: str) -> Instance:
    """Reads one row of a file.

    Raises:
        BadInput: it is no task; the message says where, and what is missing.
    """
    target, nums = row.get("target"), row.get("nums")
    if not isinstance(nums, list | tuple) or not 1 <= len(nums) <= MOST_NUMBERS:
        raise BadInput(f"{where}: nums must be a list of 1 to {MOST_NUMBERS} whole numbers, not {str(nums)[:60]}")
    if not all(type(number) is int and number >= 0 for number in nums):
        raise BadInput(f"{where}: nums must be whole numbers from 0 on, not {str(nums)[:60]}")
    if type(target) is not int:
        raise BadInput(f"{where}: target must be a whole number, not {str(target)[:60]}")
    return Instance(target, tuple(nums))


def _sums(nums: tuple[int, ...]) -> set[int]:
    """What comes out with a + or a - before each number."""
    reached = {0}
    for number in nums:
        reached = {value + signed for value in reached for signed in (number, -number)}
    return reached
