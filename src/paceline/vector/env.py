"""The vector env itself: Gymnasium's face, the engine's ports behind it.

step(actions) = step_async (rows in, ring) + step_wait (rows out, infos)      send / recv: the same for some of them
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from gymnasium.error import NoAsyncCallError
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from paceline.engine import Plan, Pool, Port, Trace, spread
from paceline.errors import BadInput, Closed
from paceline.seeds import seed_of
from paceline.spaces import Array, Leaf, Writer, assembled, leaves, part_at
from paceline.vector.agreeing import agreed
from paceline.vector.arguments import Recipe, chosen_envs, is_whole, masked_envs, seed_each, task_each
from paceline.vector.arrivals import Arrivals
from paceline.vector.described import space_of
from paceline.vector.infos import TAIL, InfoReader, Told, columns
from paceline.vector.instance import Instance, Rules

_log = logging.getLogger("paceline")

_ndarray = np.ndarray
_WHOLE = slice(None)
_FEW = 8
_CLOSED = "these envs have been closed"
_NEEDS_ROWS = "send and recv need spaces that come down to arrays; use step"
_SNAPSHOT_SHARE = 0.01  # of the time
_SNAPSHOT_EVERY = 5000  # steps of cheap envs: to save one takes as long as a few. Dear ones are saved by time


class PaceVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector of envs in a pool. Made by `make_vec`."""

    def __init__(
        self,
        env_fns: Sequence[Recipe],
        rules: Rules,
        plan: Plan,
        observation_mode: str | tuple[Any, Any],
        copy: bool,
        deadline: float | None,
        trace: Trace | None,
        *,
        seeded: bool,
    ) -> None:
        if not env_fns:
            raise BadInput("a vector needs at least one env")
        self.num_envs, self.copy, self.seed = len(env_fns), copy, rules.seed
        self._rules, self._seeded, self._begun = rules, seeded, False
        self._warned = seeded  # what there is to say about draws from process-wide generators has been said
        self._helps = plan.helps
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
        try:
            self._open(observation_mode)
        except BaseException:
            self.pool.close()
            raise

    def _with_help(self, plan: Plan, workers: int | None) -> list[int]:
        if not workers or plan.backend == "auto" or plan.isolate:
            raise BadInput(
                "Plan(helps=True) needs a backend and a number of workers beside the caller, and is not isolate=True"
            )
        return spread(self.num_envs, workers, self.num_envs // (workers + 1))

    def _open(self, observation_mode: str | tuple[Any, Any]) -> None:
        as_data = self.pool.plan.trust == "data"
        calls = dict.fromkeys(range(self.num_envs), (as_data,))
        abouts = list(self.pool.call("about", calls, record=False).values())
        for about in abouts if as_data else ():
            for name in ("observation_space", "action_space"):
                about[name] = space_of(about[name])
        self.metadata = {**abouts[0]["metadata"], "autoreset_mode": self._rules.autoreset}
        self.render_mode, self.spec = abouts[0]["render_mode"], abouts[0]["spec"]
        self.single_action_space = abouts[0]["action_space"]
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space, self.single_observation_space = agreed(observation_mode, abouts)
        actions, seen = leaves(self.single_action_space, "a"), leaves(self.single_observation_space, "o")
        self._by_rows = actions is not None and seen is not None
        self._actions, self._seen = actions or [], seen or []
        self._writer = Writer(self._seen, self.single_observation_space, "an env")
        self._alone = [None] * self.num_envs  # type: list[Any]
        self._batch: Any = create_empty_array(self.single_observation_space, n=self.num_envs, fn=np.zeros)
        self._waiting: Any = None
        self._dtype: Any = None  # of actions that come as one array, and
        self._shape: Any = None
        self._line: Any = None  # their memory, if they are numbers
        self._ports: dict[tuple[str, ...], tuple[Port, InfoReader]] = {}  # by the types of actions
        if self._by_rows:
            self._bind(tuple(leaf.dtype for leaf in self._actions))

    def _open_port(self, types: tuple[str, ...]) -> tuple[Port, InfoReader]:
        outputs: dict[str, Any] = {leaf.name: (leaf.shape, leaf.dtype) for leaf in self._seen}
        outputs["tail"] = (TAIL,), "<f8"
        inputs = {leaf.name: (leaf.shape, type_) for leaf, type_ in zip(self._actions, types, strict=True)}
        port = self.pool.port("step_rows", inputs, outputs)
        return port, InfoReader(port.outputs["tail"], self._schema, self._add_info)

    def _bind(self, types: tuple[str, ...]) -> None:
        """Steps through the port for actions of these types, from now on."""
        if types not in self._ports:
            self._ports[types] = self._open_port(types)
        self._types = types
        self._port, self._infos = self._ports[types]
        self._out, self._tails = self._port.outputs, self._port.outputs["tail"]
        self._views = assembled(self.single_observation_space, {leaf.path: self._out[leaf.name] for leaf in self._seen})
        rewards, *flags = columns(self._tails)
        for flag in flags:  # lent, they may be looked at: an env writes them only when they change
            flag.flags.writeable = False
        self._lent = self._views, rewards, *flags
        self._said, self._nothing = self._which_infos_are_in_rows()
        if len(self._actions) == 1 and not self._actions[0].path:
            self._acts = self._port.inputs[self._actions[0].name]
            self._dtype, self._shape = self._acts.dtype, self._acts.shape
            self._line = self._acts.data if self._acts.ndim == 1 and self._dtype.isnative else None
        self._reads = self._gathering()
        self._arrivals = Arrivals(self._port)

    def _gathering(self) -> Callable[[], Any]:
        """How a batch of observations is handed out: as views, or as copies."""
        if not self.copy:
            return lambda: self._views
        if isinstance(self._views, np.ndarray):
            return self._views.copy
        return lambda: copy.deepcopy(self._views)

    # -- Gymnasium's face -----------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins episodes: of all envs, or those in `options["reset_mask"]`; `options["tasks"]` has a task for each.

        Raises:
            BadInput: envs have been sent to, and not been waited for.
        """
        self._check_open()
        if self._stepping or (self._by_rows and self._arrivals.envs):
            raise BadInput("reset() while envs are stepping: fetch what they give first, with recv() or step_wait()")
        options = dict(options) if options is not None else None
        tasks = options.pop("tasks", None) if options else None
        tasks = tasks if tasks is None else task_each(tasks, self.num_envs)
        chosen = masked_envs(options, self.num_envs)
        seeds = self._seeds(seed)
        calls = {n: (seeds[n], options, None if tasks is None else (tasks[n],)) for n in chosen}
        infos: dict[str, Any] = {}
        drawing = []
        for number, (observation, info, drew) in self._ask("reset", calls).items():
            self._take(number, observation)
            infos = self._add_info(infos, info, number)
            if drew:
                drawing.append(number)
        if drawing and seed is not None:
            self._warn_of_draws(drawing)
        return self._observations(), infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps every env once."""
        if not self._by_rows:
            self.step_async(actions)
            return self.step_wait()
        port = self._port
        if port.book.outstanding:
            self._check_idle(range(self.num_envs))
        if self._arrivals.envs:
            self._arrivals.check_fetched()
        if type(actions) is not _ndarray or self._line is None:
            port = self._put(actions, None)
        else:
            try:
                self._line[_WHOLE] = actions  # as mostly; whatever has another kind or shape is refused
            except (ValueError, BufferError):
                port = self._put(actions, None)
        try:
            if not port.straight():
                port.round()
        except Closed:  # said here and not asked before: it would be asked at every step
            self._check_open()
            raise
        if self.copy or port.answers.extras or self._said() != self._nothing:
            return self._outcome(port.book.members)
        seen, rewards, ended, cut = self._lent
        return seen, rewards, ended, cut, {}

    def step_async(self, actions: Any) -> None:
        """Asks every env to step; `step_wait` gives what came out."""
        self._check_open()
        if self._by_rows:
            self._check_idle(range(self.num_envs))
            self._arrivals.check_fetched()
            self._put(actions, None)
            self._port.post()
        else:
            self._check_idle(())
            each = list(iterate(self.action_space, actions))
            if len(each) != self.num_envs:
                raise BadInput(f"{len(each)} actions for {self.num_envs} envs: {actions!r:.60}; give each its own")
            self._waiting = self.pool.post("step", {number: (action,) for number, action in enumerate(each)})

    def step_wait(self) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Waits for all envs that were asked to step.

        If that is interrupted where spaces do not come down to arrays, the next `step_wait` gives the same step.

        Raises:
            NoAsyncCallError: not all of them have been.
        """
        self._check_open()
        if self._by_rows:
            self._arrivals.check_fetched()
        asked = self._stepping
        if asked < self.num_envs:
            some = (
                f"only {asked} of {self.num_envs} envs have been sent to: recv() gives what they give" if asked else ""
            )
            raise NoAsyncCallError(
                f"step_wait() without step_async(): {some or 'no env has been asked to step'}", "step"
            )
        return self._outcome(self._port.wait()) if self._by_rows else self._told_by_message()

    def _told_by_message(self) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Waits for the envs' messages. Whoever is interrupted here can come back: the envs step all the same."""
        try:
            told = self._told(self._waiting.wait())
            self.pool.round_over(self._waiting)
        except Exception:
            self._waiting = None
            raise
        self._waiting = None
        return told

    def _which_infos_are_in_rows(self) -> tuple[Callable[[], Any], Any]:
        """How to ask that, and what the answer is if none are. Asked at every step: a few are quicker as a list."""
        numbers = self._infos.numbers
        return (
            (numbers.tolist, [0] * self.num_envs)
            if self.num_envs <= _FEW
            else (numbers.tobytes, bytes(8 * self.num_envs))
        )

    def _outcome(self, envs: list[int]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        extras = self._port.answers.extras
        infos = self._infos.read(envs, extras) if extras or self._said() != self._nothing else {}
        seen, rewards, ended, cut = self._lent
        if self.copy:
            return self._reads(), rewards.copy(), ended.copy(), cut.copy(), infos
        return seen, rewards, ended, cut, infos

    def send(self, actions: Any, envs: Iterable[int] | None = None) -> None:
        """Asks some envs to step, with an action each in that order; `recv` gives whoever is ready."""
        if not self._by_rows:
            raise BadInput(_NEEDS_ROWS)
        self._check_open()
        chosen = chosen_envs(envs, self.num_envs)
        if not chosen:
            return
        self._check_idle(chosen)
        self._arrivals.check_fetched(chosen)
        self._put(actions, chosen)
        self._port.post(chosen)

    def recv(self, batch_size: int | None = None, timeout: float | None = None) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Waits until `batch_size` of the envs that were sent to are ready (None: all), or for `timeout` seconds.

        Returns:
            Observations, rewards, terminated and truncated, with a row for each of these envs, in their order; infos as
            wide as the vector; and the numbers of these envs. Fewer than `batch_size` only if no more were sent to, or
            time was up. Others that are ready too come with the next call.

        Raises:
            BadInput: no env has been sent to.
        """
        if not self._by_rows:
            raise BadInput(_NEEDS_ROWS)
        self._check_open()
        if batch_size is not None and not is_whole(batch_size):
            raise BadInput(f"recv({batch_size!r}); give a whole number of envs, or None for all")
        envs, extras = self._arrivals.take(batch_size, timeout)
        chosen = np.asarray(envs, np.intp)
        try:
            infos = self._infos.read(envs, extras)
        except KeyboardInterrupt:
            self._arrivals.put_back(envs, extras)
            raise
        seen = assembled(
            self.single_observation_space, {leaf.path: self._out[leaf.name][chosen] for leaf in self._seen}
        )
        rewards, ended, cut = (column.copy() for column in columns(self._tails[chosen]))
        return seen, rewards, ended, cut, infos, chosen

    def render(self) -> tuple[Any, ...]:
        """What every env draws."""
        return tuple(self._ask("render", record=False).values())

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of every env, or gives an attribute of each."""
        return tuple(self._ask("ask", dict.fromkeys(range(self.num_envs), (name, args, kwargs))).values())

    def call_some(self, envs: Sequence[int], method: str, args: tuple[Any, ...], *, record: bool = True) -> list[Any]:
        """Calls a method of `Instance` for some envs. For adapters; `record=False` is a read."""
        return list(self._ask(method, dict.fromkeys(envs, args), record=record).values())

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

    def __enter__(self) -> PaceVectorEnv:
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
    def plan(self) -> Plan:
        """Where the envs live, and why."""
        return replace(self.pool.plan, helps=True) if self._helps else self.pool.plan

    # -- small things ---------------------------------------------------------------------------------

    def _ask(
        self, method: str, calls: Mapping[int, tuple[Any, ...]] | None = None, *, record: bool = True
    ) -> dict[int, Any]:
        self._check_open()
        return self.pool.call(method, calls, record=record)

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(_CLOSED)

    @property
    def _stepping(self) -> int:
        """How many envs have been asked to step and not been waited for."""
        if self._by_rows:
            return self._port.outstanding
        return 0 if self._waiting is None else self.num_envs

    def _check_idle(self, envs: Sequence[int]) -> None:
        """Before actions are written: they belong to the envs until these have been stepped."""
        if self._stepping == self.num_envs:
            raise BadInput("these envs have been asked to step: fetch what they give first, with recv() or step_wait()")
        for env in envs:
            if self._port.book.waiting[env]:
                raise BadInput(f"env {env} has been sent to and not been received: recv() first")

    def _put(self, actions: Any, chosen: list[int] | None) -> Port:
        """Writes actions into rows of their own type. Returns the port whose rows these are."""
        usual = chosen is None and type(actions) is _ndarray and actions.dtype is self._dtype
        if usual and actions.shape == self._shape:
            self._acts[...] = actions
            return self._port
        count = self.num_envs if chosen is None else len(chosen)
        given = [_action_rows(part_at(actions, leaf.path), leaf, count) for leaf in self._actions]
        types = tuple(array.dtype.str for array in given)
        if types != self._types:
            self._change_types(types)
        for leaf, array in zip(self._actions, given, strict=True):
            self._port.inputs[leaf.name][_WHOLE if chosen is None else chosen] = array
        return self._port

    def _change_types(self, types: tuple[str, ...]) -> None:
        """Goes over to a port for actions of other types: envs are given what the caller gave, and nothing is cast."""
        if self._stepping or self._arrivals.envs:
            raise BadInput(
                f"envs have been sent actions of type {_named(self._types)} and not been received, and now come "
                f"actions of type {_named(types)}: recv() first, or send all of one type"
            )
        last = self._out
        self._bind(types)
        for leaf in self._seen:
            self._out[leaf.name][...] = last[leaf.name]

    def _told(self, answers: Mapping[int, Any]) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        rewards, ended, cut = np.zeros(self.num_envs), np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        infos: dict[str, Any] = {}
        for number, (observation, rewards[number], ended[number], cut[number], said) in answers.items():
            self._alone[number] = observation
            for info in said:
                infos = self._add_info(infos, info, number)
        return self._observations(), rewards, ended, cut, infos

    def _take(self, number: int, observation: Any) -> None:
        if self._by_rows:
            self._writer.who = f"env {number}"
            self._writer.write([self._out[leaf.name][number, ...] for leaf in self._seen], observation, 0)
        else:
            self._alone[number] = observation

    def _observations(self) -> Any:
        if self._by_rows:
            return self._reads()
        self._batch = concatenate(self.single_observation_space, self._alone, self._batch)
        return copy.deepcopy(self._batch) if self.copy else self._batch

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """What `SyncVectorEnv` makes of a seed; but where it would leave envs to chance, they get seeds from ours."""
        if seed is not None:
            seeds = seed_each(seed, self.num_envs)
            self._begun = True
            return seeds
        first, self._begun = not self._begun, True
        if not first:
            return [None] * self.num_envs
        if self._seeded:
            return [self.seed + number for number in range(self.num_envs)]
        return [seed_of(self.seed, "env", number) & 0x7FFFFFFF for number in range(self.num_envs)]

    def _warn_of_draws(self, envs: list[int]) -> None:
        """A reset with a seed promises the same numbers again: said once, if there is nothing that could keep it."""
        if not self._warned:
            _log.warning(
                "envs %s draw from process-wide generators (random, numpy.random, torch), which reset(seed=…) does not "
                "seed: unless the envs do so themselves, every run gives other numbers. make_vec(…, seed=…) seeds them",
                envs,
            )
        self._warned = True

    def _schema(self, env: int, number: int) -> Told:
        found: Told = self.pool.call("schema", {env: (number,)}, record=False)[env]
        return found


def _action_rows(part: Any, leaf: Leaf, count: int) -> Array:
    """The actions of one leaf, a row per env, in the type that they were given in: floats only where floats belong."""
    array, wanted = np.asarray(part), np.dtype(leaf.dtype)
    if array.shape != (count, *leaf.shape) or array.dtype.kind not in ("biuf" if wanted.kind == "f" else "biu"):
        raise BadInput(
            f"actions of shape {array.shape} and type {array.dtype}; needed are {(count, *leaf.shape)} and {wanted}"
        )
    return array


def _named(types: Sequence[str]) -> str:
    return ", ".join(np.dtype(type_).name for type_ in types)
