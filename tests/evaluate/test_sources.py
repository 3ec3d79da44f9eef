"""A run is continued only with the files that it was begun with."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from players import Meeting

import paceline
from paceline.catalog import find_policies
from paceline.evaluate import Report, evaluate
from paceline.evaluate.run import Run
from paceline.evaluate.sources import digests
from paceline.team import Player
from paceline.types import Episode, Mission, Seat

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
    del plan["files"], plan["check"]
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
    del line["check"]
    (tmp_path / "episodes.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(paceline.BadInput, match=r"meeting/0 in .* was played in other seats"):
        evaluate(MEETING, ["random", "greedy:0"], plan=0, out=tmp_path, resume=True)


class Says:
    """Says one thing."""

    def __init__(self, seat: Any, what: int = 1, mood: Any = None) -> None:
        self.what = what

    def act(self, obs: Any) -> int:
        return self.what


def saying(what: int) -> Callable[[Seat], Any]:
    return lambda seat: Says(seat, what)


def interrupted(policy: Any, out: Path, mission: Mission = MEETING) -> None:
    """Two of four episodes."""

    def stop(episode: Episode, done: int, of: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(mission, policy, plan=0, episodes=4, out=out, watcher=stop)


@pytest.mark.parametrize(
    ("begun", "asked", "told"),
    [
        (partial(Says, what=1), partial(Says, what=2), "what of policy '.*' was 1, and is 2"),
        (partial(Says, what=1), partial(Says, what=1, mood=2), "mood of policy '.*' was not given, and is 2"),
        (saying(1), saying(2), "closure what of policy '<lambda>' was 1, and is 2"),
        (lambda seat: Says(seat, 1), lambda seat: Says(seat, 2), "code of policy '<lambda>' was Python .*, and is Py"),
        (Player("it", Says), Player("it", partial(Says, what=1)), "what of policy 'it' was not given, and is 1"),
    ],
)
def test_a_run_is_not_continued_with_another_policy(tmp_path: Path, begun: Any, asked: Any, told: str) -> None:
    """One report held the rewards of two policies."""
    interrupted(begun, tmp_path)
    with pytest.raises(paceline.BadInput, match=rf"holds another run: {told}.*\. Give what .* \(a new --out"):
        evaluate(MEETING, asked, plan=0, episodes=4, out=tmp_path, resume=True)
    assert len((tmp_path / "episodes.jsonl").read_text().splitlines()) == 2
    whole = evaluate(MEETING, begun, plan=0, episodes=4)
    report = evaluate(MEETING, begun, plan=0, episodes=4, out=tmp_path, resume=True)
    assert report.digest == whole.digest
    assert report.notes == []


def test_a_run_is_not_continued_with_another_env(tmp_path: Path) -> None:
    interrupted("random", tmp_path, Mission("meeting", partial(Meeting, length=3)))
    other = Mission("meeting", partial(Meeting, length=4))
    with pytest.raises(paceline.BadInput, match="length of mission 'meeting' was 3, and is 4"):
        evaluate(other, "random", plan=0, episodes=4, out=tmp_path, resume=True)


def test_what_cannot_be_compared_is_said_once(tmp_path: Path) -> None:
    policy = partial(Says, mood=np.random.default_rng())
    interrupted(policy, tmp_path)
    report = evaluate(MEETING, policy, plan=0, episodes=4, out=tmp_path, resume=True)
    (note,) = report.notes
    assert note.startswith("resume cannot tell whether this has changed: mood (numpy.random")


def test_a_run_from_before_there_were_fingerprints_goes_on_and_says_so(tmp_path: Path) -> None:
    interrupted(partial(Says, what=1), tmp_path)
    plan = json.loads((tmp_path / "plan.json").read_text())
    del plan["recipes"], plan["check"]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    report = evaluate(MEETING, partial(Says, what=2), plan=0, episodes=4, out=tmp_path, resume=True)
    (note,) = report.notes
    assert "begun by an older release" in note


def test_options_are_known_by_what_they_are(tmp_path: Path) -> None:
    """The text of a function holds its address, and that of a set its accidental order."""
    mission = Mission("meeting", meeting, {"chosen": {"a", "b"}, "how": lambda: 1})
    interrupted("random", tmp_path, mission)
    again = Mission("meeting", meeting, {"chosen": {"b", "a"}, "how": lambda: 1})
    assert evaluate(again, "random", plan=0, episodes=4, out=tmp_path, resume=True).complete


def meeting(chosen: Any, how: Any) -> Any:
    return Meeting(length=3)
