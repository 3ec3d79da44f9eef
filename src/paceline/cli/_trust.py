"""Whether a run on disk may run what it names: it may have come from another person.

plan.json ──► written there by this user? ──► all of it
          └─► else: every text in it ──► a name, an id, a file of this directory? ──► else: --trust
checkpoint ──► pickles that this user has not written there? ──► --trust

What may be named is said here. What is not is asked about, whatever it would turn out to be.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paceline.catalog.missions import pettingzoo_modules
from paceline.catalog.words import share_of
from paceline.checkpoints import PICKLES, strange_pickles
from paceline.cli._running import whole
from paceline.cli._terminal import harmless
from paceline.errors import BadInput
from paceline.options import value_of
from paceline.records import plan_and_owner
from paceline.run_key import why_unknown
from paceline.settings import read_yaml
from paceline.sources import content_digest

_NO_CODE = ("identity", "files", "recipes", "directory")  # of plan.json: what is asked stands beside them
_LOADING = ("trust", "normalize", "data", "class")  # options that load code or pickles
_SENDING = ("base_url", "api_key_env")  # where to a key of the user's may go
_PROSE = ("env_instruction", "action_sep")  # of a configuration of groups: what models are shown
_FILES = ("weights", "config", "replays")  # keys whose values are paths, whatever they look like
_MISSIONS = ("missions", "mission", "env")  # keys of names that the loader of missions reads
_POLICIES = ("policies", "pool", "learners", "policy")  # and that of policies
_OF_GROUPS = ("es_manager", "custom_envs", "agent_proxy", "seed", "envs")  # of a configuration, what is read

_NAME = re.compile(r"[\w*?\[\]+-]+")
_OPTION = re.compile(r"[\w.]+")
_DEVICE = re.compile(r"[a-z]+(?::\d+)?")
_ID = re.compile(r"gym:(?:[\w-]+/)?[\w.-]+|(?:[\w-]+/)?[\w.-]+-v\d+|mettagrid:\w+")
_FORMS = {"device": _DEVICE, **dict.fromkeys(_MISSIONS, _ID)}  # beside plain names, by key
_PETTINGZOO = re.compile(r"pz:(?P<module>\w+(?:\.\w+)*)")
_PETTINGZOOS = ("pettingzoo", "mpe2")
_FILE = re.compile(r"(?P<file>[^\n:]+\.py)(?::(?P<attribute>\w+))?")
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.\w+)*):(?P<attribute>\w+)")
_PATH = re.compile(r"[^\n]+\.(?:zip|ya?ml|json)")
_RAGEN = "envs: ragen (what ragen.env is here)"
_CHANGED = "(it has changed since the run was begun)"
_OURS = Path(__file__).parents[1]
_SHOWN = 9
_LONG = 200  # characters of a word that is shown


def check_trusted(run: Path, trusted: bool, *, changed: bool = False) -> tuple[dict[str, Any], Path]:
    """Looks at what a run names before anything of it is loaded.

    Returns:
        Its plan, which is not read again: another one could be there by then. And the directory from which its files
        are looked for: that of its beginning; this one if that is not there, or the run is not known and names one
        elsewhere.

    Args:
        run: Its directory.
        trusted: Whether the user has said that it may run.
        changed: Whether code that has changed since the run was begun counts, too, also in the user's own. To go on
            with it is refused anyway.

    Raises:
        BadInput: this user has not written it there, and it names what is not known to be harmless.
    """
    plan, own = plan_and_owner(run)
    here, begun = Path.cwd(), Path(str(plan.get("directory", ".")))
    known = plan.get("files", {}) if changed else {}
    looks = {home: _Look(home, whole(run), known) for home in (begun, here) if home.is_dir()}
    if not (own or trusted) and begun in looks and any(looks[here].at_place(begun)):
        home = here  # what lies there might be found before what is installed
    else:
        home = begun if begun in looks else here
    if home != begun:
        why = "elsewhere, and not by you" if begun in looks else "which is not there"
        said = f"warning: {run} was begun in {begun}, {why}: files are looked for here"
        print(harmless(said), file=sys.stderr)
    if trusted:
        return plan, home
    named = _named(plan)
    try:
        found = [each for look in looks.values() for each in look.at(named)]
    except RecursionError:
        found = ["what is nested too deep to be looked at"]
    strange = [each for each in dict.fromkeys(found) if not own or each.endswith(_CHANGED)]
    strange += [f"{place / PICKLES} (pickles)" for place in _parts(run) if strange_pickles(place)]
    if strange:
        more = f", and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        why = "" if own else f" ({why_unknown()})"
        raise BadInput(
            f"{run} would run {', '.join(strange[:_SHOWN])}{more}{why}: look at it, and say --trust if you trust who "
            f"wrote it, or go to the directory that its files are in (this one is {here})"
        )
    return plan, home


def _named(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What of a plan may name code; `rollout` only tells an endpoint its model's name, and has policies of text."""
    found = {key: value for key, value in plan.items() if key not in _NO_CODE}
    if isinstance(asked := found.get("command"), Mapping):
        rest = {key: value for key, value in asked.items() if key not in ("model", "policy")}
        found["command"] = {**rest, "text_policy": asked.get("policy")}
    return found


