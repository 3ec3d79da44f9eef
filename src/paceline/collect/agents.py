"""Row policies by name, as a user writes them: `memory`, `memory,cell=lstm,memory=128,hidden=64x64,weights=net.npz`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from paceline.catalog.policies import option_file
from paceline.catalog.words import with_keywords
from paceline.errors import BadInput
from paceline.learning import Markov, Memory, MemoryMarkov
from paceline.team import Player

AGENTS: Mapping[str, Callable[..., Any]] = {"markov": Markov, "memory": Memory, "memory_markov": MemoryMarkov}
"""Name → class."""


def named_agent(spec: str, agents: Mapping[str, Callable[..., Any]] = AGENTS) -> Player | None:
    """The row policy that is written; None if it is no name of one.

    Options are the arguments of its class. `hidden=64x32` is two layers.

    Args:
        spec: What the user writes.
        agents: Name → class.

    Raises:
        BadInput: an option is none of its class, or there is no such file of weights.
    """
    made = agents.get(spec.partition(",")[0].strip())
    if made is None:
        return None
    known = [name for name in inspect.signature(made).parameters if name != "seat"]
    name, options, keywords = with_keywords(spec, [*known, "name"])
    if strange := [key for key in keywords if key not in known]:
        raise BadInput(f"{strange[0]!r} in {spec!r} is no argument of {made.__name__}: give {', '.join(known)}")
    shown = str(options.pop("name", name))
    keywords |= options
    _check_kinds(made, keywords, spec)
    if "weights" in keywords:
        keywords["weights"] = option_file("weights", keywords, spec)
    if "hidden" in keywords:
        keywords["hidden"] = _sizes(keywords["hidden"], spec)
    return Player(shown, partial(made, **keywords) if keywords else made)


def _check_kinds(made: Callable[..., Any], keywords: Mapping[str, Any], spec: str) -> None:
    """Each option must be of the kind of its argument's default: `sampled=maybe` would count as true."""
    for name, parameter in inspect.signature(made).parameters.items():
        if name not in keywords:
            continue
        value, kind, least = keywords[name], type(parameter.default), 0 if name == "seed" else 1
        if kind is bool and type(value) is not bool:
            raise BadInput(f"{name}={value} in {spec!r}: give true or false")
        if kind is int and (type(value) is not int or value < least):
            raise BadInput(f"{name}={value} in {spec!r}: give a whole number from {least} on")
        if kind is float and type(value) not in (int, float):
            raise BadInput(f"{name}={value} in {spec!r}: give a number")


def _sizes(written: Any, spec: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(size) for size in str(written).split("x"))
    except ValueError:
        sizes = (0,)
    if min(sizes) < 1:
        raise BadInput(f"hidden={written} in {spec!r}: give the sizes of its layers, such as 64, or 64x32 for two")
    return sizes
