"""The vector env itself: Gymnasium's face, the engine's ports behind it.

step(actions) = step_async (rows in, ring) + step_wait (rows out, infos)      send / recv: the same for some of them
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector.utils import batch_space

from paceline.engine import Plan, Port, Trace
from paceline.errors import BadInput, Closed
from paceline.spaces import Array, Writer, assembled, leaves, part_at
from paceline.vector.agreeing import agreed
from paceline.vector.arguments import (
    Recipe,
    action_rows,
    chosen_envs,
    is_whole,
    masked_envs,
    seed_each,
    task_each,
    type_names,
)
from paceline.vector.arrivals import Arrivals
from paceline.vector.infos import TAIL, InfoReader, Told, add_apart, columns
from paceline.vector.instance import Rules
from paceline.vector.messages import Messages, wait_for
from paceline.vector.pooled import PooledEnvs
from paceline.vector.refusals import Beginnings, not_ready, nothing_pending, seeds_told, still_pending

_log = logging.getLogger("paceline")

_ndarray = np.ndarray
_WHOLE = slice(None)
_FEW = 8
_FETCH = "fetch what they give first, with recv() or step_wait()"
_NEEDS_ROWS = "send and recv need spaces that come down to arrays; use step"


class PaceVectorEnv(PooledEnvs):
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
        super().__init__(env_fns, rules, plan, deadline, trace)
        self.copy, self.seed = copy, rules.seed
        self._seeded, self._begun = seeded, False
        self._warned = seeded  # what there is to say about draws from process-wide generators has been said
        try:
            self._open(observation_mode)
        except BaseException:
            self.pool.close()
            raise

    def _open(self, observation_mode: str | tuple[Any, Any]) -> None:
        abouts = self._abouts()
        self.autoreset_mode = self._rules.autoreset
        self.metadata = {**abouts[0]["metadata"], "autoreset_mode": self.autoreset_mode}
        self.render_mode, self.spec = abouts[0]["render_mode"], abouts[0]["spec"]
        self.single_action_space = abouts[0]["action_space"]
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space, self.single_observation_space = agreed(observation_mode, abouts)
        actions, seen = leaves(self.single_action_space, "a"), leaves(self.single_observation_space, "o")
        self._by_rows = actions is not None and seen is not None
        self._actions, self._seen = actions or [], seen or []
        self._writer = Writer(self.single_observation_space, "an env")
        self._messages = Messages(self.pool, self.action_space, self.single_observation_space, self._add)
        self._resetting: tuple[Any, Beginnings, bool] | None = None  # what was posted, and whether with seeds
        self._late = False  # whether a step_wait has been told to wait no longer
        self._dtype: Any = None  # of actions that come as one array, and
        self._shape: Any = None
        self._line: Any = None  # their memory, if they are numbers
        self._ports: dict[tuple[str, ...], tuple[Port, InfoReader]] = {}  # by the types of actions
        self._apart = False
        if self._by_rows:
            self._bind(tuple(leaf.dtype for leaf in self._actions))

    def _open_port(self, types: tuple[str, ...]) -> tuple[Port, InfoReader]:
        outputs: dict[str, Any] = {leaf.name: (leaf.shape, leaf.dtype) for leaf in self._seen}
        outputs["tail"] = (TAIL,), "<f8"
        inputs = {leaf.name: (leaf.shape, type_) for leaf, type_ in zip(self._actions, types, strict=True)}
        port = self.pool.port("step_rows", inputs, outputs)
        reader = InfoReader(port.outputs["tail"], self._schema, self._add)
        reader.in_columns = not self._apart
        return port, reader

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
        calls = self._beginnings("reset", seed, options)
        with seeds_told(calls):
            answers = self._ask("reset", calls)
        return self._begun_with(answers, seeded=seed is not None)

    def reset_async(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Asks envs to begin episodes, as `reset` does; `reset_wait` gives what came out."""
        calls = self._beginnings("reset_async", seed, options)
        self._resetting = self.pool.post("reset", calls), calls, seed is not None

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Waits for the envs that were asked to begin, for `timeout` seconds at the most.

        Raises:
            NoAsyncCallError: none has been.
            TimeoutError: they are not ready, and can be waited for again.
        """
        self._check_open()
        if self._resetting is None:
            raise nothing_pending("reset")
        handle, calls, seeded = self._resetting
        wait_for(handle, timeout)
        self._resetting = None
        with seeds_told(calls):
            answers = handle.wait()
        self.pool.round_over(handle)
        return self._begun_with(answers, seeded=seeded)

    def _beginnings(self, what: str, seed: Any, options: dict[str, Any] | None) -> Beginnings:
        """The calls that begin episodes."""
        self._check_at_rest(what)
        options = dict(options) if options is not None else None
        tasks = options.pop("tasks", None) if options else None
        tasks = tasks if tasks is None else task_each(tasks, self.num_envs)
        chosen = masked_envs(options, self.num_envs)
        seeds = self._seeds(seed)
        return {n: (seeds[n], (options,), None if tasks is None else (tasks[n],)) for n in chosen}

    def _begun_with(self, answers: Mapping[int, Any], *, seeded: bool) -> tuple[Any, dict[str, Any]]:
        infos: dict[str, Any] = {}
        drawing = []
        for number, (observation, info, drew) in answers.items():
            self._take(number, observation)
            infos = self._add(infos, info, number)
            if drew:
                drawing.append(number)
        if drawing and seeded:
            self._warn_of_draws(drawing)
        return self._observations(), infos

    def step(self, actions: Any) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Steps every env once."""
        if not self._by_rows:
            self.step_async(actions)
            return self.step_wait()
        port = self._port
        if port.book.outstanding or self._resetting is not None:
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
            self._messages.post(actions)

    def step_wait(self, timeout: float | None = None) -> tuple[Any, Array, Array, Array, dict[Any, Any]]:
        """Waits for all envs that were asked to step, for `timeout` seconds at the most.

        If that is interrupted where spaces do not come down to arrays, the next `step_wait` gives the same step.

        Raises:
            NoAsyncCallError: not all of them have been.
            TimeoutError: not all of them are ready. They can be waited for again.
        """
        self._check_open()
        if self._by_rows and not self._late:
            self._arrivals.check_fetched()
        asked = self._stepping + (len(self._arrivals.envs) if self._late else 0)
        if asked < self.num_envs:
            some = (
                f"only {asked} of {self.num_envs} envs have been sent to: recv() gives what they give" if asked else ""
            )
            raise nothing_pending("step", some or "no env has been asked to step")
        if not self._by_rows:
            return self._messages.wait(timeout, self.copy)
        return self._outcome(self._port.wait()) if timeout is None and not self._late else self._in_time(timeout)

    def _in_time(self, timeout: float | None) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        """Waits for rows no longer than that. Those that are there are kept until all are."""
        self._late = False
        envs, extras = self._arrivals.take(None, timeout)
        if len(envs) < self.num_envs:
            self._arrivals.put_back(envs, extras)
            self._late = True
            raise not_ready(self.num_envs - len(envs), timeout)
        return self._outcome(envs, extras)

    def _which_infos_are_in_rows(self) -> tuple[Callable[[], Any], Any]:
        """How to ask that, and what the answer is if none are. Asked at every step: a few are quicker as a list."""
        numbers = self._infos.numbers
        return (
            (numbers.tolist, [0] * self.num_envs)
            if self.num_envs <= _FEW
            else (numbers.tobytes, bytes(8 * self.num_envs))
        )

    def _outcome(
        self, envs: list[int], late: dict[int, Any] | None = None
    ) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        extras = self._port.answers.extras if late is None else late
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

    # -- for adapters ---------------------------------------------------------------------------------

    def reset_each(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any] | None]) -> tuple[Any, Any]:
        """Begins an episode of every env with its own seed and its own options; those for which these are None need
        not take any."""
        self._check_at_rest("reset")
        each = self._seeds(None if all(seed is None for seed in seeds) else list(seeds))
        given = [None if option is None else (option,) for option in options]
        calls: dict[int, Any] = {n: (seed, given[n], None) for n, seed in enumerate(each)}
        return self._begun_with(self._ask("reset", calls), seeded=any(seed is not None for seed in seeds))

    def tell_infos_apart(self) -> None:
        """From now on infos are {env: its info}, in the place of Gymnasium's form, which not all of them fit."""
        self._apart = True
        for _, reader in self._ports.values():
            reader.in_columns = False

    # -- small things ---------------------------------------------------------------------------------

    def _check_at_rest(self, what: str) -> None:
        self._check_open()
        self._check_not_resetting(what)
        if self._stepping or (self._by_rows and self._arrivals.envs):
            raise still_pending(what, "step", f"reset() while envs are stepping: {_FETCH}")

    def _check_not_resetting(self, what: str) -> None:
        if self._resetting is not None:
            raise still_pending(what, "reset", "fetch what the envs give first, with reset_wait()")

    def _add(self, infos: dict[Any, Any], info: dict[str, Any], env: int) -> dict[Any, Any]:
        return add_apart(infos, info, env) if self._apart else self._add_info(infos, info, env)

    @property
    def _stepping(self) -> int:
        """How many envs have been asked to step and not been waited for."""
        if self._by_rows:
            return self._port.outstanding
        return self.num_envs if self._messages.pending else 0

    def _check_idle(self, envs: Sequence[int]) -> None:
        """Before actions are written: they belong to the envs until these have been stepped."""
        self._check_not_resetting("step_async")
        if self._stepping == self.num_envs:
            raise still_pending("step_async", "step", f"these envs have been asked to step: {_FETCH}")
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
        given = [action_rows(part_at(actions, leaf.path), leaf, count) for leaf in self._actions]
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
                f"envs have been sent actions of type {type_names(self._types)} and not been received, and now come "
                f"actions of type {type_names(types)}: recv() first, or send all of one type"
            )
        last = self._out
        self._bind(types)
        for leaf in self._seen:
            self._out[leaf.name][...] = last[leaf.name]

    def _take(self, number: int, observation: Any) -> None:
        if self._by_rows:
            self._writer.who = f"env {number}"
            rows = [self._out[leaf.name][number, ...] for leaf in self._seen]
            self._writer.write(rows, observation, lambda: "reset")  # it fits its env's space, and that is like this one
        else:
            self._messages.seen[number] = observation

    def _observations(self) -> Any:
        if self._by_rows:
            return self._reads()
        return self._messages.observations(self.copy)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """What `SyncVectorEnv` makes of a seed. The first reset without one has that of `make_vec`, if it was given."""
        if seed is None and self._seeded and not self._begun:
            seed = self.seed
        seeds: list[int | None] = [None] * self.num_envs
        seeds = seeds if seed is None else seed_each(seed, self.num_envs)
        self._begun = True
        return seeds

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
