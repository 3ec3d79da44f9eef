"""Clocks: what of the time of playing is spent in environments, and what in policies."""

from __future__ import annotations

from dataclasses import dataclass
from threading import get_native_id
from time import perf_counter

from paceline.engine import data_record


@dataclass
class Clock:
    """Where the time of some rollouts went. Not part of any digest.

    Attributes:
        environments: Seconds in which environments were begun and stepped; with the policy here, those in which they
            were waited for.
        policy: Seconds in which the policy was asked.
        seating: Seconds that it took to build the policy, and to load its weights.
        building: Seconds that it took to build environments.
        forwards: How often it was asked.
        rows: How many rollouts were asked for in these forwards: the transitions.
        wall: Seconds from the first to the last.
    """

    environments: float = 0.0
    policy: float = 0.0
    seating: float = 0.0
    building: float = 0.0
    forwards: int = 0
    rows: int = 0
    wall: float = 0.0

    def include(self, other: Clock) -> None:
        """Adds what another clock has counted."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def asked(self, since: float, rows: int) -> None:
        """The policy has answered for so many rollouts."""
        self.policy += perf_counter() - since
        self.forwards += 1
        self.rows += rows

    def stepped(self, since: float) -> None:
        """Environments have been begun, or stepped."""
        self.environments += perf_counter() - since


data_record(Clock)


def this_worker() -> int:
    """The number of the worker that asks: of its thread, which in a worker that is a process is that of the process."""
    return get_native_id()
