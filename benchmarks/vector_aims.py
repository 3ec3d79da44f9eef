"""What vectors are held to, from the same slices as their table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from contestants import ASYNC, AUTO, CONTESTANTS, FIRST_READY, HELPED, LENT, LOOP, SYNC, TWO, UNCONNECTED
from lanes import Found
from quiet import Row, Slices, gain_row

BEST_PEER, BEST_LENDER, OUR_BEST = "best Python peer", "best Python peer that lends", "our best plan"
_BEST_OF = {
    BEST_PEER: [name for name, contestant in CONTESTANTS.items() if contestant.raced and not contestant.lends],
    BEST_LENDER: [name for name, contestant in CONTESTANTS.items() if contestant.raced and contestant.lends],
    OUR_BEST: [AUTO, HELPED, TWO],
}

Results = Mapping[tuple[str, int], Found]


@dataclass(frozen=True)
class Aim:
    """How many times somebody's time is ours, at least.

    Attributes:
        workload: Its name; empty: every one.
        envs: How many; empty: every number.
        peer: Who is divided.
        ours: By whom.
        least: The ratio that is aimed at.
        within_noise: Whether it is enough that the interval reaches it.
    """

    workload: str
    envs: tuple[int, ...]
    peer: str
    ours: str
    least: float
    within_noise: bool = False

    def concerns(self, workload: str, envs: int) -> bool:
        return self.workload in ("", workload) and (not self.envs or envs in self.envs)

    def row(self, workload: str, envs: int, found: Found) -> Row:
        ours, peer = _best(self.ours, found), _best(self.peer, found)
        measure = f"{workload}, {envs}: {_named(self.peer, peer)} / {_named(self.ours, ours)}"
        mine, theirs = found.get(ours), found.get(peer)
        if isinstance(mine, Slices) and isinstance(theirs, Slices):
            return gain_row(measure, mine, theirs, self.least, within_noise=self.within_noise)
        gone = ours if not isinstance(mine, Slices) else peer
        return Row(measure, f"{gone} is absent", f"≥ {self.least:g}", "?")


AIMS = (
    Aim("CartPole", (8, 32), ASYNC, AUTO, 5),
    Aim("CartPole", (32,), LOOP, AUTO, 1.1),
    Aim("Ant", (8,), LOOP, AUTO, 1.0),
    Aim("Ant", (8,), BEST_PEER, AUTO, 1.3),
    Aim("Ant", (8,), BEST_LENDER, LENT, 1.3),
    Aim("cpu 1 ms", (8, 32), UNCONNECTED, TWO, 0.9),
    Aim("cpu 1 ms", (8, 32), UNCONNECTED, OUR_BEST, 0.9),
    Aim("cpu 10 ms", (8,), UNCONNECTED, TWO, 0.9),
    Aim("cpu 10 ms", (8,), UNCONNECTED, OUR_BEST, 0.9),
    Aim("image 84×84×4", (), ASYNC, AUTO, 10),
    Aim("sleep 5 ms", (128,), LOOP, AUTO, 60),
    Aim("skewed", (32,), TWO, FIRST_READY, 1.3),
    Aim("", (), SYNC, AUTO, 0.95),
    Aim("", (), BEST_PEER, AUTO, 1.0, within_noise=True),
    Aim("", (), BEST_LENDER, LENT, 1.0, within_noise=True),
)


def aims(results: Results) -> Iterator[Row]:
    """A row for each aim and each race that it concerns."""
    for aim in AIMS:
        for (workload, envs), found in results.items():
            if aim.concerns(workload, envs):
                yield aim.row(workload, envs, found)


def _best(name: str, found: Found) -> str:
    """Whoever is fastest of those whom a name stands for; most names stand for themselves."""
    there = {who: slices for who in _BEST_OF.get(name, ()) if isinstance(slices := found.get(who), Slices)}
    return min(there, key=lambda who: there[who].median()) if there else name


def _named(name: str, who: str) -> str:
    return name if name == who else f"{name} ({who})"
