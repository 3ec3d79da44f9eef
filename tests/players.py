"""Policies and small worlds that the tests of evaluation play. Workers import this module by name."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

# -- worlds ------------------------------------------------------------------------------------------------


class Walk(gymnasium.Env):
    """A Gymnasium env: every number that it gives follows from its seed and from all actions so far."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self, length: int = 12) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time, self.place = 0, np.zeros(2, np.float32)
        return self.place, {}

    def step(self, action: int) -> Any:
        self.time += 1
        self.place += self.np_random.normal(size=2).astype(np.float32) * (int(action) + 1)
        return self.place, float(self.place.sum()), self.time >= self.length, False, {"time": self.time}


class Meeting:
    """A parallel env by protocol, without any base class: agents talk, and each sees what all have said.

    Args:
        agents: How many there are.
        length: After how many steps all are truncated.
        leave: Agent number → after how many steps it leaves.
        seen: The observation space of everybody; or a list with one for each.
        done: The action space; or a list.
    """

    metadata: dict[str, Any] = {"name": "meeting"}  # noqa: RUF012

    def __init__(
        self, agents: int = 3, length: int = 10, leave: dict[int, int] | None = None, seen: Any = None, done: Any = None
    ) -> None:
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        self.length, self.leave = length, leave or {}
        self._seen = seen or spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self._done = done or spaces.Discrete(4)

    def observation_space(self, agent: str) -> Any:
        return self._seen[self._number(agent)] if isinstance(self._seen, list) else self._seen

    def action_space(self, agent: str) -> Any:
        return self._done[self._number(agent)] if isinstance(self._done, list) else self._done

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        self.rng, self.time, self.said = np.random.default_rng(seed), 0, np.zeros(3)
        return self._all(self.show), self._all(lambda _: {})

    def step(self, actions: dict[str, Any]) -> Any:
        self.time += 1
        self.said = self.rng.normal(size=3) + sum(total(action) * (n + 1) for n, action in enumerate(actions.values()))
        here = list(self.agents)
        ended = {agent: self.leave.get(self._number(agent)) == self.time for agent in here}
        cut = dict.fromkeys(here, self.time >= self.length)
        answer = (
            {agent: self.show(agent) for agent in here},
            {agent: float(self.said[0]) * (self._number(agent) + 1) for agent in here},
            ended,
            cut,
            {agent: {"turns": self.time, "name": agent, "quiet": False} for agent in here},
        )
        self.agents = [agent for agent in here if not ended[agent] and not cut[agent]]
        return answer

    def show(self, agent: str) -> Any:
        return fill(self.observation_space(agent), float(self.said.sum()) + self._number(agent))

    def close(self) -> None:
        pass

    def _number(self, agent: str) -> int:
        return int(agent.rpartition("_")[2])

    def _all(self, give: Callable[[str], Any]) -> dict[str, Any]:
        return {agent: give(agent) for agent in self.agents}


def fill(space: Any, number: float) -> Any:
    """A value of a space that follows from a number."""
    if isinstance(space, spaces.Dict):
        return {name: fill(part, number + place) for place, (name, part) in enumerate(space.items())}
    if isinstance(space, spaces.Tuple):
        return tuple(fill(part, number + place) for place, part in enumerate(space))
    if isinstance(space, spaces.Discrete):
        return int(space.start + int(number * 1000) % space.n)
    if isinstance(space, spaces.MultiBinary | spaces.MultiDiscrete):
        return np.zeros(space.shape, space.dtype)
    if isinstance(space, spaces.Text):
        return "abc"
    return np.full(space.shape, number, space.dtype)


def total(action: Any) -> float:
    """A number that depends on all of an action."""
    if isinstance(action, dict):
        return sum(total(part) * (place + 2) for place, part in enumerate(action.values()))
    if isinstance(action, tuple | list):
        return sum(total(part) * (place + 2) for place, part in enumerate(action))
    return float(np.sum(action))


