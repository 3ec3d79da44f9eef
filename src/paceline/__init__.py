"""Run agents in environments in parallel, and get exactly the result of running them one after another."""

from importlib.metadata import version as _version

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
    "seed_of",
]
