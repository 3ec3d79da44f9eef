"""RAGEN's own environments under RAGEN's names, where its package can be imported.

es_manager.envs: ragen ──► ragen.env: REGISTERED_ENVS, REGISTERED_ENV_CONFIGS ──► RagenEnv ──► built where it lives

Paceline's text worlds have the same names and draw episodes of their own. A note says which of the two plays.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from paceline.catalog.loading import import_module
from paceline.errors import BadInput
from paceline.sources import own_file

Envs = Literal["paceline", "ragen"]
"""Whose environments count first: Paceline's own, or RAGEN's."""

_MODULE = "ragen.env"
_KEY = "es_manager.envs: ragen"
_told: set[str] = set()
_log = logging.getLogger("paceline")


class RagenEnv:
    """Builds one kind of RAGEN's environments, as RAGEN does: with its own class of options.

    Args:
        kind: The class of the environment.
        config: The class of its options.
    """

    def __init__(self, kind: type, config: type) -> None:
        self.Config = config  # where options are looked for
        self._kind = kind
        self.__name__ = kind.__name__

    def __call__(self, options: Any) -> Any:
        return self._kind(options if isinstance(options, self.Config) else self.Config(**(options or {})))

    @property
    def LEGEND(self) -> Mapping[str, str]:  # noqa: N802 as classes of text environments have it
        """What its symbols mean, if it says so."""
        return getattr(self.Config(), "grid_vocab", None) or {}

    @property
    def files(self) -> list[Path]:
        """Its file, if that is a user's own: a checkout."""
        return [path for path in (own_file(self._kind),) if path is not None]


def is_importable() -> bool:
    """Whether RAGEN's package can be found; nothing is imported."""
    if _MODULE in sys.modules:
        return True
    try:
        top = find_spec("ragen") or PathFinder.find_spec("ragen", [os.getcwd()])
    except ValueError:  # a module of that name that was made by hand
        return False
    inside = (top.submodule_search_locations or ()) if top is not None else ()
    return PathFinder.find_spec(_MODULE, list(inside)) is not None


def ragen_env(env_type: str) -> RagenEnv | None:
    """RAGEN's environment of this name; None if its registries have none.

    Raises:
        BadInput: its package cannot be imported, or has no registries.
    """
    if not is_importable():
        raise BadInput(
            f"{_KEY}, but there is no module {_MODULE}: start in a checkout of RAGEN, or leave the key out, and "
            "Paceline's own environments of these names play"
        )
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a console script does not look there by itself; workers are told of it
    module = import_module(_MODULE, _KEY)
    try:
        kinds, configs = module.REGISTERED_ENVS, module.REGISTERED_ENV_CONFIGS
    except AttributeError as error:
        raise BadInput(f"{_KEY}, but {module.__file__} is another package of that name: {error}") from None
    return RagenEnv(kinds[env_type], configs[env_type]) if env_type in kinds and env_type in configs else None


def tell_of_stand_in(env_type: str, envs: Envs) -> None:
    """Says, once per name, that one of Paceline's worlds plays under a name of RAGEN's, where RAGEN is at hand."""
    if env_type in _told or not is_importable():
        return
    _told.add(env_type)
    why = f"its registries in {_MODULE} have none" if envs == "ragen" else f"{_KEY} takes those"
    _log.warning("env_type %r is Paceline's own world here, with other episodes than RAGEN's: %s", env_type, why)
