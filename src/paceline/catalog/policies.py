"""Policies by what users write: where they come from, their share of the seats, and what they are built with.

greedy, greedy:3                     built in, or another package's (entry point `paceline.policies`)
file.py:Class, package.mod:Class     a policy, or a function that makes one
sb3:PPO,weights=F.zip,trust=true     a model of Stable-Baselines3; normalize=F.pkl: its VecNormalize
torch:file.py:Net,weights=F          a torch module: observations in, scores of actions out
class=pkg.mod.Cls,data=F             a policy of mettagrid; so are bundles, and on its missions its short names
paceline:random                      ours, on every mission
… ,weights=F ,kw.key=value ,agents=MODE ,name=NAME ,proportion=SHARE
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from paceline.adapters import sb3, torch_module
from paceline.adapters.mettagrid.missions import Recipe
from paceline.adapters.sb3 import Model
from paceline.adapters.torch_module import Module
from paceline.catalog.loading import Later, check_is_no_file, entry_points, load, load_entry_point
from paceline.catalog.words import class_first, share_of, whole_shares, with_keywords
from paceline.errors import BadInput
from paceline.policies import DEFAULT, POLICIES
from paceline.team import Player
from paceline.types import Mission

GROUP = "paceline.policies"
_OURS = "paceline:"
_CLASS = "class="
_METTAGRIDS = ("data", "together", "batch")
_FILES = ("weights", "normalize")
_WORDS = (*_FILES, "agents", "name", "trust", "proportion", *_METTAGRIDS)
_FORMS = (
    "a name of `paceline policies`, file.py:Class, package.module:Class, sb3:ALGORITHM, torch:file.py:Module, or "
    "class=package.module.Class for a policy of mettagrid"
)


def known_policies() -> dict[str, Callable[..., Any]]:
    """Every policy that has a name here: those of other packages count before ours."""
    return {name: factory for name in _names() if (factory := _known(name)) is not None}


def _names() -> list[str]:
    return list(dict.fromkeys([*POLICIES, *(point.name for point in entry_points(GROUP))]))


def _known(name: str) -> Callable[..., Any] | None:
    for point in entry_points(GROUP, name):
        factory = load_entry_point(point, GROUP)
        if not callable(factory):
            raise BadInput(f"the entry point {name!r} of {GROUP} is a {type(factory).__name__}; it must make a policy")
        return factory  # type: ignore[no-any-return]
    return POLICIES.get(name)


def find_policies(specs: Iterable[str], mission: Mission | None = None) -> list[Player]:
    """Gives the players that are written; the second of a name gets a number.

    Args:
        specs: What the user writes; nothing is the default of the mission.
        mission: Where they play: on a mission of mettagrid its short names count before ours.

    Raises:
        BadInput: one is unknown, or has an option that is none.
    """
    found = [find_policy(spec, mission) for spec in [*specs] or [default_policy(mission)]]
    return with_shares(numbered([player for player, _ in found]), [share for _, share in found])


def default_policy(mission: Mission | None) -> str:
    """Who plays a mission when no policy is named."""
    return "random" if _is_mettagrids(mission) else DEFAULT


def numbered(players: Iterable[Player]) -> list[Player]:
    """The players, the second of a name with a number."""
    found: list[Player] = []
    for player in players:
        same = sum(player.name in (other.name, other.name.rpartition("#")[0]) for other in found)
        found.append(replace(player, name=f"{player.name}#{same + 1}") if same else player)
    return found


def with_shares(players: Iterable[Player], shares: Sequence[Any]) -> list[Player]:
    """The players with these shares, in whole numbers."""
    return [replace(player, share=share) for player, share in zip(players, whole_shares(shares), strict=True)]


def policy_kind(mission: Mission) -> str:
    """Missions of one kind have one cast. Each of mettagrid's is a kind of its own: its policies know the game."""
    return mission.name if _is_mettagrids(mission) else ""


def policy_factory(given: Any, mission: Mission) -> Any:
    """The factory that a caller means on a mission.

    Models of Stable-Baselines3 and torch modules are copied and adapted; policies of mettagrid, and their classes, play
    its missions as they are.
    """
    if sb3.is_model(given):
        return sb3.Held(given)
    if torch_module.is_module(given):
        return partial(Module, make=given if isinstance(given, type) else torch_module.Held(given))
    if _is_mettagrids(mission):
        from paceline.adapters.mettagrid import policies, specs

        if policies.is_policy(given) or policies.is_live_policy(given):
            return specs.Wanted({}).cogs(given)
    return given


def tell_limit(players: Iterable[Player], mission: Mission, limit: float | None) -> None:
    """Tells policies that want to know it how many seconds an action may take."""
    if _is_mettagrids(mission):
        from paceline.adapters.mettagrid import specs

        specs.tell_limit(players, limit)


def _is_mettagrids(mission: Mission | None) -> bool:
    return mission is not None and isinstance(mission.make, Recipe)


