"""Kinds of text environments by name: a user's own, RAGEN's, the built-in ones, other packages'.

register_env_type("name", Class)                                                            before all others
RAGEN's registries, if a configuration asks for them (`ragen`)                              then these
sokoban · frozen_lake · bandit · countdown · metamathqa · webshop · sudoku · game_2048      built in
file.py:Class · package.module:Class · entry points of "paceline.text_envs"                 everything else
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import logging
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any

from paceline.catalog.env_options import options_for
from paceline.catalog.loading import load, load_entry_point
from paceline.catalog.ragen import Envs, ragen_env, tell_of_stand_in
from paceline.errors import BadInput
from paceline.options import split
from paceline.settings import Settings

Factory = Callable[[Any], Any]
GROUP = "paceline.text_envs"
TEXT = "text:"

_BUILT_IN = MappingProxyType(
    {
        "sokoban": "paceline.worlds.text.sokoban:Sokoban",
        "frozen_lake": "paceline.worlds.text.frozen_lake:FrozenLake",
        "bandit": "paceline.worlds.text.bandit:Bandit",
        "countdown": "paceline.worlds.text.countdown:Countdown",
        "metamathqa": "paceline.worlds.text.metamathqa:MetaMathQA",
        "webshop": "paceline.worlds.text.webshop:WebShop",
        "sudoku": "paceline.worlds.text.sudoku:Sudoku",
        "game_2048": "paceline.worlds.text.game2048:Game2048",
    }
)
_registered: dict[str, Factory] = {}
_told: set[str] = set()
_log = logging.getLogger("paceline")

TAGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "SimpleSokoban": {
            "env_type": "sokoban",
            "max_actions_per_traj": 10,
            "max_tokens": 100,
            "env_config": {"num_boxes": 1},
        },
        "LargerSokoban": {
            "env_type": "sokoban",
            "max_actions_per_traj": 20,
            "max_tokens": 100,
            "env_config": {"dim_x": 8, "dim_y": 8, "num_boxes": 2, "search_depth": 10},
        },
        "CoordSokoban": {
            "env_type": "sokoban",
            "max_actions_per_traj": 10,
            "max_tokens": 120,
            "env_config": {"num_boxes": 1, "observation_format": "grid_coord"},
        },
        "FrozenLake": {"env_type": "frozen_lake", "max_actions_per_traj": 10, "max_tokens": 100},
        "Bandit": {"env_type": "bandit", "max_actions_per_traj": 1, "max_tokens": 100},
        "Countdown": {"env_type": "countdown", "max_actions_per_traj": 1, "max_tokens": 100},
        "MetamathQA": {"env_type": "metamathqa", "max_actions_per_traj": 5, "max_tokens": 100},
        "WebShop": {"env_type": "webshop", "max_actions_per_traj": 9, "max_tokens": 200},
        "Sudoku": {"env_type": "sudoku", "max_actions_per_traj": 20, "max_tokens": 100},
        "Game2048": {"env_type": "game_2048", "max_actions_per_traj": 50, "max_tokens": 100},
    }
)
"""Tags that need no entry in `custom_envs`."""


def register_env_type(name: str, factory: Factory) -> None:
    """Gives a kind of environment a name for `env_type`.

    Args:
        name: Any; that of a built-in kind, too.
        factory: `factory(env_config)` builds one; a class whose options are a dataclass is given that. Lambdas and
            classes of a notebook are fine. If the name has another one already, built in or registered (a cell may be
            run again), this one takes its place, and that is told once.
    """
    if not isinstance(name, str) or not name:
        raise BadInput(f"an env_type is called {name!r}; give it a name")
    if not callable(factory):
        raise BadInput(f"the factory of env_type {name!r} is a {type(factory).__name__}; give a class or a function")
    before = _registered.get(name, _BUILT_IN.get(name, factory))
    if before is not factory and name not in _told:
        _told.add(name)
        _log.warning("env_type %r is registered again: %r takes the place of %r", name, factory, before)
    _registered[name] = factory


def find_text_env(env_type: str, envs: Envs | None = None) -> Factory:
    """Gives what builds an environment of this kind from its `env_config`.

    Args:
        env_type: What it is called.
        envs: Whose environments count first, as a configuration says; None: it is named by itself, and Paceline's is
            meant.
    """
    if env_type in _registered:
        return _registered[env_type]
    if envs == "ragen" and (theirs := ragen_env(env_type)) is not None:
        return theirs
    if env_type in _BUILT_IN:
        if envs is not None:
            tell_of_stand_in(env_type, envs)
        module, _, name = _BUILT_IN[env_type].partition(":")
        found: Factory = getattr(importlib.import_module(module), name)
        return found
    if ":" in env_type:
        return load(env_type, "a class or function that builds an environment from its env_config")  # type: ignore[no-any-return]
    for point in entry_points(group=GROUP, name=env_type):
        return load_entry_point(point, GROUP)  # type: ignore[no-any-return]
    raise BadInput(f"env_type {env_type!r} is not known{_hint(env_type)}")


def written_text_env(spec: str) -> tuple[Factory, dict[str, Any]]:
    """Gives what builds an environment, and its options, from NAME[,key=value …]; NAME may be a built-in tag.

    The doctor's `text:` before it is taken too: here there is nothing else that could be meant.
    """
    name, options = split(spec.removeprefix(TEXT))
    tag = TAGS.get(name, {"env_type": name})
    return find_text_env(tag["env_type"]), {**(tag.get("env_config") or {}), **options}


def check_is_text_env(env: Any, name: str) -> None:
    """Raises `BadInput` for what is none; says what it lacks."""
    for needed in ("reset", "step", "render"):
        if not callable(getattr(env, needed, None)):
            raise BadInput(
                f"{name}: {type(env).__name__} has no {needed}(); a text environment has reset, step and "
                "render (paceline.adapters.text_envs.as_text_env wraps others)"
            )


def lookup_of(env: Any) -> Mapping[Any, str] | None:
    """Number → name of its actions: the environment's own, or its config's, as upstream keeps them; None: free text."""
    found: Mapping[Any, str] | None = getattr(env, "action_lookup", None)
    if found is not None:
        return found
    config = getattr(env, "config", None)
    if isinstance(config, Settings) and not _names_actions(type(config)):
        return None
    return getattr(config, "action_lookup", None)


@lru_cache(maxsize=64)
def _names_actions(kind: type[Settings]) -> bool:
    """Whether such settings can have names of actions. Asked once: pydantic takes microseconds to say no."""
    return "action_lookup" in kind.model_fields or any("action_lookup" in vars(base) for base in kind.__mro__)


def takes(reset: Callable[..., Any]) -> Callable[[str], bool]:
    """Which keyword arguments a reset takes."""
    try:
        parameters = inspect.signature(reset).parameters
    except (TypeError, ValueError):
        return lambda name: name in ("seed", "mode")
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return lambda name: name in parameters or (anything and name in ("seed", "mode"))


def lays_out(make: Factory) -> bool:
    """Whether a kind of environment makes its layouts apart from its resets."""
    return callable(getattr(make, "layout", None))


def make_layout(order: tuple[Any, Any, int, str]) -> Any:
    """Makes one layout: (kind of environment, its options, seed, mode)."""
    make, config, seed, mode = order
    return make.layout(options_for(make, config, make.__name__), seed, mode)


def explanation(factory: Factory) -> tuple[str, Mapping[str, str]]:
    """What a kind of environment tells a model: the task (`INSTRUCTION`), and what its symbols mean (`LEGEND`)."""
    module = sys.modules.get(getattr(factory, "__module__", ""))
    instruction = getattr(factory, "INSTRUCTION", getattr(module, "INSTRUCTION", ""))
    return instruction, getattr(factory, "LEGEND", getattr(module, "LEGEND", {}))


def text_env_names() -> list[str]:
    """Every name that there is."""
    return sorted({*_BUILT_IN, *_registered, *(point.name for point in entry_points(group=GROUP))})


def _hint(env_type: str) -> str:
    names = text_env_names()
    if close := difflib.get_close_matches(env_type, names, 1):
        return f"; did you mean {close[0]}?"
    also = "or write file.py:Class, package.module:Class, or register_env_type(name, Class)"
    return f"; there are {', '.join(names)}; {also}"
