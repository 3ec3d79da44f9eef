"""Lanes: rollouts side by side. A lane plays its rollouts one after another, each in the row that its number says.

    Lanes, the world half of the loop ──► observations by (lane, agent) ──► Crew, the mind half ──► actions ──► Lanes

Row = index mod lanes, so the bits of a rollout do not depend on its neighbours, nor on whether it has any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any, Protocol

from paceline.collect.clock import Clock, this_worker
from paceline.collect.jobs import Job, Spec
from paceline.engine import Anew, draws_of
from paceline.errors import BadInput
from paceline.lasting import LASTING
from paceline.rollout import Acts, Rollout
from paceline.tape import Tape, Track
from paceline.types import Seat, Step

Name = tuple[int, str]
"""A lane, and an agent in it."""

Columns = dict[str, dict[str, Any]]
"""Agent → name of a column → rows."""


class Lane:
    """One environment, in which rollouts are played one after another.

    Args:
        spec: What is collected.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._built_before = 0.0  # seconds of the environments before the one at hand
        self._rollout = self._built()
        self.unclosed = ""
        """What `close()` of an environment raised, in words; empty: none did."""

    def _built(self) -> Rollout:
        return Rollout(self._spec.mission, device=self._spec.device, digested=False)

    def seats(self) -> list[Seat]:
        """The agents of the environment."""
        return self._rollout.seats()

    def begin(self, job: Job) -> dict[str, Any]:
        """Begins a rollout. Returns what its agents see."""
        if self._rollout.is_used:
            self.end()
            self._built_before = self.building()
            self._rollout = self._built()
        self._job, self._episode = job, 0
        observations = self._rollout.begin(self._spec.start(job, 0), job.task)
        if not observations:
            raise BadInput(f"rollout {job.index} was over before its first step: no agent was in play after reset()")
        return observations

    def step(self, actions: dict[str, Any]) -> tuple[Step, bool]:
        """Plays one step. Returns its outcome, and whether the rollout is over.

        Where an episode ends and another follows, the observations are those of the next, and the final ones those of
        the last.
        """
        step = self._rollout.step(actions)
        if not self._rollout.over:
            return step, False
        step = _detached(step)
        self._episode += 1
        if self._episode == self._spec.episodes:
            return step, True
        job = self._job
        step.observations = self._rollout.begin(self._spec.start(job, self._episode), job.task, anew=False)
        return step, False

    def building(self) -> float:
        """Seconds that it took to build environments."""
        return self._built_before + self._rollout.building

    def end(self) -> None:
        """Closes, and notes what the environment raises: it changes nothing of what has been played."""
        try:
            self.close()
        except (Exception, SystemExit) as error:
            self.unclosed = self.unclosed or f"raised {type(error).__name__}: {error}"

    def close(self) -> None:
        """Ends the environment, or leaves it to later rollouts in this worker."""
        self._rollout.close()


class WatchedLane(Lane):
    """A lane that says whether its environment has drawn from process-wide generators, and how busy it was."""

    def __init__(self, spec: Spec) -> None:
        begin = perf_counter()
        with draws_of() as drawn:
            super().__init__(spec)
        self.drew = bool(drawn())
        self._seconds, self._told = perf_counter() - begin, 0.0

    def begin(self, job: Job) -> Any:
        """As a lane does; with whether it drew. What was asked before is not needed to rebuild it."""
        LASTING.say()
        return Anew(self._watched(super().begin, job))

    def step(self, actions: dict[str, Any]) -> Any:
        """As a lane does; with whether it drew."""
        return self._watched(super().step, actions)

    def spent(self) -> tuple[int, float, float, str]:
        """The worker; seconds in which this lane was busy, and in which it was built, since this was last asked; what
        `close()` of an environment raised."""
        seconds, self._seconds = self._seconds, 0.0
        built, self._told = self.building() - self._told, self.building()
        return this_worker(), seconds, built, self.unclosed

    def _watched(self, do: Callable[[Any], Any], what: Any) -> tuple[Any, bool]:
        begin = perf_counter()
        with draws_of() as drawn:
            answer = do(what)
        self.drew |= bool(drawn())
        self._seconds += perf_counter() - begin
        return answer, self.drew


class Home(Protocol):
    """Where lanes live."""

    def begin(self, jobs: Mapping[int, Job]) -> Mapping[int, dict[str, Any]]:
        """Begins rollouts in some lanes."""

    def step(self, actions: Mapping[int, dict[str, Any]]) -> Mapping[int, tuple[Step, bool]]:
        """Steps some lanes."""


class Here:
    """Lanes in this process, by their rows."""

    def __init__(self, lanes: Mapping[int, Lane]) -> None:
        self._lanes = lanes

    def begin(self, jobs: Mapping[int, Job]) -> dict[int, dict[str, Any]]:
        """Begins rollouts in some lanes."""
        return {lane: self._lanes[lane].begin(job) for lane, job in jobs.items()}

    def step(self, actions: Mapping[int, dict[str, Any]]) -> dict[int, tuple[Step, bool]]:
        """Steps some lanes."""
        return {lane: self._lanes[lane].step(mine) for lane, mine in actions.items()}


