"""Missions of mettagrid by what users write. Imports mettagrid only when one is asked for.

mettagrid:empty_room,width=20,cogs=8    a mission of ours on mettagrid's engine
mission.py, mission.yaml, mission.json  a file: `get_config()` or `config`, or a configuration as mettagrid writes it
machina_1, cogsguard:arena              a mission of a game that is installed beside cogames
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from paceline.engine import Pool
from paceline.errors import BadInput, CallTimeout
from paceline.types import Mission

if TYPE_CHECKING:
    from mettagrid.config.mettagrid_config import MettaGridConfig

PREFIX = "mettagrid:"
FILES = (".yaml", ".yml", ".json")
CHAINED = "chained"
MAP_SECONDS = 60.0
"""How long the map of a mission may take to be built for a number of cogs that is asked for."""

ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "empty_room": "A room with nothing in it but its walls.",
        "arena": "Mettagrid's arena: a few walls, and agents who may attack each other.",
        "navigation": "Mettagrid's navigation game among scattered walls.",
        "caves": "Caves, other ones in every episode.",
        "market": "Goods everywhere, to be carried to stores: many objects that are not walls.",
    }
)
"""The missions of ours, and one sentence of each for listings."""


@dataclass(frozen=True)
class Asked:
    """What is asked of a mission, whatever its kind; None: as it is.

    Attributes:
        cogs: How many agents.
        steps: The most steps of an episode.
        map_seed: The seed of the map; None: the episode's.
        variants: Variants of the mission, in order.
    """

    cogs: int | None = None
    steps: int | None = None
    map_seed: int | None = None
    variants: tuple[str, ...] = ()

    def with_options(self, options: dict[str, Any]) -> tuple[Asked, dict[str, Any]]:
        """Takes its own words out of a spec's options; what is asked for all missions counts before them."""
        rest = dict(options)
        if "cogs" in rest and "agents" in rest:
            raise BadInput("cogs and agents are two words for one thing: give one of them")
        cogs = rest.pop("cogs", rest.pop("agents", None))
        steps, map_seed, variant = (rest.pop(name, None) for name in ("steps", "map_seed", "variant"))
        variants = self.variants or (() if variant is None else (str(variant),))
        return Asked(
            _first(self.cogs, cogs), _first(self.steps, steps), _first(self.map_seed, map_seed), variants
        ), rest

    def check(self) -> None:
        """Raises `BadInput` for numbers that make no sense."""
        for name, value, least in (("cogs", self.cogs, 1), ("steps", self.steps, 1), ("map_seed", self.map_seed, 0)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise BadInput(f"{name}={value!r}; give a whole number, {least} or more")


class Recipe:
    """Builds a world from a configuration that was made once, where the run was planned.

    Args:
        config: The mission, complete.
        asked: What was asked of it.
        files: What it follows from.
        options: What else can be set, with its value.
    """

    def __init__(
        self,
        config: MettaGridConfig,
        asked: Asked,
        files: tuple[Path, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.config, self.files, self._asked, self._options = config, files, asked, dict(options or {})

    def __call__(self, render_mode: str | None = None) -> Any:
        from paceline.adapters.mettagrid.world import MettaGridWorld

        return MettaGridWorld(self.config, render_mode)

    def options(self) -> dict[str, Any]:
        """What can be set, with its value."""
        game = self.config.game
        common = {"steps": game.max_steps, "map_seed": getattr(game.map_builder, "seed", None)}
        return {"cogs": game.num_agents, **self._options, **common}

    def recipe_identity(self) -> dict[str, Any]:
        """What a run must have in common with another one to be the same."""
        asked = {name: value for name, value in vars(self._asked).items() if value not in (None, ())}
        return {**asked, "config": self._digest}

    @cached_property
    def _digest(self) -> str:
        text = json.dumps(self.config.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def is_installed() -> bool:
    """Whether the extra is."""
    return importlib.util.find_spec("mettagrid") is not None


def check_installed(name: str) -> None:
    """Raises `BadInput` if it is not."""
    if not is_installed():
        raise BadInput(f"{name} needs mettagrid: pip install 'paceline[mettagrid]' (Python 3.11 or 3.12)")


def built_in(name: str, options: dict[str, Any], asked: Asked, written: str) -> Mission:
    """A mission of ours: `name` of `ABOUT`, with its builder's own options.

    Raises:
        BadInput: there is no such mission, or it has no such option.
    """
    check_installed(f"{PREFIX}{name}")
    from paceline.adapters.mettagrid.builders import BUILDERS

    if name not in BUILDERS:
        close = difflib.get_close_matches(name, BUILDERS, n=1)
        hint = f"; close to it: {PREFIX}{close[0]}" if close else ""
        raise BadInput(f"there is no mission {PREFIX}{name}{hint}; there are {', '.join(PREFIX + b for b in BUILDERS)}")
    return _of_builder(written, BUILDERS[name], options, asked, ABOUT[name])


def stand_in(written: str, options: dict[str, Any], asked: Asked) -> Mission:
    """The mission that plays `machina_1` on mettagrid's engine where cogsguard is not installed."""
    from paceline.adapters.mettagrid.builders import machina_1

    return _of_builder(
        f"{written} (stand-in on mettagrid)",
        machina_1,
        options,
        asked,
        "A stand-in for the mission of that name in cogsguard: mettagrid's engine and as large a map, another game.",
        "machina_1 is played on a stand-in of ours, on mettagrid's engine, not on cogsguard's map: its scores are not "
        "comparable",
    )


def of_file(path: Path, options: dict[str, Any], asked: Asked, written: str) -> Mission:
    """A mission of a YAML or JSON file."""
    check_installed(written)
    asked, rest = asked.with_options(options)
    _check_options(written, rest, ())
    _check_variants(written, asked.variants, {})
    return _mission(written, _adapted(_read(path), asked, written), asked, files=(path.resolve(),))


def of_module(module: ModuleType, options: dict[str, Any], asked: Asked, written: str) -> Mission:
    """A mission of a Python file: what `get_config()` gives, or `config`; `variants` maps names to functions.

    Options of the spec are given to `get_config`, and so is the number of cogs if it takes one.
    """
    check_installed(written)
    asked, rest = asked.with_options(options)
    asked.check()
    make = getattr(module, "get_config", None)
    if make is None:
        _check_options(written, rest, ())
        config = module.config.model_copy(deep=True) if hasattr(module.config, "model_copy") else module.config
    else:
        known = list(inspect.signature(make).parameters)
        _check_options(written, rest, known)
        told = [name for name in _FOR_AGENTS if name in known and asked.cogs is not None][:1]
        config = _attempt(lambda: make(**rest, **dict.fromkeys(told, asked.cogs)), f"get_config() of {written}")
    variants: Mapping[str, Callable[[Any], Any]] = getattr(module, "variants", None) or {}
    if not isinstance(variants, Mapping):
        raise BadInput(f"variants in {written} is a {type(variants).__name__}; it must be a dict of functions")
    _check_variants(written, asked.variants, variants)
    for name in asked.variants:
        config = _attempt(lambda name=name, config=config: variants[name](config), f"variant {name!r}") or config  # type: ignore[misc]
    return _mission(written, _adapted(config, asked, written), asked, files=(Path(str(module.__file__)),))


def of_game(name: str, options: dict[str, Any], asked: Asked, written: str) -> Mission | None:
    """A mission of an installed game: MISSION, or GAME:MISSION; None if no game has it."""
    from paceline.adapters.mettagrid import games

    if not games.are_there():
        return None
    asked, rest = asked.with_options(options)
    asked.check()
    config = games.find(name, asked.variants, asked.cogs)
    if config is None:
        return None
    _check_options(written, rest, ())
    # A game has placed its cogs itself.
    return _mission(written, _adapted(config, Asked(None, asked.steps, asked.map_seed), written), asked)


_FOR_AGENTS = ("cogs", "num_cogs", "agents", "num_agents")


def _of_builder(
    name: str, make: Callable[..., Any], options: dict[str, Any], asked: Asked, about: str, caution: str = ""
) -> Mission:
    asked, rest = asked.with_options(options)
    asked.check()
    _check_options(name, rest, [word for word in inspect.signature(make).parameters if word != "cogs"])
    _check_variants(name, asked.variants, {})
    cogs = {} if asked.cogs is None else {"cogs": asked.cogs}
    config = _attempt(lambda: make(**cogs, **rest), f"mission {name!r}")
    config = _adapted(config, Asked(None, asked.steps, asked.map_seed), name)
    _check_room(config, name)
    _check_map(config, name, apart=False)
    defaults = {word: p.default for word, p in inspect.signature(make).parameters.items() if word != "cogs"}
    recipe = Recipe(config, asked, options={**defaults, **rest})
    return Mission(name, recipe, about=about, caution=caution, seating=CHAINED)


def _mission(name: str, config: Any, asked: Asked, files: tuple[Path, ...] = ()) -> Mission:
    return Mission(name, Recipe(config, asked, files), seating=CHAINED)


def _adapted(config: Any, asked: Asked, name: str) -> Any:
    """The configuration with what is asked of it."""
    from mettagrid.config.mettagrid_config import MettaGridConfig
    from mettagrid.map_builder.map_builder import HasSeed

    asked.check()
    if not isinstance(config, MettaGridConfig):
        raise BadInput(f"{name} gives a {type(config).__name__}; it must be a MettaGridConfig")
    game = config.game
    if asked.cogs not in (None, game.num_agents):
        _set_cogs(game, asked.cogs, name)
    _check_room(config, name)
    if asked.cogs is not None:
        _check_map(config, name, apart=True)
    if asked.steps is not None:
        game.max_steps = asked.steps
    if asked.map_seed is not None:
        if not isinstance(game.map_builder, HasSeed):
            raise BadInput(f"the map of {name} is drawn by hand, and has no seed: leave --map-seed away")
        game.map_builder.seed = asked.map_seed
    return config


def _set_cogs(game: Any, cogs: int | None, name: str) -> None:
    if game.agents:
        raise BadInput(f"{name} describes each of its {len(game.agents)} agents: leave --cogs away, or change the file")
    builder = game.map_builder
    for place in (builder, getattr(builder, "instance", None)):
        for field in ("agents", "num_agents"):
            if isinstance(getattr(place, field, None), int):
                setattr(place, field, cogs)
    game.num_agents = cogs


def _check_room(config: Any, name: str) -> None:
    """Whether the map has room for its cogs: mettagrid's random maps would look for a place for ever."""
    from mettagrid.map_builder.random_map import RandomMapBuilderConfig

    cogs, builder = config.game.num_agents, config.game.map_builder
    border = getattr(builder, "border_width", 0)
    width, height = getattr(builder, "width", None), getattr(builder, "height", None)
    if not isinstance(width, int) or not isinstance(height, int):
        return
    cells = max(0, width - 2 * border) * max(0, height - 2 * border)
    kinds = len(builder.objects) if isinstance(builder, RandomMapBuilderConfig) else 0
    least = min(kinds, sum(builder.objects.values())) if kinds else 0  # where there are too many, one of each is left
    if cogs + least > cells:
        beside = f", and objects of {kinds} kind{'s' if kinds > 1 else ''}" if kinds else ""
        raise BadInput(f"{name} has no room for {cogs} cogs: its map has {cells} places{beside}")


def _check_map(config: Any, name: str, *, apart: bool) -> None:
    """Whether the map can be built; one that may never be finished is built in a process that can be ended."""
    from mettagrid.map_builder.random_map import RandomMapBuilderConfig

    cogs, builder = config.game.num_agents, config.game.map_builder
    try:
        if not apart or isinstance(builder, RandomMapBuilderConfig):
            _build_map(builder, cogs)
            return
        with Pool([], backend="process", workers=1) as pool:
            pool.map(partial(_build_map, builder), [cogs], deadline=MAP_SECONDS)
    except CallTimeout as error:
        size = [getattr(builder, word, None) for word in ("width", "height")]
        cells = f" in {size[0]} × {size[1]} cells" if all(isinstance(side, int) for side in size) else ""
        raise BadInput(
            f"the map of {name} was not finished in {MAP_SECONDS:g} s for {cogs} cogs{cells}: give fewer cogs, or a "
            "larger map"
        ) from error
    except Exception as error:
        raise BadInput(f"the map of {name} cannot be built for {cogs} cogs: {error}") from error


def _build_map(builder: Any, cogs: int) -> None:
    builder.model_copy(deep=True).create().build_for_num_agents(cogs)


def _read(path: Path) -> Any:
    from mettagrid.config.mettagrid_config import MettaGridConfig

    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            content = json.loads(text)
        else:
            import yaml

            content = yaml.safe_load(text)
        if not isinstance(content, dict):
            raise BadInput(f"{path} holds no configuration: it must be a mapping, as mettagrid writes it")
        return MettaGridConfig(**content)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{path} is no mission of mettagrid: {str(error).strip()[:400]}") from error


def _attempt(make: Callable[[], Any], what: str) -> Any:
    try:
        return make()
    except BadInput:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{what} failed: {type(error).__name__}: {error}") from error


def _check_options(name: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    common = ["cogs", "steps", "map_seed", "variant"]
    if unknown := [option for option in options if option not in known]:
        raise BadInput(
            f"{name} has no option {', '.join(unknown)}; it has {', '.join(dict.fromkeys([*known, *common]))}"
        )


def _check_variants(name: str, wanted: Iterable[str], known: Mapping[str, Any]) -> None:
    if unknown := [variant for variant in wanted if variant not in known]:
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise BadInput(f"{name} has no variant {', '.join(unknown)}; {there}")


def _first(value: Any, other: Any) -> Any:
    return other if value is None else value