class Liar(Meeting):
    """Shows something else than its space declares, to its second agent, from the fourth step of every episode on
    whose seed is odd."""

    def __init__(self, how: str = "shape", **options: Any) -> None:
        super().__init__(**options)
        self.how = how

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.odd = seed is not None and seed % 2 == 1
        return super().reset(seed)

    def show(self, agent: str) -> Any:
        if agent == "agent_1" and self.time >= 4 and self.odd:
            return np.zeros(4) if self.how == "shape" else np.array(["a", "b", "c"])
        return super().show(agent)


class Breaks(Meeting):
    """Raises in its fourth step, if its seed is odd."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.odd = seed is not None and seed % 2 == 1
        return super().reset(seed)

    def step(self, actions: dict[str, Any]) -> Any:
        if self.odd and self.time == 3:
            raise ArithmeticError("the world has come to its end")
        return super().step(actions)


def turns(length: int = 9) -> Any:
    """An AEC env of our own: three agents, one after another; the second leaves early."""
    from pettingzoo import AECEnv

    class Turns(AECEnv):
        metadata: dict[str, Any] = {"name": "turns", "is_parallelizable": False}  # noqa: RUF012

        def __init__(self) -> None:
            self.possible_agents = ["north", "east", "south"]
            self.render_mode = None

        def observation_space(self, agent: str) -> Any:
            return spaces.Box(-np.inf, np.inf, (2,), np.float64)

        def action_space(self, agent: str) -> Any:
            return spaces.Discrete(3)

        def observe(self, agent: str) -> Any:
            return np.array([self.value, float(self.possible_agents.index(agent))])

        def reset(self, seed: int | None = None, options: Any = None) -> None:
            self.agents = list(self.possible_agents)
            self.rng, self.time, self.value = np.random.default_rng(seed), 0, 0.0
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
            self.terminations = dict.fromkeys(self.agents, False)
            self.truncations = dict.fromkeys(self.agents, False)
            self.infos = {agent: {} for agent in self.agents}
            self.agent_selection = self.agents[0]

        def step(self, action: Any) -> None:
            who = self.agent_selection
            if self.terminations[who] or self.truncations[who]:
                self._was_dead_step(action)
                return
            self.time += 1
            self.value += float(self.rng.normal()) * (int(action) + 1)
            self._cumulative_rewards[who] = 0.0
            self.rewards = {agent: self.value if agent == who else 0.0 for agent in self.agents}
            if self.time == 5:
                self.terminations["east"] = True
            if self.time >= length:
                self.truncations = dict.fromkeys(self.agents, True)
            self.agent_selection = self.agents[(self.agents.index(who) + 1) % len(self.agents)]
            self._accumulate_rewards()
            self._deads_step_first()

    return Turns()


# -- policies ----------------------------------------------------------------------------------------------


class Counter:
    """Its actions follow from how often it was asked, and from all that it has seen."""

    def __init__(self, seat: Any) -> None:
        self.space, self.calls, self.sum = seat.action_space, 0, 0.0

    def reset(self, seed: int) -> None:
        self.calls, self.sum = 0, float(seed % 7)

    def act(self, obs: Any) -> Any:
        self.calls += 1
        self.sum += total(obs)
        return fill(self.space, self.calls + abs(self.sum) % 1.0)


class Saved(Counter):
    """The same, able to be saved."""

    def snapshot(self) -> Any:
        return self.calls, self.sum

    def restore(self, state: Any) -> None:
        self.calls, self.sum = state


class Dice(Counter):
    """Draws from the generators that belong to the process."""

    def act(self, obs: Any) -> Any:
        return fill(self.space, random.random() + float(np.random.rand()))


class LateDice(Counter):
    """Does so from its sixth action on."""

    def act(self, obs: Any) -> Any:
        self.calls += 1
        return fill(self.space, self.calls if self.calls < 6 else random.random() + float(np.random.rand()))


class WaitingDice(LateDice):
    """The same, and it waits, so that auto chooses threads."""

    def act(self, obs: Any) -> Any:
        time.sleep(0.006)
        self.calls += 1
        return fill(self.space, self.calls if self.calls < 16 else random.random())


class Squad:
    """A factory whose policies share a board: each writes down what it has seen, and reads what the others wrote."""

    together = True

    def __init__(self) -> None:
        self.board: list[float] = []

    def __call__(self, seat: Any) -> Any:
        return _Mate(self.board, seat)


class _Mate:
    def __init__(self, board: list[float], seat: Any) -> None:
        self.board, self.space = board, seat.action_space

    def act(self, obs: Any) -> Any:
        self.board.append(total(obs))
        return fill(self.space, len(self.board) + abs(sum(self.board)) % 1.0)


class Rows:
    """Answers in batches, keeps a state in each row, and draws from the rows' generators."""

    def __init__(self, seat: Any) -> None:
        self.space = seat.action_space
        self.state: list[float] | None = None

    def reset(self, seed: int) -> None:
        self.state, self.base = None, float(seed % 5)

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[Any]:
        self.state = self.state or [self.base] * len(obs)
        return [self._row(row, obs[row], rngs[row]) if mask[row] else None for row in range(len(obs))]

    def _row(self, row: int, obs: Any, rng: Any) -> Any:
        assert self.state is not None
        self.state[row] += total(obs) + rng.random() + row  # the row is part of what it says: it must stay the same
        return fill(self.space, abs(self.state[row]))


