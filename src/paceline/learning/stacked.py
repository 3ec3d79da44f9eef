"""Networks of many agents as one: parameters [agents, …], one product for all of them, an Adam and a clip for each.

    rows [agents, size] ──► views by name [agents, …] ──► baddbmm ──► losses [agents] ──► gradient [agents, size]
        ▲                                                                                      │
        └─────────────── Adam, by each agent's own counter ◄── clipped by each agent's norm ◄──┘

An agent's bits depend on no other agent, on no place in the stack, and not on how many agents are in it, as long as
there are two: BLAS computes a lone product in another order. So a lone agent is stacked with itself (`padded`). On some
CPUs BLAS also computes a product in another order if it is written to another place within a vector, so `product`
widens products to whole vectors. Bits do depend on the number of rows of a batch, which therefore follows from the
configuration alone. Torch's fused Adam rounds the last elements of an array in another way than the others, so Adam is
written out here, and each agent's row is whole vectors long.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline.learning.networks import check_weights
from paceline.spaces import Array

_LINE = 16  # floats of a cache line: every part of every agent's row begins at one
_DECAYS = (0.9, 0.999)  # of Adam's two moments
_EPSILON = 1e-8
_SMALLEST_STACK = 2
_WRITTEN = ("weights", "first", "second")

Parameters = Mapping[str, Tensor]
"""Name → [agents, …]."""

_ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "relu": (torch.relu_, 6.0),
    "tanh": (torch.tanh_, 3.0),
}


def padded(agents: Sequence[int]) -> list[int]:
    """Agents as they are stacked: a lone one twice."""
    return list(agents) if len(agents) >= _SMALLEST_STACK else [*agents, *agents]


def narrowest(agents: Sequence[int], stack: int) -> tuple[int, int]:
    """The part of a stack from the first of these agents to the last, with a neighbour for a lone one: [first, end)."""
    first, end = min(agents), max(agents) + 1
    if end - first < _SMALLEST_STACK:
        first, end = (first, end + 1) if end < stack else (first - 1, end)
    return first, end


def stacked(parts: Sequence[Array], axis: int = 0) -> Tensor:
    """Arrays of agents as they are stacked, a lone one twice, in torch's own memory.

    That is aligned, which NumPy's need not be, and bits may depend on it.
    """
    parts = parts if len(parts) >= _SMALLEST_STACK else [*parts, *parts]
    shape = (*parts[0].shape[:axis], len(parts), *parts[0].shape[axis:])
    tensor = torch.from_numpy(np.zeros(0, parts[0].dtype)).new_empty(shape)
    np.stack(parts, axis, out=tensor.numpy())
    return tensor


def product(bias: Tensor, inputs: Tensor, weight: Tensor) -> Tensor:
    """Multiplies and adds, for all agents at once, to the same bits wherever an agent is in the stack.

    Each agent's part of the product begins at a vector's beginning, and so does its part of the gradient.

    Args:
        bias: [agents, outputs].
        inputs: [agents, rows, inputs].
        weight: [agents, inputs, outputs].

    Returns:
        [agents, rows, outputs].
    """
    rows, width = weight.shape[1:]
    above = -rows % _LINE if inputs.requires_grad else 0  # the gradient of the inputs is a product, too
    beside = -width % _LINE
    if above:
        inputs = pad(inputs, (0, above))
    if above or beside:
        weight = pad(weight, (0, beside, 0, above))
    if beside:
        bias = pad(bias, (0, beside))
    found = torch.baddbmm(bias.unsqueeze(1), inputs, weight)
    return found[..., :width].contiguous() if beside else found


@contextmanager
def one_thread() -> Iterator[None]:
    """Has torch compute on one thread, as it does in every worker. More of them make small products slower."""
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class Layers:
    """Linear layers with an activation between them, of all agents at once.

    Attributes:
        name: What the names of their parameters begin with.
        sizes: Inputs, hidden layers, outputs.
        activation: "relu" or "tanh".
        scale: How large the first outputs are; 1: they vary about as much as the inputs.
    """

    name: str
    sizes: tuple[int, ...]
    activation: str
    scale: float

    @functools.cached_property
    def _names(self) -> list[tuple[str, str]]:
        return [(f"{self.name}.{number}.weight", f"{self.name}.{number}.bias") for number in range(len(self.sizes) - 1)]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one agent's parameters; a weight is [inputs, outputs]."""
        found: dict[str, tuple[int, ...]] = {}
        for (weight, bias), (inputs, outputs) in zip(self._names, pairwise(self.sizes), strict=True):
            found |= {weight: (inputs, outputs), bias: (outputs,)}
        return found

    def first(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draws one agent's first parameters."""
        arrays = {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}
        last = len(self.sizes) - 2
        for number, (weight, _) in enumerate(self._names):
            gain = 3.0 * self.scale**2 if number == last else _ACTIVATIONS[self.activation][1]
            arrays[weight][:] = rng.uniform(-1, 1, arrays[weight].shape) * math.sqrt(gain / self.sizes[number])
        return arrays

    def __call__(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Answers [agents, rows, inputs] with [agents, rows, outputs]."""
        activate, _ = _ACTIVATIONS[self.activation]
        last = len(self.sizes) - 2
        for number, (weight, bias) in enumerate(self._names):
            inputs = product(parameters[bias], inputs, parameters[weight])
            if number < last:
                inputs = activate(inputs)
        return inputs


class Layout:
    """Where each parameter of an agent lies in its row of float32.

    Args:
        shapes: Name → shape of one agent's parameter.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.size = 0
        """How many floats a row has."""
        self._places: dict[str, slice] = {}
        for name, shape in self.shapes.items():
            count = math.prod(shape)
            self._places[name] = slice(self.size, self.size + count)
            self.size += math.ceil(count / _LINE) * _LINE

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """The parameters in rows [agents, size], by name; they share its memory."""
        return {name: rows[:, place].view(-1, *self.shapes[name]) for name, place in self._places.items()}

    def named(self, row: Array) -> dict[str, Array]:
        """The parameters in one agent's row [size], by name: copies."""
        return {name: row[place].reshape(self.shapes[name]).copy() for name, place in self._places.items()}

    def row(self, arrays: Mapping[str, Array], who: str) -> Array:
        """One agent's row [size] of its parameters.

        Raises:
            BadInput: names or shapes are others.
        """
        check_weights(arrays, self.shapes, who)
        row = np.zeros(self.size, np.float32)
        for name, place in self._places.items():
            row[place] = np.asarray(arrays[name]).reshape(-1)
        return row


class Learning:
    """Some agents while they learn: their rows, two at the least, and their counters.

    Args:
        layout: Of the rows.
        rows: "weights", "first" and "second" (Adam's moments), each [agents, size], which are written into; and others.
        steps: How many gradient steps each agent has made.
        lr: Learning rate.
        clip: The largest norm of an agent's gradient.
    """

    def __init__(
        self, layout: Layout, rows: Mapping[str, Tensor], steps: Sequence[int], *, lr: float, clip: float
    ) -> None:
        self.rows, self.steps = rows, list(steps)
        self._lr, self._clip = lr, clip
        self.parameters = {name: view.detach().requires_grad_() for name, view in layout.views(rows["weights"]).items()}
        """The weights by name; `descend` follows the gradient of a loss that was computed from them."""
        self.others = {kept: layout.views(own) for kept, own in rows.items() if kept not in _WRITTEN}
        """What lies in the other rows, by their name."""
        self._gradient = torch.zeros_like(rows["weights"])
        self._gradients = list(layout.views(self._gradient).values())
        self._roots = torch.empty_like(self._gradient)  # once: memory that is new in every step costs more than its use

    def descend(self, losses: Tensor) -> Tensor:
        """Makes one gradient step for every agent.

        Args:
            losses: Each agent's own: [agents].

        Returns:
            The norm of each agent's gradient, before it was clipped: [agents].
        """
        # The sum is what autograd starts from; no agent's gradient has a part of another's loss.
        for into, part in zip(
            self._gradients, torch.autograd.grad(losses.sum(), list(self.parameters.values())), strict=True
        ):
            into.copy_(part)
        with torch.no_grad():
            norms: Tensor = torch.linalg.vector_norm(self._gradient, dim=1)
            self._gradient.mul_((self._clip / (norms + 1e-6)).clamp(max=1.0).unsqueeze(1))
            self._adam()
        return norms

    def _adam(self) -> None:
        """In the operations, and their order, of torch's Adam with foreach=False and fused=False."""
        weights, first, second = (self.rows[name] for name in _WRITTEN)
        self.steps = [step + 1 for step in self.steps]
        scales = np.array([_corrections(step, self._lr) for step in self.steps], np.float32)
        rate, root = torch.from_numpy(scales).to(weights.device).unsqueeze(-1).unbind(1)
        first.lerp_(self._gradient, 1 - _DECAYS[0])
        second.mul_(_DECAYS[1]).addcmul_(self._gradient, self._gradient, value=1 - _DECAYS[1])
        torch.sqrt(second, out=self._roots).div_(root).add_(_EPSILON)
        weights.addcdiv_(torch.mul(first, rate, out=self._gradient), self._roots)  # the gradient has done its work


@functools.lru_cache(maxsize=256)
def _corrections(step: int, lr: float) -> tuple[float, float]:
    """What the first moment is multiplied with and what the root of the second is divided by, after so many steps."""
    return -lr / (1 - _DECAYS[0] ** step), math.sqrt(1 - _DECAYS[1] ** step)
