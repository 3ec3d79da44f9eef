"""One trajectory as the caller sees it: RAGEN's cache and status, kept up to date turn by turn.

Begun ──► history: [{state, actions_left}]
Turned ─► history: [{state, actions_left, actions, reward, info, llm_response, …}, {state, actions_left}]
error ──► the same, with `failure`, and the trajectory is over: never dropped
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.errors import BadInput, CallTimeout, TrajectoryTimeout
from paceline.seeds import digest
from paceline.types import Failure

_SHORTEST = 1e-3  # seconds that a call gets at the least

Turned = tuple[Any, list[Any], int, float, dict[str, Any], bool, bool, Failure | None]
"""What one turn did: state, actions that were carried out, how many were valid, reward, info, whether it is done,
whether it was over before (then nothing was done), and what the environment raised in the middle of it."""


Said = tuple[Sequence[str], str, str]
"""What an agent answered in one turn: its actions, and the words that they were found in, cleaned and raw."""


@dataclass
class EnvStatus:
    """How a trajectory stands.

    Attributes:
        truncated: Whether it ended without success.
        terminated: Whether it has ended.
        num_actions: How many actions were carried out.
        rewards: One per turn: what its actions were given, added up from 0. An int where the environment gave ints.
        seed: What its environment was reset with.
        failure: Why it could not go on, if that is how it ended: an exception, a lost worker, a hang.
        cut: Why it was ended from outside ("deadline", "quorum"), if it was. Such an end depends on time.
        late: How many inputs came after its end; they did nothing.
    """

    truncated: bool = False
    terminated: bool = False
    num_actions: int = 0
    rewards: list[float] = field(default_factory=list)
    seed: int | None = None
    failure: Failure | None = None
    cut: str = ""
    late: int = 0

    @property
    def success(self) -> bool:
        """Whether it ended well."""
        return self.terminated and not self.truncated


class Trajectory:
    """One environment's cache and status, from reset to reset.

    Args:
        env_id: Which environment.
        group_id: Its group.
        tag: Its kind.
        most: How many actions it may have.
        seed: What its environment is reset with.
        call_limit: Seconds that one call of its environment may take; None: as the pool has it.
        time_limit: Seconds that it may take in all, in its environment and with its policy; None: as many as it likes.
    """

    def __init__(
        self,
        env_id: int,
        group_id: int,
        tag: str,
        most: int,
        seed: int,
        call_limit: float | None = None,
        time_limit: float | None = None,
    ) -> None:
        self.env_id, self.most = env_id, most
        self.time_limit, self._call_limit = time_limit, call_limit
        self._seconds = 0.0  # of its own: it does not count when it waits for others
        self.status = EnvStatus(seed=seed)
        self.names: tuple[str, ...] = ()
        self.tries_in_vain = 0  # how often the question was asked that was never answered, if that is how it ended
        self.cache: dict[str, Any] = {
            "env_id": env_id,
            "history": [],
            "group_id": group_id,
            "tag": tag,
            "penalty": 0,
        }

    @property
    def over(self) -> bool:
        """Whether nothing more can be done."""
        return self.status.terminated

    @property
    def history(self) -> list[dict[str, Any]]:
        """A state per turn, and the last one. Whoever was given the cache may have put another list there."""
        history: list[dict[str, Any]] = self.cache["history"]
        return history

    @property
    def time_left(self) -> float | None:
        """Seconds; None: there is no limit."""
        return None if self.time_limit is None else max(0.0, self.time_limit - self._seconds)

    @property
    def deadline(self) -> float | None:
        """Seconds that its next call may take; None: as the pool has it."""
        left = self.time_left
        if left is None or (self._call_limit is not None and self._call_limit <= left):
            return self._call_limit
        return max(left, _SHORTEST)

    def count(self, seconds: float) -> None:
        """Adds to the time of its own."""
        self._seconds += seconds

    def spend(self, seconds: float) -> None:
        """Counts what a call took. If that is too much, and it has not come to an end, it fails."""
        self.count(seconds)
        if self.time_limit is not None and self._seconds > self.time_limit and not self.over:
            self.fail(Failure.of(self.out_of_time("it went on for"), step=self.status.num_actions))

    def out_of_time(self, what: str) -> TrajectoryTimeout:
        """The error of a trajectory that has taken too long; `what` is the beginning of its message."""
        return TrajectoryTimeout(
            f"{what} {self._seconds:.3g} s in all; its trajectory_timeout is {self.time_limit:g} s"
        )

    def read(self, error: BaseException) -> BaseException:
        """What the error of a call means here: whose limit it was that a call which was ended has overrun."""
        left = self.time_left
        if not isinstance(error, CallTimeout) or left is None or self.deadline == self._call_limit:
            return error
        self.count(left)
        mine = self.out_of_time("its environment was ended in the middle of a call, after")
        mine.__cause__ = error
        return mine

    def begin(self, begun: Any) -> None:
        """Takes the first state in (a `Begun`)."""
        self.names = begun.names
        self.history.append(_shown(begun.state, self.most))

    def take(self, turned: Turned, said: Said, penalty: float) -> None:
        """Takes one turn in."""
        state, executed, valid, reward, info, done, late, failure = turned
        status = self.status
        if late or status.terminated:
            status.late += 1
            return
        if valid != len(said[0]) or not valid:
            self.cache["penalty"] += penalty
        if valid:
            self._enter(said, executed, reward, info, state)
        else:
            self._enter(said, executed, reward, {**info, "manager_invalid_action": True}, state)
            self.history[-1]["manager_invalid_action"] = True
        if failure is not None:
            self.fail(failure)
        elif done:
            self.end(truncated=not info.get("success", False))
        elif status.num_actions >= self.most:
            self.end(truncated=True)

    def lose(self, failure: Failure, said: Said) -> None:
        """A turn of which nothing came back: its worker died, or hung."""
        if self.over:
            self.status.late += 1
            return
        self._enter(said, [], 0, {}, None)
        self.fail(failure)

    def fail(self, failure: Failure) -> None:
        """It is over, and says why. It may have failed before it began."""
        if not self.history:
            self.history.append({"state": "", "actions_left": 0})
        self.status.failure = failure
        self.history[-1]["failure"] = failure.kind
        self.end(truncated=True)

    def cut(self, why: str) -> None:
        """Ends it from outside, if it has not ended."""
        if self.over:
            return
        self.status.cut = why
        self.history[-1]["cut"] = why
        self.end(truncated=True)

    def end(self, *, truncated: bool) -> None:
        """It is over."""
        self.status.terminated, self.status.truncated = True, truncated

    def digest(self) -> str:
        """Says whether two trajectories are the same: all but wall times, pids and the words of errors."""
        status = self.status
        ends = (status.truncated, status.terminated, status.num_actions, list(status.rewards), status.seed, status.cut)
        told = {key: self.cache[key] for key in ("env_id", "group_id", "tag", "penalty")}
        turns = [{key: _plain(value) for key, value in turn.items() if key != "metrics"} for turn in self.history]
        return digest([told, ends, turns])

    def _enter(self, said: Said, executed: list[Any], reward: float, info: dict[str, Any], state: Any) -> None:
        """Completes the last turn, and begins the next: with the same state if there is no other. Hot."""
        actions, response, raw_response = said
        status, history, count = self.status, self.cache["history"], len(executed)
        turn = history[-1]
        status.num_actions += count
        status.rewards.append(reward)
        if executed and type(executed[0]) is str and executed == [*actions[:count]]:
            executed = [*actions[:count]]  # a long text once, not as it came back too
        turn["actions"], turn["reward"], turn["info"] = executed, reward, info
        turn["llm_response"], turn["llm_raw_response"] = response, raw_response
        history.append(_shown(turn["state"] if state is None else state, self.most - status.num_actions))


def _shown(state: Any, left: int) -> dict[str, Any]:
    """A turn that begins: its state, and how many actions are left."""
    if isinstance(state, str):
        return {"state": state, "actions_left": left}
    images = pictures(state)
    return {"state": "<images>" * len(images), "images": images, "actions_left": left}


def check_is_state(state: Any, who: str) -> None:
    """Raises `BadInput` for what nobody can show."""
    several = isinstance(state, list | tuple) and all(isinstance(frame, np.ndarray) for frame in state)
    if not (several or isinstance(state, str | np.ndarray)):
        raise BadInput(f"{who} gave {state!r:.60}; a state is text, an RGB array or a list of them")


def pictures(state: Any) -> list[Any]:
    """An RGB array, or several, as Pillow's images."""
    frames = [state] if isinstance(state, np.ndarray) else state
    try:
        from PIL import Image
    except ImportError:
        raise BadInput("this environment shows pictures, which need Pillow: pip install 'paceline[report]'") from None
    return [Image.fromarray(frame) for frame in frames]


def _plain(value: Any) -> Any:
    """Pictures count by their pixels."""
    if isinstance(value, list) and value and hasattr(value[0], "getpixel"):
        return [np.asarray(image) for image in value]
    return value
