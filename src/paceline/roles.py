"""What users write: the shapes that Paceline expects of a policy, and of an environment that speaks text."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Policy(Protocol):
    """A mind for one seat. It is built by a factory, `factory(seat)` or `factory()`, in the worker where it lives.

    A policy may also have `snapshot() -> state` and `restore(state)`, and `close()`. A plain callable `obs -> action`
    counts as a policy without state.
    """

    def reset(self, seed: int) -> None:
        """Begins an episode. Every random number of the episode follows from `seed`."""

    def act(self, obs: Any) -> Any:
        """Answers an observation with an action of the seat's action space."""


@runtime_checkable
class BatchPolicy(Protocol):
    """A mind for all seats of one policy at once; its state, if any, is kept by row.

    The number of rows is fixed for the whole run and each seat keeps its row, because the bits of a forward pass
    depend on both.
    """

    def reset(self, seed: int) -> None:
        """Begins an episode: every row anew."""

    def act_batch(
        self, obs: Sequence[Any], seats: Sequence[Any], mask: np.ndarray[Any, Any], rngs: Sequence[Any]
    ) -> Sequence[Any]:
        """Answers the rows where `mask` is true; the others are padding and must touch no state.

        Args:
            obs: An observation per row; rows of padding repeat some other row's.
            seats: Who sits in each row (a `types.Seat`); None for padding.
            mask: Which rows are asked.
            rngs: A `numpy.random.Generator` per row; draw from a row's own only, and only if it is asked.
        """


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
