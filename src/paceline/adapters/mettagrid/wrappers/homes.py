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
from paceline.engine import Outcome, Pool
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
    """

    def __init__(
        self,
        place: Place,
        parent: MultiAgentPolicy | None,
        agents: Sequence[int],
        policies: Sequence[AgentPolicy],
        lock: threading.RLock,
    ) -> None:
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
            self.live = BatchGroup(parent, policies)
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
    """Divides agents into those that live together, by their numbers.

    Raises:
        BadInput: agents that share state are to live in different places.
    """
    if split or set(places) <= {"here"}:
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


def start(homes: Sequence[Home], workers: int | None, *, seed: int, deadline: float | None, opening: int) -> list[Pool]:
    """Starts an engine's pool for every backend that homes are to live on: all of them, or none.

    Args:
        homes: Those that live here, with no engine between, stay as they are.
        workers: As for `AgentPool`.
        seed: As for `AgentPool`.
        deadline: As for `AgentPool`; kept where a call can be ended.
        opening: A number that no homes of the same pool of agents have had before.
    """
    started: list[Pool] = []
    try:
        for backend in dict.fromkeys(home.backend for home in homes if home.recipe is not None):
            mine = [home for home in homes if home.backend == backend]
            limit = deadline if backend == "process" or deadline == math.inf else None
            started.append(_engine(backend, mine, workers, limit, seed, _keys(mine, opening)))
    except BaseException:
        for engine in started:
            engine.close()
        raise
    return started


def _engine(
    backend: str, homes: list[Home], workers: int | None, deadline: float | None, seed: int, keys: list[Key]
) -> Pool:
    threads = min(len(homes), _MOST_THREADS) if workers is None else workers
    engine = Pool(
        [home.recipe for home in homes if home.recipe is not None],
        backend=backend,
        workers={"thread": threads, "inline": 0}.get(backend, workers),
        seed=seed,
        keys=keys,
        deterministic=homes[0].live is None,  # there is one of what lives here: it is never built or run again
        deadline=deadline,
    )
    for member, home in enumerate(homes):
        home.engine, home.member = engine, member
    return engine


def _keys(homes: list[Home], opening: int) -> list[Key]:
    """Names for random streams: whose they are, never where they live."""
    count: Counter[tuple[int, ...]] = Counter()
    keys: list[Key] = []
    for home in homes:
        agents = tuple(home.agents)
        keys.append((opening, *agents, f"{count[agents]}"))
        count[agents] += 1
    return keys


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
