"""The promise in one function: a job gives the same result wherever it runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from paceline.seeds import digest

Place = tuple[str, int]
"""A backend and a number of workers."""

PLACES: tuple[Place, ...] = (("thread", 2), ("process", 1), ("process", 2), ("process", 3))
"""Where `same_everywhere` looks unless it is told. Ray has to be asked for: it takes seconds to start."""

_SHOWN = 200


def same_everywhere(
    job: Callable[[str, int], Any], *, places: Sequence[Place] = PLACES, reference: str = "inline"
) -> str:
    """Runs `job(backend, workers)` as a reference and in every place, and compares the digests of what it returns.

    Args:
        job: Does the work on the backend and the number of workers that it is given, and returns a value.
        places: Where it is run beside the reference. A job whose members draw from process-wide generators is
            refused on threads, so leave those out for it.
        reference: The backend, with one worker, whose result is the right one.

    Returns:
        The digest that they all have.

    Raises:
        AssertionError: names the first place that gives another value, and where in the value it differs.
    """
    expected = _run(job, (reference, 1))
    right = digest(expected)
    for place in places:
        value = _run(job, place)
        if digest(value) != right:
            raise AssertionError(_complaint(place, reference, expected, value))
    return right


def difference(expected: Any, value: Any, path: str = "value") -> tuple[str, str, str] | None:
    """Finds the first part in which two values differ: its path, what was expected there, and what there is.

    Returns None if the values have the same digest.
    """
    if digest(expected) == digest(value):
        return None
    if type(expected) is type(value):
        for step, one, other in _pairs(expected, value):
            found = difference(one, other, path + step)
            if found is not None:
                return found
    return path, *_told_apart(expected, value)


def _run(job: Callable[[str, int], Any], place: Place) -> Any:
    try:
        return job(*place)
    except Exception as error:
        error.add_note(f"in {_words(place)}")
        raise


def _words(place: Place) -> str:
    backend, workers = place
    return f"{backend} with {workers} worker" + ("s" if workers != 1 else "")


def _complaint(place: Place, reference: str, expected: Any, value: Any) -> str:
    path, right, wrong = difference(expected, value) or ("value", "another", "another")
    return f"{_words(place)} gives another result than {reference}: {path} is {wrong} there, and {right} on {reference}"


class _Absent:
    """Stands for a part that only one of the two values has."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def _pairs(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    """The parts of two values of the same type, side by side."""
    if isinstance(one, np.ndarray):
        yield from _array_pairs(one, other)
    elif isinstance(one, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            yield f"[{key!r}]", one.get(key, _ABSENT), other.get(key, _ABSENT)
    elif isinstance(one, list | tuple):
        for index in range(max(len(one), len(other))):
            yield f"[{index}]", _item(one, index), _item(other, index)
    elif dataclasses.is_dataclass(one) or hasattr(one, "__dict__"):
        for name in _names(one, other):
            yield f".{name}", getattr(one, name, _ABSENT), getattr(other, name, _ABSENT)


def _array_pairs(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if one.shape != other.shape or one.dtype != other.dtype:
        return
    for index in np.ndindex(one.shape):
        yield f"[{', '.join(map(str, index))}]", one[index], other[index]


def _item(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _names(one: Any, other: Any) -> list[str]:
    if dataclasses.is_dataclass(one):
        return [field.name for field in dataclasses.fields(one)]
    return sorted({*vars(one), *vars(other)})


def _told_apart(expected: Any, value: Any) -> tuple[str, str]:
    """Both in words; the types too where the words alone are the same."""
    one, other = _shown(expected), _shown(value)
    if one != other:
        return one, other
    return f"{one} ({_kind(expected)})", f"{other} ({_kind(value)})"


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{name} of {value.dtype} {value.shape}" if isinstance(value, np.ndarray) else name
