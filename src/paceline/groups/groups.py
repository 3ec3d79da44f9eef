"""Groups: many text environments, each with one owner, answering turns in the order of the inputs.

    reset(seed) ──► layouts, one per group, by map ──► begin() of every member ──► rollout cache
    step(inputs) ─► turn(actions) of the members named, a few per message ──► caches of those that go on
    submit(input) · ready(min_ready, timeout) ──► the same, without waiting for everybody

Where the members live changes nothing: `digest()` says so.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil
from typing import Any, NamedTuple

from paceline.catalog.env_options import options_for
from paceline.catalog.text_envs import find_text_env
from paceline.engine import Event, Plan, Trace
from paceline.errors import BadInput
from paceline.groups.beginning import Beginning, first_seed
from paceline.groups.config import GroupsConfig, read_config
from paceline.groups.metrics import add_metrics
from paceline.groups.placing import Places
from paceline.groups.trajectory import EnvStatus, Trajectory
from paceline.groups.turns import Ticket, Turns, check_straggling, ticket_of
from paceline.seeds import digest

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
        envs = self.config.manager.envs
        self.factories = {name: find_text_env(tag.env_type, envs) for name, tag in self.config.tags.items()}
        for name, tag in self.config.tags.items():
            options_for(self.factories[name], tag.env_config, f"custom_envs.{name}.env_config")
        self._places = Places(plan, self.config, self.factories, trace)
        self.pool = self._places.pool
        self._beginning = Beginning(self.config, self.factories, self.pool, self._places.step_timeout)
        self.trajectories: list[Trajectory] = []
        self.begun = self._driven = False
        self._turns = Turns(self.pool, self.config.format_penalty, limited=bool(self.config.timeouts))
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
        """Begins an episode everywhere, and gives the caches of the environments that began.

        One that could not be built or reset has no state that a model could be shown: it is left out. `rollout_cache`
        has it, and `statuses` says why it failed.

        Group g gets `seed + g`, all its members the same. Without a seed: train goes on behind the last seed that was
        used, from its base seed on; val begins with its own each time.

        If it raises, or is interrupted, there is no episode: the next one begins with the same seeds.
        """
        first, counter = first_seed(seed, self.config, self.base_seed, self.seed_counter)
        self._turns.finish()
        self._fold_digest()
        self.trajectories, self.begun = [], False  # until everybody has begun: half a reset is none
        trajectories = self._beginning.trajectories(first)
        self._beginning.begin(trajectories)
        if self.config.manager.check_groups:
            self._beginning.check_alike(trajectories)
        self.trajectories, self.begun, self.seed_counter = trajectories, True, counter
        return [trajectory.cache for trajectory in trajectories if not trajectory.over]

    def next_seed(self) -> int:
        """The seed of the first group at the next reset that is given none; drawn now, if it is to be drawn."""
        return first_seed(None, self.config, self.base_seed, self.seed_counter)[0]

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
        if not isinstance(all_env_inputs, Iterable):
            raise BadInput(f"the inputs are {all_env_inputs!r:.60}; give a list of dicts with env_id and actions")
        stragglers = list(self._turns.pending)
        tickets = [self._ticket_of(given) for given in all_env_inputs]
        self._turns.post(tickets, apart=quorum is not None or deadline is not None)
        goal = len(tickets) if quorum is None else ceil(quorum * len(tickets))
        self._turns.wait(tickets, goal, deadline)
        if late == "truncate":
            self._turns.cut(tickets, "deadline" if quorum is None else "quorum")
        answered = [ticket for ticket in (*tickets, *stragglers) if ticket.taken]
        return [ticket.trajectory.cache for ticket in answered if not ticket.done]

    def submit(self, env_input: Mapping[str, Any]) -> Ticket:
        """Sends one turn on its way, and does not wait."""
        ticket = self._ticket_of(env_input)
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

    def _ticket_of(self, given: Mapping[str, Any]) -> Ticket:
        if not self.begun:
            raise BadInput("step() before reset(): there is no episode yet")
        return ticket_of(given, self.trajectories)

    # -- results ---------------------------------------------------------------------------------------

    @property
    def rollout_cache(self) -> list[dict[str, Any]]:
        """What has happened since the reset, one entry per environment."""
        return [trajectory.cache for trajectory in self.trajectories]

    @property
    def under_way(self) -> list[int]:
        """Whose turns have been sent and not been taken in: `ready`, or the next `step`, gives them."""
        return [ticket.env_id for ticket in self._turns.pending]

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
        return self._places.plan

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
        return self._places.parallel

    @use_multiprocessing.setter
    def use_multiprocessing(self, wanted: bool) -> None:
        if wanted not in (True, False):  # "no" would be true
            raise BadInput(f"use_multiprocessing = {wanted!r}; give True or False")
        if wanted != self._places.parallel:
            self._turns.finish()
            self._places.switch(bool(wanted))
