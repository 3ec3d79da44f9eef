"""Means, and how far to trust them."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as some

from paceline.evaluate import Summary
from paceline.evaluate.statistics import summarize, t_quantile

KNOWN = {
    1: 12.7062,
    2: 4.30265,
    3: 3.18245,
    4: 2.77645,
    5: 2.57058,
    7: 2.36462,
    9: 2.26216,
    19: 2.09302,
    29: 2.04523,
    99: 1.98422,
    999: 1.96234,
}


@pytest.mark.parametrize(("freedom", "quantile"), KNOWN.items())
def test_quantiles_of_students_t(freedom: int, quantile: float) -> None:
    assert t_quantile(freedom) == pytest.approx(quantile, rel=3e-3)


def test_quantiles_fall_towards_the_normal() -> None:
    quantiles = [t_quantile(freedom) for freedom in range(1, 500)]
    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[-1] > 1.95996


def test_nothing_has_no_mean_and_one_has_no_spread() -> None:
    assert summarize([]) == Summary(0)
    assert summarize([2.5]) == Summary(1, 2.5, None, None, 2.5, 2.5)


@given(some.lists(some.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_a_summary_is_what_the_textbook_says(numbers: list[float]) -> None:
    found = summarize(numbers)
    assert (found.count, found.least, found.most) == (len(numbers), min(numbers), max(numbers))
    assert found.mean == pytest.approx(statistics.fmean(numbers), abs=1e-9)
    assert found.std == pytest.approx(statistics.stdev(numbers), rel=1e-6, abs=1e-6)
    assert found.std is not None
    assert found.ci == pytest.approx(t_quantile(len(numbers) - 1) * found.std / math.sqrt(len(numbers)))
    assert summarize(numbers[::-1]).mean == found.mean  # whatever came first
