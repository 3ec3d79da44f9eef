"""A checkpoint is whole or not there, and takes no memory beside what it is of."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline.checkpoints import ARRAYS, FILE, PICKLES, Checkpoints
from paceline.errors import BadInput
from paceline.trees import Apart

BYTES = 16 << 20
BIT_GENERATORS = (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64)


def peak(call: Callable[[], Any]) -> int:
    """Bytes that a call takes, at the most."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_arrays_are_written_and_read_without_copies(tmp_path: Path) -> None:
    """Rows may be most of what there is memory for."""
    checkpoints, whole = Checkpoints(tmp_path), np.random.default_rng(0).integers(256, size=2 * BYTES, dtype=np.uint8)
    state = {"rows": [whole[:BYTES], whole[BYTES:]], "count": 3}
    assert peak(lambda: checkpoints.save(state, 0.0)) < BYTES / 4
    assert peak(checkpoints.load) < 2.25 * BYTES
    found = checkpoints.load()
    assert (found["count"], [rows.tobytes() for rows in found["rows"]]) == (3, [r.tobytes() for r in state["rows"]])


def test_its_size_is_told(tmp_path: Path) -> None:
    size = Checkpoints(tmp_path).save([1, np.zeros(9), Apart({2})], 0.0)
    assert size == sum((tmp_path / name).stat().st_size for name in (FILE, ARRAYS, PICKLES))


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).load() is None


@pytest.mark.parametrize("name", [FILE, ARRAYS, PICKLES])
@pytest.mark.parametrize("place", [3, 15, 90, 170, -1])
def test_one_that_is_damaged_is_told(tmp_path: Path, name: str, place: int) -> None:
    """In its digest, in what follows, if the end is missing, and if a file is."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save([*range(50), np.arange(50), Apart(list(range(200)))], 0.0)
    content = bytearray((tmp_path / name).read_bytes())
    content[place] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=r"checkpoint.* is damaged: remove|would be unpickled"):
        checkpoints.load()
    (tmp_path / name).write_bytes(bytes(content[:place]))
    with pytest.raises(BadInput, match=r"checkpoint.* is damaged: remove"):
        checkpoints.load()
    (tmp_path / name).unlink()
    if name != FILE:
        with pytest.raises(BadInput, match=rf"{name} is not there: put it back, or remove .*{FILE}, and the training"):
            checkpoints.load()


def test_what_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    """Nothing half written is left."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save([1], 0.0)
    for strange in (Apart(line for line in ()), (line for line in ())):
        with pytest.raises((AttributeError, TypeError)):
            checkpoints.save([np.zeros(1000), strange], 0.0)
        assert {path.name for path in tmp_path.iterdir()} == {FILE, ARRAYS}
        assert checkpoints.load() == [1]


