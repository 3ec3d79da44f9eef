"""`paceline rerun`: plays one episode or rollout of a run again, and compares."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from paceline.collect import Recording
    from paceline.types import Failure

_SHOWN = 4
_HELP = """Play one episode or rollout of a run again, and compare it with what is on disk.

An episode is played in a worker, with the deadlines of the run; a rollout here, unless its worker was lost with it.

\b
Examples:
  paceline rerun runs/eval-20260101-120000 forage/3
  paceline rerun runs/collect-20260101-120000 7

\b
Exit codes:
  0  it came out the same
  1  it did not
  2  there is no such run, or no such episode or rollout
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("rerun", help=_HELP)(rerun)


def rerun(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The results of `paceline eval` or `paceline collect`.")
    ],
    which: Annotated[str, typer.Argument(metavar="MISSION/EPISODE|INDEX", help="Which episode, or which rollout.")],
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run the code that it names, wherever it is from, and if it has changed."),
    ] = False,
) -> int:
    """Plays it, and says whether it is the same."""
    from paceline.cli._running import whole
    from paceline.cli._trust import check_trusted
    from paceline.collect.store import JOB

    directory = whole(directory)
    plan, home = check_trusted(directory, trust, changed=True)
    again = _rollout_again if plan.get("job") == JOB else _episode_again
    return again(directory, plan, which, home)


def _rollout_again(directory: Path, plan: Mapping[str, Any], index: str, home: Path) -> int:
    from paceline.cli._collecting import asked_before, replayed
    from paceline.collect.store import read_rollout

    before = read_rollout(directory, index)
    asked = asked_before(directory, plan, home)
    now, files = replayed(asked, before)
    for name, rollout in (("on disk", before), ("now", now)):
        print(f"{name:8} {rollout.digest}  {_rollout(rollout)}")
    same = before.digest == now.digest
    return _verdict(plan, [] if same else ["the digest differs"], now.failure, files)


def _rollout(rollout: Recording) -> str:
    if rollout.failure is not None:
        return f"rollout {rollout.index}: {rollout.failure.kind}: {rollout.failure.message}"
    returns = [f"{value:g}" for value in rollout.returns]
    shown = ", ".join(returns[:_SHOWN]) + (f" … {len(returns)} episodes" if len(returns) > _SHOWN else "")
    return f"{rollout.steps} steps, returns {shown}"


def _episode_again(directory: Path, plan: Mapping[str, Any], episode: str, home: Path) -> int:
    from paceline.cli._asking import asked_before
    from paceline.cli._failures import told
    from paceline.errors import NotSendable
    from paceline.evaluate import rerun as play_again
    from paceline.evaluate import unlike
    from paceline.evaluate.sources import digests

    asked = asked_before(directory, plan, {}, home)
    deadlines = {"call": None, "episode": None, **_deadlines(directory, plan)}
    run = asked.run(asked.setting("off" if deadlines["call"] is None else "process", deadlines["call"]))
    try:
        before, now = play_again(run, directory, episode, deadlines["episode"])
    except NotSendable as error:
        print(f"note: {error.args[0].partition('. ')[0]}: played in this process", file=sys.stderr)
        before, now = play_again(run, directory, episode, here=True)
    for name, record in (("on disk", before), ("now", now)):
        what = told(record) if record.failure else f"{record.steps} steps, rewards {_rewards(record.rewards)}"
        print(f"{name:8} {record.digest}  {what}")
    return _verdict(plan, unlike(before, now), now.failure, digests(run))


def _deadlines(directory: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """The seconds that an episode, and a call, of the run may take; a run of an older release does not say."""
    from paceline.errors import BadInput
    from paceline.run import Seconds, checked

    found = plan.get("deadlines", {})
    if not isinstance(found, dict):
        raise BadInput(f"{directory / 'plan.json'} is damaged: deadlines is {found!r:.60}; begin afresh elsewhere")
    for name, seconds in found.items():
        checked(f"the deadline {name!r} in {directory / 'plan.json'}", Seconds | None, seconds)
    return found


def _verdict(plan: Mapping[str, Any], unlike: list[str], failure: Failure | None, files: dict[str, str]) -> int:
    from paceline.cli._terminal import harmless
    from paceline.records import changed

    if failure is not None and failure.traceback:
        print(harmless(failure.traceback), file=sys.stderr)
    for file in changed(plan, files):
        print(f"{file} has changed since the run was begun")
    for difference in unlike[:_SHOWN]:
        print(difference)
    if len(unlike) > _SHOWN:
        print(f"… and {len(unlike) - _SHOWN} more")
    print("NOT the same" if unlike else "the same")
    return 1 if unlike else 0


def _rewards(rewards: dict[str, float]) -> str:
    shown = ", ".join(f"{agent} {reward:g}" for agent, reward in list(rewards.items())[:_SHOWN])
    return shown + (f" … {len(rewards)} agents" if len(rewards) > _SHOWN else "")
