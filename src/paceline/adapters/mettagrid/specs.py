"""Policies of mettagrid by what users write: short names, class paths, bundle directories and zips.

Nothing is discovered by import, so that a scripted policy costs no import of torch.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.adapters.mettagrid.policies import BatchCogs, Cogs, is_policy, loaded
from paceline.adapters.mettagrid.short_names import short_names
from paceline.errors import BadInput
from paceline.sources import content_digest
from paceline.team import Player

DEFAULT = "random"
"""The policy that plays a mission of mettagrid when none is named."""


@dataclass(frozen=True)
class Wanted:
    """What a spec says of a policy besides its name.

    Attributes:
        keywords: What its class is built with.
        data: A file for `load_policy_data`.
        together: Whether all seats of an episode share one `MultiAgentPolicy`, or none do; None: found out.
        batch: Whether they are asked in one call of its `step_batch`.
    """

    keywords: Mapping[str, Any]
    data: str | None = None
    together: bool | None = None
    batch: bool = False

    def cogs(self, source: Any, data: str | None = None, files: tuple[Path, ...] = ()) -> Cogs:
        """The recipe for a class, or the path of one; what is wrong with it is told now."""
        alone = is_policy(source) and not hasattr(source, "agent_policy")  # an AgentPolicy: nothing is shared
        if alone and (self.data or data):
            raise BadInput(f"{source.__name__} is an AgentPolicy, which loads no data: give a MultiAgentPolicy")
        kind = BatchCogs if self.batch else Cogs
        made = kind(
            source,
            self.data or data,
            self.keywords,
            together=self.together,
            files=files,
        )
        made.load()
        if self.batch and self.together is False:
            raise BadInput("batch=true asks all seats in one call, and together=false has them live apart: give one")
        return made


def tell_limit(players: Iterable[Player], limit: float | None) -> None:
    """Tells mettagrid's policies how long an action may take: as upstream does, as long as the slowest of them needs.

    A run without a limit tells them nothing.
    """
    cogs = [player.factory for player in players if isinstance(player.factory, Cogs)]
    if limit is None or not cogs:
        return
    resolved = max(round(limit * 1000), *(each.minimum_timeout_ms for each in cogs))
    for each in cogs:
        each.told_timeout_ms = resolved


def find(name: str, wanted: Wanted) -> Cogs | None:
    """The policy of a name, as `cogames -p` takes it; None if mettagrid knows no such name."""
    if "://" in name:
        raise BadInput(f"{name} is not on this machine: download the bundle, and give its path")
    path = short_names().get(name)
    if path is not None:
        return wanted.cogs(loaded(path))
    if is_bundle(name):
        return _bundle(Path(name), wanted)
    if name.endswith(".zip") or name.startswith((".", "/", "~")):
        raise BadInput(f"there is no bundle {name} (looked in {Path.cwd()}): give a directory, or a zip")
    if "." not in name or ":" in name or name.endswith(".py"):
        return None
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return wanted.cogs(loaded(name))


def find_class(name: str, wanted: Wanted) -> Cogs:
    """The same for what stands after `class=`, where nothing else can be meant."""
    found = find(name, wanted) if name else None
    if found is None:
        close = difflib.get_close_matches(name, short_names(), n=3)
        hint = f"; close to it: {', '.join(close)}" if close else ""
        known = ", ".join(sorted(short_names()))
        raise BadInput(f"mettagrid has no policy {name!r}{hint}; write package.module.Class, or one of {known}")
    return found


def is_bundle(name: str) -> bool:
    """Whether it names a bundle: a directory, or a zip."""
    return Path(name).is_dir() or (name.endswith(".zip") and Path(name).is_file())


def _bundle(path: Path, wanted: Wanted) -> Cogs:
    """Loads a bundle as mettagrid does. A zip is unpacked once for its content, not for its name."""
    from mettagrid.policy.prepare_policy_spec import load_policy_spec_from_path

    path = path.resolve()
    place = None
    if path.is_file():
        place = Path(tempfile.gettempdir()) / f"paceline-bundles-{os.getuid()}" / content_digest(path)
    try:
        spec = load_policy_spec_from_path(path, force_dest=place)
    except Exception as error:
        raise BadInput(f"{path} is no bundle of a policy: {error}") from error
    merged = replace(wanted, keywords={**spec.init_kwargs, **wanted.keywords})
    made = loaded(short_names().get(spec.class_path, spec.class_path))
    _check_is_of_bundle(made, place or path, path)
    return merged.cogs(made, spec.data_path, (path,))


_roots: dict[str, Path] = {}
"""Top-level module → the bundle that brought it. A process, and each worker, can import one module of a name."""


def _check_is_of_bundle(made: Any, root: Path, path: Path) -> None:
    """Whether the class is the bundle's own: a module of the same name may have come from elsewhere."""
    top = str(getattr(made, "__module__", "")).partition(".")[0]
    brings = any(root.rglob(f"{top}.py")) or any(place.is_dir() for place in root.rglob(top))
    if not brings:
        return  # it names a class that is installed
    file = Path(inspect.getfile(made)).resolve()
    other = _roots.setdefault(top, root)
    if other != root or not file.is_relative_to(root.resolve()):
        where = other if other != root else file
        raise BadInput(f"{path} brings a module {top!r}, and so does {where}: rename it in one of them, to have both")
