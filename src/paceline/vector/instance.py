"""One env of a vector, where it lives: steps, begins again as the mode says, and writes what comes out into rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils import EzPickle
from gymnasium.vector import AutoresetMode

from paceline.engine import Anew
from paceline.seeds import seed_of, sequence
from paceline.vector.infos import SENT, InfoWriter, Schema
from paceline.vector.leaves import Array, Writer, leaves, reader

Tasks = Callable[[int, int, np.random.Generator], Any]
"""(env, episode, generator) → the task of that episode."""

Infos = list[dict[str, Any]]


@dataclass(frozen=True)
class Rules:
    """What all envs of a vector have in common.

    Attributes:
        autoreset: When an env begins again after an episode.
        seed: Root of the seeds and tasks of episodes that begin by themselves.
        reseed: Whether these episodes get seeds of their own; otherwise the env's own stream goes on.
        tasks: What these episodes are asked to set up; None: nothing.
        check: Whether observations are checked against their space.
    """

    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP
    seed: int = 0
    reseed: bool = False
    tasks: Tasks | None = None
    check: bool = False


class Instance:
    """An env, and the rules by which it begins again.

    Args:
        make: Builds the env.
        number: Which env of the vector.
        rules: What all of them have in common.
    """

    def __init__(self, make: Callable[[], Any], number: int, rules: Rules) -> None:
        self._env = make()
        self._number, self._rules = number, rules
        self._over = False
        self._episode = self._step = 0
        self._infos = InfoWriter()
        actions, seen = leaves(self._env.action_space, "a") or [], leaves(self._env.observation_space, "o") or []
        self._actions = len(actions)
        self._read = reader(self._env.action_space, actions)
        self._writer = Writer(seen, self._env.observation_space, f"env {number}", rules.check)
        if rules.reseed or _can_be_saved(self._env):
            # Only then, because the engine takes whoever has these two for one that can be saved.
            self.snapshot, self.restore = self._save, self._go_on_from

    def about(self) -> dict[str, Any]:
        """What the vector needs to know of it."""
        env = self._env
        return {
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "metadata": dict(env.metadata),
            "render_mode": env.render_mode,
            "spec": env.spec,
        }

    # -- episodes -------------------------------------------------------------------------------------

    def reset(self, seed: int | None, options: dict[str, Any] | None, task: tuple[Any] | None) -> Any:
        """Begins anew because somebody says so. A seeded reset makes what was before void."""
        self._over, self._step = False, 0
        self._episode = self._episode + 1 if seed is None else 0
        answer = self._begin(seed, options, task)
        return answer if seed is None else Anew(answer)

    def _begin(
        self, seed: int | None, options: dict[str, Any] | None = None, task: tuple[Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if task is not None:
            setter = getattr(self._env.unwrapped, "set_task", None)
            if setter is not None:
                setter(task[0])
            else:
                options = {**(options or {}), "task": task[0]}
        observation, info = self._env.reset(seed=seed, options=options)
        return observation, info

    def _begin_again(self) -> tuple[Any, dict[str, Any]]:
        """An episode that begins by itself: its seed and its task follow from env and episode, if they have any."""
        rules = self._rules
        self._episode, self._step = self._episode + 1, 0
        key = (self._number, self._episode)
        seed = seed_of(rules.seed, "episode", *key) & 0x7FFFFFFF if rules.reseed else None
        if rules.tasks is None and seed is None:
            observation, info = self._env.reset()
            return observation, info
        task = None
        if rules.tasks is not None:
            task = (rules.tasks(*key, np.random.default_rng(sequence(rules.seed, "task", *key))),)
        return self._begin(seed, None, task)

    # -- steps ----------------------------------------------------------------------------------------

    def step_rows(self, *rows: Array) -> Any:
        """Steps on rows: actions in; observation, reward, flags and the numbers of the info out.

        Returns the infos that fit into no row, if there are any.
        """
        reward, ended, cut, schema, cells = rows[-5:]
        began = self._episode
        observation, reward[...], ended[...], cut[...], infos = self._advance(self._read(rows[: self._actions]))
        self._writer.write(rows[self._actions : -5], observation, self._step)
        number = self._infos.write(infos[0], cells) if len(infos) == 1 else SENT
        schema[...] = number
        told = infos if number == SENT else None
        if self._rules.reseed and self._episode != began:
            return Anew(told, state=("episode", self._episode))
        return told

    def schema(self, number: int) -> Schema:
        """What the numbers of an info mean."""
        return self._infos.schema(number)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Infos]:
        """The same by message, for spaces that fit into no row."""
        return self._advance(action)

    def _advance(self, action: Any) -> tuple[Any, Any, Any, Any, Infos]:
        mode = self._rules.autoreset
        if self._over and mode == AutoresetMode.NEXT_STEP:
            self._over = False
            observation, info = self._begin_again()
            return observation, 0.0, False, False, [info]
        assert not self._over, f"env {self._number} is stepped after its episode has ended: reset it first"
        self._step += 1
        observation, reward, ended, cut, info = self._env.step(action)
        if not (ended or cut):
            return observation, reward, ended, cut, [info]
        if mode == AutoresetMode.SAME_STEP:
            final = {"final_obs": observation, "final_info": info}
            observation, info = self._begin_again()
            return observation, reward, ended, cut, [final, info]
        self._over = True
        return observation, reward, ended, cut, [info]

    # -- the rest -------------------------------------------------------------------------------------

    def render(self) -> Any:
        """What the env draws."""
        return self._env.render()

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the env, or gives an attribute."""
        found = self._env.get_wrapper_attr(name)
        return found(*args, **kwargs) if callable(found) else found

    def put(self, name: str, value: Any) -> None:
        """Sets an attribute of the env."""
        self._env.set_wrapper_attr(name, value)

    def close(self) -> None:
        """Ends the env."""
        self._env.close()

    def _save(self) -> Any:
        if not _can_be_saved(self._env):
            raise TypeError(f"env {self._number} cannot be saved")  # its episodes begin with seeds of their own
        return "whole", pickle.dumps(self._env, 5), self._over, self._episode, self._step

    def _go_on_from(self, state: Any) -> None:
        if state[0] == "whole":
            _, packed, self._over, self._episode, self._step = state
            self._env.close()
            self._env = pickle.loads(packed)
            return
        # The last run began this episode, or ended the one before it: either way, begin it again.
        self._episode = state[1] - 1
        self._over = False
        self._begin_again()


def _can_be_saved(env: Any) -> bool:
    """Whether a pickle of the env is the env. What is built anew when it is unpickled has lost its state."""
    layer = env
    while layer is not None:
        if isinstance(layer, EzPickle):
            return False
        layer = getattr(layer, "env", None)
    try:
        packed = pickle.dumps(env, 5)
        return pickle.dumps(pickle.loads(packed), 5) == packed
    except Exception:
        return False
