"""docs/evaluate.md has a table of everything that can be asked, for both ways to ask it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import typer.main

from paceline.cli.app import app
from paceline.evaluate import evaluate

DOCS = Path(__file__).parents[2] / "docs" / "evaluate.md"


def table() -> str:
    return DOCS.read_text(encoding="utf-8").partition("## Every parameter\n")[2].partition("\n## ")[0]


def test_every_parameter_and_every_flag_is_in_the_table() -> None:
    names = {row.split("|")[1].strip().strip("`") for row in table().splitlines() if row.startswith("|")}
    assert set(inspect.signature(evaluate).parameters) <= names
    command = typer.main.get_command(app).commands["eval"]  # type: ignore[attr-defined]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    written = set(re.findall(r"--?[a-z][a-z-]*", table()))
    assert known - written <= {"--save", "--help", "-h"}
    assert written <= known
