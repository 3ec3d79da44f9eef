"""One careful look at an env in play: does it keep to its API, what does it touch, what does it cost?

    Player ──► Watched ──► env

Every reset and step is timed, its answer is checked, and the process-wide generators are watched meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.kinds import Kind, kind_of, wrong_kind
from paceline.seeds import digest
from paceline.testing.api import BrokenPromise, Complaints, about_reset, about_spaces, about_step
from paceline.testing.generators import Watch, strange_generators
from paceline.testing.playing import Player, is_parallel, is_text


@dataclass
class Look:
    """What was seen.

    Attributes:
        parallel: Whether it is a PettingZoo `ParallelEnv`.
        text: Whether it is a text environment.
        complaints: What is wrong with its API: "spaces", "reset", "step" or "close" → what it is about → words.
        seen: Which of these have been looked at.
        watch: Who touched the process-wide generators: the constructor, reset or step.
        changed: The first step that changed an observation returned before it.
        shared: The first step whose observation lies in the memory of the one before.
        observation: The last one.
        action: The last one.
        stopped: Whether it could not be played to the end.
        steps: How many steps were made.
        draws_with_pygame: Whether it holds something of pygame, which has one display for a process.
    """

    parallel: bool = False
    text: bool = False
    complaints: dict[str, dict[str, str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    watch: Watch = field(default_factory=Watch)
    changed: int | None = None
    shared: int | None = None
    observation: Any = None
    action: Any = None
    stopped: bool = False
    steps: int = 0
    draws_with_pygame: bool = False

    def complain(self, where: str, about: str, what: str) -> None:
        """Notes what is wrong; of a fault that comes with every step, the first time."""
        self.complaints.setdefault(where, {}).setdefault(about, what)


class Broken(Exception):
    """The env cannot be played on; the look holds the reason."""


def look_at(factory: Callable[[], Any], seed: int, steps: int, seconds: float = math.inf) -> Look:
    """Builds an env and plays it, looking at everything.

    Args:
        factory: Builds it.
        seed: Seeds it.
        steps: How many steps are made.
        seconds: After which no more are made.

    Raises:
        BadInput: what the factory builds is no env.
    """
    look = Look()
    with strange_generators(0):
        env = look.watch.run("constructor", factory)
        check_is_env(env)
        look.parallel, look.text = is_parallel(env), is_text(env)
        player = Player(Watched(env, look), seed)
        try:
            _check_spaces(look, env)
            player.start()
            begin = perf_counter()
            while look.steps < steps and (perf_counter() - begin < seconds or not look.steps):
                player.go_on(1)
                look.steps += 1
        except Broken:
            look.stopped = True
        except Exception as error:  # of a space, which is the env's own too
            look.stopped = True
            look.complain("spaces", "sample", f"No action could be sampled: {type(error).__name__}: {error}")
        look.draws_with_pygame = _holds_pygame(env)
        player.close()
    return look


def _holds_pygame(env: Any) -> bool:
    held = getattr(getattr(env, "unwrapped", env), "__dict__", {}).values()
    return any(type(each).__module__.partition(".")[0] == "pygame" for each in held)


def check_is_env(env: Any) -> None:
    """Tells what is no env by what it lacks.

    Raises:
        BadInput: says what it is, and what would be an env.
    """
    kind = kind_of(env)
    if kind is Kind.AEC:
        raise BadInput(
            f"{_kind(env)} is {kind.value}, whose agents act in turn; make it parallel: paceline.kinds.parallel_of(env)"
        )
    if kind is Kind.VECTOR:
        raise wrong_kind(env, "the factory", "envs are examined one at a time")
    missing = [f"{name}()" for name in ("reset", "step") if not callable(getattr(env, name, None))]
    if missing:
        raise BadInput(
            f"the factory gave an object of type {_kind(env)}, which has no {' and no '.join(missing)}; "
            "it must give a Gymnasium Env or a PettingZoo ParallelEnv"
        )


class Watched:
    """Stands in front of an env, and looks at every reset and step."""

    def __init__(self, env: Any, look: Look) -> None:
        self._env = env
        self._look = look
        self._step = 0
        self._last: list[tuple[Any, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, **seed: int) -> Any:
        """Resets the env."""
        answer = self._watched("reset", lambda: self._env.reset(**seed))
        self._note("reset", about_reset(self._env, answer))
        self._see(answer[0])
        return answer

    def step(self, action: Any) -> Any:
        """Steps the env."""
        self._step += 1
        self._look.action = action
        acting = list(self._env.agents) if self._look.parallel else []
        answer = self._watched("step", lambda: self._env.step(action))
        self._note("step", about_step(self._env, acting, answer))
        self._see(answer[0])
        return answer

    def close(self) -> None:
        """Closes the env, if it can be closed."""
        if callable(close := getattr(self._env, "close", None)):
            self._watched("close", close)

    def _watched(self, name: str, call: Callable[[], Any]) -> Any:
        self._look.seen.add(name)
        try:
            return self._look.watch.run(name, call)
        except BrokenPromise as error:
            self._complain(name, "form", str(error))
            raise Broken from error
        except Exception as error:
            self._complain(name, "error", f"{name}() raised {type(error).__name__}: {error}")
            raise Broken from error

    def _note(self, name: str, complaints: Complaints) -> None:
        for fatal, about, what in complaints:
            self._complain(name, about, what)
            if fatal:
                raise Broken

    def _complain(self, name: str, about: str, what: str) -> None:
        self._look.complain(name, about, what + self._where())

    def _where(self) -> str:
        return f" (at step {self._step})" if self._step else ""

    def _see(self, observation: Any) -> None:
        """Looks whether the observation before has been changed, or lies where this one lies."""
        look = self._look
        now = list(_arrays(observation))
        if look.changed is None and any(digest(array) != before for array, before in self._last):
            look.changed = self._step
        if look.shared is None and any(np.may_share_memory(a, b) for a, _ in self._last for b in now):
            look.shared = self._step
        self._last = [(array, digest(array)) for array in now]
        look.observation = observation


def _check_spaces(look: Look, env: Any) -> None:
    look.seen.add("spaces")
    for about, what in about_spaces(env):
        look.complain("spaces", about, what)
    if "spaces" in look.complaints:
        raise Broken


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _arrays(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
