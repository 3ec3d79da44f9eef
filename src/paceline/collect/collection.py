"""Collections: what rollouts have left, by their numbers; views for learners; on disk and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from paceline.collect.archive import read_archive, write_archive
from paceline.collect.clock import Clock
from paceline.collect.jobs import Job
from paceline.collect.playing import Chunk, Played, digest_of, rollout_digest
from paceline.engine import Plan
from paceline.errors import BadInput
from paceline.types import Failure

Array = np.ndarray[Any, Any]

_BY_END = ("ends", "final_observations")
_BY_START = ("starts", "start_states")


@dataclass(frozen=True)
class Timing:
    """Where the time went. Not part of the digest.

    Attributes:
        wall: Seconds from the first rollout to the last.
        busy: Worker → seconds in which it played.
        building: Seconds in which environments were built.
        environments: Seconds in which they were begun and stepped, or waited for.
        policy: Seconds in which policies were asked.
        workers: How many there were.
        slowest: The rollout that took longest, and its seconds; shared with its neighbours in a forward pass.
        median: What the rollout in the middle took.
    """

    wall: float = 0.0
    busy: Mapping[int, float] = field(default_factory=dict)
    building: float = 0.0
    environments: float = 0.0
    policy: float = 0.0
    workers: int = 1
    slowest: tuple[int, float] = (0, 0.0)
    median: float = 0.0

    @property
    def utilisation(self) -> float:
        """The share of the workers' time in which they played."""
        return min(1.0, sum(self.busy.values()) / (self.workers * self.wall)) if self.wall else 0.0


def timing_of(chunks: Sequence[Chunk], wall: float, plan: Plan) -> Timing:
    """Where the time of some chunks went, which took so many seconds in all."""
    busy, clock = dict[int, float](), Clock()
    for chunk in chunks:
        clock.include(chunk.clock)
        for worker, seconds in chunk.busy.items():
            busy[worker] = busy.get(worker, 0.0) + seconds
    times = sorted((each.seconds, each.index) for chunk in chunks for each in chunk.played)
    return Timing(
        wall,
        busy,
        clock.building,
        clock.environments,
        clock.policy,
        workers=1 if plan.backend == "inline" else plan.workers or max(1, len(busy)),
        slowest=(times[-1][1], times[-1][0]) if times else (0, 0.0),
        median=median(seconds for seconds, _ in times) if times else 0.0,
    )


class Recording:
    """One rollout.

    Attributes:
        index: Its number.
        task: Its task; None if it had none.
        columns: Name → rows, of the only agent; of several, agent → name → rows. `observations`, `actions`, `rewards`,
            `terminations`, `truncations` and what the policy said beside its actions have a row for each action;
            `final_observations` one for each end of an episode, after the rows that `ends` names; `start_states` are
            what a policy kept before the rows that `starts` names.
        failure: Why there are no rows, if there are none.
        seconds: Wall time.
    """

    def __init__(self, job: Job, played: Played) -> None:
        self.index, self.task = job.index, job.task
        self.failure, self.seconds = played.failure, played.seconds
        self.agents = played.columns
        """Agent → name → rows."""
        self._job, self._played = job, played

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the rollout, with its number and its task."""
        return rollout_digest(self._job, self._played)

    @property
    def columns(self) -> dict[str, Any]:
        """See the class."""
        return next(iter(self.agents.values())) if len(self.agents) == 1 else dict(self.agents)

    @property
    def steps(self) -> int:
        """How many actions there were, of all agents."""
        return sum(len(columns["rewards"]) for columns in self.agents.values())

    @property
    def returns(self) -> list[float]:
        """The sum of all agents' rewards in each episode."""
        sums: list[float] = []
        for columns in self.agents.values():
            bounds = [0, *(columns["ends"] + 1)]
            mine = [float(columns["rewards"][a:b].sum()) for a, b in pairwise(bounds)]
            sums = mine if not sums else [one + two for one, two in zip(sums, mine, strict=True)]
        return sums


