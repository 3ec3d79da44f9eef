"""Process-wide generators are watched, saved, loaded and made anew, by memory and by official API alike."""

from __future__ import annotations

import os
import pickle
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.engine.randomness.generators import GENERATORS, Generators

FAST, SLOW = Generators(), Generators(fast=False)
both = pytest.mark.parametrize("generators", [FAST, SLOW], ids=["fast", "official"])

DRAWS: dict[str, tuple[str, Callable[[int], list[Any]]]] = {
    "random.random": ("random", lambda n: [random.random() for _ in range(n)]),
    "random.gauss": ("random", lambda n: [random.gauss(0, 1) for _ in range(n)]),
    "random.shuffle": ("random", lambda n: random.sample(range(1000), n)),
    "np.random.rand": ("numpy.random", lambda n: np.random.rand(n).tolist()),
    "np.random.randn": ("numpy.random", lambda n: np.random.randn(n).tolist()),
    "np.random.randint": ("numpy.random", lambda n: np.random.randint(0, 2**31, n).tolist()),
    "torch.rand": ("torch", lambda n: torch.rand(n).tolist()),
    "torch.randn": ("torch", lambda n: torch.randn(n).tolist()),
    "torch.randn double": ("torch", lambda n: torch.randn(n, dtype=torch.double).tolist()),
    "torch.normal": ("torch", lambda n: [torch.normal(0.0, 1.0, ()).item() for _ in range(n)]),
}
every_draw = pytest.mark.parametrize("draw", DRAWS)

SEEDS: dict[str, Callable[[int], object]] = {
    "random": random.seed,
    "numpy.random": lambda seed: np.random.seed(seed % 2**32),
    "torch": torch.manual_seed,
}
every_generator = pytest.mark.parametrize("name", SEEDS)


def official() -> tuple[Any, ...]:
    """All states, as their owners tell them."""
    state: Any = np.random.get_state()
    _, words, *rest = state
    return random.getstate(), words.tolist(), rest, torch.get_rng_state().tolist()


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    states = SLOW.save()
    yield
    SLOW.load(states)


def test_memory_is_used_here() -> None:
    assert {name: generator.fast for name, generator in GENERATORS.known().items()} == {
        "random": True,
        "numpy.random": True,
        "torch": True,
    }
    assert not any(generator.fast for generator in SLOW.known().values())


def test_the_self_test_leaves_everything_as_it_was() -> None:
    random.gauss(0, 1), np.random.randn(), torch.randn(3)
    before = official()
    assert all(generator.fast for generator in Generators().known().values())
    assert official() == before


# -- save and load ------------------------------------------------------------------------------------


@both
@every_draw
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), earlier=st.integers(0, 1300), count=st.integers(1, 9))
def test_load_repeats_draws(generators: Generators, draw: str, seed: int, earlier: int, count: int) -> None:
    name, function = DRAWS[draw]
    SEEDS[name](seed)
    function(earlier % 900)
    states, whole = generators.save(), official()
    first = function(count)
    function(700)
    generators.load(states)
    assert official() == whole
    assert generators.save() == states
    assert function(count) == first


@both
@pytest.mark.parametrize("draw", ["random.gauss", "np.random.randn", "torch.randn double", "torch.normal"])
def test_a_cached_gaussian_is_part_of_the_state(generators: Generators, draw: str) -> None:
    name, function = DRAWS[draw]
    SEEDS[name](5)
    function(1)
    states, second = generators.save(), function(1)
    SEEDS[name](6)  # empties the cache
    generators.load(states)
    assert function(1) == second


@every_draw
@given(seed=st.integers(0, 2**32 - 1), earlier=st.integers(0, 700))
@settings(max_examples=10, deadline=None)
def test_memory_and_the_official_api_tell_the_same(draw: str, seed: int, earlier: int) -> None:
    name, function = DRAWS[draw]
    SEEDS[name](seed)
    function(earlier)
    states = FAST.save()
    assert states == SLOW.save()
    first = function(3)
    SLOW.load(states)
    assert function(3) == first
    FAST.load(SLOW.fresh(seed))
    assert SLOW.save() == FAST.save() == FAST.fresh(seed)


@both
def test_states_survive_pickle(generators: Generators) -> None:
    states = generators.save()
    first = [function(3) for _, function in DRAWS.values()]
    copy = pickle.loads(pickle.dumps(states))
    assert copy == states
    generators.load(copy)
    assert [function(3) for _, function in DRAWS.values()] == first


