"""The engine: ordered pools of live members, the same on every backend. Knows nothing of agents or environments."""

from paceline.engine.host.member import Anew
from paceline.engine.host.store import StoreKey, kept, put_back, take
from paceline.engine.host.tables import tell_workers
from paceline.engine.planning.budget import WORKER_BYTES, Budget
from paceline.engine.planning.budget import current as current_budget
from paceline.engine.planning.plan import TWO_CORES_ARE_NOT_TWICE_ONE, WAITS_BELOW, Plan, wanted_cpu
from paceline.engine.pool.pool import Pool, WorkerInfo
from paceline.engine.port.port import Port
from paceline.engine.randomness.generators import draws_of
from paceline.engine.randomness.owned_streams import OwnedStreams, seeds_from_caller
from paceline.engine.randomness.streams import OwnStreams, are_plain_streams
from paceline.engine.supervisor.handle import Handle, Outcome, wait_for_any
from paceline.engine.supervisor.moves import spread
from paceline.engine.supervisor.roster import HERE, Event
from paceline.engine.trace import Trace
from paceline.engine.transport.codec import check_sendable
from paceline.engine.transport.plain_data import data_record, fits
from paceline.engine.transport.published import Published
from paceline.engine.transport.shared_arrays import SharedArrays
from paceline.engine.workers.base import find as find_backend
from paceline.engine.workers.process.fork_client import prepare as prepare_workers
from paceline.engine.workers.process.fork_client import seconds_until_ready as seconds_until_workers
from paceline.engine.workers.process.fork_client import temporary_directory

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