def _parts(run: Path) -> Iterator[Path]:
    """The directories of a run that may have checkpoints: one, or one of each seed."""
    yield run
    yield from sorted(path for path in run.glob("seed-*") if path.is_dir())


class _Look:
    """Finds what is not known to be harmless.

    Args:
        home: From where names are looked up.
        run: The directory of the run.
        known: The files that the run was begun with, "name of owner", with their digests; what is named is compared.
    """

    def __init__(self, home: Path, run: Path, known: Mapping[str, Any]) -> None:
        self._home, self._run, self._known = home, run, known
        self._here = whole(Path.cwd())

    def at_place(self, path: Path) -> Iterator[str]:
        """What there is to be asked about a path: a file, or a directory."""
        place = whole(path)
        if not place.is_relative_to(self._here):
            yield f"{place} (not in this directory)"
        elif place.is_relative_to(self._run):
            yield f"{place} (it came with the run)"
        elif place.is_relative_to(_OURS) or _is_installed(place):
            yield f"{place} (installed, and not written for this)"

    def at(self, value: Any, key: str = "") -> Iterator[str]:
        """What there is to be asked about, in words.

        Args:
            value: Part of a plan.
            key: What it stands under.
        """
        if key in _LOADING + _SENDING and value is not None and value is not False:
            yield f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"
        elif key in _FILES and isinstance(value, str | int | float):  # 1 may be the name of a file, too
            yield from self._told(self._at_path, str(value), key)
        elif isinstance(value, str):
            yield from self._told(self._at_text, value, key) if key not in _PROSE else ()
        elif isinstance(value, Mapping):
            for inner, each in value.items():
                yield from self._at_key(inner, key)
                yield from self.at(each, key if key == "learners" and isinstance(each, str) else str(inner))
        elif isinstance(value, list | tuple):
            for each in value:
                yield from self.at(each, key)
        elif not isinstance(value, int | float | None):  # YAML has more kinds, which a reader may take for text
            yield repr(value)[:_LONG]

    def _told(self, look: Callable[[str, str], Iterator[str]], text: str, key: str) -> Iterator[str]:
        """What cannot be looked at, such as a path that is too long, is asked about."""
        try:
            yield from [*look(text, key)]
        except (OSError, ValueError):
            yield text[:_LONG]

    def _at_key(self, inner: Any, key: str) -> Iterator[str]:
        """A mapping may be taken for the list of its keys."""
        if not isinstance(inner, str):
            yield from self.at(inner)
        elif key in _MISSIONS + _POLICIES or not _NAME.fullmatch(inner):
            yield from self._told(self._at_text, inner, key)

    def _at_path(self, text: str, key: str) -> Iterator[str]:
        """A path is read as it is, and by some readers with `~` for a home."""
        yield from self._at_file(text)
        if text.startswith("~"):
            with suppress(RuntimeError):
                yield from self._at_file(str(Path(text).expanduser()))
        if key == "config":
            yield from self._in_file(text, _groups_in)

    def _at_text(self, text: str, key: str) -> Iterator[str]:
        if key == "envs" and text == "ragen":
            yield _RAGEN
        if key == "tasks" and isinstance(tasks := value_of(text), list | dict):
            yield from self.at(tasks)
            return
        name, *options = (word.strip() for word in text.split(","))
        if key == "ppo":
            name, options = "", [name, *options]
        yield from self._at_word(name, key)
        for option in options:
            yield from self._at_option(option)

    def _at_option(self, word: str) -> Iterator[str]:
        option, equals, text = word.partition("=")
        name, value = option.removeprefix("kw."), value_of(text)
        if not equals or not _OPTION.fullmatch(option):
            yield from self._at_word(word, "")
        elif name in _LOADING + _SENDING:
            if (name, text) != ("trust", "false"):
                yield word
        elif name in _FILES:
            yield from self._at_path(str(value), name)
        elif isinstance(value, str):
            yield from self._at_word(value, "")
        else:
            yield from self.at(value)

    def _at_word(self, word: str, key: str) -> Iterator[str]:
        """A name, without options. Whatever is a file is one, whatever it looks like."""
        name = _without_kind(word) if key in _POLICIES else word
        if not name:
            return
        if file := _FILE.fullmatch(name):
            yield from self._at_file(file["file"])
            yield from self._at_attribute(self._home / file["file"], file["attribute"], name)
        elif name.endswith(".py"):
            yield word
        elif _PATH.fullmatch(name) or os.path.lexists(self._home / name) or os.path.lexists(name):
            yield from self._at_file(name)
            if name.endswith((".yaml", ".yml", ".json")):
                yield from self._in_file(name, _mission_in)
        elif key in _MISSIONS and (zoo := _PETTINGZOO.fullmatch(name)):
            yield from self._at_pettingzoo(name, zoo["module"])
        elif _NAME.fullmatch(name) or ((form := _FORMS.get(key)) and form.fullmatch(name)):
            return
        elif module := _MODULE.fullmatch(name):
            yield from self._at_module(word, module["module"], module["attribute"])
        else:
            yield word

    def _in_file(self, name: str, read: Callable[[Path], Any]) -> Iterator[str]:
        """What a file names. One that is not there is told when it is read."""
        path = self._home / name
        if not os.path.lexists(path):
            return
        try:
            content = read(path) if path.is_file() else None
        except (BadInput, OSError, ValueError, RecursionError):
            content = None
        yield from self.at(content) if content is not None else [f"{path} (it cannot be read)"]

    def _at_file(self, name: str) -> Iterator[str]:
        path = self._home / name
        yield from self.at_place(path)
        if (
            path.suffix == ".py" and "." in whole(path).stem
        ):  # what is before the point would be imported, from anywhere
            yield f"{whole(path)} (its name is that of no module)"
        before = [digest for known, digest in self._known.items() if str(known).startswith(f"{path.name} of ")]
        if before and path.exists() and content_digest(path) not in before:
            yield f"{whole(path)} {_CHANGED}"

    def _at_attribute(self, path: Path, attribute: str | None, name: str) -> Iterator[str]:
        """What a file has only imported is not its own: it may be anything."""
        if attribute is not None and path.is_file() and attribute not in _defined(path):
            yield f"{name} (not written in that file)"

    def _at_pettingzoo(self, name: str, written: str) -> Iterator[str]:
        for module in pettingzoo_modules(written):
            ours = module.partition(".")[0] in _PETTINGZOOS
            for origin in _origins(module, self._places):
                if not ours or origin is None or not _is_installed(origin):
                    yield f"{name} ({origin or 'a directory'})"

    def _at_module(self, name: str, module: str, attribute: str) -> Iterator[str]:
        found = _origins(module, self._places)
        if len(found) <= module.count(".") or found[-1] is None:
            yield f"{name} (nothing is known of it here)"
            return
        for origin in found:
            if origin is not None and (origin.suffix != ".py" or _is_installed(origin)):
                yield f"{name} ({origin}, not in this directory)"
            elif origin is not None:
                yield from self._at_file(str(origin))
        yield from self._at_attribute(found[-1], attribute, name)

    @property
    def _places(self) -> list[str]:
        """Where modules are looked for once that is the current directory."""
        return [*(place or str(self._home) for place in sys.path), str(self._home), str(self._here)]


