"""Run agents in environments in parallel, and get exactly the result of running them one after another."""

from paceline.command_signals import COMMAND_SIGNALS as _COMMAND_SIGNALS
from paceline.command_signals import is_the_command as _is_the_command

if _is_the_command():  # before anything else is imported, which takes a while
    _COMMAND_SIGNALS.install()

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from paceline.collect import Collection, Collector, collect
from paceline.engine import HERE, Anew, Budget, Event, Handle, Outcome, Plan, Pool, Port, Trace, WorkerInfo
from paceline.errors import (
    BadInput,
    CallTimeout,
    Closed,
    Diverged,
    EpisodesFailed,
    MemberExit,
    NotSendable,
    PacelineError,
    PlanNotMet,
    RemoteError,
    ReplayDiverged,
    RolloutsFailed,
    SharedRandomness,
    TooLarge,
    TrajectoryTimeout,
    WorkerLost,
)
from paceline.evaluate import Report, evaluate
from paceline.meta import MetaTraining, meta
from paceline.seeds import digest, seed_of
from paceline.train import Training, train
from paceline.types import Mission, Seat
from paceline.worlds.meta.registration import register_with_gymnasium as _register_with_gymnasium

if TYPE_CHECKING:
    from paceline.adapters.pomdp_baselines import AGENT_ARCHS, ParallelEnvManager, make_env, make_parallel_env
    from paceline.adapters.ragen import EnvStateManager
    from paceline.catalog.text_envs import register_env_type
    from paceline.groups import Groups
    from paceline.vector import make_vec

__version__ = _version("paceline")

_register_with_gymnasium()

__all__ = [
    "AGENT_ARCHS",
    "HERE",
    "Anew",
    "BadInput",
    "Budget",
    "CallTimeout",
    "Closed",
    "Collection",
    "Collector",
    "Diverged",
    "EnvStateManager",
    "EpisodesFailed",
    "Event",
    "Groups",
    "Handle",
    "MemberExit",
    "MetaTraining",
    "Mission",
    "NotSendable",
    "Outcome",
    "PacelineError",
    "ParallelEnvManager",
    "Plan",
    "PlanNotMet",
    "Pool",
    "Port",
    "RemoteError",
    "ReplayDiverged",
    "Report",
    "RolloutsFailed",
    "Seat",
    "SharedRandomness",
    "TooLarge",
    "Trace",
    "Training",
    "TrajectoryTimeout",
    "WorkerInfo",
    "WorkerLost",
    "collect",
    "digest",
    "evaluate",
    "make_env",
    "make_parallel_env",
    "make_vec",
    "meta",
    "register_env_type",
    "seed_of",
    "train",
]


_POMDP_BASELINES = "paceline.adapters.pomdp_baselines"

_LATER = {
    "AGENT_ARCHS": _POMDP_BASELINES,
    "EnvStateManager": "paceline.adapters.ragen",
    "Groups": "paceline.groups",
    "ParallelEnvManager": _POMDP_BASELINES,
    "make_env": _POMDP_BASELINES,
    "make_parallel_env": _POMDP_BASELINES,
    "make_vec": "paceline.vector",
    "register_env_type": "paceline.catalog.text_envs",
}


def __getattr__(name: str) -> Any:
    """Brings a name in when it is first asked for: these need packages that take a while to import."""
    if name in _LATER:
        return getattr(_import_module(_LATER[name]), name)
    raise AttributeError(f"module 'paceline' has no attribute {name!r}")