@pytest.mark.parametrize("name", [FILE, ARRAYS, PICKLES])
def test_an_interrupt_right_behind_any_name_leaves_the_new_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its JSON has its name, nothing that it is of is removed."""
    Checkpoints(tmp_path).save([1, np.zeros(3), Apart({1})], 0.0)
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        replace(source, target)
        if Path(target).name == name:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Checkpoints(tmp_path).save([2, np.ones(3), Apart({2})], 0.0)
    number, array, apart = Checkpoints(tmp_path).load()
    assert (number, array.tolist(), apart.value) == (2, [1, 1, 1], {2})


@pytest.mark.parametrize("kept", range(7))
def test_killed_at_any_time_it_is_the_one_before_or_the_new_one(
    tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are written, then named one after another: a process can end before each of these."""

    def state(number: int) -> list[Any]:
        return [number, np.full(3, number), Apart({number})]

    Checkpoints(tmp_path).save(state(1), 0.0)
    left, whole = kept, {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(whole) == 3

    class Killed(BaseException):
        pass

    def counted(do: Callable[..., Any]) -> Callable[..., Any]:
        def done(*args: Any, **keywords: Any) -> Any:
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return do(*args, **keywords)

        return done

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace"):  # of three files each
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # a process that is killed removes nothing
        with pytest.raises(Killed) if kept < 6 else nullcontext():
            Checkpoints(tmp_path).save(state(2), 0.0)
    number, array, apart = Checkpoints(tmp_path).load()
    assert (array.tolist(), apart.value) == ([number] * 3, {number})
    assert number == (1 if kept < 4 else 2)  # three are written, then the first name is given
    Checkpoints(tmp_path).save(state(3), 0.0)
    assert Checkpoints(tmp_path).load()[0] == 3


def test_what_comes_back_is_the_same_to_the_bit(tmp_path: Path) -> None:
    rng, odd = np.random.default_rng(1), struct.unpack("<d", bytes.fromhex("0100000000dff87f"))[0]
    dtypes = ("?", "<i2", ">f4", "<f8", "<c16", "<M8[ns]", "S3", "<U2", "V4", [("a", "<i4"), ("b", "<f8", (2,))])
    tree = {
        "arrays": [rng.integers(256, size=160, dtype=np.uint8).view(kind)[:5] for kind in dtypes[1:6]],
        "kinds": [np.zeros((2, 3), kind) for kind in dtypes],
        "order": [np.asfortranarray(np.arange(6).reshape(2, 3)), np.arange(12).reshape(3, 4)[:, ::2]],
        "none": [np.zeros((0, 4)), np.array(3.5), np.array(True)],
        "numbers": [1, 1.0, True, None, -0.0, 0.1, odd, float("-inf"), 2**127, -(2**5000), 5e-324],
        "scalars": [np.float32(0.1), np.int8(-3), np.bool_(True), np.float64(2), np.datetime64("2026-01-01")],
        "ends": [np.str_("a\0"), np.bytes_(b"a\0\0"), np.str_(""), np.str_("\ud800"), np.bytes_(b""), np.void(b"a\0")],
        ("a", 1): {3: "x", None: (), (1, (2,)): [(), [], {}]},
        "text": ["", "\u2028 \ud800 \x00", b"", b"\xff\x00"],
        "generators": [np.random.Generator(kind(3)).bit_generator.state for kind in BIT_GENERATORS],
        "z": 1,
        "a": {"array": 3, "dict": [[1], [2]], "apart": 0},
    }
    Checkpoints(tmp_path).save(tree, 0.0)
    found = Checkpoints(tmp_path).load()
    assert spelled_out(found) == spelled_out(tree)
    assert list(found) == list(tree)
    assert not (tmp_path / PICKLES).exists()
    with np.load(tmp_path / ARRAYS, allow_pickle=False) as arrays:
        assert spelled_out(arrays["0"]) == spelled_out(tree["arrays"][0])


def spelled_out(value: Any) -> Any:
    """Everything that two values must have in common, to the bit."""
    if isinstance(value, dict):
        return [(spelled_out(key), spelled_out(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), list(map(spelled_out, value))
    if isinstance(value, np.ndarray | np.generic):
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        return type(value), value.dtype.str, np.asarray(value).dtype.descr, value.shape, fortran, value.tobytes()
    return type(value), struct.pack("<d", value) if isinstance(value, float) else value


def test_arrays_that_would_come_back_as_others_are_no_data(tmp_path: Path) -> None:
    """A file says where fields stand, and not that they are aligned."""
    aligned = np.dtype([("a", "i1"), ("b", "<f8")], align=True)
    for kind in (aligned, np.dtype([("x", aligned, (2,))])):
        with pytest.raises(TypeError, match="is not data"):
            Checkpoints(tmp_path).save([np.zeros(2, kind)], 0.0)


def test_what_was_one_object_is_one_again_among_pickles(tmp_path: Path) -> None:
    shared = [1]
    Checkpoints(tmp_path).save({"weights": Apart(shared), "learner": Apart({"mine": shared})}, 0.0)
    found = Checkpoints(tmp_path).load()
    assert found["weights"].value is found["learner"].value["mine"]


def test_pickles_are_loaded_where_this_user_has_written_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in another place, not changed, not with another key, and not without one; unless they are trusted."""
    here, there, mark = tmp_path / "here", tmp_path / "there", tmp_path / "was_run"
    here.mkdir()
    Checkpoints(here).save([np.arange(3), Apart(Payload(mark))], 0.0)
    shutil.copytree(here, there)
    refused = [there]
    for path in refused:
        with pytest.raises(BadInput, match=r"checkpoint.pickles would be unpickled.*--trust"):
            Checkpoints(path).load()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
    with pytest.raises(BadInput, match=r"would be unpickled"):
        Checkpoints(here).load()
    monkeypatch.setenv("XDG_STATE_HOME", str(here / FILE / "no directory"))
    with pytest.raises(BadInput, match=r"would be unpickled.*your key .* cannot be made or read: Not a directory"):
        Checkpoints(here).load()
    assert not mark.exists()
    Checkpoints(there, trusted=True).load()
    assert mark.exists()


def test_another_ones_pickles_are_not_loaded_under_a_mark_of_this_user(tmp_path: Path) -> None:
    """An attacker has a checkpoint of this user, and puts pickles of his own in the place of its pickles."""
    Checkpoints(tmp_path).save([Apart([1])], 0.0)
    mine = (tmp_path / FILE).read_text()
    Checkpoints(tmp_path).save([Apart(Payload(tmp_path / "was_run"))], 0.0)
    theirs = (tmp_path / FILE).read_text()
    was, now = (re.search(r'"checkpoint.pickles": "(\w+)"', text)[1] for text in (mine, theirs))  # type: ignore[index]
    (tmp_path / FILE).write_text(mine)
    with pytest.raises(BadInput, match=r"is damaged"):
        Checkpoints(tmp_path).load()
    changed = mine.replace(was, now)
    check = hashlib.sha256(changed[changed.index('"files"') : -2].encode()).hexdigest()
    (tmp_path / FILE).write_text(re.sub(r'"check": "\w+"', f'"check": "{check}"', changed))
    with pytest.raises(BadInput, match=r"would be unpickled"):
        Checkpoints(tmp_path).load()
    assert not (tmp_path / "was_run").exists()


def test_pickles_that_change_while_they_are_looked_at_are_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is loaded are the very bytes whose digest was taken."""
    Checkpoints(tmp_path).save([Apart([1])], 0.0)
    digest = hashlib.file_digest

    def changing(file: Any, kind: str) -> Any:
        found = digest(file, kind)
        if found.digest() == hashlib.sha256((tmp_path / PICKLES).read_bytes()).digest():
            (tmp_path / PICKLES).write_bytes(pickle.dumps([Payload(tmp_path / "was_run")]))
        return found

    monkeypatch.setattr(hashlib, "file_digest", changing)
    assert Checkpoints(tmp_path).load() == [Apart([1])]
    assert not (tmp_path / "was_run").exists()


def with_arrays(path: Path, content: bytes) -> None:
    """Puts other arrays into a checkpoint, which names them by their digest."""
    was = hashlib.sha256((path / ARRAYS).read_bytes()).hexdigest()
    (path / ARRAYS).write_bytes(content)
    text = (path / FILE).read_text().replace(was, hashlib.sha256(content).hexdigest())
    check = hashlib.sha256(text[text.index('"files"') : -2].encode()).hexdigest()
    (path / FILE).write_text(re.sub(r'"check": "\w+"', f'"check": "{check}"', text))


SHAPE, ENTRY = b"(30,), }".ljust(40), b"PK\x01\x02\x14\x03\x14\x00\x00\x00"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SHAPE, b"(%b,), }" % (b"9" * 30)),
        (SHAPE, b"(True,), }"),
        (SHAPE, b"(((("),
        (b"'<i8'", b"'<i8 "),
        (ENTRY, ENTRY[:6] + b"\x63" + ENTRY[7:]),  # the version that is needed to read it
        (ENTRY, ENTRY[:8] + b"\x20" + ENTRY[9:]),  # patched data
    ],
)
def test_arrays_that_make_no_sense_are_told(tmp_path: Path, before: bytes, after: bytes) -> None:
    """Shapes beyond reason, headers that are no Python, and archives of formats to come."""

    def changed(content: bytes) -> bytes:
        return content.replace(before, after.ljust(len(before)), 1)

    Checkpoints(tmp_path).save([np.arange(30)], 0.0)
    array, archive = BytesIO(), BytesIO()
    np.save(array, np.arange(30))
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("0.npy", changed(array.getvalue()))
    content = changed(archive.getvalue())
    assert before not in content
    with_arrays(tmp_path, content)
    with pytest.raises(BadInput, match=rf"{FILE} is damaged: remove it"):
        Checkpoints(tmp_path).load()


def test_arrays_that_are_pickles_are_none(tmp_path: Path) -> None:
    """Though the checkpoint names them by their digest."""
    Checkpoints(tmp_path).save([np.arange(3)], 0.0)
    objects = np.array([Payload(tmp_path / "was_run")], object)
    np.savez(tmp_path / "objects.npz", **{"0": objects})
    with_arrays(tmp_path, (tmp_path / "objects.npz").read_bytes())
    with pytest.raises(BadInput, match=r"is damaged"):
        Checkpoints(tmp_path, trusted=True).load()
    assert not (tmp_path / "was_run").exists()


def test_one_of_an_older_release_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pkl").write_bytes(bytes(32) + pickle.dumps(Payload(tmp_path / "was_run")))
    with pytest.raises(BadInput, match=r"checkpoint.pkl is a checkpoint of an older release.*remove it"):
        Checkpoints(tmp_path, trusted=True).load()
    assert not (tmp_path / "was_run").exists()


class Payload:
    """Leaves a file where its pickle is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)
