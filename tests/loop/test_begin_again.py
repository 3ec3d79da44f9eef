"""Rollouts that are begun again, tasks, and what the last step says."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from players import Counter, Meeting, Walk
from sketch_members import Hidden

from paceline import evaluate
from paceline.engine import Pool
from paceline.kinds import ONLY_AGENT
from paceline.rollout import Rollout, play
from paceline.team import Player, Setting, Team
from paceline.types import Mission, Task


class Born(Walk):
    """Counts how many of it were built, and how many closed."""

    lives: ClassVar[list[int]] = [0, 0]

    def __init__(self, length: int = 3) -> None:
        super().__init__(length)
        self.lives[0] += 1

    def close(self) -> None:
        self.lives[1] += 1


@pytest.fixture(autouse=True)
def _nobody_born() -> None:
    Born.lives[:] = [0, 0]


def played_twice(mission: Mission) -> list[str]:
    rollout = Rollout(mission)
    with Team.seated(rollout.seats(), [Player("counter", Counter)], [0], Setting(), ("walk", 0)) as team:
        digests = [play(rollout, team, 5).digest]
        team.begin({ONLY_AGENT: ("walk", 0)})
        digests.append(play(rollout, team, 5).digest)
    rollout.close()
    return digests


@pytest.mark.parametrize(("reuse", "built"), [(False, 2), (True, 1)])
def test_a_rollout_can_be_begun_again_and_is_as_new(reuse: bool, built: int) -> None:
    first, second = played_twice(Mission("walk", Born, reuse=reuse))
    assert first == second
    assert Born.lives == [built, built]


def test_an_environment_left_in_mid_play_is_not_trusted_though_it_may_be_reused() -> None:
    rollout = Rollout(Mission("walk", Born, reuse=True))
    rollout.begin(1)
    rollout.step({ONLY_AGENT: 0})
    rollout.begin(1)
    assert Born.lives == [2, 1]


def test_a_task_reaches_reset_and_the_next_play_has_its_own() -> None:
    rollout, lengths = Rollout(Mission("hidden", Hidden, reuse=True)), []
    for task in (Task("far", {"hidden": 1.0}), Task("near", {"hidden": 0.25}), None):
        rollout.begin(3, task)
        while not rollout.over:
            step = rollout.step({ONLY_AGENT: np.zeros(1, np.float32)})
        lengths.append(rollout.episode.steps)
        assert step.final_observations[ONLY_AGENT][0] == lengths[-1]
        assert step.observations == {}
    assert lengths == [8, 5, 4]


def test_the_last_step_says_who_was_cut_by_the_missions_limit() -> None:
    """The environment knows nothing of that limit; what learns from the step must."""
    rollout = Rollout(Mission("meeting", Meeting, {"agents": 2, "length": 50, "leave": {0: 2}}, steps=3))
    rollout.begin(0)
    steps = [rollout.step(dict.fromkeys(rollout.env.agents, 1)) for _ in range(3)]
    assert [sorted(step.final_observations) for step in steps] == [[], ["agent_0"], ["agent_1"]]
    assert steps[1].terminations == {"agent_0": True, "agent_1": False}
    assert steps[2].truncations == {"agent_1": True}
    assert rollout.episode.truncated


def test_two_missions_of_one_name_share_no_environment() -> None:
    """What may serve again is known by its recipe: a name says nothing of what `make` builds."""

    def lengths(_: Any) -> list[int]:
        found = []
        for length in (3, 5):
            rollout = Rollout(Mission("walk", lambda length=length: Walk(length), reuse=True))
            with Team.seated(rollout.seats(), [Player("counter", Counter)], [0], Setting(), ("walk", 0)) as team:
                found.append(play(rollout, team, 1).steps)
            rollout.close()
        return found

    with Pool([]) as pool:
        assert pool.map(lengths, [0]) == [[3, 5]]


def test_a_reused_environment_is_built_once_and_closed_in_the_end() -> None:
    report = evaluate(Mission("walk", Born, reuse=True), Counter, episodes=5, plan=0)
    assert not report.failures
    assert Born.lives == [1, 1]
