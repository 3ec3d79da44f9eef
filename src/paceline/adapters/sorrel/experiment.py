"""Experiment: the loop of epochs over an environment of the user's own.

epoch 0 … N:  what may act is taken over · reset · start_epoch_action · max_turns turns · end_epoch_action
              └─ after epoch train_interval, 2 × train_interval, …: model.train_step() of every agent
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from time import perf_counter
from typing import Any

from paceline.adapters.sorrel.asking import Asking
from paceline.adapters.sorrel.config import Parallel, count_of, value_of
from paceline.adapters.sorrel.learning import Learning
from paceline.adapters.sorrel.outputs import Outputs
from paceline.adapters.sorrel.record import Record
from paceline.adapters.sorrel.turns import Turns
from paceline.engine import OwnedStreams, current_budget, seeds_from_caller
from paceline.errors import BadInput
from paceline.team.device import one_thread
from paceline.train.timetable import Timetable


class Experiment:
    """Runs of one environment.

    Args:
        env: The environment.
        configs: Where `experiment` and `model` are looked for.
        config: The block `parallel`.
        train_interval: Epochs from one training to the next.
    """

    def __init__(self, env: Any, configs: list[Any], config: Parallel, train_interval: int) -> None:
        self._env, self._configs, self._config = env, configs, config
        self.train_interval, self.epoch = train_interval, 0
        self.record = Record()
        self._streams: OwnedStreams | None = None
        self._turns: Turns | None = None

    def run(self, parallel: bool, *args: Any, **kwargs: Any) -> Record:
        """Runs all epochs, with torch on one thread, as in workers: its sums depend on how many there are.

        Args:
            parallel: Whether workers may be used.
            args: What the run writes, as Sorrel's `run_experiment` takes it; see `Outputs`.
            kwargs: The same, by name.
        """
        epochs, turns = count_of(self._configs, "epochs", 0), count_of(self._configs, "max_turns", 1)
        config, lag = self._config, self._config.lag if self._config.async_learning and parallel else 0
        table = Timetable(max(1, epochs), self.train_interval, lag=lag)
        agents, outputs = _agents(self._env), Outputs(self._env, self._configs, args, kwargs)
        self.record, self._streams = Record(), OwnedStreams(seeds_from_caller())
        streams, record = self._streams, self.record
        names = [f"agent_{number}" for number in range(len(agents))]
        taught = len(agents) if config.parallel_training else min(1, len(agents))  # by one worker, beside main
        learners = self._workers((parallel and config.parallel_training) or lag > 0, taught, lag > 0)
        answering = self._workers(parallel and config.parallel_actions, len(agents), False)
        learning = Learning([agent.model for agent in agents], names, config, table, learners, streams, record)
        asking = Asking(agents, names, config, answering, streams, record) if answering else None
        self._turns = Turns(self._env, agents, streams, asking)
        restore_threads = one_thread()
        try:
            with outputs.logging():
                for self.epoch in range(epochs + 1):
                    learning.begin_epoch(self.epoch)
                    begin = perf_counter()
                    self._play(turns, outputs)
                    record.rewards.append(dict(zip(names, self._turns.rewards, strict=True)))
                    record.seconds["collecting"] += perf_counter() - begin
                    learning.end_epoch(self.epoch)
                    self._end(agents, outputs)
            learning.finish()
        except BaseException:  # Ctrl-C, too; once more ends the wait
            learning.wait_for_threads()
            raise
        finally:
            self._turns = None
            learning.close()
            if asking is not None:
                asking.close()
            streams.switch(None)
            restore_threads()
        return record

    def take_turn(self) -> None:
        """Plays one turn; in a run, as the run plays its turns."""
        if self._turns is not None:
            self._turns.play(self.epoch)
            return
        self._streams = self._streams or OwnedStreams(seeds_from_caller())
        try:
            Turns(self._env, self._env.agents, self._streams, None).play(self.epoch)
        finally:
            self._streams.switch(None)

    def _workers(self, wanted: bool, agents: int, beside_main: bool) -> int:
        """How many workers there may be for something."""
        if not wanted:
            return 0
        if self._config.num_workers is not None:
            return min(self._config.num_workers, agents)
        slots = current_budget().slots
        if slots < 2:
            self.record.note("there is one processor to compute on: no workers are used")
            return 0
        return min(agents, slots - 1 if beside_main else slots)

    def _play(self, turns: int, outputs: Outputs) -> None:
        """Plays an epoch. Pictures have streams of their own, so that they change nothing."""
        env, streams = self._env, self._streams
        assert streams is not None
        assert self._turns is not None
        with streams.of("world"):
            env.reset()
        self._turns.begin_epoch()
        self._hook("start", self._turns.agents)
        for _ in range(turns):
            with streams.of("outputs"):
                outputs.before_turn(self.epoch)
            self._turns.play(self.epoch)
            if getattr(env, "stop_if_done", False) and getattr(env.world, "is_done", False):
                break
        if hasattr(env.world, "is_done") and not callable(env.world.is_done):
            env.world.is_done = True
        with streams.of("outputs"):
            outputs.after_turns(self.epoch)
        self._hook("end", self._turns.agents)

    def _hook(self, which: str, agents: list[Any]) -> None:
        """Calls `start_epoch_action` or `end_epoch_action` of every model, as the environment does it."""
        assert self._streams is not None
        own = getattr(self._env, f"_model_{which}_epoch_action", None)
        for number, agent in enumerate(agents):
            hook = getattr(agent.model, f"{which}_epoch_action", None)
            with self._streams.of(("act", number)):
                if own is not None:
                    own(agent, self.epoch)
                elif hook is not None:
                    _told_epoch(hook, self.epoch)

    def _end(self, agents: list[Any], outputs: Outputs) -> None:
        """What Sorrel does after the trainings of an epoch."""
        total = getattr(self._env.world, "total_reward", sum(self.record.rewards[-1].values()))
        outputs.log(self.epoch, self.record.losses(self.epoch), total, getattr(agents[0].model, "epsilon", 0.0))
        decay = value_of(self._configs, "model", "epsilon_decay")
        for agent in agents if decay is not None else ():
            if callable(lower := getattr(agent.model, "epsilon_decay", None)):
                lower(decay)
        outputs.save(self.epoch, agents)


def _agents(env: Any) -> list[Any]:
    agents = list(getattr(env, "agents", None) or ())
    for number, agent in enumerate(agents):
        for name in ("pov", "get_action", "act", "is_done", "add_memory", "model"):
            if not hasattr(agent, name):
                raise BadInput(f"agent {number}, a {type(agent).__name__}, has no {name}")
        if not hasattr(agent.model, "train_step"):
            raise BadInput(f"the model of agent {number}, a {type(agent.model).__name__}, has no train_step")
    if not agents:
        raise BadInput(f"{type(env).__name__} has no agents")
    return agents


def _told_epoch(hook: Callable[..., Any], epoch: int) -> None:
    """Calls a hook with the epoch. Sorrel's own models take it by name alone (`**kwargs`)."""
    try:
        inspect.signature(hook).bind(epoch)
    except TypeError:
        hook(epoch=epoch)
    else:
        hook(epoch)
