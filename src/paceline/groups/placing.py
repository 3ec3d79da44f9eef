"""Where the environments of groups live: what caller and configuration ask for, and who goes to which worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.catalog.text_envs import text_env_names
from paceline.engine import HERE, Plan
from paceline.engine.budget import current
from paceline.errors import BadInput
from paceline.groups.config import GroupsConfig

_MOST_WORKERS = 8


def asked_plan(plan: str | int | Plan, config: GroupsConfig) -> Plan:
    """The plan: what the caller says counts before what the configuration says.

    Raises:
        BadInput: the two do not go together.
    """
    asked = _chosen(Plan.parse(plan), config)
    timeout, kept = config.manager.step_timeout, config.manager.sequential_env_types
    if timeout is not None and asked.backend == "auto":
        asked = replace(asked, isolate=True)  # nobody can end a step that hangs in the caller's own process
    if timeout is not None and asked.backend in ("inline", "thread"):
        raise BadInput(
            f"es_manager.step_timeout: {timeout} cannot be kept on the {asked.backend} backend, which cannot end a "
            "step that hangs; use processes"
        )
    if kept and asked.isolate:
        why = "step_timeout is set" if timeout is not None else "the plan isolates"
        raise BadInput(f"es_manager.sequential_env_types: {list(kept)} cannot stay in the caller's process: {why}")
    _check_kinds(config)
    return asked


def _chosen(asked: Plan, config: GroupsConfig) -> Plan:
    switch, most = config.manager.use_multiprocessing, config.manager.max_workers
    if asked.backend != "auto":
        workers = workers_for(config) if asked.workers is None and asked.backend != "inline" else asked.workers
        return replace(asked, workers=workers)
    if switch is False or most == 0:
        return Plan("inline", 1, why="use_multiprocessing or max_workers of the configuration say so")
    if switch:
        why = "use_multiprocessing of the configuration says so"
        return Plan("process", workers_for(config), isolate=asked.isolate, why=why)
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
    return min(_MOST_WORKERS, current().slots) if asked is None else asked


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
