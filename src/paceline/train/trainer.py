"""The trainer: plays epochs, files rows, hands out updates, and publishes versions as the timetable says.

    wanted version ──► Acting ──┐
                                ├─ play ──► tape ──► rings ── spans ──► Learning ──► versions ──► …
    Worlds, one or more ────────┘

Collection goes on while updates run, as far as the lag allows. Nothing here looks at a clock to decide what is
computed: an epoch waits for the version that the timetable names, and for no other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from time import perf_counter
from typing import Any

from paceline.engine import Plan, Pool, Trace
from paceline.lockstep import Worlds
from paceline.rollout import Rollout, play
from paceline.tape import Tape
from paceline.team.device import one_thread
from paceline.train.actors import Actors
from paceline.train.checkpoints import Checkpoints
from paceline.train.hosts import Acting, Learning
from paceline.train.job import Job
from paceline.train.placing import Places
from paceline.train.rings import Ring
from paceline.train.updates import FROZEN, Update, Updates
from paceline.types import Episode

Recorder = Callable[[int, Tape], None]
"""Is given the number of an epoch and what happened in it, before a checkpoint says that it was played."""

_JOURNAL = 200  # calls of those who act that a journal holds, observations and all
_ROOM = 4096  # rows of a ring at first, where it is not known how long an epoch can be


class Trainer:
    """A training under way.

    Args:
        job: What is trained.
        plan: Where; never what comes of it.
        on_failure: What is done if an update fails: "fail", "retry" or "freeze".
        deadline: Seconds that an update may take; None: as long as it likes.
        checkpoints: Where it is saved; None: nowhere.
        trace: Records where the time goes.
        recorder: Is given what happened in each epoch.
    """

    def __init__(
        self,
        job: Job,
        plan: Plan,
        *,
        on_failure: str = "fail",
        deadline: float | None = None,
        checkpoints: Checkpoints | None = None,
        trace: Trace | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.job, self._checkpoints, self._recorder = job, checkpoints, recorder
        self.epoch = 0
        """How many epochs have been played."""
        self.saved = 0
        """How many of them the last checkpoint holds."""
        self.rewards: list[list[dict[str, float]]] = []
        """Epoch → world → agent → what it got in all."""
        self.lags: list[dict[str, int]] = []
        """Epoch → agent → by how many updates the weights that acted were behind those that were due."""
        self.steps = 0
        """Steps of all worlds."""
        self.seconds = {"collect": 0.0, "publish": 0.0}
        self.places = Places(plan, job, deadline)
        self._seats = {seat.agent: seat for recipe in job.recipes for seat in recipe.seats}
        learn = self.places.learners
        self.rings = {agent: Ring(self._seats[agent], self._room()) for recipe in learn for agent in recipe.agents}
        """The rows of those that learn."""
        self._since: dict[str, int] = dict.fromkeys(self.rings, 0)  # the first row since an agent's last update
        self._replayed: dict[str, int] = {}  # the first row that a replay of a learner would read
        self._stack = ExitStack()
        try:
            self._open(on_failure, deadline, trace)
        except BaseException:
            self._stack.close()
            raise

    def _open(self, on_failure: str, deadline: float | None, trace: Trace | None) -> None:
        job, places, enter = self.job, self.places, self._stack.enter_context
        limit = math.inf if deadline is None else deadline
        self._acting = enter(
            Pool(
                [partial(Acting, recipe, job.worlds) for recipe in places.actors],
                seed=job.seed,
                keys=[("act", *recipe.agents) for recipe in places.actors],
                deadline=math.inf,
                snapshot_every=_JOURNAL,
                trace=trace,
                **places.for_actors,
            )
        )
        self._learning = enter(
            Pool(
                [partial(Learning, recipe, job.seed, on_failure == "retry") for recipe in places.learners],
                seed=job.seed,
                keys=[("learn", *recipe.agents) for recipe in places.learners],
                deadline=limit,
                trace=trace,
                **places.for_learners,
            )
        )
        self._stack.callback(one_thread())
        self._actors = Actors(places.actors, self._acting, job)
        self.updates = Updates(places.learners, self._learning, on_failure, limit)
        makers = [
            partial(Rollout, job.mission, world, device=job.device, digested=False) for world in range(job.worlds)
        ]
        self._worlds = enter(
            Worlds(
                makers,
                [(job.mission.name, world) for world in range(job.worlds)],
                [Episode(job.mission.name, world, 0) for world in range(job.worlds)],
                places.for_worlds,
                job.seed,
                outcomes=True,
                raises=True,
                trace=trace,
            )
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers."""
        self._stack.close()

    # -- the loop ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Goes on from the last checkpoint, or publishes the first version of every agent."""
        state = None if self._checkpoints is None else self._checkpoints.load()
        if state is None:
            self.updates.begin()
        else:
            self._load(state)

    def play_epoch(self) -> None:
        """Plays an epoch with the versions that the timetable names, and hands out the updates that it unlocks."""
        begin = perf_counter()
        self._publish()
        played = perf_counter()
        tape = self._play()
        self._file(tape)
        if self._recorder is not None:
            self._recorder(self.epoch, tape)
        self.seconds["publish"] += played - begin
        self.seconds["collect"] += perf_counter() - played
        self._hand_out()
        self.epoch += 1
        self.places.reconsider(self)
        if self._checkpoints is not None and self._checkpoints.due:
            self.checkpoint()

    def finish(self) -> None:
        """Runs what is due and has not been run: nothing is lost at the end."""
        self.updates.drain()
        self.checkpoint()

    def checkpoint(self) -> None:
        """Saves everything now, if there is a place for it."""
        if self._checkpoints is not None:
            begin = perf_counter()
            self._checkpoints.save(self._save(), begin)
            self.saved = self.epoch

    def _publish(self) -> None:
        table, updates = self.job.timetable, self.updates
        if self.job.free_running:
            versions = {agent: updates.newest(agent) for agent in updates.agents}
        else:
            versions = {agent: table.version(agent, self.epoch) for agent in updates.agents}
        self.lags.append({agent: table.due(agent, self.epoch) - number for agent, number in versions.items()})
        self._actors.load({agent: (number, updates.wanted(agent, number)) for agent, number in versions.items()})

    def _play(self) -> Tape:
        worlds = self.job.worlds
        names = {(world, agent): seat for world in range(worlds) for agent, seat in self._seats.items()}
        tape = Tape(names, self.job.mission.steps or 64)
        self._actors.begin(self.epoch)
        seeds = [self.job.seed + self.epoch * worlds + world for world in range(worlds)]
        self._worlds.episode = [Episode(self.job.mission.name, world, 0) for world in range(worlds)]
        episodes = play(self._worlds, self._actors, seeds, None, tape)
        self.rewards.append([dict(episode.rewards) for episode in episodes])
        self.steps += sum(episode.steps for episode in episodes)
        return tape

    def _file(self, tape: Tape) -> None:
        """Files the rows of an epoch: world after world, each in the order of its turns."""
        for agent, ring in self.rings.items():
            tracks = [tape.tracks[world, agent].columns for world in range(self.job.worlds)]
            self._make_room(agent, ring, sum(len(columns["rewards"]) for columns in tracks))
            for columns in tracks:
                ring.extend(columns)

    def _make_room(self, agent: str, ring: Ring, rows: int) -> None:
        """Sees to it that no row is overwritten that an update, or the replay of one, still reads."""
        if self._overwrites(agent, ring, rows) and self.job.capacity is not None:
            self.updates.drain()
            self.save_learners()
        if self._overwrites(agent, ring, rows):
            ring.grow(max(2 * ring.room, ring.count - self._first_needed(agent, ring) + rows))

    def _overwrites(self, agent: str, ring: Ring, rows: int) -> bool:
        return ring.count + rows - self._first_needed(agent, ring) > ring.room

    def _first_needed(self, agent: str, ring: Ring) -> int:
        capacity = self.job.capacity
        kept = 0 if capacity is None else max(0, ring.count - capacity)
        return min(kept, self._replayed.get(agent, kept))

    def save_learners(self) -> None:
        """Has learners save themselves, so that no earlier update is run again if a worker dies."""
        self._learning.snapshot()
        self._replayed.clear()
        for ring in self.rings.values():
            ring.forget_old()

    def _hand_out(self) -> None:
        job = self.job
        unlocked, spans = {}, {}
        for agent, ring in self.rings.items():
            numbers = job.timetable.unlocked(agent, self.epoch)
            if not numbers:
                continue
            span = spans[agent] = ring.span(job.capacity, self._since[agent])
            rows, new = span.hi - span.lo, span.hi - span.new
            unlocked[agent] = [Update(agent, number, self.epoch, rows, new) for number in numbers]
            reason = self._reason(agent, ring.count)
            for update in unlocked[agent] if reason else ():
                update.status, update.reason = "skipped", reason
            if not reason:
                self._since[agent] = ring.count
                self._replayed.setdefault(agent, span.lo)
        self.updates.post(unlocked, self.rings, spans)

    def _reason(self, agent: str, rows: int) -> str:
        """Why an update that is due is not run."""
        if agent in self.updates.frozen:
            return FROZEN
        if rows < self.job.warmup:
            return f"warmup: {rows} of {self.job.warmup} rows"
        return "" if rows else "no rows"

    def _room(self) -> int:
        job, rows = self.job, self.job.rows_per_epoch
        if rows is None:
            return _ROOM
        if job.capacity is None:
            return rows * job.timetable.epochs
        return min(rows * job.timetable.epochs, job.capacity + rows * (1 + job.timetable.epochs_behind()))

    @property
    def rows(self) -> int:
        """How many rows learners have seen."""
        return sum(ring.count for ring in self.rings.values())

    @property
    def notes(self) -> list[str]:
        """What happened to workers, and what could not be saved."""
        unsaved = [
            f"what acting changes in agent {agent!r} is in no checkpoint ({why}): if `reset` does not set it, a run "
            "that is resumed can differ"
            for agent, why in self._actors.unsaved.items()
        ]
        return [event.text for event in self._learning.events] + unsaved

    # -- what is left of it --------------------------------------------------------------------------------------

    @property
    def move_learners(self) -> Any:
        """Moves the learners elsewhere; see `Pool.move`."""
        return self._learning.move

    def _save(self) -> dict[str, Any]:
        """Everything that a training goes on from; waits for the updates under way."""
        self.updates.drain()
        learners = self._learning.call("snapshot", record=False)
        return {
            "epoch": self.epoch,
            "rewards": self.rewards,
            "lags": self.lags,
            "steps": self.steps,
            "since": dict(self._since),
            "learners": {recipe.agents: learners[number] for number, recipe in enumerate(self.places.learners)},
            "rings": {agent: ring.save(self.job.capacity) for agent, ring in self.rings.items()},
            "updates": self.updates.save(),
            "actors": self._actors.save(),
            "streams": self._streams(),
        }

    def _streams(self) -> dict[str, Any]:
        """Where the random streams of those stand that draw from process-wide generators."""
        learn = self._learning.call("streams", record=False)
        act = self._acting.call("streams", record=False)
        return {
            "worlds": self._worlds.streams(),
            "learn": {recipe.agents: learn[number] for number, recipe in enumerate(self.places.learners)},
            "act": {recipe.agents: act[number] for number, recipe in enumerate(self.places.actors)},
        }

    def _take_streams(self, state: Mapping[str, Any]) -> None:
        self._worlds.take_streams(state["worlds"])
        for name, pool, recipes in (
            ("learn", self._learning, self.places.learners),
            ("act", self._acting, self.places.actors),
        ):
            found = [state[name].get(recipe.agents) for recipe in recipes]
            calls = {number: (each,) for number, each in enumerate(found) if each is not None}
            if calls:
                pool.call("take_streams", calls)

    def _load(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `_save` gave, under the same plan or another."""
        self.epoch, self.saved, self.steps = state["epoch"], state["epoch"], state["steps"]
        self.rewards, self.lags, self._since = list(state["rewards"]), list(state["lags"]), dict(state["since"])
        saved = {agent: part for part in state["learners"].items() for agent in part[0]}
        calls = {}
        for number, recipe in enumerate(self.places.learners):
            calls[number] = (_regrouped(recipe.agents, {saved[agent][0]: saved[agent][1] for agent in recipe.agents}),)
        self._learning.call("restore", calls)
        for agent, ring in self.rings.items():
            ring.load(state["rings"][agent])
        self.updates.load(state["updates"])
        self._actors.go_on(state["actors"])
        self._take_streams(state["streams"])


def _regrouped(agents: Sequence[str], saved: Mapping[tuple[str, ...], Any]) -> Any:
    """The snapshot of a bank, of those of the banks that its agents were in; see `learning.bank.Bank.snapshot`."""
    if tuple(agents) in saved:
        return saved[tuple(agents)]
    every = {agent: state for part in saved.values() for agent, state in part["agents"].items()}
    return {**next(iter(saved.values())), "agents": {agent: every[agent] for agent in agents}}
