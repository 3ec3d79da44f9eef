"""Reads the imports of the package, and fails on an arrow that the layout in docs/design.md does not draw.

An arrow is any import: at the top, in a function, or for type checking only. A part is a file or a directory
right below `paceline`; what a part may import is said once, in `MAY_IMPORT`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import paceline

PACKAGE = Path(paceline.__file__).parent

DATA = frozenset({"types", "roles", "seeds", "errors", "settings", "options"})
ENGINE = DATA | {"engine"}
KEPT = frozenset({"records", "run_lock", "sources", "fingerprint", "checkpoints", "run_files", "run_key", "trees"})
LOOP = (
    ENGINE | KEPT | {"run", "lasting", "kinds", "ordered", "spaces", "rollout", "tape", "team", "schedule", "lockstep"}
)
JOBS = frozenset({"evaluate", "vector", "collect", "groups", "train", "meta"})
PIECES = frozenset({"learning", "worlds", "policies", "adapters", "report"})
ALL = LOOP | JOBS | PIECES | {"catalog", "doctor", "testing"}

MAY_IMPORT: dict[str, frozenset[str]] = {
    **dict.fromkeys(DATA, frozenset()),
    "roles": frozenset({"types"}),
    "settings": frozenset({"errors"}),
    "options": frozenset({"errors"}),
    "engine": frozenset({"errors", "seeds"}),
    "records": frozenset({"errors", "fingerprint", "run_files", "run_key", "run_lock"}),
    "run_lock": frozenset({"errors", "run_files"}),
    "checkpoints": frozenset({"errors", "run_files", "run_key", "spaces", "trees"}),
    "run_files": frozenset({"errors", "run_key"}),
    "run_key": frozenset({"errors"}),
    "trees": frozenset({"spaces"}),
    "run": ENGINE,
    "sources": frozenset(),
    "fingerprint": frozenset({"sources"}),
    "lasting": frozenset({"sources", "fingerprint"}),
    "kinds": DATA,
    "ordered": DATA | {"kinds", "spaces"},
    "rollout": ENGINE | {"kinds", "lasting", "ordered", "spaces"},
    "spaces": DATA,
    "tape": DATA | {"spaces"},
    "team": ENGINE | {"run", "fingerprint", "lasting", "spaces", "tape"},
    "schedule": ENGINE | {"rollout"},
    "lockstep": ENGINE | {"lasting", "rollout", "team"},
    **dict.fromkeys(JOBS, LOOP | {"catalog"}),
    "collect": LOOP | {"catalog", "learning"},
    "train": LOOP | {"catalog", "learning"},
    "meta": LOOP | {"catalog", "learning", "collect", "worlds"},
    "learning": DATA | {"spaces", "tape"},
    "worlds": DATA,
    "policies": DATA | {"worlds"},  # a solver knows the rules of what it solves
    "adapters": ALL - {"catalog", "doctor", "testing", "report"},
    "catalog": LOOP | {"worlds", "policies", "adapters"},
    "report": ENGINE | JOBS,
    "doctor": ENGINE | {"kinds", "lasting", "catalog", "testing"},
    "testing": ENGINE
    | {"kinds", "lasting", "rollout", "worlds", "policies", "train"},  # train: whether learners are independent
    "command_signals": frozenset(),
    "__init__": ALL | {"command_signals"},
    "cli": ALL | {"__init__", "command_signals"},
    "__main__": frozenset({"cli"}),
}

TORCH = frozenset({"learning", "policies", "team", "adapters"})
TORCH_IF_LOADED = frozenset({"engine.randomness.generators", "engine.workers.process.child"})
NOT_FOR_THE_ENGINE = frozenset({"gymnasium", "pettingzoo", "mujoco"})


@dataclass(frozen=True)
class Arrow:
    """One import: from a module of ours to any module, with the functions that it stands in."""

    module: str
    target: str
    line: int
    functions: tuple[ast.AST, ...]

    def __str__(self) -> str:
        return f"{self.module} (line {self.line}) imports {self.target}"


def part_of(module: str) -> str:
    return module.partition(".")[0]


def module_name(path: Path, package: Path) -> str:
    """`engine/pool/pool.py` is `engine.pool`, `engine/__init__.py` is `engine`, the package itself `__init__`."""
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def arrows(source: str, module: str, *, is_package: bool = False) -> list[Arrow]:
    home = ["paceline", *([] if module == "__init__" else module.split("."))]
    here = home if is_package or module == "__init__" else home[:-1]
    return list(_arrows(ast.parse(source), module, here, ()))


def _arrows(node: ast.AST, module: str, here: list[str], functions: tuple[ast.AST, ...]) -> Iterator[Arrow]:
    for target in _targets(node, here):
        yield Arrow(module, target, getattr(node, "lineno", 0), functions)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        functions = (*functions, node)
    for child in ast.iter_child_nodes(node):
        yield from _arrows(child, module, here, functions)


def _targets(node: ast.AST, here: list[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = here[: len(here) - node.level + 1] if node.level else []
        origin = ".".join([*base, *([node.module] if node.module else [])])
        # `from paceline import seeds` is an arrow to seeds, `from paceline import Pool` one to the package.
        yield from (f"{origin}.{alias.name}" if origin == "paceline" else origin for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and _is_import_call(node.func):
        name = node.args[0]
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def _is_import_call(function: ast.expr) -> bool:
    name = getattr(function, "attr", getattr(function, "id", None))
    return name in ("import_module", "__import__")


def own_target(target: str) -> str | None:
    """The part of ours that is imported, or None if it is somebody else's."""
    top, _, rest = target.partition(".")
    if top != "paceline":
        return None
    return part_of(rest) if part_of(rest) in MAY_IMPORT else "__init__"


