"""Run agents in environments in parallel, and get exactly the result of running them one after another."""

from importlib.metadata import version as _version

from paceline.engine import Anew, Budget, Handle, Plan, Pool, Port, Trace
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
from paceline.seeds import digest, seed_of

__version__ = _version("paceline")

__all__ = [
    "Anew",
    "BadInput",
    "Budget",
    "CallTimeout",
    "Closed",
    "Handle",
    "MemberExit",
    "NotSendable",
    "PacelineError",
    "Plan",
    "PlanNotMet",
    "Pool",
    "Port",
    "RemoteError",
    "ReplayDiverged",
    "SharedRandomness",
    "TooLarge",
    "Trace",
    "WorkerLost",
    "digest",
    "seed_of",
]
