"""The directory of a run: what has ended is on disk before the next result is looked at.

plan.json       what was asked; a run can be continued only as what it was
NAME.jsonl      one line per thing that has ended, in the order in which they ended
report.json     everything, when the run is complete (or was stopped)
.lock           held by the process that writes; see `paceline.run_lock`

plan.json and every line carry a check of their own content: what has been damaged or edited is not believed. plan.json,
which names code, also has a mark that only this user can make.

A run of `collect` has its rollouts in rollouts.npz instead of the last two.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from paceline.errors import BadInput, NotKept
from paceline.fingerprint import differences, unknown_parts
from paceline.run_files import anew, check_files, check_unknown
from paceline.run_key import is_own, mark
from paceline.run_lock import RunLock

Keep = Callable[[dict[str, Any]], dict[str, Any]]
PLAN, REPORT = "plan.json", "report.json"
CHECK = "check"
"""The key of a check among the content that it is of."""
MARK = "mark"
"""The key, in plan.json, of this user's mark; see `paceline.run_key`."""


def _is_text(content: Any) -> bool:
    return isinstance(content, dict) and all(isinstance(each, str) for each in content.values())


_PARTS: dict[str, Callable[[Any], bool]] = {
    "identity": lambda content: isinstance(content, dict),
    "files": _is_text,
    "recipes": lambda content: isinstance(content, dict) and all(map(_is_text, content.values())),
}
_MOST_PARTS = 3  # of a recipe, in one message


class Records:
    """A run's directory, open for writing.

    Args:
        path: The directory; made if it is missing.
        name: Of the file of lines, "episodes.jsonl" say.
        plan: What is asked, with the identity of the run under "identity", under "files" the digests of what it follows
            from, and under "recipes" the fingerprints of what it is made of, by owner; see `paceline.fingerprint`.
        resume: Whether to go on with what is there.
        keep: What of a line that is there is kept in memory, in `lines`; by default all of it.

    Raises:
        BadInput: it holds another run, or the files or recipes of this one have changed; or a run, and `resume` was not
            said; or a line of it is damaged; or another writer is at work there.
    """

    def __init__(
        self, path: Path, name: str, plan: Mapping[str, Any], *, resume: bool = False, keep: Keep = dict
    ) -> None:
        self.path, self.name = path, name
        _make(path)
        self._lock = RunLock(path)
        try:
            self._begin(plan, resume, keep)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, plan: Mapping[str, Any], resume: bool, keep: Keep) -> None:
        path, lines = self.path, self.path / self.name
        known, own = plan_and_owner(path) if (path / PLAN).exists() else (None, True)
        if known is not None:
            _check_same(path, known, plan, resume)
        self.notes = [note for note in (self._lock.note, *_not_compared(path, known, plan)) if note]
        """What `resume` cannot compare, in words."""
        unchecked = UncheckedLines(lines)
        self.lines = [] if known is None else read_lines(lines, keep, unchecked)
        self.notes += unchecked.notes
        if known is None or _goes_further(known.get("identity"), _as_json(plan["identity"])):
            _write_plan(path, plan, own)
        self._file = self._open()

    def _open(self) -> TextIO:
        """Opens the lines for more; half a line, left by a crash, is cut off."""
        with (self.path / self.name).open("a+b") as file:
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        return (self.path / self.name).open("a", encoding="utf-8")

    def add(self, line: Mapping[str, Any]) -> None:
        """Writes what has ended; it is on disk when this returns.

        Raises:
            NotKept: it cannot be written: the disk is full, say. What was written before stays.
        """
        try:
            self._file.write(json.dumps(checked(line)) + "\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise NotKept(
                f"{self.path / self.name} cannot be written: {error.strerror}. What had ended before is kept there: "
                f"make room, and go on with --resume {self.path}"
            ) from error

    def finish(self, report: Mapping[str, Any]) -> None:
        """Writes the report.

        Raises:
            NotKept: it cannot be written.
        """
        write_whole(self.path / REPORT, report)

    def close(self) -> None:
        """Ends it. May be called again."""
        with suppress(OSError):  # of a line that could not be written, which was told then
            self._file.close()
        self._lock.release()


