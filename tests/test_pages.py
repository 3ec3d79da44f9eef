"""README and the pages of docs/: what they show runs, and gives what they say it gives.

The Python blocks of a page, in their order, are one program: a later block may use what an earlier one has made. Where
a block says `print(value)  # text`, that text must be printed. A digest under a command is what the command gives.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = {"console", "text", "yaml"}

# mettagrid has no wheels for Python 3.13.
WITHOUT_MODULES = set() if sys.version_info < (3, 13) else {"mettagrid.md"}


def blocks(page: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Language, number of the first line (from 0), and lines of every block."""
    language, begin = None, 0
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("```"):
            continue
        if language is None:
            language, begin = line.strip().removeprefix("```"), number + 1
        else:
            yield language, begin, lines[begin:number]
            language = None
    assert language is None, f"{page.name}: the block of line {begin} has no end"


def program(page: Path) -> str:
    """The Python blocks, each on the lines that it has in the page: a traceback then names them."""
    lines: list[str] = []
    for language, begin, block in blocks(page):
        if language == "python":
            lines += [""] * (begin - len(lines)) + block
    return "\n".join(lines) + "\n" if lines else ""


def run(command: list[str], home: Path) -> list[str]:
    """The lines that it prints."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    """A block of another spelling of Python would be skipped without a word."""
    for language, begin, _ in blocks(page):
        assert language in {"python", *NOT_RUN}, f"{page.name}, line {begin}: {language or 'no language'}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if program(page) and page.name not in WITHOUT_MODULES], ids=lambda page: page.name
)
def test_the_python_of_a_page_runs_and_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    script = tmp_path / f"page_{page.stem}.py"  # "mettagrid.py" would be imported in place of the package
    script.write_text(program(page), encoding="utf-8")
    printed = iter(run([sys.executable, script.name], tmp_path))
    said = re.findall(r"^ *print\(.*\)  # (.+)$", program(page), re.MULTILINE)
    missing = [line for line in said if line not in printed]  # looks on from where the last one was found
    assert not missing


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "SECURITY.md", ROOT / "benchmarks" / "README.md"], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(there), f"{page.name}: {target}"


def digests() -> Iterator[tuple[str, str]]:
    """Arguments of `paceline`, and the digest that is shown under them."""
    for page in PAGES:
        for language, _, block in blocks(page):
            command = ""
            for line in block if language == "console" else ():
                if line.startswith("$ "):
                    command = line.partition("paceline ")[2]
                elif line.startswith("digest:"):
                    yield command, line.split()[1]


@pytest.mark.parametrize(("command", "digest"), [pytest.param(*shown, id=shown[0]) for shown in digests()])
def test_a_command_gives_the_digest_that_is_shown_under_it(command: str, digest: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    printed = run([sys.executable, "-m", "paceline", *shlex.split(command)], tmp_path)
    assert [line.split()[1] for line in printed if line.startswith("digest:")] == [digest]
