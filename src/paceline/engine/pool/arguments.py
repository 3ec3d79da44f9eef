"""What a caller asks of a pool, made sense of before anything is started."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any

from paceline.engine.planning import budget
from paceline.engine.planning.plan import TRUSTS
from paceline.engine.supervisor.roster import Member
from paceline.engine.workers.base import find
from paceline.errors import BadInput
from paceline.seeds import Key


def make_members(
    factories: list[Callable[[], Any]], keys: Sequence[Key] | None, deterministic: bool | Sequence[bool]
) -> list[Member]:
    """The members of a pool, from what it is given for each."""
    for index, factory in enumerate(factories):
        if not callable(factory):
            raise BadInput(f"factory {index} is a {type(factory).__name__}; give a callable that builds the member")
    chosen = list(range(len(factories))) if keys is None else list(keys)
    if len(chosen) != len(factories) or len({repr(key) for key in chosen}) != len(chosen):
        raise BadInput(f"{len(factories)} members need as many different keys; got {chosen!r}")
    for key in chosen:
        _check_key(key)
    flags = [deterministic] * len(factories) if isinstance(deterministic, bool) else list(deterministic)
    if len(flags) != len(factories):
        raise BadInput(f"deterministic has {len(flags)} entries for {len(factories)} members")
    return [Member(i, chosen[i], factory, flags[i]) for i, factory in enumerate(factories)]


def keyed(items: Iterable[Any], keys: Iterable[Key] | None) -> Iterator[tuple[int, tuple[Key, Any]]]:
    """Numbers the items and puts their keys to them."""
    if isinstance(keys, Sized) and isinstance(items, Sized) and len(keys) < len(items):
        raise BadInput(f"{len(items)} items need as many keys; got {len(keys)}")
    return _paired(items, keys)


def _paired(items: Iterable[Any], keys: Iterable[Key] | None) -> Iterator[tuple[int, tuple[Key, Any]]]:
    left = iter(itertools.count() if keys is None else keys)
    for index, item in enumerate(items):
        try:
            key = next(left)
        except StopIteration:
            raise BadInput(f"item {index} has no key: there are only {index} keys") from None
        yield index, (key, item)


def _check_key(key: Any) -> None:
    if isinstance(key, tuple):
        for part in key:
            _check_key(part)
    elif not isinstance(key, int | str):
        raise BadInput(f"a key is an int, a string or a tuple of those, not {key!r}: random streams follow it")


def count_workers(workers: int | None, auto: bool, members: int) -> int:
    """How many workers there will be; None, and 1 under auto, leave that to the budget."""
    if workers is not None and not (auto and workers == 1):
        return workers
    return budget.current().workers_for(max(1, members))


def check_arguments(workers: int, restarts: int, failed_builds: str, snapshot_share: float | None) -> None:
    """Raises `BadInput` for what makes no sense."""
    if workers < 0:
        raise BadInput(f"workers={workers} makes no sense; give 0 (here) or more")
    if restarts < 1:
        raise BadInput(f"restarts={restarts} makes no sense; a call needs one try at least")
    if snapshot_share is not None and not 0 < snapshot_share <= 1:
        raise BadInput(f"snapshot_share={snapshot_share}; give a share of the time above 0, up to 1")
    if failed_builds not in ("raise", "keep"):
        raise BadInput(f"failed_builds={failed_builds!r}; give 'raise' or 'keep'")


def check_trust(trust: str, backend: str, workers: int) -> None:
    """Raises `BadInput` for a word that means nothing, or a place in which data cannot be told from code."""
    if trust not in TRUSTS:
        raise BadInput(f"trust={trust!r}; give one of {', '.join(map(repr, TRUSTS))}")
    if trust == "data" and not (workers and getattr(find(backend), "reads_data", False)):
        where = f"the backend is {backend!r}" if workers else "there are no workers"
        raise BadInput(
            f"trust='data' is for members in processes of their own, and {where}: members in the caller's process can "
            "do whatever it can; use backend='process' and workers, or 'auto'"
        )


def check_threads(threads: int, backend: str) -> None:
    """Raises `BadInput` for a number that makes no sense, or where nobody would have so many."""
    if type(threads) is not int or threads < 1:
        raise BadInput(f"threads={threads!r} makes no sense; give a whole number from 1")
    if threads > 1 and backend in ("auto", "inline", "thread"):
        raise BadInput(
            f"threads={threads} are for workers that are processes, and the backend is {backend!r}: 'auto' chooses by "
            "itself, and with 'thread' every worker is one; use backend='process'"
        )


def check_deadline(deadline: float | None, backend: str) -> None:
    """Raises `BadInput` for one that makes no sense, or that nobody could keep."""
    if deadline is None or deadline == math.inf:
        return
    if deadline <= 0:
        raise BadInput(f"deadline={deadline} makes no sense; give seconds above 0")
    if backend in ("inline", "thread"):
        raise BadInput(
            f"deadline={deadline} cannot be kept on the {backend} backend, which cannot end a call that hangs; "
            "use backend='process'"
        )
