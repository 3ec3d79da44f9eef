"""What docs/mettagrid.md shows, as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

from paceline.adapters.mettagrid.builders import BUILDERS

GUIDE = (Path(__file__).parents[2] / "docs" / "mettagrid.md").read_text(encoding="utf-8")


def test_the_rollout_with_wrappers_runs_as_it_is_shown(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "rollout.py").write_text(program)
    answer = subprocess.run(
        [sys.executable, "rollout.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=True
    )
    assert answer.stdout == "20 steps\n"


def test_every_mission_of_ours_is_in_the_guide() -> None:
    table = GUIDE.partition("## Missions\n")[2].partition("\n### ")[0]
    assert all(f"`{name}`" in table or f"`mettagrid:{name}`" in table for name in BUILDERS)
