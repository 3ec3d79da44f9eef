"""Those who act are rebuilt after a death as they were."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from train_members import Counts, Falls, Field

from paceline import Mission, Plan, train

FIELD = Mission("field", Field)


def test_one_who_acts_and_is_killed_after_some_versions_costs_no_bit(tmp_path: Path) -> None:
    mark, plan = tmp_path / "mark", Plan("inline", 1, agents="process")
    killed = train(FIELD, partial(Falls, mark), epochs=12, seed=3, plan=plan)
    assert mark.exists()
    assert killed.digest == train(FIELD, Counts, epochs=12, seed=3, plan="inline").digest
