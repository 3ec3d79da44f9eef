"""Auto's choice follows from what the first rollouts took: checked without a clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.collect.clock import Clock
from paceline.collect.costs import Costs, choose

ANT = Costs(environment=300e-6, forward=200e-6, other=20e-6, steps=200, lanes=8)
POINT = Costs(environment=5e-6, forward=150e-6, other=15e-6, steps=60, lanes=8)


def test_dear_environments_go_to_workers_with_a_copy_each() -> None:
    choice = choose(ANT, 64, 2)
    assert (choice.workers, choice.forward) == (2, "worker")
    assert choice.why == (
        "a step takes 300 µs in its environment and a forward of 8 rows 200 µs; the 64 rollouts to go take 4.4 s here, "
        "2.5 s on 2 workers with a copy of the policy each, 4.7 s with the policy here; to start workers takes 300 ms: "
        "2 workers, a copy of the policy in each"
    )


def test_what_is_short_stays_here() -> None:
    choice = choose(POINT, 64, 2)
    assert choice.workers == 0
    assert choice.why.endswith("to start workers takes 300 ms: they are played here")


def test_more_workers_are_taken_if_they_are_quicker_and_no_more_than_there_are_rollouts() -> None:
    assert choose(ANT, 1000, 6).workers == 6
    assert choose(replace(ANT, steps=10_000), 3, 6).workers == 3


def test_a_policy_that_is_dear_to_build_stays_here_where_environments_are_dear() -> None:
    """A copy in each worker would be there when all is over."""
    choice = choose(replace(ANT, seating=20.0), 64, 4)
    assert (choice.workers, choice.forward) == (4, "here")
    assert choice.why.endswith("4 workers, the policy here")


def test_a_policy_that_cannot_be_sent_is_asked_here() -> None:
    assert choose(ANT, 640, 4, forwards=("here",)).forward == "here"


def test_what_workers_would_have_saved_before_counts() -> None:
    """One iteration does not pay for workers; many do."""
    short = choose(POINT, 64, 2)
    assert choose(POINT, 64, 2, foregone=10 * short.gain).workers == 2


def test_one_slot_or_one_rollout_is_played_here() -> None:
    assert choose(ANT, 1, 2).why.endswith("there is one to play at a time: they are played here")
    assert choose(ANT, 8, 1).why.endswith("there is one CPU slot: they are played here")


def test_lower_bounds_and_waiting_are_said() -> None:
    why = choose(replace(ANT, waits=True), 64, 8, more=True).why
    assert why.startswith("a step takes at least 300 µs in its environment and a forward of 8 rows 200 µs, most of it")


def test_costs_follow_from_a_clock() -> None:
    clock = Clock(environments=2.0, policy=1.0, seating=0.5, building=0.25, forwards=100, rows=800, wall=4.55)
    found = Costs.of(clock, 4, 8, steps=200, seating=0.5, waits=False, cold=0.4)
    assert found.environment == 2.0 / 800
    assert found.forward == 1.0 / 100
    assert found.other == pytest.approx(0.8 / 800)
    assert found.building == 0.25 / 4
    assert found.starting("worker") - found.starting("here") == pytest.approx(0.5)
    assert found.here(8) == pytest.approx(8 * (200 * (found.environment + found.other) + 0.0625) + 200 * found.forward)
