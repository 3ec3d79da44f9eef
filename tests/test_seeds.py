"""Seeds follow identity; digests follow values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.seeds import check, digest, seed_of, sequence

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


@given(plain)
def test_a_digest_is_a_function_of_the_value(value: object) -> None:
    import copy

    twin = copy.deepcopy(value)
    assert digest(value) == digest(twin)
    assert check(value) == check(twin)


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_a_dict_does_not_count(value: dict[str, int]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert digest(value) == digest(backwards)
    assert check(value) == check(backwards)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (0, False),
        (None, False),
        ("1", 1),
        (b"1", "1"),
        ([1], (1,)),
        ([[1], [2]], [[1, 2]]),
        (["ab"], ["a", "b"]),
        ({"a": 1}, {"a": 2}),
        ({1: "a"}, {"1": "a"}),
        (np.zeros(2, np.float32), np.zeros(2, np.float64)),
        (np.zeros((2, 1)), np.zeros((1, 2))),
        (np.float32(0), np.float64(0)),
        (0.0, -0.0),
    ],
)
def test_what_differs_has_another_digest(one: object, other: object) -> None:
    assert digest(one) != digest(other)
    assert check(one) != check(other)


def test_layout_in_memory_does_not_count() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(np.stack([array, array], -1)[..., 0])


def test_a_digest_is_what_it_was() -> None:
    """Digests are compared between people and versions: a change here breaks every stored one."""
    value = {"b": [1, 2.5, "é", None, True], "a": np.arange(3, dtype=np.int16)}
    assert digest(value) == "dfb8f3900df1df00e04e8be8ae770e598cfb3c99e5843bb9a2542df90459fc17"


class Colour(enum.IntEnum):
    RED = 1


@dataclass
class Point:
    x: float
    y: float


class Plain:
    def __init__(self, value: object) -> None:
        self.value = value


def test_objects_count_by_what_they_hold() -> None:
    import torch

    assert digest(Point(1, 2)) == digest(Point(1, 2)) != digest(Point(2, 1))
    assert digest(Plain([1])) == digest(Plain([1])) != digest(Plain([2]))
    assert digest(Colour.RED) != digest(1)
    assert digest({3, 1, 2}) == digest({2, 3, 1}) != digest({1, 2})
    assert digest(torch.ones(2)) == digest(torch.ones(2)) != digest(torch.zeros(2))


def test_large_arrays_are_sampled_by_check_and_read_whole_by_digest() -> None:
    array = np.zeros(1 << 20, np.uint8)
    changed = array.copy()
    changed[array.size // 2 + 12345] = 1
    assert digest(array) != digest(changed)
    other = np.random.default_rng(0).integers(0, 255, array.size).astype(np.uint8)
    assert check(array) != check(other)


def test_different_keys_have_different_seeds() -> None:
    keys = [(), (0,), (1,), ("1",), (0, 1), ((0, 1),), ("a",), ("a", 0)]
    assert len({seed_of(0, *key) for key in keys}) == len(keys)
    assert seed_of(0, "a") != seed_of(1, "a")
    assert seed_of(5, "a", 3) == seed_of(5, "a", 3)
    assert 0 <= seed_of(5, "a") < 1 << 63
    assert (sequence(1, "x").generate_state(4) == sequence(1, "x").generate_state(4)).all()
