"""Policies of text by what users write: built-in names, a user's own, or a model behind an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.catalog.loading import load
from paceline.errors import BadInput
from paceline.policies.scripted_text import Expert, RandomWords

_EXPERTS = ("expert", "bfs", "solver")
FORMS = "random, expert (also: bfs, solver), file.py:Class or package.module:Class"


def find_text_policy(
    name: str, *, actions: int, separator: str, options: Mapping[str, Mapping[str, Any] | None] | None = None
) -> Any:
    """Gives a policy of text.

    Args:
        name: What the user writes.
        actions: The most actions of one answer, for the scripted ones.
        separator: What stands between actions.
        options: Tag → the options of its environments, for an expert.

    Raises:
        BadInput: there is none of that name, or it cannot be built.
    """
    if name in _EXPERTS:
        return Expert(actions, separator, options)
    if name == "random":
        return RandomWords(actions, separator)
    if ":" not in name:
        raise BadInput(f"policy {name!r} is not known; write {FORMS}; or give --base-url and --model")
    found = load(name, "a policy with answer(turn), or a function of a turn")
    try:
        return found() if isinstance(found, type) else found
    except Exception as error:
        raise BadInput(f"policy {name} cannot be built: {type(error).__name__}: {error}") from error
