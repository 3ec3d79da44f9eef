"""Policies by what users write: where they come from, their share of the seats, and what they are built with.

greedy, greedy:3                     built in, or another package's (entry point `paceline.policies`)
file.py:Class, package.mod:Class     a policy, or a function that makes one
sb3:PPO,weights=F.zip,trust=true     a model of Stable-Baselines3
torch:file.py:Net,weights=F          a torch module: observations in, scores of actions out
… ,weights=F ,kw.key=value ,agents=MODE ,name=NAME
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from paceline.adapters.sb3 import Model
from paceline.adapters.torch_module import Module
from paceline.catalog.loading import check_is_no_file, entry_points, load, load_entry_point
from paceline.catalog.words import share_of, with_keywords
from paceline.errors import BadInput
from paceline.policies import DEFAULT, POLICIES
from paceline.team import Player

GROUP = "paceline.policies"
_WORDS = ("weights", "agents", "name", "trust")
_FORMS = "a name of `paceline policies`, file.py:Class, package.module:Class, sb3:ALGORITHM or torch:file.py:Module"


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


def find_policies(specs: Iterable[str]) -> list[Player]:
    """Gives the players that are written; the second of a name gets a number.

    Raises:
        BadInput: one is unknown, or has an option that is none.
    """
    found: list[Player] = []
    for spec in [*specs] or [DEFAULT]:
        player = _find(spec)
        same = sum(player.name in (other.name, other.name.rpartition("#")[0]) for other in found)
        found.append(replace(player, name=f"{player.name}#{same + 1}") if same else player)
    return found


def _find(spec: str) -> Player:
    written, options, keywords = with_keywords(spec, _WORDS)
    name, share = share_of(written)
    if "weights" in options:
        keywords["weights"] = _weights(str(options["weights"]), spec)
    if "trust" in options:
        keywords["trust"] = options["trust"]
    factory = _factory(name)
    return Player(
        str(options.get("name", name)),
        partial(factory, **keywords) if keywords else factory,
        share,
        options.get("agents"),
    )


def _factory(name: str) -> Callable[..., Any]:
    known = _known(name)
    if known is not None:
        return known
    if name.startswith("sb3:"):
        return partial(Model, algorithm=name.removeprefix("sb3:"))
    if name.startswith("torch:"):
        return partial(Module, make=load(name.removeprefix("torch:"), "a torch module"))
    if ":" in name:
        made: Callable[..., Any] = load(name, "a policy, or a function that makes one")
        return made
    check_is_no_file(name, "policy")
    close = difflib.get_close_matches(name, _names(), n=3)
    raise BadInput(
        f"there is no policy {name!r}{f'; close to it: {chr(44).join(close)}' if close else ''}; give {_FORMS}"
    )


def _weights(path: str, spec: str) -> str:
    if not Path(path).is_file():
        raise BadInput(f"there is no file {path} (looked in {Path.cwd()}): check weights= in {spec!r}")
    return str(Path(path).resolve())
