"""A run is continued only with the files that it was begun with."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from players import Meeting

import paceline
from paceline.catalog import find_policies
from paceline.evaluate import Report, evaluate
from paceline.evaluate.run import Run
from paceline.evaluate.sources import digests
from paceline.team import Player
from paceline.types import Mission

MEETING = Mission("meeting", Meeting, {"length": 3})
FILE = """
class Steady:
    def __init__(self, seat, weights=None):
        self.weights = weights

    def act(self, obs):
        return 1
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steady.py").write_text(FILE)
    (tmp_path / "net.pt").write_bytes(b"weights")
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    sys.modules.pop("steady", None)


def played(resume: bool = False) -> Report:
    """As a new process would play it: what was imported is imported anew."""
    sys.modules.pop("steady", None)
    importlib.invalidate_caches()
    return evaluate(MEETING, "steady.py:Steady,weights=net.pt,name=mine", plan=0, episodes=2, out="run", resume=resume)


def test_a_run_with_the_same_files_goes_on(desk: Path) -> None:
    digest = played().digest
    assert played(resume=True).digest == digest
    assert set(json.loads((desk / "run" / "plan.json").read_text())["files"]) >= {
        "steady.py of policy 'mine'",
        "net.pt of policy 'mine'",
    }


@pytest.mark.parametrize("name", ["steady.py", "net.pt"])
def test_a_file_that_has_changed_is_told(desk: Path, name: str) -> None:
    played()
    with (desk / name).open("a") as file:
        file.write("\n# another")
    with pytest.raises(
        paceline.BadInput, match=rf"{name} of policy 'mine' changed since the run in run was begun"
    ) as no:
        played(resume=True)
    assert "a new --out" in str(no.value)


def test_a_run_from_before_there_were_digests_goes_on(desk: Path) -> None:
    digest = played().digest
    plan = json.loads((desk / "run" / "plan.json").read_text())
    del plan["files"]
    (desk / "run" / "plan.json").write_text(json.dumps(plan))
    (desk / "net.pt").write_bytes(b"other weights")
    assert played(resume=True).digest == digest


def test_what_is_ours_or_installed_or_the_script_itself_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Local:
        pass

    monkeypatch.setattr(Local, "__module__", "__main__")
    players = [*find_policies(["random", "greedy"]), Player("local", Local), Player("built in", dict)]
    run = Run((Mission("json", json.loads),), tuple(players))
    assert digests(run) == {}


def test_the_module_behind_a_torch_policy_counts(desk: Path) -> None:
    (player,) = find_policies(["torch:steady.py:Steady,weights=net.pt"])
    found = digests(Run((MEETING,), (player,)))
    assert {name for name in found if "policy" in name} == {
        "steady.py of policy 'torch:steady.py:Steady'",
        "net.pt of policy 'torch:steady.py:Steady'",
    }


def test_a_run_whose_seats_were_planned_otherwise_is_not_continued(tmp_path: Path) -> None:
    evaluate(MEETING, ["random", "greedy:0"], plan=0, out=tmp_path)
    line = json.loads((tmp_path / "episodes.jsonl").read_text())
    line["seats"] = dict.fromkeys(line["seats"], "greedy")
    (tmp_path / "episodes.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(paceline.BadInput, match=r"meeting/0 in .* was played in other seats"):
        evaluate(MEETING, ["random", "greedy:0"], plan=0, out=tmp_path, resume=True)
