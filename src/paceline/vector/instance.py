"""One env of a vector, where it lives: steps, begins again as the mode says, and writes what comes out into rows."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

import numpy as np
from gymnasium import Wrapper
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from paceline.engine import Anew
from paceline.engine.randomness.generators import GENERATORS
from paceline.errors import BadInput, brief
from paceline.kinds import check_gymnasium
from paceline.lasting import LASTING
from paceline.seeds import seed_of, sequence
from paceline.spaces import Array, Writer, leaves, reader
from paceline.vector.described import described
from paceline.vector.infos import CELLS, HEAD, SENT, InfoWriter, Told
from paceline.vector.recipe_classes import recipe_classes
from paceline.vector.saving import begins_afresh, pickled, twin, unpickled

Tasks = Callable[[int, int, np.random.Generator], Any]
"""(env, episode, generator) → the task of that episode."""

Options = tuple[dict[str, Any] | None] | None
"""The options of a reset; None: it is called without any, as envs may not know of options."""

Infos = list[dict[str, Any]]
_ndarray = np.ndarray
_WHOLE = slice(None)


@dataclass(frozen=True)
class Rules:
    """What all envs of a vector have in common.

    Attributes:
        autoreset: When an env begins again after an episode.
        seed: Root of the seeds and tasks of episodes that begin by themselves.
        reseed: Whether these episodes get seeds of their own; otherwise the env's own stream goes on.
        tasks: What episodes are asked to set up that are given no task; None: nothing.
        check: Whether observations are checked against their space.
        vector: Which vector it is, among all of this process and others.
    """

    autoreset: AutoresetMode = AutoresetMode.NEXT_STEP
    seed: int = 0
    reseed: bool = False
    tasks: Tasks | None = None
    check: bool = False
    vector: str = field(default_factory=lambda: uuid4().hex)


_LIVING: WeakValueDictionary[tuple[str, int], Instance] = WeakValueDictionary()
"""Those of this process, by vector and number."""


def living(vector: str, count: int) -> list[Any] | None:
    """The envs of a vector, if all of them live in this process."""
    found = [_LIVING.get((vector, number)) for number in range(count)]
    return [each.env for each in found if each is not None] if None not in found else None


class Rows:
    """The rows that one env writes, in the forms that are quickest to write; they are the same at every step."""

    def __init__(self, rows: Sequence[Array], actions: int, as_reward: Callable[[Any], float]) -> None:
        self.seen, self.tail = rows[actions:-1], rows[-1]
        self._as_reward = as_reward
        self.cells = self.tail[HEAD:]
        self.numbers: Any = self.tail.data
        self._whole: Any = self.tail.view(np.int64).data
        self._flags: Any = self.tail[1:3].view(np.bool_).data
        self.schema = SENT  # what stands there is of nobody's knowing: it is cleared by whoever writes first
        self.uneventful = False  # whether flags and schema say that nothing has happened

    def put(self, reward: Any, ended: bool, cut: bool) -> None:
        """Writes reward and flags."""
        self.put_reward(reward)
        self._flags[0], self._flags[8] = ended, cut
        self.uneventful = False

    def put_reward(self, reward: Any) -> None:
        """Writes the reward alone."""
        try:
            self.numbers[0] = reward
        except TypeError:  # an array with one number in it, say
            self.numbers[0] = self._as_reward(reward)

    def set_schema(self, number: int, cells: int) -> None:
        """Says what so many cells mean, until the next time. The others are cleared: rows follow from steps alone."""
        self.schema = number
        self._whole[3] = number
        self.cells[cells:] = 0.0

    def end(self, ended: bool, cut: bool) -> None:
        """Says that the episode has ended, and nothing else."""
        self._flags[0], self._flags[8] = bool(ended), bool(cut)
        if self.schema:
            self.set_schema(0, 0)
        self.uneventful = False

    def calm_down(self) -> None:
        """Says that nothing has happened; most steps follow one that said so too."""
        self._flags[0] = self._flags[8] = False
        if self.schema:
            self.set_schema(0, 0)
        self.uneventful = True


class Instance:
    """An env, and the rules by which it begins again.

    Args:
        make: Builds the env.
        number: Which env of the vector.
        rules: What all of them have in common.
    """

    def __init__(self, make: Callable[[], Any], number: int, rules: Rules) -> None:
        before = GENERATORS.peek()
        self._env = make()
        self._drew = bool(GENERATORS.touched(before))
        LASTING.meet(self._env)
        LASTING.begin()
        check_gymnasium(self._env, f"the recipe of env {number}", "make_vec takes Gymnasium envs", derived=True)
        self._number, self._rules = number, rules
        self._seed_if_unseeded()
        self._over = False
        self._kept: tuple[Any] | None = None  # the task that was given, and holds until another one is
        self._goes_on = rules.autoreset == AutoresetMode.NEXT_STEP
        self._at_once = rules.autoreset == AutoresetMode.SAME_STEP
        self._episode = self._step = 0
        self._seed: int | None = None  # of the last reset that had one, for messages
        self._infos = InfoWriter()
        actions = leaves(self._env.action_space, "a") or []
        self._actions = len(actions)
        self._read = reader(self._env.action_space, actions)
        self._single = len(actions) == 1
        self._writer = Writer(self._env.observation_space, f"env {number}", rules.check)
        self._usual: tuple[Any, Any] = self._writer.usual if self._single else (None, None)
        self._begins_afresh = begins_afresh(self._env)
        _LIVING[rules.vector, number] = self

    @property
    def env(self) -> Any:
        """The env itself."""
        return self._env

    def _seed_if_unseeded(self) -> None:
        """Gives the env a generator if its recipe leaves it without one, for a reset that is given no seed.

        Gymnasium would draw its seed from the system's entropy, and a rebuilt env would play another episode.
        """
        world = self._env.unwrapped
        if getattr(world, "_np_random", self) is None:  # to ask `np_random` would seed it
            seed = seed_of(self._rules.seed, "env", self._number) & 0x7FFFFFFF
            world._np_random, world._np_random_seed = seeding.np_random(seed)

    def about(self, as_data: bool = False) -> dict[str, Any]:
        """What the vector needs to know of it; as data, its spaces are described, and its spec stays here."""
        env = self._env
        world = platform.node(), os.getpid(), id(env.unwrapped)
        if as_data:
            return {
                "observation_space": described(env.observation_space),
                "action_space": described(env.action_space),
                "metadata": dict(env.metadata),
                "render_mode": env.render_mode,
                "spec": None,
                "world": world,
            }
        return {
            "observation_space": twin(env.observation_space),
            "action_space": twin(env.action_space),
            "metadata": dict(env.metadata),
            "render_mode": env.render_mode,
            "spec": twin(env.spec),
            "world": world,
        }

    # -- episodes -------------------------------------------------------------------------------------

    def reset(self, seed: int | None, options: Options, task: tuple[Any] | None) -> Any:
        """Begins anew because the caller says so. A seeded reset makes what was before void.

        Returns the observation, the info, and whether this or the constructor drew from a process-wide generator.
        """
        self._over, self._step = False, 0
        LASTING.begin()
        LASTING.say()
        self._episode, self._seed = (self._episode + 1, self._seed) if seed is None else (0, seed)
        before = GENERATORS.peek()
        task = task if task is not None else self._task()
        says_it_all = task is not None or self._kept is None  # else a task that was given before still holds
        begun = self._begin(seed, options, task)
        self._writer.look(begun[0], self._when)
        answer = (*begun, self._drew or bool(GENERATORS.touched(before)))
        return Anew(answer) if seed is not None and self._begins_afresh and says_it_all else answer

    def _begin(
        self, seed: int | None, options: Options = None, task: tuple[Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if task is not None:
            self._keep(task)
        given = self._with_task(options, task)
        options_of_it = {} if given is None else {"options": given[0]}
        try:
            begun = self._env.reset(seed=seed, **options_of_it)
        except Exception as error:
            self._say_where(error)
            raise
        return self._pair(begun)

    def _pair(self, answer: Any) -> tuple[Any, dict[str, Any]]:
        if isinstance(answer, tuple | list) and len(answer) == 2 and isinstance(answer[1], Mapping):
            return answer[0], answer[1]  # type: ignore[return-value]
        when = self._when()
        raise BadInput(f"env {self._number} gave {brief(answer)} at {when}: reset() must give (observation, info)")

    def _with_task(self, options: Options, task: tuple[Any] | None) -> Options:
        """The options of a reset, with this task, or with the one that is kept unless they have one themselves."""
        told = self._kept if task is None else task
        if told is None or self._has_setter:
            return options
        own = (options[0] if options else None) or {}
        if task is not None:
            return ({**own, "task": task[0]},)
        return ({"task": copy.deepcopy(told[0]), **own},)  # the env's own: it may change it

    @property
    def _has_setter(self) -> bool:
        return bool(self._env.has_wrapper_attr("set_task"))

    def _keep(self, task: tuple[Any]) -> None:
        """Gives the env a task for this and later episodes. Where the rules give each a task, it is for this one."""
        if self._rules.tasks is None:
            self._kept = copy.deepcopy(task)
        if self._has_setter:
            self._env.get_wrapper_attr("set_task")(task[0])

    def set_task(self, task: Any) -> None:
        """Gives the env a task between episodes.

        Raises:
            BadInput: it would be lost.
        """
        if self._rules.tasks is not None and not self._has_setter:
            raise BadInput(
                f"env {self._number} has no set_task, and is given a task by the tasks of make_vec whenever it begins: "
                'give it another with reset(options={"tasks": […]})'
            )
        self._keep((task,))

    def _begin_again(self) -> tuple[Any, dict[str, Any]]:
        """An episode that begins by itself: its seed and its task follow from env and episode, if they have any."""
        rules = self._rules
        self._episode, self._step = self._episode + 1, 0
        LASTING.begin()
        LASTING.say()
        if rules.tasks is None and not rules.reseed and self._kept is None:
            try:
                begun = self._env.reset()
            except Exception as error:
                self._say_where(error)
                raise
            usual = type(begun) is tuple and len(begun) == 2 and type(begun[1]) is dict
            return begun if usual else self._pair(begun)
        seed = seed_of(rules.seed, "episode", self._number, self._episode) & 0x7FFFFFFF if rules.reseed else None
        self._seed = self._seed if seed is None else seed
        return self._begin(seed, task=self._task())

    def _task(self) -> tuple[Any] | None:
        """The task of this episode, if the rules have any."""
        if self._rules.tasks is None:
            return None
        key = (self._number, self._episode)
        return (self._rules.tasks(*key, np.random.default_rng(sequence(self._rules.seed, "task", *key))),)

    # -- steps ----------------------------------------------------------------------------------------

    def step_rows(self, *rows: Array) -> Any:
        """Steps on rows: actions in; observation, reward, flags and the numbers of the info out.

        Returns the infos that fit into no row, if there are any.
        """
        return self.bind_step_rows(*rows)()

    def bind_step_rows(self, *rows: Array) -> Callable[[], Any]:
        """Gives `step_rows` on these rows. Hot: what is the same at every step is looked up here."""
        mine, read, writer = Rows(rows, self._actions, self._as_reward), self._read, self._writer
        given, seen, numbers = rows[0] if self._single else rows, rows[1], mine.numbers
        at_once, reseed, when = self._at_once, self._rules.reseed, self._when
        dtype, shape = self._usual
        line: Any = seen.data if shape is not None and len(shape) == 1 and dtype.isnative else None

        def step_once() -> Any:
            if self._over:
                reward, ended, cut = 0.0, False, False
                observation, info = self._next_episode()
                special = info or reseed
            else:
                self._step += 1
                try:
                    observation = self._env.step(read(given))  # all of it, under one name: another would keep it alive
                except Exception as error:
                    self._say_where(error)
                    raise
                try:
                    observation, reward, ended, cut, info = observation
                except (TypeError, ValueError):  # ours, not the env's: that would have come before
                    raise self._not_five(observation) from None
                special = type(info) is not dict or info
            if ended is False and cut is False:
                over = False
            else:
                ended, cut = self._as_flag("terminated", ended), self._as_flag("truncated", cut)
                over = ended or cut
            if special or (over and at_once):
                return self._write(mine, *self._judged(observation, reward, ended, cut, info))
            if over:
                self._over = True  # first: what it shows may be refused
            if line is not None and type(observation) is _ndarray:
                try:
                    line[_WHOLE] = observation  # most envs: one array in, one out; any other kind or shape is refused
                except (ValueError, BufferError):
                    writer.write(mine.seen, observation, when)
            elif type(observation) is _ndarray and observation.dtype == dtype and observation.shape == shape:
                seen[...] = observation
            else:
                writer.write(mine.seen, observation, when)
            if over:
                mine.end(ended, cut)
            elif not mine.uneventful:
                mine.calm_down()
            if type(reward) is float:
                numbers[0] = reward
            else:
                mine.put_reward(reward)
            return None

        return step_once

    def _write(self, mine: Rows, observation: Any, reward: Any, ended: bool, cut: bool, infos: Infos) -> Any:
        self._writer.write(mine.seen, observation, self._when)
        mine.put(reward, ended, cut)
        number = self._infos.write(infos[0], mine.cells) if len(infos) == 1 else SENT
        if number != mine.schema or number == SENT:
            mine.set_schema(number, len(infos[0]) if number > 0 else 0)
        told = infos if number == SENT else self._infos.news(number)
        if self._rules.reseed and self._step == 0 and self._begins_afresh:
            return Anew(told, state=("episode", self._episode, self._kept))
        return told

    def schema(self, number: int) -> Told:
        """What the numbers of an info mean."""
        return self._infos.told(number)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Infos]:
        """The same by message, for spaces that fit into no row."""
        if self._over:
            observation, info = self._next_episode()
            self._writer.look(observation, self._when)
            return self._judged(observation, 0.0, False, False, info)
        self._step += 1
        try:
            answer = self._env.step(action)
        except Exception as error:
            self._say_where(error)
            raise
        try:
            observation, reward, ended, cut, info = answer
        except (TypeError, ValueError):
            raise self._not_five(answer) from None
        flags = self._as_flag("terminated", ended), self._as_flag("truncated", cut)
        self._writer.look(observation, self._when)
        return self._judged(observation, self._as_reward(reward), *flags, info)

    def _not_five(self, answer: Any) -> BadInput:
        return BadInput(
            f"env {self._number} gave {brief(answer)} at {self._when()}: step() must give "
            "(observation, reward, terminated, truncated, info)"
        )

    def _as_reward(self, reward: Any) -> float:
        """A reward that is not plainly a number."""
        try:
            if reward is not None and not isinstance(reward, str | bytes):  # which NumPy would take
                return float(np.asarray(reward, np.float64).reshape(()))
        except (TypeError, ValueError):
            pass
        when = self._when()
        raise BadInput(f"env {self._number} gave the reward {brief(reward)} at {when}: it must be a number")

    def _as_flag(self, name: str, flag: Any) -> bool:
        """A flag of a step: a truth of Python's or NumPy's, or 0 or 1."""
        if isinstance(flag, bool | np.bool_):
            return bool(flag)
        array = np.asarray(flag)
        if array.shape == () and array.dtype.kind in "biu" and array in (0, 1):
            return bool(array)
        raise BadInput(f"env {self._number} gave {name}={brief(flag)} at {self._when()}: it must be True or False")

    def _say_where(self, error: Exception) -> None:
        """What an env raises is its own; where it stood is a note. One that is raised again says where it is now."""
        mark = f"env {self._number}, at "
        with contextlib.suppress(Exception):  # an error of the user's may refuse notes
            error.__notes__ = [note for note in getattr(error, "__notes__", ()) if not note.startswith(mark)]
            error.add_note(mark + self._when())

    def _when(self) -> str:
        """Where the env stands, for messages: its step, its episode, and the seed that these are counted from."""
        step = f"step {self._step} of episode" if self._step else "reset of episode"
        return f"{step} {self._episode} ({'no seed' if self._seed is None else f'seed {self._seed}'})"

    def whereabouts(self) -> str:
        """Where the env stands, for the error if its worker is lost."""
        return f"env {self._number} after {self._when()}"

    def _judged(
        self, observation: Any, reward: Any, ended: Any, cut: Any, info: dict[str, Any]
    ) -> tuple[Any, Any, bool, bool, Infos]:
        """What a step comes to: if it was the last of an episode, the mode says what happens."""
        if type(info) is not dict and not isinstance(info, Mapping):  # the usual first: an ABC's check is slow
            raise BadInput(f"env {self._number} gave the info {brief(info)} at {self._when()}: it must be a dict")
        if not (ended or cut):
            return observation, reward, False, False, [info]
        if self._at_once:
            final = {"final_obs": observation, "final_info": info}
            observation, info = self._begin_again()
            return observation, reward, bool(ended), bool(cut), [final, info]
        self._over = True
        return observation, reward, bool(ended), bool(cut), [info]

    def _next_episode(self) -> tuple[Any, dict[str, Any]]:
        """The step after an episode's last one begins the next, whatever the action."""
        assert self._goes_on, f"env {self._number} is stepped after its episode has ended: reset it first"
        self._over = False
        return self._begin_again()

    # -- the rest -------------------------------------------------------------------------------------

    def render(self) -> Any:
        """What the env draws."""
        return self._env.render()

    def ask(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a method of the env, or gives an attribute."""
        self._begins_afresh = False  # what was done to it has to be done again, whatever seeds come after it
        found = self._env.get_wrapper_attr(name)
        return found(*args, **kwargs) if callable(found) else found

    def look(self, name: str) -> tuple[Any, ...]:
        """An attribute of the env, in a tuple, or () for a method, which stays where its env is."""
        found = self._env.get_wrapper_attr(name)
        return () if inspect.isroutine(found) else (found,)

    def has(self, name: str) -> bool:
        """Whether the env, or a wrapper of it, has this attribute."""
        return bool(self._env.has_wrapper_attr(name))

    def read(self, name: str) -> Any:
        """What a method gives that changes nothing."""
        return self._env.get_wrapper_attr(name)()

    def is_wrapped(self, wrapper: type) -> bool:
        """Whether the env wears this wrapper."""
        layer = self._env
        while isinstance(layer, Wrapper):
            if isinstance(layer, wrapper):
                return True
            layer = layer.env
        return False

    def put(self, name: str, value: Any) -> None:
        """Sets an attribute of the env."""
        self._begins_afresh = False
        self._env.set_wrapper_attr(name, value)

    def close(self) -> None:
        """Ends the env."""
        self._env.close()

    def snapshot(self) -> Any:
        """What `restore` needs. Whether there is such a thing is found out here and not before.

        Raises:
            NotImplementedError: a pickle of the env may not be all of it.
        """
        packed = pickled(self._env)
        if packed is None:
            raise NotImplementedError(f"env {self._number} cannot be saved as it is now")
        counts = self._over, self._episode, self._step, self._seed
        return "whole", packed, *counts, self._infos, self._begins_afresh, self._kept

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot, or from the beginning of an episode."""
        if state[0] == "whole":
            _, packed, self._over, self._episode, self._step, self._seed = state[:6]
            self._infos, self._begins_afresh, self._kept = state[6:]
            classes = recipe_classes(self._env)
            self._env.close()
            self._env = unpickled(packed, classes)
            return
        # The last run began this episode, or ended the one before it: either way, begin it again.
        _, episode, kept = state
        self._episode, self._over = episode - 1, False
        if kept is not None:
            self._keep(kept)
        _, info = self._begin_again()
        self._infos.write(info, np.zeros(CELLS))  # what its numbers mean may still be asked
