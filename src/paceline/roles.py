"""What users write: the shapes that Paceline expects of a policy, and of an environment that speaks text."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from paceline.types import Acted, Seat


@runtime_checkable
class Policy(Protocol):
    """A mind for one seat. It is built by a factory, `factory(seat)` or `factory()`, in the worker where it lives.

    An object or a plain callable `obs -> action` that is given in place of a factory is copied there, a function with
    its closure and defaults. A policy may also have:

    - `reset(seed)`: begins an episode; every random number of the episode follows from `seed`.
    - `snapshot() -> state` and `restore(state)`: then it can be moved and rebuilt without replaying its episode.
    - `tell(reward, terminated, truncated, final_observation)`: the outcome of its last action; the final observation is
      None unless the episode ended for this seat.
    - `close()`.

    A factory that declares `reuse = True` says that `reset(seed)` makes its policies as new: each worker builds one per
    seat, and not one per episode.
    """

    def act(self, obs: Any) -> Any:
        """Answers an observation with an action of the seat's action space, or with a `types.Acted`."""


@runtime_checkable
class RowPolicy(Protocol):
    """A mind for all seats of one policy at once; its state, if any, is kept by row.

    The number of rows is fixed for the whole run and each seat keeps its row, because the bits of a forward pass
    depend on both. A factory declares such policies before it is called, by an attribute `act_batch`: a class that has
    the method does. A row policy may also have:

    - `begin(rows, seeds)`: the rows with these numbers begin an episode, each with a seed of its own. Then one policy
      may serve several episodes at once; if its factory declares `begin`, as a class does, a worker builds it once.
    - `reset(seed)`, if it has no `begin`: an episode begins. Then each episode has a policy of its own.
    - `tell_rows(rows, rewards, terminated, truncated)`: the outcomes of the last actions in these rows, as arrays. Its
      factory declares it as it declares `act_batch`.
    - `take_rows(rows) -> state` and `put_rows(rows, state)`: what is kept in these rows, taken out and put in.
    - `weights() -> arrays` and `load(version, weights)`: a new version of a network travels as its arrays alone.
    - `close()`.
    """

    def act_batch(
        self, obs: Sequence[Any], seats: Sequence[Seat | None], mask: np.ndarray[Any, Any], rngs: Sequence[Any]
    ) -> Sequence[Any] | Acted:
        """Answers the rows where `mask` is true; the others are padding and must touch no state.

        Args:
            obs: An observation per row; rows of padding repeat some other row's.
            seats: Who sits in each row; None for padding.
            mask: Which rows are asked.
            rngs: A `numpy.random.Generator` per row; draw from a row's own only, and only if it is asked.

        Returns:
            An action per row, or a `types.Acted` with an action and extras per row.
        """


@runtime_checkable
class Window(Protocol):
    """The rows of one agent that an update learns from; `len()` counts them. No other agent's rows are in it.

    Columns are `observations`, `actions`, `rewards`, `terminations`, `truncations` and the extras that came with the
    actions, a row for each action; `ends` and `final_observations`, a row for each end of an episode.
    """

    @property
    def columns(self) -> Mapping[str, Any]:
        """Name → array, in time order: all rows that are kept. What is not read is not copied."""

    @property
    def new(self) -> Mapping[str, Any]:
        """The same, of the rows since the epoch in which the agent was last updated."""

    @property
    def rng(self) -> np.random.Generator:
        """This update's own generator."""

    def sample(self, count: int, *, steps: int = 1, discount: float = 1.0) -> dict[str, Any]:
        """Draws rows, with replacement, from this update's own generator.

        Args:
            count: How many.
            steps: How many rows a reward is added up over, at the most: up to an end of the episode.
            discount: What a reward counts one row later.

        Returns:
            The columns of these rows; `rewards` added up; `next_observations`, what was seen after the last row that
            was added; `discounts`, what a value there counts: a power of `discount`, 0 where the episode terminated.
        """

    def sequences(self, count: int, length: int, *, lead: int = 0) -> dict[str, Any]:
        """Draws parts of episodes, from this update's own generator: for learners with a memory.

        Args:
            count: How many.
            length: How many rows each has from a drawn row on, at the most: up to the end of the episode.
            lead: How many rows before that row come with it, at the most: from the first of the episode that is kept.

        Returns:
            The columns, and `next_observations`, of `count` times `lead + length` rows, one sequence after another;
            `mask` [count, lead + length] says which are rows of the episode. The others repeat its first or last one.
        """

    def __len__(self) -> int:
        """How many rows there are."""


@runtime_checkable
class Learner(Protocol):
    """A policy that learns from what its own seat has seen, done and got. It outlives its episodes.

    A learner may also have `reset(seed)`, and `weights() -> arrays` with `load(version, weights)`: then a new version
    travels to copies that act as its arrays alone; without these two a snapshot carries it.
    """

    def act(self, obs: Any) -> Any:
        """Answers an observation with an action of the seat's action space, or with a `types.Acted`."""

    def learn(self, window: Window) -> Mapping[str, float]:
        """Learns from the rows of its own agent; gives figures such as a loss."""

    def snapshot(self) -> Any:
        """Everything that it is: weights, optimizer, counters, generators."""

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""


@runtime_checkable
class TextEnv(Protocol):
    """A world that is played in words; it is built by a factory, `factory(env_config)`, in the worker where it lives.

    Everything random follows from the seed of `reset`; the global generators are not touched. An environment may also
    have:

    - `action_lookup`: number → name of the actions; then names are looked up before `step`, and unknown ones are
      invalid. None, or no such attribute: `step` is given the text itself.
    - `layout(config, seed, mode)`, a class or static method: the dear part of a reset as a picklable value. It is made
      once for a group, in any worker, and given to `reset(seed=…, mode=…, layout=…)` of each member. `config` is what
      the factory is given, or what `Config.read` makes of it if the class has such a thing.
    - `snapshot() -> state` and `restore(state)`, and `close()`.
    """

    def reset(self, seed: int, mode: str = "train") -> Any:
        """Begins an episode, and gives the first state: text, or an RGB array."""

    def step(self, action: Any) -> tuple[Any, float, bool, Mapping[str, Any]]:
        """Carries one action out; gives the state, the reward, whether it is over, and an info with `success`."""

    def render(self) -> Any:
        """Gives the state as it is shown."""


@runtime_checkable
class TextPolicy(Protocol):
    """A mind that answers in words. `answer` may also be a plain function; then it is run in a thread.

    It may have `close()`, plain or a coroutine.
    """

    def answer(self, turn: Any) -> Awaitable[Any]:
        """Answers a `types.Turn` with a `types.Reply`, or just its text."""
