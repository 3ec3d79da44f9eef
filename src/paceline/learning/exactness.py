"""Whether this machine keeps the bits: stacks of agents against the same agents in other stacks.

That a stacked learner is the same bits in any group is a property of torch and of the BLAS that it was built with. It
holds where it was measured; `selftest` looks whether it holds here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from paceline.learning.stacked import Layers, Layout, Learning, one_thread, padded, stacked
from paceline.seeds import sequence
from paceline.spaces import Array

_AGENTS = 8
_UPDATES = 2
_GROUPS = {
    "agents alone": [[0], [5]],
    "a pair": [[6, 1]],
    "groups of 3 and 5": [[0, 1, 2], [3, 4, 5, 6, 7]],
    "all in another order": [[5, 2, 7, 0, 3, 6, 1, 4]],
}

Outcome = dict[str, Array]
"""What came of one agent: name → array."""
Kernel = Callable[[Sequence[int]], Mapping[int, Outcome]]
"""Gives what comes of some agents when they are stacked."""


@dataclass(frozen=True)
class Exactness:
    """What a self-test has found.

    Attributes:
        ok: Whether every agent was the same bits in every stack.
        findings: What was not, a sentence for each kind of stack and each thing that differs.
    """

    ok: bool
    findings: tuple[str, ...]


def selftest(sizes: Sequence[int] = (64, 128, 128, 6), *, batch: int = 64, worlds: int = 1) -> Exactness:
    """Looks whether stacked learners are the same bits in any group on this machine; takes less than 0.1 s.

    Args:
        sizes: Inputs, hidden layers and outputs of the networks.
        batch: Rows of a gradient step.
        worlds: Rows of a forward to act by.
    """
    return _tested(tuple(sizes), batch, worlds)


@functools.lru_cache(maxsize=64)  # it is a property of the machine
def _tested(sizes: tuple[int, ...], batch: int, worlds: int) -> Exactness:
    with one_thread():
        return compare(partial(_outcomes, sizes, batch, worlds))


def compare(kernel: Kernel) -> Exactness:
    """Compares eight agents in one stack with the same agents in smaller stacks, and in another order."""
    whole, findings = kernel(range(_AGENTS)), list[str]()
    for name, groups in _GROUPS.items():
        parts = {agent: outcome for group in groups for agent, outcome in kernel(group).items()}
        findings += [f"{name}: {found}" for found in _differences(whole, parts)]
    return Exactness(not findings, tuple(findings))


def _differences(whole: Mapping[int, Outcome], parts: Mapping[int, Outcome]) -> Iterator[str]:
    for what in whole[0]:
        differing = [agent for agent in parts if not np.array_equal(whole[agent][what], parts[agent][what])]
        if differing:
            apart = max(np.abs(whole[agent][what] - parts[agent][what]).max() for agent in differing)
            yield f"{what} of {len(differing)} agents differ by up to {apart:.1e} from a stack of {len(whole)}"


def _outcomes(sizes: tuple[int, ...], batch: int, worlds: int, agents: Sequence[int]) -> dict[int, Outcome]:
    """Answers, gradients' norms and weights of some updates, computed as banks do it."""
    layers = Layers("values", sizes, "relu", 1.0)
    layout = Layout(layers.shapes)
    rngs = [np.random.default_rng(sequence(0, "exactness", agent)) for agent in agents]
    first = [layout.row(layers.first(rng), "the self-test") for rng in rngs]
    rows = {kept: torch.zeros(len(padded(agents)), layout.size) for kept in ("weights", "first", "second")}
    rows["weights"].copy_(stacked(first))
    with torch.inference_mode():
        seen = stacked([rng.standard_normal((worlds, sizes[0]), np.float32) for rng in rngs])
        answers = layers(layout.views(rows["weights"]), seen)
    learning = Learning(layout, rows, [0] * len(padded(agents)), lr=1e-3, clip=0.1)
    for _ in range(_UPDATES):
        seen, wanted = (
            stacked([rng.standard_normal((batch, size), np.float32) for rng in rngs]) for size in (sizes[0], sizes[-1])
        )
        norms = learning.descend((layers(learning.parameters, seen) - wanted).square().mean((1, 2)))
    arrays = {"forward": answers, "norm of the gradient": norms, "weights after updates": rows["weights"]}
    return {
        agent: {what: tensor[place].numpy().copy() for what, tensor in arrays.items()}
        for place, agent in enumerate(agents)
    }
