"""Groups: many text environments, each with one owner, answering turns in the order of the inputs.

    reset(seed) ──► layouts, one per group, by map ──► begin() of every member ──► rollout cache
    step(inputs) ─► turn(actions) of the members named, one message per worker ──► caches of those that go on
    submit(input) · ready(min_ready, timeout) ──► the same, without waiting for everybody

Where the members live changes nothing: `digest()` says so.
"""

from __future__ import annotations

import logging
import operator
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from paceline.catalog.text_envs import find_text_env
from paceline.engine import Event, Plan, Pool, Trace
from paceline.errors import BadInput
from paceline.groups.config import VAL_SEED, GroupsConfig, read_config
from paceline.groups.layouts import Layouts
from paceline.groups.member import Member
from paceline.groups.metrics import add_metrics
from paceline.groups.placing import asked_plan, deal, workers_for
from paceline.groups.trajectory import EnvStatus, Trajectory, failure_of
from paceline.groups.turns import Ticket, Turns, own, tell_of
from paceline.seeds import digest, seed_of

_LATE = ("wait", "truncate")
_SWITCHED = "use_multiprocessing was switched"
_log = logging.getLogger("paceline")


class Answer(NamedTuple):
    """One turn that has been taken in; `ticket` is what `submit` gave."""

    env_id: int
    cache: dict[str, Any]
    done: bool
    ticket: Ticket


