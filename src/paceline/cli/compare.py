"""`paceline compare`: two runs on the same seeds."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

_HELP = """Compare two runs, episode by episode on the same seeds: difference, 95 % interval, win rate.

\b
Examples:
  paceline eval -m forage -p greedy -e 50 --out runs/a
  paceline eval -m forage -p memory -e 50 --out runs/b
  paceline compare runs/a runs/b
  paceline compare runs/a runs/b --policy-a greedy --policy-b memory --json

Missions of one name must have been played with the same options and steps; --anyway compares them all the same.
"""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compare", help=_HELP)(compare)


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="The results of a run.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The results of another run.")],
    policy_a: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose seats count in A.  [default: all]")
    ] = None,
    policy_b: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose seats count in B.  [default: all]")
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare missions of one name though their options or steps differ.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Prints how B did against A."""
    from paceline.cli._tables import show_comparison
    from paceline.evaluate import compare as compare_reports
    from paceline.evaluate.report import plain
    from paceline.evaluate.store import read_report

    left, right = read_report(a), read_report(b)
    for note in (*left.notes, *right.notes):
        print(f"note: {note}", file=sys.stderr)
    found = compare_reports(left, right, policy_a, policy_b, anyway=anyway)
    if as_json:
        rows = [{**asdict(each), "win_rate": each.win_rate, "clear": each.clear} for each in found]
        print(json.dumps(plain({"a": str(a), "b": str(b), "missions": rows})))
    else:
        show_comparison(found, str(a), str(b))
    return 0
