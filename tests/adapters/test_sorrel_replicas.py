"""What an object holds is followed wherever it is held, or refused: never silently left behind."""

from __future__ import annotations

import array
import functools
import io
import itertools
import pickle
import random
from collections import OrderedDict, UserDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

from paceline.adapters.sorrel.replica import Replica, copied
from paceline.errors import NotSendable


class Tally:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def add(self) -> int:
        self.calls += 1
        return self.calls


def closure() -> Callable[[], int]:
    calls = 0

    def add() -> int:
        nonlocal calls
        calls += 1
        return calls

    return add


def replicas(held: Any) -> tuple[Replica, Replica]:
    """An object that holds this, and a copy of it."""
    root = SimpleNamespace(held=held)
    return Replica(root, "main"), Replica(pickle.loads(cloudpickle.dumps(root)), "copy")


def called(held: Any) -> list[int]:
    return [held() for _ in range(2)]


@pytest.mark.parametrize(
    ("held", "change", "state"),
    [
        (bytearray(2), lambda held: held.append(7), bytes),
        (array.array("d", [1.0]), lambda held: held.append(2.0), list),
        (io.StringIO(), lambda held: held.write("a row"), io.StringIO.getvalue),
        (UserDict(a=1), lambda held: held.update(b=2), dict),
        (OrderedDict(a=1, b=2), lambda held: held.update(c=3), list),
        (OrderedDict(a=1, b=2), lambda held: held.move_to_end("a"), list),
        (Tally().add, called, lambda held: held.__self__.calls),
        (functools.partial(Tally.add, Tally()), called, lambda held: held.args[0].calls),
        (closure(), called, lambda held: held.__closure__[0].cell_contents),
    ],
)
def test_what_changes_in_the_copy_changes_here(held: Any, change: Any, state: Any) -> None:
    here, there = replicas(held)
    assert here.names() == there.names()
    before = state(here.root.held)
    change(there.root.held)
    here.apply(there.changes())
    assert state(here.root.held) == state(there.root.held) != before
    assert there.changes() == b""
    change(here.root.held)
    there.apply(here.changes())
    assert state(here.root.held) == state(there.root.held)


@pytest.mark.parametrize("held", [bytearray(2), OrderedDict(a=1, b=2), closure()])
def test_what_has_changed_is_taken_back(held: Any) -> None:
    here, _ = replicas(held)
    held() if callable(held) else held.pop("a" if isinstance(held, dict) else 0)
    assert here.propose() != b""
    here.revert()
    assert here.propose() == b""


@pytest.mark.parametrize("rows", [np.zeros((4, 3)), torch.zeros(4, 3)])
def test_arrays_that_share_memory_are_told_from_arrays_that_do_not(rows: Any) -> None:
    here, there = replicas([rows, rows[1:3]])
    assert here.names() != there.names()
    here, there = replicas([rows[:2], rows[2:]])
    assert here.names() == there.names()


def test_an_iterator_is_refused_by_its_place() -> None:
    with pytest.raises(NotSendable, match=r"'held'.*a count"):
        Replica(SimpleNamespace(held=itertools.count()), "main")


def test_process_wide_generators_are_sent_by_name_and_are_no_part_of_what_holds_them() -> None:
    """In a copy, in a replica that is restored, and in changes."""
    held = SimpleNamespace(seed=torch.default_generator, rand=np.random.mtrand._rand, rows=np.zeros(9000))
    here, there = Replica(held, "main"), Replica(copied(held), "copy")
    assert here.names() == there.names()
    there = pickle.loads(pickle.dumps(there))
    torch.rand(())
    np.random.random()
    assert here.changes() == there.changes() == b""
    there.root.rows[5], there.root.roll = 1.0, random.random
    here.apply(there.changes())
    assert (held.rows[5], held.roll) == (1.0, random.random)
    for root in (held, there.root):
        assert (root.seed is torch.default_generator, root.rand is np.random.mtrand._rand) == (True, True)


def test_weights_go_with_their_gradients_and_with_weak_references_to_them() -> None:
    """Whole ones, one that does not lie in one piece, and one with an attribute; to a copy, and in a snapshot of it."""
    gated = torch.nn.GRU(3, 2)
    turned, marked = torch.nn.Parameter(torch.ones(3, 2).t()), torch.nn.Parameter(torch.ones(2))
    marked.rate = 0.5
    (gated(torch.ones(2, 3))[0].sum() + turned.sum() + marked.sum()).backward()
    here = Replica(SimpleNamespace(gated=gated, turned=turned, marked=marked), "main")
    there = Replica(copied(here.root), "copy")
    assert here.names() == there.names()
    there = pickle.loads(pickle.dumps(there))
    held = there.root
    assert (held.marked.rate, held.turned.is_contiguous()) == (0.5, False)
    for weight in (*held.gated.parameters(), held.turned, held.marked):
        assert weight.grad.abs().sum() > 0
        weight.data += weight.grad
    here.apply(there.changes())
    for weight, other in zip(gated.parameters(), held.gated.parameters(), strict=True):
        assert torch.equal(weight, other)
        assert torch.equal(weight.grad, other.grad)
    assert torch.equal(turned, held.turned)
    assert all(known() is weight for known, weight in zip(gated._flat_weight_refs, gated.parameters(), strict=True))
    assert here.changes() == there.changes() == b""


def test_what_an_object_leaves_out_when_it_is_pickled_and_makes_anew_is_no_change() -> None:
    """An optimizer its hooks: restored from a snapshot, a copy would answer otherwise when it is replayed."""
    network = torch.nn.Linear(2, 2)
    held = SimpleNamespace(network=network, optimizer=torch.optim.Adam(network.parameters()))
    here = Replica(held, "main")
    network(torch.ones(2)).sum().backward()
    held.optimizer.step()
    here.changes()
    again = pickle.loads(pickle.dumps(here))
    assert again.changes() == b""
    again.root.optimizer.step()
    held.optimizer.step()
    assert again.changes() == here.changes()
