"""The directory of a run: what is damaged in it is told in words."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline import BadInput
from paceline.errors import NotKept
from paceline.records import PLAN, Records, begin_run, read_lines, read_plan

ASKED = {"identity": {"seed": 1, "policy": {"model": "m", "top_p": 0.5}}, "files": {"a.py": "1"}}


@pytest.mark.parametrize("written", ["[]", "3", "null", '{"identity": 3}', '{"identity": {}, "files": []}'])
def test_a_plan_that_is_none_is_told(tmp_path: Path, written: str) -> None:
    (tmp_path / PLAN).write_text(written)
    with pytest.raises(BadInput, match=r"plan\.json is damaged"):
        read_plan(tmp_path)
    with pytest.raises(BadInput, match=r"plan\.json is damaged"):
        Records(tmp_path, "lines.jsonl", ASKED, resume=True)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"seed": 2}, "there seed is 1, and here 2; ask for the same again, or begin afresh"),
        ({"policy": {"model": "m", "top_p": 0.9}}, r"there policy\.top_p is 0\.5, and here 0\.9"),
        ({"policy": {"model": "m"}}, r"there policy\.top_p is 0\.5, and here None"),
        ({"policy": "random"}, "and here 'random'"),
        ({"more": 1}, "there more is None, and here 1"),
    ],
)
def test_what_differs_is_told_by_its_name(tmp_path: Path, asked: dict[str, object], told: str) -> None:
    Records(tmp_path, "lines.jsonl", ASKED).close()
    Records(tmp_path, "lines.jsonl", ASKED, resume=True).close()
    with pytest.raises(BadInput, match=told):
        Records(tmp_path, "lines.jsonl", {"identity": {**ASKED["identity"], **asked}}, resume=True)


# -- what is on disk is checked ------------------------------------------------------------------------------


def written(path: Path, *lines: dict[str, Any]) -> Path:
    records = Records(path, "lines.jsonl", ASKED)
    for line in lines:
        records.add(line)
    records.close()
    return path / "lines.jsonl"


def test_a_line_comes_back_as_it_was_without_its_check(tmp_path: Path) -> None:
    line = {"reward": 0.1, "none": None, "who": {"ä": [1, 2.5e300, True]}}
    assert read_lines(written(tmp_path, line)) == [line]


@pytest.mark.parametrize(("before", "after"), [("3.5", "253.5"), ('"agent"', '"ag\xdfnt"'), ("}", "")])
def test_a_line_that_was_changed_is_refused_with_what_to_do(tmp_path: Path, before: str, after: str) -> None:
    lines = written(tmp_path, {"reward": 3.5, "who": "agent"})
    lines.write_bytes(lines.read_text().replace(before, after).encode("latin-1"))
    with pytest.raises(BadInput, match=r"lines\.jsonl, line 1 is damaged .*; remove that line, and --resume"):
        read_lines(lines)
    with pytest.raises(BadInput, match="line 1 is damaged"):
        Records(tmp_path, "lines.jsonl", ASKED, resume=True)


def test_lines_nested_beyond_reason_are_damaged(tmp_path: Path) -> None:
    lines = written(tmp_path)
    lines.write_text("[" * 100_000 + "\n")
    with pytest.raises(BadInput, match="line 1 is damaged"):
        read_lines(lines)


def test_lines_of_older_releases_are_read_with_one_note(tmp_path: Path) -> None:
    lines = written(tmp_path)
    lines.write_text('{"reward": 1}\n{"reward": 2}\n')
    records = Records(tmp_path, "lines.jsonl", ASKED, resume=True)
    records.add({"reward": 3})
    records.close()
    (note,) = records.notes
    assert note.startswith("2 lines of ")
    assert "carry no check" in note
    assert [line["reward"] for line in read_lines(lines)] == [1, 2, 3]


def test_a_line_that_lost_its_check_is_damaged(tmp_path: Path) -> None:
    lines = written(tmp_path, {"reward": 1})
    lines.write_text(lines.read_text() + '{"reward": 2}\n')
    with pytest.raises(BadInput, match="line 2 is damaged"):
        read_lines(lines)


def test_a_plan_that_was_changed_is_refused(tmp_path: Path) -> None:
    begin_run(tmp_path, ASKED)
    plan = (tmp_path / PLAN).read_text()
    (tmp_path / PLAN).write_text(plan.replace('"seed": 1', '"seed": 7'))
    with pytest.raises(BadInput, match=r"plan\.json is damaged: it is not what was written"):
        read_plan(tmp_path)
    (tmp_path / PLAN).write_text(json.dumps(ASKED))  # as older releases wrote it
    assert read_plan(tmp_path) == ASKED


# -- one writer ----------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_while_the_first_lives(tmp_path: Path) -> None:
    first = Records(tmp_path, "lines.jsonl", ASKED)
    with pytest.raises(BadInput, match=rf"another run \(process {os.getpid()}\) is writing into"):
        Records(tmp_path, "lines.jsonl", ASKED, resume=True)
    first.add({"reward": 1})
    first.close()
    second = Records(tmp_path, "lines.jsonl", ASKED, resume=True)
    assert second.lines == [{"reward": 1}]
    second.close()


_WRITER = """
import sys, time
from pathlib import Path
from paceline.records import Records
records = Records(Path(sys.argv[1]), "lines.jsonl", {"identity": {"seed": 1}})
print("open", flush=True)
time.sleep(600)
"""


def test_a_directory_is_free_again_when_its_writer_was_killed(tmp_path: Path) -> None:
    asked = {"identity": {"seed": 1}}
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(BadInput, match=rf"process {writer.pid}\) is writing"):
            Records(tmp_path, "lines.jsonl", asked, resume=True)
        writer.send_signal(signal.SIGKILL)
    Records(tmp_path, "lines.jsonl", asked, resume=True).close()


def test_a_report_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    records = Records(tmp_path, "lines.jsonl", ASKED)
    (tmp_path / "report.json").mkdir()
    with pytest.raises(NotKept, match=r"report\.json cannot be written: Is a directory"):
        records.finish({"all": "well"})
    records.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "lines.jsonl", "plan.json", "report.json"]


def test_a_line_that_cannot_be_written_is_told_with_what_is_kept(tmp_path: Path) -> None:
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    records = Records(tmp_path, "lines.jsonl", ASKED)
    records.add({"reward": 1})
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, kept[1]))
    try:
        with pytest.raises(NotKept, match=r"lines\.jsonl cannot be written: File too large\. What had ended"):
            records.add({"reward": 2, "text": "x" * 1000})
        records.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    again = Records(tmp_path, "lines.jsonl", ASKED, resume=True)
    assert again.lines == [{"reward": 1}]
    again.close()
