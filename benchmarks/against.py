"""Is the code of one commit slower than that of another? Both side by side, in interleaved slices.

    OLD ──git archive──► tree ──► python against_rows.py (PYTHONPATH=tree/src) ─┐ one works at a time
    NEW ──git archive──► tree ──► python against_rows.py (PYTHONPATH=tree/src) ─┴► ratio within a round ──► table

Both run the same measures (`against_rows.py`) with the same interpreter and the same packages. What `auto` decides when
it starts holds for a whole process, so each row has several sittings: in each, both processes are started anew. See
README.md for quiet windows, rounds and intervals.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NoReturn

from against_rows import MEASURES
from lanes import Lane, race
from quiet import Quiet, Row, Slices, duration, gain_row, machine, report, versions
from vector_envs import rounds_per_second

AIM = 0.93
"""What the interval of new / old must reach: below it a user would notice, above it the machine's neighbours decide."""

OLD, NEW = "old", "new"
_ROOT = Path(__file__).resolve().parents[1]
_PROGRAM = Path(__file__).with_name("against_rows.py")
_PACKAGES = ("gymnasium", "numpy", "torch", "stable-baselines3", "mujoco")

_EXAMPLES = """\
examples:
  python benchmarks/against.py HEAD~1 HEAD                       all rows, about ten minutes
  python benchmarks/against.py main . --quick                    the working tree as it is, about three minutes
  python benchmarks/against.py v0.1 HEAD --rows 'cartpole-*,map' some rows
  python benchmarks/against.py HEAD~1 HEAD --json > against.json for machines

exit code: 0 every row reaches the aim, 1 a row does not, 2 a row could not be measured, or was not understood
"""


@dataclass(frozen=True)
class Sizes:
    """How much is measured: sittings of a row, rounds of a sitting, seconds of a slice, seconds until it is warm."""

    sittings: int = 4
    rounds: int = 4
    seconds: float = 0.25
    warm: float = 0.6


QUICK = Sizes(sittings=1, rounds=5, seconds=0.15, warm=0.3)


@dataclass(frozen=True)
class Commit:
    """One side of the comparison: what it was called, what that is, and where its files are."""

    asked: str
    known_as: str
    tree: Path


@dataclass(frozen=True)
class Result:
    """What came of a row.

    Attributes:
        row: Its name.
        text: What was timed.
        ratio: Speed of new by speed of old, the median over the rounds; None: it could not be measured.
        interval: 95 % of that median.
        reached: Whether the interval reaches the aim.
        old: Seconds, for information; and `new` likewise.
        clean: Rounds in which all other programs were quiet; and `rounds`, of how many.
        said: What each had to say in each sitting: where `auto` put it, or the digest of what was played.
        absent: Why there is no ratio.
    """

    row: str
    text: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    reached: bool = False
    old: float | None = None
    new: float | None = None
    clean: int = 0
    rounds: int = 0
    said: Sequence[Mapping[str, str]] = ()
    absent: str = ""


# -- commits -------------------------------------------------------------------------------------------


def checked_out(asked: str, home: Path) -> Commit:
    """The files of a commit, in a directory of their own; "." is the working tree as it is."""
    if asked == ".":
        return Commit(asked, "the working tree", _ROOT)
    commit = _git("rev-parse", "--verify", "--quiet", f"{asked}^{{commit}}").decode().strip()
    known_as = _git("log", "-1", "--format=%h %s", commit).decode().strip()
    home.mkdir()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit, "src"))) as files:
        files.extractall(home, filter="data")
    return Commit(asked, known_as, home)


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(_ROOT), *words], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or "no such commit"
        _refuse(f"git {' '.join(words)}: {said}")
    return done.stdout


def _refuse(why: str) -> NoReturn:
    print(f"against.py: {why}", file=sys.stderr)
    sys.exit(2)


# -- races ---------------------------------------------------------------------------------------------


def compare(row: str, commits: Mapping[str, Commit], quiet: Quiet, sizes: Sizes, pace: float) -> tuple[Row, Result]:
    """Runs all sittings of a row. Who is built first changes from sitting to sitting."""
    text, slices, said = MEASURES[row].text, {name: Slices() for name in commits}, list[Mapping[str, str]]()

    def start(order: Mapping[str, Any], home: Path) -> Lane:
        return Lane(order, home, _PROGRAM, {"PYTHONPATH": str(commits[order["name"]].tree / "src")})

    for sitting in range(sizes.sittings):
        names = list(commits) if sitting % 2 == 0 else list(reversed(commits))
        orders = [
            {"name": name, "row": row, "tree": str(commits[name].tree), "pace": pace, "warm": sizes.warm}
            for name in names
        ]
        found, says = race(quiet, orders, sizes.rounds, sizes.seconds, start)
        missing = "; ".join(f"{name}: {what}" for name, what in found.items() if isinstance(what, str))
        if missing:
            return Row(text, "absent", met="?", slices=missing), Result(row, text, absent=missing)
        said.append(says)
        for name, kept in slices.items():
            more = found[name]
            assert isinstance(more, Slices)
            slices[name] = Slices(kept.values + more.values, kept.clean + more.clean)
    return _result(row, slices[OLD], slices[NEW], said)


