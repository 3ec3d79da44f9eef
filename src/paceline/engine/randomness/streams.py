"""A member's own streams of the process-wide generators, for jobs that write members to disk and go on from there.

A snapshot that a pool takes has them with it. What a member gives of itself in a call has not, so it asks here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from struct import Struct
from typing import Any

from paceline.engine.randomness.generators import GENERATORS, NumpyRandom, PythonRandom, TorchRandom
from paceline.engine.randomness.isolation import SWAPPED_IN


def are_plain_streams(streams: Any) -> bool:
    """Whether streams are numbers and bytes alone, as they must be where they come from others: only a generator that a
    user has put in the place of numpy's is an object, and its state a pickle."""
    return (
        isinstance(streams, dict)
        and streams.keys() <= _PLAIN.keys()
        and all(_PLAIN[name](state) for name, state in streams.items())
    )


def _is_plain_python(state: Any) -> bool:
    words, gauss = state if type(state) is tuple and len(state) == 2 else (None, None)
    return _is_twister(words, PythonRandom.layout, 0) and type(gauss) in (float, type(None))


def _is_plain_numpy(state: Any) -> bool:
    guest, words, gauss = state if type(state) is tuple and len(state) == 3 else (state, None, None)
    told = type(gauss) is bytes and len(gauss) == NumpyRandom.gauss.size
    return guest is None and told and _is_twister(words, NumpyRandom.layout, -1)


def _is_twister(words: Any, layout: Struct, position: int) -> bool:
    """Whether bytes are a Mersenne Twister: its position is where memory is read."""
    return type(words) is bytes and len(words) == layout.size and 0 <= layout.unpack(words)[position] <= 624


_PLAIN: dict[str, Callable[[Any], bool]] = {
    PythonRandom.name: _is_plain_python,
    NumpyRandom.name: _is_plain_numpy,
    TorchRandom.name: lambda state: type(state) is bytes,
}


class OwnStreams:
    """A member whose streams can be saved and put back."""

    def streams(self) -> dict[str, Any] | None:
        """Where its streams stand, to be called as a read; None: it has never drawn."""
        return SWAPPED_IN[-1].drawn() if SWAPPED_IN else None

    def take_streams(self, states: Mapping[str, Any]) -> None:
        """Goes on with streams from where `streams` found them."""
        for name in states:
            import_module(name)  # a generator that is not there yet has no state to be set
        GENERATORS.load(states)