def _without_kind(word: str) -> str:
    """The name of a policy without what its loader takes off."""
    name = share_of(word)[0].removeprefix("paceline:")
    return name.removeprefix("sb3:" if name.startswith("sb3:") else "torch:")


def _groups_in(path: Path) -> Any:
    """What is read of a configuration of groups, whatever its file is called."""
    content = read_yaml(path, "a configuration")
    return {part: content[part] for part in _OF_GROUPS if part in content}


def _mission_in(path: Path) -> Any:
    """What a configuration of mettagrid holds, which may name classes; or a list of tasks."""
    return json.loads(path.read_text(encoding="utf-8")) if path.suffix == ".json" else read_yaml(path, "a mission")


def _defined(path: Path) -> set[str]:
    """The names of what is written in a Python file, at its top; nothing of it is run."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = {node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in body:
        targets: Iterable[ast.expr] = node.targets if isinstance(node, ast.Assign) else ()
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def _is_installed(path: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.parts)) or path.is_relative_to(sys.base_prefix)


def _origins(module: str, places: list[str]) -> list[Path | None]:
    """Where the packages that a module is in are, and itself, as far as they are found; None: it has no file. Nothing
    is imported to find it."""
    found: list[Path | None] = []
    for end in range(module.count(".") + 1):
        name = ".".join(module.split(".")[: end + 1])
        if (known := sys.modules.get(name)) is not None:
            file, inside = getattr(known, "__file__", None), getattr(known, "__path__", None)
        else:
            try:
                spec = PathFinder.find_spec(name, places) or (None if end else find_spec(name))
            except (ImportError, ValueError, OSError):
                spec = None
            if spec is None:
                break
            file, inside = spec.origin, spec.submodule_search_locations
        found.append(whole(Path(file)) if file is not None and os.sep in file else None)
        places = [*(inside or ())]
    return found
