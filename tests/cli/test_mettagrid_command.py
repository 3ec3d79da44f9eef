"""`paceline eval` on missions of mettagrid: what users of cogames type, and what a failing policy costs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cogs
import pytest

TESTS = str(Path(cogs.__file__).parent)
ROOM = ("-m", "mettagrid:empty_room", "--cogs", "4")


def run(*arguments: str, cwd: Path, command: str = "eval") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paceline", command, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": TESTS},
        timeout=110,
    )


def report(*arguments: str, cwd: Path, code: int = 0) -> dict[str, Any]:
    answer = run(*arguments, "--json", cwd=cwd)
    assert answer.returncode == code, answer.stderr
    content: dict[str, Any] = json.loads(answer.stdout)
    return content


def test_one_digest_here_and_on_two_workers(tmp_path: Path) -> None:
    asked = (*ROOM, "-p", "random", "--steps", "100", "--episodes", "4", "--seed", "7", "--no-save")
    here, there = report(*asked, "-j", "0", cwd=tmp_path), report(*asked, "-j", "2", cwd=tmp_path)
    assert here["digest"] == there["digest"]
    assert [episode["seed"] for episode in here["episodes"]] == [7, 8, 9, 10]


@pytest.mark.parametrize("kind", ["raise", "exit", "sys.exit", "hang"])
def test_a_policy_that_fails_costs_its_own_episode_and_is_named(tmp_path: Path, kind: str) -> None:
    policy = f"class=cogs.Faulty,kw.kind={kind},kw.marker={tmp_path / 'marker'}"
    deadline = ("--episode-deadline", "5") if kind == "hang" else ()
    found = report(*ROOM, "-p", policy, "-s", "20", "-e", "8", "-j", "2", "--no-save", *deadline, cwd=tmp_path, code=3)
    failed = [episode for episode in found["episodes"] if episode["failure"]]
    assert (len(found["episodes"]), len(failed)) == (8, 1)
    failure = failed[0]["failure"]
    assert (failure["policy"], failure["agent"], failure["step"]) == ("Faulty", "agent_1", 5)


def test_a_policy_that_hangs_in_a_process_of_its_own_is_named(tmp_path: Path) -> None:
    policy = f"class=cogs.Faulty,kw.kind=hang,kw.marker={tmp_path / 'marker'}"
    options = ("-s", "20", "-e", "2", "-j", "0", "--parallel-policy=process", "--call-deadline", "2", "--no-save")
    found = report(*ROOM, "-p", policy, *options, cwd=tmp_path, code=3)
    (failure,) = [episode["failure"] for episode in found["episodes"] if episode["failure"]]
    assert (failure["kind"], failure["agent"], failure["step"]) == ("CallTimeout", "agent_1", 5)


def test_a_policy_that_dies_once_costs_nothing(tmp_path: Path) -> None:
    policy = f"class=cogs.Faulty,kw.kind=exit,kw.once=true,kw.marker={tmp_path / 'marker'}"
    asked = (*ROOM, "-p", policy, "-s", "20", "-e", "8", "--no-save")
    dying = report(*asked, "-j", "2", cwd=tmp_path)
    assert any("rebuilding" in note for note in dying["notes"])
    assert dying["digest"] == report(*asked, "-j", "0", cwd=tmp_path)["digest"]


def test_a_mission_file_works_bare_and_a_class_is_found_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "my_mission.py").write_text(
        "from paceline.adapters.mettagrid.builders import arena\n\n\ndef get_config():\n    return arena(3)\n"
    )
    (tmp_path / "my_policy.py").write_text("from cogs import Walker\n\n\nclass Mine(Walker):\n    pass\n")
    asked = ("-m", "my_mission.py", "-p", "class=my_policy.Mine", "-s", "10", "-e", "2")
    found = report(*asked, "-j", "2", "--out", "run", cwd=tmp_path)
    assert found["episodes"][0]["seats"] == dict.fromkeys(["agent_0", "agent_1", "agent_2"], "Mine")
    again = run("run", "my_mission.py/1", cwd=tmp_path, command="rerun")
    assert again.stdout.splitlines()[-1] == "the same", again.stderr
    (tmp_path / "my_policy.py").write_text("from cogs import Walker\n\n\nclass Mine(Walker):\n    x = 1\n")
    changed = run("--resume", "run", cwd=tmp_path)
    assert (changed.returncode, "my_policy.py" in changed.stderr) == (2, True)


def test_the_summary_of_cogames_and_replays(tmp_path: Path) -> None:
    asked = (*ROOM, "-p", "random", "-p", "noop", "-s", "10", "-e", "2", "--no-save")
    answer = run(*asked, "--format", "json", "--save-replay-dir", "replays", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    (mission,) = json.loads(answer.stdout)["missions"]
    assert mission["mission_summary"]["policy_summaries"][1]["avg_agent_metrics"]["action.noop.success"] == 10
    assert sorted(path.name for path in (tmp_path / "replays").iterdir()) == [
        "mettagrid_empty_room-0-seed0.json.z",
        "mettagrid_empty_room-1-seed1.json.z",
    ]
    assert run(*asked, "--format", "yaml", cwd=tmp_path).stdout.startswith("missions:\n- mission_name: mettagrid:")


def test_a_run_is_continued_with_the_limit_that_it_began_with(tmp_path: Path) -> None:
    asked = (*ROOM, "-p", "class=cogs.Walker", "-s", "10", "-e", "2", "-j", "0", "--out", "run")
    begun = report(*asked, "--action-timeout-ms", "0.000001", "--timeout-action", "noop", cwd=tmp_path)
    lines = (tmp_path / "run" / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "episodes.jsonl").write_text(lines[0])
    resumed = report("--resume", "run", "--trust", cwd=tmp_path)  # its policy is code of another directory
    assert resumed["digest"] == begun["digest"]
    assert any("became noop" in note for note in resumed["notes"])
    other = run("--resume", "run", "--trust", "--timeout-action", "late", cwd=tmp_path)
    assert (other.returncode, "timeout_action" in other.stderr) == (2, True)


def test_a_candidate_is_valued_in_every_mix_with_a_pool(tmp_path: Path) -> None:
    asked = ("-m", "mettagrid:empty_room", "--cogs", "2", "-s", "20", "-e", "2", "--no-save")
    found = report(*asked, "-p", "class=cogs.Walker", "--pool", "noop", cwd=tmp_path)
    (worth,) = found["replacement"]
    assert (worth["candidate"], worth["pool"]) == ("Walker", ["noop"])
    assert [mix["candidates"] for mix in worth["mixes"]] == [2, 1, 0]
    assert found["played"] == 6
    table = run(*asked, "-p", "class=cogs.Walker", "--pool", "noop", "--stats", cwd=tmp_path).stdout
    assert "mettagrid:empty_room: Walker is worth" in table
    assert "action.noop.success" in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--variant", "dark"), "has no variant dark; it has none"),
        (("--parallel-agents",), "--parallel-agents is called --parallel-policy now"),
        (("--format", "xml"), "give json, or yaml"),
        (("--format", "json", "--json"), "both want all of the output"),
        (("--timeout-action", "noop"), "needs a limit"),
        (("--timeout-action", "skip", "--action-timeout", "1"), "give late or noop"),
        (("--action-timeout", "1", "--action-timeout-ms", "5"), "say the same in two units"),
        (("--pool", "noop"), "give one -p"),
        (("-p", "random:2", "--pool", "noop"), "leave shares of seats away"),
        (("-p", "random", "--pool", "noop", "-e", "9999999999"), "give fewer --episodes"),
        (("--action-timeout-ms", "-3"), "action_timeout=-0.003; give a finite number of seconds above 0"),
        (("--action-timeout-ms", "nan"), "action_timeout=nan; give a finite number of seconds above 0"),
        (("--save-replay-dir", "/proc/x"), "replays cannot be kept in /proc/x"),
        (("--levels", "worlds"), "there is no level 'worlds'"),
        (("-p", "nobody.Knows"), "nobody.Knows cannot be loaded"),
        (("--gif", "room.gif"), "cannot be drawn as 'rgb_array'"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    answer = run("-m", "mettagrid:empty_room", "-e", "1", "-s", "5", *arguments, cwd=tmp_path)
    assert (answer.returncode, message in answer.stderr) == (2, True), answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_first_episode_can_be_watched(tmp_path: Path) -> None:
    answer = run(*ROOM, "-p", "random", "-s", "3", "--watch", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "mettagrid:empty_room/0, step 3\n################\n" in answer.stdout


def test_late_actions_are_counted_in_the_table(tmp_path: Path) -> None:
    late = run(
        *ROOM, "-p", "random", "-s", "5", "-e", "1", "--no-save", "--action-timeout-ms", "0.000001", cwd=tmp_path
    )
    assert late.stdout.splitlines()[0].split()[-1] == "late"
    assert late.stdout.splitlines()[1].split()[-1] == "20"


def test_missions_of_mettagrid_are_listed_and_described(tmp_path: Path) -> None:
    listed = run("--json", cwd=tmp_path, command="missions")
    assert "mettagrid:market" in json.loads(listed.stdout)
    described = run("mettagrid:market", cwd=tmp_path, command="describe")
    assert described.returncode == 0, described.stderr
    assert "seats         8" in described.stdout
