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
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from paceline.checkpoints import PICKLES, strange_pickles
from paceline.cli._running import whole
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
_NUMBERED = ("policies", "pool", "learners", "device")  # keys of names that may have a number: greedy:3, cuda:0
_OF_GROUPS = ("es_manager", "custom_envs", "agent_proxy", "seed", "envs")  # of a configuration, what is read

_KINDS = re.compile(r"(?:gym|torch|text|sb3|mettagrid|paceline):")
_NAME = re.compile(r"[\w*?\[\]+-]+")
_SHARE = re.compile(r"(?P<name>[\w-]+):\d+(\.\d+)?")
_ID = re.compile(r"gym:(?:[\w-]+/)?[\w.-]+|(?:[\w-]+/)?[\w.-]+-v\d+")
_PETTINGZOO = re.compile(r"pz:(?P<module>\w+(?:\.\w+)*)")
_PETTINGZOOS = ("pettingzoo", "mpe2")
_FILE = re.compile(r"(?P<file>[^\n:]+\.py)(?::(?P<attribute>\w+))?(?::\d+(?:\.\d+)?)?")
_MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.\w+)*):(?P<attribute>\w+)(?::\d+(?:\.\d+)?)?")
_PATH = re.compile(r"[^\n]+\.(?:zip|ya?ml|json)")
_CHANGED = "(it has changed since the run was begun)"
_OURS = Path(__file__).parents[1]
_SHOWN = 9


def check_trusted(run: Path, trusted: bool, *, changed: bool = False) -> Path:
    """Looks at what a run names before anything of it is loaded. Gives the directory from which its files are looked
    for: that of its beginning; this one if that is not there, or the run is not known and names one elsewhere.

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
        print(f"warning: {run} was begun in {begun}, {why}: files are looked for here", file=sys.stderr)
    if trusted:
        return home
    named = _named(plan)
    found = [each for look in looks.values() for each in look.at(named)]
    strange = [each for each in dict.fromkeys(found) if not own or each.endswith(_CHANGED)]
    strange += [f"{place / PICKLES} (pickles)" for place in _parts(run) if strange_pickles(place)]
    if strange:
        more = f", and {len(strange) - _SHOWN} more" if len(strange) > _SHOWN else ""
        why = "" if own else f" ({why_unknown()})"
        raise BadInput(
            f"{run} would run {', '.join(strange[:_SHOWN])}{more}{why}: look at it, and say --trust if you trust who "
            f"wrote it, or go to the directory that its files are in (this one is {here})"
        )
    return home


def _named(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What of a plan may name code; `rollout` only tells an endpoint its model's name."""
    found = {key: value for key, value in plan.items() if key not in _NO_CODE}
    if isinstance(asked := found.get("command"), Mapping):
        found["command"] = {key: value for key, value in asked.items() if key != "model"}
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
        name = key.removeprefix("kw.")
        if name in _LOADING + _SENDING and value not in (None, False):
            yield f"{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"
        elif name in _FILES and isinstance(value, str | int | float):  # 1 may be the name of a file, too
            yield from self._at_file(str(value))
            yield from self._in_config(str(value)) if name == "config" else ()
        elif isinstance(value, str):
            yield from self._at_text(value, name) if name not in _PROSE else ()
        elif isinstance(value, Mapping):
            for inner, each in value.items():
                yield from self.at(each, str(inner))
        elif isinstance(value, list | tuple):
            for each in value:
                yield from self.at(each, key)

    def _in_config(self, name: str) -> Iterator[str]:
        """What a configuration of groups names, whatever its file is called."""
        try:
            content = read_yaml(self._home / name, "a configuration")
        except BadInput:  # told when it is read
            return
        yield from self.at({part: content[part] for part in _OF_GROUPS if part in content})

    def _at_text(self, text: str, key: str) -> Iterator[str]:
        whole = value_of(text)  # tasks are a JSON list
        if isinstance(whole, list | dict):
            yield from self.at(whole, key)
            return
        first, *options = (word.strip() for word in text.split(","))
        for word in (first, *options):
            option, equals, value = word.partition("=")
            if equals and re.fullmatch(r"[\w.]+", option):
                yield from self.at(value_of(value), option)
            else:
                yield from self._at_word(word, key)

    def _at_word(self, word: str, key: str) -> Iterator[str]:
        """A name, without options. Whatever is a file is one, whatever it looks like."""
        bare = _KINDS.sub("", word, count=1)
        shared = _SHARE.fullmatch(bare) if key in _NUMBERED else None
        name = shared["name"] if shared else bare
        if file := _FILE.fullmatch(name):
            yield from self._at_file(file["file"])
            yield from self._at_attribute(self._home / file["file"], file["attribute"], name)
        elif _PATH.fullmatch(name) or os.path.lexists(self._home / name) or os.path.lexists(name):
            yield from self._at_file(name)
            if name.endswith((".yaml", ".yml", ".json")):
                yield from self._in_mission(name)
        elif zoo := _PETTINGZOO.fullmatch(name):
            yield from self._at_pettingzoo(name, zoo["module"])
        elif module := _MODULE.fullmatch(name):
            yield from self._at_module(name, module["module"], module["attribute"])
        elif not (_NAME.fullmatch(name) or _ID.fullmatch(word) or isinstance(value_of(name or "null"), float | None)):
            yield word

    def _in_mission(self, name: str) -> Iterator[str]:
        """What a configuration of mettagrid names: it may have classes in it."""
        try:
            content = read_yaml(self._home / name, "a mission")  # JSON is YAML
        except BadInput:  # told when it is read
            return
        yield from self.at(content)

    def _at_file(self, name: str) -> Iterator[str]:
        path = self._home / Path(name).expanduser()
        yield from self.at_place(path)
        before = [digest for known, digest in self._known.items() if str(known).startswith(f"{path.name} of ")]
        if before and path.exists() and content_digest(path) not in before:
            yield f"{whole(path)} {_CHANGED}"

    def _at_attribute(self, path: Path, attribute: str | None, name: str) -> Iterator[str]:
        """What a file has only imported is not its own: it may be anything."""
        if attribute is not None and path.is_file() and attribute not in _defined(path):
            yield f"{name} (not written in that file)"

    def _at_pettingzoo(self, name: str, module: str) -> Iterator[str]:
        first = module.partition(".")[0]
        origin = _origin(first, self._places)
        if origin is not None and not (first in _PETTINGZOOS and _is_installed(origin)):
            yield f"{name} ({origin})"

    def _at_module(self, name: str, module: str, attribute: str) -> Iterator[str]:
        origin = _origin(module, self._places)
        if origin is None:
            yield f"{name} (nothing is known of it here)"
        elif origin.suffix != ".py" or _is_installed(origin):
            yield f"{name} ({origin}, not in this directory)"
        else:
            yield from self._at_file(str(origin))
            yield from self._at_attribute(origin, attribute, name)

    @property
    def _places(self) -> list[str]:
        return [*sys.path, str(self._home), str(self._here)]


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
        found = whole(Path(spec.origin)) if spec.origin and os.sep in spec.origin else found
        places = spec.submodule_search_locations or []
    return found
