"""Heads: how the numbers that a network gives become actions, with their log-probabilities.

    network ──► parameters [rows, size] + noise [rows, noise size] ──► raw actions ──► actions of the space

The noise is given, never drawn here: each row has a generator of its own. What an algorithm needs to find the
probability of an action again under other weights is the raw action, before it is squashed or clipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from paceline.errors import BadInput
from paceline.learning.encoding import Amounts, Numbers
from paceline.spaces import Array

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_LOG_TWO = math.log(2)


class Head(Protocol):
    """What makes actions of a network's parameters."""

    size: int
    """How many parameters a row has."""
    spread: int
    """How many numbers of noise do not depend on what is seen, and are learned: a vector beside the network."""
    encoded: int
    """How many numbers an encoded action has."""

    def noise(self, rng: np.random.Generator) -> Any:
        """Draws the noise of one action."""

    def noises(self, rows: int) -> Array:
        """Room for the noise of all rows: that of a row which is not sampled."""

    def raw(self, parameters: Tensor, log_std: Tensor, noise: Tensor, sampled: bool) -> Tensor:
        """Raw actions: drawn by the noise, or the likeliest ones."""

    def log_prob(self, parameters: Tensor, log_std: Tensor, raw: Tensor) -> Tensor:
        """Log-probabilities [...] of raw actions."""

    def entropy(self, parameters: Tensor, log_std: Tensor) -> Tensor:
        """Entropies [...]; of a squashed Gaussian that before it is squashed, for the other has no formula."""

    def actions(self, raw: Array) -> Any:
        """What the environments get, a value per row."""

    def raw_of(self, columns: Mapping[str, Any]) -> Array:
        """The raw actions of a rollout, from its columns."""

    def encode(self, actions: Any) -> Array:
        """Actions as inputs of a network: [rows, …] ──► [rows, encoded]."""


class Categorical:
    """Numbered actions: a score for each, and a softmax over them. A raw action is the number, from 0."""

    spread = 0

    def __init__(self, space: Any) -> None:
        self._numbers = Numbers(space)
        self.size = self.encoded = self._numbers.size

    def noise(self, rng: np.random.Generator) -> Any:
        """A number in 0 … 1."""
        return rng.random()

    def noises(self, rows: int) -> Array:
        """One number per row."""
        return np.zeros((rows, 1))

    def raw(self, parameters: Tensor, log_std: Tensor, noise: Tensor, sampled: bool) -> Tensor:
        """The first number at which the probabilities, added up, exceed the noise; or the likeliest."""
        if not sampled:
            return parameters.argmax(-1)
        heights = parameters.double().softmax(-1).cumsum(-1)
        return (heights[..., :-1] <= noise * heights[..., -1:]).sum(-1)

    def log_prob(self, parameters: Tensor, log_std: Tensor, raw: Tensor) -> Tensor:
        """Log-probabilities [...] of numbers [...]."""
        return parameters.log_softmax(-1).gather(-1, raw.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, parameters: Tensor, log_std: Tensor) -> Tensor:
        """Entropies [...]."""
        logs = parameters.log_softmax(-1)
        return -(logs.exp() * logs).sum(-1)

    def actions(self, raw: Array) -> Any:
        """Plain ints."""
        return (raw + self._numbers.start).tolist()

    def raw_of(self, columns: Mapping[str, Any]) -> Array:
        """The numbers of the actions themselves."""
        numbers: Array = np.asarray(columns["actions"], np.int64) - self._numbers.start
        return numbers

    def encode(self, actions: Any) -> Array:
        """One place for each number."""
        return self._numbers.encode(actions)


class Gaussian:
    """Amounts: a mean for each part, and a learned spread. Bounded parts are squashed by tanh, or clipped.

    Args:
        space: A Box.
        squash: "tanh", which needs bounds, or "clip".
    """

    def __init__(self, space: Any, squash: str) -> None:
        if squash not in ("tanh", "clip"):
            raise BadInput(f"squash={squash!r}: give 'tanh' or 'clip'")
        self._amounts, self._tanh = Amounts(space), squash == "tanh"
        if self._tanh and not self._amounts.bounded.all():
            raise BadInput(f"squash='tanh' needs an upper and a lower bound, and {space} has none: give squash='clip'")
        self.size = self.encoded = self.spread = self._amounts.size

    def noise(self, rng: np.random.Generator) -> Any:
        """Standard normal numbers [size]."""
        return rng.standard_normal(self.size)

    def noises(self, rows: int) -> Array:
        """As many numbers per row as an action has parts."""
        return np.zeros((rows, self.size))

    def raw(self, parameters: Tensor, log_std: Tensor, noise: Tensor, sampled: bool) -> Tensor:
        """Mean + spread · noise [..., size], or the mean."""
        return parameters + log_std.exp() * noise.to(parameters.dtype) if sampled else parameters

    def log_prob(self, parameters: Tensor, log_std: Tensor, raw: Tensor) -> Tensor:
        """Log-densities [...] of raw actions [..., size]; under tanh those of what it makes of them, in −1 … 1."""
        off = (raw - parameters) * (-log_std).exp()
        logs = -0.5 * off**2 - log_std - _HALF_LOG_TWO_PI
        if self._tanh:  # log(1 − tanh²), as it stays exact far from 0
            logs = logs - 2 * (_LOG_TWO - raw - torch.nn.functional.softplus(-2 * raw))
        return logs.sum(-1)

    def entropy(self, parameters: Tensor, log_std: Tensor) -> Tensor:
        """Entropies [...] of the Gaussian itself."""
        each = log_std + 0.5 + _HALF_LOG_TWO_PI
        return each.sum(-1).expand(parameters.shape[:-1])

    def actions(self, raw: Array) -> Any:
        """An array [rows, …] of the space's own shape and type, within its bounds."""
        return self._amounts.decode(np.tanh(raw) if self._tanh else raw)

    def raw_of(self, columns: Mapping[str, Any]) -> Array:
        """What the policy has said beside its actions."""
        raw: Array = np.asarray(columns["raw_action"], np.float32)
        return raw

    def encode(self, actions: Any) -> Array:
        """Bounded parts scaled to −1 … 1."""
        return self._amounts.encode(actions)


def head_for(space: Any, squash: str) -> Head:
    """The head for an action space.

    Raises:
        BadInput: it is neither a Discrete nor a Box.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Categorical(space)
    if isinstance(space, spaces.Box):
        return Gaussian(space, squash)
    raise BadInput(f"networks act in a Discrete or a Box, and this seat's action space is {space}")
