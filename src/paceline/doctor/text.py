"""A text environment as the doctor plays it: what it shows is the observation, and an action is a name or text.

    reset(seed) ──► layout, reset(seed, mode, layout), render ──► (shown, info)
    step(text) ───► name → number, step, render ────────────────► (shown, reward, done, False, info)

So every question that is put to an env is put to a text environment too, in the same words of code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from paceline.catalog.env_options import options_for
from paceline.catalog.text_envs import Factory, check_is_text_env, lays_out, lookup_of, make_layout, takes
from paceline.kinds import Kind, kind_of
from paceline.testing.api import BrokenPromise

_MODE = "train"


class Worded:
    """Stands in front of a text environment.

    Args:
        make: Builds it from its options.
        config: The options.
    """

    def __init__(self, make: Factory, config: Any = None) -> None:
        self._make, self._config = make, config
        self._env = make(options_for(make, config, getattr(make, "__name__", "it")))
        check_is_text_env(self._env, getattr(make, "__name__", "it"))
        self._takes = takes(self._env.reset)
        self._seed = -1

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of its actions; none if actions are free text."""
        return tuple((lookup_of(self._env) or {}).values())

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode; without a seed the next one, as groups do."""
        self._seed = self._seed + 1 if seed is None else seed
        offered: dict[str, Any] = {"seed": self._seed, "mode": _MODE}
        if lays_out(self._make):
            offered["layout"] = make_layout((self._make, self._config, self._seed, _MODE))
        self._env.reset(**{name: value for name, value in offered.items() if self._takes(name)})
        return self._env.render(), {}

    def step(self, action: str) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Carries one action out.

        Raises:
            BrokenPromise: the answer has another shape, or does not say in the end whether it went well.
        """
        lookup = lookup_of(self._env)
        meant = action if lookup is None else {name: number for number, name in lookup.items()}[action]
        answer = self._env.step(meant)
        if not (isinstance(answer, tuple) and len(answer) == 4 and isinstance(answer[3], Mapping)):
            what = f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
            raise BrokenPromise(f"step() gave {what}; a text environment gives (state, reward, done, info)")
        _, reward, done, info = answer
        if done and "success" not in info:
            raise BrokenPromise("The info of the last step() has no success; without it every episode counts as lost")
        return self._env.render(), reward, bool(done), False, dict(info)

    def close(self) -> None:
        """Closes it, if it can be closed."""
        if callable(close := getattr(self._env, "close", None)):
            close()


def kind_built(make: Callable[..., Any]) -> Kind:
    """What a factory builds; if it builds nothing that cannot be told, and it is tried out later."""
    import gymnasium

    if isinstance(make, type) and issubclass(make, gymnasium.Env):
        return Kind.GYMNASIUM
    try:
        env = _built(make)
    except Exception:  # is told when it is tried out
        return Kind.OTHER
    with suppress(Exception):
        env.close()
    return kind_of(env)


def _built(make: Callable[..., Any]) -> Any:
    try:
        return make()
    except TypeError:  # a text environment is built from its options, which may have no default
        return make(options_for(make, None, getattr(make, "__name__", "it")))
