"""Options: the keywords of a job's public function. Its signature is the schema; its docstring says what they mean.

episodes: Count = 1        name, kind, bounds, default ┐
Args:                                                  ├► Options ──► checked keywords, keys of a YAML file
    episodes: Of each …    meaning ────────────────────┘
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_args, get_origin

import numpy as np
from annotated_types import Ge, Gt

from paceline.engine import Plan, Trace
from paceline.errors import BadInput

REQUIRED: Any = inspect.Parameter.empty
"""The default of an option that must be given."""

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Says:
    """How an error says what an option may be: "a directory"."""

    words: str


Whole = Annotated[int, Ge(0)]
"""A whole number, 0 or more."""

Count = Annotated[int, Ge(1)]
"""A whole number, 1 or more."""

Seconds = Annotated[float, Gt(0), Says("a finite number of seconds above 0")]
"""A time, in seconds."""

Device = Annotated[str, Says("auto, cpu, cuda or mps")]
"""A device of torch."""

Directory = Annotated[str | os.PathLike[str], Says("a directory")]
"""A directory, which need not be there."""


def common_options(
    *,
    seed: Whole = 0,
    lanes: Count = 8,
    device: Device = "cpu",
    plan: str | int | Plan = "auto",
    out: Directory | None = None,
    resume: bool = False,
    trace: Trace | None = None,
) -> None:
    """Declares the options that mean the same in every job; a job that has one writes it as it stands here.

    Args:
        seed: Root of everything random.
        lanes: Rows of a batch in which networks answer. Part of the result: another number gives other bits.
        device: Where networks are put: "auto", "cpu", "cuda" or "mps". Part of the result.
        plan: Where it runs: "auto", a backend, a number of workers (0: here), or a `Plan`. It changes no bit of the
            result.
        out: A directory for the results.
        resume: Whether to go on with what `out` holds.
        trace: Records where the time goes.
    """


@dataclass(frozen=True)
class Option:
    """One keyword of a job.

    Attributes:
        name: The keyword.
        kind: Its annotation, with the bounds.
        default: Its default; `REQUIRED` if there is none.
        meaning: What the docstring says of it.
    """

    name: str
    kind: Any
    default: Any
    meaning: str

    @property
    def says(self) -> str:
        """What may be given, in words: "a whole number, 1 or more"."""
        return _in_words(self.kind)

    def check(self, value: Any) -> Any:
        """The value, as Python's kind of number if it is one of NumPy's.

        Functions and sequences are the job's own to check: a type does not say what they may be.

        Raises:
            BadInput: it is not of the option's kind, or out of its bounds.
        """
        from pydantic import ValidationError

        if value is self.default or not _is_plain(self.kind):
            return value
        try:
            return _adapter(self.kind).validate_python(value.item() if isinstance(value, np.generic) else value)
        except ValidationError:
            raise BadInput(f"{self.name}={value!r:.60}; give {self.says}") from None


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    return TypeAdapter(kind, config=config)


class Options(Mapping[str, Option]):
    """The options of a job, by name, in the order of the signature.

    Args:
        function: The job's public function, or the class that is called.
        without: Names that are left out.
    """

    def __init__(self, function: Callable[..., Any], without: Collection[str] = ()) -> None:
        made = inspect.unwrap(function.__init__ if inspect.isclass(function) else function)
        kinds = typing.get_type_hints(made, include_extras=True)
        meanings = arguments(inspect.getdoc(function) or "")
        self._options = {
            name: Option(name, kinds.get(name, Any), parameter.default, meanings.get(name, ""))
            for name, parameter in inspect.signature(made).parameters.items()
            if name not in ("self", *without)
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }

    def __getitem__(self, name: str) -> Option:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The keywords that are given, each checked; names that are no options are left as they are.

        Raises:
            BadInput: one is not what its option may be.
        """
        return {name: self[name].check(value) if name in self else value for name, value in given.items()}

    def read(self, file: Path, expected: str) -> dict[str, Any]:
        """The keywords that a file of YAML gives; only those.

        Args:
            file: The file.
            expected: What it must have, for messages.

        Raises:
            BadInput: it cannot be read, a key is no option, or a value is not what its option may be.
        """
        from paceline.settings import read_yaml

        content = read_yaml(file, expected)
        for key in content:
            if key not in self:
                close = difflib.get_close_matches(str(key), list(self), 1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(self)}"
                raise BadInput(f"{file}: {key} is not known; {hint}")
        try:
            return self.check({str(key): value for key, value in content.items() if value is not None})
        except BadInput as error:
            raise BadInput(f"{file}: {error}") from None


