"""docs/mettagrid.md names every mission of ours."""

from pathlib import Path

from paceline.adapters.mettagrid.builders import BUILDERS

GUIDE = (Path(__file__).parents[2] / "docs" / "mettagrid.md").read_text(encoding="utf-8")


def test_every_mission_of_ours_is_in_the_guide() -> None:
    table = GUIDE.partition("## Missions\n")[2].partition("\n### ")[0]
    assert all(f"`{name}`" in table or f"`mettagrid:{name}`" in table for name in BUILDERS)
