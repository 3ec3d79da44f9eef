"""MetaMathQA: questions from every shape of file, a right answer worth less with each try, our own questions right."""

import json
import pickle
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.errors import BadInput
from paceline.worlds.text.arithmetic import evaluate
from paceline.worlds.text.metamathqa import MetaMathQA
from paceline.worlds.text.questions import OWN, Question, number, question, read_questions


def asked(path: Path, row: dict[str, str], **config: Any) -> MetaMathQA:
    path.write_text(json.dumps(row))
    env = MetaMathQA({"data_path": str(path), **config})
    env.reset(0)
    return env


@pytest.fixture
def apples(tmp_path: Path) -> MetaMathQA:
    row = {"query": "How many apples?", "response": "500 + 500. The answer is: 1,000 Apples"}
    return asked(tmp_path / "apples.jsonl", row)


# -- the game ----------------------------------------------------------------------------------------------


def test_a_right_answer_at_once_is_worth_one(apples: MetaMathQA) -> None:
    assert apples.render() == "How many apples?"
    assert apples.correct_answer == "1,000 Apples"
    state, reward, done, info = apples.step(" 1,000  apples\n")
    assert (state, reward, done) == ("Correct!", 1.0, True)
    assert info == {"action_is_valid": True, "action_is_effective": True, "success": True}
    assert apples.step("1,000 apples")[:3] == ("Correct!", 0.0, True)


def test_each_wrong_answer_halves_what_is_to_be_had(apples: MetaMathQA) -> None:
    for _ in range(3):
        state, reward, done, info = apples.step("999")
        assert state.startswith("Incorrect")
        assert (reward, done, info["success"]) == (0.0, False, False)
    assert apples.step("1,000APPLES")[1] == 0.125


def test_thousands_of_wrong_answers_are_no_error(apples: MetaMathQA) -> None:
    for _ in range(2000):
        apples.step("no")
    assert apples.step("1,000 apples")[1:3] == (0.0, True)


def test_the_last_try_is_the_end(tmp_path: Path) -> None:
    env = asked(tmp_path / "q.jsonl", {"question": "2 + 2?", "answer": "#### 4"}, max_steps=2)
    assert not env.step("3")[2]
    state, reward, done, info = env.step("5")
    assert (reward, done, info["success"]) == (0.0, True, False)
    assert env.step("4") == (state, 0.0, True, {**info, "action_is_valid": False, "action_is_effective": False})


@pytest.mark.parametrize("answer", ["", " \n", "x" * 1_000_000, "4" * 1_000_000, " " * 1_000_000])
def test_an_empty_or_endless_answer_is_not_valid(apples: MetaMathQA, answer: str) -> None:
    _, reward, done, info = apples.step(answer)
    assert (reward, done, info["action_is_valid"]) == (0.0, False, False)


@pytest.mark.parametrize(
    ("match", "right", "wrong"),
    [
        ("text", ["1000", " 10 00 "], ["1,000", "1000.0", "The answer is: 1000"]),
        (
            "numeric",
            ["1000", "1,000", "1000.0", "$1,000", "2000/2", "Well. The answer is: 1,000"],
            ["1001", "a", "1,00"],
        ),
        ("strict", ["1000"], [" 1000", "1,000"]),
    ],
)
def test_when_an_answer_is_right_can_be_chosen(tmp_path: Path, match: str, right: list[str], wrong: list[str]) -> None:
    env = asked(tmp_path / "q.jsonl", {"question": "?", "answer": "1000"}, match=match)
    for answer in wrong:
        assert not env.step(answer)[3]["success"], answer
    for answer in right:
        env.reset(0)
        assert env.step(answer)[3]["success"], answer


@given(st.text(max_size=50) | st.integers() | st.none())
@settings(max_examples=40, deadline=None)
def test_any_answer_is_judged(answer: Any) -> None:
    env = MetaMathQA({"match": "numeric"})
    env.reset(3)
    assert env.step(answer)[1] in (0.0, 1.0)


def test_a_snapshot_goes_on_as_it_would_have(apples: MetaMathQA) -> None:
    apples.step("3")
    saved = pickle.loads(pickle.dumps(apples.snapshot()))
    first = apples.step("1,000 apples")
    other = MetaMathQA()
    other.restore(saved)
    assert other.correct_answer == apples.correct_answer
    assert other.step("1,000 apples") == first


