"""Missions by what users write, with wildcards, and with options.

forage, forage,agents=4, 'forage*'   built in, or another package's (entry point `paceline.missions`)
gym:CartPole-v1                      any id of Gymnasium
pz:mpe2.simple_spread_v3             any env of PettingZoo, parallel or AEC
file.py:factory, package.mod:factory  a function that makes an env, or a Mission
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import inspect
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from paceline.catalog.loading import (
    check_is_no_file,
    entry_points,
    gymnasium_env,
    is_gymnasium,
    load,
    load_entry_point,
)
from paceline.catalog.words import split
from paceline.errors import BadInput
from paceline.types import Mission
from paceline.worlds import MISSIONS

GROUP = "paceline.missions"
DEFAULT = ("forage", "cleanup", "courier")
"""What is played when nothing is named."""

_FOR_AGENTS = ("agents", "num_agents", "n_agents", "cogs", "num_cogs", "N", "n_pursuers")
_FORMS = "a name of `paceline missions`, gym:ID, pz:module, file.py:factory or package.module:factory"


def known_missions() -> dict[str, Mission]:
    """Every mission that has a name here: those of other packages count before ours."""
    return {name: mission for name in _names() if (mission := _known(name)) is not None}


def _names() -> list[str]:
    """Their names; nothing is loaded, so that a package that is broken hurts nobody who does not ask for it."""
    return list(dict.fromkeys([*MISSIONS, *(point.name for point in entry_points(GROUP))]))


def _known(name: str) -> Mission | None:
    for point in entry_points(GROUP, name):
        return _of_entry_point(point)
    return MISSIONS.get(name)


def find_missions(specs: Iterable[str], *, agents: int | None = None, steps: int | None = None) -> list[Mission]:
    """Gives the missions that are written, in that order, each once.

    Args:
        specs: What the user writes.
        agents: How many agents each mission is to have; None: as many as it has.
        steps: The most steps of an episode.

    Raises:
        BadInput: one is unknown, or cannot have what is asked of it.
    """
    if steps is not None and steps < 1:
        raise BadInput(f"steps={steps}; give 1 or more")
    found: dict[str, Mission] = {}
    for spec in specs:
        for mission in _find(spec):
            found.setdefault(mission.name, _adapted(mission, agents, steps))
    return list(found.values())


def _find(spec: str) -> list[Mission]:
    name, options = split(spec)
    if any(sign in name for sign in "*?["):
        matches = [m for known in _names() if fnmatch.fnmatchcase(known, name) and (m := _known(known)) is not None]
        if not matches:
            raise BadInput(f"no mission matches {name!r}; there are {', '.join(_names())}")
        return [_with(mission, options, f"{mission.name}{spec[len(name) :]}") for mission in matches]
    return [_with(_named(name), options, spec)]


def _named(name: str) -> Mission:
    known = _known(name)
    if known is not None:
        return known
    if name.startswith("gym:"):
        return Mission(name, gymnasium_env(name.removeprefix("gym:")))
    if name.startswith("pz:"):
        return Mission(name, partial(make_pettingzoo, _pettingzoo(name.removeprefix("pz:"))))
    if ":" in name and not is_gymnasium(name):
        made = load(name, "a function that makes an env, or a Mission", Mission)
        return replace(made, name=name) if isinstance(made, Mission) else Mission(name, made)
    check_is_no_file(name)
    close = difflib.get_close_matches(name, _names(), n=3)
    hint = f"; close to it: {', '.join(close)}" if close else ""
    if is_gymnasium(name) and name.rpartition("-v")[2].isdigit():
        hint = f"; if it is Gymnasium's, write gym:{name}"
    raise BadInput(f"there is no mission {name!r}{hint}; give {_FORMS}")


def _with(mission: Mission, options: dict[str, Any], name: str) -> Mission:
    return replace(mission, name=name, options={**mission.options, **options}) if options else mission


def _adapted(mission: Mission, agents: int | None, steps: int | None) -> Mission:
    if agents is not None:
        mission = replace(mission, options={**mission.options, _agents_option(mission): agents})
    return mission if steps is None else replace(mission, steps=steps)


def _agents_option(mission: Mission) -> str:
    """What the mission calls the number of its agents."""
    make: Any = mission.make
    if isinstance(make, partial) and make.func is make_pettingzoo:
        # Its parallel form takes any keyword; the class behind it says which there are.
        make = getattr(importlib.import_module(make.args[0]), "raw_env", None) or _maker(make.args[0])
    parameters = inspect.signature(make).parameters
    known = [name for name in _FOR_AGENTS if name in parameters or name in mission.options]
    if known:
        return known[0]
    if mission.name.partition(",")[0] in MISSIONS:
        return "agents"
    raise BadInput(f"mission {mission.name!r} has no option for the number of agents: leave --agents away")


def make_pettingzoo(module: str, **options: Any) -> Any:
    """Builds an env of PettingZoo: its parallel form if it has one."""
    return _maker(module)(**options)


def _maker(module: str) -> Any:
    namespace = importlib.import_module(module)
    return getattr(namespace, "parallel_env", None) or namespace.env


def _pettingzoo(name: str) -> str:
    """The module of an env: PettingZoo's own need no prefix, and its MPE envs live in mpe2 now."""
    if not name:
        raise BadInput("pz: alone names no env; write pz:family.name_vN, such as pz:mpe2.simple_spread_v3")
    tried = dict.fromkeys([name, f"pettingzoo.{name}", name.replace("mpe.", "mpe2.", 1)])
    reason = ""
    for module in tried:
        try:
            found = importlib.import_module(module)
        except ImportError as error:
            if not isinstance(error, ModuleNotFoundError) or not f"{module}.".startswith(f"{error.name}."):
                reason = f" ({module}: {error})"  # it is there, and lacks something that it needs
            continue
        if hasattr(found, "parallel_env") or hasattr(found, "env"):
            return module
    raise BadInput(
        f"there is no PettingZoo env {name!r}; tried {', '.join(tried)}{reason}: install its package, "
        "and write pz:family.name_vN"
    )


def _of_entry_point(point: Any) -> Mission:
    made = load_entry_point(point, GROUP)
    if isinstance(made, Mission):
        return replace(made, name=point.name)
    if not callable(made):
        raise BadInput(f"the entry point {point.name!r} of {GROUP} is a {type(made).__name__}; it must make an env")
    return Mission(point.name, made, about=(inspect.getdoc(made) or "").partition("\n")[0])
