"""Envs in a pool, and all that is asked of them beside steps: calls, attributes, tasks, pictures, where they live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from gymnasium.vector import VectorEnv

from paceline.engine import Plan, Pool, Trace, spread
from paceline.errors import BadInput
from paceline.vector.agreeing import check_each_is_its_own
from paceline.vector.arguments import Recipe, task_each
from paceline.vector.described import space_of
from paceline.vector.instance import Instance, Rules, living
from paceline.vector.refusals import ClosedVector

_CLOSED = "these envs have been closed"
_SNAPSHOT_SHARE = 0.01  # of the time
_SNAPSHOT_EVERY = 5000  # steps of cheap envs: to save one takes as long as a few. Dear ones are saved by time


class PooledEnvs(VectorEnv[Any, Any, Any]):
    """Envs in a pool, which can be asked and closed."""

    def __init__(
        self, env_fns: Sequence[Recipe], rules: Rules, plan: Plan, deadline: float | None, trace: Trace | None
    ) -> None:
        if not env_fns:
            raise BadInput("a vector needs at least one env")
        self.num_envs = len(env_fns)
        self._rules, self._helps = rules, plan.helps
        workers = plan.workers if plan.workers is not None or plan.backend != "inline" else 1
        self.pool = Pool(
            [partial(Instance, make, number, rules) for number, make in enumerate(env_fns)],
            backend=plan.backend,
            workers=workers,
            placement=self._with_help(plan, workers) if plan.helps else None,
            seed=rules.seed,
            isolate=plan.isolate,
            trust=plan.trust,
            threads=plan.threads,
            deadline=deadline,
            snapshot_every=_SNAPSHOT_EVERY,
            snapshot_share=_SNAPSHOT_SHARE,
            trace=trace,
        )

    def _with_help(self, plan: Plan, workers: int | None) -> list[int]:
        if not workers or plan.backend == "auto" or plan.isolate:
            raise BadInput(
                "Plan(helps=True) needs a backend and a number of workers beside the caller, and is not isolate=True"
            )
        return spread(self.num_envs, workers, self.num_envs // (workers + 1))

    def _abouts(self) -> list[dict[str, Any]]:
        """What every env says of itself."""
        as_data = self.pool.plan.trust == "data"
        calls = dict.fromkeys(range(self.num_envs), (as_data,))
        abouts = list(self.pool.call("about", calls, record=False).values())
        for about in abouts if as_data else ():
            for name in ("observation_space", "action_space"):
                about[name] = space_of(about[name])
        check_each_is_its_own([about["world"] for about in abouts])
        return abouts

    def render(self) -> tuple[Any, ...]:
        """What every env draws."""
        return tuple(self._ask("render", record=False).values())

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of every env, or gives an attribute of each."""
        return tuple(self._ask("ask", dict.fromkeys(range(self.num_envs), (name, args, kwargs))).values())

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of every env."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of every env: a list or tuple has one value each."""
        each = values if isinstance(values, list | tuple) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"{len(each)} values for {self.num_envs} envs: give one each, or one for all")
        self._ask("put", {number: (name, value) for number, value in enumerate(each)})

    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Gives every env a task: by its own `set_task` at once, or with its next reset; later episodes have it too.

        Raises:
            BadInput: envs without `set_task` are given a task by the `tasks` of `make_vec` whenever they begin.
        """
        each = task_each(tasks, self.num_envs)
        self._ask("set_task", {number: (task,) for number, task in enumerate(each)})

    def close_extras(self, **kwargs: Any) -> None:
        """Ends every env and every worker."""
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of every env's own generator."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """A copy of every env's own generator."""
        return self.get_attr("np_random")

    @property
    def envs(self) -> list[Any]:
        """The envs themselves, to be looked at, where all of them live in this process.

        What is done to them directly is not done again when they are moved: `call` and `set_attr` see to that.

        Raises:
            AttributeError: some live elsewhere.
        """
        found = living(self._rules.vector, self.num_envs)
        if found is None:
            raise AttributeError("envs: not all of them live in this process; ask them with call and get_attr")
        return found

    @property
    def plan(self) -> Plan:
        """Where the envs live, and why."""
        return replace(self.pool.plan, helps=True) if self._helps else self.pool.plan

    def call_some(self, envs: Sequence[int], method: str, args: tuple[Any, ...], *, record: bool = True) -> list[Any]:
        """Calls a method of `Instance` for some envs, each once; `record=False` is a read."""
        return list(self._ask(method, dict.fromkeys(envs, args), record=record).values())

    def _ask(
        self, method: str, calls: Mapping[int, tuple[Any, ...]] | None = None, *, record: bool = True
    ) -> dict[int, Any]:
        self._check_open()
        return self.pool.call(method, calls, record=record)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedVector(_CLOSED)
