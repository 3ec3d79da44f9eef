"""Networks: an actor and a critic, of which neither, one or both remember.

    Markov          observation ──► actor            observation ──► critic
    Memory          observation, last action, reward ──► memory ──► with the observation ──► actor, critic
    Memory-Markov   observation ──► actor            observation, last action, reward ──► memory ──► critic

All three are called alike, step by step to act and over whole sequences to learn. The state of a memory is one tensor
[parts, rows, size]: a part for each layer, and of an LSTM a second one for its cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from paceline.errors import BadInput
from paceline.seeds import sequence
from paceline.spaces import Array

_CELLS = {"gru": (nn.GRU, 1), "lstm": (nn.LSTM, 2)}


class Answer(NamedTuple):
    """What a network says to observations [time, rows, …]."""

    parameters: Tensor
    """For the head: [time, rows, head size]."""
    values: Tensor | None
    """What the critic expects: [time, rows]; None without a critic."""
    state: Tensor
    """The state after the last step: [parts, rows, size]."""


class Recurrence(nn.Module):
    """A memory of observations, last actions and rewards, with its state as one tensor.

    Args:
        inputs: How many numbers an observation and an action have together.
        cell: "gru" or "lstm".
        size: How many numbers a part of the state has, and what is remembered.
        layers: How many layers lie one upon the other.
    """

    def __init__(self, inputs: int, cell: str, size: int, layers: int) -> None:
        super().__init__()
        if cell not in _CELLS:
            raise BadInput(f"cell={cell!r}: give 'gru' or 'lstm'")
        kind, kinds = _CELLS[cell]
        self.embed = nn.Linear(inputs + 1, size)
        self.cells = kind(size, size, layers)
        self.parts, self.size, self._layers = kinds * layers, size, layers

    def forward(self, observations: Tensor, actions: Tensor, rewards: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Remembers: [time, rows, …] ──► [time, rows, size], and the state after the last step."""
        seen = torch.tanh(self.embed(torch.cat([observations, actions, rewards.unsqueeze(-1)], -1)))
        if self.parts == self._layers:
            remembered, after = self.cells(seen, state)
            return remembered, after
        remembered, (hidden, cells) = self.cells(seen, (state[: self._layers], state[self._layers :]))
        return remembered, torch.cat([hidden, cells])


class Network(nn.Module):
    """An actor and a critic.

    Args:
        observation: How many numbers an observation has.
        action: How many an encoded action has.
        outputs: How many parameters the head takes.
        spread: How many numbers of learned noise there are.
        hidden: The sizes of the layers of actor and critic.
        critic: Whether there is a critic.
        actor_remembers: Whether the actor sees what is remembered.
        critic_remembers: Whether the critic does.
        cell: "gru" or "lstm"; see `Recurrence`.
        memory: The size of the memory.
        layers: Its layers.
    """

    def __init__(
        self,
        observation: int,
        action: int,
        outputs: int,
        spread: int,
        *,
        hidden: Sequence[int] = (64, 64),
        critic: bool = True,
        actor_remembers: bool = False,
        critic_remembers: bool = False,
        cell: str = "gru",
        memory: int = 64,
        layers: int = 1,
    ) -> None:
        super().__init__()
        remembers = actor_remembers or critic_remembers
        self.recurrence = Recurrence(observation + action, cell, memory, layers) if remembers else None
        self._actor_remembers, self._critic_remembers = actor_remembers, critic_remembers
        self.actor = _layers(observation + memory * actor_remembers, hidden, outputs)
        self.critic = _layers(observation + memory * critic_remembers, hidden, 1) if critic else None
        self.log_std = nn.Parameter(torch.empty(spread)) if spread else None

    @property
    def spread(self) -> Tensor:
        """The logarithms of the learned noise; empty where a head has none."""
        return torch.zeros(0) if self.log_std is None else self.log_std

    def start(self, rows: int) -> Tensor:
        """The state in which rows begin: [parts, rows, size], all zeros."""
        if self.recurrence is None:
            return torch.zeros(0, rows, 0)
        return torch.zeros(self.recurrence.parts, rows, self.recurrence.size)

    def forward(self, observations: Tensor, actions: Tensor, rewards: Tensor, state: Tensor) -> Answer:
        """Answers observations.

        Args:
            observations: Encoded: [time, rows, observation].
            actions: Those before the observations, encoded: [time, rows, action]; zeros before the first.
            rewards: What came of them: [time, rows]; zeros before the first.
            state: The state before the first of them: [parts, rows, size].
        """
        both = observations
        if self.recurrence is not None:
            remembered, state = self.recurrence(observations, actions, rewards, state)
            both = torch.cat([remembered, observations], -1)
        parameters = self.actor(both if self._actor_remembers else observations)
        if self.critic is None:
            return Answer(parameters, None, state)
        return Answer(parameters, self.critic(both if self._critic_remembers else observations).squeeze(-1), state)