def _result(row: str, old: Slices, new: Slices, said: Sequence[Mapping[str, str]]) -> tuple[Row, Result]:
    """The line of the table, and the same as data. A loaded row is judged, too: both sides had the same neighbours."""
    ratios, text = old.over(new), MEASURES[row].text
    interval = ratios.interval()
    reached = interval[1] >= AIM
    line = replace(gain_row(text, new, old, AIM, within_noise=True), met="yes" if reached else "**no**")
    result = Result(
        row,
        text,
        ratios.median(),
        interval,
        reached,
        old.median(),
        new.median(),
        ratios.count,
        len(ratios.values),
        said,
    )
    return line, result


def _told(result: Result) -> Iterator[str]:
    if result.ratio is None or result.interval is None or result.old is None or result.new is None:
        yield f"    absent: {result.absent}"
    else:
        low, high = result.interval
        yield f"    {result.ratio:.3f} [{low:.3f}, {high:.3f}], {duration(result.old)} → {duration(result.new)}"
    for number, says in enumerate(result.said):
        yield from (f"    sitting {number + 1}, {name}: {says[name]}" for name in (OLD, NEW) if says.get(name))


# -- the command ---------------------------------------------------------------------------------------


def _rows(asked: Sequence[str]) -> list[str]:
    """Names of rows, in the order of the table."""
    patterns = [pattern.strip() for each in asked for pattern in each.split(",")] or ["*"]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in MEASURES):
            _refuse(f"no row is called {pattern!r}; there are {', '.join(MEASURES)}")
    return [name for name in MEASURES if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=str(__doc__).partition("\n")[0],
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help='a commit; "." is the working tree as it is')
    parser.add_argument("new", metavar="NEW", help="another one")
    parser.add_argument(
        "--rows",
        metavar="NAMES",
        action="append",
        default=[],
        help=f"with commas, wildcards, or repeated: {', '.join(MEASURES)}",
    )
    parser.add_argument("--quick", action="store_true", help="one sitting of a row: is anything far off?")
    parser.add_argument("--json", action="store_true", help="print one object in place of the table")
    parser.add_argument("--wait-quiet", metavar="SECONDS", type=float, default=120.0, help="for the whole run")
    return parser.parse_args()


def _json(commits: Mapping[str, Commit], results: Sequence[Result]) -> str:
    sides = {name: {"asked": commit.asked, "commit": commit.known_as} for name, commit in commits.items()}
    facts = {"aim": AIM, "machine": [*machine()], "versions": versions(*_PACKAGES)}
    return json.dumps({**sides, **facts, "rows": [asdict(result) for result in results]}, indent=2)


def _table(commits: Mapping[str, Commit], rows: Sequence[Row]) -> str:
    notes = [f"{name}: {commit.known_as}" for name, commit in commits.items()]
    notes += [f"ratio: speed of new / speed of old; **no**: its interval does not reach {AIM:g}"]
    return report("New against old", rows, _PACKAGES, notes).replace("| ours | peer |", "| new | old |")


def main() -> int:
    """Compares, prints, and gives the exit code."""
    chosen = _arguments()
    names, sizes = _rows(chosen.rows), QUICK if chosen.quick else Sizes()
    rows, results, quiet, pace = list[Row](), list[Result](), Quiet(), rounds_per_second()
    with tempfile.TemporaryDirectory(prefix="against-") as home:
        commits = {
            OLD: checked_out(chosen.old, Path(home) / OLD),
            NEW: checked_out(chosen.new, Path(home) / NEW),
        }
        for number, name in enumerate(names):
            print(f"{name} … ({number + 1} of {len(names)})", file=sys.stderr, flush=True)
            quiet.grant(chosen.wait_quiet / len(names))
            row, result = compare(name, commits, quiet, sizes, pace)
            rows.append(row)
            results.append(result)
            print(*_told(result), sep="\n", file=sys.stderr, flush=True)
        print(_json(commits, results) if chosen.json else _table(commits, rows))
    if any(not result.reached and not result.absent for result in results):
        return 1
    return 2 if any(result.absent for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