class Collection:
    """Rollouts by their numbers.

    Args:
        jobs: What was asked.
        played: What came of it, in the same order.
        episodes: How many episodes a rollout has.
        iteration: Which round of collection it was.
        plan: Where it was played, and why there.
        timing: Where the time went.
        notes: What there is to tell.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        played: Sequence[Played],
        *,
        episodes: int = 1,
        iteration: int | str = 0,
        plan: Plan | None = None,
        timing: Timing | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._jobs, self._played = list(jobs), list(played)
        self.rollouts = [Recording(job, each) for job, each in zip(jobs, played, strict=True)]
        self.episodes, self.iteration = episodes, iteration
        self.plan, self.timing, self.notes = plan or Plan("inline"), timing or Timing(), list(notes)

    def __len__(self) -> int:
        return len(self.rollouts)

    def __iter__(self) -> Iterator[Recording]:
        return iter(self.rollouts)

    def __getitem__(self, place: int) -> Recording:
        return self.rollouts[place]

    def __repr__(self) -> str:
        return f"Collection({len(self)} rollouts, {self.steps} steps, digest {self.digest[:12]}…)"

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all rollouts: the same wherever they were played."""
        return digest_of(self._jobs, self._played)

    @property
    def steps(self) -> int:
        """How many actions there were in all."""
        return sum(rollout.steps for rollout in self.rollouts)

    @property
    def tasks(self) -> list[Any]:
        """The task of each rollout, as it was given."""
        return [rollout.task and rollout.task.options.get("task", rollout.task.options) for rollout in self.rollouts]

    @property
    def returns(self) -> Array:
        """The return of each episode of each rollout: [rollouts, episodes]; of failed ones NaN."""
        found = np.full((len(self), self.episodes), np.nan)
        for row, rollout in enumerate(self.rollouts):
            found[row, : len(rollout.returns)] = rollout.returns
        return found

    @property
    def failures(self) -> dict[int, Failure]:
        """Index → why a rollout failed."""
        return {rollout.index: rollout.failure for rollout in self.rollouts if rollout.failure is not None}

    # -- for learners ------------------------------------------------------------------------------------------

    def flat(self, agent: str | None = None) -> dict[str, Any]:
        """All rows one after another, and beside them `rollout` (the number) and `step` (from 0 in each rollout).

        Args:
            agent: Whose rows; needed where there are several.
        """
        every = self._columns(agent)
        lengths = [len(columns["rewards"]) for columns in every]
        names = [name for name in every[0] if name not in (*_BY_END, *_BY_START)] if every else []
        flat = {name: _joined([columns[name] for columns in every]) for name in names}
        indexes = [rollout.index for rollout in self.rollouts if rollout.failure is None]
        flat["rollout"] = np.repeat(np.array(indexes, np.int64), lengths)
        flat["step"] = np.concatenate([np.arange(length) for length in lengths]) if lengths else np.zeros(0, np.int64)
        return flat

    def padded(self, agent: str | None = None) -> dict[str, Any]:
        """Rows by rollout, [rollouts, longest, …], zeros where a shorter one has ended; `mask` says which rows count.

        Args:
            agent: Whose rows; needed where there are several.
        """
        every = self._columns(agent)
        longest = max((len(columns["rewards"]) for columns in every), default=0)
        names = [name for name in every[0] if name not in (*_BY_END, *_BY_START)] if every else []
        padded = {name: _stacked([columns[name] for columns in every], longest) for name in names}
        padded["mask"] = np.array([np.arange(longest) < len(columns["rewards"]) for columns in every], bool)
        return padded

    def to_numpy(self) -> dict[str, Any]:
        """The flat view; of several agents, that of each by its name."""
        agents = self._agents()
        return self.flat() if len(agents) == 1 else {agent: self.flat(agent) for agent in agents}

    def _agents(self) -> list[str]:
        return list(dict.fromkeys(agent for rollout in self.rollouts for agent in rollout.agents))

    def _columns(self, agent: str | None) -> list[dict[str, Any]]:
        agents = self._agents()
        if agent is None and len(agents) > 1:
            raise BadInput(f"there are {len(agents)} agents: say whose rows, one of {', '.join(agents[:5])}")
        if agent is not None and agent not in agents:
            raise BadInput(f"there is no agent {agent!r}; there are {', '.join(agents[:5])}")
        return [rollout.agents[agent or agents[0]] for rollout in self.rollouts if rollout.failure is None]

    # -- on disk -------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Writes everything to one file in NumPy's npz format, as arrays and JSON only; `Collection.load` reads it."""
        about = {
            "digest": self.digest,
            "episodes": self.episodes,
            "iteration": self.iteration,
            "notes": self.notes,
        }
        return write_archive(Path(path), about, self._jobs, self._played)

    @classmethod
    def load(cls, path: str | Path) -> Collection:
        """Reads what `save` wrote, or the rollouts in the directory of a run.

        Raises:
            BadInput: there is no such file, it is another kind of file, or its content is not what its digest says.
        """
        about, jobs, played = read_archive(Path(path))
        try:
            episodes, iteration, notes = int(about["episodes"]), about["iteration"], about["notes"]
            found = cls(jobs, played, episodes=episodes, iteration=iteration, notes=notes)
            digest, was = found.digest, str(about["digest"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{path} holds no collection, or is damaged: {error}") from error
        if digest != was:
            raise BadInput(f"{path} is damaged: its content has the digest {digest[:12]}…, not {was[:12]}…")
        return found


def _joined(parts: Sequence[Any]) -> Any:
    """Columns of several rollouts, one after another; by leaf, as their space has them."""
    return _by_leaf(np.concatenate, parts)


def _stacked(parts: Sequence[Any], longest: int) -> Any:
    def stack(arrays: Sequence[Array]) -> Array:
        found = np.zeros((len(arrays), longest, *arrays[0].shape[1:]), arrays[0].dtype)
        for row, array in enumerate(arrays):
            found[row, : len(array)] = array
        return found

    return _by_leaf(stack, parts)


def _by_leaf(do: Callable[[Sequence[Array]], Array], parts: Sequence[Any]) -> Any:
    first = parts[0]
    if isinstance(first, Mapping):
        return {name: _by_leaf(do, [part[name] for part in parts]) for name in first}
    if isinstance(first, tuple):
        return tuple(_by_leaf(do, [part[place] for part in parts]) for place in range(len(first)))
    if isinstance(first, list):
        return [value for part in parts for value in part]  # of a space that fits into no array
    return do(parts)