def _layers(inputs: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
    sizes = [inputs, *hidden]
    inner = [part for pair in pairwise(sizes) for part in (nn.Linear(*pair), nn.Tanh())]
    return nn.Sequential(*inner, nn.Linear(sizes[-1], outputs))


# -- weights -----------------------------------------------------------------------------------------------


def built(*arguments: Any, seed: int | None, log_std: float, **keywords: Any) -> Network:
    """Builds a network whose weights follow from the seed; torch's global generator is not touched.

    Args:
        arguments: As `Network` takes them.
        seed: What the weights follow from; None: they are to be loaded, and are anything until then.
        log_std: Where the learned noise begins.
        keywords: As `Network` takes them.
    """
    with torch.device("meta"):  # modules draw their first weights from the global generator otherwise
        network = Network(*arguments, **keywords)
    network.to_empty(device="cpu")
    if seed is None:
        return network.eval()
    last = f"actor.{len(network.actor) - 1}.weight"
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            rng = np.random.default_rng(sequence(seed, "weights", name))
            first = _first_weights(name, tuple(parameter.shape), log_std, rng)
            # The actor's last layer begins small: then all actions are nearly alike.
            parameter.copy_(torch.from_numpy(first * np.float32(0.01) if name == last else first))
    return network.eval()


def _first_weights(name: str, shape: tuple[int, ...], log_std: float, rng: np.random.Generator) -> Array:
    if name == "log_std":
        return np.full(shape, log_std, np.float32)
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    if "weight_hh" in name:  # a square for each gate
        return _rotations(shape[0] // shape[1], shape[1], rng).reshape(shape).astype(np.float32)
    bound = np.sqrt(3.0 / shape[1])  # what goes out varies as much as what comes in
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def _rotations(count: int, size: int, rng: np.random.Generator) -> Array:
    """Random rotations [count, size, size], by Gram and Schmidt: the bits of LAPACK depend on its number of threads."""
    found = rng.standard_normal((count, size, size))
    for number in range(size):
        before, row = found[:, :number], found[:, number]
        for _ in range(2):  # the second time takes away what rounding has left
            shares = (before * row[:, None]).sum(2, keepdims=True)
            row -= (shares * before).sum(1)
        row /= np.sqrt((row**2).sum(1, keepdims=True))
    return found


def weights_of(network: Network) -> dict[str, Array]:
    """The weights as arrays, by name: copies."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in network.state_dict().items()}


def load_weights(network: Network, weights: Any, who: str) -> None:
    """Puts weights in, all or none.

    Raises:
        BadInput: names or shapes are not the network's.
    """
    own = network.state_dict()
    check_weights(weights, {name: tuple(tensor.shape) for name, tensor in own.items()}, who)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(torch.from_numpy(np.array(weights[name], np.float32)))


def check_weights(weights: Any, wanted: Mapping[str, tuple[int, ...]], who: str) -> None:
    """Compares the names and shapes of weights with those that are wanted.

    Raises:
        BadInput: they are others.
    """
    shapes = {name: tuple(np.shape(array)) for name, array in dict(weights).items()}
    if shapes != dict(wanted):
        differing = sorted(name for name in {*shapes, *wanted} if shapes.get(name) != wanted.get(name))
        first = differing[0]
        raise BadInput(
            f"the weights are not those of {who}: {first!r} has shape {shapes.get(first, 'none')} and should have "
            f"{wanted.get(first, 'none')} ({len(differing)} of {len({*shapes, *wanted})} differ)"
        )
