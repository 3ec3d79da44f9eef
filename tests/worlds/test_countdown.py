"""Countdown: tasks follow from the seed or a file, answers are judged exactly, and no text can hang or break it."""

import builtins
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.worlds.text import countdown
from paceline.worlds.text.countdown import Countdown

HOSTILE = [
    "99**98**97",
    "(" * 100_000 + "1" + ")" * 100_000,
    "7" * 1_000_000,
    "\x00\x1b[2J" * 100_000,
    "__import__('os').abort()",
    "٣ + ٤",
    "",
    "\ud800",
]


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


@pytest.fixture
def seventy(tmp_path: Path) -> Countdown:
    path = write(tmp_path / "seventy.jsonl", [{"target": 70, "nums": [95, 36, 11]}])
    env = Countdown({"train_path": path})
    assert env.reset(12345) == "Target: 70, nums: [95, 36, 11]"
    return env


@pytest.mark.parametrize(
    ("answer", "reward", "valid"),
    [
        ("95 - 36 + 11", 1.0, True),
        (" (11+95)-36 ", 1.0, True),
        ("-36 + 95 + 11", 1.0, True),
        ("95 + 36 + 11", 0.1, True),
        ("95 / (36 - 36 * 11)", 0.0, False),
        ("95 / (11 - 36)", 0.1, True),
        ("95 - 36", 0.0, False),
        ("95 - 36 + 11 + 0", 0.0, False),
        ("95 - 36 + 11 = 70", 0.0, False),
        ("95 36 11", 0.0, False),
        ("70", 0.0, False),
    ],
)
def test_an_answer_is_worth_what_it_should(seventy: Countdown, answer: str, reward: float, valid: bool) -> None:
    state, got, done, info = seventy.step(answer)
    assert (got, done) == (reward, True)
    assert state == seventy.render() == f"Your answer is worth {reward} points."
    assert info["success"] == (reward == 1.0)
    assert info["action_is_valid"] == valid
    assert info["action_is_effective"] == (reward > 0)
    assert ("error" in info) != valid


def test_a_division_by_zero_is_right_in_form_only(tmp_path: Path) -> None:
    path = write(tmp_path / "zero.jsonl", [{"target": 5, "nums": [5, 3, 3]}])
    env = Countdown({"train_path": path})
    env.reset(0)
    assert env.step("5 / (3 - 3)")[1] == 0.1


def test_fractions_on_the_way_are_exact(tmp_path: Path) -> None:
    path = write(tmp_path / "thirds.jsonl", [{"target": 24, "nums": [3, 3, 8, 8]}])
    env = Countdown({"train_path": path, "keep": "all", "score": 3})
    env.reset(0)
    _, reward, _, info = env.step("8 / (3 - 8 / 3)")
    assert reward == 3
    assert info["success"]


@pytest.mark.parametrize("answer", HOSTILE)
def test_hostile_text_is_just_wrong(seventy: Countdown, answer: str) -> None:
    _, reward, done, info = seventy.step(answer)
    assert (reward, done) == (0.0, True)
    assert not info["action_is_valid"]
    assert len(info["error"]) < 200


@given(st.text(max_size=60) | st.integers())
@settings(max_examples=50, deadline=None)
def test_any_text_is_judged(answer: Any) -> None:
    env = Countdown()
    env.reset(1)
    assert env.step(answer)[2]


def test_after_the_end_nothing_happens(seventy: Countdown) -> None:
    state = seventy.step("95 - 36 + 11")[0]
    again = seventy.step("95 + 36 + 11")
    assert again == (state, 0.0, True, {"action_is_valid": False, "action_is_effective": False, "success": True})


@given(st.integers(0, 2**63), st.integers(2, 6), st.integers(2, 120), st.integers(2, 120))
@settings(max_examples=60, deadline=None)
def test_a_task_that_is_made_keeps_its_limits(seed: int, numbers: int, largest: int, target: int) -> None:
    config = {"min_numbers": 2, "max_numbers": numbers, "max_number": largest, "max_target": target}
    made = countdown._make(Countdown(config).config, seed)
    assert 1 <= made.target <= target
    assert 2 <= len(made.nums) <= numbers
    assert all(1 <= number <= largest for number in made.nums)


def test_tasks_follow_from_the_seed_in_every_process() -> None:
    program = (
        "from paceline.worlds.text.countdown import Countdown\n"
        "env = Countdown()\n"
        "print([env.reset(seed) for seed in range(20)])"
    )
    salted = {**os.environ, "PYTHONHASHSEED": "1234"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=salted, timeout=60, capture_output=True, text=True, check=True
    )
    env = Countdown()
    states = [env.reset(seed) for seed in range(20)]
    assert answer.stdout == f"{states}\n"
    assert len(set(states)) == 20