class SavedRows(Rows):
    """The same, able to be saved."""

    def snapshot(self) -> Any:
        return list(self.state) if self.state else None, self.base

    def restore(self, state: Any) -> None:
        self.state, self.base = state


class ToldRows:
    """Rows that begin by themselves, and whose actions follow from all rewards and ends so far."""

    def __init__(self, seat: Any, raises: bool = False) -> None:
        self.space, self.raises = seat.action_space, raises
        self.state: dict[int, float] = {}

    def begin(self, rows: Any, seeds: Any) -> None:
        self.state.update((row, float(seed % 5)) for row, seed in zip(rows, seeds, strict=True))

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[Any]:
        return [fill(self.space, abs(self.state[row])) if mask[row] else None for row in range(len(obs))]

    def tell_rows(self, rows: Any, rewards: Any, terminated: Any, truncated: Any) -> None:
        assert (rewards.dtype, terminated.dtype, truncated.dtype) == (np.float64, np.bool_, np.bool_)
        for row, reward, end, cut in zip(rows, rewards, terminated, truncated, strict=True):
            self.state[row] += 0.7 * reward + end + 2 * cut
        if self.raises:
            raise Stumble("told too much", len(rows))


class Told:
    """The same for one seat."""

    def __init__(self, seat: Any) -> None:
        self.space, self.state = seat.action_space, 0.0

    def act(self, obs: Any) -> Any:
        return fill(self.space, abs(self.state))

    def tell(self, reward: float, terminated: bool, truncated: bool, final_observation: Any) -> None:
        self.state += 0.7 * reward + terminated + 2 * truncated


class RowsThatRaise(Rows):
    """Raises when it is shown too much; or gives a wrong action in that row."""

    def __init__(self, seat: Any, limit: float = 40.0, wrong: bool = False) -> None:
        super().__init__(seat)
        self.limit, self.wrong = limit, wrong

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[Any]:
        bad = [row for row in np.flatnonzero(mask) if total(obs[row]) > self.limit]
        answers = super().act_batch(obs, seats, mask, rngs)
        if bad and not self.wrong:
            raise Stumble("too much", len(bad))
        for row in bad:
            answers[row] = 99
        return answers


def makes_rows(seat: Any) -> Any:
    """A function does not say that its policies answer in batches."""
    return Rows(seat)


def first_or_second(obs: Any) -> int:
    """A plain function is a policy."""
    return int(total(obs) > 0)


class NoSeat:
    """Built without a seat."""

    def __init__(self) -> None:
        self.calls = 0

    def act(self, obs: Any) -> int:
        self.calls += 1
        return self.calls % 3


