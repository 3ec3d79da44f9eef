"""Damaged directories of runs: every file in the place of which something else is, or whose content makes no sense.

    a run ── damages ──► name, what does it to a copy of the run ──► a command that reads it: told, or not noticed

`python tests/damage.py` does all of it to the runs of all jobs, and lists what ends in anything else than words.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from run_directories import READERS, begun, called

from paceline.checkpoints import ARRAYS, FILE
from paceline.records import checked

Damage = Callable[[Path], None]
"""Does it to a directory."""
STRANGE: tuple[Any, ...] = (None, True, -1, 1e999, "x", "", [], {}, [None], {"x": {}}, 10**30)


def damages(run: Path) -> Iterator[tuple[str, Damage]]:
    """Every damage that can be done to a run, with its name."""
    for path in sorted(each.relative_to(run) for each in [*run.rglob("*")]):
        for how, do in _OF_PATHS.items():
            yield f"{path} {how}", partial(_to_path, path, do)
        if (run / path).is_file():
            for how, change in _OF_BYTES.items():
                yield f"{path} {how}", partial(_to_bytes, path, change)
    for how, do in _OF_PATHS.items():
        yield f"the run {how}", do
    for path in sorted(each.relative_to(run) for each in run.rglob("plan.json")):
        yield from _of_json(run, path, _to_plan)
    for path in sorted(each.relative_to(run) for each in run.rglob("*.jsonl")):
        yield from _of_json(run, path, _to_line)
    for path in sorted(each.relative_to(run) for each in run.rglob(FILE)):
        yield from _of_json(run, path, _to_checkpoint)
    for path in sorted(each.relative_to(run) for each in run.rglob(ARRAYS)):
        for how in ("gone", "others", "flat", "text"):
            yield f"{path} arrays {how}", partial(_to_arrays, path, how)
    for path in sorted(each.relative_to(run) for each in run.rglob("rollouts.npz")):
        with np.load(run / path) as arrays:
            for name in arrays.files:
                for how in ("gone", "others", "flat", "text"):
                    yield f"{path} {name} {how}", partial(_to_archive, path, name, how)


# -- files and directories -----------------------------------------------------------------------------------


def _removed(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _looping(path: Path) -> None:
    _removed(path)
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    _removed(path)
    path.symlink_to("nowhere/at/all")


def _directory(path: Path) -> None:
    _removed(path)
    path.mkdir()
    (path / "inside").touch()


def _file(path: Path) -> None:
    _removed(path)
    path.write_text("{}\n")


_OF_PATHS: dict[str, Damage] = {
    "is gone": _removed,
    "is a loop": _looping,
    "dangles": _dangling,
    "is a directory": _directory,
    "is a file": _file,
}
_OF_BYTES: dict[str, Callable[[bytes], bytes]] = {
    "is empty": lambda content: b"",
    "is cut": lambda content: content[: len(content) // 2],
    "is noise": lambda content: random.Random(0).randbytes(100),
    "has a wrong byte": lambda content: content[: len(content) // 3] + b"\xff" + content[len(content) // 3 + 1 :],
}


def _to_path(path: Path, do: Damage, run: Path) -> None:
    do(run / path)


def _to_bytes(path: Path, change: Callable[[bytes], bytes], run: Path) -> None:
    (run / path).write_bytes(change((run / path).read_bytes()))


# -- content under a valid check -----------------------------------------------------------------------------


def _of_json(run: Path, path: Path, to: Callable[..., None]) -> Iterator[tuple[str, Damage]]:
    lines = (run / path).read_text().splitlines()
    content = json.loads(lines[0]) if path.suffix == ".jsonl" else json.loads("\n".join(lines))
    for place in _places(content):
        name = ".".join(map(str, place))
        yield f"{path} without {name}", partial(to, path, place)
        for strange in STRANGE:
            yield f"{path} {name}={strange!r}", partial(to, path, place, strange)


def _places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands; of what is in lists the first two."""
    items = (
        content.items() if isinstance(content, dict) else enumerate(content[:2]) if isinstance(content, list) else ()
    )
    for key, item in items:
        if key not in ("check", "mark"):
            yield (*above, key)
            yield from _places(item, (*above, key))


def _changed(content: Any, place: tuple[Any, ...], *strange: Any) -> Any:
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    if strange:
        inner[place[-1]] = strange[0]
    else:
        del inner[place[-1]]
    return content


