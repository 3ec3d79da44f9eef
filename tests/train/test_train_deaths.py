"""Those who act and learn are rebuilt after a death as they were; those that die of every try are given up."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from train_members import Counts, Doomed, Falls, Field, Hangs

import paceline
from paceline import Mission, Plan, train
from paceline.seeds import digest

FIELD = Mission("field", Field)


def test_one_who_acts_and_is_killed_after_some_versions_costs_no_bit(tmp_path: Path) -> None:
    mark, plan = tmp_path / "mark", Plan("inline", 1, agents="process")
    killed = train(FIELD, partial(Falls, mark), epochs=12, seed=3, plan=plan)
    assert mark.exists()
    assert killed.digest == train(FIELD, Counts, epochs=12, seed=3, plan="inline").digest


def test_an_update_that_kills_its_process_whenever_it_runs_freezes_its_agent() -> None:
    """The others become what they become beside a sound agent; without freeze the error names the update."""
    asked = {"mission": FIELD, "learners": Doomed, "epochs": 6, "seed": 3, "plan": Plan("process", 3)}
    with pytest.raises(paceline.WorkerLost) as found:
        train(**asked)
    assert "in update 2 of agent 'agent_1'" in found.value.__notes__
    frozen = train(**asked, on_failure="freeze")
    sound = train(FIELD, Counts, epochs=6, seed=3, plan="inline")
    mine = [update.status for update in frozen.updates if update.agent == "agent_1"]
    assert mine == ["run", "run", "failed", "skipped", "skipped", "skipped"]
    assert {agent: failure.kind for agent, failure in frozen.frozen.items()} == {"agent_1": "WorkerLost"}
    for agent in ("agent_0", "agent_2"):
        assert digest(frozen.weights[agent]) == digest(sound.weights[agent])


def test_an_update_that_never_ends_is_ended_at_its_deadline() -> None:
    """Others may be slower than that, too, on a machine that is busy: nothing is said of them."""
    plan = Plan("process", 3)
    ended = train(FIELD, Hangs, epochs=4, seed=3, plan=plan, on_failure="freeze", deadline=1.5)
    assert ended.frozen["agent_1"].kind == "CallTimeout"


@pytest.mark.parametrize("plan", ["inline", "thread", 0], ids=str)
def test_a_deadline_needs_processes(plan: str | int) -> None:
    """A thread cannot be ended; that is told before anything starts."""
    with pytest.raises(paceline.BadInput, match=r"deadline=2: an update can be ended in a process only"):
        train(FIELD, Counts, epochs=2, deadline=2, plan=plan)
