"""The trainer: plays epochs, files rows, hands out updates, and publishes versions as the timetable says.

    wanted version ──► Acting ──┐
                                ├─ play ──► tape ──► rings ── spans ──► Learning ──► versions ──► …
    Worlds, one or more ────────┘

Collection goes on while updates run, as far as the lag allows. Nothing here looks at a clock to decide what is
computed: an epoch waits for the version that the timetable names, and for no other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from paceline.checkpoints import Checkpoints
from paceline.engine import Plan, Pool, SharedArrays, Trace
from paceline.errors import BadInput
from paceline.lockstep import Worlds
from paceline.rollout import Rollout, play
from paceline.tape import Tape
from paceline.team.device import one_thread
from paceline.train.actors import Actors
from paceline.train.banks import Recipe, regrouped
from paceline.train.filing import Filing
from paceline.train.given import inexact
from paceline.train.hosts import Acting, Learning
from paceline.train.job import Job
from paceline.train.phases import Phases
from paceline.train.placing import Places
from paceline.train.rings import Ring
from paceline.train.saved_state import (
    its_own,
    of_bank,
    of_lags,
    of_rewards,
    of_streams,
    to_bank,
    to_lags,
    to_rewards,
    to_streams,
)
from paceline.train.speculation import Speculation
from paceline.train.training import Speculated
from paceline.train.updates import FROZEN, Update, Updates
from paceline.types import Episode

Recorder = Callable[[int, Tape], None]
"""Is given the number of an epoch and what happened in it, before a checkpoint says that it was played."""

_log = logging.getLogger("paceline")
_JOURNAL = 200  # turns of those who act that a journal holds, observations and all


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
        speculate: Whether agents whose turns are ordered are answered ahead; None: where it pays.
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
        speculate: bool | None = None,
    ) -> None:
        self.job, self._checkpoints, self._recorder = job, checkpoints, recorder
        self.epoch = 0
        """How many epochs have been played."""
        self.begun = 0
        """How many of them before this trainer, which goes on from a checkpoint."""
        self.saved = 0
        """How many of them the last checkpoint holds."""
        self.rewards: list[list[dict[str, float]]] = []
        """Epoch → world → agent → what it got in all."""
        self.lags: list[dict[str, int]] = []
        """Epoch → agent → by how many updates the weights that acted were behind those that were due."""
        self.steps = 0
        """Steps of all worlds."""
        self.phases = Phases(trace)
        """What main is about, and for how long."""
        self.findings = inexact(job)
        """Which networks do not keep their bits in other stacks on this machine."""
        self.places = Places(plan, job, deadline)
        self._seats = {seat.agent: seat for recipe in job.recipes for seat in recipe.seats}
        self._filing = Filing(job, self._free_rows)
        self._stack = ExitStack()
        try:
            self._open(on_failure, deadline)
            self._speculation = self._ahead(speculate) if job.turn == "ordered" else None
            self._mind = self._actors if self._speculation is None else self._speculation
        except BaseException:
            self._stack.close()
            raise

    def _open(self, on_failure: str, deadline: float | None) -> None:
        job, places, enter = self.job, self.places, self._stack.enter_context
        limit = math.inf if deadline is None else deadline
        self._acting = enter(
            Pool(
                [partial(Acting, recipe, job.worlds) for recipe in places.actors],
                seed=job.seed,
                keys=[("act", *recipe.agents) for recipe in places.actors],
                deadline=math.inf,
                snapshot_every=_JOURNAL * (len(job.agents) if job.turn == "ordered" else 1),
                beside_threads=places.beside_threads,
                trace=self.phases.part("actors"),
                **places.for_actors,
            )
        )
        self._learning = enter(
            Pool(
                [partial(Learning, recipe, job.seed, on_failure) for recipe in places.learners],
                seed=job.seed,
                keys=[("learn", *recipe.agents) for recipe in places.learners],
                deadline=limit,
                trace=self.phases.part("learners"),
                **places.for_learners,
            )
        )
        self._check_reach()
        self._stack.callback(one_thread())
        self._actors = Actors(places.actors, self._acting, job)
        self.updates = Updates(places.learners, self._learning, on_failure, limit, self.phases)
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
                beside_threads=places.beside_threads,
                trace=self.phases.part("worlds"),
            )
        )

    def _ahead(self, wanted: bool | None) -> Speculation:
        """Those who act, with answers ahead; where they act here, what it takes is what this thread computes."""
        clock = perf_counter if self.places.for_actors else thread_time
        return Speculation(self._actors, self._worlds, wanted, clock)

    def _check_reach(self) -> None:
        """Finds out before anything is played whether learners can read the rings, wherever they are.

        Raises:
            BadInput: one of them cannot.
        """
        if self._learning.place == "inline":
            return
        with closing(SharedArrays({"reached": ((1,), "|b1")})) as shared:
            shared.arrays["reached"][:] = True
            calls = dict.fromkeys(range(len(self._learning)), (shared,))
            try:
                self._learning.call("reach", calls, record=False)
            except BadInput as error:
                raise BadInput(
                    f"plan={self.places.plan.backend!r}: a learner is where it cannot read the rows of its agents, "
                    f"which lie in the memory of this machine ({error})"
                ) from error

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
        if self._checkpoints is None or state is None:
            self.updates.begin()
            return
        self._checkpoints.taken(partial(self._load, state))()
        _log.info("goes on from the checkpoint after %d of %d epochs", *self._progress)

    def play_epoch(self) -> None:
        """Plays an epoch with the versions that the timetable names, and hands out the updates that it unlocks."""
        about = f"epoch {self.epoch}"
        with self.phases.of("publish", about):
            self._publish()
        with self.phases.of("collect", about):
            tape = self._play()
            self._filing.file(tape)
            if self._recorder is not None:
                self._recorder(self.epoch, tape)
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
        if self._checkpoints is None:
            return
        begin = perf_counter()
        with self.phases.of("checkpoint", f"after {self.epoch} epochs"):
            size = self._checkpoints.save(self._save(), begin)
        self.saved = self.epoch
        took = perf_counter() - begin
        _log.info("checkpoint after %d of %d epochs: %.1f MB in %.2f s", *self._progress, size / 1e6, took)

    def _publish(self) -> None:
        table, updates = self.job.timetable, self.updates
        if self.job.free_running:
            versions = {agent: updates.newest(agent) for agent in updates.agents}
        else:
            versions = {agent: table.version(agent, self.epoch) for agent in updates.agents}
        lags = {agent: table.due(agent, self.epoch) - number for agent, number in versions.items()}
        self.lags.append(self.lags[-1] if self.lags and self.lags[-1] == lags else lags)  # most epochs share one
        self._actors.load({agent: (number, updates.wanted(agent, number)) for agent, number in versions.items()})

    def _play(self) -> Tape:
        worlds = self.job.worlds
        names = {(world, agent): seat for world in range(worlds) for agent, seat in self._seats.items()}
        tape = Tape(names, self.job.mission.steps or 64)
        self._mind.begin(self.epoch)
        self._worlds.episode = [Episode(self.job.mission.name, world, 0) for world in range(worlds)]
        episodes = play(self._worlds, self._mind, self.job.starts(self.epoch), None, tape)
        self._check_rewards(episodes, tape)
        self.rewards.append([dict(episode.rewards) for episode in episodes])
        self.steps += sum(episode.steps for episode in episodes)
        return tape

    def _check_rewards(self, episodes: Sequence[Episode], tape: Tape) -> None:
        """Nothing is learned from a reward that is no number.

        Raises:
            BadInput: a reward of the epoch is not finite.
        """
        for world, episode in enumerate(episodes):
            for agent, total in episode.rewards.items():
                if not math.isfinite(total):
                    rewards = tape.tracks[world, agent].columns["rewards"]
                    turns = np.flatnonzero(~np.isfinite(rewards))
                    when = f"{rewards[turns[0]]} at its turn {turns[0]}" if len(turns) else f"{total} in all"
                    raise BadInput(
                        f"mission {self.job.mission.name!r}: agent {agent!r} was given a reward of {when} of "
                        f"epoch {self.epoch} (world {world}, seed {episode.seed}); it must be a finite number"
                    )

    def _free_rows(self) -> None:
        """Ends what reads rows that are to be overwritten, or to go elsewhere."""
        self.updates.drain()
        self.save_learners()

    def save_learners(self) -> None:
        """Has learners save themselves, so that no earlier update is run again if a worker dies."""
        self._learning.snapshot()
        self._filing.forget()

    def _hand_out(self) -> None:
        job = self.job
        unlocked, spans = {}, {}
        for agent, ring in self.rings.items():
            numbers = job.timetable.unlocked(agent, self.epoch)
            if not numbers:
                continue
            span = spans[agent] = self._filing.window(agent)
            rows, new = span.hi - span.lo, span.hi - span.new
            unlocked[agent] = [Update(agent, number, self.epoch, rows, new) for number in numbers]
            reason = self._reason(agent, ring.count)
            for update in unlocked[agent] if reason else ():
                update.status, update.reason = "skipped", reason
            if not reason:
                self._filing.read(agent, span)
        if unlocked:
            with self.phases.of("train", f"after epoch {self.epoch}"):
                self.updates.post(unlocked, self.rings, spans)

    def _reason(self, agent: str, rows: int) -> str:
        """Why an update that is due is not run."""
        if agent in self.updates.frozen:
            return FROZEN
        if rows < self.job.warmup:
            return f"warmup: {rows} of {self.job.warmup} rows"
        return "" if rows else "no rows"

    @property
    def rings(self) -> Mapping[str, Ring]:
        """The rows of those that learn."""
        return self._filing.rings

    @property
    def _progress(self) -> tuple[int, int]:
        return self.epoch, self.job.timetable.epochs

    @property
    def rows(self) -> int:
        """How many rows learners have seen."""
        return self._filing.count

    @property
    def notes(self) -> list[str]:
        """What happened to workers, and what could not be saved."""
        unsaved = [
            f"what acting changes in agent {agent!r} is in no checkpoint ({why}): if `reset` does not set it, a run "
            "that is resumed can differ"
            for agent, why in self._actors.unsaved.items()
        ]
        ahead = [] if self.speculation is None else [str(self.speculation)]
        return self.findings + [event.text for event in self._learning.events] + unsaved + ahead

    @property
    def speculation(self) -> Speculated | None:
        """What speculation has done, if turns are ordered."""
        return None if self._speculation is None else self._speculation.figures

    # -- what is left of it --------------------------------------------------------------------------------------

    @property
    def move_learners(self) -> Any:
        """Moves the learners elsewhere; see `Pool.move`."""
        return self._learning.move

    def _save(self) -> dict[str, Any]:
        """Everything that a training goes on from; waits for the updates under way."""
        self.updates.drain()
        return {
            "epoch": self.epoch,
            "rewards": of_rewards(self.rewards),
            "lags": of_lags(self.lags, self.updates.agents),
            "steps": self.steps,
            "learners": self._save_learners(),
            "rows": self._filing.save(),
            "updates": self.updates.save(),
            "actors": self._actors.save(),
            "speculated": None if self._speculation is None else self._speculation.counts,
            "streams": self._streams(),
        }

    def _save_learners(self) -> dict[tuple[str, ...], Any]:
        """Everything that is learned. A frozen agent learns no more: what of it cannot be saved is left out."""
        found = {}
        for number, outcome in self._learning.call("snapshot", record=False, outcomes=True).items():
            recipe = self.places.learners[number]
            agents = recipe.agents
            if outcome.error is None:
                found[agents] = of_bank(recipe, outcome.answer)
            elif not self.updates.frozen.keys() >= set(agents):
                raise outcome.error
        return found

    def _streams(self) -> dict[str, Any]:
        """Where the random streams of those stand that draw from process-wide generators."""
        learn = self._learning.call("streams", record=False)
        act = self._acting.call("streams", record=False)
        return {
            "worlds": of_streams(self._worlds.streams()),
            "learn": of_streams({recipe.agents: learn[number] for number, recipe in enumerate(self.places.learners)}),
            "act": of_streams({recipe.agents: act[number] for number, recipe in enumerate(self.places.actors)}),
        }

    def _load(self, state: Mapping[str, Any]) -> Callable[[], None]:
        """Goes on from what `_save` gave, under the same plan or another. Gives the rest of it, for which users' own
        objects are called: what they raise is theirs.

        Raises:
            Exception: the state is none of this training.
        """
        self._check(state)
        self.epoch, self.begun, self.saved, self.steps = state["epoch"], state["epoch"], state["epoch"], state["steps"]
        self.rewards, self.lags = to_rewards(state["rewards"]), to_lags(state["lags"])
        saved = {agent: part for part in state["learners"].items() for agent in part[0]}
        calls: tuple[dict[int, Any], dict[int, Any]] = {}, {}  # of ours, and of users' own
        for number, recipe in enumerate(self.places.learners):
            if not state["updates"]["frozen"].keys() >= set(recipe.agents) - saved.keys():
                raise ValueError(f"nothing is kept of {', '.join(recipe.agents)}")
            if saved.keys() >= set(recipe.agents):
                mine = {saved[agent][0]: to_bank(recipe, saved[agent][1]) for agent in recipe.agents}
                calls[recipe.is_users][number] = (regrouped(recipe.agents, mine),)
        self._learning.call("restore", calls[False])
        self._filing.load(state["rows"])
        self.updates.load(state["updates"])
        if self._speculation is not None:
            self._speculation.counts = list(state["speculated"])
        worlds, learn, act = (to_streams(state["streams"][name]) for name in ("worlds", "learn", "act"))
        copies = {agent: its_own(mine) for agent, mine in state["actors"]["copies"].items()}
        loaded = dict(state["actors"]["loaded"])

        def call_users() -> None:
            self._learning.call("restore", calls[True])
            self._actors.go_on(copies, loaded)
            self._worlds.take_streams(worlds)
            _take_streams(self._learning, self.places.learners, learn)
            _take_streams(self._acting, self.places.actors, act)

        return call_users

    def _check(self, state: Mapping[str, Any]) -> None:
        epoch, table, mine = state["epoch"], self.job.timetable, state["updates"]
        if type(epoch) is not int or not 0 <= epoch <= table.epochs or type(state["steps"]) is not int:
            raise ValueError(f"epoch {epoch!r:.40} is none of {table.epochs}")
        shape = (epoch, self.job.worlds, len(state["rewards"]["agents"]))
        if (epoch and state["rewards"]["totals"].shape != shape) or any(
            column.shape != (epoch,) for column in state["lags"].values()
        ):
            raise ValueError(f"rewards and lags are not those of {epoch} epochs")
        if epoch and not set(state["rewards"]["agents"]) >= set(self.job.agents):
            raise ValueError("agents have no rewards")
        if not mine["done"].keys() == mine["versions"].keys() == set(self.updates.agents):
            raise ValueError("its agents are others")


def _take_streams(pool: Pool, recipes: Sequence[Recipe], streams: Mapping[Any, Any]) -> None:
    found = [streams.get(recipe.agents) for recipe in recipes]
    calls = {number: (each,) for number, each in enumerate(found) if each is not None}
    if calls:
        pool.call("take_streams", calls)
