"""The forward here: environments in workers, and one copy of the policy, in this process, over whatever is ready."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from paceline.collect.jobs import Job, Spec
from paceline.collect.lanes import Lane, Lanes, WatchedLane, queues_of
from paceline.collect.playing import Chunk, Interrupted, Played, chairs_of, crew_of, play_chunk, play_through
from paceline.engine import Handle, Plan, Pool, Trace, current_budget, draws_of, wait_for_any
from paceline.team import LocalTeam, Setting
from paceline.types import Step


class _Drew(Exception):
    """An environment drew from process-wide generators."""


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
        return {lane: _undrawn((step, over), drew) for lane, (step, over, drew) in answers.items()}


def _undrawn(answer: Any, drew: bool) -> Any:
    if drew:
        raise _Drew
    return answer


def play_centrally(spec: Spec, jobs: Sequence[Job], plan: Plan, trace: Trace | None = None) -> Iterator[Chunk]:
    """Plays rollouts with the policy here. Gives what has been played; what cannot be played so is played alone."""
    begin = perf_counter()
    try:
        with draws_of() as drawn:
            played = _together(spec, jobs, plan, trace)
        if not drawn():
            yield Chunk(played, perf_counter() - begin, 0.0, os.getpid())
            return
    except Interrupted as interrupt:
        interrupt.played = [] if drawn() else interrupt.played  # what has drawn is to be played alone
        raise
    except Exception:  # who is to blame is found out alone
        pass
    with Pool([], seed=spec.seed, trace=trace) as here:
        yield from here.map(partial(play_chunk, spec), [[job] for job in jobs], keys=[job.key for job in jobs])


def _together(spec: Spec, jobs: Sequence[Job], plan: Plan, trace: Trace | None) -> list[Played]:
    seats = _seats(spec)
    queues = queues_of(jobs, spec.side_by_side(len(seats)))
    count = max(queues) + 1
    backend = "process" if plan.backend == "auto" else plan.backend
    workers = plan.workers if plan.workers is not None else current_budget().workers_for(len(queues))
    with (
        Pool(
            [partial(WatchedLane, spec) for _ in range(count)],
            backend=backend,
            workers=1 if backend == "inline" else max(1, min(workers, count)),
            seed=spec.seed,
            keys=[("lane", lane) for lane in range(count)],
            deadline=math.inf,
            trust=plan.trust,
            trace=trace,
        ) as pool,
        LocalTeam(chairs_of(spec, queues, seats), Setting(seed=spec.seed, lanes=spec.lanes)) as team,
    ):
        world = Lanes(Afar(pool), queues)
        crew = crew_of(spec, world, team, seats)
        return play_through(world, crew, jobs)


def _seats(spec: Spec) -> Any:
    lane = Lane(spec)
    try:
        return lane.seats()
    finally:
        lane.close()
