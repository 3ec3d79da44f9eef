"""Run agents in environments in parallel, and get exactly the result of running them one after another."""

from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from paceline.engine import HERE, Anew, Budget, Event, Handle, Outcome, Plan, Pool, Port, Trace, WorkerInfo
from paceline.errors import (
    BadInput,
    CallTimeout,
    Closed,
    MemberExit,
    NotSendable,
    PacelineError,
    PlanNotMet,
    RemoteError,
    ReplayDiverged,
    SharedRandomness,
    TooLarge,
    WorkerLost,
)
from paceline.evaluate import Report, evaluate
from paceline.seeds import digest, seed_of
from paceline.types import Mission, Seat

if TYPE_CHECKING:
    from paceline.vector import make_vec

__version__ = _version("paceline")

__all__ = [
    "HERE",
    "Anew",
    "BadInput",
    "Budget",
    "CallTimeout",
    "Closed",
    "Event",
    "Handle",
    "MemberExit",
    "Mission",
    "NotSendable",
    "Outcome",
    "PacelineError",
    "Plan",
    "PlanNotMet",
    "Pool",
    "Port",
    "RemoteError",
    "ReplayDiverged",
    "Report",
    "Seat",
    "SharedRandomness",
    "TooLarge",
    "Trace",
    "WorkerInfo",
    "WorkerLost",
    "digest",
    "evaluate",
    "make_vec",
    "seed_of",
]


def __getattr__(name: str) -> Any:
    """Brings `make_vec` in when it is first asked for: it needs Gymnasium, which takes a while to import."""
    if name == "make_vec":
        from paceline.vector import make_vec

        return make_vec
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")
