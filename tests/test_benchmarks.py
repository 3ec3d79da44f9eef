"""Benchmarks are run seldom: each is loaded here, and what a moment is enough for is run, at its smallest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

_LOAD = """
import runpy, sys
sys.path = [*(place for place in sys.path if place), "."]  # last: one bears the name of a package that it needs
for name in sys.argv[1:]:
    runpy.run_path(name, run_name="loaded")
print(len(sys.argv[1:]))
"""

_RUN = """
from dataclasses import replace
from engine import MEASURES, QUICK
from quiet import Quiet

if __name__ == "__main__":
    sizes = replace(QUICK, seconds=0.01, rounds=1, pairs=1, block=0.005, faults=1)
    print(*(len(list(MEASURES[name](Quiet(), sizes))) for name in ("trips", "safety", "trace", "imports", "faults")))
"""


_RUN_OF_A_JOB = """
import importlib, json, sys
from dataclasses import replace
from quiet import Quiet

if __name__ == "__main__":
    name, sizes, *measures = sys.argv[1:]
    module = importlib.import_module(name)
    sizes = replace(module.QUICK, **json.loads(sizes))
    print(*(len(list(module.MEASURES[measure](Quiet(), sizes))) for measure in measures))
"""

JOBS = [
    ("evaluate", {"rounds": 1, "waiting_steps": 2, "steps": 4}, ["waiting", "heavy", "batch"], "2 1 1"),
    (
        "groups",
        {"rounds": 1, "rooms": 4, "turns": 1, "cheap": 4, "seconds": 0.01},
        ["rooms", "cheap", "memory"],
        "1 3 3",
    ),
    ("grid", {"rounds": 1, "turns": 4}, ["windows"], "2"),
    ("collect", {"rounds": 1, "points": 2, "iterations": 1}, ["weights"], "2"),
]


def run(code: str, *arguments: str) -> str:
    """In an interpreter of its own: what benchmarks import, and set, is not for the tests."""
    path = os.pathsep.join(place for place in sys.path if place)
    child = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=BENCHMARKS,
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout.strip()


def test_every_benchmark_can_be_loaded() -> None:
    """But the one that is run in the environment of its peer, and those whose package is not for this Python."""
    absent = {"train_benchmarl.py"}
    if sys.version_info >= (3, 13):
        absent |= {"mettagrid.py", "mettagrid_crowd.py"}
    names = sorted(str(path) for path in BENCHMARKS.glob("*.py") if path.name not in absent)
    assert run(_LOAD, *names) == str(len(names))


def test_what_the_engine_costs_can_still_be_measured() -> None:
    """But what takes long at any size: `start`, which starts interpreters and many workers, and `endurance`."""
    assert run(_RUN) == "5 7 1 2 4"


@pytest.mark.parametrize(("job", "sizes", "measures", "rows"), JOBS, ids=[job[0] for job in JOBS])
def test_what_jobs_cost_can_still_be_measured(
    job: str, sizes: dict[str, float], measures: list[str], rows: str
) -> None:
    assert run(_RUN_OF_A_JOB, job, json.dumps(sizes), *measures).splitlines()[-1] == rows
