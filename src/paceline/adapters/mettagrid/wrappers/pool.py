"""AgentPool: wrapped agents, and the workers that they live in.

register … register ──► first step, reset or read ──► agents that share state form a home ──► engine's pools
step [(seat, observation), …] ──► one call per home, all under way at once ──► actions and infos, in this order
"""

from __future__ import annotations

import itertools
import logging
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy
from mettagrid.simulator.interface import AgentObservation

from paceline.adapters.mettagrid.wrappers.group import Answer, packed
from paceline.adapters.mettagrid.wrappers.homes import Home, Place, divide, owners_of, run_round, start
from paceline.engine import Event, OwnedStreams, Plan, Pool, WorkerInfo, seeds_from_caller
from paceline.errors import Closed, NotSendable
from paceline.seeds import Key

_log = logging.getLogger("paceline")


class Seat:
    """One agent in a pool: what its wrapper holds."""

    def __init__(self, policy: AgentPolicy, wants: Place, agent_id: int, parent: MultiAgentPolicy | None) -> None:
        self.policy: AgentPolicy | None = policy
        self.wants, self.agent_id, self.parent = wants, agent_id, parent
        self.home: Home | None = None
        self.place = 0
        self.closed = False

    def settle(self, home: Home, place: int) -> None:
        """It lives there from now on: a policy that was sent is kept here no longer."""
        self.home, self.place, self.policy = home, place, None


