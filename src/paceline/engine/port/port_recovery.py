"""A port when a worker is lost: who is blamed, who is rung again, and who is told that nobody can run its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.engine.host.member import Result
from paceline.engine.supervisor.handle import Request, as_error
from paceline.engine.supervisor.roster import Slot

if TYPE_CHECKING:
    from paceline.engine.port.answers import Answers
    from paceline.engine.port.items import Book
    from paceline.engine.port.notices import Ringing
    from paceline.engine.supervisor.recovery import Verdict
    from paceline.engine.supervisor.supervisor import Crew


class Salvage:
    """Saves the round in hand of one port."""

    def __init__(self, crew: Crew, number: int, book: Book, ringing: Ringing, answers: Answers) -> None:
        self._crew = crew
        self._number = number
        self._book = book
        self._ringing = ringing
        self._answers = answers
        self.unable: dict[int, BaseException] = {}  # items that no worker can serve, and why

    def lost(self, slot: Slot, dead: Any, victim: Request | None, verdict: Verdict | None) -> None:
        """A worker has died: whoever it had in hand is blamed (if anybody is to be), and given up after many tries."""
        self._ringing.by_memory.pop(slot.number, None)
        self._keep_what_was_answered(slot)
        suspects = self._suspects(slot, dead, victim)
        if len(suspects) != 1:
            self._ringing.alone.add(slot.number)
        if verdict is None or len(suspects) != 1:
            return
        [item] = suspects
        tries = self._answers.tries
        tries[item] = tries.get(item, 0) + 1
        if tries[item] >= self._crew.restarts:
            self._book.give_up(item, verdict(self._book.members[item], f"{self._book.method}()"))

    def _keep_what_was_answered(self, slot: Slot) -> None:
        book = self._book
        for item in book.everyone:
            if not book.waiting[item] or not book.state[item] or book.slot_of(item) is not slot:
                continue
            if book.unheard(item, book.state):
                book.state[item] = 0  # what it had to say has died with its worker
            else:
                self._answers.absorb(item)  # what has been answered belongs to the past that is replayed

    def _suspects(self, slot: Slot, dead: Any, victim: Request | None) -> list[int]:
        pending = list(self._book.pending(slot))
        if victim is not None and (victim.op, victim.method) == ("ring", self._number):
            return [item for item in victim.items if item in pending]
        if dead.shares_memory and victim is None:
            return [item for item in pending if not self._book.asked[item]]  # begun and not finished
        return []

    def abandon(self, slot: Slot, error: BaseException) -> None:
        """There is no worker any more, and none can be had: whoever waits is told."""
        for item in list(self._book.pending(slot)):
            self._book.give_up(item, error)

    def refused(self, result: Result) -> None:
        """A worker could not bind an item: it has this error until one can, if it is not the place that is wrong."""
        item, kind, payload, _, _ = result
        if not self._crew.aside.counts(kind):
            if not self._is_made_again(item):
                self._answers.make_again(item, result)
            return
        self.unable[item] = as_error(payload)
        self.answer_for_the_unable()

    def _is_made_again(self, item: int) -> bool:
        """Whether its member is about to be rebuilt, and the item bound and rung for after that. To do so twice would
        rebuild it from a past without the row, and run that again in place of the next."""
        slot, member = self._book.slot_of(item), self._book.members[item]
        builds, rings = [-1], [-1]
        for place, request in enumerate([*slot.inflight, *slot.queue]):
            if request.op == "build" and member in request.items:
                builds.append(place)
            elif (request.op, request.method) == ("ring", self._number) and item in request.items:
                rings.append(place)
        return builds[-1] >= 0 and (not self._book.waiting[item] or rings[-1] > builds[-1])

    def name_the_unable(self, items: list[int]) -> None:
        """Members whose worker dies whenever they are built are not there to be bound."""
        for item in items:
            lost = self._book.member(item).lost
            if lost is not None:
                self.unable[item] = lost
            else:
                self.unable.pop(item, None)
        self.answer_for_the_unable()

    def answer_for_the_unable(self) -> None:
        """Tells whoever waits for an item that nobody can serve."""
        book = self._book
        for item, error in self.unable.items():
            if book.waiting[item] and not book.state[item]:
                book.give_up(item, error)

    def ring_set_aside(self) -> None:
        """Rings for the items that were set aside; their members live somewhere else now."""
        if not self._answers.aside:
            return
        self._answers.aside.clear()
        self._ringing.rung.clear()
        for slot in self._crew.slots.values():
            for request in self._ringing.again(slot):
                self._crew.sending.submit(slot, request)
