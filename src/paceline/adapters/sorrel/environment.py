"""ParallelEnvironment: an environment in the style of Sorrel, run with workers, and the same as without.

ParallelEnvironment(env, config)                      a wrapper around an environment that is there
class Mine(ParallelEnvironment, MyEnvironment): …     a class of one's own that has both
"""

from __future__ import annotations

from typing import Any

from paceline.adapters.sorrel.config import TRAIN_INTERVAL, differences, interval_of, mapping_of, parallel_of
from paceline.adapters.sorrel.experiment import Experiment
from paceline.adapters.sorrel.record import Record
from paceline.errors import BadInput
from paceline.run import Count, checked


class ParallelEnvironment:
    """Runs the experiments of an environment. When a run returns, the caller's own objects hold the final state.

    What a wrapper does not have itself is asked of the environment, and set there. A mixin stands first among the
    bases.

    Args:
        args: For a wrapper the environment and, if it is not the environment's own, the configuration. For a mixin what
            the other bases take.
        train_interval: Epochs from one training to the next; None: as the configuration says, or 4.
        kwargs: `config`, for a wrapper. For a mixin what the other bases take.

    Raises:
        BadInput: the configuration makes no sense.
    """

    def __init_subclass__(cls) -> None:
        """Refuses a mixin that does not stand first: the environment's own loop would be run.

        Raises:
            BadInput: another base with an environment's methods stands before it.
        """
        super().__init_subclass__()
        for base in cls.__mro__[: cls.__mro__.index(ParallelEnvironment)]:
            if not issubclass(base, ParallelEnvironment) and "reset" in vars(base):
                raise BadInput(
                    f"class {cls.__name__}: ParallelEnvironment must stand before {base.__name__} among the bases"
                )

    def __init__(self, *args: Any, train_interval: int | None = None, **kwargs: Any) -> None:
        if _is_mixin(type(self)):
            super().__init__(*args, **kwargs)
            env, given = self, None
        else:
            env, given = _wrapped(*args, **kwargs)
        configs = [given, getattr(env, "config", None)]
        configs = [config for config in configs if config is not None]
        parallel = parallel_of(configs)
        if train_interval is None:
            interval = interval_of(configs, parallel)
        else:
            interval = checked("train_interval", Count, train_interval)
        self._env, self._given = env, given
        self._experiment = Experiment(env, configs, parallel, interval)
        self._parallel = parallel

    def run_experiment(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the experiment: as Paceline does it, if the block `parallel` says `enabled`, or `streams: own`.

        Else the environment's own `run_experiment` is called, if there is one, and nothing is different: it draws from
        the caller's generators, and trains when it does. What it returns is returned.

        Args:
            args: As `kwargs`, in the order of the environment's own `run_experiment`, or of Sorrel's.
            kwargs: `animate`, `logging`, `logger`, `output_dir`, as Sorrel's.

        Returns:
            The `Record` of a run of Paceline's.

        Raises:
            BadInput: a keyword is not known, or what is wanted cannot be done.
        """
        own = getattr(super() if self._env is self else self._env, "run_experiment", None)
        if self._parallel.enabled or self._parallel.streams == "own" or own is None:
            return self._experiment.run(self._parallel.enabled, *args, **kwargs)
        self._experiment.record = self._without_effect()
        return own(*args, **kwargs)

    def run_experiment_parallel(self, *args: Any, **kwargs: Any) -> Record:
        """Runs the experiment as Paceline does it, with workers as far as the switches of the block `parallel` say.

        Args:
            args: As `kwargs`, in the order of the environment's own `run_experiment`, or of Sorrel's.
            kwargs: `animate`, `logging`, `logger`, `output_dir`, as Sorrel's.

        Raises:
            BadInput: a keyword is not known, or what is wanted cannot be done.
        """
        return self._experiment.run(True, *args, **kwargs)

    def _without_effect(self) -> Record:
        """A record that says which settings the environment's own `run_experiment` does not know.

        Raises:
            BadInput: the configuration of a wrapper says something else than that of its environment, which is read.
        """
        record, own = Record(), getattr(self._env, "config", None)
        if others := differences(self._given, own) if self._given is not None and self._given is not own else []:
            raise BadInput(
                "parallel.enabled is false, so the environment's own run_experiment is called, which reads the "
                f"environment's own config: {', '.join(others)}. Say it there, or set parallel.streams: own"
            )
        idle = self._parallel.model_fields_set & {"on_failure", "train_interval"}
        if self.train_interval != TRAIN_INTERVAL:
            idle |= {"train_interval"}
        if idle:
            record.note(
                f"{' and '.join(sorted(idle))} without effect: parallel.enabled is false, so this is the environment's "
                "own run_experiment; parallel.streams: own, or run_experiment_parallel(), is Paceline's"
            )
        return record

    def take_turn_parallel(self) -> None:
        """Plays one turn; in a run, as the run plays its turns, else in order."""
        self._experiment.take_turn()

    @property
    def current_epoch(self) -> int:
        """The epoch that is played, or was played last."""
        return self._experiment.epoch

    @property
    def train_interval(self) -> int:
        """Epochs from one training to the next."""
        return self._experiment.train_interval

    @train_interval.setter
    def train_interval(self, epochs: int) -> None:
        self._experiment.train_interval = checked("train_interval", Count, epochs)

    @property
    def record(self) -> Record:
        """What the last run has left."""
        return self._experiment.record

    def __getattr__(self, name: str) -> Any:
        env = vars(self).get("_env")
        if env is None and not name.startswith("__"):
            raise AttributeError(
                f"{type(self).__name__} has no {name!r} yet: its __init__ must call super().__init__(…) before"
            )
        if env is None or env is self or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(env, name)

    def __setattr__(self, name: str, value: Any) -> None:
        env = vars(self).get("_env", self)
        if env is self or name.startswith("_") or hasattr(type(self), name):
            super().__setattr__(name, value)
        else:
            setattr(env, name, value)


def _is_mixin(cls: type) -> bool:
    """Whether a class has an environment among its bases."""
    bases = cls.__mro__[cls.__mro__.index(ParallelEnvironment) + 1 :]
    return any("reset" in vars(base) for base in bases)


def _wrapped(*args: Any, config: Any = None, **kwargs: Any) -> tuple[Any, Any]:
    if kwargs or not 1 <= len(args) <= 2:
        raise BadInput(
            "give ParallelEnvironment an environment and, if it is not the environment's own, a configuration"
        )
    env, config = args[0], args[1] if len(args) == 2 else config
    for name in ("reset", "agents", "world"):
        if not hasattr(env, name):
            raise BadInput(f"a {type(env).__name__} is no environment: it has no {name}")
    if config is not None:
        mapping_of(config, "config")
    return env, config
