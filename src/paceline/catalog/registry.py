"""Gymnasium's registry: recipes by id, and the ids that this process has registered, in every worker.

    gym.register("Mine-v0", entry_point=My) ──► main's registry ──► each worker's, before it builds anything

A worker has imported Gymnasium and Paceline, and nothing of the user's script. So `gym.make("Mine-v0")` in a recipe
would find nothing there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from paceline.engine import tell_workers
from paceline.errors import BadInput

_IN_EVERY_WORKER = ("gymnasium.", "paceline.worlds.")


def recipe_of_id(env_id: str, **options: Any) -> Callable[..., Any]:
    """The recipe of an env that Gymnasium knows, as it is registered now; `package:Name-v0` imports `package` first.

    An id that is not registered is left to `gymnasium.make`: it completes a version, or says what is wrong.
    """
    import gymnasium

    package, _, name = env_id.rpartition(":")
    if package:
        importlib.import_module(package)  # it registers its envs when it is imported
    return partial(gymnasium.make, gymnasium.registry.get(name, env_id), **options)


def _registered() -> dict[str, Any]:
    """What this process has registered beyond what Gymnasium and Paceline register themselves, in workers too."""
    gymnasium = sys.modules.get("gymnasium")
    registry: dict[str, Any] = getattr(gymnasium, "registry", {})
    return {env_id: spec for env_id, spec in registry.items() if not _comes_by_itself(spec)}


def _comes_by_itself(spec: Any) -> bool:
    entry = spec.entry_point
    module = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return str(module).startswith(_IN_EVERY_WORKER)


def _adopt(entries: dict[str, Any]) -> None:
    """Takes main's entries over, in a worker. One that could not travel says so when it is made."""
    import gymnasium

    for env_id, spec in entries.items():
        if isinstance(spec, Exception):
            blank = gymnasium.envs.registration.EnvSpec(env_id, disable_env_checker=True, order_enforce=False)
            spec = replace(blank, entry_point=partial(_cannot_travel, env_id, spec))
        gymnasium.registry[env_id] = spec


def _cannot_travel(env_id: str, error: Exception, **_: Any) -> NoReturn:
    raise BadInput(
        f"{env_id!r} is registered in the main process, and that entry cannot be sent to a worker ({error}): register "
        "it with a class or 'module:Class' and plain options, or keep envs here with plan=0"
    ) from error


tell_workers(_adopt, _registered)
