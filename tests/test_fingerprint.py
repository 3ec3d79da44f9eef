"""Fingerprints: one thing has the same texts in every process, another thing has others, and no text is an accident."""

from __future__ import annotations

import copy
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.fingerprint import differences, fingerprint, plain_text, unknown_parts

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.frozensets(PLAIN, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@dataclass
class Config:
    rate: float = 0.1
    names: frozenset[str] = field(default_factory=frozenset)


class Says:
    """A policy that says one thing."""

    def __init__(self, seat: Any = None, what: Any = 1) -> None:
        self.what = what

    def act(self, obs: Any) -> Any:
        return self.what


def answering(what: Any) -> Callable[[Any], Any]:
    return lambda obs: what


def with_default(what: Any) -> Callable[..., Any]:
    def act(obs: Any, said: Any = what, *, louder: Any = what) -> Any:
        return said, louder

    return act


RECIPES: list[Callable[[Any], Any]] = [
    lambda value: partial(Says, what=value),
    lambda value: partial(partial(Says, None), value),
    lambda value: partial(Says, what=answering(value)),
    answering,
    with_default,
    lambda value: Says(what=value),
    lambda value: Says(what=value).act,
    lambda value: Config(names=value),
    lambda value: type("Local", (Says,), {"act": lambda self, obs: value}),
]
"""What users give, each with a value somewhere in it."""


@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=30, deadline=None)
@given(value=VALUES, other=VALUES)
def test_a_recipe_is_known_by_the_values_in_it(recipe: Callable[[Any], Any], value: Any, other: Any) -> None:
    """Copies are alike, and another value is another recipe; 1, 1.0 and True are three values."""
    found = fingerprint(recipe(value))
    assert fingerprint(recipe(copy.deepcopy(value))) == found
    assert unknown_parts(found) == []
    assert (fingerprint(recipe(other)) == found) == (_exact(value) == _exact(other))


def _exact(value: Any) -> Any:
    """A value with its types, the order of sets and dictionaries left out."""
    if isinstance(value, frozenset):
        return "set", tuple(sorted(map(repr, map(_exact, value))))
    if isinstance(value, dict):
        return "dict", tuple(sorted((key, repr(_exact(each))) for key, each in value.items()))
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(map(_exact, value))
    return type(value).__name__, repr(value)


def test_code_counts_and_where_it_stands_does_not() -> None:
    def compiled(text: str) -> Any:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(text, names)
        return names["act"]

    first, other = (fingerprint(compiled(f"HOW = 2\ndef act(obs):\n    return obs {sign} HOW")) for sign in "*+")
    assert fingerprint(compiled("HOW = 2\n\n\n# moved\ndef act(obs):\n    return obs * HOW")) == first
    changed = differences({"it": first}, {"it": fingerprint(compiled("HOW = 3\ndef act(obs):\n    return obs * HOW"))})
    assert changed == ["global HOW of it was 2, and is 3"]
    (told,) = differences({"it": first}, {"it": other})
    assert told.startswith("code of it was Python 3.")


SCRIPT = """
import json, sys
from dataclasses import dataclass
from functools import partial
import numpy as np, torch, gymnasium
from paceline.fingerprint import fingerprint

SCALES = ("a", "b", frozenset({"x", "y", "z"}))

@dataclass
class Config:
    rate: float = 0.5
    names: frozenset = frozenset({"one", "two", "three"})

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.layer(x)

class Agent:
    limits = (1, 2)
    def __init__(self, seat=None, config=Config()):
        self.config, self.seen, self.me = config, {"p", "q", "r"}, self
    def act(self, obs):
        return len(SCALES)

torch.manual_seed(0)
given = [partial(Agent, config=Config()), Agent(), Agent().act, lambda o: SCALES, Net(), Net().state_dict(),
         np.arange(9.0), gymnasium.spec("CartPole-v1"), gymnasium.spaces.Discrete(3), {1: {"s", "t"}}, len, np.add]
print(json.dumps([fingerprint(each) for each in given]))
"""


def test_every_process_reads_the_same(tmp_path: Path) -> None:
    """Whatever the seed of hashes, and wherever objects lie."""
    (tmp_path / "script.py").write_text(SCRIPT)
    found = [
        subprocess.run(
            [sys.executable, str(tmp_path / "script.py")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert not re.search("0x[0-9a-f]{6}", found[0])


def test_arrays_and_networks_are_known_by_their_content() -> None:
    import torch

    net = torch.nn.Linear(3, 2)
    for thing in (np.arange(6.0), net, net.state_dict(), {"weights": [np.arange(3)]}):
        assert fingerprint(copy.deepcopy(thing)) == fingerprint(thing)
    before = fingerprint(net)
    assert fingerprint(copy.deepcopy(net).eval()) == before
    with torch.no_grad():
        net.bias += 1
    assert [text.partition(" ")[0] for text in differences({"it": before}, {"it": fingerprint(net)})] == ["bias"]
    assert fingerprint(np.arange(6.0)) != fingerprint(np.arange(6.0).reshape(2, 3)) != fingerprint(np.arange(6))


@pytest.mark.parametrize("thing", [threading.Lock(), np.random.default_rng(), random.Random(), sys.stdout])
def test_what_cannot_be_told_apart_is_named(thing: Any) -> None:
    found = fingerprint(partial(Says, what=[{"in": thing}], more=1))
    assert unknown_parts(found) == [f"what.0.in ({type(thing).__module__}.{type(thing).__qualname__})"]
    assert found["more"] == "1"


def test_an_object_whose_state_cannot_be_had_is_named() -> None:
    class Shy:
        def __getstate__(self) -> Any:
            raise RuntimeError("no")

    assert unknown_parts(fingerprint(answering(Shy()))) != []


def test_a_circle_is_read_once() -> None:
    def ring(value: int) -> list[Any]:
        made: list[Any] = [value]
        made.append({"back": made})
        return made

    assert fingerprint(partial(Says, what=ring(1))) == fingerprint(partial(Says, what=ring(1)))
    assert fingerprint(partial(Says, what=ring(1))) != fingerprint(partial(Says, what=ring(2)))


def test_parts_that_come_and_go_are_differences() -> None:
    before, now = fingerprint(partial(Says, what=1)), fingerprint(partial(Says, seat=2))
    assert differences({"policy 'a'": before}, {"policy 'a'": now, "policy 'b'": now}) == [
        "what of policy 'a' was 1, and is not given",
        "seat of policy 'a' was not given, and is 2",
    ]


def test_plain_text_has_no_accidents() -> None:
    assert plain_text({"a": [1, 2.5, "b"]}) == "{'a': [1, 2.5, 'b']}"
    assert "0x" not in plain_text(lambda o: 1)
    assert plain_text({"b", "a"}) == plain_text({"a", "b"})
