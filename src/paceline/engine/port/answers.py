"""What a port's items have answered: into their members' journals first, and then to the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.engine.host.bound_port import IDLE, NEWS
from paceline.engine.host.member import ERROR, OK, SHARED, Result
from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.journal.journal import Mark
from paceline.engine.supervisor.handle import Request, as_error, first_of, noted
from paceline.engine.supervisor.roster import Slot
from paceline.engine.transport import codec
from paceline.errors import NotData

if TYPE_CHECKING:
    from paceline.engine.port.items import Book
    from paceline.engine.port.notices import Ringing
    from paceline.engine.supervisor.supervisor import Crew

_PLAIN: Result = (0, OK, None, 0, None)  # what an item that only wrote its rows has answered


class Answers:
    """Takes in what the items of one port have answered."""

    def __init__(self, crew: Crew, book: Book, ringing: Ringing) -> None:
        self._crew = crew
        self._book = book
        self._ringing = ringing
        # Items whose answers are in the journal and not yet with the caller, and how far the journal had come before.
        self.absorbed: dict[int, Mark] = {}
        self.tries: dict[int, int] = {}  # how many workers an item has killed
        self.aside: set[int] = set()  # items that did not count on threads: rung again once their members have moved
        self.extras: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}

    def harvest(self) -> list[int]:
        """Hands the caller everything that is done. Returns whose items these are."""
        book = self._book
        if self.take_plain():
            return book.members.copy()
        state = book.state.tobytes()
        done = [i for i in book.everyone if book.waiting[i] and state[i] and not book.unheard(i, state)]
        for item in done:
            self.absorb(item)
            self._deliver(item)
        book.outstanding -= len(done)
        return [book.members[item] for item in done]

    def take_plain(self) -> bool:
        """Hands everything out, if everybody was asked, and has written rows and nothing else. As nearly always."""
        book = self._book
        if self.absorbed or book.state.tobytes() != book.all_ready or book.outstanding != len(book.members):
            return False
        book.log.served(None)
        book.waiting[:] = book.zeros
        book.state[:] = book.zeros
        book.outstanding = 0
        if self.tries:
            self.tries.clear()
        if self._crew.fruitless:
            for item in book.everyone:
                self._crew.fruitless.pop(book.slot_of(item).number, None)
        return True

    def absorb(self, item: int) -> None:
        """Takes what an item has answered into its member's journal, once."""
        if item in self.absorbed:
            return
        book = self._book
        journal = book.member(item).journal
        self.absorbed[item] = journal.mark()
        _, kind, _, checked, base = book.heard.get(item, _PLAIN)
        if kind == ERROR:
            book.log.failed(item, checked)
        else:
            book.log.served([item])
        if base is not None:
            journal.start_anew(base, (book.log, item))

    def _deliver(self, item: int) -> None:
        """Hands the caller what an item has answered beside its rows."""
        book = self._book
        _, kind, payload, _, _ = book.heard.pop(item, _PLAIN)
        member = book.member(item)
        error, answer = (as_error(payload), None) if kind == ERROR else _said(payload)
        if error is not None:
            self.errors[member.index] = noted(error, f"in member {member.index} (key {member.key!r}), {book.method}()")
        elif answer is not None:
            self.extras[member.index] = answer
        self.absorbed.pop(item, None)
        self.tries.pop(item, None)
        if self._crew.fruitless:
            self._crew.fruitless.pop(member.slot, None)
        book.waiting[item] = 0
        book.state[item] = IDLE

    def first_error(self) -> BaseException:
        """The lowest member's exception; the others hang on it as notes."""
        return first_of(self.errors)

    def absorb_all(self, items: list[int]) -> None:
        """Takes what these have answered into their members' journals; `harvest` still has to hand it out."""
        with UNINTERRUPTED:
            for item in items:
                self.absorb(item)

    def hear(self, item: int, result: Result) -> None:
        """Takes a message about an item in; a stale one is rebuilt and rung again."""
        book = self._book
        if item in book.heard:
            return  # it has been answered for meanwhile
        index, kind, payload, checked, base = result
        if not self._crew.aside.counts(kind):
            book.state[item] = IDLE
            self.make_again(item, result)
            return
        book.heard[item] = (index, ERROR, payload, checked, base) if kind == SHARED else result
        if kind == ERROR:
            book.state[item] = NEWS  # as its worker does, if it has the port

    def make_again(self, item: int, result: Result) -> None:
        """Has an item run that did not count: elsewhere, or where it is, once its member has been rebuilt."""
        slot, member = self._book.slot_of(item), self._book.member(item)
        if self._crew.aside.leaves(slot, self._ringing.request([item]), result):
            self.aside.add(item)
            return
        slot.queue.extendleft(self._ringing.again(slot, {member.index}))
        self._crew.aside.isolate(slot, [member])

    def take(self, slot: Slot, request: Request, answer: Any) -> None:
        """A worker that was asked by a message has served; where memory is not shared, its rows come with that."""
        if answer is None:
            return
        book = self._book
        outputs, state = answer
        begin = 0
        for item, found in zip(request.items, state.tolist(), strict=True):
            start, begin = begin, book.rows.after(item, begin)
            if found == IDLE:
                continue  # it is not bound there, and has been answered for
            if found == NEWS and item not in book.heard:
                continue  # stale: `hear` has had it rebuilt and rung again, so it is not done, even if the worker dies
            book.rows.take(item, outputs, start)
            book.asked[item] = 0
            book.state[item] = found

    def forget(self) -> None:
        """The round in hand never took place, but for those that are still waited for."""
        self.absorbed = {item: mark for item, mark in self.absorbed.items() if self._book.waiting[item]}
        self.aside.clear()

    @property
    def due(self) -> bool:
        """Whether rows that were asked for have not been run yet; those that were set aside do not count."""
        book = self._book
        return any(book.waiting[i] and not book.state[i] and i not in self.aside for i in book.everyone)


def _said(payload: codec.Packed | None) -> tuple[BaseException | None, Any]:
    """What an item said beside its rows; what is not data, where only data is trusted, is its error."""
    try:
        return None, None if payload is None else codec.unpack(payload)
    except NotData as error:
        return error, None
