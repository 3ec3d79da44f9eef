"""What policies share is found by what they hold, and by what their classes hold."""

from __future__ import annotations

import copy
import logging
import random
import threading
from pathlib import Path
from typing import Any

from paceline.team.sharing import likeness, parts


class Holds:
    """A policy that holds something."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


def members(*policies: Any, described: Any = ()) -> list[list[int]]:
    return [list(part.members) for part in parts(policies, described)]


def test_a_mutable_object_that_two_policies_reach_joins_them() -> None:
    board: dict[str, int] = {}
    rng = random.Random(0)
    lock = threading.Lock()
    assert members(Holds(a=board), Holds(b=[(board,)])) == [[0, 1]]
    assert members(Holds(a=board), Holds(a={}), Holds(c=(rng, board))) == [[0, 2], [1]]
    assert members(Holds(a=board), Holds(b=rng), Holds(c=(rng, board))) == [[0, 1, 2]]
    assert members(Holds(a=lambda: board), Holds(b=board)) == [[0, 1]]
    assert members(Holds(a=board.get), Holds(b=board)) == [[0, 1]]
    assert members(Holds(a=lock), Holds(b=Holds(c=lock))) == [[0, 1]]  # though it cannot be pickled
    assert members(Holds(a=lock, b=board), Holds(b=board)) == [[0, 1]]
    assert parts([Holds(a=board), Holds(a=board)])[0].shared == "dict"


def test_what_cannot_change_joins_no_policies() -> None:
    names = ("north", b"south", 3, 4.5, frozenset([1]), None, ...)
    log = logging.getLogger("some")
    import torch

    shared = {"a": names, "b": Holds, "c": parts, "d": logging, "e": log, "f": torch.device("cpu"), "g": Path("x")}
    game = Holds(actions=["north"])
    first, second = Holds(game=game, names=game.actions, **shared), Holds(game=game, names=game.actions, **shared)
    assert members(first, second, described=[game, game.actions]) == [[0], [1]]
    assert members(first, second) == [[0, 1]]


def test_policies_that_cannot_be_read_live_together() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    deeper: list[Any] = [copy.copy(deep)]
    assert members(Holds(a=deep), Holds(b=1), Holds(a=deeper)) == [[0, 2], [1]]


class Boards(Holds):
    """Its objects write on one board."""

    board: list[int] = []  # noqa: RUF012
    names = ("north", "south")


class Rows(Boards):
    """So do those of a class that is made of it."""


def test_a_mutable_container_on_a_class_is_shared_by_its_objects() -> None:
    assert members(Boards(), Boards(), Holds()) == [[0, 1], [2]]
    assert members(Boards(), Holds(a=Rows())) == [[0, 1]]
    assert parts([Boards(), Boards()])[0].shared == "list ('board' of class Boards)"


def test_policies_that_are_made_alike_have_one_likeness() -> None:
    import numpy as np

    def made(**more: Any) -> str:
        return likeness(Holds(**{"lock": threading.Lock(), "a": [1, {"b"}], "rng": random.Random(1), **more}))

    assert made() == made()
    others = [made(a=[2, {"b"}]), made(rng=random.Random(2)), made(lock=Holds()), made(a=np.zeros(2))]
    assert len({made(), *others}) == 5
    assert made(a=np.zeros(2)) != made(a=np.ones(2))