def test_the_question_follows_from_the_seed() -> None:
    env, other = MetaMathQA(), MetaMathQA()
    states = [env.reset(seed) for seed in range(40)]
    assert states == [other.reset(seed, dynamics=seed + 1) for seed in range(40)]
    assert len(set(states)) > 20
    assert MetaMathQA().correct_answer is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("1,000", 1000), ("18.0", 18), ("-3/4", Fraction(-3, 4)), ("$5", 5), (".5", Fraction(1, 2)), (" 7 ", 7)]
    + [(text, None) for text in ("", "-", "$", "1,00", "1/0", "1.2.3", "x", "٣", "9" * 101, "1e5")],
)
def test_numbers_are_read_as_people_write_them(text: str, value: Fraction | None) -> None:
    assert number(text) == value


# -- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"query": "q", "response": "Steps.\nThe answer is: 72"}, "72"),
        ({"query": "q", "response": "Steps.\n#### 72"}, "72"),
        ({"query": "q", "response": "The answer is: 1. No! The answer is: x^2 "}, "x^2"),
        ({"type": "GSM_Rephrased", "query": "q", "original_question": "o", "response": "The answer is: 72"}, "72"),
        ({"question": "q", "answer": "48/2 = <<48/2=24>>24\n#### 1,072"}, "1,072"),
        ({"question": "q", "answer": "80000", "original_question": "o", "original_answer": "7"}, "80000"),
    ],
)
def test_every_shape_of_row_is_read(row: dict[str, str], answer: str) -> None:
    assert question(row, "here") == Question("q", answer)


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        ({"query": "q"}, "there must be query and response or question and answer; there is query"),
        ({}, "there is nothing"),
        ({"query": "q", "response": 3}, "must both be text"),
        ({"query": " ", "response": "The answer is: 3"}, "must both be text"),
        ({"query": "q", "response": "72"}, "must end in"),
        ({"query": "q", "response": "The answer is:"}, "must end in"),
        ({"question": "q", "answer": "first\nsecond"}, "must end in"),
        ({"question": "q", "answer": ""}, "must end in"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path: Path, row: dict[str, Any], hint: str) -> None:
    good = {"question": "q", "answer": "#### 1"}
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(row)}\n")
    with pytest.raises(BadInput, match=hint) as caught:
        MetaMathQA({"data_path": str(path)})
    assert f"{path}, line 2" in str(caught.value)


def test_a_directory_has_a_file_for_each_split(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({"question": split, "answer": "#### 1"}))
    assert MetaMathQA({"dataset_path": str(tmp_path), "split": "test"}).reset(0) == "test"
    with pytest.raises(BadInput, match=r"no file val\.jsonl"):
        MetaMathQA({"data_path": str(tmp_path), "split": "val"})


def test_parquet_is_read_too(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"query": f"q{place}", "response": f"The answer is: {place}"} for place in range(5)]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "q.parquet")
    assert [item.answer for item in read_questions(str(tmp_path / "q.parquet"), "train")] == list("01234")
    parquet.write_table(pyarrow.Table.from_pylist([*rows, {"query": "q", "response": None}]), tmp_path / "q.parquet")
    with pytest.raises(BadInput, match="row 6: query and response must both be text"):
        read_questions(str(tmp_path / "q.parquet"), "train")


def test_a_name_on_the_hub_is_not_fetched() -> None:
    with pytest.raises(BadInput, match="meta-math/MetaMathQA is no file here"):
        MetaMathQA({"dataset_path": "meta-math/MetaMathQA"})


# -- our own questions -------------------------------------------------------------------------------------


def test_our_own_questions_are_many_and_split_in_two() -> None:
    train, test = (read_questions(None, split) for split in ("train", "test"))
    assert len(train) + len(test) >= 60
    assert not {item.text for item in train} & {item.text for item in test}
    with pytest.raises(BadInput, match="no split 'val'"):
        MetaMathQA({"split": "val"})


@pytest.mark.parametrize("line", OWN.read_text().splitlines(), ids=range(len(OWN.read_text().splitlines())))
def test_every_step_of_our_own_answers_is_right(line: str) -> None:
    row = json.loads(line)
    assert set(row) == {"query", "response"}
    steps, answer = row["response"].split(" The answer is: ")
    claims = re.findall(r": ([-+*/ 0-9]+) = ([0-9]+)\.", steps)
    assert len(claims) >= 2
    assert all(evaluate(left).value == int(right) for left, right in claims)
    assert claims[-1][1] == answer
