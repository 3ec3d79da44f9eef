"""Layouts are made once per group, by whoever is free, so that slow ones balance; what was made is kept for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.catalog.text_envs import lays_out, make_layout
from paceline.engine import Outcome, Pool
from paceline.seeds import digest

_KEPT = 4096  # validation begins with the same seeds every time


class Layouts:
    """Makes layouts in a pool, and remembers them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._made: dict[str, Outcome] = {}

    def make(
        self,
        orders: Mapping[int, tuple[Any, Any, int, str]],
        tags: Mapping[int, str],
        limits: Mapping[int, float | None],
    ) -> dict[int, Outcome]:
        """Gives the layout of each order (kind, options, seed, mode); None for kinds that have none apart.

        Args:
            orders: By number.
            tags: The tag of each: with seed and mode it names a layout.
            limits: Seconds that the making of each may take; where none is said, as the pool has it.
        """
        names = {index: digest([tags[index], *order[2:]]) for index, order in orders.items() if lays_out(order[0])}
        missing: dict[float | None, dict[str, Any]] = {}
        for index, name in names.items():
            if name not in self._made:
                missing.setdefault(limits.get(index), {})[name] = orders[index]
        now: dict[str, Outcome] = {}
        for limit, some in missing.items():
            made = self._pool.map(make_layout, some.values(), keys=list(some), outcomes=True, deadline=limit)
            now |= zip(some, made, strict=True)
        result = {index: Outcome() for index in orders}
        result |= {index: now.get(name) or self._made[name] for index, name in names.items()}
        self._keep({name: outcome for name, outcome in now.items() if outcome.ok})
        return result

    def _keep(self, fresh: dict[str, Outcome]) -> None:
        self._made |= fresh
        for name in list(self._made)[: max(0, len(self._made) - _KEPT)]:
            del self._made[name]
