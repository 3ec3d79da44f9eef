"""What users configure: frozen, checked when it is read, with errors that name the key.

file ── read_yaml ──► mapping
mapping (dict, OmegaConf, YAML) ── read ──► a Settings object, or one BadInput that lists every wrong key
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from paceline.errors import BadInput


class Settings(BaseModel):
    """A frozen set of named values. Unknown keys are refused: a misspelt option must not be a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    @classmethod
    def read(cls, values: Mapping[str, Any] | Self | None, where: str) -> Self:
        """Checks `values` and gives the settings.

        Args:
            values: Key → value; None means all defaults.
            where: How an error names the place, "custom_envs.Sokoban.env_config" say.
        """
        if isinstance(values, cls):
            return values
        if values is not None and not isinstance(values, Mapping):
            raise BadInput(f"{where} is {_short(values)}; expected a mapping of {', '.join(cls.model_fields)}")
        try:
            return cls.model_validate(dict(values or {}))
        except ValidationError as error:
            raise BadInput("; ".join(_faults(error, where, cls))) from None


def read_yaml(path: Path, expected: str, gaps: list[int] | None = None) -> Mapping[Any, Any]:
    """The mapping that a file of YAML holds.

    Args:
        path: The file.
        expected: What it must have, for messages.
        gaps: Takes the numbers of lines that say "..." alone, where a guide leaves keys out: they are passed over.
            None: such a line is read like any other.

    Raises:
        BadInput: it cannot be read, or holds no mapping; or PyYAML is missing.
    """
    try:
        import yaml
    except ImportError:
        raise BadInput(f"{path} is YAML, and PyYAML is not installed: pip install 'paceline[llm]'") from None
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text if gaps is None else _without_gaps(text, gaps))
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} is not YAML: {error}") from None
    _check_finite(path, content, ())
    if not isinstance(content, Mapping):
        found = "is empty" if content is None else f"holds a {type(content).__name__}"
        raise BadInput(f"{path} {found}; expected a mapping with {expected}")
    return content


def _without_gaps(text: str, gaps: list[int]) -> str:
    """At the beginning of a line "..." is YAML, and ends a document; further to the right it is none."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.strip() == "..." and not line.startswith("..."):
            gaps.append(number)
            lines[number - 1] = ""
    return "\n".join(lines)


def _check_finite(path: Path, content: Any, above: tuple[int, ...]) -> None:
    """An alias in YAML may stand for what it stands in; nothing can read that to its end."""
    if id(content) in above:
        raise BadInput(f"{path} refers to itself: an alias (*name) stands inside what it names (&name); write it out")
    inner = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    for each in inner:
        _check_finite(path, each, (*above, id(content)))


def _faults(error: ValidationError, where: str, cls: type[BaseModel]) -> Iterator[str]:
    for fault in error.errors():
        path = ".".join(str(part) for part in (where, *fault["loc"]))
        if fault["type"] == "extra_forbidden":
            yield f"{path} is not known{_hint(str(fault['loc'][-1]), _known(cls, fault['loc'][:-1]))}"
        elif fault["type"] == "missing":  # the input is what it is missing in, which may be long
            yield f"{path} is missing"
        else:
            said = fault["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list")
            yield f"{path} is {_short(fault['input'])}: {said[:1].lower()}{said[1:]}"


def _known(cls: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The names that there are where the path leads to."""
    for part in path:
        field = cls.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type) or not issubclass(field.annotation, BaseModel):
            break
        cls = field.annotation
    return list(cls.model_fields)


def _hint(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