def test_a_snapshot_goes_on_as_it_would_have(seventy: Countdown) -> None:
    saved = pickle.loads(pickle.dumps(seventy.snapshot()))
    first = seventy.step("95 - 36 + 11")
    seventy.restore(saved)
    assert seventy.render() == "Target: 70, nums: [95, 36, 11]"
    assert seventy.step("95 - 36 + 11") == first


# -- files -------------------------------------------------------------------------------------------------

ROWS = [
    {"target": 70, "nums": [95, 36, 11]},
    {"target": 24, "nums": [3, 3, 8, 8]},
    {"target": 6, "nums": [1, 2, 3]},
]


def test_seeds_take_the_rows_in_turn_and_rows_without_a_sum_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "tasks.jsonl", ROWS)
    sums, everything = Countdown({"train_path": path}), Countdown({"train_path": path, "keep": "all"})
    assert [sums.reset(seed)[:10] for seed in range(3)] == ["Target: 70", "Target: 6,", "Target: 70"]
    assert [everything.reset(seed)[:10] for seed in range(3)] == ["Target: 70", "Target: 24", "Target: 6,"]
    assert Countdown({"train_path": path, "max_instances": 1}).reset(1).startswith("Target: 70")


def test_parquet_and_a_json_array_hold_the_same(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "tasks.parquet")
    (tmp_path / "tasks.json").write_text(json.dumps(ROWS))
    lines = Countdown({"train_path": write(tmp_path / "tasks.jsonl", ROWS)})
    for kind in ("parquet", "json"):
        other = Countdown({"train_path": str(tmp_path / f"tasks.{kind}")})
        assert [other.reset(seed) for seed in range(4)] == [lines.reset(seed) for seed in range(4)]


def test_a_file_is_read_once_per_process_and_anew_when_it_has_changed(tmp_path: Path, monkeypatch: Any) -> None:
    path = write(tmp_path / "tasks.jsonl", ROWS)
    first = Countdown({"train_path": path})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_, **__: pytest.fail("the file is read again"))
        many = [Countdown({"train_path": path}) for _ in range(5)]
    assert all(env._file is first._file for env in many)
    write(tmp_path / "tasks.jsonl", [*ROWS, {"target": 10, "nums": [9, 1]}])
    assert Countdown({"train_path": path}).reset(2) == "Target: 10, nums: [9, 1]"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("{", "not JSON"),
        ("[1]", "an object of named fields"),
        ('{"nums": [1, 2]}', "target must be a whole number, not None"),
        ('{"target": 1}', "nums must be a list"),
        ('{"target": 1.5, "nums": [1]}', "target"),
        ('{"target": true, "nums": [1]}', "target"),
        ('{"target": 1, "nums": [1, "2"]}', "whole numbers"),
        ('{"target": 1, "nums": [-1]}', "whole numbers"),
        ('{"target": 1, "nums": []}', "1 to 8"),
        ('{"target": 1, "nums": "12"}', "1 to 8"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, line: str, hint: str) -> None:
    path = tmp_path / "bad.jsonl"
    good = json.dumps(ROWS[0])
    path.write_bytes(f"{good}\n\n{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInput, match=hint) as caught:
        Countdown({"train_path": str(path)})
    assert f"{path}, line 3" in str(caught.value)


def test_a_file_that_is_no_use_is_refused_in_words(tmp_path: Path) -> None:
    only_products = write(tmp_path / "products.jsonl", [ROWS[1]])
    not_parquet = tmp_path / "tasks.parquet"
    not_parquet.write_text("no table")
    for path, hint in [
        (str(tmp_path / "missing.jsonl"), "No such file"),
        (str(tmp_path), "must end in"),
        (only_products, "no row that can be used"),
        (str(not_parquet), "no Parquet file"),
    ]:
        with pytest.raises(BadInput, match=hint):
            Countdown({"train_path": path})


def test_without_pyarrow_a_parquet_file_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "tasks.parquet"
    path.write_bytes(b"PAR1")
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BadInput, match=r"pip install 'paceline\[llm\]'"):
        Countdown({"train_path": str(path)})


def test_settings_are_checked() -> None:
    with pytest.raises(BadInput, match="above max_numbers"):
        Countdown({"min_numbers": 4, "max_numbers": 3})
    with pytest.raises(BadInput, match=r"countdown\.max_instances"):
        Countdown({"max_instances": 0})
    with pytest.raises(BadInput, match="reset"):
        Countdown().step("1")
