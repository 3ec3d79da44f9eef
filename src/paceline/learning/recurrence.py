"""A memory of many agents as one: gated recurrent units, parameters [agents, …], a state for each row.

    inputs [agents, rows, inputs], state [agents, rows, size] ── read gate, write gate ──► state [agents, rows, size]

It is made of products, sums and tanh alone: torch computes those alike in the body of an array and in its last
elements, which it does not do for its sigmoid. So an agent's bits do not depend on the agents beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paceline.learning.stacked import Parameters, product
from paceline.spaces import Array

_GATES = 3  # how much is forgotten, how much of the state is read, what is new


@dataclass(frozen=True)
class Recurrence:
    """Gated recurrent units of all agents at once.

    Attributes:
        name: What the names of their parameters begin with.
        inputs: How many numbers come in at a step.
        size: How many numbers a state has.
    """

    name: str
    inputs: int
    size: int

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of one agent's parameters; a weight is [inputs, outputs]."""
        width = _GATES * self.size
        return {
            f"{self.name}.inputs.weight": (self.inputs, width),
            f"{self.name}.inputs.bias": (width,),
            f"{self.name}.state.weight": (self.size, width),
            f"{self.name}.state.bias": (width,),
        }

    def first(self, rng: np.random.Generator) -> dict[str, Array]:
        """Draws one agent's first parameters."""
        arrays = {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()}
        for part, count in (("inputs", self.inputs), ("state", self.size)):
            weight = arrays[f"{self.name}.{part}.weight"]
            weight[:] = rng.uniform(-1, 1, weight.shape) / np.sqrt(count)
        arrays[f"{self.name}.inputs.bias"][: self.size] = 1.0  # at first much is kept
        return arrays

    def project(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """What the inputs [agents, rows, inputs] give to the gates: [agents, rows, gates]."""
        return product(parameters[f"{self.name}.inputs.bias"], inputs, parameters[f"{self.name}.inputs.weight"])

    def step(self, parameters: Parameters, projected: Tensor, state: Tensor) -> Tensor:
        """The state after one more input, which has been projected."""
        remembered = product(parameters[f"{self.name}.state.bias"], state, parameters[f"{self.name}.state.weight"])
        keep_in, read_in, new_in = projected.chunk(_GATES, -1)
        keep_state, read_state, new_state = remembered.chunk(_GATES, -1)
        keep, read = _gate(keep_in + keep_state), _gate(read_in + read_state)
        new = torch.tanh(new_in + read * new_state)
        return new + keep * (state - new)

    def unroll(self, parameters: Parameters, inputs: Tensor, begun: Sequence[Tensor]) -> Tensor:
        """States after each step of sequences.

        Args:
            parameters: Of all agents.
            inputs: [agents, time, rows, inputs].
            begun: For each step which sequences have begun by then, as 0 or 1: [agents, rows, 1]; until then a state
                is zero.

        Returns:
            [agents, time, rows, size].
        """
        agents, time, rows, _ = inputs.shape
        projected = self.project(parameters, inputs.reshape(agents, time * rows, -1)).view(agents, time, rows, -1)
        state, states = inputs.new_zeros(agents, rows, self.size), []
        for step in range(time):
            state = self.step(parameters, projected[:, step].contiguous(), state) * begun[step]
            states.append(state)
        return torch.stack(states, 1)


def _gate(inputs: Tensor) -> Tensor:
    """A logistic function, of tanh."""
    return torch.tanh(inputs * 0.5) * 0.5 + 0.5
