"""Members change places: by snapshot where they can give one, else by replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.pool.arguments import check_trust
from paceline.engine.supervisor.handle import Handle, Request
from paceline.engine.supervisor.roster import HERE, Member, Slot
from paceline.engine.workers.base import Backend, find
from paceline.errors import BadInput

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew


GRACE = 2.0
"""Seconds that members of a worker may take to close where they are not to live on."""

Spreading = Callable[[int, int, int], list[int]]
"""Slots of the members, from (members, workers, how many the caller's process keeps)."""


class Moving:
    """Moves the members of a crew while nothing is under way.

    Only the change of the books is kept from interrupts. Before it, everybody is where they were; after it, they are
    being built in their new places, and whoever asks them next waits for that.
    """

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def move(self, target: dict[int, int], *, backend: str | None = None, workers: int | None = None) -> None:
        """Moves members to other slots. Nothing is given up before the new place stands."""
        crew = self._crew
        place, slots = self._slots_for(backend, workers)
        placed = {member.index: target.get(member.index, member.slot) for member in crew.members}
        for index, number in placed.items():
            if number not in slots:
                raise BadInput(f"member {index} cannot move to worker {number}; there are {len(slots) - 1}")
            if number == HERE and crew.settings.data_only:
                raise BadInput(f"member {index} cannot move to the caller's process: the pool has trust='data'")
        if crew.settings.data_only:
            check_trust("data", place.name, len(slots) - 1)
        moving = [m for m in crew.members if slots[placed[m.index]] is not crew.slots.get(m.slot)]
        _check_portable(moving)
        crew.settle_rings(placed)
        stood, on_main = {member.index for member in moving if member.stands}, UNINTERRUPTED.on_main()
        try:
            crew.start(slots[placed[member.index]] for member in moving)
            for member in moving:  # who cannot travel must not have left
                member.recipe(slots[placed[member.index]].worker.in_process)
            self._shorten(moving)
            self._leave(moving, self._crew.limit)
        except BaseException:
            self._stay(moving, slots)
            raise
        old = crew.slots
        # At once: they have left, and to call something would be a chance to be interrupted.
        UNINTERRUPTED.depth += on_main
        with UNINTERRUPTED:
            UNINTERRUPTED.depth -= on_main
            handle = self._change_books(moving, placed, slots, place)
        self._arrive(handle, [slot for slot in old.values() if slot not in slots.values()])
        crew.note("moved", f"members {[member.index for member in moving]} moved")
        if not stood.isdisjoint(handle.failures()):  # who did not stand before has said so before
            raise handle.first_error(among=stood)

    def _change_books(
        self, moving: list[Member], placed: dict[int, int], slots: dict[int, Slot], place: Backend
    ) -> Handle:
        crew = self._crew
        crew.slots, crew.backend = slots, place
        crew.epoch += 1
        crew.let_go()
        for member in moving:
            member.slot, member.leaving = placed[member.index], False
        handle = crew.sending.build(moving)
        self._bind_again()
        here = slots[HERE].worker
        if here is not None:
            here.beside_threads(crew.is_beside_threads(slots.values()))
        return handle

    def _arrive(self, handle: Handle, left: list[Slot]) -> None:
        try:
            handle.finish()
        finally:
            with UNINTERRUPTED:  # a few seconds at the most, and nothing may be left behind
                self._crew.close_slots(left)

    def _stay(self, moving: list[Member], slots: dict[int, Slot]) -> None:
        """The move is off: new workers go, and members that may have left are built again where they were."""
        crew = self._crew
        with UNINTERRUPTED:
            for member in moving:
                if member.leaving:
                    member.leaving = False
                    crew.slots[member.slot].suspect = crew.suspicious = True
            crew.close_slots(slot for slot in slots.values() if slot not in crew.slots.values())

    def take_leave(self) -> None:
        """Members close, and are not built again. They may take as long as where their pool is closed."""
        self._leave(self._crew.members, GRACE)

    def relocate(self, backend: str, workers: int, *, own: int = 0, threads: int = 1) -> None:
        """Moves everybody: to so many workers of a backend (`own` members: here), or all here."""
        here = backend == "inline"
        before, slots = self._crew.settings, self._crew.slots
        self._crew.settings = replace(before, threads=threads)
        placed = self._crew.spreading(len(self._crew.members), 0 if here else workers, own)
        try:
            self.move(dict(enumerate(placed)), backend=None if here else backend, workers=0 if here else workers)
        except BaseException:
            if self._crew.slots is slots:  # nobody has moved, so workers to come are like those that there are
                self._crew.settings = before
            raise

    def _slots_for(self, backend: str | None, workers: int | None) -> tuple[Backend, dict[int, Slot]]:
        """Slots that stay are kept with their workers; those of another backend are new."""
        crew = self._crew
        count = len(crew.slots) - 1 if workers is None else workers
        place = crew.backend if backend in (None, crew.backend.name) else find(str(backend))
        kept = crew.slots if place is crew.backend else {HERE: crew.slots[HERE]}
        return place, {n: kept[n] if n in kept else Slot(n, place) for n in (HERE, *range(count))}

    def can_save(self, member: Member) -> bool:
        """Whether it can be saved, which is found out by doing it: then it moves without its past."""
        self._shorten([member])
        return member.snapshots

    def _shorten(self, members: list[Member]) -> None:
        able = [member for member in members if member.snapshots]
        handle = Handle(self._crew.hearing.pump, [member.index for member in able])
        for member in able:
            request = self._crew.shortening.saving({member.index: None}, handle)
            self._crew.sending.submit(self._crew.slots[member.slot], request)
        handle.finish()

    def _leave(self, members: list[Member], deadline: float | None) -> None:
        """Members close where they are before they are built elsewhere; what they hold can be held only once."""
        for member in members:
            slot = self._crew.slots[member.slot]
            if slot.worker is not None:
                member.leaving = True
                self._crew.sending.submit(slot, Request("drop", {member.index: None}, deadline=deadline))
        while self._crew.busy:
            self._crew.hearing.pump(None)

    def _bind_again(self) -> None:
        for number, port in self._crew.ports.items():
            for slot in self._crew.slots.values():
                if slot.worker is not None:
                    lives = port.book.lives_on(slot)
                    told = self._crew.sending.binding(number) if lives else Request("unbind", {}, method=number)
                    self._crew.sending.submit(slot, told)


def spread(members: int, workers: int, own: int = 0) -> list[int]:
    """Slots of members: in blocks of equal size, but for the last `own`, which the caller's process keeps."""
    theirs = members - own if workers else 0
    return [number * workers // theirs if number < theirs else HERE for number in range(members)]


def _check_portable(members: list[Member]) -> None:
    for member in members:
        if not member.portable:
            raise BadInput(
                f"member {member.index} is not deterministic and has neither snapshot and restore nor recall, so "
                "it cannot be moved once it has answered"
            )
