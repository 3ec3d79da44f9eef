"""What happens when a worker dies, or does not come back in time.

    overdue ──► killed ─┐
    dead ───────────────┴──► a new worker: build, replay, ask again what was not answered
                              └── none can be had: under auto its members go elsewhere, else whoever asked is told

Because a worker answers in order, the first request without an answer is the one that it died in. If that request
names several members they are asked one by one the next time, so that the one that kills can be told from the others;
after `restarts` tries its answer is `WorkerLost`, and everybody else lives on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from paceline.engine.host.member import ERROR
from paceline.engine.supervisor.handle import Request
from paceline.engine.supervisor.roster import HERE, Member, Slot
from paceline.engine.workers.base import Gone
from paceline.errors import CallTimeout, PacelineError, PlanNotMet, WorkerLost

if TYPE_CHECKING:
    from paceline.engine.supervisor.supervisor import Crew

WORK = ("call", "map", "ring", "snapshot")
"""What somebody gets an answer to. A worker that dies in anything else has nobody to blame for it."""

_TOLD = ("define", "forget", "unbind")  # nobody's code: it takes no time to speak of
_SERVERS = 10  # deaths of a fork server that what its workers ran is not blamed for
_LONGEST = 86400.0  # seconds to wait at a time: the kernel counts milliseconds in 32 bits
_ASKED_AGAIN = ("call", "map", "snapshot")  # everything else a new worker is told anyway

_Watch = tuple[float | None, float, int]
"""(deadline, since when, how many calls)"""

Verdict = Callable[..., WorkerLost]
"""(member or item, name of the call, whether it is an item of a map) → the error that says so."""


class Recovery:
    """Watches over the workers of a crew."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def time_left(self, busy: list[Slot], timeout: float | None) -> float | None:
        """How long to wait at the most: until a call may be overdue, or the caller wants to go on."""
        now, limit = monotonic(), timeout
        for slot in busy:
            left = self._surely_left(slot, now)
            if left is not None and (limit is None or left < limit):
                limit = left
        return None if limit is None else max(0.0, min(limit, _LONGEST))

    def _surely_left(self, slot: Slot, now: float) -> float | None:
        """Like `_left`, or less. Hot: when its message was sent is enough to know that a call is not overdue yet; when
        it was begun, and what ports have asked, can only give it more time."""
        if slot.inflight and slot.worker.can_kill:
            first = slot.inflight[0]
            if first.op not in _TOLD:
                if first.deadline is None:
                    return None
                if (left := first.since + first.deadline - now) > 0:
                    return left
        return self._left(slot)

    def _left(self, slot: Slot) -> float | None:
        """Seconds until the slot's call in hand is overdue."""
        if not slot.worker.can_kill or not (watches := self._watches(slot)):
            return None
        begun = slot.worker.busy_since()
        ends = []
        for deadline, since, calls in watches:
            if deadline is None:
                return None
            # A worker that cannot say which call it has in hand gets the time of all of them.
            ends.append(max(begun, since) + deadline if begun is not None else since + deadline * max(1, calls))
        return max(ends) - monotonic()

    def _watches(self, slot: Slot) -> list[_Watch]:
        """What the worker may have in hand: the first message without an answer, or rows that it was told of without
        one. Which of the two nobody knows, so both deadlines have to be over. Rows that were asked for by a message
        are watched when their turn comes."""
        watches: list[_Watch] = []
        if slot.inflight and slot.inflight[0].op not in _TOLD:
            first = slot.inflight[0]
            watches.append((first.deadline, first.since, len(first.items)))
        for port in self._crew.ports.values():
            if port.ringing.told_by_memory(slot.worker) and port.ringing.has_pending(slot):
                watches.append((port.ringing.deadline, port.ringing.rung[slot.number], 1))
        return watches

    def kill_the_overdue(self, busy: list[Slot]) -> None:
        """Ends the workers whose call in hand has overrun its deadline; `recover` does the rest."""
        for slot in busy:
            if slot.worker is None or not (slot.inflight or self._rung(slot)):
                continue
            left = self._left(slot)
            if left is not None and left <= 0:
                slot.overdue = self._deadline(slot)
                slot.worker.kill_the_hung()

    def _rung(self, slot: Slot) -> bool:
        return any(port.ringing.has_pending(slot) for port in self._crew.ports.values())

    def _deadline(self, slot: Slot) -> float | None:
        return max((deadline for deadline, _, _ in self._watches(slot) if deadline is not None), default=None)

    def recover(self, slot: Slot, gone: Gone, *, blame: bool = True) -> None:
        """Replaces a dead worker: builds, replays, asks again."""
        dead, slot.worker = slot.worker, None
        slot.careful = not dead.shares_memory
        if self._crew.closed:  # its pool was dropped, and the worker with it
            slot.inflight.clear()
            return
        victim = slot.inflight[0] if slot.inflight else None
        # In the order in which they were asked: what had been set aside came back before what is under way.
        earlier = [*self._crew.aside.take_back(slot), *(slot.redo or ())]
        later = [*list(slot.inflight)[1:], *slot.queue]
        self._crew.note("lost" if blame else "interrupted", self._obituary(slot, dead, gone, victim))
        blame = blame and not self._died_with_its_server(slot, gone)
        if blame:
            self._crew.shortening.worker_died()
        self._mention_the_forgetful(slot)

        def verdict(index: int, name: str, item: bool = False) -> WorkerLost:
            return self._verdict(slot, dead, gone, index, name, item)

        again = [] if victim is None else self._after_death(slot, victim, verdict) if blame else [victim]
        for port in self._crew.ports.values():
            port.salvage.lost(slot, dead, victim, verdict if blame else None)
        slot.redo, slot.overdue = None, None
        slot.inflight.clear()
        slot.queue = deque(request for request in (*earlier, *again, *later) if self._wanted(request))
        if blame and not self._worth_another(slot, victim):
            self._give_up(slot, self._nobodys_fault(slot, dead, gone, victim))
            return
        neighbour = self._neighbour(slot)
        if slot.unkeepable and neighbour is not None:
            slot.unkeepable = False
            self._shrink(slot, neighbour, PlanNotMet("it died again and again while its members were built"))
        else:
            self._refill(slot)

    def _worth_another(self, slot: Slot, victim: Request | None) -> bool:
        """Deaths in calls and builds are counted there. Others could go on for ever, and nobody would be told."""
        if victim is not None and victim.op in (*WORK, "build", "drop"):
            return True
        fruitless = self._crew.fruitless
        fruitless[slot.number] = fruitless.get(slot.number, 0) + 1
        return fruitless[slot.number] <= self._crew.restarts

    def _died_with_its_server(self, slot: Slot, gone: Gone) -> bool:
        """Whether what it ran is innocent; if that happens again and again without an answer in between, it is not."""
        if not gone.with_its_server:
            return False
        fruitless = self._crew.fruitless
        fruitless[slot.number] = fruitless.get(slot.number, 0) + 1
        return fruitless[slot.number] <= _SERVERS

    def _nobodys_fault(self, slot: Slot, dead: Any, gone: Gone, victim: Request | None) -> WorkerLost:
        doing = victim.call_name() if victim is not None else "nothing"
        words = f"\nits last words:\n{gone.last_words}" if gone.last_words else ""
        return WorkerLost(
            f"worker {slot.number} ({dead.backend}, pid {dead.pid}) {gone.how} while it ran {doing}, and so did "
            f"{self._crew.restarts} before it; there was no answer in between{words}"
        )

    def _mention_the_forgetful(self, slot: Slot) -> None:
        """Members that are not deterministic are never asked again; those that cannot be told either begin anew."""
        for member in self._crew.members:
            if member.slot == slot.number and not member.deterministic and len(member.journal):
                how = "is told its" if member.recalls else "begins anew without its"
                text = f"member {member.index} is not deterministic: it {how} {len(member.journal)} recorded answers"
                self._crew.note("recalled" if member.recalls else "forgot", text)

    def _wanted(self, request: Request) -> bool:
        if request.op == "map":
            return request.method in self._crew.functions  # else somebody has stopped listening to that map
        return request.op in _ASKED_AGAIN

    def _refill(self, slot: Slot) -> None:
        try:
            self._crew.start([slot])
        except PlanNotMet as error:
            self.without(slot, error)
            return
        self.settle_in(slot)
        self._crew.sending.feed(slot)

    def settle_in(self, slot: Slot) -> None:
        """Puts before everything else what makes a new worker what the old one was, and rings again at the end."""
        mine = [m for m in self._crew.members if m.slot == slot.number and m.lost is None and not m.leaving]
        preamble = (
            [self._crew.sending.building([m]) for m in mine]
            if slot.builds_alone
            else [self._crew.sending.building(mine)]
            if mine
            else []
        )
        ports = {number: port for number, port in self._crew.ports.items() if port.book.lives_on(slot)}
        preamble += [self._crew.sending.binding(number) for number in ports]
        slot.queue.extendleft(reversed(preamble))
        # Behind the calls: a ring waits for those of its own members before it is made, never the other way round.
        for port in ports.values():
            slot.queue.extend(port.ringing.again(slot))

    def _after_death(self, slot: Slot, victim: Request, verdict: Verdict) -> list[Request]:
        """What becomes of the request that the worker died in."""
        if victim.op == "build":
            self._after_death_in_build(slot, victim, verdict)
        if victim.op not in _ASKED_AGAIN:
            return []
        if len(victim.items) > 1:
            return [again for single in victim.singles() for again in self._once_more(single, verdict, died=False)]
        return self._once_more(victim, verdict, died=True)

    def _once_more(self, victim: Request, verdict: Verdict, *, died: bool) -> list[Request]:
        """The same request, if it is worth another try; else it is answered for."""
        wanted = victim.handle is None or victim.handle.unwanted.isdisjoint(victim.items)
        victim.tries += died
        if wanted and victim.tries < self._crew.restarts:
            return [victim]
        index = next(iter(victim.items))
        error = verdict(index, victim.call_name(), victim.op == "map")
        if victim.op == "snapshot":
            self._crew.shortening.saved((index, ERROR, error, 0, None))
        self._crew.hearing.give(victim, (index, ERROR, error, 0, None), "")
        return []

    def _after_death_in_build(self, slot: Slot, victim: Request, verdict: Verdict) -> None:
        slot.builds_alone = True
        if len(victim.items) > 1:
            return
        member = self._crew.members[next(iter(victim.items))]
        member.build_tries += 1
        if member.build_tries < self._crew.restarts:
            return
        if self._crew.shrinks and self._neighbour(slot) is not None:
            # Too many workers for the memory, perhaps: with one less the others have more.
            slot.unkeepable, member.build_tries = True, 0
        else:
            member.lost = verdict(member.index, victim.call_name())
            self._crew.hearing.built(member, (member.index, ERROR, member.lost, 0, None), "")

    def _verdict(self, slot: Slot, dead: Any, gone: Gone, index: int, name: str, item: bool = False) -> WorkerLost:
        who = f"item {index}" if item else self._named(self._crew.members[index])
        place = f"worker {slot.number} ({dead.backend}, pid {dead.pid})"
        words = f"\nits last words:\n{gone.last_words}" if gone.last_words else ""
        if slot.overdue is not None:
            error: WorkerLost = CallTimeout(
                f"{who} did not answer {name} within {slot.overdue:g} s in {self._crew.restarts} tries; "
                f"{place} was killed each time{words}"
            )
        else:
            tries = f"in {self._crew.restarts} tries"
            error = WorkerLost(f"{who} lost its worker in {name} {tries}: {place} {gone.how}{words}")
        error.member = None if item else index
        return error

    @staticmethod
    def _named(member: Member) -> str:
        stood = f"; {member.stood}" if member.stood else ""
        return f"member {member.index} (key {member.key!r}{stood})"

    def _obituary(self, slot: Slot, dead: Any, gone: Gone, victim: Request | None) -> str:
        rung = "a port's call" if self._rung(slot) else "nothing that is still asked for"  # a round may have been void
        doing = victim.call_name() if victim else slot.doing or rung
        why = f" (overran its deadline of {slot.overdue:g} s)" if slot.overdue is not None else ""
        if dead.backend == "inline":
            return f"Ctrl-C came while {doing} was run in the caller's process: whoever lives there is rebuilt"
        return f"worker {slot.number} ({dead.backend}, pid {dead.pid}) {gone.how}{why} while it ran {doing}: rebuilding"

    def without(self, slot: Slot, error: PlanNotMet) -> None:
        """No worker can be had for this slot: shrink if the plan leaves that to us, else say so to whoever asked."""
        target = self._neighbour(slot) or (None if self._crew.never_here else self._crew.slots[HERE])
        if self._crew.shrinks and target is not None:
            self._shrink(slot, target, error)
        else:
            self._give_up(slot, error)

    def _give_up(self, slot: Slot, error: PacelineError) -> None:
        """Whoever has asked is told; whoever asks next tries again with a new worker."""
        slot.orphaned = True
        self._crew.fruitless.pop(slot.number, None)
        requests, slot.queue = list(slot.queue), deque()
        for request in requests:
            for index in request.items:
                self._crew.hearing.give(request, (index, ERROR, error, 0, None), "")
        for member in self._crew.members:
            if member.slot == slot.number and member.awaited is not None:
                self._crew.hearing.built(member, (member.index, ERROR, error, 0, None), "")
        for port in self._crew.ports.values():
            port.salvage.abandon(slot, error)

    def _neighbour(self, slot: Slot) -> Slot | None:
        others = (s for s in self._crew.slots.values() if s.worker is not None and s.number not in (HERE, slot.number))
        return next(others, None)

    def _shrink(self, slot: Slot, target: Slot, error: PlanNotMet) -> None:
        """The members, and whatever was asked of them, go to another slot."""
        crew = self._crew
        crew.note("shrunk", f"worker {slot.number} could not be kept ({error}); its members go to {target.number}")
        crew.start([target])
        moving = [member for member in crew.members if member.slot == slot.number and member.lost is None]
        crew.epoch += 1
        for member in moving:
            member.slot = target.number
        if moving:
            target.queue.append(crew.sending.building(moving))
        ports = {number: port for number, port in crew.ports.items() if port.book.lives_on(target)}
        target.queue.extend(self._crew.sending.binding(number) for number in ports)
        target.queue.extend(slot.queue)
        slot.queue.clear()
        for port in ports.values():
            target.queue.extend(port.ringing.again(target, {member.index for member in moving}))
        crew.sending.feed(target)