def checked(name: str, kind: Any, value: Value) -> Value:
    """One value, checked as an option of that kind is.

    Raises:
        BadInput: it is not of that kind, or out of its bounds.
    """
    found: Value = Option(name, kind, REQUIRED, "").check(value)
    return found


@cache
def options_of(function: Callable[..., Any]) -> Options:
    """The options of a job's function."""
    return Options(function)


def checks_options(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """A function whose arguments are checked by its signature before it is called."""
    names = list(inspect.signature(function).parameters)

    @wraps(function)
    def call(*args: Given.args, **given: Given.kwargs) -> Answer:
        options = options_of(function)
        named = options.check(dict(zip(names, args, strict=False)))
        return function(*named.values(), *args[len(named) :], **options.check(given))  # type: ignore[arg-type]

    return call


_ENTRY = re.compile(r"^(?P<indent> *)\*{0,2}(?P<names>\w+)(?: *\([^)]*\))?: (?P<words>.*)$")


def arguments(doc: str) -> dict[str, str]:
    """What a docstring in Google's form says of each argument, in a line."""
    found: dict[str, str] = {}
    indent = name = None
    for line in doc.partition("Args:\n")[2].splitlines():
        if line.strip() and not line.startswith(" "):
            break  # the next section
        entry = _ENTRY.match(line)
        if entry is not None and indent in (None, entry["indent"]):
            indent, name = entry["indent"], entry["names"]
            found[name] = entry["words"]
        elif name is not None and line.strip():
            found[name] += f" {line.strip()}"
        elif not line.strip():
            name = None
    return found


def _is_plain(kind: Any) -> bool:
    """Whether an annotation is made of numbers, words, flags, classes, and mappings of them."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _is_plain(get_args(kind)[0])
    if origin in (typing.Union, types.UnionType) or origin in (Mapping, dict):
        return all(map(_is_plain, get_args(kind)))
    return origin in (Literal, os.PathLike) or (origin is None and isinstance(kind, type) and kind is not Any)


def _in_words(kind: Any) -> str:
    """What an annotation allows, as an error says it."""
    if get_origin(kind) in (typing.Union, types.UnionType):
        return _listed([_in_words(each) for each in get_args(kind)])
    if get_origin(kind) is Annotated:
        inner, *marks = get_args(kind)
        said = [mark.words for mark in marks if isinstance(mark, Says)]
        return said[0] if said else f"{_in_words(inner)}{''.join(map(_bound, marks))}"
    if get_origin(kind) is Literal:
        return _listed([str(word) for word in get_args(kind)])
    origin = get_origin(kind) or kind
    if origin in _WORDS:
        return _WORDS[origin]
    name = getattr(origin, "__name__", str(origin))
    return f"a {name}()"


_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "a word",
    type(None): "None",
    Mapping: "a mapping",
    dict: "a dict",
}


def _bound(mark: Any) -> str:
    if isinstance(mark, Ge):
        return f", {mark.ge} or more"
    return f" above {mark.gt}" if isinstance(mark, Gt) else ""


def _listed(words: list[str]) -> str:
    *others, last = words
    separator = ", or " if any("," in word for word in words) else " or "
    return f"{', '.join(others)}{separator}{last}" if others else last
