"""Streams of the process-wide generators that several owners in one process have, one at a time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from paceline.engine import OwnedStreams, seeds_from_caller
from paceline.errors import SharedRandomness

SEEDS = {"random": 1, "numpy.random": 2, "torch": 3}


def draw() -> tuple[float, float, float]:
    return random.random(), np.random.random(), float(torch.rand(()))


def drawn(streams: OwnedStreams, owner: Any) -> tuple[float, float, float]:
    with streams.of(owner):
        return draw()


def test_what_an_owner_draws_does_not_depend_on_when_others_draw() -> None:
    one, other = OwnedStreams(SEEDS), OwnedStreams(SEEDS)
    first = [drawn(one, "a"), drawn(one, "a"), drawn(one, ("b", 1))]
    mixed = [drawn(other, ("b", 1)), drawn(other, "a"), drawn(other, "a")]
    assert first == [*mixed[1:], mixed[0]]
    assert len(set(first)) == 3


def test_an_owner_within_another_gets_the_generators_for_as_long_as_it_has_them() -> None:
    nested, apart = OwnedStreams(SEEDS), OwnedStreams(SEEDS)
    with nested.of("a"):
        before = draw()
        inner = drawn(nested, "b")
        after = draw()
    assert [before, after, inner] == [drawn(apart, "a"), drawn(apart, "a"), drawn(apart, "b")]


def test_the_callers_generators_are_as_they_were() -> None:
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    expected = draw()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    drawn(OwnedStreams(SEEDS), "a")
    assert draw() == expected


def test_streams_go_on_elsewhere_from_where_they_stand() -> None:
    here, there = OwnedStreams(SEEDS), OwnedStreams({})
    drawn(here, "a")
    there.put("mine", here.states("a"))
    assert drawn(there, "mine") == drawn(here, "a")
    assert here.have_drawn() == {"a"}


def test_streams_of_one_generator_follow_from_what_was_seeded_in_it_alone() -> None:
    found = []
    for _ in range(2):
        np.random.seed(9)
        found.append(drawn(OwnedStreams(seeds_from_caller()), "a"))
    assert found[0][1] == found[1][1]
    assert found[0][0] != found[1][0]


def test_an_owner_that_is_to_hold_still_and_draws_is_an_error() -> None:
    streams = OwnedStreams(SEEDS)
    streams.hold_still(True)
    with streams.of("a"):
        pass
    with pytest.raises(SharedRandomness, match="'a'"), streams.of("a"):
        random.random()


def test_what_threads_draw_where_streams_are_shielded_leaves_no_trace() -> None:
    shielded, plain = OwnedStreams(SEEDS), OwnedStreams(SEEDS)
    with shielded.of("a"):
        before = draw()
        with shielded.shielded():
            draw()
        after = draw()
    assert [before, after] == [drawn(plain, "a"), drawn(plain, "a")]
    with shielded.shielded():
        draw()
    assert shielded.have_drawn() == {"a"}
    shielded.hold_still(True)
    with pytest.raises(SharedRandomness), shielded.of("b"), shielded.shielded():
        draw()
