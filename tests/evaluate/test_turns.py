"""More policies than seats: they take turns, planned before anything runs."""

from __future__ import annotations

from collections import Counter as Tally

import pytest
from players import Counter, Meeting, NoSeat, Rows

from paceline.evaluate import Report, evaluate
from paceline.team import Player
from paceline.types import Mission

TWO = Mission("two", Meeting, {"agents": 2, "length": 4})
FOUR_PLAYERS = [Player("a", Rows, 3), Player("b", Counter), Player("c", NoSeat), Player("d", Rows)]


def played(episodes: int = 6, plan: int | str = 0, agents: str = "off", lanes: int = 8) -> Report:
    return evaluate(TWO, FOUR_PLAYERS, episodes=episodes, plan=plan, agents=agents, lanes=lanes)


def seatings(report: Report) -> list[dict[str, str]]:
    return [episode.seats for episode in report.episodes]


def test_everybody_sits_by_proportion() -> None:
    report = played()
    assert Tally(policy for seats in seatings(report) for policy in seats.values()) == {"a": 6, "b": 2, "c": 2, "d": 2}
    assert any("two has 2 seats for 4 policies: they take turns" in note for note in report.notes)
    assert {score.policy: score.reward.count for score in report.scores()} == {
        policy: sum(policy in seats.values() for seats in seatings(report)) for policy in "abcd"
    }


def test_an_episode_does_not_depend_on_how_many_follow() -> None:
    assert seatings(played(3)) == seatings(played(6))[:3]
    assert [episode.digest for episode in played(3).episodes] == [e.digest for e in played(6).episodes[:3]]


@pytest.mark.parametrize("lanes", [1, 3, 8])
def test_the_same_wherever_it_is_played(lanes: int) -> None:
    """In cohorts too, where a batch has two rows of one episode, and one of the next."""
    places = [(2, "off"), (0, "gpu"), (0, "process")]
    assert {played(plan=plan, agents=agents, lanes=lanes).digest for plan, agents in places} == {
        played(lanes=lanes).digest
    }


def test_who_never_sits_is_still_mentioned() -> None:
    report = played(1)
    assert any("c, d never play there" in note for note in report.notes), report.notes
