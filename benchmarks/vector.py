"""How fast vectors of envs step: ours, those of Gymnasium, Stable-Baselines3, TorchRL, PufferLib, and a plain loop.

    python benchmarks/vector.py --peers .bench [--quick] [--only WORKLOAD] [--markdown FILE] [--plot FILE]

`--peers` installs the peers, and us, into an environment of their own, and goes on in there. There is a race for each
workload and number of envs: everybody in a process of their own, one of them working at a time, slices interleaved.
First the aims, then steps per second divided by those of a plain loop in the same round. Who is absent is named.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contestants import AUTO, CONTESTANTS, LOOP
from lanes import Found, race
from peers import go_on_in
from quiet import Quiet, Slices, duration, report
from vector_aims import Results, aims
from vector_envs import WORKLOADS, rounds_per_second
from vector_plot import plot


@dataclass(frozen=True)
class Sizes:
    """How much is measured: rounds of a race, seconds of a slice, seconds until somebody is warm."""

    rounds: int = 6
    seconds: float = 0.3
    warm: float = 0.6


QUICK = Sizes(rounds=3, seconds=0.15, warm=0.3)
PACKAGES = ("paceline", "gymnasium", "stable-baselines3", "torchrl", "pufferlib", "envpool", "numpy", "mujoco")


def measure(chosen: argparse.Namespace) -> Results:
    """Runs all races that are asked for."""
    planned, sizes, quiet = list(_planned(chosen)), QUICK if chosen.quick else Sizes(), Quiet()
    pace, begin, results = rounds_per_second(), time.monotonic(), dict[tuple[str, int], Found]()
    for number, (workload, envs) in enumerate(planned):
        _tell(f"{workload}, {envs} envs … {_left(begin, number, len(planned))}")
        quiet.grant(chosen.wait_quiet / len(planned))
        orders = [
            {"name": name, "workload": workload, "envs": envs, "pace": pace, "warm": sizes.warm}
            for name, contestant in CONTESTANTS.items()
            if contestant.takes_part(workload, envs)
        ]
        seconds = sizes.seconds * WORKLOADS[workload].longer
        results[workload, envs], said = race(quiet, orders, sizes.rounds, seconds)
        _tell(f"    {AUTO}: {said.get(AUTO, 'absent')}")
    return results


def _planned(chosen: argparse.Namespace) -> Iterator[tuple[str, int]]:
    for name in chosen.only or WORKLOADS:
        workload = WORKLOADS[name]
        usual = workload.quick if chosen.quick and not chosen.only else workload.envs
        for envs in chosen.envs or usual:
            yield name, envs


def _left(begin: float, done: int, of: int) -> str:
    if not done:
        return f"(1 of {of})"
    minutes = (time.monotonic() - begin) / done * (of - done) / 60
    return f"({done + 1} of {of}, about {minutes:.1f} minutes left)"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- what is shown -------------------------------------------------------------------------------------


def table(results: Results) -> str:
    """Steps per second of everybody by those of the loop."""
    names = [name for name in CONTESTANTS if name != LOOP]
    lines = [["workload", "envs", "loop, a step", *names], ["---"] * (len(names) + 3)]
    for (workload, envs), found in results.items():
        base = found[LOOP]
        shown = duration(base.median()) if isinstance(base, Slices) else "absent"
        lines.append([workload, str(envs), shown, *(_cell(base, found.get(name)) for name in names)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(base: Slices | str, other: Slices | str | None) -> str:
    if not isinstance(base, Slices) or not isinstance(other, Slices):
        return "" if other is None else "absent"
    ratio = base.over(other)
    low, high = ratio.interval()
    return f"{ratio.median():.3g} [{low:.3g}, {high:.3g}]{' loaded' if ratio.loaded else ''}"


def absent(results: Results) -> Iterator[str]:
    """Who was not there, where, and why: a line for each reason."""
    missed: dict[tuple[str, str], list[str]] = {}
    for (workload, envs), found in results.items():
        for name, what in found.items():
            if isinstance(what, str):
                missed.setdefault((name, what), []).append(f"{workload}, {envs}")
    for (name, why), where in missed.items():
        yield f"absent: {name} ({why})" + ("" if len(where) == len(results) else f" in {'; '.join(where)}")


def text_of(results: Results) -> str:
    rows = list(aims(results))
    verdicts = [row.met for row in rows]
    count = f"aims: {verdicts.count('yes')} met, {verdicts.count('no')} not met, {verdicts.count('?')} unknown"
    head = report("Vectors", rows, PACKAGES, [*absent(results), count])
    return f"{head}\nSteps per second, a plain loop = 1: median [95 %].\n\n{table(results)}\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="four minutes: does it still run, is anything far off?")
    parser.add_argument(
        "--only",
        metavar="WORKLOAD",
        choices=WORKLOADS,
        action="append",
        help=f"may be repeated: {', '.join(WORKLOADS)}",
    )
    parser.add_argument("--envs", metavar="N", type=int, action="append", help="so many; may be repeated")
    parser.add_argument("--peers", metavar="DIR", type=Path, help="an environment for the peers; made if not there")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write the tables there too")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw it (needs 'paceline[report]')")
    parser.add_argument("--wait-quiet", metavar="SECONDS", type=float, default=120.0, help="for the whole run")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    if chosen.peers:
        go_on_in(chosen.peers)
    results = measure(chosen)
    text = text_of(results)
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text, encoding="utf-8")
    if chosen.plot:
        plot(results, chosen.plot)


if __name__ == "__main__":
    main()
