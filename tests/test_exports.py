"""The public names exist, are documented, and cost no heavy import."""

import inspect
import subprocess
import sys

import pytest

import paceline

HEAVY = ("torch", "ray", "mujoco", "gymnasium", "pettingzoo", "pydantic")


def is_written_by_hand(thing: type, doc: str) -> bool:
    """Dataclasses and named tuples get a docstring that only repeats their signature."""
    return bool(doc) and not doc.startswith(f"{thing.__name__}(")


def test_every_name_is_there_once() -> None:
    assert len(set(paceline.__all__)) == len(paceline.__all__)


@pytest.mark.parametrize("name", paceline.__all__)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    thing = getattr(paceline, name)
    if inspect.isclass(thing):
        doc = vars(thing).get("__doc__") or ""  # not an inherited one
        assert is_written_by_hand(thing, doc), f"{name} has no docstring of its own"
    elif inspect.isroutine(thing) or inspect.ismodule(thing):
        assert inspect.getdoc(thing), f"{name} has no docstring"


@pytest.mark.parametrize("name", paceline.__all__)
def test_the_methods_of_a_public_class_are_documented(name: str) -> None:
    thing = getattr(paceline, name)
    members = vars(thing).items() if inspect.isclass(thing) else ()
    public = {key: value for key, value in members if not key.startswith("_")}
    undocumented = [key for key, value in public.items() if is_code(value) and not inspect.getdoc(value)]
    assert undocumented == []


def is_code(value: object) -> bool:
    return inspect.isroutine(value) or isinstance(value, property | classmethod | staticmethod)


def test_the_package_says_in_a_sentence_what_it_is() -> None:
    assert (paceline.__doc__ or "").strip().endswith(".")


def test_importing_the_package_pulls_in_nothing_heavy() -> None:
    program = f"import sys, paceline; print([name for name in {HEAVY} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
