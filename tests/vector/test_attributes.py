"""An object's attributes, read without a look at its `__dict__`: the same ones, and it stays as quick as it was."""

from __future__ import annotations

import gc
import pickle
import sys
from typing import Any

import gymnasium
import pytest
from envs import Count
from hypothesis import given
from hypothesis import strategies as st

from paceline import Plan, make_vec
from paceline.vector import attributes as reading
from paceline.vector.attributes import attributes, set_attributes
from paceline.vector.saving import pickled


class Thing:
    """Has attributes of every origin."""

    shared: Any = None
    same: Any = None
    declared: int

    def __init__(self) -> None:
        self.number, self.text, self.same = 3, "three", None
        self._hidden = [1]

    def later(self) -> None:
        def inner() -> None:
            self.from_a_closure = (1, 2)

        inner()

    @property
    def doubled(self) -> int:
        return 2 * self.number

    @doubled.setter
    def doubled(self, value: int) -> None:
        self.half = value // 2

    @property
    def broken(self) -> int:
        raise RuntimeError("not now")


class Heir(Thing):
    def __init__(self) -> None:
        super().__init__()
        self.own = self


def compact(thing: Any) -> bool:
    """Whether its attributes are still held by itself, and not by a dict."""
    return len(gc.get_referents(thing)) > 2


@pytest.mark.parametrize("kind", [Thing, Heir])
def test_what_is_read_is_what_there_is(kind: type[Thing]) -> None:
    thing = kind()
    thing.later()
    thing.doubled = 10
    thing.declared = 4
    found = attributes(thing)
    assert compact(thing)
    assert found == vars(thing)


@pytest.mark.parametrize("name", ["from_outside", "shared", "later"])
def test_what_is_set_from_outside_is_not_missed(name: str) -> None:
    thing: Any = Thing()
    setattr(thing, name, 5)
    found = attributes(thing)
    assert found == vars(thing)
    assert found[name] == 5


_VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.none(), max_size=2)


@given(st.dictionaries(st.sampled_from(["shared", "same", "number", "half", "declared", "else_", "x"]), _VALUES))
def test_whatever_is_set_is_found(values: dict[str, Any]) -> None:
    thing = Thing()
    for name, value in values.items():
        setattr(thing, name, value)
    found = attributes(thing)
    assert list(found.items()) == list(vars(thing).items())
    copy = Thing.__new__(Thing)
    set_attributes(copy, found)
    assert list(vars(copy).items()) == list(vars(thing).items())


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=20))
def test_they_keep_their_order_whatever_was_set_and_taken_away(story: list[tuple[str, bool]]) -> None:
    thing: Any = Thing()
    for name, keeps in story:
        if keeps:
            setattr(thing, name, name)
        elif hasattr(thing, name):
            delattr(thing, name)
    found = attributes(thing)
    assert list(found.items()) == list(vars(thing).items())


def test_where_memory_is_not_as_expected_the_dict_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.vector.attributes._POINTERS", {sys.version_info[:2]: (-8, 0)})
    reading._proven.cache_clear()
    try:
        assert not reading._proven()
        thing = Thing()
        assert attributes(thing) == vars(thing)
    finally:
        reading._proven.cache_clear()


def test_one_whose_dict_has_been_looked_at_is_read_there() -> None:
    thing = Thing()
    vars(thing)["surprise"] = 1
    assert attributes(thing) == vars(thing)


def layers(env: Any) -> list[Any]:
    found = [env]
    while found[-1] is not env.unwrapped:
        found.append(found[-1].env)
    return found


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is one form only")
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_an_env_is_as_quick_after_it_has_been_saved(name: str) -> None:
    env = gymnasium.make(name)
    env.reset(seed=1)
    env.step(env.action_space.sample())
    before = [compact(layer) for layer in layers(env)]
    assert any(before)  # not all: who else has been here may have given the class more names than the form has room for
    packed = pickled(env)
    assert packed is not None
    assert [compact(layer) for layer in layers(env)] == before
    copy = [compact(layer) for layer in layers(pickle.loads(packed))]
    assert all(after or not was for was, after in zip(before, copy, strict=True))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is one form only")
def test_an_env_of_ones_own_is_as_quick_after_it_has_been_saved() -> None:
    env: Any = Count(3)
    env.reset(seed=1)
    assert compact(env)
    packed = pickled(env)
    assert packed is not None
    assert compact(env)
    assert compact(pickle.loads(packed))


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is one form only")
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_a_vector_does_not_slow_the_spaces_of_its_envs(name: str) -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(gymnasium.make(name))
        return made[-1]

    with make_vec([make] * 2, plan=0) as vector:
        vector.reset(seed=1)
        vector.step(vector.action_space.sample())
        parts = [part for env in made for part in (env.unwrapped.action_space, env.unwrapped.observation_space)]
        assert [compact(part) for part in parts] == [True] * 4
        assert vector.single_action_space == made[0].action_space
        assert vector.single_action_space is not made[0].action_space


class Own(gymnasium.spaces.Discrete):
    """A space with a way of its own to be pickled."""

    def __reduce__(self) -> Any:
        return Own, (int(self.n),)


def test_a_space_with_a_way_of_its_own_goes_that_way(backend: str) -> None:
    def make() -> Any:
        env: Any = Count(3)
        env.action_space = Own(5)
        return env

    with make_vec([make] * 2, plan=Plan(backend, 1)) as vector:
        assert type(vector.single_action_space) is Own
        assert vector.single_action_space.n == 5


def test_what_a_class_has_may_change() -> None:
    class Counted:
        episodes = 0

        def reset(self) -> None:
            type(self).episodes += 1

    first: Any = Counted()
    assert attributes(first) == {}
    for _ in range(5):
        first.reset()
    first.level = 5
    assert attributes(first) == {"level": 5}