def faults(arrow: Arrow) -> Iterator[str]:
    """What is wrong with an arrow, if anything."""
    part, own, theirs = part_of(arrow.module), own_target(arrow.target), part_of(arrow.target)
    if part not in MAY_IMPORT:
        yield f"{part} is no part of the layout: draw it in docs/design.md, then in this test"
    elif own is not None and own != part and own not in MAY_IMPORT[part]:
        yield f"{arrow}: {part} may import only {sorted(MAY_IMPORT[part]) or 'nothing of ours'}"
    if theirs == "torch" and part not in TORCH and not _only_if_loaded(arrow):
        yield f"{arrow}: torch belongs to {sorted(TORCH)}"
    if theirs in NOT_FOR_THE_ENGINE and part == "engine":
        yield f"{arrow}: the engine knows nothing of reinforcement learning"


def _only_if_loaded(arrow: Arrow) -> bool:
    """Whether torch is imported in a function that asks `sys.modules` for it, in a module that may do so."""
    asks = any("sys.modules" in ast.unparse(function) for function in arrow.functions)
    return arrow.module in TORCH_IF_LOADED and asks


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: module_name(path, PACKAGE))
def test_every_arrow_is_drawn(path: Path) -> None:
    is_package = path.name == "__init__.py"
    found = arrows(path.read_text(encoding="utf-8"), module_name(path, PACKAGE), is_package=is_package)
    assert [fault for arrow in found for fault in faults(arrow)] == []


def test_every_file_is_a_part_of_the_layout() -> None:
    assert {part_of(module_name(path, PACKAGE)) for path in sources()} <= MAY_IMPORT.keys()


def test_nothing_but_the_start_imports_the_command_line() -> None:
    assert [part for part, targets in MAY_IMPORT.items() if "cli" in targets] == ["__main__"]


def test_no_job_imports_another() -> None:
    """But `meta` stands on `collect`."""
    assert {job: found for job in JOBS if (found := MAY_IMPORT[job] & JOBS)} == {"meta": {"collect"}}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("seeds", "import paceline.errors"),
        ("types", "from paceline.seeds import digest"),
        ("types", "from . import roles"),
        ("engine.pool.pool", "from paceline.types import Step"),
        ("engine.pool.pool", "from paceline import Pool"),
        ("engine.pool.pool", "from ...rollout import Rollout"),
        ("engine.pool.pool", "def f():\n    import paceline.team"),
        ("engine.pool.pool", "if TYPE_CHECKING:\n    from paceline.evaluate import evaluate"),
        ("engine.pool.pool", "import importlib\nimportlib.import_module('paceline.train')"),
        ("engine.host.host", "import gymnasium"),
        ("engine.host.host", "import torch"),
        ("engine.host.host", "def f():\n    if 'torch' in sys.modules:\n        import torch"),
        ("engine.workers.process.child", "import torch"),
        ("engine.workers.process.child", "def f():\n    import torch"),
        ("engine.randomness.generators", "from torch import random"),
        ("rollout", "from paceline.evaluate import evaluate"),
        ("evaluate", "from paceline import collect"),
        ("evaluate", "from paceline.cli import main"),
        ("train", "import torch.nn"),
        ("catalog.missions", "from paceline.evaluate import evaluate"),
        ("catalog.policies", "import torch"),
        ("team", "from paceline.catalog import find_policies"),
        ("worlds", "from paceline.catalog import find_missions"),
        ("adapters.sb3", "from paceline.catalog import find_policies"),
        ("learning.dqn", "from paceline.engine.pool.pool import Pool"),
        ("doctor", "from paceline.evaluate import evaluate"),
        ("testing", "from paceline.cli.app import app"),
        ("utils", "import os"),
        ("__init__", "from paceline.cli import main"),
    ],
)
def test_a_wrong_arrow_is_found(module: str, source: str) -> None:
    assert [fault for arrow in arrows(source, module) for fault in faults(arrow)]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("engine.pool.pool", "from paceline.errors import Closed\nfrom paceline import seeds\nfrom ..host import host"),
        (
            "engine.pool.pool",
            "from ..host.host import Host\nfrom ...errors import Closed\nimport paceline.engine.trace",
        ),
        ("engine.workers.process.child", "def f():\n    if 'torch' in sys.modules:\n        import torch"),
        ("evaluate", "from paceline.rollout import play\nfrom paceline.engine.pool.pool import Pool"),
        ("evaluate.driver", "from paceline.catalog import find_missions"),
        ("catalog.policies", "from paceline.adapters.sb3 import Model\nfrom paceline.team import Player"),
        ("doctor.target", "from paceline.catalog.loading import load"),
        ("team", "import torch"),
        ("learning.dqn", "from torch import nn\nfrom .networks import Net"),
        (
            "cli.doctor",
            "import paceline\nfrom paceline.doctor import examine\nfrom paceline.cli.app import app",
        ),
        ("__main__", "from paceline.cli import main"),
        ("__init__", "from paceline.engine import Pool\nfrom paceline.evaluate import evaluate"),
    ],
)
def test_a_right_arrow_is_let_pass(module: str, source: str) -> None:
    assert [fault for arrow in arrows(source, module) for fault in faults(arrow)] == []


def test_relative_imports_in_a_package_start_from_the_package() -> None:
    (arrow,) = arrows("from ..types import Step", "engine", is_package=True)
    assert arrow.target == "paceline.types"
