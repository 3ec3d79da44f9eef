"""One careful look at an env in play: does it keep to its API, what does it touch, what does it cost?

    Player ──► Watched ──► env

Every reset and step is timed, its answer is checked, and the process-wide generators are watched meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import digest
from paceline.testing.api import about_reset, about_spaces, about_step
from paceline.testing.generators import Watch, strange_generators
from paceline.testing.playing import Player, is_parallel


@dataclass
class Cost:
    """What some calls took."""

    walls: list[float] = field(default_factory=list)
    cpu: float = 0.0
    queued: float = 0.0

    @property
    def seconds(self) -> float:
        """Wall seconds of a call: the median, which somebody else's load does not move."""
        return float(np.median(self.walls)) if self.walls else 0.0

    @property
    def cpu_share(self) -> float:
        """CPU time by wall time, without the time in which it wanted a CPU and got none."""
        own = sum(self.walls) - self.queued
        return min(1.0, self.cpu / own) if own > 0 else 1.0


@dataclass
class Look:
    """What was seen.

    Attributes:
        parallel: Whether it is a PettingZoo `ParallelEnv`.
        complaints: What is wrong with its API, by the finding ("spaces", "reset", "step", "close") it belongs to.
        watch: Who touched the process-wide generators: the constructor, reset or step.
        changed: The first step that changed an observation returned before it.
        shared: The first step whose observation lies in the memory of the one before.
        building: What it took to build it.
        resetting: What the resets took.
        stepping: What the steps took.
        observation: The last one.
        action: The last one.
        stopped: Whether it could not be played to the end.
    """

    parallel: bool = False
    complaints: dict[str, list[str]] = field(default_factory=dict)
    watch: Watch = field(default_factory=Watch)
    changed: int | None = None
    shared: int | None = None
    building: Cost = field(default_factory=Cost)
    resetting: Cost = field(default_factory=Cost)
    stepping: Cost = field(default_factory=Cost)
    observation: Any = None
    action: Any = None
    stopped: bool = False

    def complain(self, about: str, what: str) -> None:
        """Notes what is wrong, each thing once."""
        known = self.complaints.setdefault(about, [])
        if what not in known:
            known.append(what)


class Broken(Exception):
    """The env cannot be played on; the look holds the reason."""


def look_at(factory: Callable[[], Any], seed: int, steps: int) -> Look:
    """Builds an env and plays it, looking at everything.

    Raises:
        BadInput: what the factory builds is no env.
    """
    look = Look()
    with strange_generators(0):
        env = look.watch.run("constructor", lambda: _timed(look.building, factory))
        check_is_env(env)
        look.parallel = is_parallel(env)
        player = Player(Watched(env, look), seed)
        try:
            _check_spaces(look, env)
            player.play(steps)
        except Broken:
            look.stopped = True
        except Exception as error:  # of a space, which is the env's own too
            look.stopped = True
            look.complain("spaces", f"No action could be sampled: {type(error).__name__}: {error}")
        try:
            player.close()
        except Exception as error:
            look.complain("close", f"close() raised {type(error).__name__}: {error}")
    return look


def check_is_env(env: Any) -> None:
    """Tells what is no env by what it lacks.

    Raises:
        BadInput: says what it is, and what would be an env.
    """
    if hasattr(env, "agent_iter") and hasattr(env, "last"):
        raise BadInput(
            f"{_kind(env)} is a PettingZoo AEC env, whose agents act in turn; "
            "make it parallel: pettingzoo.utils.conversions.aec_to_parallel(env)"
        )
    missing = [f"{name}()" for name in ("reset", "step") if not callable(getattr(env, name, None))]
    if missing:
        raise BadInput(
            f"the factory gave a {_kind(env)}, which has no {' and no '.join(missing)}; "
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
        answer = self._watched("reset", self._look.resetting, lambda: self._env.reset(**seed))
        self._note("reset", about_reset(self._env, answer))
        self._see(answer[0])
        return answer

    def step(self, action: Any) -> Any:
        """Steps the env."""
        self._step += 1
        self._look.action = action
        acting = list(self._env.agents) if self._look.parallel else []
        answer = self._watched("step", self._look.stepping, lambda: self._env.step(action))
        self._note("step", about_step(self._env, acting, answer))
        self._see(answer[0])
        return answer

    def _watched(self, name: str, cost: Cost, call: Callable[[], Any]) -> Any:
        try:
            return self._look.watch.run(name, lambda: _timed(cost, call))
        except Exception as error:
            self._look.complain(name, f"{name}() raised {type(error).__name__}: {error}{self._where()}")
            raise Broken from error

    def _note(self, name: str, complaints: Iterator[tuple[bool, str]]) -> None:
        for fatal, what in complaints:
            # A fault of each step would be told two hundred times: the first of its kind is enough.
            if name not in self._look.complaints:
                self._look.complain(name, what + self._where())
            if fatal:
                raise Broken

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
    for complaint in about_spaces(env):
        look.complain("spaces", complaint)
    if "spaces" in look.complaints:
        raise Broken


def _timed(cost: Cost, call: Callable[[], Any]) -> Any:
    queued, cpu, wall = _queued(), process_time(), perf_counter()
    try:
        return call()
    finally:
        cost.walls.append(perf_counter() - wall)
        cost.cpu += process_time() - cpu
        cost.queued += _queued() - queued


def _queued() -> float:
    """Seconds in which this thread was ready to run and had no CPU; 0 where the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


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