class Lanes:
    """The world half of the loop over several lanes: when a rollout ends, its lane begins the next one.

    Args:
        home: Where the lanes live.
        queues: The rollouts of each lane.
        clock: Is told how long the environments took.
    """

    def __init__(self, home: Home, queues: Mapping[int, Sequence[Job]], clock: Clock) -> None:
        self._home, self._clock = home, clock
        self._queues = {lane: deque(jobs) for lane, jobs in queues.items()}
        self.first = {lane: jobs[0] for lane, jobs in queues.items()}
        """Lane → what is played there first."""
        self.playing: dict[int, Job] = {}
        """Lane → what is played there."""
        self.turned: list[tuple[int, Job | None, Job | None]] = []
        """Lane, the rollout that has ended there, and the one that has begun, since this was last emptied."""
        self.episode = None

    @property
    def over(self) -> bool:
        """Whether all rollouts have been played."""
        return not self.playing

    def begin(self, seed: Any = None, task: Any = None) -> dict[Name, Any]:
        """Begins the first rollout of each lane; seeds and tasks are their own."""
        return self._begin_next(dict.fromkeys(self._queues))

    def step(self, actions: Mapping[Name, Any]) -> Step:
        """Steps the lanes whose agents have been asked."""
        mine: dict[int, dict[str, Any]] = {}
        for (lane, agent), action in actions.items():
            mine.setdefault(lane, {})[agent] = action
        joint = Step({}, {}, {}, {}, {}, {})
        ended: dict[int, Job | None] = {}
        since = perf_counter()
        outcomes = self._home.step(mine)
        self._clock.stepped(since)
        for lane, (step, over) in outcomes.items():
            _merge(lane, step, joint)
            if over:
                ended[lane] = self.playing.pop(lane)
        if ended:
            joint.observations.update(self._begin_next(ended))
        return joint

    def _begin_next(self, ended: Mapping[int, Job | None]) -> dict[Name, Any]:
        jobs = {lane: self._queues[lane].popleft() for lane in ended if self._queues[lane]}
        self.playing.update(jobs)
        self.turned += [(lane, last, jobs.get(lane)) for lane, last in ended.items()]
        since = perf_counter()
        began = self._home.begin(jobs) if jobs else {}
        self._clock.stepped(since)
        return {(lane, agent): seen for lane, observations in began.items() for agent, seen in observations.items()}


class Team(Acts, Protocol):
    """What answers for the seats of all lanes; see `team.LocalTeam`."""

    def begin(self, episodes: Mapping[Any, tuple[str, int]]) -> None:
        """Begins the next episode of some chairs."""

    def states(self, names: Sequence[Any]) -> Mapping[Any, Any]:
        """What row policies keep for some chairs."""


class Crew:
    """The mind half: a team that begins anew where a lane does, and files what has been played there.

    Args:
        spec: What is collected.
        lanes: The world half.
        team: What answers; its chairs play the first rollout of each lane already.
        seats: The agents of the environment.
        room: How many rows a tape is given at first.
        clock: Is told how long the team took.
    """

    def __init__(self, spec: Spec, lanes: Lanes, team: Team, seats: Sequence[Seat], room: int, clock: Clock) -> None:
        self._spec, self._lanes, self._team, self._seats, self._room = spec, lanes, team, seats, room
        self._clock = clock
        self.tape = Tape({})
        self.filed: dict[int, tuple[Columns, float]] = {}
        """Index → the columns of each agent, and seconds."""
        self._since: dict[int, float] = {}

    @property
    def extras(self) -> Mapping[Any, Mapping[str, Any]]:
        """As the team has them."""
        return self._team.extras

    def act(self, observations: Mapping[Name, Any]) -> Mapping[Name, Any]:
        """Asks the team."""
        if self._lanes.turned:
            self.turn()
        since = perf_counter()
        actions = self._team.act(observations)
        self._clock.asked(since, len(observations))
        return actions

    def tell(self, step: Step) -> None:
        """Hands the outcome on."""
        self._team.tell(step)

    def turn(self) -> None:
        """Files the rollouts that have ended, and begins those that have begun."""
        for lane, last, job in self._lanes.turned:
            names = {(lane, seat.agent): seat for seat in self._seats}
            if last is not None:
                columns = {agent: self.tape.tracks[lane, agent].columns for _, agent in names}
                self.filed[last.index] = columns, perf_counter() - self._since[lane]
                if job is not None:
                    self._team.begin(dict.fromkeys(names, self._spec.episode(job)))
            if job is not None:
                self._since[lane] = perf_counter()
                self.tape.tracks.update({name: Track(seat, self._room) for name, seat in names.items()})
                for name, state in self._team.states(list(names)).items():
                    self.tape.tracks[name].start(state)
        self._lanes.turned = []


def queues_of(jobs: Sequence[Job], lanes: int) -> dict[int, list[Job]]:
    """Which lane plays which rollouts: by their numbers."""
    queues: dict[int, list[Job]] = {}
    for job in jobs:
        queues.setdefault(job.index % lanes, []).append(job)
    return queues


def _merge(lane: int, step: Step, joint: Any) -> None:
    """Adds the outcome of a lane; infos are left out, as neither a tape nor a policy takes them."""
    for agent, seen in step.observations.items():
        joint.observations[lane, agent] = seen
    for agent, reward in step.rewards.items():
        joint.rewards[lane, agent] = reward
    for agent, ended in step.terminations.items():
        joint.terminations[lane, agent] = ended
    for agent, cut in step.truncations.items():
        joint.truncations[lane, agent] = cut
    for agent, seen in step.final_observations.items():
        joint.final_observations[lane, agent] = seen


def _detached(step: Step) -> Step:
    """The last step of an episode as it stays: an environment may write into what it has given when it is reset, for
    the next episode or the lane's next rollout, and that comes before the tape is told."""
    flags = (dict(step.terminations), dict(step.truncations))
    return Step({}, dict(step.rewards), *flags, step.infos, deepcopy(step.final_observations))
