"""The command line that benchmarks of measures share: which measures, how long, where the table goes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from peers import go_on_in
from quiet import Quiet, Row, report

Measures = Mapping[str, Callable[[Quiet, Any], Iterator[Row]]]


def run(
    title: str,
    about: str,
    measures: Measures,
    sizes: Any,
    quick: Any,
    packages: Sequence[str],
    *,
    with_peers: bool = False,
) -> None:
    """Runs the measures that are asked for, and prints their table.

    Args:
        title: Of the table.
        about: For `--help`.
        measures: Name → a generator of rows.
        sizes: How much is measured.
        quick: The same with `--quick`.
        packages: Whose versions stand beside the table.
        with_peers: Whether there are contestants that live in an environment of their own.
    """
    chosen = _arguments(about, measures, with_peers)
    if with_peers and chosen.peers:
        go_on_in(chosen.peers, vectors=False)
    os.environ.setdefault("PYTHONHASHSEED", "0")  # what workers use; otherwise the engine says so each time
    names, quiet, rows = chosen.only or list(measures), Quiet(), list[Row]()
    for name in names:
        print(f"{name} …", file=sys.stderr, flush=True)
        quiet.grant(chosen.wait_quiet / len(names))
        rows += measures[name](quiet, quick if chosen.quick else sizes)
    text = report(title, rows, packages)
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text, encoding="utf-8")


def _arguments(about: str, measures: Measures, with_peers: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a minute: does it still run, is anything far off?")
    parser.add_argument(
        "--only", metavar="NAME", choices=measures, action="append", help=f"may be repeated: {', '.join(measures)}"
    )
    if with_peers:
        parser.add_argument("--peers", metavar="DIR", type=Path, help="an environment for the peers; made if not there")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the table there too")
    parser.add_argument("--wait-quiet", metavar="SECONDS", type=float, default=120.0, help="for the whole run")
    return parser.parse_args()
