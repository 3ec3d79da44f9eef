"""The engine: ordered pools of live members, the same on every backend. Knows nothing of agents or environments."""

from paceline.engine.budget import Budget
from paceline.engine.calls import Handle, Outcome, wait_for_any
from paceline.engine.moving import spread
from paceline.engine.plan import Plan
from paceline.engine.pool import Pool, WorkerInfo
from paceline.engine.port import Port
from paceline.engine.roster import HERE, Event
from paceline.engine.seat import Anew
from paceline.engine.trace import Trace

__all__ = [
    "HERE",
    "Anew",
    "Budget",
    "Event",
    "Handle",
    "Outcome",
    "Plan",
    "Pool",
    "Port",
    "Trace",
    "WorkerInfo",
    "spread",
    "wait_for_any",
]