def find_policy(spec: str, mission: Mission | None, *, apart: bool = False) -> tuple[Player, Any]:
    """One player, and its share as it is written.

    Args:
        spec: What the user writes.
        mission: Where it plays.
        apart: Nothing of a user's is imported in this process, only where the policy is built.
    """
    written, options, keywords = with_keywords(class_first(spec), _WORDS)
    name, share = share_of(written)
    if "proportion" in options:
        share = options["proportion"]
    keywords |= {word: option_file(word, options, spec) for word in _FILES if word in options}
    if "trust" in options:
        keywords["trust"] = options["trust"]
    if apart and _is_mettagrids(mission):
        _check_is_known(name)
    found = _theirs(name, options, keywords, spec) if _is_mettagrids(mission) else None
    if found is None:
        _check_ours(options, spec)
        factory = _factory(name, apart)
        found = partial(factory, **keywords) if keywords else factory
    return Player(str(options.get("name", _name(name, options))), found, 1, options.get("agents")), share


def _name(name: str, options: dict[str, Any]) -> str:
    """How reports name a policy: as it is written; a class by its own name and its data's, as mettagrid does."""
    if not name.startswith(_CLASS):
        return name
    parts = [name.removeprefix(_CLASS).rpartition(".")[2], *([Path(options["data"]).name] if "data" in options else [])]
    return "-".join(parts)


def _theirs(name: str, options: dict[str, Any], keywords: dict[str, Any], spec: str) -> Callable[..., Any] | None:
    """A policy of mettagrid; None if it is one of ours."""
    from paceline.adapters.mettagrid import specs
    from paceline.adapters.mettagrid.policies import is_policy

    if name.startswith((_OURS, "sb3:", "torch:")):
        return None
    wanted = specs.Wanted(
        keywords,
        option_file("data", options, spec) if "data" in options else None,
        _flag("together", options, False, spec) if "together" in options else None,
        _flag("batch", options, False, spec),
    )
    if name.startswith(_CLASS):
        return specs.find_class(name.removeprefix(_CLASS), wanted)
    found = specs.find(name, wanted)
    if found is None and ":" in name:
        made = load(name, "a policy, or a function that makes one")
        return wanted.cogs(made) if is_policy(made) else None
    return found


def _flag(word: str, options: dict[str, Any], default: bool, spec: str) -> bool:
    value = options.get(word, default)
    if not isinstance(value, bool):
        raise BadInput(f"{word}={value} in {spec!r}: give true, or false")
    return value


def _check_ours(options: dict[str, Any], spec: str) -> None:
    if strange := [word for word in _METTAGRIDS if word in options]:
        raise BadInput(f"{strange[0]!r} in {spec!r} is for policies of mettagrid, on missions of mettagrid")


def _check_is_known(name: str) -> None:
    """Policies of mettagrid are loaded when they are found: where nothing may be, only its own and ours are taken."""
    from paceline.adapters.mettagrid.short_names import short_names

    if not name.startswith((_OURS, "sb3:", "torch:")) and not short_names().get(name, "").startswith("mettagrid."):
        raise BadInput(
            f"policy {name!r} is loaded in this process, on missions of mettagrid, and trust='data' (--untrusted) does "
            "not allow that: use one of mettagrid's own, paceline:NAME, sb3: or torch:, or trust it"
        )


def _factory(name: str, apart: bool = False) -> Callable[..., Any]:
    if name.startswith(_CLASS):
        module, _, attribute = name.removeprefix(_CLASS).rpartition(".")
        name = f"{module}:{attribute}" if module else attribute
    name = name.removeprefix(_OURS)
    if apart and entry_points(GROUP, name):
        return Later(_known, name)
    known = _known(name)
    if known is not None:
        return known
    if name.startswith("sb3:"):
        return partial(Model, algorithm=name.removeprefix("sb3:"))
    if name.startswith("torch:"):
        return partial(Module, make=_loaded(name.removeprefix("torch:"), "a torch module", apart))
    if ":" in name:
        return _loaded(name, "a policy, or a function that makes one", apart)
    check_is_no_file(name, "policy")
    close = difflib.get_close_matches(name, _names(), n=3)
    raise BadInput(
        f"there is no policy {name!r}{f'; close to it: {chr(44).join(close)}' if close else ''}; give {_FORMS}"
    )


def _loaded(target: str, what: str, apart: bool) -> Callable[..., Any]:
    return Later(load, target, what, target=target) if apart else load(target, what)


def option_file(word: str, options: Mapping[str, Any], spec: str) -> str:
    """The path of a file that an option names.

    Raises:
        BadInput: it is not there.
    """
    path = Path(str(options[word])).expanduser()
    if not path.is_file():
        raise BadInput(f"there is no file {path} (looked in {Path.cwd()}): check {word}= in {spec!r}")
    return str(path.resolve())
