"""The forward here: environments in workers, and one copy of the policy, in this process, over whatever is ready.

policy, here ──► actions ──► Afar: lanes, the members of a pool ──► observations of those that have been stepped
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import tee
from time import perf_counter
from typing import Any

from paceline.collect.clock import Clock
from paceline.collect.jobs import Job, Spec
from paceline.collect.lanes import Lanes, WatchedLane, queues_of
from paceline.collect.playing import Broken, Chunk, Drew, Interrupted, Played, failure_of, play_all, play_through
from paceline.engine import Handle, Plan, Pool, Trace, check_sendable, current_budget, draws_of, wait_for_any
from paceline.types import Seat, Step


class Afar:
    """Lanes in workers: steps are posted, and given when at least half of those under way have been answered.

    Args:
        pool: Its members are the lanes.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._under_way: dict[int, Handle] = {}

    def begin(self, jobs: Mapping[int, Job]) -> dict[int, dict[str, Any]]:
        """Begins rollouts in some lanes."""
        answers = self._pool.call("begin", {lane: (job,) for lane, job in jobs.items()})
        return {lane: _undrawn(*answer) for lane, answer in answers.items()}

    def step(self, actions: Mapping[int, dict[str, Any]]) -> dict[int, tuple[Step, bool]]:
        """Posts steps, and gives those that have been answered, of earlier rounds too."""
        for lane, mine in actions.items():
            self._under_way[lane] = self._pool.post("step", {lane: (mine,)})
        wanted, ready = -(-len(self._under_way) // 2), dict[int, Handle]()
        while len(ready) < wanted:
            left = {lane: handle for lane, handle in self._under_way.items() if lane not in ready}
            wait_for_any(list(left.values()), None)
            ready.update({lane: handle for lane, handle in left.items() if handle.done})
        for lane in ready:
            del self._under_way[lane]
        answers = {lane: handle.wait()[lane] for lane, handle in ready.items()}
        return {lane: _undrawn(*answer) for lane, answer in answers.items()}


class Central:
    """Rollouts with the policy in this process. Workers, their environments and the policy last until it is closed.

    Args:
        spec: What is collected.
        plan: On which backend the environments are, and on how many workers.
        trace: Records where the time goes.

    Raises:
        NotSendable: The environment cannot be sent to workers.
    """

    def __init__(self, spec: Spec, plan: Plan, trace: Trace | None = None) -> None:
        self._plan, self._trace = plan, trace
        self._recipe = partial(WatchedLane, spec.without_policy())
        if plan.backend not in ("inline", "thread"):
            check_sendable(self._recipe)
        self.notes: list[str] = []
        """What happened to workers."""
        self._here = Pool([], seed=spec.seed, trace=trace)  # its store keeps the policy
        self._afar: Pool | None = None
        self._seats: list[Seat] = []

    def play(self, spec: Spec, chunks: Iterable[Sequence[Job]]) -> Iterator[Chunk]:
        """Plays chunks of rollouts, one after another.

        Args:
            spec: What is collected, with the weights in force.
            chunks: Which rollouts; each is made when those before it have been played.

        Raises:
            Drew: Process-wide generators have been drawn from; the rollouts of this chunk and those after it are not
                played.
            Interrupted: Ctrl-C; it has the rollouts of this chunk that were finished.
        """
        made, named = tee(chunks)
        keys = (("central", chunk[0].key) for chunk in named)
        for _, outcome in self._here.stream(partial(self._chunk, spec), made, keys=keys, deadline=math.inf):
            if outcome.error is not None:
                raise outcome.error
            if outcome.answer is None:
                raise Drew
            yield outcome.answer

    def close(self) -> None:
        """Ends the workers. May be called again."""
        self._leave_workers()
        self._here.close()

    def _chunk(self, spec: Spec, jobs: Sequence[Job]) -> Chunk | None:
        """Some rollouts; None if something drew."""
        begin, clock = perf_counter(), Clock()
        try:
            with draws_of() as drawn:
                played = play_all(jobs, partial(self._together, spec, clock), partial(self._alone, spec, clock))
        except Drew:
            return None
        except Interrupted as interrupt:
            interrupt.played = [] if drawn() else interrupt.played
            raise
        if drawn():
            return None
        clock.wall = perf_counter() - begin
        chunk = Chunk(played, clock)
        self._ask_lanes(chunk)
        return chunk

    def _together(self, spec: Spec, clock: Clock, jobs: Sequence[Job]) -> list[Played]:
        try:
            queues = queues_of(jobs, spec.side_by_side())
            pool = self._lanes(spec, max(queues) + 1)
            return play_through(spec, Lanes(Afar(pool), queues, clock), self._seats, jobs, clock)
        except BaseException as error:
            self._leave_workers()  # steps are under way there, and a lane may be lost
            if isinstance(error, Broken) and isinstance(error.__cause__, Drew):
                raise error.__cause__ from None
            raise

    def _alone(self, spec: Spec, clock: Clock, jobs: Sequence[Job]) -> list[Played]:
        """Each for itself, so that it is known which of them raises, or kills its worker."""
        played = []
        for job in jobs:
            try:
                played += self._together(spec, clock, [job])
            except Drew:
                raise
            except Exception as error:
                played.append(Played(job.index, failure=failure_of(error)))
        return played

    def _lanes(self, spec: Spec, count: int) -> Pool:
        """The workers, with at least so many lanes."""
        if self._afar is not None and len(self._afar) < count:
            self._leave_workers()
        if self._afar is None:
            workers = self._plan.workers or current_budget().workers_for(count)
            inline = self._plan.backend == "inline"
            self._afar = Pool(
                [self._recipe] * count,
                backend=self._plan.backend,
                workers=1 if inline else min(workers, count),
                seed=spec.seed,
                keys=[("lane", lane) for lane in range(count)],
                deadline=math.inf,
                trace=self._trace,
            )
            self._seats = self._afar.call("seats", {0: ()}, record=False)[0]
        return self._afar

    def _leave_workers(self) -> None:
        if self._afar is not None:
            afar, self._afar = self._afar, None
            self.notes += [event.text for event in afar.events]
            afar.close()

    def _ask_lanes(self, chunk: Chunk) -> None:
        """Notes what the lanes have to tell since they were last asked: how busy they were, what closing raised."""
        for worker, seconds, building, unclosed in (
            self._afar.call("spent", record=False).values() if self._afar is not None else ()
        ):
            chunk.busy[worker] = chunk.busy.get(worker, 0.0) + seconds
            chunk.clock.building += building
            chunk.unclosed = chunk.unclosed or unclosed


def _undrawn(answer: Any, drew: bool) -> Any:
    if drew:
        raise Drew
    return answer