class Groups:
    """Groups of text environments whose members begin alike, for agents that answer in words.

    Args:
        config: In RAGEN's shape: a dict, an OmegaConf node, or the path of a YAML file.
        mode: "train" or "val".
        plan: Where the environments live: "auto", a backend, a number of workers (0: here), or a `Plan`. With "auto",
            `use_multiprocessing` and `max_workers` of the configuration decide, if they are there.
        trace: Records where the time goes.

    Raises:
        BadInput: the configuration makes no sense.
    """

    def __init__(
        self, config: Any, mode: str = "train", *, plan: str | int | Plan = "auto", trace: Trace | None = None
    ):
        self.config: GroupsConfig = config if isinstance(config, GroupsConfig) else read_config(config, mode)
        self.mode = self.config.mode
        self.env_groups, self.group_size = self.config.env_groups, self.config.group_size
        self.base_seed, self.seed_counter = self.config.base_seed, 0
        self._tag_of = self.config.tag_of_each()
        self.factories = {name: find_text_env(tag.env_type) for name, tag in self.config.tags.items()}
        for name, tag in self.config.tags.items():
            if settings := getattr(self.factories[name], "Config", None):
                settings.read(tag.env_config, f"custom_envs.{name}.env_config")
        self._asked = self._plan = asked_plan(plan, self.config)
        self.pool = self._open_pool(trace)
        self._layouts = Layouts(self.pool)
        self._parallel = self._asked.backend != "inline"
        self.trajectories: list[Trajectory] = []
        self.begun = self._driven = False
        self._turns = Turns(self.pool, self.config.format_penalty)
        self._history_digest = ""

    def __len__(self) -> int:
        return len(self._tag_of)

    def __enter__(self) -> Groups:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every environment and every worker. May be called again."""
        self.pool.close()

    # -- resets ----------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> list[dict[str, Any]]:
        """Begins an episode everywhere, and gives the rollout cache: one entry per environment.

        Group g gets `seed + g`, all its members the same. Without a seed: train goes on from its base seed, val begins
        with its own each time.
        """
        self._turns.finish()
        self._fold_digest()
        self.begun = True
        first = self._first_seed(seed)
        seeds = [first + index // self.group_size for index in range(len(self))]
        self.trajectories = [
            Trajectory(index, index // self.group_size, tag, self.config.tags[tag].max_actions_per_traj, seeds[index])
            for index, tag in enumerate(self._tag_of)
        ]
        self._begin(seeds)
        if self.config.manager.check_groups:
            self._check_groups()
        return self.rollout_cache

    def next_seed(self) -> int:
        """The seed of the first group at the next reset that is given none; drawn now, if it is to be drawn."""
        counter = self.seed_counter
        try:
            return self._first_seed(None)
        finally:
            self.seed_counter = counter

    def _first_seed(self, seed: int | None) -> int:
        if seed is not None:
            given, seed = seed, whole(seed)
            if seed is None or seed < 0:
                raise BadInput(f"reset(seed={given!r}); give a whole number from 0")
        if self.mode == "val":
            default = VAL_SEED if self.base_seed is None else self.base_seed
            return default if seed is None else seed
        if self.base_seed is None:
            return random.SystemRandom().randint(0, 1_000_000) if seed is None else seed
        if seed is not None:
            self.seed_counter = seed - self.base_seed + 1
            return seed
        self.seed_counter += self.env_groups
        return self.base_seed + self.seed_counter - self.env_groups

    def _begin(self, seeds: Sequence[int]) -> None:
        firsts = range(0, len(self), self.group_size)
        orders = {index: self._layout_order(index, seeds[index]) for index in firsts}
        layouts = self._layouts.make(orders, dict(enumerate(self._tag_of)))
        calls = {}
        for index, trajectory in enumerate(self.trajectories):
            made = layouts[index - index % self.group_size]
            if made.error is not None:
                self._fail(trajectory, made.error)
            else:
                calls[index] = (seeds[index], self.mode, made.answer, self._dynamics(index, seeds[index]))
        for index, outcome in self.pool.call("begin", calls, outcomes=True).items():
            if outcome.error is None:
                self.trajectories[index].begin(outcome.answer)
            else:
                self._fail(self.trajectories[index], outcome.error)

    def _fail(self, trajectory: Trajectory, error: BaseException) -> None:
        trajectory.fail(failure_of(own(error)))
        tell_of(trajectory)

    def _layout_order(self, index: int, seed: int) -> tuple[Any, Any, int, str]:
        tag = self._tag_of[index]
        return self.factories[tag], self.config.tags[tag].env_config, seed, self.mode

    def _dynamics(self, index: int, seed: int) -> int | None:
        apart = self.config.tags[self._tag_of[index]].dynamics == "member"
        return seed_of(seed, "member", index % self.group_size) if apart else None

    def _check_groups(self) -> None:
        """The members of a group begin alike, or the comparison that a group is for means nothing."""
        for first in range(0, len(self), self.group_size):
            members = [t for t in self.trajectories[first : first + self.group_size] if t.status.failure is None]
            if len({digest(_first_state(trajectory)) for trajectory in members}) > 1:
                tag = self._tag_of[first]
                raise BadInput(
                    f"group {first // self.group_size} ({tag}): its members do not begin alike, though each was reset "
                    f"with seed {members[0].status.seed}: {self.config.tags[tag].env_type} does not follow its seed. "
                    "Look for a class counter, hash(), the clock; es_manager.check_groups: false lets it pass"
                )

    # -- turns -----------------------------------------------------------------------------------------

    def step(
        self,
        all_env_inputs: Iterable[Mapping[str, Any]],
        *,
        quorum: float | None = None,
        deadline: float | None = None,
        late: str = "wait",
    ) -> list[dict[str, Any]]:
        """Carries out one turn of every environment that is named.

        Args:
            all_env_inputs: `{env_id, actions, llm_response, llm_raw_response}` each; an environment may be named again.
            quorum: Goes on when this share of the inputs has been answered; None: all of them.
            deadline: Goes on after so many seconds.
            late: What becomes of the others: "wait", their answers come with a later call; or "truncate", their
                trajectories end here, and say so.

        Returns:
            The caches of the environments that are not done, in the order of the inputs.
        """
        check_straggling(quorum, deadline, late)
        stragglers = list(self._turns.pending)
        tickets = [self._ticket(given) for given in all_env_inputs]
        self._turns.post(tickets, apart=quorum is not None or deadline is not None)
        goal = len(tickets) if quorum is None else ceil(quorum * len(tickets))
        self._turns.wait(tickets, goal, deadline)
        if late == "truncate":
            self._turns.cut(tickets, "deadline" if quorum is None else "quorum")
        answered = [ticket for ticket in (*tickets, *stragglers) if ticket.taken]
        return [ticket.trajectory.cache for ticket in answered if not ticket.done]

    def submit(self, env_input: Mapping[str, Any]) -> Ticket:
        """Sends one turn on its way, and does not wait."""
        ticket = self._ticket(env_input)
        self._turns.post([ticket], apart=True)
        return ticket

    def ready(self, min_ready: int = 1, timeout: float | None = None) -> list[Answer]:
        """Waits until `min_ready` of what was submitted has been answered, or `timeout` seconds; gives what there is.

        What came in before is given too. With nothing under way it gives an empty list.
        """
        under_way = list(self._turns.pending)
        self._turns.wait(under_way, min(min_ready, len(under_way)), timeout)
        return [
            Answer(ticket.env_id, ticket.trajectory.cache, ticket.done, ticket) for ticket in under_way if ticket.taken
        ]

    def cut(self, trajectories: Iterable[Trajectory], why: str) -> None:
        """Ends trajectories that have not ended, and says why."""
        for trajectory in trajectories:
            trajectory.cut(why)
        self._turns.drop_the_cut()

    def _ticket(self, given: Mapping[str, Any]) -> Ticket:
        if not self.begun:
            raise BadInput("step() before reset(): there is no episode yet")
        if not (type(given) is dict or isinstance(given, Mapping)):  # the usual first: an ABC's check is slow
            raise BadInput(f"an input is a {type(given).__name__}; give a dict with env_id and actions")
        env_id, actions = given.get("env_id"), given.get("actions")
        number = env_id if type(env_id) is int else whole(env_id)
        if number is None or not 0 <= number < len(self.trajectories):
            raise BadInput(f"env_id is {env_id!r}; there are environments 0 to {len(self) - 1}")
        if not isinstance(actions, list | tuple) or not all(isinstance(action, str) for action in actions):
            raise BadInput(f"the actions of environment {number} are {actions!r:.60}; give a list of strings")
        said = given.get("llm_response", "")
        complete = {**given, "llm_response": said, "llm_raw_response": given.get("llm_raw_response", said)}
        return Ticket(self.trajectories[number], complete)

    # -- results ---------------------------------------------------------------------------------------

    @property
    def rollout_cache(self) -> list[dict[str, Any]]:
        """What has happened since the reset, one entry per environment."""
        return [trajectory.cache for trajectory in self.trajectories]

    @property
    def statuses(self) -> list[EnvStatus]:
        """How the trajectories stand."""
        return [trajectory.status for trajectory in self.trajectories]

    @property
    def events(self) -> list[Event]:
        """What happened without changing a result: lost workers, rebuilds, moves."""
        return self.pool.events

    @property
    def plan(self) -> Plan:
        """Where the environments live, and why."""
        return self.pool.plan if self._asked.backend == "auto" and not self._asked.isolate else self._plan

    def get_rollout_states(self) -> list[dict[str, Any]]:
        """Gives the rollout cache with metrics: success, actions, means of what infos say, pass@k."""
        if not self.begun:
            raise BadInput("get_rollout_states() before reset(): there is no episode yet")
        # One that was cut may still be busy with its last turn: nobody waits for that.
        standing = [t.cache["env_id"] for t in self.trajectories if t.status.failure is None and not t.status.cut]
        outcomes = self.pool.call("facts", dict.fromkeys(standing, ()), outcomes=True, record=False)
        facts = {}
        for index, outcome in outcomes.items():
            if outcome.error is None:
                facts[index] = outcome.answer
            else:
                _log.warning("environment %d has no facts for its metrics: %r", index, outcome.error)
        add_metrics(self.trajectories, facts, self.group_size, self.config)
        return self.rollout_cache

    def render(self) -> list[Any]:
        """What every environment looks like now; None for one that has failed."""
        if not self.begun:
            raise BadInput("render() before reset(): there is no episode yet")
        standing = [t.env_id for t in self.trajectories if t.status.failure is None]
        shown = self.pool.call("show", dict.fromkeys(standing, ()), record=False)
        return [shown.get(index) for index in range(len(self))]

    def digest(self, *, since_reset: bool = False) -> str:
        """SHA-256 over all trajectories so far.

        Args:
            since_reset: Only over those of the last reset; else those before count too.
        """
        now = [trajectory.digest() for trajectory in self.trajectories]
        return digest(now if since_reset else [self._history_digest, now])

    @contextmanager
    def driven(self) -> Iterator[None]:
        """For a driver that steps: alone, and with nothing under way that is not its own."""
        if self._driven:
            raise BadInput("these groups are being played already; one rollout at a time")
        self._turns.finish()
        self._driven = True
        try:
            yield
        finally:
            self._driven = False

    def _fold_digest(self) -> None:
        if self.trajectories:
            self._history_digest = self.digest()

    # -- places ----------------------------------------------------------------------------------------

    @property
    def use_multiprocessing(self) -> bool:
        """Whether environments may live in workers. Can be set at any time: they move as they are."""
        return self._parallel

    @use_multiprocessing.setter
    def use_multiprocessing(self, wanted: bool) -> None:
        if wanted == self._parallel:
            return
        self._turns.finish()
        self._parallel = bool(wanted)
        if self._asked.backend == "auto" and not self._asked.isolate:
            self._let_auto(wanted)
            return
        backend = "process" if self._asked.backend in ("inline", "auto") else self._asked.backend
        asked = None if self._asked.backend == "inline" else self._asked.workers
        workers = (asked or workers_for(self.config)) if wanted else 0
        self.pool.move(self._spread(len(self), workers, 0), backend=backend, workers=workers)
        self._plan = Plan(backend, workers, why=_SWITCHED) if wanted else Plan("inline", 1, why=_SWITCHED)
        if not wanted and self.config.manager.step_timeout is not None:
            _log.warning("es_manager.step_timeout is not kept in the caller's process: a step that hangs there, hangs")

    def _let_auto(self, wanted: bool) -> None:
        if wanted:
            self.pool.reconsider()
        else:
            self.pool.begin_on("inline", 1, _SWITCHED)

    def _open_pool(self, trace: Trace | None) -> Pool:
        return Pool(
            [self._recipe(index) for index in range(len(self))],
            backend=self._asked.backend,
            workers=self._asked.workers,
            keys=[("env", index // self.group_size, index % self.group_size) for index in range(len(self))],
            spreading=self._spread,
            deadline=self.config.manager.step_timeout,
            failed_builds="keep",
            isolate=self._asked.isolate,
            trace=trace,
        )

    def _recipe(self, index: int) -> Any:
        name = self._tag_of[index]
        tag = self.config.tags[name]
        return partial(Member, self.factories[name], tag.env_config, tag.max_actions_per_traj, name)

    def _spread(self, members: int, workers: int, own: int) -> list[int]:
        kinds = [self.config.tags[tag].env_type for tag in self._tag_of]
        return deal(kinds, self.config.manager.sequential_env_types, workers, own)


def _first_state(trajectory: Trajectory) -> Any:
    first = trajectory.history[0]
    return [first["state"], [image.tobytes() for image in first.get("images", ())], trajectory.names]


def whole(value: Any) -> int | None:
    """A whole number, of Python or NumPy; None for anything else, flags too."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_straggling(quorum: float | None, deadline: float | None, late: str = "wait") -> None:
    """Raises `BadInput` for what makes no sense."""
    if quorum is not None and not 0 < quorum <= 1:
        raise BadInput(f"quorum={quorum}; give a share above 0, up to 1")
    if deadline is not None and not deadline > 0:
        raise BadInput(f"deadline={deadline} makes no sense; give seconds above 0")
    if late not in _LATE:
        raise BadInput(f"late={late!r}; give 'wait' or 'truncate'")
