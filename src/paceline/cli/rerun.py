"""`paceline rerun`: plays one episode of a run again, and compares."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

_HELP = """Play one episode of a run again, here, and compare it with what is on disk.

\b
Examples:
  paceline rerun runs/eval-20260101-120000 forage/3

\b
Exit codes:
  0  it came out the same
  1  it did not
  2  there is no such run, or no such episode
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("rerun", help=_HELP)(rerun)


def rerun(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The results of `paceline eval`.")],
    episode: Annotated[str, typer.Argument(metavar="MISSION/EPISODE", help="Which episode.")],
) -> int:
    """Plays it, and says whether it is the same."""
    from paceline.cli._asking import asked_before
    from paceline.cli._failures import told
    from paceline.evaluate import rerun as play_again
    from paceline.evaluate.sources import digests
    from paceline.records import changed, read_plan

    directory = directory.resolve()
    asked = asked_before(directory, {})
    run = asked.run(asked.setting())
    before, now = play_again(run, directory, episode)
    for name, record in (("on disk", before), ("now", now)):
        what = told(record) if record.failure else f"{record.steps} steps, rewards {_rewards(record.rewards)}"
        print(f"{name:8} {record.digest}  {what}")
    if now.failure is not None and now.failure.traceback:
        print(now.failure.traceback, file=sys.stderr)
    for file in changed(read_plan(directory), digests(run)):
        print(f"{file} has changed since the run was begun")
    same = before.digest == now.digest
    print("the same" if same else "NOT the same")
    return 0 if same else 1


def _rewards(rewards: dict[str, float]) -> str:
    shown = ", ".join(f"{agent} {reward:g}" for agent, reward in list(rewards.items())[:4])
    return shown + (f" … {len(rewards)} agents" if len(rewards) > 4 else "")
