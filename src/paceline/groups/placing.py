"""Where the environments of groups live: what caller and configuration ask for, and who goes to which worker."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from paceline.catalog.text_envs import Factory, text_env_names
from paceline.engine import HERE, Plan, Pool, Trace, current_budget
from paceline.engine.pool.pool import DEADLINE
from paceline.errors import BadInput, NotSendable, PlanNotMet
from paceline.groups.config import GroupsConfig
from paceline.groups.member import Member

_MOST_WORKERS = 8
_SWITCHED = "use_multiprocessing was switched"
_log = logging.getLogger("paceline")


class Places:
    """The pool in which the environments live, and what can be said and changed about where.

    Args:
        plan: What the caller asks for.
        config: What there is, and what it asks for.
        factories: Tag → what builds its environments.
        trace: Records where the time goes.
    """

    def __init__(
        self, plan: str | int | Plan, config: GroupsConfig, factories: Mapping[str, Factory], trace: Trace | None
    ) -> None:
        self._config, self._factories = config, factories
        self._tag_of = config.tag_of_each()
        self._asked = self._plan = asked_plan(plan, config)
        self.pool = self._open_or_stay(trace) if _is_a_wish(plan, config) else self._open(trace)
        self.parallel = self._asked.backend != "inline"
        if self._asked.backend == "auto" and self._asked.isolate:  # there is nothing left to choose
            why, trust = _why_isolated(config), self._asked.trust
            self._plan = Plan("process", self.pool.plan.workers, isolate=True, why=why, trust=trust)

    @property
    def step_timeout(self) -> float | None:
        """Seconds that a call may take where no tag says otherwise; None: as long as it likes."""
        said = self._config.manager.step_timeout
        return DEADLINE if said is None and self._asked.backend != "auto" else said

    @property
    def plan(self) -> Plan:
        """Where the environments live, and why."""
        return self.pool.plan if self._lets_auto_choose else self._plan

    def switch(self, wanted: bool) -> None:
        """Moves everybody to workers, or from them to the caller's process; nothing may be under way."""
        if self._lets_auto_choose:
            self._let_auto(wanted)
        else:
            self._move(wanted)
        self.parallel = wanted

    def _move(self, wanted: bool) -> None:
        backend = "process" if self._asked.backend in ("inline", "auto") else self._asked.backend
        asked = None if self._asked.backend == "inline" else self._asked.workers
        workers = (asked or workers_for(self._config)) if wanted else 0
        self.pool.move(self._spread(len(self._tag_of), workers, 0), backend=backend, workers=workers)
        there = Plan(backend, workers, why=_SWITCHED, trust=self._asked.trust) if wanted else None
        self._plan = there or Plan("inline", 1, why=_SWITCHED)
        if not wanted and (said := next(iter(self._config.timeouts), "")):
            _log.warning("%s is not kept in the caller's process: a step that hangs there, hangs", said)

    @property
    def _lets_auto_choose(self) -> bool:
        return self._asked.backend == "auto" and not self._asked.isolate

    def _let_auto(self, wanted: bool) -> None:
        if wanted:
            self.pool.reconsider()
        else:
            self.pool.begin_on("inline", 1, _SWITCHED)

    def _open_or_stay(self, trace: Trace | None) -> Pool:
        try:
            return self._open(trace)
        except (PlanNotMet, NotSendable) as error:
            _log.warning("es_manager.use_multiprocessing cannot be met: %s. The environments live here", error)
            why = f"use_multiprocessing of the configuration cannot be met: {error}"
            self._asked = self._plan = Plan("inline", 1, why=why)
            return self._open(trace)

    def _open(self, trace: Trace | None) -> Pool:
        everybody, size = range(len(self._tag_of)), self._config.group_size
        return Pool(
            [self._recipe(name) for name in self._tag_of],
            backend=self._asked.backend,
            workers=self._asked.workers,
            keys=[("env", index // size, index % size) for index in everybody],
            spreading=self._spread,
            deadline=self._config.manager.step_timeout,
            failed_builds="keep",
            isolate=self._asked.isolate,
            trust=self._asked.trust,
            trace=trace,
        )

    def _recipe(self, name: str) -> Any:
        tag = self._config.tags[name]
        return partial(Member, self._factories[name], tag.env_config, tag.max_actions_per_traj, name)

    def _spread(self, members: int, workers: int, own: int) -> list[int]:
        kinds = [self._config.tags[tag].env_type for tag in self._tag_of]
        return deal(kinds, self._config.manager.sequential_env_types, workers, own)


def asked_plan(plan: str | int | Plan, config: GroupsConfig) -> Plan:
    """The plan: what the caller says counts before what the configuration says.

    Raises:
        BadInput: the two do not go together.
    """
    asked = _chosen(Plan.parse(plan).not_of_a_vector(), config)
    timeouts, kept = config.timeouts, config.manager.sequential_env_types
    if timeouts and asked.backend == "auto":
        asked = replace(asked, isolate=True)  # nobody can end a step that hangs in the caller's own process
    if timeouts and asked.backend in ("inline", "thread"):
        key, seconds = next(iter(timeouts.items()))
        raise BadInput(
            f"{key}: {seconds} cannot be kept on the {asked.backend} backend, which cannot end a "
            "step that hangs; use processes"
        )
    if kept and asked.isolate:
        why = _why_isolated(config)
        raise BadInput(f"es_manager.sequential_env_types: {list(kept)} cannot stay in the caller's process: {why}")
    _check_kinds(config)
    return asked


def _why_isolated(config: GroupsConfig) -> str:
    if not config.timeouts:
        return "the plan isolates"
    name = next(iter(config.timeouts)).rpartition(".")[2]
    return f"{name} is set, and only a process can be ended"


def _is_a_wish(plan: str | int | Plan, config: GroupsConfig) -> bool:
    """Whether only the configuration asks for processes, and nothing says that they must be."""
    asked, manager = Plan.parse(plan), config.manager
    return asked.backend == "auto" and not asked.isolate and bool(manager.use_multiprocessing) and not config.timeouts


def _chosen(asked: Plan, config: GroupsConfig) -> Plan:
    switch, most = config.manager.use_multiprocessing, config.manager.max_workers
    if asked.backend != "auto":
        enough = 1 if asked.backend == "inline" else workers_for(config)
        return replace(asked, workers=enough if asked.workers is None else asked.workers)
    if switch is False or most == 0:
        why = "use_multiprocessing or max_workers of the configuration say so"
        if asked.trust == "data":
            raise BadInput(f"trust='data' (--untrusted) needs workers, and there are none: {why}")
        return Plan("inline", 1, why=why)
    if switch:
        why = "use_multiprocessing of the configuration says so"
        return Plan("process", workers_for(config), isolate=asked.isolate, why=why, trust=asked.trust)
    return replace(asked, workers=asked.workers if most is None else most)


def _check_kinds(config: GroupsConfig) -> None:
    used = {tag.env_type for tag in config.tags.values()}
    for kind in config.manager.sequential_env_types:
        if kind not in used and kind not in text_env_names():
            raise BadInput(
                f"es_manager.sequential_env_types: {kind!r} is no kind of environment; used are {sorted(used)}"
            )


def workers_for(config: GroupsConfig) -> int:
    """How many workers, if nobody says so."""
    asked = config.manager.max_workers
    return min(_MOST_WORKERS, current_budget().slots) if asked is None else asked


def deal(kinds: Sequence[str], stay: Sequence[str], workers: int, own: int) -> list[int]:
    """Deals members out like cards, so that every worker gets its share of each tag; some kinds stay here.

    Args:
        kinds: What each member is.
        stay: The kinds that stay in the caller's process.
        workers: How many workers there are; 0: everybody stays.
        own: Whether the caller's process takes a share too, if it is not 0.
    """
    placed, dealt = [], 0
    for kind in kinds:
        if not workers or kind in stay:
            placed.append(HERE)
            continue
        number = dealt % (workers + bool(own))
        placed.append(HERE if number == workers else number)
        dealt += 1
    return placed