def begin_run(path: Path, plan: Mapping[str, Any]) -> None:
    """Makes the directory of a run that has no file of lines, and cannot be continued.

    Args:
        path: The directory; made if it is missing.
        plan: What is asked, as `Records` takes it.

    Raises:
        BadInput: it holds a run.
    """
    _make(path)
    if (path / PLAN).exists():
        raise BadInput(
            f"{path} holds the results of a run; give another directory, or delete this one if nothing in it matters"
        )
    _write_plan(path, plan)


def _write_plan(path: Path, plan: Mapping[str, Any], own: bool = True) -> None:
    """What another has begun stays theirs, though this user goes on with it."""
    content = checked(plan)
    write_whole(path / PLAN, {**content, MARK: mark(path / PLAN, _canonical(content)) if own else ""})


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the results cannot be kept in {path}: {error.strerror}; give another directory") from error


def _check_same(path: Path, known: Mapping[str, Any], asked: Mapping[str, Any], resume: bool) -> None:
    if not resume:
        raise BadInput(
            f"{path} holds the results of a run; continue it with resume (--resume {path}), give another directory, or "
            "delete this one if nothing in it matters"
        )
    now = _as_json(asked["identity"])
    if known.get("identity") != now and not _goes_further(known.get("identity"), now):
        raise BadInput(
            f"{path} holds another run: {_difference(known.get('identity', {}), asked['identity'])}; ask for the same "
            "again, or begin afresh with another directory (a new --out)"
        )
    if files := changed(known, asked.get("files", {})):
        raise BadInput(
            f"{', '.join(files)} changed since the run in {path} was begun, so the rest would be another run: put "
            "back what was there, or begin afresh with another directory (a new --out)"
        )
    if parts := differences(known.get("recipes", {}), asked.get("recipes", {})):
        raise BadInput(
            f"{path} holds another run: {'; '.join(parts[:_MOST_PARTS])}. Give what it was begun with, or begin afresh "
            "with another directory (a new --out)"
        )


def _goes_further(known: Any, asked: Mapping[str, Any]) -> bool:
    """Whether the same is asked, but for more episodes."""
    before, now = (each.get("episodes") if isinstance(each, Mapping) else None for each in (known, asked))
    more = isinstance(before, int) and isinstance(now, int) and before < now
    return more and {**known, "episodes": now} == asked


def _not_compared(path: Path, known: Mapping[str, Any] | None, asked: Mapping[str, Any]) -> Iterator[str]:
    recipes = asked.get("recipes", {})
    if recipes and known is not None and "recipes" not in known:
        yield (
            f"the run in {path} was begun by an older release, which did not record how its policies and missions are "
            "made: they are taken to be the same"
        )
    parts = [f"{part} of {owner}" for owner, found in recipes.items() for part in unknown_parts(found)]
    if parts:
        more = f" and {len(parts) - _MOST_PARTS} more" if len(parts) > _MOST_PARTS else ""
        yield f"resume cannot tell whether this has changed: {', '.join(parts[:_MOST_PARTS])}{more}"


def changed(known: Mapping[str, Any], now: Mapping[str, str]) -> list[str]:
    """Which files are not what they were when a run was begun; what its plan does not name is not compared."""
    before = known.get("files", {})
    return [name for name in now if before.get(name, now[name]) != now[name]]


def read_plan(path: Path) -> dict[str, Any]:
    """What a run was asked. A plan of an older release has no check, and is read as it is.

    Raises:
        BadInput: the directory holds no run, or its plan is damaged.
    """
    return plan_and_owner(path)[0]


