"""Which files something follows from, and whether they are what they were."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from text_worlds import Ladder

from paceline.sources import content_digest, data_in, digests, files_of, weights_in

HERE = Path(__file__).resolve()


class Mind:
    def answer(self, turn: object) -> str:
        return ""


def speak(turn: object, words: str = "") -> str:
    return words


@pytest.mark.parametrize("factory", [Mind, Mind(), speak, partial(speak, words="Up"), Mind().answer])
def test_what_a_user_wrote_is_known_by_its_file(factory: object) -> None:
    assert list(files_of(factory)) == [HERE]


def test_what_is_wrapped_is_found(tmp_path: Path) -> None:
    (tmp_path / "net.pt").touch()
    wrapped = partial(partial(Mind, weights=str(tmp_path / "net.pt")), inner=Ladder)
    assert set(files_of(wrapped)) == {HERE, HERE.with_name("text_worlds.py"), tmp_path / "net.pt"}


def test_weights_and_data_are_files_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "net").mkdir()
    (tmp_path / "net.pt").touch()
    assert list(weights_in({"weights": "net.pt", "model": Path("net"), "log": "net.pt"})) == [
        Path("net.pt"),
        Path("net"),
    ]
    assert list(data_in({"a": "~/net.pt", "b": "net", 3: 4})) == [tmp_path / "net.pt"]
    odd = {"a": "", "b": "x" * 100_000, "c": "a\0b", "d": "~nobody-of-that-name/x", "e": None}
    assert not list(data_in(odd))
    assert not list(weights_in({"weights": "", "model": "x" * 100_000}))


def test_a_directory_is_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a").write_text("1")
    first = content_digest(tmp_path)
    (tmp_path / "deep" / "a").write_text("2")
    second = content_digest(tmp_path)
    (tmp_path / "deep" / "a").rename(tmp_path / "deep" / "b")
    assert len({first, second, content_digest(tmp_path)}) == 3


def test_two_files_of_one_name_both_count(tmp_path: Path) -> None:
    files = [tmp_path / name / "data.json" for name in ("train", "val")]
    for file in files:
        file.parent.mkdir()
        file.write_text("1")
    known = [(file, "Sokoban") for file in files]
    before = digests(known)
    assert list(before) == ["data.json of Sokoban"]
    for file in files:
        file.write_text("2")
        assert digests(known) != before
        file.write_text("1")
    assert digests(known) == before
