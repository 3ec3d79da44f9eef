"""Missions by what users write, with wildcards, and with options.

forage, forage,agents=4, 'forage*'    built in, or another package's (entry point `paceline.missions`)
gym:CartPole-v1, CartPole-v1          any id of Gymnasium
pz:mpe2.simple_spread_v3              any env of PettingZoo, parallel or AEC
mettagrid:empty_room, mission.py      a mission of mettagrid; see `paceline.adapters.mettagrid.missions`
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
from pathlib import Path
from typing import Any

from paceline.adapters.mettagrid import games
from paceline.adapters.mettagrid import missions as mettagrid
from paceline.catalog.loading import (
    Later,
    check_is_no_file,
    entry_points,
    gymnasium_env,
    has_version,
    is_gymnasium,
    load,
    load_entry_point,
    load_file,
)
from paceline.errors import BadInput
from paceline.options import split
from paceline.types import Mission, typed_name
from paceline.worlds import MISSIONS

GROUP = "paceline.missions"
DEFAULT = ("forage", "cleanup", "courier")
"""What is played when nothing is named."""

_FOR_AGENTS = ("agents", "num_agents", "n_agents", "cogs", "num_cogs", "N", "n_pursuers")
_FORMS = (
    "a name of `paceline missions`, gym:ID, pz:module, mettagrid:NAME, a mission file (.py, .yaml, .json), "
    "file.py:factory or package.module:factory"
)
_GAMES_MISSION = "machina_1"  # of cogsguard, which most users do not have


def known_missions() -> dict[str, Mission]:
    """Every mission that has a name here: those of other packages count before ours."""
    names = dict.fromkeys([*mission_names(), *games.mission_names()])
    return {name: mission for name in names for mission in _find(name, mettagrid.Asked())}


def mission_names() -> list[str]:
    """The names of missions, but for those of mettagrid's installed games.

    Nothing is loaded, so that a package that is broken hurts only users who ask for it.
    """
    own = [f"{mettagrid.PREFIX}{name}" for name in mettagrid.ABOUT] if mettagrid.is_installed() else []
    return list(dict.fromkeys([*MISSIONS, *own, *(point.name for point in entry_points(GROUP))]))


def find_missions(
    specs: Iterable[str],
    *,
    agents: int | None = None,
    steps: int | None = None,
    map_seed: int | None = None,
    variants: Iterable[str] = (),
    apart: bool = False,
) -> list[Mission]:
    """Gives the missions that are written, in that order, each once.

    Args:
        specs: What the user writes.
        agents: How many agents each mission is to have; None: as many as it has.
        steps: The most steps of an episode.
        map_seed: The seed of the maps of mettagrid's missions; None: each episode's own.
        variants: Variants of mettagrid's missions.
        apart: Nothing of a user's is imported in this process, only where the mission is built.

    Raises:
        BadInput: one is unknown, or cannot have what is asked of it.
    """
    if steps is not None and steps < 1:
        raise BadInput(f"steps={steps}; give 1 or more")
    asked = mettagrid.Asked(agents, steps, map_seed, tuple(variants))
    found: dict[str, Mission] = {}
    for spec in specs:
        for mission in _find(spec, asked, apart):
            found.setdefault(mission.name, _adapted(mission, asked))
    return list(found.values())


def _find(spec: str, asked: mettagrid.Asked, apart: bool = False) -> list[Mission]:
    name, options = split(spec)
    if any(sign in name for sign in "*?["):
        if apart:
            _check_is_not_run(name)
        names = list(dict.fromkeys([*mission_names(), *games.mission_names()]))
        matches = [known for known in names if fnmatch.fnmatchcase(known, name)]
        if not matches:
            raise BadInput(f"no mission matches {name!r}; there are {', '.join(names)}")
        return [_one(known, options, f"{known}{spec[len(name) :]}", asked, apart) for known in matches]
    return [_one(name, options, spec, asked, apart)]


def _one(name: str, options: dict[str, Any], spec: str, asked: mettagrid.Asked, apart: bool) -> Mission:
    """One mission: of another package, of mettagrid, or of any other kind."""
    for point in entry_points(GROUP, name):
        there = Mission(name, Later(_maker_of_entry_point, name)) if apart else _of_entry_point(point)
        return _with(there, options, spec)
    if apart:
        _check_is_not_run(name)
    return _of_mettagrid(name, options, spec, asked) or _with(_named(name, apart), options, spec)


def _check_is_not_run(name: str) -> None:
    """Raises `BadInput` for missions of mettagrid that are code, which is run to find out what they are."""
    of_game = games.are_there() and (name == _GAMES_MISSION or name.partition(":")[0] in games.NAMES)
    unknown = games.are_there() and ":" not in name and name not in MISSIONS  # perhaps a game's
    if of_game or unknown or name.endswith(".py"):
        raise BadInput(
            f"mission {name!r} is code that is run in this process to find out what it is, and trust='data' "
            "(--untrusted) does not allow that: write it down as .yaml or .json, or trust it"
        )


def _of_mettagrid(name: str, options: dict[str, Any], spec: str, asked: mettagrid.Asked) -> Mission | None:
    if name.startswith(mettagrid.PREFIX):
        return mettagrid.built_in(name.removeprefix(mettagrid.PREFIX), options, asked, spec)
    if name.endswith(mettagrid.FILES):
        if not Path(name).is_file():
            raise BadInput(f"there is no file {name} (looked in {Path.cwd()}): check the path of the mission")
        return mettagrid.of_file(Path(name), options, asked, spec)
    if name.endswith(".py"):
        module = load_file(Path(name), name)
        if not hasattr(module, "get_config") and not hasattr(module, "config"):
            check_is_no_file(name)
        return mettagrid.of_module(module, options, asked, spec)
    if name in MISSIONS and name != _GAMES_MISSION:
        return None
    game, colon, _ = name.partition(":")
    of_game = mettagrid.of_game(name, options, asked, spec) if not colon or game in games.NAMES else None
    if of_game is None and colon and game in games.NAMES:
        raise BadInput(f"there is no mission {name!r}: it needs cogames and its game {game}, or has another name there")
    if of_game is None and name == _GAMES_MISSION and mettagrid.is_installed():
        return mettagrid.stand_in(spec, options, asked)
    return of_game


def _named(name: str, apart: bool = False) -> Mission:
    if name in MISSIONS:
        return MISSIONS[name]
    if apart and (name.startswith("pz:") or (":" in name.removeprefix("gym:") and name.startswith("gym:"))):
        return Mission(name, Later(_maker_of, name))
    if apart and ":" in name and not is_gymnasium(name):
        return Mission(name, Later(_maker_of, name, target=name))
    if name.startswith("gym:"):
        return Mission(name, gymnasium_env(name.removeprefix("gym:")))
    if name.startswith("pz:"):
        return Mission(name, partial(make_pettingzoo, _pettingzoo(name.removeprefix("pz:"))))
    if ":" in name and not is_gymnasium(name):
        made = load(name, "a function that makes an env, or a Mission", Mission)
        return replace(made, name=name) if isinstance(made, Mission) else Mission(name, made)
    check_is_no_file(name)
    if has_version(name):
        return Mission(f"gym:{name}", gymnasium_env(name))
    close = difflib.get_close_matches(name, mission_names(), n=3)
    hint = f"; close to it: {', '.join(close)}" if close else ""
    from paceline.catalog.text_envs import TAGS, text_env_names  # it reads settings, which take a while to import

    if name in TAGS or name in text_env_names():
        raise BadInput(
            f"{name!r} is a text environment, and missions are Gymnasium and PettingZoo envs: `paceline rollout` and "
            f"`paceline play {name}` play it, `paceline doctor {name}` examines it"
        )
    if name in mettagrid.ABOUT:
        hint = f"; there is {mettagrid.PREFIX}{name}"
    raise BadInput(f"there is no mission {name!r}{hint}; give {_FORMS}")


def _maker_of(name: str) -> Any:
    """What builds a mission's environments, found in a worker; only that can be had there."""
    return _only_its_maker(_named(name))


