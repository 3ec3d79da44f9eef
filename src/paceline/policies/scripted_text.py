"""Policies of text that need no model: one that draws at random, and one that plays what a solver works out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.types import Turn

Solver = Callable[[Turn], list[str]]

_CLICK = re.compile(r"click\[[^\]\n]{1,80}\]")
_NUMBERS = re.compile(r"nums?: *\[([\d, ]{1,200})\]")


def worded(actions: list[str], separator: str = "||", thought: str = "") -> str:
    """Actions in the form in which a model answers."""
    return f"<think>{thought}</think><answer>{f' {separator} '.join(actions)}</answer>"


class RandomWords:
    """Answers with actions drawn at random: by name where there are names, else of the kind that the state asks for.

    Args:
        actions: How many actions an answer has, where actions have names.
        separator: What stands between them.
    """

    def __init__(self, actions: int = 1, separator: str = "||") -> None:
        self._actions, self._separator = _some(actions), separator

    async def answer(self, turn: Turn) -> str:
        """Draws; every draw follows from the turn's seed."""
        rng = np.random.default_rng(turn.seed)
        draws = self._actions if turn.actions else 1
        return worded([drawn_action(turn.actions, turn.state, rng) for _ in range(draws)], self._separator)


def drawn_action(names: Sequence[str], state: Any, rng: np.random.Generator) -> str:
    """One action: one of the names, or text of the kind that the state asks for if there are none."""
    if names:
        return str(rng.choice(names))
    return _free_text(state if isinstance(state, str) else "", rng)


def _some(actions: int) -> int:
    if not isinstance(actions, int) or isinstance(actions, bool) or actions < 1:
        raise BadInput(f"actions={actions!r}; give a whole number from 1")
    return actions


def _free_text(state: str, rng: np.random.Generator) -> str:
    if clicks := _CLICK.findall(state[:100_000]):
        return str(rng.choice(clicks))
    if "search[" in state:
        words = re.findall(r"[a-z]{4,}", state.lower()[:2000]) or ["anything"]  # a page need not have any words
        return f"search[{rng.choice(words)}]"
    if found := _NUMBERS.search(state):
        numbers = rng.permutation(found[1].split(","))
        signs = rng.choice(["+", "-", "*"], len(numbers))
        return "".join(f" {sign} {number.strip()}" for sign, number in zip(signs, numbers, strict=True))[3:]
    return str(rng.integers(0, 100))


class Expert:
    """Plays what the solver of a turn's kind of environment works out.

    Args:
        actions: The most actions of one answer; what is over is worked out again next turn.
        separator: What stands between them.
        options: Tag → the options of its environments, as far as they do not show: symbols, slipperiness, catalogues.
    """

    def __init__(
        self, actions: int = 2, separator: str = "||", options: Mapping[str, Mapping[str, Any] | None] | None = None
    ) -> None:
        self._actions, self._separator = _some(actions), separator
        self._options = _by_tag(options or {})
        self._solvers: dict[tuple[str, str], Any] = {}

    async def answer(self, turn: Turn) -> str:
        """Works it out, from what the state shows."""
        return self.reply(turn)

    def reply(self, turn: Turn) -> str:
        """The same, for callers that do not wait."""
        key = turn.tag, turn.env_type
        if key not in self._solvers:
            self._solvers[key] = _solver(turn.env_type, self._options.get(turn.tag) or {})
        actions = self._solvers[key].actions(turn)
        if not actions:
            raise BadInput(f"the solver of {turn.env_type} does not know what to do in this state: {turn.state!r:.80}")
        return worded(actions[: self._actions], self._separator)


def _by_tag(options: Any) -> Mapping[str, Mapping[str, Any] | None]:
    if not isinstance(options, Mapping) or not all(isinstance(of, Mapping | None) for of in options.values()):
        raise BadInput(f"options={options!r:.80}; give a mapping from tags to the options of their environments")
    return options


def _solver(env_type: str, options: Mapping[str, Any]) -> Any:
    from paceline.policies.solvers import SOLVERS, find_solver

    if env_type not in SOLVERS:
        raise BadInput(f"there is no solver for env_type {env_type!r}; there are solvers for {', '.join(SOLVERS)}")
    solver = find_solver(env_type)
    known = inspect.signature(solver).parameters
    if "config" in known:
        return solver(options)
    return solver(**{name: value for name, value in options.items() if name in known})
