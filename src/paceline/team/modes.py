"""Modes: where the minds of a team can live. Other packages add theirs by the entry point `paceline.agents`.

off       here, one after another
thread    a thread per mind: for policies that wait, or that let go of the GIL
process   in processes, each mind in one from its first action to its last
batch     here; the seats of a policy that has `act_batch` share its calls, as they do in every mode
gpu       the same, with the seats of several episodes together in one call
auto      begins here, measures, and goes where it is quickest
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import MappingProxyType

from paceline.errors import BadInput
from paceline.run import Seconds, checked

GROUP = "paceline.agents"


@dataclass(frozen=True)
class Mode:
    """A place for minds.

    Attributes:
        backend: The engine's word for it.
        workers: How many workers: 0 leaves it to the budget, -1 is one per mind.
        batches: Whether the user asks for policies that answer in batches.
        cohorts: Whether several episodes are stepped together.
    """

    backend: str
    workers: int = 0
    batches: bool = False
    cohorts: bool = False


MODES: Mapping[str, Mode] = MappingProxyType(
    {
        "off": Mode("inline"),
        "thread": Mode("thread", workers=-1),
        "process": Mode("process"),
        "batch": Mode("inline", batches=True),
        "gpu": Mode("inline", batches=True, cohorts=True),
        "auto": Mode("auto"),
    }
)
"""The modes that we bring along."""


def names() -> list[str]:
    """Every mode that can be asked for here."""
    return [*MODES, *(point.name for point in entry_points(group=GROUP) if point.name not in MODES)]


def check_deadline(name: str, deadline: float | None) -> None:
    """Says so where a deadline for calls cannot be kept."""
    if deadline is None:
        return
    checked("call_deadline", Seconds | None, deadline)
    if find(name).backend in ("inline", "thread"):
        raise BadInput(
            f"a call deadline cannot be kept where agents={name!r}: only a policy in a process of its own can be "
            "ended; use agents='process', or a deadline for the whole episode"
        )


def find(name: str) -> Mode:
    """Gives the mode of that name.

    Raises:
        BadInput: there is none; or what an entry point names is no `Mode`.
    """
    if name in MODES:
        return MODES[name]
    for point in entry_points(group=GROUP):
        if point.name == name:
            mode = point.load()
            if not isinstance(mode, Mode):
                raise BadInput(f"the entry point {name!r} of {GROUP} is a {type(mode).__name__}; it must be a Mode")
            return mode
    raise BadInput(f"there is no mode {name!r} for agents; give one of {', '.join(names())}")
