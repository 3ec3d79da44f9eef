"""The key of a user: made once, kept to the user, and what it has marked is known in its place only."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from paceline.checkpoints import Checkpoints
from paceline.errors import BadInput
from paceline.records import Records, plan_and_owner
from paceline.run_key import is_own, key_file, mark, why_unknown
from paceline.run_lock import LOCK
from paceline.trees import Apart


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the key lies; it is not there yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_all_who_need_it_first_have_one_key(tmp_path: Path) -> None:
    """Each opens it anew, as processes do."""
    barrier = Barrier(16)

    def marked(_: int) -> str:
        barrier.wait()
        return mark(tmp_path / "plan.json", b"x")

    with ThreadPoolExecutor(16) as threads:
        (one,) = set(threads.map(marked, range(16)))
    assert one == mark(tmp_path / "plan.json", b"x")
    about = key_file().stat()
    assert (stat.S_IMODE(about.st_mode), about.st_size) == (0o600, 32)
    assert stat.S_IMODE(key_file().parent.stat().st_mode) == 0o700


def test_it_lies_in_the_home_of_its_user_if_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for said in ("", "relative/path"):
        monkeypatch.setenv("XDG_STATE_HOME", said)
        assert key_file() == tmp_path / ".local/state/paceline/key"


def test_a_mark_is_of_a_place_a_content_and_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = mark(tmp_path / "plan.json", b"x")
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_own(tmp_path / "plan.json", b"x", mine)
    assert is_own(tmp_path / "link" / "plan.json", b"x", mine)
    assert not is_own(tmp_path / "copy" / "plan.json", b"x", mine)
    assert not is_own(tmp_path / "plan.json", b"y", mine)
    assert not any(
        is_own(tmp_path / "plan.json", b"x", other) for other in ("", None, 3, "\ud800", mine[:-1], "0" * 64)
    )
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    assert not is_own(tmp_path / "plan.json", b"x", mine)


def test_no_key_is_made_to_read_what_has_no_mark(tmp_path: Path) -> None:
    assert not is_own(tmp_path / "plan.json", b"x", None)
    assert not key_file().exists()


@pytest.mark.parametrize("how", ["others can read it", "it is cut", "it is a link", "it cannot be made"])
def test_without_a_key_runs_are_kept_and_none_is_known(tmp_path: Path, state: Path, how: str) -> None:
    if how == "it cannot be made":
        state.write_text("a file")
    else:
        before = mark(tmp_path / "plan.json", b"x")
        if how == "others can read it":
            key_file().chmod(0o640)
        elif how == "it is cut":
            key_file().write_bytes(b"short")
        else:
            key_file().rename(state / "elsewhere")
            key_file().symlink_to(state / "elsewhere")
        assert not is_own(tmp_path / "plan.json", b"x", before)
    assert mark(tmp_path / "plan.json", b"x") == ""
    assert str(key_file()) in why_unknown()
    Records(tmp_path / "run", "lines.jsonl", {"identity": {"seed": 1}}).close()
    assert plan_and_owner(tmp_path / "run") == ({"identity": {"seed": 1}}, False)


def test_a_run_of_another_stays_theirs_though_more_is_asked_of_it(tmp_path: Path) -> None:
    for plan in (plan_of(episodes=1), plan_of(episodes=3)):  # begun here, and gone on with in the copy
        Records(tmp_path / "mine", "lines.jsonl", plan, resume=True).close()
    shutil.copytree(tmp_path / "mine", tmp_path / "theirs")
    Records(tmp_path / "theirs", "lines.jsonl", plan_of(episodes=5), resume=True).close()
    assert plan_and_owner(tmp_path / "mine") == (plan_of(episodes=3), True)
    assert plan_and_owner(tmp_path / "theirs") == (plan_of(episodes=5), False)


def plan_of(episodes: int) -> dict[str, dict[str, int]]:
    return {"identity": {"seed": 1, "episodes": episodes}}


def linked(run: Path, victim: Path, name: str) -> None:
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)


@pytest.mark.parametrize(
    "name",
    ["report.part", "train.log", ".lock", "lines.jsonl", "plan.json", "curves.png.part", "any", "seed-0/plan.json"],
)
def test_no_link_in_a_run_of_another_is_followed(tmp_path: Path, name: str) -> None:
    Records(tmp_path / "mine", "lines.jsonl", plan_of(1)).close()
    shutil.copytree(tmp_path / "mine", tmp_path / "theirs")
    victim = tmp_path / "victim"
    shutil.copy(tmp_path / "mine" / "plan.json", victim)
    before = victim.read_bytes()
    linked(tmp_path / "theirs", victim, name)
    with pytest.raises(
        BadInput, match=rf"{name} is a link.*not written here by you|{LOCK} cannot be written: it is a link"
    ):
        Records(tmp_path / "theirs", "lines.jsonl", plan_of(1), resume=True)
    with pytest.raises(BadInput, match=rf"{name} is a link.*not written here by you"):
        plan_and_owner(tmp_path / "theirs")
    assert victim.read_bytes() == before


def test_links_to_directories_and_what_is_no_file_are_refused_in_a_run_of_another(tmp_path: Path) -> None:
    Records(tmp_path / "mine", "lines.jsonl", plan_of(1)).close()
    for name, make, told in (
        ("tensorboard", lambda path: path.symlink_to(tmp_path), "is a link"),
        ("seed-0", lambda path: path.symlink_to(tmp_path / "mine"), "is a link"),
        (".lock", os.mkfifo, "is neither a file nor a directory"),
    ):
        theirs = tmp_path / name
        shutil.copytree(tmp_path / "mine", theirs, ignore=shutil.ignore_patterns(".lock"))
        make(theirs / name)
        with pytest.raises(BadInput, match=rf"{name} {told}"):
            plan_and_owner(theirs)


def test_what_is_begun_anew_follows_no_link(tmp_path: Path) -> None:
    """Also in a directory that holds no run, and in a run of this user."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    victim.write_text("mine")
    for name in ("plan.part", "report.part", "checkpoint.json.part", "checkpoint.npz.part", "checkpoint.pickles.part"):
        linked(run, victim, name)
    records = Records(run, "lines.jsonl", plan_of(1))
    records.finish({"all": "well"})
    records.close()
    Checkpoints(run).save([1, Apart({2})], 0.0)
    assert victim.read_text() == "mine"
    assert not any(path.is_symlink() for path in run.iterdir())


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("victim"), os.mkfifo])
def test_a_lock_is_a_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "victim").write_text("mine")
    make(tmp_path / ".lock")
    with pytest.raises(BadInput, match=r"\.lock cannot be written: it is (a link|no file)"):
        Records(tmp_path, "lines.jsonl", plan_of(1))
    assert (tmp_path / "victim").read_text() == "mine"


def test_a_key_that_was_begun_by_a_process_that_died_is_made() -> None:
    key_file().parent.mkdir(parents=True)
    os.close(os.open(key_file(), os.O_CREAT | os.O_WRONLY, 0o600))
    assert mark(Path("plan.json"), b"x")
    assert key_file().stat().st_size == 32
