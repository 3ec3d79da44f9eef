"""Homes: where groups of wrapped agents live, and one round of steps in several of them at once.

process    posted first ────────────────────────────────┐
inline, batch          run here meanwhile               ├──► outcomes, when all have come
thread                             posted, run beside ──┘
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from mettagrid.policy.policy import AgentPolicy, MultiAgentPolicy

from paceline.adapters.mettagrid.policies import describing
from paceline.adapters.mettagrid.wrappers.group import Asked, BatchGroup, Group, LiveGroup
from paceline.adapters.mettagrid.wrappers.recipe import Recipe
from paceline.engine import Outcome, OwnedStreams, Pool
from paceline.errors import BadInput
from paceline.seeds import Key
from paceline.team.sharing import Part, parts

Place = Literal["process", "thread", "auto", "here"]
"""Where a policy is to live; "here" is the caller's own thread, with no engine between."""

_IN_THIS_PROCESS = threading.RLock()
"""Held while members are run on the caller's thread. Upstream's rollout steps its groups on threads of its own, and a
member's random streams stand in the place of the process's while it is run."""

_MOST_THREADS = 128

_log = logging.getLogger("paceline")


class Home:
    """A group of agents and the member of an engine's pool that it is.

    Args:
        place: Where it is to live.
        parent: The multi-agent policy that made the policies.
        agents: The ids of the agents that live there first.
        policies: Their policies. If these cannot be sent they stay in this process: `unsendable` says why.
        lock: Held in every call.
        owners: Whose random streams those of each agent are: one for all, but where they are here.
        streams: Those of agents that are here.
    """

    def __init__(
        self,
        place: Place,
        parent: MultiAgentPolicy | None,
        agents: Sequence[int],
        policies: Sequence[AgentPolicy],
        lock: threading.RLock,
        owners: Sequence[Key],
        streams: OwnedStreams,
    ) -> None:
        self.key = owners[0]
        self.agents = list(agents)
        self.backend: str = place
        self._lock = lock
        self.unsendable = ""
        self.live: Group | None = None
        """The group, if it lives in this process, where it can be read directly."""
        self.sent: MultiAgentPolicy | None = None
        """The multi-agent policy of which a copy lives with the group."""
        self.recipe: Callable[[], Any] | None = None
        """Makes the group where it is to live; None: no engine makes it."""
        self.engine: Pool | None = None
        self.member = 0
        self.seated = len(policies)
        self.gone: list[int] = []  # places that are not used any more, and have yet to be dropped there
        if place == "here":
            self.live = BatchGroup(parent, policies, streams, owners)
            self._owner = dict(zip(agents, owners, strict=True))
        elif place == "thread":
            self._stay("thread", LiveGroup(parent, policies))
        else:
            self._pack(parent, policies)

    def _stay(self, backend: str, group: LiveGroup) -> None:
        self.backend, self.live, self.recipe = backend, group, lambda: group

    def _pack(self, parent: MultiAgentPolicy | None, policies: Sequence[AgentPolicy]) -> None:
        """With a copy of the parent, if that can be sent; else without."""
        for whole in [parent, None] if parent is not None else [None]:
            try:
                recipe = Recipe(Group(whole, policies), here=self.backend == "auto")
            except Exception as error:
                self.unsendable = f"{type(policies[0]).__name__} cannot be sent: {type(error).__name__}: {error}"
            else:
                self.unsendable, self.sent, self.recipe = "", whole, recipe
                return
        self._stay("inline", LiveGroup(parent, policies))

    @property
    def parent(self) -> MultiAgentPolicy | None:
        """The multi-agent policy that makes policies for this home in later episodes."""
        return self.sent if self.live is None else self.live.parent

    def call(self, method: str, *args: Any, record: bool = True) -> Any:
        """Calls a method of the group, and waits."""
        with self._lock:
            if self.engine is not None:  # not as a round of its own: auto measures steps
                handle = self.engine.post_packed(method, self.engine.pack({self.member: args}), record=record)
                return handle.wait()[self.member]
            with _IN_THIS_PROCESS:
                return getattr(self.live, method)(*args)

    @property
    def alone_first(self) -> bool:
        """Whether it lives on a thread and could not be put back to where it was before a step."""
        return self.backend == "thread" and isinstance(self.live, LiveGroup) and not self.live.goes_back

    def add(self, agent_id: int, policy: AgentPolicy) -> int:
        """Takes the policy of an agent that has lived here before in. Returns its place."""
        assert self.live is not None
        place = self.live.add(policy)
        if isinstance(self.live, BatchGroup):
            self.live.owners[place] = self._owner[agent_id]
        return place

    def drawing(self) -> list[int]:
        """The ids of agents that have drawn from process-wide generators."""
        places = self.live.draws() if isinstance(self.live, BatchGroup) else self.call("draws", record=False)
        return [agent for place, agent in enumerate(self.agents) if place in places]

    def read(self, place: int | None, name: str) -> Any:
        """An attribute of an agent (None: of the multi-agent policy) as it is now; a method runs where it lives."""
        if self.live is not None:
            return getattr(self.live.whose(place), name)
        is_method, value = self.call("get", place, name, record=False)
        return partial(self.invoke, place, name) if is_method else value

    def write(self, place: int | None, name: str, value: Any) -> None:
        """Sets an attribute of an agent, or of the multi-agent policy."""
        if self.live is not None:
            self.live.set(place, name, value)
        else:
            self.call("set", place, name, value)

    def invoke(self, place: int | None, name: str, *args: Any, **keywords: Any) -> Any:
        """Calls a method of an agent, or of the multi-agent policy."""
        return self.call("invoke", place, name, args, keywords)

    def make(self, agent_id: int, keep: bool) -> int:
        """Has the copy of the multi-agent policy make a policy, and keep it there. Returns its place."""
        gone, self.gone = self.gone, []
        place: int = self.call("make", agent_id, keep, gone)
        return place

    def leave(self, place: int) -> None:
        """An agent is not stepped any more: its policy goes, at once here, and elsewhere with the next that comes."""
        self.seated -= 1
        if self.live is not None:
            self.live.drop([place])
        else:
            self.gone.append(place)


