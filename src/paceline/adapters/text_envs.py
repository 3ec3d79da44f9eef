"""Environments of other makes as text environments: Gymnasium, old gym, GEM, TextArena, and plain classes.

    text ──► name → number, or parse ──► their step(action) ──► obs as text, reward, done, info with `success`

Nothing is guessed. What an environment does not say by itself (how it is seeded, what an observation looks like, when
an episode is a success) is asked for in words, by a `BadInput` that names the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from paceline.adapters.text_calls import Actions, Resetting, Seeding, name_of
from paceline.adapters.text_results import Result, as_text, read_reset, read_reward, read_step
from paceline.errors import BadInput

Success = str | float | Callable[[Mapping[str, Any], float], bool]

SUCCESS_KEYS = ("success", "is_success")  # what environments that say it call it


def as_text_env(
    env_or_factory: Any,
    *,
    actions: Sequence[str] | Mapping[int, str] | None = None,
    parse: Callable[[str], Any] | None = None,
    show: Callable[[Any], Any] | Literal["render"] | None = None,
    success: Success | None = None,
    seeding: Seeding | None = None,
    reset_options: Mapping[str, Any] | None = None,
    unpack: Callable[[Any], tuple[Any, ...]] | None = None,
) -> ForeignTextEnv:
    """Wraps an environment so that it keeps to `paceline.roles.TextEnv`.

    Args:
        env_or_factory: An environment, or a class or function without arguments that makes one.
        actions: Names of numbered actions: a sequence for a `Discrete` space, or number → name. Without it the actions
            of a `Discrete` space are named by their numbers, and an `action_lookup` of its own is kept.
        parse: From text to an action, for other action spaces; a ValueError means that the text is none.
        show: From an observation to text, or "render" to show what `render()` gives. Without it text is shown as it
            is, and plain values and small arrays are printed.
        success: How to know: a key of the info, the least sum of rewards, or a function of info and sum of rewards.
            Without it the info must have `success` or `is_success` at the end.
        seeding: "reset" for `reset(seed=…)`, "method" for `seed(…)` before `reset()`, "none" if nothing in it is
            random. Without it the signature of `reset` decides.
        reset_options: Further arguments of `reset`.
        unpack: From what `step` gives to one of the known tuples.

    Raises:
        BadInput: it is no environment, or something about it cannot be told.
    """
    env = _built(env_or_factory)
    kind = SavedTextEnv if _has(env, "snapshot") and _has(env, "restore") else ForeignTextEnv
    return kind(
        env,
        Actions(env, actions, parse),
        Resetting(env, seeding, dict(reset_options or {})),
        show=show,
        success=success,
        unpack=unpack,
    )


class ForeignTextEnv:
    """An environment of another make, played in words; made by `as_text_env`."""

    def __init__(
        self,
        env: Any,
        actions: Actions,
        resetting: Resetting,
        *,
        show: Callable[[Any], Any] | Literal["render"] | None = None,
        success: Success | None = None,
        unpack: Callable[[Any], tuple[Any, ...]] | None = None,
    ) -> None:
        self.env = env
        self._name = name_of(env)
        self._actions, self._resetting = actions, resetting
        self._show, self._success, self._unpack = show, success, unpack
        self._speaks = _has(env, "get_observation")  # as TextArena's do: observations are asked for, rewards come last
        self._shown: Any = None
        self._total = 0.0
        self._over = True
        self._succeeded = False

    @property
    def action_lookup(self) -> Mapping[int, str] | None:
        """Number → name of the actions; None if actions are text."""
        return self._actions.lookup()

    def reset(self, seed: int, mode: str = "train") -> Any:
        """Begins an episode. There is one seed for everything: a foreign environment has no dynamics apart."""
        answer = self._resetting.reset(seed, mode)
        obs = read_reset(answer, self._name, getattr(self.env, "observation_space", None))
        self._shown = self._look(obs)
        self._total, self._over, self._succeeded = 0.0, False, False
        return self._shown

    def step(self, action: Any) -> tuple[Any, float, bool, dict[str, Any]]:
        """Carries one action out.

        Raises:
            BadInput: it has not been reset, gives a shape that is not known, or does not say whether it succeeded.
        """
        if self._shown is None:
            raise BadInput(f"{self._name} has not begun: call reset() before the first step")
        known, meant = self._actions.read(action)
        if self._over or not known:
            said = {"action_is_valid": False, "action_is_effective": False, "success": self._succeeded}
            return self._shown, 0, self._over, said
        before, result = self._shown, self._take(self.env.step(meant))
        self._shown = self._look(result.obs)
        self._total += result.reward
        self._over = result.done
        self._succeeded = self._has_succeeded(result)
        told = {"action_is_valid": True, "action_is_effective": not _same(before, self._shown), **result.info}
        return self._shown, result.reward, self._over, {**told, "success": self._succeeded}

    def render(self, mode: str | None = None) -> Any:
        """What was shown last."""
        return self._shown

    def close(self) -> None:
        """Closes the environment, if it can be closed."""
        if _has(self.env, "close") and not (self._speaks and self._over):
            self.env.close()

    def _look(self, obs: Any) -> Any:
        if self._speaks and obs is None:
            obs = self._hear()
        if self._show == "render":
            obs = self.env.render()
        elif self._show is not None:
            obs = self._show(obs)
        return as_text(obs, self._name)

    def _hear(self) -> str:
        """What the environment says to the player, as TextArena's do: text, or messages with their senders."""
        player, said = self.env.get_observation()
        if player != 0:
            raise BadInput(
                f"{self._name} asks player {player}, but a text environment has one player: use a game for one"
            )
        if isinstance(said, str):
            return said
        return "\n".join(f"[{'GAME' if sender == -1 else 'Player'}] {words}" for sender, words, *_ in said)

    def _take(self, answer: Any) -> Result:
        if self._unpack is not None:
            answer = self._unpack(answer)
        elif self._speaks and isinstance(answer, tuple) and len(answer) == 2:
            answer = self._with_rewards(*answer)
        return read_step(answer, self._name)

    def _with_rewards(self, done: Any, info: Any) -> tuple[Any, ...]:
        """TextArena gives the rewards when a game is closed, which a game is when it is done."""
        if not done:
            return None, 0, done, info
        rewards, story = self.env.close()
        told = story.get(0, {}) if isinstance(story, Mapping) else {}
        return None, read_reward((rewards or {}).get(0), self._name), done, {**info, **told}

    def _has_succeeded(self, result: Result) -> bool:
        wanted = self._success
        if callable(wanted):
            return bool(wanted(result.info, self._total))
        if isinstance(wanted, int | float):
            return self._total >= wanted
        keys = SUCCESS_KEYS if wanted is None else (wanted,)
        for key in keys:
            if key in result.info:
                return bool(result.info[key])
        if result.done:
            raise BadInput(
                f"{self._name} is over, but its info ({', '.join(map(str, result.info)) or 'empty'}) has no "
                f"{' or '.join(keys)}: pass success=, a key of the info, a least sum of rewards, or a function of both"
            )
        return False


class SavedTextEnv(ForeignTextEnv):
    """One that can save itself, because its environment can."""

    def snapshot(self) -> Any:
        """The environment's own snapshot, and where the episode stands."""
        return self.env.snapshot(), self._shown, self._total, self._over, self._succeeded

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        saved, self._shown, self._total, self._over, self._succeeded = state
        self.env.restore(saved)


def _built(env_or_factory: Any) -> Any:
    env = env_or_factory
    if isinstance(env, type) or (callable(env) and not _has(env, "step")):
        try:
            inspect.signature(env).bind()
        except TypeError as error:
            raise BadInput(f"{env!r} cannot be called without arguments ({error}): pass functools.partial(…)") from None
        except ValueError:  # written in C: it does not say what it takes
            pass
        env = env()
    if missing := [method for method in ("reset", "step") if not _has(env, method)]:
        raise BadInput(f"{env!r} is no environment: it has no {' and no '.join(missing)}")
    return env


def _has(env: Any, method: str) -> bool:
    return callable(getattr(env, method, None))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and np.array_equal(one, other)
