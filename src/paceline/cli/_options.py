"""Options of a mission or a policy: what can be set, what it is if it is not, and what it means.

signature ──► names and defaults ┐
docstring, its Args ──► meanings ┴──► lines
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from paceline.run import arguments


@dataclass(frozen=True)
class Option:
    """One of them; `value` is as Python writes it, and empty if it must be given."""

    name: str
    value: str
    meaning: str


def options_of(maker: Any, given: Mapping[str, Any], leave_out: tuple[str, ...] = ()) -> list[Option]:
    """The options of a class or a function; what is given counts before its defaults."""
    while isinstance(maker, partial):
        given, maker = {**maker.keywords, **given}, maker.func
    meanings = arguments(inspect.getdoc(maker) or "")
    found = []
    for name, parameter in _parameters(maker).items():
        if name not in leave_out:
            value = given.get(name, parameter.default)
            found.append(Option(name, "" if value is parameter.empty else _written(value), meanings.get(name, "")))
    known = {option.name for option in found}
    return found + [Option(name, _written(given[name]), "") for name in given if name not in {*known, *leave_out}]


def names_its_options(maker: Callable[..., Any]) -> bool:
    """Whether a signature says what can be set: not if it takes any keyword."""
    try:
        return not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(maker).parameters.values())
    except (TypeError, ValueError):
        return False


def lines(options: list[Option]) -> list[str]:
    """A line for each, in columns."""
    heads = [f"{option.name}{f'={option.value}' if option.value else ''}" for option in options]
    width = max(map(len, heads), default=0)
    return [f"    {head:{width}}  {option.meaning}".rstrip() for head, option in zip(heads, options, strict=True)]


def _parameters(maker: Any) -> dict[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        return {}
    return {name: p for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}


def _written(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:39]}…"
