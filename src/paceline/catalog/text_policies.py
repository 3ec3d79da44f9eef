"""Policies of text by what users write: built-in names, a user's own, or a model behind an endpoint."""

from __future__ import annotations

from typing import Any

from paceline.catalog.loading import load
from paceline.errors import BadInput
from paceline.policies.scripted_text import Expert, RandomWords

_SCRIPTED = {"random": RandomWords, "expert": Expert, "bfs": Expert, "solver": Expert}
FORMS = "random, expert (also: bfs, solver), file.py:Class or package.module:Class"


def find_text_policy(name: str, *, actions: int, separator: str) -> Any:
    """Gives a policy of text.

    Args:
        name: What the user writes.
        actions: The most actions of one answer, for the scripted ones.
        separator: What stands between actions.

    Raises:
        BadInput: there is none of that name.
    """
    if name in _SCRIPTED:
        return _SCRIPTED[name](actions, separator)
    if ":" not in name:
        raise BadInput(f"policy {name!r} is not known; write {FORMS}; or give --base-url and --model")
    found = load(name, "a policy with answer(turn), or a function of a turn")
    return found() if isinstance(found, type) else found