class AgentPool:
    """The workers of wrapped agents. Wrappers register with it, and it opens at the first step, reset or read.

    Agents whose policies share a mutable object live together in one worker and are stepped one after another; the log
    (`paceline`, at level INFO) says so. Policies are pickled once, when the pool opens; afterwards observations go out,
    and actions and infos come back. A process that dies is replaced, and what its agents had been asked is run again.

    Every agent, or all that share state, has random streams of its own in the place of the process-wide generators
    (`random`, `numpy.random`, torch's). They follow from one number drawn of each of the caller's when the pool opens,
    and from the ids of the agents: with one seed, every wrapper gives one result, wherever its agents live. A bare
    policy draws from the caller's generators, which is another result; one that draws nothing, or from generators of
    its own, does the same with and without a pool. On threads agents that are seen to draw are stepped one at a time.

    Args:
        workers: How many processes, or threads; None: a process per CPU slot, a thread per group of agents.
        seed: The root of the random streams; None: numbers drawn of the caller's generators.
        split: Every agent lives by itself: in a process with a copy of what it shares, on threads beside the others.
            For agents that share only what no step changes (weights), or what may be used by several at once (a client
            of a server).
        deadline: Seconds that a call may take in a process before that is killed and the call tried again; None: 60;
            `math.inf`: as long as it likes.
    """

    def __init__(
        self, *, workers: int | None = None, seed: int | None = None, split: bool = False, deadline: float | None = None
    ) -> None:
        self._workers, self._seed, self._split, self._deadline = workers, seed, split, deadline
        self._lock = threading.RLock()  # upstream's rollout steps its groups on threads of its own
        self._waiting: list[Seat] = []
        self._homes: list[Home] = []
        self._kept: dict[tuple[int, int, Place], Home] = {}  # (parent's identity, agent, place): for later episodes
        self._plans: dict[Pool, Plan | None] = {}  # engine's pool → the plan that it began with, until that changes
        self._released: deque[Seat] = deque()
        self._numbers, self._openings = itertools.count(), 0
        self._warned = self._closed = False
        self._drawing: bool | None = None  # whether it has been said who draws; None: nothing has been stepped yet
        self._lone: set[int] | None = set()  # agents here that were stepped by themselves; None: it does not matter

    # -- agents -----------------------------------------------------------------------------------------------

    def register(
        self, policy: AgentPolicy, wants: Place, agent_id: int | None = None, parent: MultiAgentPolicy | None = None
    ) -> Seat:
        """Takes an agent in. One that the same parent has had here before goes where it was then.

        Args:
            policy: Its policy. Where a copy of the parent lives in a worker, that copy makes another in its place.
            wants: Where it is to live.
            agent_id: Its number in the game; None: how many have registered without one.
            parent: The multi-agent policy that made the policy.
        """
        with self._lock:
            self._check()
            seat = Seat(policy, wants, next(self._numbers) if agent_id is None else agent_id, parent)
            home = self._kept.get((id(parent), seat.agent_id, wants))
            if home is None:
                self._waiting.append(seat)
            else:
                self._settle_again(seat, home)
            return seat

    def release(self, seat: Seat) -> None:
        """The agent will not be stepped any more. Only noted, as this may be called in the middle of anything."""
        if not seat.closed:
            seat.closed = True
            self._released.append(seat)

    def home(self, seat: Seat) -> Home:
        """Where an agent lives; opens the pool for all that have registered."""
        with self._lock:
            self._check()
            if seat.closed:
                raise Closed("this wrapper has been closed")
            if self._waiting or self._released:
                self.sweep()
                self._open()
            assert seat.home is not None
            return seat.home

    def step(self, asked: Sequence[tuple[Seat, AgentObservation]], *, together: bool = False) -> list[Answer]:
        """Steps agents. All that do not live together are run before an exception is raised: that of the first home.

        Args:
            asked: Who sees what. Agents that live together are stepped in this order, up to one that raises.
            together: Agents that live here may be stepped in one call.
        """
        with self._lock:
            rows: dict[Home, list[int]] = {}
            for row, (seat, _) in enumerate(asked):
                rows.setdefault(self.home(seat), []).append(row)
            calls = {home: [packed(asked[row][0].place, asked[row][1]) for row in mine] for home, mine in rows.items()}
            outcomes = run_round(calls, together)
            self._say_plans()
            self._say_who_draws([home for home, outcome in outcomes.items() if outcome.error is None])
            self._say_what_is_not_batched([seat for seat, _ in asked])
        for outcome in outcomes.values():
            if outcome.error is not None:
                raise outcome.error
        answers = {
            row: each for home, mine in rows.items() for row, each in zip(mine, outcomes[home].answer, strict=True)
        }
        return [answers[row] for row in range(len(asked))]

    # -- multi-agent policies ---------------------------------------------------------------------------------

    def copies(self, parent: MultiAgentPolicy) -> list[Home]:
        """Where copies of a multi-agent policy live, with its agents."""
        with self._lock:
            return [home for home in self._homes if home.sent is parent]

    def forget(self, parent: MultiAgentPolicy) -> None:
        """There will be no later episodes of a multi-agent policy: its homes end with their agents."""
        with self._lock:
            self._kept = {key: home for key, home in self._kept.items() if key[0] != id(parent)}
            self.sweep()

    def _settle_again(self, seat: Seat, home: Home) -> None:
        self.sweep()
        assert seat.policy is not None
        assert seat.parent is not None
        if home.live is not None:
            place = home.add(seat.agent_id, seat.policy)
        else:  # in all copies of the parent, so that they stay alike
            made = {copy: copy.make(seat.agent_id, copy is home) for copy in self.copies(seat.parent)}
            place = made[home]
        home.seated += 1
        seat.settle(home, place)

    # -- opening and ending -----------------------------------------------------------------------------------

    def _open(self) -> None:
        """Gives those who wait their homes, and starts the workers."""
        if not self._waiting:
            return
        self._openings += 1
        given = dict.fromkeys(("random", "numpy.random", "torch"), self._seed or 0)
        seed = seeds_from_caller() if self._seed is None else given
        streams = OwnedStreams(seed)
        teams, homes = self._teams(), []
        for team in teams:
            parent = team[0][0].parent if len({id(seat.parent) for seat, _ in team}) == 1 else None
            policies = [seat.policy for seat, _ in team if seat.policy is not None]
            agents, owners = [seat.agent_id for seat, _ in team], [owner for _, owner in team]
            homes.append(Home(team[0][0].wants, parent, agents, policies, self._lock, owners, streams))
        started = start(homes, self._workers, seed=seed, deadline=self._deadline)
        self._plans |= {engine: engine.plan for engine in started}
        self._homes += homes
        self._waiting = []
        for home, team in zip(homes, teams, strict=True):
            for place, (seat, _) in enumerate(team):
                if home.parent is not None:
                    self._kept[id(home.parent), seat.agent_id, seat.wants] = home
                seat.settle(home, place)
        self._warn([home for home in homes if home.unsendable])

    def _teams(self) -> list[list[tuple[Seat, Key]]]:
        """Who lives together, and whose random streams each has: those that share state, and here all that one parent
        has made."""
        policies = [seat.policy for seat in self._waiting if seat.policy is not None]
        divided = divide([seat.wants for seat in self._waiting], policies, self._split)
        parts = [[self._waiting[number] for number in numbers] for numbers in divided]
        owners = owners_of([[seat.agent_id for seat in part] for part in parts], self._openings)
        teams: list[list[tuple[Seat, Key]]] = []
        here: dict[int, list[tuple[Seat, Key]]] = {}
        for part, owner in zip(parts, owners, strict=True):
            if part[0].wants != "here":
                teams.append([(seat, owner) for seat in part])
                continue
            for seat in part:
                here.setdefault(id(seat.parent), []).append((seat, owner))
        return [*teams, *here.values()]

    def _warn(self, homes: list[Home]) -> None:
        if homes and not self._warned:
            self._warned = True
            agents = ", ".join(str(agent) for home in homes for agent in home.agents)
            warnings.warn(f"agents {agents} stay in this process: {homes[0].unsendable}", UserWarning, stacklevel=5)

    def _say_who_draws(self, homes: list[Home]) -> None:
        """After the first steps: who draws from process-wide generators does otherwise than it does bare."""
        if self._drawing is None:
            agents = sorted({agent for home in homes for agent in home.drawing()})
            self._drawing = bool(agents)
            if agents:
                _log.warning(
                    "agents %s draw from process-wide random generators: each that shares nothing has streams of its "
                    "own, which follow from what you have seeded; unwrapped they would draw from yours, which is "
                    "another result%s",
                    ", ".join(map(str, agents)),
                    ". On threads they are stepped one at a time" if any(h.backend == "thread" for h in homes) else "",
                )

    def _say_what_is_not_batched(self, seats: list[Seat]) -> None:
        """Once, where agents that could be stepped in one call are stepped one by one, round after round."""
        if self._lone is None or any(seat.wants != "here" for seat in seats):
            return
        first = seats[0].agent_id
        if len(seats) > 1:
            self._lone = None
        elif first not in self._lone:
            self._lone.add(first)
        elif len(self._lone) > 1:
            agents, self._lone = ", ".join(map(str, sorted(self._lone))), None
            _log.warning(
                "agents %s are stepped one by one, so nothing is batched: step_group takes several at once, which "
                "upstream's Rollout calls for agents of one entry of policy_group_keys",
                agents,
            )

    def _say_plans(self) -> None:
        """Under auto: says once why agents stay here. The engine itself says why they move."""
        for engine, first in self._plans.items():
            if first is not None and engine.plan is not first:
                self._plans[engine] = None
                if engine.place == "inline":
                    _log.info("%s", engine.plan.why)

    def sweep(self) -> None:
        """Ends the workers in which there are no agents left that are, or may still be, in use."""
        with self._lock:
            while self._released:
                seat = self._released.popleft()
                if seat.home is not None:
                    seat.home.leave(seat.place)
                elif seat in self._waiting:
                    self._waiting.remove(seat)
            kept = set(self._kept.values())
            self._homes = [home for home in self._homes if home.seated or home in kept]
            inhabited = {home.engine for home in self._homes}
            for engine in [engine for engine in self._plans if engine not in inhabited]:
                del self._plans[engine]
                engine.close()

    def close(self) -> None:
        """Ends every worker. May be called again."""
        with self._lock:
            self._closed = True
            self._waiting, self._homes, self._kept = [], [], {}
            engines, self._plans = list(self._plans), {}
            for engine in engines:
                engine.close()

    def __enter__(self) -> AgentPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise NotSendable("an AgentPool belongs to the process that made it: pickle the policies, not their wrappers")

    def _check(self) -> None:
        if self._closed:
            raise Closed("this AgentPool has been closed")

    # -- what is there ----------------------------------------------------------------------------------------

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The ids of the agents that live together, a tuple for each home."""
        with self._lock:
            return [tuple(home.agents) for home in self._homes]

    @property
    def workers(self) -> list[WorkerInfo]:
        """The workers that are running."""
        with self._lock:
            return [worker for engine in self._plans for worker in engine.workers]

    @property
    def events(self) -> list[Event]:
        """What happened without changing any action: lost workers, rebuilds, moves."""
        with self._lock:
            return [event for engine in self._plans for event in engine.events]

    @property
    def why(self) -> str:
        """Where agents live, and why, in lines."""
        with self._lock:
            agents: dict[str, list[int]] = {}
            for home in self._homes:
                agents.setdefault(_why(home), []).extend(home.agents)
            return "\n".join(f"agents {', '.join(map(str, mine))}: {why}" for why, mine in agents.items())


def _why(home: Home) -> str:
    if home.engine is None:
        return "here: as asked"
    return f"{home.engine.place}: {home.unsendable or home.engine.plan.why}"
