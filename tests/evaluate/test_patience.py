"""What auto counts as the cost of an episode; how many workers are used of those that were asked for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from players import Counter, Meeting

from paceline.engine import Plan
from paceline.engine.planning.budget import WORKER_BYTES, Budget
from paceline.evaluate import evaluate, given
from paceline.evaluate.given import affordable
from paceline.schedule import Patience, _cost
from paceline.team import Player
from paceline.types import Mission

MEETING = Mission("meeting", Meeting, {"length": 3})


class LoadsLate(Counter):
    """Loads its model when it is first asked, once in a process: longer than auto waits for an episode."""

    loaded = False

    def act(self, obs: Any) -> Any:
        if not LoadsLate.loaded:
            time.sleep(0.6)
            LoadsLate.loaded = True
        return super().act(obs)


def test_to_load_is_not_to_play(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted as the cost of an episode it would look as if workers paid; and the first episode would be lost."""
    monkeypatch.setattr(LoadsLate, "loaded", False)
    monkeypatch.setattr("paceline.engine.planning.budget._current", Budget(slots=4, memory=2**34))
    report = evaluate(MEETING, Player("loads", LoadsLate), episodes=6, agents="off")
    assert report.plan["backend"] == "inline", report.plan
    assert report.digest == evaluate(MEETING, Player("loads", LoadsLate), episodes=6, plan=0).digest


def test_the_clock_starts_with_the_first_action() -> None:
    patience = Patience(0.0)
    assert (patience.wall, patience.cpu, patience.over) == (0.0, 0.0, False)
    patience.begin()
    time.sleep(0.002)
    assert patience.over
    since = patience.wall
    patience.begin()
    assert patience.wall >= since


def test_what_an_episode_takes() -> None:
    assert _cost([0.3]) == 0.3
    assert _cost([0.001, 0.2, 0.4]) == pytest.approx(0.3)  # those after the first are built in that time too


@pytest.mark.parametrize(
    ("plan", "workers", "why"),
    [
        (Plan("process", 100_000), 8, "100000 were asked for, and there are 8 to play"),
        (Plan("process", 8), 8, "as asked"),
        (Plan("inline", 1), 1, "as asked"),
        (Plan("auto"), None, "as asked"),
        (Plan("thread", 9), 8, "9 were asked for, and there are 8 to play"),
    ],
)
def test_no_more_workers_than_episodes(plan: Plan, workers: int | None, why: str) -> None:
    assert (affordable(plan, 8).workers, affordable(plan, 8).why) == (workers, why)


def test_no_more_workers_than_memory_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "current_budget", lambda: Budget(slots=2, memory=3 * WORKER_BYTES))
    assert affordable(Plan("process", 50), 100).workers == 3
    assert affordable(Plan("process", 50), 100).why == "50 were asked for, and memory has room for 3"


def test_the_report_says_how_many_are_used(tmp_path: Path) -> None:
    report = evaluate(MEETING, Counter, episodes=2, plan=100_000, agents="off", out=tmp_path)
    assert report.plan["workers"] == 2
    assert report.plan["why"] == "100000 were asked for, and there are 2 to play"
