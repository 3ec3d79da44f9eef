"""A port binds a method to arrays: one row per item, read and written in place by the worker that holds the member.

    main:    inputs[row] = …   post() ──► asked[item]=1, one ring per worker                       notices.py
    worker:  for each asked item: method(input rows…, output rows…), state[item]=READY             bound_port.py
    main:    wait() ──► outputs[row], in place; nothing has been pickled               waiting.py, answers.py

`post` rings each worker once however many members it holds. What a method returns beside its rows (an info dict, an
`Anew`) travels as a message and only if it is not None. Where memory is not shared (Ray) the rows travel in a message;
the host runs the same method on rows of the same arrays everywhere. If a worker dies in between: port_recovery.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paceline.engine.interrupts import UNINTERRUPTED
from paceline.engine.journal.snapshots import ROUNDS_PER_LOOK
from paceline.engine.pool.one_thread import one_thread
from paceline.engine.port.answers import Answers
from paceline.engine.port.inline_round import Straight, not_here, straight_round
from paceline.engine.port.items import Book
from paceline.engine.port.notices import Ringing
from paceline.engine.port.port_recovery import Salvage
from paceline.engine.port.round_clock import RoundClock
from paceline.engine.port.rows import Spec
from paceline.engine.port.waiting import Waiting
from paceline.engine.randomness.isolation import Swapping
from paceline.engine.supervisor.handle import Request
from paceline.engine.supervisor.roster import Slot
from paceline.errors import BadInput, Closed

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew


class Port:
    """A method of some members, bound to arrays. Made by `Pool.port`."""

    def __init__(
        self,
        crew: Crew,
        number: int,
        method: str,
        inputs: Spec,
        outputs: Spec,
        members: Sequence[int],
        rows: Mapping[int, int] | None,
        deadline: float | None,
    ) -> None:
        self._crew = crew
        self._number = number
        self.book = Book(crew, method, inputs, outputs, members, rows)
        self.ringing = Ringing(crew, number, self.book, deadline)
        self.answers = Answers(crew, self.book, self.ringing)
        self.salvage = Salvage(crew, number, self.book, self.ringing, self.answers)
        self._waiting = Waiting(crew, self.book, self.ringing)
        self.rounds = 0
        self.clock = RoundClock()
        self._told_pilot = 0  # how many of them the pilot knows of
        self.straight: Straight = not_here
        """The short way of a round, for whoever counts every call: if it gives False, `round` goes another."""
        self.inputs = self.book.rows.inputs
        self.outputs = self.book.rows.outputs

    @property
    def extras(self) -> dict[int, Any]:
        """What members returned beside their rows at the last `wait`."""
        return self.answers.extras

    @property
    def errors(self) -> dict[int, BaseException]:
        """What members raised at the last `wait`."""
        return self.answers.errors

    @property
    def outstanding(self) -> int:
        """How many members have been posted and not been waited for."""
        return self.book.outstanding

    # -- the caller's side ----------------------------------------------------------------------------

    @one_thread
    def post(self, members: Iterable[int] | None = None) -> None:
        """Rings the workers of these members (None: all). Does not wait; the inputs are the workers' until `wait`.

        What the same members have been called for before is brought to its end first: they are run in order.

        Raises:
            BadInput: a member is still waited for, or is not bound to this port.
        """
        crew, book = self._crew, self.book
        self._check_open()
        crew.stirs += 1
        if crew.pilot is not None:
            self.pilot_rests()
            crew.pilot.begin(through_port=True)
            self._told_pilot = self.rounds + 1  # of this one, too
        items = book.chosen(members)
        if book.outstanding:
            book.check_idle(items)
        else:
            self.clock.begin()
        if crew.called:
            crew.settle_calls(book.members[item] for item in items)
        if crew.last_port is not self:
            self._come_after_others(items)
        if crew.suspicious:
            crew.mend()
        try:
            with UNINTERRUPTED:
                book.expect(items, members is None)
                self.ringing.ring(items, members is None)
                if self.salvage.unable:
                    self.salvage.answer_for_the_unable()
        except BaseException:
            self.cancel()
            raise

    @one_thread
    def wait(self, min_ready: int | None = None, *, timeout: float | None = None, outcomes: bool = False) -> list[int]:
        """Waits for `min_ready` of the posted members (None: all of them), or for `timeout` seconds.

        Returns the members whose rows are now there, in member order; `extras` holds what they returned beside.
        The lowest member's exception is raised, or with `outcomes=True` left in `errors`. If the caller is interrupted
        while rows are being run, the round is void: members are as they were before it. Only what somebody has been
        called after, or what was done when its worker died, is kept for the next `wait`.
        """
        crew, answers, outstanding = self._crew, self.answers, self.book.outstanding
        if crew.closed:
            raise Closed("the pool was closed before its rows were fetched")
        self._check_not_within()
        answers.extras, answers.errors = {}, {}
        goal = outstanding if min_ready is None else min(min_ready, outstanding)
        try:
            self._waiting.until_ready(goal, timeout)
            with UNINTERRUPTED:
                ready = answers.harvest()
                if not self.book.outstanding:
                    self._end_round()
                elif self.clock.is_time():
                    self._look()
        except BaseException:
            if not crew.steady:
                self.cancel()
            crew.steady = False
            raise
        if crew.pilot is not None:
            crew.pilot.end(len(ready), len(ready) * self.book.rows.bytes_each, whole=goal == outstanding)
        if answers.errors and not outcomes:
            raise answers.first_error()
        return ready

    def round(self) -> None:
        """Posts to everybody and waits for all; `extras` holds what they returned beside their rows.

        Where all live here nobody has to be rung: inline_round.py.

        Raises:
            BadInput: somebody has been posted and not been waited for; that stays as it is.
        """
        if not (self.straight() or (self._find_straight() and self.straight())):
            self._post_and_wait()

    def _post_and_wait(self) -> None:
        """A round of members anywhere."""
        if self.book.outstanding:  # before the try: what was posted before is not ours to void
            self._check_open()
            self.book.check_idle(self.book.everyone)
        try:
            self.post()
            self.wait()
        except BaseException:
            with UNINTERRUPTED:
                if self.book.outstanding:
                    self.cancel(keep=False)
            raise

    def _find_straight(self) -> bool:
        """Makes `straight` anew, if all live in this process and nothing else is going on: it holds until that stirs.

        Returns:
            Whether it did.
        """
        self.straight = not_here
        crew, slot = self._crew, self.ringing.only_slot()
        if slot is None or slot.inflight or slot.queue or slot.redo or self.book.outstanding or self.salvage.unable:
            return False
        if crew.called or crew.suspicious or crew.closed or crew.trace is not None or crew.last_port is not self:
            return False
        if crew.pilot is not None and not self.pilot_rests():
            return False
        worker = slot.worker
        if worker is None or worker.backend != "inline" or type(worker.host.isolation) is not Swapping:
            return False
        if self._number not in worker.host.ports:
            return False
        self.straight = straight_round(crew, self, worker.host.ports[self._number], worker.host.isolation)
        return True

    def check_idle(self, members: Iterable[int] | None = None) -> None:
        """Before inputs are written: they belong to whoever has been posted.

        Raises:
            BadInput: one of these members (None: anybody) is waited for, or is not bound to this port.
        """
        if self.book.outstanding or members is not None:
            self.book.check_idle(self.book.chosen(members))

    @one_thread
    def close(self) -> None:
        """Unbinds the port; its arrays stay as they are."""
        if self._number not in self._crew.ports:
            return
        self.settle(set(self.book.members))
        self.straight = not_here
        del self._crew.ports[self._number]
        for slot in self._crew.slots.values():
            if slot.worker is not None and self.book.lives_on(slot):
                self._crew.sending.submit(slot, Request("unbind", {}, method=self._number))
        self.book.close()

    # -- the crew's side ------------------------------------------------------------------------------

    def settle(self, members: set[int]) -> None:
        """Waits until what these members were posted is done, and takes it into their journals; `wait` fetches it."""
        book = self.book
        self._check_not_within()
        posted = [item for item in book.everyone if book.members[item] in members and book.waiting[item]]
        leaving = self._crew.aside.leaving  # then those that were set aside have yet to be run elsewhere
        items = [item for item in posted if not (leaving and item in self.answers.aside)]
        if items:
            self._waiting.until_done(items)
            self.answers.absorb_all(items)

    def binding(self, slot: Slot) -> tuple[tuple[Any, ...], int | None]:
        """The message that binds this port on a worker, and the descriptor that goes with it."""
        book, unable = self.book, self.salvage.unable
        mine = [item for item in book.everyone if book.slot_of(item) is slot and not book.member(item).leaving]
        self.salvage.name_the_unable(mine)
        rows = {book.members[item]: (item, book.rows.places[item]) for item in mine if item not in unable}
        about = ("bind", self._number, book.method, rows, list(self.inputs))
        if slot.worker.in_process:
            return (*about, book.rows.arrays), None
        return (*about, book.rows.layout), book.rows.descriptor if slot.worker.shares_memory else None

    def pilot_rests(self) -> bool:
        """Tells the pilot of the rounds since it was last asked. Returns whether it has nothing to measure now."""
        rounds, self._told_pilot = max(0, self.rounds - self._told_pilot), self.rounds
        return self._crew.pilot is None or self._crew.pilot.resting(rounds)

    def cancel(self, *, keep: bool = True) -> None:
        """We were interrupted in the middle of a round: it never took place. Workers that may have begun it are given
        up, and their members rebuilt from journals that do not know of it. What they know (and `keep`) stays."""
        self._crew.runs_here = False
        self.book.void(self.answers.absorbed, keep=keep)
        self.answers.forget()
        self._end_round()

    # -- small things ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._crew.closed or self._number not in self._crew.ports:
            raise Closed("this port, or its pool, has been closed")
        if self._crew.inside is not None:
            self._crew.check_alone()
        self._crew.check_outside()

    def _check_not_within(self) -> None:
        if self.book.waiting is self.book.ones:
            raise BadInput("a member waits, in the middle of its own round, for that round to end")

    def _come_after_others(self, items: list[int]) -> None:
        """Another port rang last: what it asked of these members comes first, in their journals too."""
        crew, members = self._crew, [self.book.members[item] for item in items]
        crew.settle_rings(members, but=self)
        with UNINTERRUPTED:
            for member in members:
                if len(crew.members[member].journal.logs) > 1:
                    crew.members[member].journal.settle()
            # Only if nobody of ours is left who may still have something of another port before them.
            whole = len(items) == len(self.book.members) or len(crew.ports) == 1
            crew.last_port = self if whole else None

    def _end_round(self) -> None:
        self.ringing.forget()
        self._count_round()

    def _count_round(self) -> None:
        self.rounds += 1
        if self.clock.end(self.rounds) or self.rounds % ROUNDS_PER_LOOK == 0:
            self._look()

    def _look(self) -> None:
        """Whether a rebuild would take long is asked now and then; to time each member would cost more than that."""
        shortening, seconds = self._crew.shortening, self.clock.take(self.rounds)
        for slot, items, _ in self.ringing.places():
            # Rows that are run beside each other are replayed one after another.
            beside = min(self._crew.settings.threads, len(items))
            shortening.add_cost(slot, [self.book.member(item) for item in items], seconds * beside)
        shortening.shorten(self._crew.members[member] for member in self.book.members)
