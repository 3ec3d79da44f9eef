"""The ids of the meta-RL worlds, for `gymnasium.make`. Only this module is imported to register them.

    import paceline ──► gymnasium is imported already: register now
                    └─► not yet: register as soon as it is

Gymnasium reads no entry points any more (since 1.0), so that to import a package is what registers its ids. Importing
Paceline imports no Gymnasium: a finder in front of the others waits for it. The same happens in every worker.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

WORLDS: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "PointRobot-v0": ("point:PointRobot", {}),
        "PointRobot-H20-v0": ("point:PointRobot", {"horizon": 20}),
        "PointRobotSparse-v0": ("point:PointRobotSparse", {}),
        "Wind-v0": ("point:Wind", {}),
        "HalfCheetahVel-v0": ("cheetah:HalfCheetahVel", {}),
        "HalfCheetahDir-v0": ("cheetah:HalfCheetahDir", {}),
        "CheetahDir-v0": ("cheetah:HalfCheetahDir", {}),  # what pomdp-baselines calls it
        "AntDir-v0": ("ant:AntDir", {}),
        "AntDir2D-v0": ("ant:AntDir2D", {}),
        "AntFwdBack-v0": ("ant:AntFwdBack", {}),
        "AntGoal-v0": ("ant:AntGoal", {}),
        "HumanoidDir-v0": ("humanoid:HumanoidDir", {}),
        "MetaWorldML1-v0": ("meta_world:MetaWorldML1", {}),
    }
)
"""Id → its class, below this package, and the arguments that it is built with."""


def register() -> None:
    """Registers the ids with Gymnasium. An id that is registered already is left as it is."""
    import gymnasium

    for env_id, (home, options) in WORLDS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point=f"{__package__}.{home}", kwargs=dict(options))


def register_with_gymnasium() -> None:
    """Registers the ids now if Gymnasium has been imported, or else as soon as it is."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds Gymnasium as the other finders do, and has the ids registered when it has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        for finder in list(sys.meta_path):
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader(Loader):
    """Imports a module with the loader that it would have had."""

    def __init__(self, inner: Loader, finder: _Finder) -> None:
        self._inner, self._finder = inner, finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        register()
