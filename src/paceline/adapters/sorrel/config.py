"""What a configuration says: how long, when agents are trained, and what may be done at once.

config["experiment"]["epochs"], or config.epochs ──┐
config["parallel"]: dict, dataclass, OmegaConf ────┴──► Schedule and Parallel, checked; an unknown key is an error
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from paceline.errors import BadInput
from paceline.settings import Settings

TRAIN_INTERVAL = 4
"""Epochs from one training to the next, where nothing else is said: the source's own default."""


class Parallel(Settings):
    """The block `parallel`.

    Attributes:
        enabled: Whether `run_experiment` is Paceline's, with the switches that follow; else it is the one that the
            environment itself has, if there is one.
        streams: "own": `run_experiment` is Paceline's without `enabled`, too; agents have random streams of their own.
        parallel_actions: Whether agents are asked for actions in workers.
        parallel_training: Whether agents are trained in workers.
        async_learning: Whether agents go on playing while they are trained, `lag` trainings behind.
        train_interval: Epochs from one training to the next.
        num_workers: None: by the number of agents and of free processors, if workers pay; 0: none; more: that many.
        use_threads: Whether workers are threads.
        lag: By how many trainings the weights that act are behind, with `async_learning`.
        on_failure: What is done if a training fails: "freeze", the agent goes on untrained; "retry", once more first;
            "fail", the run ends with the error.
        deadline: Seconds that a training or an answer may take in a process before that is killed.
    """

    enabled: bool = False
    streams: Literal["own"] | None = None
    parallel_actions: bool = False
    parallel_training: bool = False
    async_learning: bool = False
    train_interval: int = Field(TRAIN_INTERVAL, ge=1)
    num_workers: int | None = Field(None, ge=0)
    use_threads: bool = False
    lag: int = Field(1, ge=1)
    on_failure: Literal["freeze", "retry", "fail"] = "freeze"
    deadline: float = Field(300.0, gt=0)


def parallel_of(configs: Sequence[Any]) -> Parallel:
    """The block `parallel` of the first configuration that has one.

    Raises:
        BadInput: it has a key that there is none of, or a value that makes no sense.
    """
    return Parallel.read(mapping_of(_found(configs, "parallel"), "parallel"), "parallel")


def interval_of(configs: Sequence[Any], parallel: Parallel) -> int:
    """Epochs from one training to the next: as the block `parallel` says, or else where epochs are counted, or 4."""
    if "train_interval" in parallel.model_fields_set:
        return parallel.train_interval
    return count_of(configs, "train_interval", 1, TRAIN_INTERVAL)


def count_of(configs: Sequence[Any], name: str, least: int, default: int | None = None) -> int:
    """A count that stands under `experiment`, or at the top.

    Args:
        configs: Where it is looked for, in this order.
        name: "epochs", "max_turns" or "train_interval".
        least: The smallest that makes sense.
        default: What it is where it is not there.

    Raises:
        BadInput: it is not there and has no default, or makes no sense.
    """
    for config in configs:
        for place in (_value(config, "experiment"), config):
            count = _value(place, name)
            if count is None:
                continue
            number = isinstance(count, int | float | np.number) and not isinstance(count, bool)
            if not number or count != count // 1 or count < least:
                raise BadInput(f"experiment.{name}={count!r}: give a whole number from {least} on")
            return int(count)
    if default is None:
        raise BadInput(f"the configuration has neither experiment.{name} nor {name}")
    return default


def value_of(configs: Sequence[Any], block: str, name: str) -> Any:
    """What the first configuration that has a block says in it, `model.epsilon_decay` say; None: nothing."""
    return _value(_found(configs, block), name)


def differences(config: Any, own: Any) -> list[str]:
    """What a configuration says of a run that the environment's own says otherwise, or not: "model.lr=1 (…)"."""
    at_top = {name: _value(config, name) for name in ("epochs", "max_turns") if _value(config, name) is not None}
    found = [("experiment", name, value) for name, value in at_top.items()]
    for block in ("experiment", "model"):
        found += [(block, name, value) for name, value in mapping_of(_value(config, block), block).items()]
    return [
        f"{block}.{name}={value!r} (the environment's own: {there!r})"
        for block, name, value in found
        if value != (there := _value(_value(own, block), name)) and (name not in at_top or value != _value(own, name))
    ]


def mapping_of(config: Any, where: str) -> Mapping[str, Any]:
    """A block of a configuration as a mapping, whatever it is written as."""
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if hasattr(config, "__dict__") and not isinstance(config, type):
        return dict(vars(config))
    raise BadInput(f"{where}={config!r}: give a mapping, a dataclass or an OmegaConf block")


def _found(configs: Sequence[Any], name: str) -> Any:
    return next((value for config in configs if (value := _value(config, name)) is not None), None)


def _value(config: Any, name: str) -> Any:
    """A key or an attribute; None where there is none."""
    if isinstance(config, Mapping):
        return config.get(name)
    return getattr(config, name, None)
