"""`paceline doctor TARGET`: is this env sendable, deterministic, dear, and which plan would be chosen for it?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from paceline.doctor import Diagnosis

_HELP = """Examine an env: is it sendable, deterministic, dear, and which plan would be chosen for it?

The env is built and played many times: twice here, in a new process, beside a twin, in pools.
Nothing is changed by it.

\b
Examples:
  paceline doctor CartPole-v1
  paceline doctor my_envs.py:make_env --steps 500
  paceline doctor my_package.envs:make_env --json
  paceline doctor my_games.py:parallel_env --seed 7
  paceline doctor treasure_hunt,agents=8
  paceline doctor sokoban,dim_x=8,dim_y=8
  paceline doctor text:my_worlds.py:MyTextEnv

\b
Exit codes:
  0  it is reproducible: the same seed gave the same trajectory however it was played
  1  it is not
  2  the target cannot be loaded, or is no env
"""

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor", help=_HELP)(doctor)


def doctor(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A Gymnasium id, a mission, a text environment, file.py:factory, or package.module:factory.",
        ),
    ],
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", help="How long each trajectory is.  [default: 200, or what takes two seconds]"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seeds the resets and the actions.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> None:
    """Examines one env and prints what was found."""
    from paceline.doctor import examine  # here, because the help does not need it

    with _stdout_kept_clean(), _progress() as progress:
        diagnosis = examine(target, steps=steps, seed=seed, progress=progress)
    if as_json:
        print(json.dumps(diagnosis.to_dict(), indent=2))
    else:
        _show(diagnosis)
    raise typer.Exit(0 if diagnosis.reproducible else 1)


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Sends what the env prints, from C too, to stderr: stdout is for the answer."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Shows what is being asked, on stderr, if somebody is there to read it."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("loading it") as status:
        yield status.update


def _show(diagnosis: Diagnosis) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    told = {""}
    for finding in diagnosis.findings:
        words = Text(finding.sentence)
        if finding.advice not in told:
            words.append(f"\n{finding.advice}", style="dim")
        told.add(finding.advice)
        table.add_row(Text(finding.verdict, style=_COLOURS[finding.verdict]), Text(finding.name), words)
    console = Console()
    console.print(Text(diagnosis.subject, style="bold"))
    console.print(table)
    console.print(Text(_conclusion(diagnosis), style=_COLOURS["ok" if diagnosis.reproducible else "problem"]))


def _conclusion(diagnosis: Diagnosis) -> str:
    if diagnosis.reproducible:
        return f"Reproducible: seed {diagnosis.seed} gave the same trajectory however it was played."
    if "again" not in diagnosis:
        return "Not reproducible: it could not be played."
    return f"Not reproducible: seed {diagnosis.seed} did not always give the same trajectory."