def divide(places: Sequence[Place], policies: Sequence[AgentPolicy], split: bool) -> list[list[int]]:
    """Divides agents into those that share state, by their numbers: wherever they are to live, as their random streams
    follow from it.

    Raises:
        BadInput: agents that share state are to live in different places.
    """
    if split:
        return [[number] for number in range(len(policies))]
    found = parts(policies, describing(getattr(policy, "policy_env_info", None) for policy in policies))
    for part in found:
        _check_places(part, places)
        if part.shared and places[part.members[0]] != "here":
            _log.info(
                "%d agents share a %s: they live together, and are stepped one after another. "
                "If no step changes what they share, AgentPool(split=True) gives each a copy of its own",
                len(part.members),
                part.shared,
            )
    return [list(part.members) for part in found]


def _check_places(part: Part, places: Sequence[Place]) -> None:
    wanted = dict.fromkeys(places[number] for number in part.members)
    if len(wanted) > 1:
        raise BadInput(
            f"{len(part.members)} agents share a {part.shared}, so they cannot live in different places "
            f"({', '.join(wanted)}): wrap them alike, or, if no step changes what they share, use "
            "AgentPool(split=True)"
        )


def start(homes: Sequence[Home], workers: int | None, *, seed: Mapping[str, int], deadline: float | None) -> list[Pool]:
    """Starts the engine's pools that homes are to live in: all of them, or none.

    Args:
        homes: Those that live here, with no engine between, stay as they are.
        workers: As for `AgentPool`.
        seed: Generator → root of its streams.
        deadline: As for `AgentPool`; kept where a call can be ended.
    """
    started: list[Pool] = []
    try:
        for backend, first in dict.fromkeys((home.backend, home.alone_first) for home in homes if home.recipe):
            mine = [home for home in homes if (home.backend, home.alone_first) == (backend, first) and home.recipe]
            limit = deadline if backend == "process" or deadline == math.inf else None
            started.append(_engine(backend, mine, workers, limit, seed, first))
    except BaseException:
        for engine in started:
            engine.close()
        raise
    return started


def _engine(
    backend: str,
    homes: list[Home],
    workers: int | None,
    deadline: float | None,
    seed: Mapping[str, int],
    alone_first: bool,
) -> Pool:
    threads = min(len(homes), _MOST_THREADS) if workers is None else workers
    engine = Pool(
        [home.recipe for home in homes if home.recipe is not None],
        backend=backend,
        workers={"thread": threads, "inline": 0}.get(backend, workers),
        seed=seed,
        keys=[home.key for home in homes],
        # There is one of what lives here: but on threads it is put back to where it was, or runs alone at first.
        deterministic=homes[0].live is None or backend == "thread",
        draw_alone=True,
        alone_first=alone_first,
        deadline=deadline,
    )
    for member, home in enumerate(homes):
        home.engine, home.member = engine, member
    if backend == "thread":
        engine.call("begin")
    return engine


def owners_of(parts: Sequence[Sequence[int]], opening: int) -> list[Key]:
    """Whose random streams those of each part are: names that follow from the ids of its agents, never from where they
    live.

    Args:
        parts: The ids of the agents of each.
        opening: A number that no agents of the same pool have had before.
    """
    count: Counter[tuple[int, ...]] = Counter()
    owners: list[Key] = []
    for part in parts:
        agents = tuple(part)
        owners.append((opening, *agents, f"{count[agents]}"))
        count[agents] += 1
    return owners


def run_round(calls: Mapping[Home, list[Asked]], together: bool) -> dict[Home, Outcome]:
    """Steps the agents of several homes: all that can run beside each other is posted before anything is waited for.

    Args:
        calls: What is asked of each home.
        together: Agents that live here may be stepped in one call.
    """
    by_engine: dict[Pool, dict[int, tuple[list[Asked]]]] = {}
    for home, asked in calls.items():
        if home.engine is not None:
            by_engine.setdefault(home.engine, {})[home.member] = (asked,)
    handles = {engine: engine.post("step", by_engine[engine]) for engine in by_engine if engine.place != "thread"}
    outcomes: dict[Home, Outcome] = {}
    with _IN_THIS_PROCESS:  # before threads are under way, which would see these draw from the process's generators
        for engine, handle in handles.items():
            if engine.place == "inline":
                handle.finish()
        for home in calls:
            if home.engine is None:
                outcomes[home] = _run_here(home.live, "step_together" if together else "step", calls[home])
    handles |= {engine: engine.post("step", by_engine[engine]) for engine in by_engine if engine not in handles}
    for engine, handle in handles.items():
        handle.finish()
        engine.round_over(handle)
    return {home: handles[home.engine].outcome(home.member) if home.engine else outcomes[home] for home in calls}


def _run_here(group: Any, method: str, asked: list[Asked]) -> Outcome:
    try:
        return Outcome(getattr(group, method)(asked))
    except Exception as error:
        return Outcome(None, error)
