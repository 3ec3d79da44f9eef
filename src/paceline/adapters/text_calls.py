"""How environments of other makes are called: what their actions are, and how an episode is begun.

text, a name or a number ── Actions.read ──► what their step takes
a seed and a mode        ── Resetting ─────► their reset, with the arguments that it has
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from paceline.errors import BadInput
from paceline.worlds.text.actions import find

Seeding = Literal["reset", "method", "none"]


def name_of(env: Any) -> str:
    """What an environment is called in messages: the name of its class, without wrappers."""
    return type(getattr(env, "unwrapped", env)).__name__


class Actions:
    """What can be done: from text, a number or a name to what the environment's step takes."""

    def __init__(
        self, env: Any, actions: Sequence[str] | Mapping[int, str] | None, parse: Callable[[str], Any] | None
    ) -> None:
        self._env, self._parse = env, parse
        self._space: Any = getattr(env, "action_space", None)
        self._kind = type(self._space).__name__
        self._names = None if actions is None else self._named(actions)
        if self._space is not None and self._kind != "Text" and not (parse or self.lookup()):
            raise BadInput(
                f"the actions of {name_of(env)} are {self._space}, not text: pass parse=, from text to an action"
            )

    def lookup(self) -> Mapping[int, str] | None:
        """Number → name; None if actions are text."""
        if self._parse or self._names:
            return None if self._parse else self._names
        # Asked each time, because some name their actions at reset; RAGEN's environments do so in their config.
        for holder in (self._env, getattr(self._env, "unwrapped", None), getattr(self._env, "config", None)):
            if isinstance(own := getattr(holder, "action_lookup", None), Mapping):
                return own
        return {number: str(number) for number in self._numbers()} or None

    def read(self, action: Any) -> tuple[bool, Any]:
        """Whether there is such an action, and what it is to the environment."""
        if self._parse is not None:
            return self._parsed(action)
        lookup = self.lookup()
        if lookup is None:
            return self._kind != "Text" or action in self._space, action
        number = find(action, lookup)
        return number is not None, number

    def _parsed(self, action: Any) -> tuple[bool, Any]:
        assert self._parse is not None
        try:
            return True, self._parse(action)
        except ValueError:
            return False, None

    def _numbers(self) -> range:
        """The numbers of Discrete actions; none of other kinds."""
        start = int(getattr(self._space, "start", 0))
        return range(start, start + int(self._space.n)) if self._kind == "Discrete" else range(0)

    def _named(self, actions: Sequence[str] | Mapping[int, str]) -> Mapping[int, str]:
        numbers, name = self._numbers(), name_of(self._env)
        if not isinstance(actions, Mapping):
            if len(actions) != len(numbers):
                kind = f"{len(numbers)} actions" if numbers else "no Discrete actions"
                raise BadInput(f"{name} has {kind}, but {len(actions)} names are given; or give number → name")
            actions = dict(zip(numbers, actions, strict=True))
        if numbers and not set(actions) <= set(numbers):
            raise BadInput(f"{name} has the actions {numbers[0]} to {numbers[-1]}; names are given for {list(actions)}")
        if len({said.casefold() for said in actions.values()}) < len(actions):
            raise BadInput(f"two actions of {name} have the same name: {', '.join(actions.values())}")
        return dict(actions)


class Resetting:
    """How an episode is begun: which arguments `reset` takes, and where the seed goes."""

    def __init__(self, env: Any, seeding: Seeding | None, options: dict[str, Any]) -> None:
        self._env, self._options = env, options
        self._name = name_of(env)
        self._parameters = inspect.signature(env.reset).parameters
        if "num_players" in self._parameters:
            self._options.setdefault("num_players", 1)  # not a guess: a text environment has one player
        self._seeding = self._found_seeding() if seeding is None else self._checked(seeding)
        self._check_missing()

    def reset(self, seed: int, mode: str) -> Any:
        """Begins an episode, and gives what the environment's own reset gives."""
        options = dict(self._options)
        if "mode" in self._parameters:
            options.setdefault("mode", mode)
        if self._seeding == "reset":
            return self._env.reset(seed=seed, **options)
        if self._seeding == "method":
            self._env.seed(seed)
        return self._env.reset(**options)

    def _found_seeding(self) -> Seeding:
        if "seed" in self._parameters:
            return "reset"
        if callable(getattr(self._env, "seed", None)):
            return "method"
        raise BadInput(
            f"{self._name}.reset{inspect.signature(self._env.reset)} takes no seed, and there is no method seed(): "
            "pass seeding='reset' if it takes one all the same, or seeding='none' if nothing in it is random"
        )

    def _checked(self, seeding: Seeding) -> Seeding:
        if seeding not in get_args(Seeding):
            raise BadInput(f"seeding is {seeding!r}; it can be {', '.join(get_args(Seeding))}")
        if seeding == "method" and not callable(getattr(self._env, "seed", None)):
            raise BadInput(f"seeding is 'method', but {self._name} has no method seed()")
        return seeding

    def _check_missing(self) -> None:
        given = {*self._options, "mode", *(["seed"] if self._seeding == "reset" else [])}
        needed = [
            name
            for name, parameter in self._parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        if missing := [name for name in needed if name not in given]:
            raise BadInput(f"{self._name}.reset needs {', '.join(missing)}: pass them in reset_options={{…}}")
