"""Policies of text by what users write: built-in names, a user's own, or a model behind an endpoint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from paceline.catalog.loading import check_is_no_file, load
from paceline.catalog.words import with_keywords
from paceline.errors import BadInput
from paceline.policies.scripted_text import Expert, RandomWords
from paceline.policies.solvers import SOLVERS

_EXPERTS = ("expert", "bfs", "solver")
FORMS = "random, expert (also: bfs, solver), file.py:Class or package.module:Class"


def find_text_policy(
    spec: str, *, actions: int, separator: str, options: Mapping[str, Mapping[str, Any] | None] | None = None
) -> Any:
    """Gives a policy of text.

    Args:
        spec: What the user writes: a name, and `kw.key=value` after commas for what it is built with.
        actions: The most actions of one answer, for the scripted ones.
        separator: What stands between actions.
        options: Tag → the options of its environments, for an expert.

    Raises:
        BadInput: there is none of that name, or it cannot be built.
    """
    name, _, keywords = with_keywords(spec)
    make = _maker(name, {"actions": actions, "separator": separator}, options)
    try:
        return make(**keywords)
    except Exception as error:
        what = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise BadInput(f"policy {spec} cannot be built: {what}") from error


def plainly_named(spec: str) -> str:
    """The same policy by the first of its names."""
    name, comma, keywords = spec.partition(",")
    return f"{_EXPERTS[0] if name in _EXPERTS else name}{comma}{keywords}"


def check_can_play(spec: str, kinds: Mapping[str, str]) -> None:
    """Raises `BadInput` for an expert that has no solver for some tag; others find out what they can do as they play.

    Args:
        spec: As for `find_text_policy`.
        kinds: Tag → its env_type.
    """
    if with_keywords(spec)[0] not in _EXPERTS:
        return
    if unsolved := [tag for tag, env_type in kinds.items() if env_type not in SOLVERS]:
        raise BadInput(
            f"policy {spec} has no solver for {', '.join(unsolved)}: there are solvers for env_type "
            f"{', '.join(SOLVERS)}; leave the tag out, or let somebody else play: random, a policy of your own, a model"
        )


def _maker(name: str, usual: dict[str, Any], options: Mapping[str, Any] | None) -> Callable[..., Any]:
    if name in _EXPERTS:
        return partial(Expert, **usual, options=options)
    if name == "random":
        return partial(RandomWords, **usual)
    check_is_no_file(name, "policy")
    if ":" not in name:
        raise BadInput(f"policy {name!r} is not known; write {FORMS}; or give --base-url and --model")
    found = load(name, "a policy with answer(turn), or a function of a turn")
    return found if isinstance(found, type) else partial(_of_a_turn, found)


def _of_a_turn(function: Callable[..., Any], **keywords: Any) -> Callable[..., Any]:
    """A function of a turn is not built; it is given the keywords with every turn."""
    try:
        inspect.signature(function).bind(None, **keywords)
    except ValueError:  # written in C: it will say so itself
        pass
    except TypeError as error:
        raise BadInput(f"a function is called with a turn, and with what follows kw.: {error}") from error
    return partial(function, **keywords) if keywords else function
