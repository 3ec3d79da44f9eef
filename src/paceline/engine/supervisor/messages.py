"""What a worker is sent for a request: written when it is sent, so that it says what is so by then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.engine.supervisor.handle import Request
from paceline.engine.supervisor.roster import Member, Slot

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew

Message = tuple[tuple[Any, ...] | None, int | None]
"""The message, or None if there is nothing to ask any more, and the descriptor that goes with it."""


def compose(crew: Crew, slot: Slot, request: Request) -> Message:
    """The message for a request to the worker of this slot."""
    op, items = request.op, request.items
    if op in ("build", "call", "snapshot") and not items:
        return None, None  # everybody has been answered for
    if op == "build":
        return ("build", [_recipe(slot, crew.members[index]) for index in items]), None
    if op == "call":
        return ("call", request.method, request.record, list(items.items())), None
    if op in ("snapshot", "drop"):
        return (op, list(items)), None
    return (None, None) if _outlived(crew, request) else _of_map_or_port(crew, slot, request)


def _of_map_or_port(crew: Crew, slot: Slot, request: Request) -> Message:
    op, number = request.op, request.method
    if op == "map":
        return ("map", number, list(request.items.items())), None
    if op == "define":
        mapped = crew.functions[number]
        return (op, number, mapped.for_worker(slot.worker.in_process), mapped.draws), None
    if op == "bind":
        return crew.ports[number].binding(slot)
    if op == "ring":
        return crew.ports[number].ringing.message(slot, request), None
    return (op, number), None


def _outlived(crew: Crew, request: Request) -> bool:
    """Whether the map or the port that it belongs to has been left or closed since."""
    if request.op in ("map", "define"):
        return request.method not in crew.functions
    return request.op in ("bind", "ring") and request.method not in crew.ports


def _recipe(slot: Slot, member: Member) -> tuple[Any, ...]:
    base, entries = member.journal.replay()
    recipe = member.recipe(slot.worker.in_process)
    return member.index, member.key, recipe, base, entries, member.isolated, member.deterministic