def plan_and_owner(path: Path) -> tuple[dict[str, Any], bool]:
    """What a run was asked, and whether this user has written that there; see `read_plan`."""
    check_files(path)
    try:
        plan: Any = json.loads((path / PLAN).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path} holds no run: there is no {PLAN} in it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path / PLAN} cannot be read: {error}; begin afresh with another directory") from error
    if not (isinstance(plan, dict) and all(fits(plan.get(part, {})) for part, fits in _PARTS.items())):
        raise BadInput(f"{path / PLAN} is damaged: it does not say what was asked; begin afresh with another directory")
    marked = plan.pop(MARK, None)
    own = is_own(path / PLAN, _canonical(plan), marked)
    if plan.pop(CHECK, None) not in (None, _check(plan)):
        raise BadInput(
            f"{path / PLAN} is damaged: it is not what was written when the run was begun; put back what was there, or "
            "begin afresh with another directory"
        )
    if not own:
        check_unknown(path)
    return plan, own


class UncheckedLines:
    """Counts the lines of a file that carry no check, as older releases wrote them.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0

    @property
    def notes(self) -> list[str]:
        """What there is to tell of them."""
        if not self.count:
            return []
        lines = f"{self.count} line{'s' if self.count > 1 else ''} of {self._path}"
        return [f"{lines} carry no check, as older releases wrote them: they are believed as they stand"]


def read_lines(path: Path, keep: Keep = dict, unchecked: UncheckedLines | None = None) -> list[dict[str, Any]]:
    """The lines that are on disk; what stands after the last line break is half a line, and left out.

    Args:
        path: The file.
        keep: What of a line is kept; lines may be long, and there is never more than one of them whole.
        unchecked: Counts the lines that carry no check. After a line that does, one without is damaged.

    Raises:
        BadInput: a line is damaged, or the file cannot be read.
    """
    old = UncheckedLines(path) if unchecked is None else unchecked
    found: list[dict[str, Any]] = []
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.endswith(b"\n"):
                    found.append(_line(path, number, line, keep, old))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from error
    return found


def numbered(name: str) -> Keep:
    """Of lines that are counted, what is kept is their number."""

    def keep(line: dict[str, Any]) -> dict[str, Any]:
        if type(line[name]) is not int:
            raise TypeError(f"its {name} is {line[name]!r:.60}")
        return {name: line[name]}

    return keep


def _line(path: Path, number: int, line: bytes, keep: Keep, old: UncheckedLines) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise damaged(path, number, error) from error
    if not isinstance(content, dict):
        raise damaged(path, number, f"it is a {type(content).__name__}")
    check = content.pop(CHECK, None)
    if check is None and old.count == number - 1:
        old.count += 1
    elif check != _check(content):
        raise damaged(path, number, "it is not what was written when its episode or trajectory ended")
    try:
        return keep(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path, number, error) from error


def damaged(path: Path, number: int, why: object) -> BadInput:
    """What is said of a line that makes no sense."""
    return BadInput(f"{path}, line {number} is damaged ({why}); remove that line, and --resume plays what it was of")


def checked(content: Mapping[str, Any]) -> dict[str, Any]:
    """Content with a check of itself, ready for `json.dumps`."""
    as_read = _as_json(content)
    return {**as_read, CHECK: _check(as_read)}


def _check(content: Mapping[str, Any]) -> str:
    """Of what JSON holds: the same when it has been written and read."""
    return hashlib.sha256(_canonical(content)).hexdigest()[:16]


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def write_whole(path: Path, content: Any) -> None:
    """Writes a file whole, or not at all.

    Raises:
        NotKept: it cannot be written.
    """
    half = path.with_suffix(".part")
    try:
        with anew(half, "x", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        with suppress(OSError):
            half.unlink()
        raise NotKept(f"{path} cannot be written: {error.strerror}; see to it that it can, and begin again") from error


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _difference(known: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    return next(_differences(known, _as_json(asked), ""), "it was asked something else")


def _differences(known: Any, asked: Any, name: str) -> Iterator[str]:
    """What differs, as deep as there are names for it."""
    if isinstance(known, dict) and isinstance(asked, dict):
        for key in {**known, **asked}:
            yield from _differences(known.get(key), asked.get(key), f"{name}.{key}".lstrip("."))
    elif known != asked:
        yield f"there {name} is {known!r}, and here {asked!r}"