@both
@every_generator
def test_a_generator_absent_from_the_states_is_left_alone(generators: Generators, name: str) -> None:
    states = generators.save()
    for _, function in DRAWS.values():
        function(1)
    drawn = generators.save()
    generators.load({name: states[name]})
    assert generators.save() == {**drawn, name: states[name]}


@both
def test_what_is_not_a_state_is_refused(generators: Generators) -> None:
    states: dict[str, Any] = generators.save()
    twister, gauss_next = states["random"]
    outside = (625).to_bytes(4, sys.byteorder) + twister[4:]
    for name, wrong in (
        ("random", (twister[:-4], gauss_next)),
        ("random", (outside, gauss_next)),
        ("numpy.random", (None, states["numpy.random"][1][:-4], states["numpy.random"][2])),
        ("numpy.random", (None, *states["numpy.random"][:0:-1])),
        ("torch", states["torch"][:-1]),
    ):
        with pytest.raises((ValueError, struct.error)):
            generators.load({name: wrong})
    assert generators.save() == states


# -- peek and touched ---------------------------------------------------------------------------------


@both
@every_draw
def test_every_single_draw_is_noticed(generators: Generators, draw: str) -> None:
    name, function = DRAWS[draw]
    for _ in range(9):
        before = generators.peek()
        function(1)
        assert generators.peek() != before
        assert generators.touched(before) == (name,)


@both
@given(words=st.integers(1, 3 * 624))
@settings(max_examples=30, deadline=None)
def test_any_number_of_words_is_noticed(generators: Generators, words: int) -> None:
    before = generators.peek()
    random.getrandbits(32 * words)
    assert generators.touched(before) == ("random",)
    np.random.bytes(4 * words)
    assert generators.touched(before) == ("random", "numpy.random")
    torch.empty(words, dtype=torch.int32).random_()
    assert generators.touched(before) == ("random", "numpy.random", "torch")


@both
def test_a_whole_round_is_noticed(generators: Generators) -> None:
    def positions() -> tuple[object, ...]:
        state: Any = np.random.get_state()
        return random.getstate()[1][-1], state[2], torch.get_rng_state()[8:24].tolist()

    random.random(), np.random.rand(), torch.rand(1)
    here, before = positions(), generators.peek()
    random.getrandbits(32 * 624)
    np.random.bytes(4 * 624)
    torch.empty(624, dtype=torch.int32).random_()
    assert positions() == here
    assert generators.touched(before) == ("random", "numpy.random", "torch")


@both
@every_generator
@given(seeds=st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=2, unique_by=lambda seed: seed % 2**32))
@settings(max_examples=30, deadline=None)
def test_another_seed_is_noticed(generators: Generators, name: str, seeds: list[int]) -> None:
    SEEDS[name](seeds[0])
    before = generators.peek()
    SEEDS[name](seeds[1])
    assert generators.touched(before) == (name,)


@both
def test_a_torch_seed_that_differs_in_its_upper_half_is_noticed(generators: Generators) -> None:
    torch.manual_seed(7)
    before = generators.peek()
    torch.manual_seed(7 + 2**32)  # the same numbers, but another initial_seed()
    assert generators.touched(before) == ("torch",)


@both
@pytest.mark.parametrize("draws", [0, 1, 2])
def test_a_state_that_was_swapped_out_and_back_goes_unnoticed(generators: Generators, draws: int) -> None:
    """torch leaves other bytes in memory where no normal is cached; a normal that is cached counts as ever."""
    torch.manual_seed(7)
    torch.empty(draws, dtype=torch.double).normal_()
    before, states = generators.peek(), generators.save()
    for number in range(3):
        generators.load(generators.fresh(number))
        torch.empty(number, dtype=torch.double).normal_()
        assert generators.touched(before) == ("random", "numpy.random", "torch")
        generators.load(states)
        assert generators.touched(before) == ()
    torch.empty(1, dtype=torch.double).normal_()
    assert generators.touched(before) == ("torch",)


@both
def test_work_without_draws_goes_unnoticed(generators: Generators) -> None:
    before = generators.peek()
    random.Random(1).random(), np.random.default_rng(1).random(), np.random.RandomState(1).randn(3)
    torch.rand(3, generator=torch.Generator().manual_seed(1))
    sorted([3, 1, 2]), np.arange(1000).sum(), torch.ones(100, 100) @ torch.ones(100, 100)
    random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.initial_seed()
    generators.save(), generators.fresh(3), Generators().known()
    assert generators.peek() == before
    assert generators.touched(before) == ()


@both
def test_peek_is_that_of_each_generator(generators: Generators) -> None:
    random.gauss(0, 1), np.random.randn(3)
    assert generators.peek() == tuple(part for each in generators.known().values() for part in each.peek())