def _unchecked(content: Any) -> Any:
    return {key: value for key, value in content.items() if key not in ("check", "mark")}


def _to_plan(path: Path, place: tuple[Any, ...], *rest: Any) -> None:
    *strange, run = rest
    content = _changed(_unchecked(json.loads((run / path).read_text())), place, *strange)
    (run / path).write_text(json.dumps(checked(content)))


def _to_line(path: Path, place: tuple[Any, ...], *rest: Any) -> None:
    *strange, run = rest
    first, *others = (run / path).read_text().splitlines(keepends=True)
    content = _changed(_unchecked(json.loads(first)), place, *strange)
    (run / path).write_text(json.dumps(checked(content)) + "\n" + "".join(others))


def _to_checkpoint(path: Path, place: tuple[Any, ...], *rest: Any) -> None:
    *strange, run = rest
    content = _changed(json.loads((run / path).read_text()), place, *strange)
    if {"files", "state"} <= content.keys():
        _write_checkpoint(run / path, content)
    else:
        (run / path).write_text(json.dumps(content))


def _write_checkpoint(path: Path, content: Any) -> None:
    inner = f'"files": {json.dumps(content["files"])}, "state": {json.dumps(content["state"])}'
    check = hashlib.sha256(inner.encode()).hexdigest()
    path.write_text(f'{{"check": "{check}", "mark": "", {inner}}}\n')


def _to_arrays(path: Path, how: str, run: Path) -> None:
    with np.load(run / path) as file:
        arrays = dict(file)
    first = next(iter(arrays))
    np.savez(run / path, **_with(arrays, list(arrays) if how != "gone" else [first], how))
    place = (run / path).with_name(FILE)
    content = json.loads(place.read_text())
    content["files"][ARRAYS] = hashlib.sha256((run / path).read_bytes()).hexdigest()
    _write_checkpoint(place, content)


def _with(arrays: dict[str, Any], names: list[str], how: str) -> dict[str, Any]:
    changes: dict[str, Callable[[Any], Any]] = {
        "others": lambda array: np.zeros((3, 2), "i4"),
        "flat": lambda array: np.float64(0),
        "text": lambda array: np.array(["x"] * 3),
    }
    found = dict(arrays)
    for name in names:
        if how == "gone":
            del found[name]
        else:
            found[name] = changes[how](found[name])
    return found


def _to_archive(path: Path, name: str, how: str, run: Path) -> None:
    with np.load(run / path) as file:
        arrays = dict(file)
    np.savez(run / path, **_with(arrays, [name], how))


# -- all of it -----------------------------------------------------------------------------------------------


def read(run: Path, words: tuple[str, ...]) -> tuple[int | str, str]:
    """What a command says to a run: its code, or the exception that came through; and what it printed."""
    try:
        return called(*(str(run) if word == "RUN" else word for word in words))
    except BaseException as error:
        return type(error).__name__, str(error)


def is_told(code: int | str, page: str) -> bool:
    """Whether it ended in words: a result, or an error with what to do."""
    if code == 2:
        return "error: " in page and "Traceback" not in page
    return code in (0, 1) or (code == 3 and "Traceback" not in page)  # what is played again shows what it raised


def main(kinds: list[str], step: int = 1) -> None:
    home = Path(tempfile.mkdtemp(prefix="damage-"))
    os.chdir(home)
    count, wrong = 0, 0
    for kind, run in begun(home).items():
        if kinds and kind not in kinds:
            continue
        for name, damage in [*damages(run)][::step]:
            for words in READERS[kind]:
                copy = home / "copy"
                shutil.copytree(run, copy, symlinks=True)
                damage(copy)
                code, page = read(copy, words)
                count += 1
                if not is_told(code, page):
                    wrong += 1
                    last = page.strip().splitlines()[-1:]
                    print(f"{kind}: {name}: {' '.join(words[:2])}: {code} {last}", flush=True)
                    if os.environ.get("WHOLE"):
                        print(page)
                copy.unlink() if copy.is_symlink() or copy.is_file() else shutil.rmtree(copy, ignore_errors=True)
    print(f"{wrong} of {count} are not told")
    shutil.rmtree(home)


if __name__ == "__main__":
    steps, kinds = ([word for word in sys.argv[1:] if word.isdecimal() is number] for number in (True, False))
    main(kinds, *map(int, steps))
