"""One environment of a group, in the worker where it lives: begins episodes, and carries turns out.

    begin(seed, …) ──► Begun      turn(actions) ──► Turned      show() ──► its look      facts() ──► for reports

How many actions a trajectory may have, and whether it is over, is kept here, beside the environment: so a turn that is
posted before the last one has been answered still finds the right budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from paceline.catalog.env_options import options_for
from paceline.catalog.text_envs import Factory, check_is_text_env, lookup_of, takes
from paceline.engine import Anew, data_record
from paceline.errors import BadInput, PacelineError
from paceline.groups.trajectory import Turned, check_is_state
from paceline.kinds import reward_of
from paceline.lasting import LASTING
from paceline.types import Failure

data_record(Failure)


@data_record
class Begun(NamedTuple):
    """A new episode."""

    state: Any
    names: tuple[str, ...]  # of the actions, if they are looked up


class Member:
    """An environment, and its trajectory's budget of actions."""

    def __init__(self, make: Factory, config: Any, most: int, tag: str) -> None:
        self._env = make(options_for(make, config, f"custom_envs.{tag}.env_config"))
        self._most, self._tag = most, tag
        self._used, self._over = 0, True
        self._took = 0.0  # seconds of the last call that a trajectory consists of
        self._tells_raw = False  # whether the environment itself says raw_reward, in this episode
        self._names: dict[Any, str] = {}
        self._numbers: dict[str, Any] = {}
        LASTING.meet(self._env)
        LASTING.begin()
        check_is_text_env(self._env, tag)
        self._takes = takes(self._env.reset)
        if all(callable(getattr(self._env, name, None)) for name in ("snapshot", "restore")):
            self.snapshot, self.restore = self._save, self._resume

    # -- episodes --------------------------------------------------------------------------------------

    def begin(self, seed: int, mode: str, layout: Any, dynamics: int | None) -> Anew:
        """Begins an episode; everything before is void."""
        start = perf_counter()
        offered = {"seed": seed, "mode": mode}
        offered |= {} if layout is None else {"layout": layout}
        offered |= {} if dynamics is None else {"dynamics": dynamics}
        if dynamics is not None and not self._takes("dynamics"):
            raise BadInput(
                f"{self._tag}: reset() of {type(self._env).__name__} takes no `dynamics`, so its members cannot differ "
                "after they began alike; leave dynamics: member out"
            )
        self._used, self._over, self._tells_raw = 0, False, False
        LASTING.begin()
        LASTING.say()
        self._env.reset(**{name: value for name, value in offered.items() if self._takes(name)})
        names = lookup_of(self._env)
        state = self._env.render()
        self._check(state)
        self._took = perf_counter() - start
        return Anew(Begun(state, () if names is None else tuple(names.values())))

    def turn(self, actions: Sequence[str]) -> Turned:
        """Carries out the valid ones of `actions`, as many as the budget has, up to the end of the episode."""
        start = perf_counter()
        if self._over:
            return None, [], 0, 0, {}, True, True, None
        valid = self._valid(actions)
        executed: list[Any] = []
        info: dict[str, Any] = {"raw_reward": 0.0}
        reward, done, state, failure = 0, False, None, None  # type: float, bool, Any, Failure | None
        try:
            for action in valid[: self._most - self._used]:
                gained, done, told = self._step(action)
                executed.append(action)
                reward += gained
                raw = info["raw_reward"]
                info |= told
                if "raw_reward" in told:
                    info["raw_reward"] = raw + _number(told["raw_reward"])
                    self._tells_raw = True
                if done:
                    break
            state = self._env.render()
            if type(state) is not str:
                self._check(state)
        except Exception as error:
            state, failure = None, self._failed(error, self._used + len(executed))
        self._took = perf_counter() - start
        self._used += len(executed)
        self._over = done or self._used >= self._most or failure is not None
        return state, executed, len(valid), reward, info, done, False, failure

    def _check(self, state: Any) -> None:
        check_is_state(state, f"{self._tag}: render() of {type(self._env).__name__}")

    @staticmethod
    def _failed(error: Exception, step: int) -> Failure:
        """What was done before it is not lost with it. What the engine has to say is the engine's."""
        if isinstance(error, PacelineError) and not isinstance(error, BadInput):
            raise error
        return Failure.of(error, step=step)

    def _step(self, action: Any) -> tuple[float, bool, Mapping[str, Any]]:
        """Reward, whether it is done, and what else there is to know."""
        answer = self._env.step(action)
        if type(answer) is tuple and len(answer) == 4 and type(answer[1]) is float and type(answer[3]) is dict:
            _, reward, done, info = answer  # as nearly always
            if isfinite(reward):
                return reward, bool(done), info
        if not isinstance(answer, tuple) or len(answer) != 4 or not isinstance(answer[3], (dict, Mapping)):
            raise BadInput(f"{self._tag}: step() of {type(self._env).__name__} gave {_mistake(answer)}")
        _, reward, done, info = answer
        if not _is_finite(reward):
            name = type(self._env).__name__
            raise BadInput(f"{self._tag}: step({action!r:.60}) of {name} gave a reward of {reward!r:.60}")
        return reward_of(reward), bool(done), info

    def _valid(self, actions: Sequence[str]) -> list[Any]:
        lookup = lookup_of(self._env)
        if lookup is None:
            return list(actions)
        if lookup != self._names:  # one that is set at the reset, or never changes
            self._names = dict(lookup)
            self._numbers = {name.lower(): number for number, name in lookup.items()}
        numbers, valid = self._numbers, []
        for action in actions:  # nearly always one, and a comprehension takes long to set up
            word = action.lower()
            if word in numbers:
                valid.append(numbers[word])
        return valid

    # -- looking ---------------------------------------------------------------------------------------

    def took(self) -> float:
        """Seconds of its last turn, or of the beginning. Not a part of a turn: it is never the same twice."""
        return self._took

    def show(self) -> Any:
        """What it looks like now."""
        return self._env.render()

    def facts(self) -> dict[str, Any]:
        """What reports want to know beyond the turns."""
        names = ("correct_answer", "max_tile")
        known = {name: getattr(self._env, name) for name in names if hasattr(self._env, name)}
        grid = getattr(self._env, "grid", None)
        if "max_tile" not in known and isinstance(grid, np.ndarray) and grid.size and grid.dtype.kind in "iuf":
            known["max_tile"] = grid.max()  # RAGEN's manager looks there
        return {**known, "tells_raw_reward": self._tells_raw}

    def close(self) -> None:
        """Ends the environment."""
        close = getattr(self._env, "close", None)
        if callable(close):
            close()

    def _save(self) -> Any:
        return self._used, self._over, self._tells_raw, self._env.snapshot()

    def _resume(self, state: Any) -> None:
        self._used, self._over, self._tells_raw, inner = state
        self._env.restore(inner)


def _is_finite(value: Any) -> bool:
    try:
        return isfinite(value)
    except (TypeError, ValueError, OverflowError):  # no number, or one that is too large
        return False


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _mistake(answer: Any) -> str:
    """What is wrong with the answer of a step, and what was expected."""
    if isinstance(answer, tuple) and len(answer) == 4:
        return f"{answer[3]!r:.60} for info, the last of (state, reward, done, info); expected a dict, {{}} will do"
    shape = f"a tuple of {len(answer)}" if isinstance(answer, tuple) else f"a {type(answer).__name__}"
    wraps = "paceline.adapters.text_envs.as_text_env wraps Gymnasium's five"
    return f"{shape}; expected (state, reward, done, info); {wraps}"