# -- a bit generator put there by a user ----------------------------------------------------------------


@both
@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_another_bit_generator_is_noticed_and_swapped(generators: Generators, kind: Any) -> None:
    home, guest = np.random.mtrand.get_bit_generator(), kind(3)
    states, before = generators.save(), generators.peek()
    np.random.mtrand.set_bit_generator(guest)
    assert generators.touched(before) == ("numpy.random",)
    for function in (np.random.rand, np.random.randn, np.random.randn):
        before = generators.peek()
        assert generators.peek() == before
        function()
        assert generators.touched(before) == ("numpy.random",)
    np.random.randn()
    with_guest, first = generators.save(), np.random.randn(5).tolist()
    generators.load(states)
    assert np.random.mtrand.get_bit_generator() is home
    assert generators.save() == states
    np.random.rand(3)
    generators.load(with_guest)
    assert np.random.mtrand.get_bit_generator() is guest
    assert np.random.randn(5).tolist() == first
    generators.load(pickle.loads(pickle.dumps(with_guest)))
    assert type(np.random.mtrand.get_bit_generator()) is kind
    assert np.random.randn(5).tolist() == first


def test_a_bit_generator_that_was_there_first_is_a_guest_too() -> None:
    np.random.mtrand.set_bit_generator(np.random.PCG64(3))
    generators = Generators()
    assert not generators.known()["numpy.random"].fast
    states, first = generators.save(), np.random.randn(3).tolist()
    generators.load(generators.fresh(1))
    assert type(np.random.mtrand.get_bit_generator()) is np.random.MT19937
    generators.load(states)
    assert np.random.randn(3).tolist() == first


# -- fresh --------------------------------------------------------------------------------------------


@both
@given(seed=st.integers(0, 2**128) | st.lists(st.integers(0, 2**64), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_fresh_is_a_function_of_the_seed(generators: Generators, seed: int | list[int]) -> None:
    before = official()
    states = generators.fresh(seed)
    assert states == generators.fresh(seed)
    assert states == FAST.fresh(seed)
    assert official() == before


@given(st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=20, unique=True))
@settings(max_examples=10, deadline=None)
def test_fresh_streams_are_all_different(seeds: list[int]) -> None:
    firsts = set()
    for seed in seeds:
        FAST.load(FAST.fresh(seed))
        firsts |= {random.getrandbits(62), int(np.random.randint(2**62)), int(torch.randint(2**62, ()))}
    assert len(firsts) == 3 * len(seeds)


@both
def test_fresh_streams_are_the_same_for_everybody(generators: Generators) -> None:
    generators.load(generators.fresh([1, 2]))
    drawn = random.getrandbits(32), int(np.random.randint(2**31)), torch.initial_seed()
    assert drawn == (3_726_074_450, 1_757_020_568, 14_767_777_920_535_664_982)


# -- torch that is not there, or comes late ---------------------------------------------------------------


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [
        sys.executable,
        "-c",
        "import sys\nfrom paceline.engine.randomness.generators import GENERATORS\n" + code,
    ]
    return subprocess.run(command, env=environment, check=True, timeout=60, capture_output=True, text=True).stdout


def test_torch_is_never_imported_by_us() -> None:
    states = pickle.dumps({name: state for name, state in FAST.fresh(3).items() if name != "torch"})
    code = f"""
import pickle, importlib.util
before = GENERATORS.peek()
GENERATORS.load(GENERATORS.save())
assert GENERATORS.fresh(3) == pickle.loads({states!r})
assert GENERATORS.touched(before) == ()
assert importlib.util.find_spec("torch") is not None
try:
    GENERATORS.load({{"torch": b""}})
except RuntimeError as error:
    print(error)
assert "torch" not in sys.modules
"""
    assert "torch" in run(code)


@pytest.mark.parametrize("use", ["", "torch.rand(1)", "torch.manual_seed(5)", "torch.manual_seed(2**63 + 5)"])
def test_torch_imported_late_is_noticed_if_it_is_used(use: str) -> None:
    code = f"""
finders = list(sys.meta_path)
before = GENERATORS.peek()
import torch
{use}
print(GENERATORS.touched(before))
assert sys.meta_path[-len(finders):] == finders
assert GENERATORS.known()["torch"].fast
before = GENERATORS.peek()
assert GENERATORS.touched(before) == ()
torch.rand(1)
assert GENERATORS.touched(before) == ("torch",)
"""
    assert run(code).split() == (["('torch',)"] if use else ["()"])
