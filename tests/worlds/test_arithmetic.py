"""Expressions are worked out exactly, and whatever is none is refused at once."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.worlds.text.arithmetic import DEEPEST, LONGEST, Expression, NotArithmetic, evaluate


@pytest.mark.parametrize(
    ("text", "numbers", "value"),
    [
        ("95 - 36 + 11", (95, 36, 11), 70),
        ("2+3*4", (2, 3, 4), 14),
        ("(2+3)*4", (2, 3, 4), 20),
        ("8 - 3 - 2", (8, 3, 2), 3),
        ("12/3/2", (12, 3, 2), 2),
        ("1/3 + 1/6", (1, 3, 1, 6), Fraction(1, 2)),
        ("- 4 + 6", (4, 6), 2),
        ("2 * -3", (2, 3), -6),
        ("+(5)", (5,), 5),
        ("\n 7\t", (7,), 7),
        ("0", (0,), 0),
        ("3 / 0", (3, 0), None),
        ("1 + 2 / (3 - 3) * 4", (1, 2, 3, 3, 4), None),
    ],
)
def test_an_expression_has_its_numbers_and_its_value(text: str, numbers: tuple[int, ...], value: Fraction) -> None:
    assert evaluate(text) == Expression(numbers, value)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "+", "2 +", "* 2", "2 3", "(2", "2)", "()", "2(3)", "2 + (3 *)", "1.5", "007", "1_000", "2 // 3"),
        *("99**98**97", "2 % 3", "2 = 2", "x", "__import__('os')", "(lambda: 1)()", "1 if 2 else 3", "0x10", "1e9"),
        *("٣ + ٤", "２+３", "3 × 4", "6 ÷ 2", "5 − 2", "2 +\x00 3", "2\u00a0+ 3", "2;3", "2,3", "2 || 3"),
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(NotArithmetic):
        evaluate(text)


@pytest.mark.parametrize(
    "text",
    ["(" * 100_000 + "1" + ")" * 100_000, "-" * 100_000 + "1", "1+" * 500_000 + "1", "9" * 1_000_000, " " * 1_000_000],
)
def test_a_text_that_is_too_long_is_not_read(text: str) -> None:
    with pytest.raises(NotArithmetic, match=f"at most {LONGEST}"):
        evaluate(text)


@pytest.mark.parametrize("opening", ["(", "-", "(-"])
def test_a_text_that_is_too_deep_is_refused_before_the_stack_is(opening: str) -> None:
    closing = ")" if "(" in opening else ""
    enough = DEEPEST // len(opening)
    assert evaluate(opening * enough + "1" + closing * enough).numbers == (1,)
    with pytest.raises(NotArithmetic, match="deep"):
        evaluate(opening * (enough + 1) + "1" + closing * (enough + 1))


def test_the_largest_value_that_can_be_written_is_worked_out() -> None:
    text = "*".join(["9" * 9] * (LONGEST // 10))
    assert evaluate(text).value == (10**9 - 1) ** (LONGEST // 10)


_NUMBERS = st.integers(0, 99).map(str)
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/"), inner) | inner.map("(-{})".format),
    max_leaves=8,
)


@given(_EXPRESSIONS)
@settings(max_examples=80, deadline=None)
def test_python_agrees_with_every_expression(text: str) -> None:
    python = "".join(f"Fraction({part})" if part.isdigit() else part for part in _split(text))
    try:
        expected = eval(python, {"Fraction": Fraction})
    except ZeroDivisionError:
        expected = None
    assert evaluate(text).value == expected


def _split(text: str) -> list[str]:
    spaced = text
    for sign in "()+-*/":
        spaced = spaced.replace(sign, f" {sign} ")
    return spaced.split()


@given(st.text(max_size=200))
@settings(max_examples=80, deadline=None)
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with contextlib.suppress(NotArithmetic):
        assert isinstance(evaluate(text), Expression)
