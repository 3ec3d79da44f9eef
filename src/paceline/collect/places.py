"""Places: where the rollouts of a collector are played, how they are dealt out, and what auto makes of the first ones.

rollouts ── cut ──► chunks ──► Schedule: a copy of the policy in each worker, or everything here ──► Chunk
                         └───► Central: environments in workers, the policy here ───────────────────► Chunk
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from paceline.collect.central import Central
from paceline.collect.clock import Clock
from paceline.collect.costs import Choice, Costs, choose
from paceline.collect.jobs import Job, Spec
from paceline.collect.lanes import WatchedLane
from paceline.collect.playing import Chunk, Drew, Played, play_chunk
from paceline.engine import (
    WAITS_BELOW,
    Plan,
    Pool,
    Trace,
    check_sendable,
    current_budget,
    prepare_workers,
    seconds_until_workers,
)
from paceline.errors import BadInput, NotSendable
from paceline.schedule import WAITERS_PER_SLOT, Note, Patience, Schedule, in_words
from paceline.seeds import Key
from paceline.types import Failure

Chunked = tuple[Job, ...]

FORWARDS = ("worker", "here")
_CHUNKS_PER_WORKER = 4  # so that a worker that is done early finds something to do
_CHUNK_SECONDS = 1.0  # so much is lost by Ctrl-C, at the most, unless rollouts take longer
_MEANWHILE = 0.25  # seconds of a chunk that is played here until workers can be forked
_MOST_MEANWHILE = 2.0  # rollouts that take longer are left to the workers


class Places:
    """Plays rollouts where the plan says. Workers that it has started serve until it is closed.

    Args:
        spec: What is collected; `spec` may be set anew, with other weights.
        asked: The plan.
        pool: A pool whose workers play; None: it starts workers of its own.
        trace: Records where the time goes.

    Raises:
        BadInput: The plan has the policy where it cannot be.
    """

    def __init__(self, spec: Spec, asked: Plan, pool: Pool | None = None, trace: Trace | None = None) -> None:
        self.spec, self._asked, self._trace = spec, asked, trace
        self._forward, why = _forward_of(asked, spec)
        self.plan = replace(asked, agents=self._forward, why=why)
        """Where, and why there; auto, until it has decided."""
        self._decided = asked.backend != "auto"
        self._central: Central | None = None
        self._seconds = 0.0  # of a rollout, in one worker
        self._foregone = 0.0  # seconds that workers would have saved in earlier collections, had they been there
        self._notes: list[Note] = []
        self._schedule: Schedule[Chunked, Chunk] = Schedule(
            partial(play_chunk, spec), _key, _lost, asked, spec.seed, noun="rollout", pool=pool, trace=trace
        )

    def close(self) -> None:
        """Ends the workers. May be called again."""
        if self._central is not None:
            self._central.close()
        self._schedule.close()

    def play(self, jobs: Sequence[Job]) -> Iterator[Chunk]:
        """Plays rollouts; gives some of them whenever a worker has played them."""
        left = list(jobs)
        if not self._decided and left:
            for chunk in self._decide(left):
                yield self._seen(chunk)
        for chunk in self._central_chunks(left) if self.plan.agents == "here" else self._copies(left):
            yield self._seen(chunk)

    def notes(self) -> list[Note]:
        """What there is to tell since this was last asked."""
        notes, self._notes, self._schedule.notes = [*self._notes, *self._schedule.notes], [], []
        return notes

    # -- where -------------------------------------------------------------------------------------------------

    def _decide(self, left: list[Job]) -> Iterator[Chunk]:
        """Plays some of the rollouts here, to see what they take, and decides where the others are played.

        What is played is taken out of `left`.
        """
        self._schedule.plan = self._asked
        plan = self._schedule.plan_unmeasured(len(left))
        if plan is not None:
            self._decided = plan.backend != "inline"
            self._go(plan, self._forward if plan.backend != "inline" else "worker")
            return
        self._schedule.plan = replace(self._asked, backend="inline", workers=1)
        forwards = self._forwards()
        if not forwards:
            self._stay(self._notes[-1][1])
            return
        clocks, unfinished = list[tuple[Clock, int]](), Clock()
        patience = Patience.for_one_of(-(-len(left) // self._block(left)))
        for chunk in self._tried(left, patience, unfinished):
            clocks.append((chunk.clock, len(chunk.played)))
            yield chunk
        choice = self._choice(len(left), self._costs(clocks, unfinished, patience), forwards, more=not clocks)
        if choice.workers:
            yield from self._until_workers(left)
        if not left:
            self._stay("all rollouts were played before workers could have been of use")
        elif choice.workers:
            self._decided = True
            self._go(replace(self._asked, backend="process", workers=choice.workers, why=choice.why), choice.forward)
        else:
            self._stay(choice.why)

    def _choice(self, left: int, costs: Costs, forwards: tuple[str, ...], *, more: bool) -> Choice:
        if not left:
            return Choice(0, "worker", 0.0, "")
        budget = current_budget()
        most = budget.slots * WAITERS_PER_SLOT if costs.waits else budget.workers_for(left)
        choice = choose(costs, left, most, forwards=forwards, foregone=self._foregone, more=more)
        self._foregone += choice.gain
        return choice

    def _tried(self, left: list[Job], patience: Patience, unfinished: Clock) -> Iterator[Chunk]:
        """The first rollouts, here, until it is known what they take; they are taken out of `left`."""
        chunks = [tuple(left[place : place + self._block(left)]) for place in range(0, len(left), self._block(left))]

        def measured(chunk: Chunked, waited: Patience) -> Chunk:
            vars(unfinished).update(vars(Clock()))
            return play_chunk(self.spec, chunk, waited, unfinished)

        self._schedule.measured = measured
        for chunk, result in self._schedule.begin_here(chunks, patience, []):
            del left[: len(chunk)]
            yield result

    def _until_workers(self, left: list[Job]) -> Iterator[Chunk]:
        """Plays on here until workers can be forked, a little at a time; it is taken out of `left`."""
        while not prepare_workers() and left:
            if self._seconds > _MOST_MEANWHILE:  # also if none has been played to its end: it is left to the workers
                return
            some = max(1, min(self._block(left), int(_MEANWHILE / self._seconds))) if self._seconds else 0
            if not some:
                return
            chunk, left[:] = tuple(left[:some]), left[some:]
            self._schedule.play = partial(play_chunk, self.spec)
            ((_, result),) = self._schedule.run_as_planned([chunk], 1)
            yield result

    def _costs(self, clocks: Sequence[tuple[Clock, int]], unfinished: Clock, patience: Patience) -> Costs:
        """What rollouts take. The first chunk is not asked if there is another: it was the first to do everything."""
        clock, rollouts, seating = Clock(), 0, unfinished.seating
        for mine, count in clocks[1:] or clocks:
            clock.include(mine)
            rollouts += count
        if clocks:
            steps, seating = clock.rows / max(1, rollouts), clocks[0][0].seating
        else:
            clock = replace(unfinished, wall=unfinished.environments + unfinished.policy)
            most = (self.spec.mission.steps or 0) * self.spec.episodes
            steps = max(clock.forwards, most)
        waits = patience.cpu < WAITS_BELOW * patience.wall
        lanes = self.spec.side_by_side()
        return Costs.of(clock, rollouts, lanes, steps=steps, seating=seating, waits=waits, cold=seconds_until_workers())

    def _forwards(self) -> tuple[str, ...]:
        """Where the policy may be while environments are in workers; nowhere if these cannot be sent."""
        wanted = FORWARDS if self._asked.agents in (None, "auto") and self._forward == "worker" else (self._forward,)
        found = []
        for forward in wanted:
            copies = partial(play_chunk, self.spec)
            lane = partial(WatchedLane, self.spec.without_policy())
            try:
                check_sendable(copies if forward == "worker" else lane)
                found.append(forward)
            except NotSendable as error:
                self._notes.append(("unsendable", f"{error}: all are played here, one after another"))
        return tuple(found)

    def _stay(self, why: str) -> None:
        self._go(replace(self._asked, backend="inline", workers=1, why=why), "worker")

    def _go(self, plan: Plan, forward: str) -> None:
        self._schedule.plan = self.plan = replace(plan, agents=forward)

    # -- how ---------------------------------------------------------------------------------------------------

    def _copies(self, jobs: Sequence[Job]) -> Iterator[Chunk]:
        """A copy of the policy in each worker, or everything here."""
        self._schedule.play = partial(play_chunk, self.spec)
        lost: list[Job] = []
        for chunk, result in self._schedule.run_lazily(self._cut(jobs), -(-len(jobs) // self._block(jobs))):
            if len(chunk) > 1 and any(each.failure is not None and each.failure.step < 0 for each in result.played):
                lost += chunk  # its worker was lost with it, again and again: find out with which of them
            else:
                yield result
        for _, result in self._schedule.run_as_planned([(job,) for job in lost], len(lost)):
            yield result

    def _central_chunks(self, jobs: Sequence[Job]) -> Iterator[Chunk]:
        """The policy here. From the first time on that something draws, policy and environment share a process."""
        if self._central is None:
            self._central = Central(self.spec, self.plan, self._trace)
        done = 0
        try:
            for chunk in self._central.play(self.spec, self._cut(jobs)):
                yield chunk
                done += len(chunk.played)
            return
        except Drew:
            self._central.close()
        finally:
            self._notes += [(text, in_words(text, "rollout")) for text in self._central.notes]
            self._central.notes.clear()
        why = "process-wide generators are drawn from, so that a rollout and its policy share a process"
        try:
            check_sendable(self.spec.player.factory)
            self._go(replace(self.plan, why=why), "worker")
        except NotSendable:
            self._go(replace(self.plan, backend="inline", workers=1, why=why), "worker")
        yield from self._copies(jobs[done:])

    def _cut(self, jobs: Sequence[Job]) -> Iterator[Chunked]:
        """Chunks of whole blocks, ever shorter ones, so that all workers are done at about the same time. Results do
        not depend on how it is cut."""
        rows, place = self._block(jobs), 0
        while place < len(jobs):
            blocks = -(-(len(jobs) - place) // rows)
            even = blocks // (_CHUNKS_PER_WORKER * self._workers())
            short = int(_CHUNK_SECONDS / (self._seconds * rows)) if self._seconds else 1
            size = rows * max(1, min(even, short))
            yield tuple(jobs[place : place + size])
            place += size

    def _block(self, jobs: Sequence[Job]) -> int:
        """How many rollouts are played side by side: lanes that are not full keep more workers busy."""
        return max(1, min(self.spec.side_by_side(), -(-len(jobs) // self._workers())))

    def _workers(self) -> int:
        """How many workers play whole rollouts; as long as auto has not decided, how many there may be."""
        if self.plan.backend == "inline" or (self.plan.agents == "here" and self._decided):
            return 1
        return self.plan.workers or current_budget().slots

    def _seen(self, chunk: Chunk) -> Chunk:
        if chunk.played:
            self._seconds = chunk.clock.wall / len(chunk.played)
        return chunk


def _key(chunk: Chunked) -> Key:
    return ("chunk", chunk[0].key)


def _lost(chunk: Chunked, error: BaseException) -> Chunk:
    failure = Failure.of(error, step=-1)
    failure = replace(failure, message=in_words(failure.message, "rollout"))
    return Chunk([Played(job.index, failure=failure) for job in chunk])


def _forward_of(plan: Plan, spec: Spec) -> tuple[str, str]:
    """Where the policy computes, and why there, unless auto finds a better place.

    A copy in each worker needs no message per step, and forwards run beside each other. So the policy stays here only
    if it must: there is one device, or the policy cannot be sent.
    """
    if plan.agents not in (None, "auto", *FORWARDS):
        raise BadInput(f"agents={plan.agents!r}; rollouts are collected with the policy in the 'worker' or 'here'")
    if plan.agents == "here" and plan.trust == "data":
        raise BadInput(
            "agents='here' has the policy in this process, where it can do whatever it likes; trust='data' "
            "(--untrusted) is for policies in workers: leave one of them out"
        )
    if plan.agents in FORWARDS or plan.backend in ("inline", "thread") or plan.workers == 0 or plan.trust == "data":
        return plan.agents if plan.agents in FORWARDS else "worker", plan.why
    if not spec.device.startswith("cpu"):
        return "here", f"one process has the device {spec.device}: environments in workers, and the forward here"
    try:
        check_sendable(spec.player.factory)
    except NotSendable as error:
        return "here", f"{error}: the policy stays here"
    return "worker", plan.why
