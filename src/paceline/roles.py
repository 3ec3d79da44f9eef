"""What users write: the shapes that Paceline expects of a policy."""

from __future__ import annotations

from collections.abc import Sequence
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