def _maker_of_entry_point(name: str) -> Any:
    for point in entry_points(GROUP, name):
        return _only_its_maker(_of_entry_point(point))
    raise BadInput(f"mission {name!r} is not installed here")


def _only_its_maker(mission: Mission) -> Any:
    if mission != Mission(mission.name, mission.make, about=mission.about):
        raise BadInput(
            f"{mission.name} is a Mission with options, steps or seats of its own, which trust='data' (--untrusted) "
            "does not read: name what makes its env, and write options after it (NAME,key=value), or trust it"
        )
    return mission.make


def _with(mission: Mission, options: dict[str, Any], spec: str) -> Mission:
    if not options:
        return mission
    name = mission.name.replace(typed_name(mission.name), spec, 1)  # a stand-in says so with options too
    return replace(mission, name=name, options={**mission.options, **options})


def _adapted(mission: Mission, asked: mettagrid.Asked) -> Mission:
    if isinstance(mission.make, mettagrid.Recipe):
        return mission  # it was made as asked
    if asked.map_seed is not None or asked.variants:
        what = "--variant" if asked.variants else "--map-seed"
        raise BadInput(f"mission {mission.name!r} is none of mettagrid, and {what} is for those: leave it away")
    if asked.cogs is not None:
        mission = replace(mission, options={**mission.options, _agents_option(mission): asked.cogs})
    return mission if asked.steps is None else replace(mission, steps=asked.steps)


def _agents_option(mission: Mission) -> str:
    """What the mission calls the number of its agents."""
    make: Any = mission.make
    if isinstance(make, Later):
        raise BadInput(
            f"mission {mission.name!r} is not loaded in this process (--untrusted), so it cannot say what it calls the "
            f"number of its agents: leave --agents away, and write {mission.name},key=N"
        )
    if isinstance(make, partial) and make.func is make_pettingzoo:
        # Its parallel form takes any keyword; the class behind it says which there are.
        make = getattr(importlib.import_module(make.args[0]), "raw_env", None) or _maker(make.args[0])
    parameters = inspect.signature(make).parameters
    known = [name for name in _FOR_AGENTS if name in parameters or name in mission.options]
    if known:
        return known[0]
    if typed_name(mission.name).partition(",")[0] in MISSIONS:
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
    tried = pettingzoo_modules(name)
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


def pettingzoo_modules(name: str) -> list[str]:
    """The modules that may be meant by a name after `pz:`, in the order in which they are tried."""
    return list(dict.fromkeys([name, f"pettingzoo.{name}", name.replace("mpe.", "mpe2.", 1)]))


def _of_entry_point(point: Any) -> Mission:
    made = load_entry_point(point, GROUP)
    if isinstance(made, Mission):
        return replace(made, name=point.name)
    if not callable(made):
        raise BadInput(f"the entry point {point.name!r} of {GROUP} is a {type(made).__name__}; it must make an env")
    return Mission(point.name, made, about=(inspect.getdoc(made) or "").partition("\n")[0])
