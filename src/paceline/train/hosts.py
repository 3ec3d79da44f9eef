"""What lives in the pools of a training: agents that act, and learners, as banks of one or more agents.

    Recipe ──► Acting: begin(epoch), act(observations), load(weights)      a version of the weights, in every world
           └─► Learning: learn(spans) ──► Learned: figures and weights     the learner itself, and the optimizer

An agent acts with copies, one in each world, and learns with one that never acts: a version travels from the one to the
others as weights, or as a snapshot. So what acts in an epoch is known by its number, wherever both live.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paceline.engine import OwnStreams, SharedArrays
from paceline.errors import Diverged
from paceline.roles import Window
from paceline.seeds import sequence
from paceline.spaces import checked
from paceline.train.banks import Recipe, Single, Weights
from paceline.train.fetched import Fetched
from paceline.train.rings import Rows, Span
from paceline.train.windows import RowWindow
from paceline.types import Acted, Failure

Name = tuple[int, str]
"""A world, and an agent in it."""


class Acting(OwnStreams):
    """The acting half of a bank, in every world.

    Args:
        recipe: Makes the bank.
        worlds: How many worlds there are.
    """

    def __init__(self, recipe: Recipe, worlds: int) -> None:
        self._bank = recipe.make(recipe.seats, worlds)
        self._spaces = {seat.agent: seat.action_space for seat in recipe.seats}

    def begin(self, epoch: int, seeds: Mapping[str, list[int]]) -> None:
        """An epoch begins."""
        self._bank.begin(epoch, seeds)

    def memoryless(self) -> bool:
        """Whether its agents may be asked ahead, and again."""
        return self._bank.memoryless

    def act(
        self, observations: Mapping[Name, Any], again: Collection[Name] = ()
    ) -> tuple[dict[Name, Any], dict[Name, Mapping[str, Any]]]:
        """Answers those that are due. Returns actions, and what came beside them.

        Args:
            observations: What they see.
            again: Those whose last action was not taken; see `learning.bank.Bank.act`.
        """
        asked = {(agent, world): seen for (world, agent), seen in observations.items()}
        answers = self._bank.act(asked, again=[(agent, world) for world, agent in again])
        actions: dict[Name, Any] = {}
        extras: dict[Name, Mapping[str, Any]] = {}
        for (agent, world), answer in answers.items():
            if isinstance(answer, Acted):
                extras[world, agent] = answer.extras
                answer = answer.action
            actions[world, agent] = checked(answer, self._spaces[agent], f"the learner of agent {agent!r}")
        return actions, extras

    def load(self, weights: Weights, versions: Mapping[str, int]) -> None:
        """Takes another version of some agents: its weights and its number."""
        if isinstance(self._bank, Single):
            self._bank.load(weights, versions)
        else:
            self._bank.load(weights)

    def snapshot(self) -> Any:
        """Everything that acts, also in the middle of an epoch."""
        return self._bank.copies() if isinstance(self._bank, Single) else self._bank.snapshot()

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        if isinstance(self._bank, Single):
            self._bank.become(state)
        else:
            self._bank.restore(state)

    def close(self) -> None:
        """Ends the bank."""
        _close(self._bank)


@dataclass(frozen=True)
class Learned:
    """What came of an update.

    Attributes:
        figures: What the learner said: a loss, say.
        weights: The version that it made.
        failure: Why there is none, if there is none.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    weights: Any = None
    failure: Failure | None = None


