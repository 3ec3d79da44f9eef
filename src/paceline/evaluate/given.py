"""What a caller asks for, and what can be had here: a device, a number of workers."""

from __future__ import annotations

from dataclasses import replace

from paceline.engine import WORKER_BYTES, Plan, current_budget
from paceline.team.device import find_device


def chosen_device(name: str) -> str:
    """The device that a name means here; torch is not asked where there is no need."""
    return name if name == "cpu" else find_device(name)


def affordable(plan: Plan, episodes: int) -> Plan:
    """The plan, with no more workers than there are episodes or room in memory; it says so if they are fewer."""
    if plan.workers is None or plan.backend == "inline":
        return plan
    room = current_budget().memory // WORKER_BYTES if plan.backend in ("auto", "process") else plan.workers
    used = max(1, min(plan.workers, episodes, room))
    if used == plan.workers:
        return plan
    why = f"there {'are' if used > 1 else 'is'} {used} to play" if used == episodes else f"memory has room for {used}"
    return replace(plan, workers=used, why=f"{plan.workers} were asked for, and {why}")
