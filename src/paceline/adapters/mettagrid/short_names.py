"""Short names of mettagrid's policies, read from source files: to import them all would import torch.

mettagrid's own registry imports every module of its policy packages. Here a class body that says
`short_names = [...]` is enough.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_PACKAGES = ("mettagrid.policy", "cogames.policy", "cogames_agents.policy", "metta.agent.policy")


@lru_cache(maxsize=1)
def short_names() -> dict[str, str]:
    """Short name → path of the class, over all policy packages that are installed."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        for root in _roots(package):
            for file in sorted(root.rglob("*.py")):
                module = ".".join([package, *file.relative_to(root).with_suffix("").parts])
                for name, path in _in_file(file, module):
                    found.setdefault(name, path)
    return found


def _roots(package: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []


def _in_file(file: Path, module: str) -> Iterator[tuple[str, str]]:
    text = file.read_text(encoding="utf-8", errors="replace")
    if "short_names" not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            for name in _names_of(node):
                yield name, f"{module}.{node.name}"


def _names_of(node: ast.ClassDef) -> list[str]:
    for line in node.body:
        targets = (
            line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "short_names" for target in targets):
            value = getattr(line, "value", None)
            if isinstance(value, ast.List | ast.Tuple):
                return [
                    item.value for item in value.elts if isinstance(item, ast.Constant) and isinstance(item.value, str)
                ]
    return []