class Learning(OwnStreams):
    """The learning half of a bank.

    Args:
        recipe: Makes the bank.
        seed: Root of everything random.
        on_failure: "retry": an update that raises is tried once more, from where it began; "freeze": agents whose
            updates raise are told, and the others of the bank learn; "fail": the first of the errors is raised.
    """

    def __init__(self, recipe: Recipe, seed: int, on_failure: str = "fail") -> None:
        self._bank, self._seed, self._on_failure = recipe.make(recipe.seats, 1), seed, on_failure
        self._rows = {seat.agent: Rows(seat) for seat in recipe.seats}
        self._fetched = Fetched()

    def learn(self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]) -> dict[str, Learned]:
        """Runs one update of some agents.

        Args:
            updates: Agent → the number of its update, and its rows.
            shared: Agent → the memory that they are in.
        """
        failed = None
        if len(updates) > 1:
            try:
                return self._tried(updates, shared)
            except Exception as error:
                failed = error
        # A stack that raises is as it was before, and its agents become the same bits one by one: that shows whose
        # error it is.
        found = self._one_by_one(updates, shared)
        if failed is not None and self._on_failure != "freeze":
            raise failed
        return found

    def _one_by_one(
        self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]
    ) -> dict[str, Learned]:
        found: dict[str, Learned] = {}
        for agent, update in updates.items():
            try:
                found |= self._tried({agent: update}, shared)
            except Exception as error:
                if self._on_failure != "freeze":
                    error.add_note(f"in {named(update[0], agent)}")
                    raise
                found[agent] = Learned(failure=Failure.of(error, agent))
        return found

    def _tried(self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]) -> dict[str, Learned]:
        before = self._bank.snapshot() if self._on_failure == "retry" else None
        try:
            return self._once(updates, shared)
        except Exception:
            if before is None:
                raise
            self._bank.restore(before)
            return self._once(updates, shared)

    def _once(self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]) -> dict[str, Learned]:
        windows = self._windows(updates, shared)
        figures = self._bank.learn(windows)
        weights = self._bank.weights()
        return {
            agent: _checked(agent, updates[agent][0], figures[agent], weights[agent], windows[agent])
            for agent in updates
        }

    def _windows(
        self, updates: Mapping[str, tuple[int, Span]], shared: Mapping[str, SharedArrays]
    ) -> dict[str, Window]:
        return {
            agent: RowWindow(
                self._rows[agent],
                self._fetched.arrays(agent, shared[agent], span),
                span,
                np.random.default_rng(sequence(self._seed, "update", agent, number)),
            )
            for agent, (number, span) in updates.items()
        }

    def reach(self, shared: SharedArrays) -> bool:
        """Whether what main has written can be read here; what cannot is an error."""
        shared.fetch()
        return bool(shared.arrays["reached"][0])

    def weights(self) -> Weights:
        """A version of every agent."""
        return self._bank.weights()

    def snapshot(self) -> Any:
        """Everything that is learned."""
        return self._bank.snapshot()

    def restore(self, state: Any) -> None:
        """Goes on from a snapshot."""
        self._bank.restore(state)

    def close(self) -> None:
        """Ends the bank."""
        _close(self._bank)


def named(number: int, agent: str) -> str:
    """An update, as messages name it."""
    return f"update {number} of agent {agent!r}"


def _close(bank: Any) -> None:
    if hasattr(bank, "close"):
        bank.close()


def _checked(agent: str, number: int, figures: Mapping[str, float], weights: Any, window: Window) -> Learned:
    """A version with numbers that are none is a failure: it would act, and spoil every later update."""
    odd = next((name for name, value in figures.items() if not np.isfinite(value)), None)
    if odd is None and _is_finite(weights):
        return Learned(figures, weights)
    what = f"figure {odd!r} is {figures[odd]}" if odd is not None else "its weights have numbers that are not finite"
    seen = all(_is_finite(window.columns[name]) for name in ("observations", "final_observations"))
    advice = "lower the rate, or clip gradients" if seen else "it was given observations that are not finite"
    error = Diverged(f"{named(number, agent)} diverged: {what}; {advice}")
    return Learned(figures, None, Failure.of(error, agent))


def _is_finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_finite(part) for part in value.values())
    if isinstance(value, list | tuple):
        return all(_is_finite(part) for part in value)
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, float | np.floating | np.ndarray) and np.asarray(value).dtype.kind == "f":
        return bool(np.isfinite(value).all())
    return True
