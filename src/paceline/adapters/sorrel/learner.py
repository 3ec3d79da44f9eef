"""A learner: a model with its memory, and `train_step`; where the model lives, or as a copy of it in a worker.

    learn(changes) ── apply ──► the copy is what the model is ── train_step() ──► Learned: a loss, and what has changed

A training fails if it raises, calls sys.exit(), or gives a loss or weights that are not finite. It leaves what it has
changed until then, as in Python; but after one that diverges weights and optimizer are what they were before it. With
on_failure "retry" it has not happened: model, memory and random streams are what they were before it, when it is tried
again and when that fails too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from paceline.adapters.sorrel.replica import Replica
from paceline.adapters.sorrel.weights import Weights
from paceline.engine import Anew, OwnedStreams
from paceline.errors import Diverged, MemberExit
from paceline.seeds import Key
from paceline.types import Failure

_OWNER = "learn"


@dataclass(frozen=True)
class Learned:
    """What came of a training.

    Attributes:
        figures: The loss, if `train_step` returned a number.
        changes: What it has changed.
        failure: Why it came to no end, if it failed.
        drew: Whether it has drawn from process-wide generators.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    changes: bytes = b""
    failure: Failure | None = None
    drew: bool = False


class Learner:
    """The member of a pool that trains one model.

    Args:
        agent: The name of its agent.
        on_failure: As in `Parallel`.
    """

    def __init__(self, agent: str, on_failure: str) -> None:
        self._agent, self._on_failure = agent, on_failure
        self._replica: Replica | None = None
        self._streams: OwnedStreams | None = None

    def begin(self, model: Any, states: Mapping[str, Any] | None) -> Anew:
        """Takes a copy of the model.

        Args:
            model: The copy.
            states: Where the streams of its training stand; None: it is known never to draw, and swaps none.

        Returns:
            The names of what it holds; see `Replica.names`.
        """
        self._replica, self._streams = Replica(model, "learner"), None
        if states is not None:
            self._streams = OwnedStreams({})
            self._streams.put(_OWNER, states)
        return Anew(self._replica.names())

    def learn(self, changes: bytes) -> Learned:
        """Trains the copy once, as it is after these changes."""
        assert self._replica is not None
        self._replica.apply(changes)
        learned = train(self._replica.root, self._replica, self._agent, self._on_failure, self._streams, _OWNER)
        return Learned(learned.figures, self._replica.changes(), learned.failure, learned.drew)

    def states(self) -> Mapping[str, Any] | None:
        """Where the streams of its training stand; None: it has been given none."""
        return None if self._streams is None else self._streams.states(_OWNER)

    def snapshot(self) -> Any:
        """Everything, to be restored elsewhere."""
        return self._replica, self.states()

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._replica, states = state
        self._streams = None
        if states is not None:
            self._streams = OwnedStreams({})
            self._streams.put(_OWNER, states)


def train(
    model: Any, replica: Replica | None, agent: str, on_failure: str, streams: OwnedStreams | None, owner: Key
) -> Learned:
    """Calls `train_step` of a model.

    Args:
        model: The model.
        replica: What takes back all its changes, with on_failure "retry"; what it is now has been agreed on.
        agent: Whose it is.
        on_failure: As in `Parallel`.
        streams: The streams of process-wide generators; None: they are left alone.
        owner: Whose of them.

    Raises:
        Exception: what `train_step` raised, `MemberExit` or `Diverged`, with on_failure "fail".
    """
    before = None if streams is None else streams.states(owner)
    left = 2 if on_failure == "retry" else 1
    failure = None
    while left:
        try:
            loss = _checked_step(model, streams, owner)
        except Exception as error:
            if on_failure == "fail":
                raise
            failure, left = Failure.of(error, agent), left - 1
            if on_failure == "retry" and replica is not None:
                replica.revert()
                if streams is not None and before is not None:
                    streams.put(owner, before)
        else:
            drew = streams is not None and streams.states(owner) != before
            return Learned({} if loss is None else {"loss": loss}, drew=drew)
    return Learned(failure=failure)


def _checked_step(model: Any, streams: OwnedStreams | None, owner: Key) -> float | None:
    """A training, and its loss.

    Raises:
        Diverged: loss or weights are not finite; the weights are what they were.
        MemberExit: it has called sys.exit().
    """
    weights = Weights(model)
    try:
        with nullcontext() if streams is None else streams.of(owner):
            loss = _number(model.train_step())
    except SystemExit as error:
        raise MemberExit(f"train_step() called sys.exit({error.code!r})") from None
    if weights.are_spoiled():
        what = "it made weights that are not finite"
    elif loss is not None and not math.isfinite(loss):
        what = f"its loss is {loss}"
    else:
        return loss
    weights.put_back()
    raise Diverged(f"{what}; the weights are what they were before it")


def _number(loss: Any) -> float | None:
    """A loss as a number; None if it is none."""
    try:
        return float(loss.item() if hasattr(loss, "item") else loss)
    except (TypeError, ValueError, RuntimeError):
        return None
