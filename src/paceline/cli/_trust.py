"""Whether a run on disk may run the code that its plan.json names: it may have come from another person.

plan.json ──► names of code in it ──► files ──► in this directory, as when the run was begun? ──► else: --trust
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from paceline.errors import BadInput
from paceline.records import read_plan
from paceline.settings import read_yaml
from paceline.sources import content_digest

_OURS = Path(__file__).parents[1]
_NO_CODE = ("identity", "files", "recipes", "directory")  # of plan.json: what is asked stands beside them
_KINDS = ("gym:", "torch:", "text:", "sb3:", "mettagrid:", "paceline:")
_MODULE = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*):[A-Za-z_][\w.-]*")
_FILE = re.compile(r"([^\n]+\.py)(?::[\w.]+)*")
_CLASS = re.compile(r"([A-Za-z_]\w*(?:\.\w+)*)\.[A-Za-z_]\w*")
_WEIGHTS, _PICKLES = ("weights", "model", "data", "normalize"), ("normalize",)
_SHOWN = 9


def check_trusted(run: Path, trusted: bool, *, changed: bool = False) -> None:
    """Looks at what a run names before anything of it is loaded.

    Args:
        run: Its directory.
        trusted: Whether the user has said that it may run.
        changed: Whether code that has changed since the run was begun counts, too. To go on with it is refused anyway.

    Raises:
        BadInput: it names code that is neither ours nor in the working directory, or lies in the run itself.
    """
    plan = read_plan(run)
    if trusted:
        return
    said = {key: value for key, value in plan.items() if key not in _NO_CODE}
    begun = Path(str(plan.get("directory", ".")))
    home = begun if begun.is_dir() else Path.cwd()  # where names are looked up
    strange = list(dict.fromkeys(_strange(said, home, run.resolve(), plan.get("files", {}) if changed else {})))
    if strange:
        more = f", and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        raise BadInput(
            f"{run} would run {', '.join(strange[:_SHOWN])}{more}: look at it, and say --trust if you trust who wrote "
            f"it, or go to the directory that it is in (this one is {Path.cwd()})"
        )


def _strange(said: Any, home: Path, run: Path, known: Mapping[str, Any]) -> Iterator[str]:
    """What there is to be asked about, in words."""
    for text in _texts(said, home):
        words = [word.strip() for word in text.split(",")]
        for word in words:
            key, _, value = word.removeprefix("kw.").partition("=")
            if key in _WEIGHTS:
                if key in _PICKLES or "trust=true" in words:
                    yield from _strange_file(value, (home / value).resolve(), run, known)
            else:
                yield from _strange_word(word, home, run, known)


def _texts(said: Any, home: Path) -> Iterator[str]:
    """All text, also that of a configuration that is named."""
    if isinstance(said, str):
        yield said
        if said.endswith((".yaml", ".yml")):
            try:
                content: Any = read_yaml(home / said, "a configuration")
            except BadInput:  # told when it is read
                return
            yield from _texts(content, home)
    elif isinstance(said, Mapping):
        for key, value in said.items():
            yield from _texts(key, home)
            yield from _texts(value, home)
    elif isinstance(said, list | tuple):
        for value in said:
            yield from _texts(value, home)


def _strange_word(word: str, home: Path, run: Path, known: Mapping[str, Any]) -> Iterator[str]:
    key, equals, value = word.partition("=")
    named_class = equals and key in ("class", "kw.class")
    word = value if equals and re.fullmatch(r"[\w.]+", key) else word
    for kind in _KINDS:
        word = word.removeprefix(kind)
    if file := _FILE.fullmatch(word):
        yield from _strange_file(word, (home / file.group(1)).resolve(), run, known)
    elif word.endswith(".zip") or (os.sep in word and (home / word).is_dir()):
        yield from _strange_file(word, (home / word).resolve(), run, known)
    elif word.startswith("pz:"):
        return  # a module is imported for its environment, and nothing in it is called that it does not say itself
    elif found := _MODULE.fullmatch(word) or (_CLASS.fullmatch(word) if named_class else None):
        yield from _strange_module(word, found.group(1), home, run, known)


def _strange_file(word: str, path: Path, run: Path, known: Mapping[str, Any]) -> Iterator[str]:
    if path.is_relative_to(_OURS):
        return
    if not path.is_relative_to(Path.cwd().resolve()):
        yield f"{path} (not in this directory)"
    elif path.is_relative_to(run):
        yield f"{path} (it came with the run)"
    elif path.exists():
        before = [digest for name, digest in known.items() if str(name).startswith(f"{path.name} of ")]
        if before and content_digest(path) not in before:
            yield f"{path} (it has changed since the run was begun)"


def _strange_module(word: str, module: str, home: Path, run: Path, known: Mapping[str, Any]) -> Iterator[str]:
    origin = _origin(module, [str(Path.cwd()), str(home), *sys.path])
    if origin is None:
        return  # it is told when it is looked for
    if origin.suffix == ".py" and not _is_installed(origin):
        yield from _strange_file(word, origin, run, known)
    elif not origin.is_relative_to(_OURS):
        yield f"{word} ({origin}, not in this directory)"


def _is_installed(path: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or path.is_relative_to(sys.base_prefix)


def _origin(module: str, places: Any) -> Path | None:
    """Where a module is; nothing is imported to find it."""
    found: Path | None = None
    for end in range(module.count(".") + 1):
        name = ".".join(module.split(".")[: end + 1])
        if name in sys.builtin_module_names:
            return Path(sys.base_prefix) / name
        try:
            spec = PathFinder.find_spec(name, places)
        except (ImportError, ValueError, OSError):
            return found
        if spec is None:
            return found
        found = Path(spec.origin).resolve() if spec.origin and os.sep in spec.origin else found
        places = spec.submodule_search_locations or []
    return found
