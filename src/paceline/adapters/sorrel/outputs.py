"""Outputs: what a run leaves outside the caller's objects, as Sorrel's own loop does it: log rows, pictures, weights.

run_experiment(animate, logging, logger, output_dir) ── read, with the defaults of the environment's own ──► Outputs
    before a turn: a picture · after an epoch: a row for the logger, gifs/…gif, checkpoints/…pkl

Pictures and console rows are made by the classes that the environment's own loop makes them with.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from paceline.adapters.sorrel.config import count_of, value_of
from paceline.errors import BadInput
from paceline.settings import Settings


class Asked(Settings):
    """The arguments of a run, as Sorrel's `run_experiment` takes them.

    Attributes:
        animate: Whether pictures are taken in every `experiment.record_period`-th epoch.
        logging: Whether a logger is told.
        logger: Has Sorrel's `record_epoch` or `record_turn`; None: the one that the environment's own loop makes.
        output_dir: Where pictures and weights are written.
    """

    animate: bool = False
    logging: bool = False
    logger: Any = None
    output_dir: Path | None = None


class Outputs:
    """What one run writes.

    Args:
        env: The environment.
        configs: Where `experiment` and `model` are looked for.
        args: The positional arguments of the run.
        kwargs: Its keywords.

    Raises:
        BadInput: a keyword is not known, or what is wanted cannot be done.
    """

    def __init__(self, env: Any, configs: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._env, self._loops = env, _own_loops(type(env))
        asked = self._read(args, kwargs)
        self._logger = self._chosen_logger(asked, configs) if asked.logging else None
        self._saves = bool(value_of(configs, "model", "save_weights"))
        self._renderer, self._period, self._directory = None, 1, Path()
        if asked.animate or self._saves:
            self._period = count_of(configs, "record_period", 1)
            self._directory = asked.output_dir or self._default_directory(configs)
        if asked.animate:
            self._renderer = self._class_of("ImageRenderer", "animate=False takes no pictures")(
                experiment_name=type(env).__name__,
                record_period=self._period,
                num_turns=count_of(configs, "max_turns", 1),
            )
        for number, agent in enumerate(env.agents if self._saves else ()):
            if not hasattr(agent.model, "save"):
                raise BadInput(
                    f"model.save_weights: the model of agent {number}, a {type(agent.model).__name__}, has no save"
                )

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Has the environment log its turns, as Sorrel's does, if it can."""
        if self._logger is None or not hasattr(self._env, "_active_logger"):
            yield
            return
        self._env._active_logger = self._logger
        try:
            yield
        finally:
            self._env._active_logger = None

    def before_turn(self, epoch: int) -> None:
        """Takes a picture, in epochs that are animated."""
        if self._renderer is not None and epoch % self._period == 0:
            self._renderer.add_image(self._env.world)

    def after_turns(self, epoch: int) -> None:
        """Writes the pictures of an epoch."""
        if self._renderer is not None and epoch % self._period == 0:
            self._renderer.save_gif(epoch, self._directory / "gifs")

    def log(self, epoch: int, loss: float, total: float, epsilon: float) -> None:
        """Tells the logger of an epoch."""
        if self._logger is None:
            return
        aggregate = getattr(self._env, "aggregate_epoch_stats", None)  # from Sorrel 1.6 on
        more = {} if aggregate is None else aggregate()
        write = getattr(self._logger, "record_epoch", None) or self._logger.record_turn
        write(epoch, loss, total, epsilon, **more)

    def save(self, epoch: int, agents: Sequence[Any]) -> None:
        """Saves the weights of all agents. Names hold the epoch, so that those of one second are apart."""
        if not self._saves or epoch % self._period:
            return
        directory = self._directory / "checkpoints"
        directory.mkdir(parents=True, exist_ok=True)
        now = datetime.now().strftime("%Y-%m-%d-%H:%M:%S")
        for number, agent in enumerate(agents):
            agent.model.save(directory / f"{now}-epoch-{epoch}-agent-{number}.pkl")

    # -- what is wanted ----------------------------------------------------------------------------------------

    def _read(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Asked:
        """The arguments; what is not given is as the environment's own loop has it."""
        own: dict[str, inspect.Parameter] = {}
        for loop in self._loops:
            _, *taken = inspect.signature(loop).parameters.values()
            for each in taken:
                if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
                    own.setdefault(each.name, each)
        names = list(own or Asked.model_fields)
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or given.keys() & kwargs.keys():
            raise BadInput(f"run_experiment() takes {', '.join(Asked.model_fields)}, each of them once")
        known = {name: each.default for name, each in own.items() if name in Asked.model_fields}
        defaults = {name: value for name, value in known.items() if value is not inspect.Parameter.empty}
        if "logging" not in defaults:
            defaults["logging"] = kwargs.get("logger", given.get("logger")) is not None
        return Asked.read({**defaults, **given, **kwargs}, "run_experiment()")

    def _chosen_logger(self, asked: Asked, configs: Sequence[Any]) -> Any:
        logger = asked.logger
        if logger is None:
            return self._class_of("ConsoleLogger", "give a logger, or logging=False")(count_of(configs, "epochs", 0))
        if not (hasattr(logger, "record_epoch") or hasattr(logger, "record_turn")):
            raise BadInput(f"logger={logger!r}: give one that has record_epoch, or record_turn")
        return logger

    def _default_directory(self, configs: Sequence[Any]) -> Path:
        """`experiment.output_dir`, or else `data` beside the file of the environment's own loop, as Sorrel has it."""
        named = value_of(configs, "experiment", "output_dir")
        if named is not None:
            return Path(named)
        if not self._loops:
            raise BadInput("pictures and weights need a directory: give output_dir, or experiment.output_dir")
        return Path(self._loops[-1].__code__.co_filename).parent / "data"

    def _class_of(self, name: str, otherwise: str) -> Any:
        """A class that a module of the environment's own loops has imported."""
        for loop in self._loops:
            if name in loop.__globals__:
                return loop.__globals__[name]
        raise BadInput(f"{type(self._env).__name__} has no run_experiment of its own that has a {name}: {otherwise}")


def _own_loops(cls: type) -> list[Any]:
    """The `run_experiment` of every class of an environment that has one, the nearest first; ours is none."""
    found = [inspect.unwrap(vars(base)["run_experiment"]) for base in cls.__mro__ if "run_experiment" in vars(base)]
    return [loop for loop in found if inspect.isfunction(loop) and loop.__module__.split(".")[0] != "paceline"]
