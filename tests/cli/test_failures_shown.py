"""Failures for people: the user's own frames, who failed and when, and where to read the rest."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from players import CannotBeBuilt, Counter, Harms, Meeting
from rich.console import Console

import paceline
from paceline.cli._failures import own_frames, show_failures, told
from paceline.evaluate import Report, evaluate
from paceline.team import Player
from paceline.types import Episode, Failure, Mission

OURS = Path(paceline.__file__).parent / "engine" / "host.py"
MEETING = Mission("meeting", Meeting, {"length": 6})


def shown(report: Report) -> str:
    page = io.StringIO()
    show_failures(Console(file=page, width=60, soft_wrap=True), report)
    return page.getvalue()


@pytest.mark.parametrize("agents", ["off", "process"])
def test_only_frames_of_the_user_are_shown(agents: str, tmp_path: Path) -> None:
    harms = Player("harms", partial(Harms, at=3, agent="agent_1"))
    text = shown(evaluate(MEETING, harms, plan=0, agents=agents, out=tmp_path))
    assert "meeting/0 (seed 0, agent agent_1, policy harms, step 2): Stumble: the policy has stumbled #7" in text
    assert ", in harm\n" in text
    assert str(OURS.parents[1]) not in text
    assert "in member" not in text
    assert "RemoteTraceback" not in text
    assert f"full tracebacks: {tmp_path / 'episodes.jsonl'}" in text
    assert "engine" in (tmp_path / "episodes.jsonl").read_text()  # there is everything


def test_a_lost_worker_is_told_as_an_episode_with_who_was_being_asked() -> None:
    dies = Player("dies", partial(Harms, how="exit"))
    report = evaluate(MEETING, dies, plan=1, agents="off")
    text = shown(report)
    assert (
        "meeting/0 (seed 0, agent agent_0, policy dies, step 3): WorkerLost: the episode lost its worker in 3" in text
    )
    assert "item" not in text
    assert not any("mapped function" in note for note in report.notes)


def test_where_nothing_is_kept_the_output_says_so() -> None:
    assert "full tracebacks are kept without --no-save" in shown(evaluate(MEETING, CannotBeBuilt, plan=0))
    assert shown(evaluate(MEETING, Counter, plan=0)) == ""


def test_frames_of_a_chain_stay_in_order() -> None:
    text = f"""Traceback (most recent call last):
  File "{OURS}", line 3, in run
    function()
  File "/home/me/mine.py", line 5, in act
    look()
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/me/mine.py", line 7, in act
    raise ValueError("second")
ValueError: second
in member 0 (key ('m', 0)), act()
"""
    lines = own_frames(text).splitlines()
    assert "KeyError: 'first'" in lines
    assert lines[-1] == "ValueError: second"
    assert not any("host.py" in line or "function()" in line for line in lines)
    assert (
        own_frames(f'Traceback (most recent call last):\n  File "{OURS}", line 3, in run\n    f()\nBadInput: no') == ""
    )


def test_a_timeout_of_one_agent_keeps_its_step() -> None:
    lost = Episode("m", 2, 2, failure=Failure("CallTimeout", "too slow", "a", "p", 4))
    assert told(lost) == "m/2 (seed 2, agent a, policy p, step 4): CallTimeout: too slow"


def test_escape_sequences_do_not_reach_the_terminal() -> None:
    failure = Failure("Oops", "\x1b]0;gotcha\x07 and \x1b[2J\nnext", traceback='  File "own.py", line 1\n    \x1b[2J\n')
    episode = Episode("m", 0, 0, failure=failure)
    assert told(episode) == "m/0 (seed 0, step 0): Oops: \\x1b]0;gotcha\\x07 and \\x1b[2J\nnext"
    assert "\x1b" not in own_frames(failure.traceback)
