"""Files about the project that say a thing twice: they agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_looks_before_a_commit_are_those_of_check() -> None:
    """Each hook is a line of ./check, by the tools of the environment that it makes."""
    commands = re.findall(r'^ +"\$venv/bin/(.+?)"(.*)$', (ROOT / "check").read_text(encoding="utf-8"), re.MULTILINE)
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == [f".venv/bin/{tool}{words}" for tool, words in commands]
    assert all(repo["repo"] == "local" for repo in read(".pre-commit-config.yaml")["repos"])


def test_the_workflow_runs_check_on_every_python_that_is_named() -> None:
    jobs = read(".github/workflows/check.yml")["jobs"]
    assert [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step] == ["./check .venv"] * 2
    named = [word.rpartition(" ")[2] for word in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", word)]
    assert jobs["newest"]["strategy"]["matrix"]["python"] == named


def test_the_citation_is_of_this_version() -> None:
    cited = read("CITATION.cff")
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert [author["name"] for author in cited["authors"]] == [author["name"] for author in PROJECT["authors"]]


def test_constraints_pin_what_is_needed_and_what_is_pinned() -> None:
    """One version each, by no address, of every package that the project and its tests name."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+", line) for line in lines), lines
    versions = dict(line.split("==") for line in lines)
    known = {re.sub(r"[-_.]+", "-", name).lower() for name in versions}
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    assert {re.match(r"[\w-]+", each).group().lower().replace("_", "-") for each in needed} <= known  # type: ignore[union-attr]
    assert {each for each in needed if "==" in each} <= set(lines)
