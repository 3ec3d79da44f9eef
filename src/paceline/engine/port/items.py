"""The book of a port: whose its items are, where they live, and what has been asked and answered of each.

waiting   main         1 from `post` until the caller has been given it; while a round runs straight, `ones` itself
asked     both sides   1 from the ring until its worker begins it
state     both sides   IDLE, then READY or NEWS when it has been run
heard     main         what came by message about it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.engine.host.bound_port import IDLE, NEWS, READY
from paceline.engine.host.member import ERROR, Result
from paceline.engine.journal.journal import Mark, PortLog
from paceline.engine.port.rows import Rows, Spec
from paceline.engine.supervisor.roster import Member, Slot
from paceline.engine.transport.shared_memory import Array
from paceline.errors import BadInput

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew


class Book:
    """What main knows of a port's items."""

    def __init__(
        self,
        crew: Crew,
        method: str,
        inputs: Spec,
        outputs: Spec,
        members: Sequence[int],
        rows: Mapping[int, int] | None,
    ) -> None:
        self._crew = crew
        self.method = method
        self.members = list(members)
        self.everyone = list(range(len(self.members)))
        self.item_of = {member: item for item, member in enumerate(self.members)}
        self.rows = Rows(inputs, outputs, self.members, rows)
        self.asked, self.state = self.rows.asked, self.rows.state
        self.waiting: Any = bytearray(len(self.members))
        self.outstanding = 0  # how many items have been posted and not been fetched
        self.heard: dict[int, Result] = {}
        self.zeros, self.ones = bytes(len(self.members)), bytes([1]) * len(self.members)
        self.all_ready = bytes([READY]) * len(self.members)
        self.log = PortLog(method, self.rows.inputs, self.rows.outputs, self.rows.places)
        for item in self.everyone:
            self.member(item).journal.logs.append((self.log, item))

    def close(self) -> None:
        """Turns what stands in the log into entries of the members' own journals, and gives the memory back."""
        for item in self.everyone:
            journal = self.member(item).journal
            journal.settle()
            journal.logs.remove((self.log, item))
        self.rows.release()

    # -- who and where --------------------------------------------------------------------------------

    def chosen(self, members: Iterable[int] | None) -> list[int]:
        """The items of these members; None: all."""
        if members is None:
            return self.everyone
        try:
            items = [self.item_of[member] for member in members]
        except KeyError as error:
            raise BadInput(f"member {error.args[0]} is not bound to this port") from None
        if len(set(items)) < len(items):
            raise BadInput("a member is posted twice at once")
        return items

    def check_idle(self, items: Iterable[int]) -> None:
        """Raises `BadInput` if one of these is waited for."""
        if self.outstanding and any(self.waiting[item] for item in items):
            raise BadInput("a member that is posted has not been waited for since its last post")

    def member(self, item: int) -> Member:
        """Whose item it is."""
        return self._crew.members[self.members[item]]

    def slot_of(self, item: int) -> Slot:
        """Where an item's member lives."""
        return self._crew.slots[self.member(item).slot]

    def lives_on(self, slot: Slot) -> bool:
        """Whether any of the port's members lives there."""
        return any(self.member(item).slot == slot.number for item in self.everyone)

    def mask(self, items: list[int]) -> Array:
        """A byte per item: 1 for these."""
        mask = np.zeros(len(self.members), np.uint8)
        mask[items] = 1
        return mask

    # -- what has been asked --------------------------------------------------------------------------

    def expect(self, items: list[int], everyone: bool) -> None:
        """These are about to be asked."""
        if everyone:
            self.waiting[:] = self.ones
            self.state[:] = self.zeros
        else:
            for item in items:
                self.waiting[item] = 1
                self.state[item] = IDLE
        self.outstanding += len(items)  # last: who is counted is marked

    def write_down(self, items: list[int], everyone: bool) -> None:
        """Takes into the log that these are asked to run on the inputs as they stand."""
        self.log.ring(None if everyone else self.mask(items))

    def pending(self, slot: Slot) -> Iterator[int]:
        """The items that a worker still has to run."""
        for item in self.everyone:
            if self.waiting[item] and not self.state[item] and self.member(item).slot == slot.number:
                yield item

    def unheard(self, item: int, state: bytes | memoryview) -> bool:
        """Whether there is a message about an item that has not been taken in."""
        return state[item] == NEWS and item not in self.heard

    def give_up(self, item: int, error: BaseException) -> None:
        """Nobody will run it: that is its answer, and the past does not know of it."""
        self.log.withdraw(item)
        self.asked[item] = 0
        self.heard[item] = (self.members[item], ERROR, error, 0, None)
        self.state[item] = NEWS

    def void(self, absorbed: Mapping[int, Mark], *, keep: bool) -> None:
        """The round in hand never took place. Workers that may have begun it are not to be trusted.

        Args:
            absorbed: Items that the past knows as done, because their worker has died since or their member was called
                after; and what the past was before.
            keep: Whether somebody will come back for these; otherwise they never took place either.
        """
        self._crew.stirs += 1
        for item in self.everyone:
            if keep and item in absorbed:
                continue
            if self.waiting[item]:
                self.slot_of(item).suspect = self._crew.suspicious = True
            if item in absorbed:
                self.member(item).journal.go_back(absorbed[item])
            if self.log.is_open(item):
                self.log.withdraw(item)
            self.waiting[item] = self.asked[item] = self.state[item] = 0
            self.heard.pop(item, None)
        self.outstanding = sum(self.waiting)
