"""Stacked networks against what people write: a module, Adam and a clip for each agent; and the self-test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from paceline.learning.exactness import compare, selftest
from paceline.learning.stacked import Layers, Layout, Learning, stacked

LAYERS = Layers("net", (12, 32, 32, 6), "relu", 1.0)
AGENTS, BATCH, UPDATES = 3, 64, 60


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As every worker has it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batch(agent: int, update: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([agent, update])
    return rng.standard_normal((BATCH, 12), np.float32), rng.standard_normal((BATCH, 6), np.float32)


def module(arrays: dict[str, Any]) -> torch.nn.Sequential:
    linear = [torch.nn.Linear(*sizes) for sizes in ((12, 32), (32, 32), (32, 6))]
    for number, layer in enumerate(linear):
        layer.weight.data = torch.from_numpy(arrays[f"net.{number}.weight"].T.copy())
        layer.bias.data = torch.from_numpy(arrays[f"net.{number}.bias"].copy())
    return torch.nn.Sequential(linear[0], torch.nn.ReLU(), linear[1], torch.nn.ReLU(), linear[2])


def alone(arrays: dict[str, Any], agent: int, clip: float) -> list[Any]:
    """The parameters of one agent after its updates in a plain loop."""
    net = module(arrays)
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=False, fused=False)
    for update in range(UPDATES):
        seen, wanted = (torch.from_numpy(part) for part in batch(agent, update))
        adam.zero_grad()
        (net(seen) - wanted).square().mean(1).mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        adam.step()
    return [parameter.detach().numpy() for parameter in net.parameters()]


@pytest.mark.parametrize("clip", [1e9, 0.3])
def test_a_stack_learns_what_a_plain_loop_learns(clip: float) -> None:
    """The same as modules of their own, with Adams of their own, but for the last bits."""
    layout = Layout(LAYERS.shapes)
    first = [LAYERS.first(np.random.default_rng(agent)) for agent in range(AGENTS)]
    rows = {kept: torch.zeros(AGENTS, layout.size) for kept in ("weights", "first", "second")}
    rows["weights"].copy_(stacked([layout.row(arrays, "me") for arrays in first]))
    learning = Learning(layout, rows, [0] * AGENTS, lr=1e-3, clip=clip)
    for update in range(UPDATES):
        parts = [batch(agent, update) for agent in range(AGENTS)]
        seen, wanted = (stacked([part[side] for part in parts]) for side in (0, 1))
        learning.descend((LAYERS(learning.parameters, seen) - wanted).square().mean(2).mean(1))
    for agent, arrays in enumerate(first):
        found = layout.named(rows["weights"][agent].numpy())
        expected = alone(arrays, agent, clip)
        for ours, theirs in zip(found.values(), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.T, rtol=0, atol=1e-5)
        assert max(np.abs(ours - arrays[name]).max() for name, ours in found.items()) > 0.01


def test_counters_of_agents_that_have_learned_more_are_their_own() -> None:
    """An agent's Adam goes by its own number of steps, whatever that of its neighbours."""
    layout = Layout({"w": (20,)})
    gradients = torch.arange(1.0, 21.0).expand(2, 20)

    def after(steps: list[int]) -> Any:
        rows = {kept: torch.zeros(2, layout.size) for kept in ("weights", "first", "second")}
        learning = Learning(layout, rows, steps, lr=0.1, clip=1e9)
        learning.descend((learning.parameters["w"] * gradients).sum(1))
        assert learning.steps == [step + 1 for step in steps]
        return rows["weights"].numpy()

    mixed = after([0, 9])
    assert np.array_equal(mixed[0], after([0, 0])[0])
    assert np.array_equal(mixed[1], after([9, 9])[1])
    assert not np.array_equal(mixed[0], mixed[1])


@pytest.mark.parametrize("worlds", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("sizes", [(64, 128, 128, 6), (5, 20, 3), (17, 33, 7, 1), (243, 128, 5)], ids=str)
def test_the_selftest_finds_nothing_here(sizes: tuple[int, ...], worlds: int) -> None:
    """Stacks keep their bits, whatever the widths of layers and the number of rows: parts begin at whole vectors."""
    assert selftest(sizes, batch=64, worlds=worlds).findings == ()
    assert selftest(sizes, batch=11, worlds=worlds).findings == ()


def test_the_selftest_names_what_differs() -> None:
    """A kernel whose last bit depends on the size of the stack is found out, by name."""

    def kernel(agents: Sequence[int]) -> Any:
        return {n: {"weights": np.array([n + (len(agents) == 1) * 1e-3]), "norm": np.ones(1)} for n in agents}

    found = compare(kernel)
    assert not found.ok
    assert found.findings == ("agents alone: weights of 2 agents differ by up to 1.0e-03 from a stack of 8",)


def test_specs_do_not_import_torch() -> None:
    """Settings are read, and spaces checked, before torch is needed."""
    program = (
        "import sys; from paceline.learning import learner_spec; learner_spec('ppo'); print('torch' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