class Locked:
    """A factory that cannot travel: it holds a lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, seat: Any) -> Any:
        with self.lock:
            return Counter(seat)


def keeps_a_log(path: Path) -> Callable[[Any], Any]:
    """A factory that cannot travel: it is a closure over an open file."""
    file = path.open("w")

    def make(seat: Any) -> Any:
        print(seat.agent, file=file, flush=True)
        return Counter(seat)

    make.file = file  # type: ignore[attr-defined]
    return make


class Says:
    """Always answers the same, right or wrong."""

    def __init__(self, seat: Any, what: Any = 0) -> None:
        self.what = what

    def act(self, obs: Any) -> Any:
        return self.what


class Slow(Counter):
    """Takes its time over every third action."""

    def act(self, obs: Any) -> Any:
        answer = super().act(obs)
        if self.calls % 3 == 0:
            time.sleep(0.03)
        return answer


class Sleepy(Counter):
    """Takes its time over every action: a run of it can be caught in the middle."""

    def act(self, obs: Any) -> Any:
        time.sleep(0.004)
        return super().act(obs)


class Unrepeatable(Counter):
    """Answers differently each time it is asked, as a language model does."""

    deterministic = False

    def act(self, obs: Any) -> Any:
        return int.from_bytes(os.urandom(1)) % 3


# -- policies that do harm -----------------------------------------------------------------------------------


class Stumble(Exception):
    """An exception that cannot be unpickled the usual way."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(f"{what} #{number}")
        self.number = number


class Harms(Counter):
    """Plays like Counter, but at one step of one mission's odd episodes, or of all, it does something bad.

    Args:
        seat: Where it sits.
        how: What it does.
        at: In which of its actions.
        agent: Only at this agent's seat; empty: at every one.
        once: A file: if it exists, nothing happens; it is made before the harm is done.
        until: A file: as soon as it exists, nothing happens any more.
        only: Only in this mission; empty: in all.
        spare: A process that must not be harmed: the one that compares.
    """

    def __init__(
        self,
        seat: Any,
        how: str = "raise",
        at: int = 4,
        agent: str = "",
        once: str = "",
        until: str = "",
        only: str = "",
        spare: int = 0,
    ) -> None:
        super().__init__(seat)
        self.how, self.at, self.once, self.until, self.spare = how, at, once, until, spare
        self.armed = agent in ("", seat.agent) and only in ("", seat.mission)

    def act(self, obs: Any) -> Any:
        answer = super().act(obs)
        if self.armed and self.calls == self.at and self._first() and os.getpid() != self.spare:
            harm(self.how)
        return answer

    def _first(self) -> bool:
        if self.until and Path(self.until).exists():
            return False
        if not self.once:
            return True
        try:
            Path(self.once).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class HarmfulRows(Rows):
    """The same for policies that answer in batches: once, in the fourth call."""

    def __init__(self, seat: Any, once: str, spare: int) -> None:
        super().__init__(seat)
        self.once, self.spare, self.calls = once, spare, 0

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[Any]:
        self.calls += 1
        if self.calls == 4 and os.getpid() != self.spare and not Path(self.once).exists():
            Path(self.once).touch()
            harm("sigkill")
        return super().act_batch(obs, seats, mask, rngs)


def harm(how: str) -> None:
    """Does something that no policy should do."""
    if how == "raise":
        raise Stumble("the policy has stumbled", 7)
    if how == "local":

        class Local(Exception):
            pass

        raise Local("of a class that nobody can import")
    if how == "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        os._exit(7)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "sys.exit":
        raise SystemExit(3)
    while how == "hang":
        time.sleep(60)


class RaisesInOdd(Counter):
    """Raises in the fifth action of episodes whose second observation says that they are odd."""

    def act(self, obs: Any) -> Any:
        answer = super().act(obs)
        if self.calls == 2:
            self.odd = int(abs(total(obs)) * 1e6) % 2 == 1
        if self.calls == 5 and self.odd:
            raise Stumble("the policy has stumbled", 5)
        return answer


class CannotBeBuilt:
    """Fails in its constructor at the third seat: the survey, which builds the first, lets it pass."""

    def __init__(self, seat: Any) -> None:
        if seat.index == 2:
            raise Stumble("no constructor for seat", seat.index)

    def act(self, obs: Any) -> int:
        return 0
