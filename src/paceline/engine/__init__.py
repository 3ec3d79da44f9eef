"""The engine: ordered pools of live members, the same on every backend. Knows nothing of agents or environments."""

from paceline.engine.backend import find as find_backend
from paceline.engine.budget import WORKER_BYTES, Budget
from paceline.engine.budget import current as current_budget
from paceline.engine.calls import Handle, Outcome, wait_for_any
from paceline.engine.forkserver import prepare as prepare_workers
from paceline.engine.forkserver import seconds_until_ready as seconds_until_workers
from paceline.engine.forkserver import temporary_directory
from paceline.engine.generators import draws_of
from paceline.engine.moving import spread
from paceline.engine.own_streams import OwnStreams, are_plain_streams
from paceline.engine.owned_streams import OwnedStreams, seeds_from_caller
from paceline.engine.plain import data_record, fits
from paceline.engine.plan import TWO_CORES_ARE_NOT_TWICE_ONE, WAITS_BELOW, Plan, wanted_cpu
from paceline.engine.pool import Pool, WorkerInfo
from paceline.engine.port import Port
from paceline.engine.preparation import tell_workers
from paceline.engine.published import Published
from paceline.engine.roster import HERE, Event
from paceline.engine.seat import Anew
from paceline.engine.shared_arrays import SharedArrays
from paceline.engine.store import StoreKey, kept, put_back, take
from paceline.engine.trace import Trace
from paceline.engine.wire import check_sendable

__all__ = [
    "HERE",
    "TWO_CORES_ARE_NOT_TWICE_ONE",
    "WAITS_BELOW",
    "WORKER_BYTES",
    "Anew",
    "Budget",
    "Event",
    "Handle",
    "Outcome",
    "OwnStreams",
    "OwnedStreams",
    "Plan",
    "Pool",
    "Port",
    "Published",
    "SharedArrays",
    "StoreKey",
    "Trace",
    "WorkerInfo",
    "are_plain_streams",
    "check_sendable",
    "current_budget",
    "data_record",
    "draws_of",
    "find_backend",
    "fits",
    "kept",
    "prepare_workers",
    "put_back",
    "seconds_until_workers",
    "seeds_from_caller",
    "spread",
    "take",
    "tell_workers",
    "temporary_directory",
    "wait_for_any",
    "wanted_cpu",
]
