"""Compare: two runs on the same seeds, episode by episode; what differs is the policy."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.errors import BadInput
from paceline.evaluate.report import Report, reward_of
from paceline.evaluate.run import owner_of
from paceline.evaluate.statistics import Summary, summarize
from paceline.fingerprint import UNKNOWN
from paceline.types import Episode

_CODE = ("", "function")
"""Parts of a recipe that say what is called, and not with what."""
_DEFINITION = re.compile(r"^((?!builtins\.)\w+\.[\w.<>]+)( in .+)? [0-9a-f]{16}$")
"""A function or a class, and a digest of its code, which is no option: the policy may live in the same file."""


@dataclass(frozen=True)
class Comparison:
    """How B did against A, on the episodes that both have.

    Attributes:
        mission: The mission; "*" is all of them.
        a: The summary of A's rewards on these episodes.
        b: The summary of B's.
        difference: The summary of B − A, episode by episode.
        wins: In how many episodes B was better.
        ties: In how many they were equal.
    """

    mission: str
    a: Summary
    b: Summary
    difference: Summary
    wins: int
    ties: int

    @property
    def win_rate(self) -> float:
        """The share of episodes that B won, ties counted half."""
        return (self.wins + self.ties / 2) / self.difference.count

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval of the difference leaves out 0."""
        summary = self.difference
        return summary.mean is not None and summary.ci is not None and abs(summary.mean) > summary.ci


def compare(
    a: Report, b: Report, policy_a: str | None = None, policy_b: str | None = None, *, anyway: bool = False
) -> list[Comparison]:
    """Compares two reports, mission by mission and over all missions.

    Args:
        a: The one to compare with.
        b: The other.
        policy_a: Whose rewards count in A; None: those of all seats.
        policy_b: Whose rewards count in B.
        anyway: Whether missions of one name are compared though their options or steps differ.

    Raises:
        BadInput: they have no episode in common with the same seed; a mission of both was played with other options or
            steps; or a policy is in neither.
    """
    left, right = _by_key(a, policy_a, "A"), _by_key(b, policy_b, "B")
    common = [key for key in left if key in right]
    if not common:
        raise BadInput("the two runs have no episode in common: the same mission with the same seed, played to its end")
    missions = list(dict.fromkeys(mission for mission, _ in common))
    unlike = [] if anyway else list(_unlike_missions(a, b, missions))
    if unlike:
        raise BadInput(
            f"the two runs did not play the same: {'; '.join(unlike)}. To compare them all the same: --anyway "
            "(anyway=True)"
        )
    names = [*missions, *(["*"] if len(missions) > 1 else [])]
    return [_compared(name, [key for key in common if name in (key[0], "*")], left, right) for name in names]


def _unlike_missions(a: Report, b: Report, names: Sequence[str]) -> Iterator[str]:
    """What differs between missions that are called the same, in words."""
    known = a.made_of.keys() & b.made_of.keys()  # runs of older releases do not say
    left, right = ({m["name"]: _played_with(m, r, known) for m in r.identity["missions"]} for r in (a, b))
    for name in names:
        for what in {**left[name], **right[name]}:
            one, other = (each[name].get(what, "not given") for each in (left, right))
            if one != other:
                yield f"{what} of {name} is {one} in A, and {other} in B"


def _played_with(mission: Mapping[str, Any], report: Report, known: Container[str]) -> dict[str, str]:
    """Options and steps; options may also be bound to what makes the environment (`partial`, a closure)."""
    steps, owner = mission.get("steps"), owner_of(mission["name"])
    parts = report.made_of[owner] if owner in known else {}
    bound = {
        part: _DEFINITION.sub(r"\1", text)
        for part, text in parts.items()
        if part not in _CODE and not part.endswith("code") and not text.startswith(UNKNOWN)
    }
    return {**bound, **mission.get("options", {}), "steps": "without a limit" if steps is None else str(steps)}


def _by_key(report: Report, policy: str | None, which: str) -> dict[tuple[str, int], float]:
    known = [entry["name"] for entry in report.identity["policies"]]
    if policy is not None and policy not in known:
        raise BadInput(f"{which} has no policy {policy!r}; it has {', '.join(known)}")

    def counts(episode: Episode) -> bool:
        return episode.failure is None and (policy is None or policy in episode.seats.values())

    return {(e.mission, e.seed): reward_of(e, policy) for e in report.episodes if counts(e)}


def _compared(
    mission: str,
    keys: list[tuple[str, int]],
    left: dict[tuple[str, int], float],
    right: dict[tuple[str, int], float],
) -> Comparison:
    differences = [right[key] - left[key] for key in keys]
    return Comparison(
        mission,
        summarize([left[key] for key in keys]),
        summarize([right[key] for key in keys]),
        summarize(differences),
        sum(difference > 0 for difference in differences),
        sum(difference == 0 for difference in differences),
    )
