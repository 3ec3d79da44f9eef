"""Damaged directories of runs end in words: what is wrong, in which file, and what to do. See `damage.py`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from damage import damages, is_told, read
from run_directories import JOBS, READERS

from paceline.records import checked

SAMPLED = 4  # damages of each kind of run, spread over all
ALWAYS = (
    "the run is a loop",
    "plan.json is a directory",
    "episodes.jsonl dangles",
    "curves.png is a directory",
    "updates.csv is a loop",
    "seed-0 is a file",
    "seed-0 dangles",
    "plan.json train.seeds='x'",
    "plan.json meta.settings={'x': {}}",
    "plan.json asked.missions=[]",
    "plan.json command.policy=-1",
    "plan.json command.quorum='x'",
    "plan.json collect.tasks=[None]",
    "plan.json recipes={'x': {}}",
    "plan.json without recipes",
    "progress.jsonl z/iteration={'x': {}}",
    "trajectories.jsonl usage.requests=None",
    "checkpoint.json is noise",
    "checkpoint.npz arrays flat",
    "checkpoint.npz arrays gone",
    "checkpoint.json state={'x': {}}",
)
"""Those that were not told once, and their like."""


@pytest.mark.parametrize("kind", JOBS)
def test_a_damaged_run_is_told(
    kind: str, their_runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(their_runs["rollout"].parent / "config.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    every = list(damages(their_runs[kind]))
    chosen = every[1 :: len(every) // SAMPLED] + [each for each in every if each[0] in ALWAYS]
    for name, damage in chosen:
        for words in READERS[kind]:
            run = tmp_path / "run"
            shutil.copytree(their_runs[kind], run)
            damage(run)
            code, page = read(run, words)
            assert is_told(code, page), (name, words, code, page)
            run.unlink() if run.is_symlink() or run.is_file() else shutil.rmtree(run, ignore_errors=True)


def test_what_is_told_names_the_file_and_what_to_do(their_runs: dict[str, Path], tmp_path: Path) -> None:
    """Before anything is played: nothing is found out when results are written."""
    for kind, name, told in (
        ("train", "updates.csv is a directory", "updates.csv is no file, and a run has one there: put back"),
        ("seeds", "seed-0/epochs.csv is a loop", "epochs.csv is a link that leads nowhere: put back"),
        ("meta", "plan.json meta.seeds='x'", "plan.json is damaged: seeds is 'x'; begin afresh"),
        (
            "train",
            "checkpoint.npz arrays others",
            "checkpoint.json is damaged: remove it, and the training begins",
        ),
        ("train", "checkpoint.npz is cut", "checkpoint.npz is damaged: remove"),
    ):
        run = tmp_path / f"{kind} {name.replace('/', ' ')}"
        shutil.copytree(their_runs[kind], run)
        dict(damages(their_runs[kind]))[name](run)
        code, page = read(run, READERS[kind][0])
        assert (code, told in page) == (2, True), page


@pytest.mark.parametrize(
    ("words", "said", "told"),
    [
        (("eval", "--resume", "RUN", "-e", "5"), {"asked": {"episodes": "x"}}, "plan.json is damaged: episodes is 'x'"),
        (("rerun", "RUN", "forage/0"), {"asked": {}, "deadlines": [1]}, "plan.json is damaged: deadlines is [1]"),
        (("rerun", "RUN", "forage/0"), {"asked": {"missions": ["a\0b"]}}, "would run a\\x00b"),
        (("rerun", "RUN", "forage/0"), {"asked": {"missions": ["a" * 5000 + ".py:P"]}}, "would run "),
        (
            ("train", "--resume", "RUN"),
            {"train": {"settings": {"mission": "forage", "epochs": 1, "seed": "a"}, "seeds": 2}},
            "seed",
        ),
        (("meta", "--resume", "RUN"), {"meta": {"settings": {"env": "x", "seed": None}, "seeds": 2}}, "seed"),
        (("train", "--resume", "RUN"), {"train": {"settings": {"mission": {"forage": 1}, "epochs": 1}}}, "mission"),
        (("meta", "--resume", "RUN"), {"meta": {"settings": {"env": ["forage"]}}}, "env"),
    ],
)
def test_what_a_plan_says_is_of_its_kind(words: tuple[str, ...], said: Any, told: str, tmp_path: Path) -> None:
    plan = {"identity": {}, "directory": str(Path.cwd()), **said}
    (tmp_path / "plan.json").write_text(json.dumps(checked(plan)))
    code, page = read(tmp_path, words)
    assert (code, told in page, "Traceback" in page) == (2, True, False), page
