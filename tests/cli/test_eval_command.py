"""`paceline eval` and what goes with it, run as a user runs them: in a process of their own."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.catalog import find_missions
from paceline.cli.app import run as run_here
from paceline.evaluate import evaluate
from paceline.policies import POLICIES
from paceline.records import checked
from paceline.worlds import MISSIONS

SOURCE = str(Path(paceline.__file__).parents[1])

FILE = '''
import os

class Chatty:
    """Says on standard output that it is asked: in Python, and as C code would."""

    def __init__(self, seat):
        print("I am built")

    def act(self, obs):
        print("I am asked")
        os.write(1, b"and again\\n")
        return 1


class Counts(Chatty):
    def __init__(self, seat):
        self.calls = 0

    def act(self, obs):
        self.calls += 1
        return self.calls % 5


class Dies(Counts):
    def act(self, obs):
        os._exit(7)
'''


def run(*arguments: str, cwd: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    return subprocess.run(
        [sys.executable, "-m", "paceline", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**clean, "PYTHONPATH": os.pathsep.join(filter(None, [path, SOURCE]))},
        timeout=60,
    )


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The same in this process, for what has an answer at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paceline", *arguments])
        patch.chdir(Path.cwd())  # back again afterwards: to resume a run is to go where it was begun
        code = run_here()
    return code, *capsys.readouterr()


def played(*arguments: str, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    answer = run("eval", *arguments, cwd=cwd)
    assert answer.returncode == code, answer.stderr
    return answer


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a file of the user's, and two runs on the same seeds."""
    directory = tmp_path_factory.mktemp("desk")
    (directory / "own.py").write_text(FILE)
    return directory


GREEDY = ("-m", "forage,steps=20", "-m", "courier,steps=20", "-e", "4", "-p", "greedy")


@pytest.fixture(scope="module")
def table(desk: Path) -> str:
    answer = played(*GREEDY, "-j", "2", "--out", "a", "--verify", "2", cwd=desk)
    assert answer.stderr == ""
    return answer.stdout


@pytest.fixture(scope="module")
def as_json(desk: Path) -> dict[str, Any]:
    answer = played(*GREEDY[:-1], "random", "-j", "0", "--out", "b", "--json", cwd=desk)
    assert answer.stderr == ""
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


# -- what is printed -----------------------------------------------------------------------------------------


def test_a_table_for_people(desk: Path, table: str) -> None:
    head, first, second, both, *_ = table.splitlines()
    assert head.split() == [
        "mission",
        "policy",
        "seats",
        "episodes",
        "reward",
        "±",
        "95",
        "%",
        "std",
        "min",
        "max",
        "steps",
    ]
    assert first.split()[:4] == ["forage,steps=20", "greedy", "8", "4"]
    assert second.split()[:4] == ["courier,steps=20", "greedy", "1", "4"]
    assert both.split()[:4] == ["all", "greedy", "8", "8"]
    assert "verified: 2 episodes played again here came out the same" in table
    assert "8 episodes in" in table
    assert f"results: {desk / 'a'}" in table
    missions = find_missions(["forage,steps=20", "courier,steps=20"])
    assert table.splitlines()[-1] == f"digest:  {evaluate(missions, 'greedy', episodes=4, plan=0).digest}"


def test_json_is_one_object_whose_digest_is_the_reports(desk: Path, as_json: dict[str, Any]) -> None:
    missions = find_missions(["forage,steps=20", "courier,steps=20"])
    report = evaluate(missions, "random", episodes=4, plan=0)
    assert as_json["digest"] == report.digest
    assert (as_json["planned"], as_json["played"], as_json["failed"]) == (8, 8, 0)
    assert [episode["rewards"] for episode in as_json["episodes"]] == [episode.rewards for episode in report.episodes]
    assert json.loads((desk / "b" / "report.json").read_text())["digest"] == report.digest
    assert len((desk / "b" / "episodes.jsonl").read_text().splitlines()) == 8


def test_csv_has_a_line_per_episode_and_agent(desk: Path) -> None:
    answer = played("-m", "forage-duel", "-s", "5", "-p", "own.py:Chatty", "-e", "2", "--csv", "--no-save", cwd=desk)
    rows = list(csv.DictReader(io.StringIO(answer.stdout)))
    assert [(row["mission"], row["episode"], row["agent"], row["policy"]) for row in rows] == [
        ("forage-duel", "0", "agent_0", "own.py:Chatty"),
        ("forage-duel", "0", "agent_1", "own.py:Chatty"),
        ("forage-duel", "1", "agent_0", "own.py:Chatty"),
        ("forage-duel", "1", "agent_1", "own.py:Chatty"),
    ]
    assert {row["steps"] for row in rows} == {"5"}
    assert not (desk / "runs").exists()


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_what_a_policy_prints_does_not_spoil_the_output(desk: Path, jobs: str) -> None:
    arguments = ("-m", "forage-duel", "-s", "3", "-p", "own.py:Chatty", "-e", "2", "-j", jobs, "--no-save", "--json")
    answer = played(*arguments, cwd=desk)
    assert json.loads(answer.stdout)["played"] == 2
    for words in ("I am built", "I am asked", "and again"):
        assert words in answer.stderr


def test_a_dry_run_plays_nothing_that_is_kept(desk: Path) -> None:
    answer = played("-m", "forage-duel", "-s", "5", "-p", "greedy:1", "-p", "random:1", "--dry-run", cwd=desk)
    assert "10 episodes, about" in answer.stdout
    assert "greedy plays 1 of 2 seats, random plays 1 of 2 seats" in answer.stdout.replace(
        "random plays 1 of 2 seats, greedy plays 1 of 2 seats", "greedy plays 1 of 2 seats, random plays 1 of 2 seats"
    )
    assert not (desk / "runs").exists()


# -- the commands of the source ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def machina(desk: Path) -> str:
    (mission,) = find_missions(["machina_1"], agents=4, steps=12)
    return evaluate(mission, "random", episodes=10, plan=0, agents="off").digest


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cogs", "4", "--parallel-policy"),
        ("--episodes", "10", "--jobs", "4"),
        ("--cogs", "4", "--episodes", "10", "--jobs", "4", "--parallel-policy"),
    ],
    ids=" ".join,
)
def test_three_levels_give_one_digest(desk: Path, machina: str, arguments: tuple[str, ...]) -> None:
    answer = played("-m", "machina_1", "-p", "random", *arguments, "-s", "12", "--no-save", cwd=desk)
    assert answer.stdout.splitlines()[-1] == f"digest:  {machina}"
    assert "note: machina_1 is played on a stand-in" in answer.stdout
    assert answer.stdout.splitlines()[1].startswith("machina_1 (stand-in on mettagrid)  random")


@pytest.mark.parametrize("arguments", [("--cogs", "4", "--parallel-policy"), ("--episodes", "10", "--jobs", "4")])
def test_the_same_commands_run_without_mettagrid(desk: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """There the meadow is played, and its name says so; the plain name is enough to play an episode again."""
    (tmp_path / "mettagrid.py").write_text("raise ImportError('as if it were not installed')\n")
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'mettagrid' else find(name, *more)\n"
    )
    command = ("eval", "-m", "machina_1", "-p", "random", *arguments, "-s", "12", "--out", str(tmp_path / "run"))
    answer = run(*command, cwd=desk, path=str(tmp_path))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[1].startswith("machina_1 (stand-in)  random")
    again = run("rerun", str(tmp_path / "run"), "machina_1/3", cwd=desk, path=str(tmp_path))
    assert again.stdout.splitlines()[-1] == "the same", again.stderr
    mission = run("eval", "-m", "mettagrid:empty_room", cwd=desk, path=str(tmp_path))
    assert (mission.returncode, "pip install 'paceline[mettagrid]'" in mission.stderr) == (2, True)


def test_without_anything_something_is_played(desk: Path, tmp_path: Path) -> None:
    answer = played("-e", "1", "-s", "5", cwd=tmp_path)
    assert [line.split()[0] for line in answer.stdout.splitlines()[1:4]] == ["forage", "cleanup", "courier"]
    (results,) = (tmp_path / "runs").iterdir()
    assert sorted(path.name for path in results.iterdir()) == [".lock", "episodes.jsonl", "plan.json", "report.json"]


# -- once more, and one against the other --------------------------------------------------------------------


@pytest.mark.usefixtures("table")
def test_rerun_plays_an_episode_again(desk: Path, tmp_path: Path) -> None:
    answer = run("rerun", str(desk / "a"), "forage,steps=20/3", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    before, now, verdict = answer.stdout.splitlines()
    assert before.split()[2] == now.split()[1]
    assert verdict == "the same"


MOODY = """
import os, signal, time
from pathlib import Path

class Moody:
    def __init__(self):
        self.asked = 0
    def act(self, obs):
        self.asked += 1
        if self.asked == 3 and (mood := Path(__file__).with_name("mood")).exists():
            exec(mood.read_text())
        return 0
"""


def test_a_rerun_lives_through_an_episode_that_dies_or_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is played in a worker, with the deadline of the run."""
    (tmp_path / "moody.py").write_text(MOODY)
    monkeypatch.chdir(tmp_path)
    words = ("-m", "courier,steps=5", "-p", "moody.py:Moody", "-e", "1", "-j", "1", "--episode-deadline", "5")
    assert told(capsys, "eval", *words, "--out", "moody")[0] == 0
    for mood, kind in [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "WorkerLost"),
        ("os._exit(0)", "WorkerLost"),
        ("time.sleep(1000)", "CallTimeout"),
    ]:
        (tmp_path / "mood").write_text(mood)
        answer = run("rerun", "moody", "courier,steps=5/0", cwd=tmp_path)
        assert answer.returncode == 1, answer.stderr
        assert answer.stdout.splitlines()[-1] == "NOT the same"
        assert f"agent agent_0, policy moody.py:Moody, step 2): {kind}" in answer.stdout


@pytest.mark.usefixtures("table")
def test_rerun_of_an_episode_that_is_not_there(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = told(capsys, "rerun", str(desk / "a"), "forage/9")
    assert (code, out) == (2, "")
    assert "has no episode 'forage/9'; write MISSION/EPISODE" in err


@pytest.mark.usefixtures("as_json")
def test_rerun_sees_that_an_episode_is_not_the_same(desk: Path, tmp_path: Path) -> None:
    for name in ("plan.json", "episodes.jsonl"):
        (tmp_path / name).write_text((desk / "b" / name).read_text())
    lines = [json.loads(line) for line in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    tampered = next(line for line in lines if (line["mission"], line["index"]) == ("courier,steps=20", 1))
    tampered["rewards"]["agent_0"] = 1003.0
    (tmp_path / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = run("rerun", str(tmp_path), "courier,steps=20/1", cwd=desk)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "is damaged (it is not what was written" in answer.stderr
    for line in lines:
        del line["check"]  # as older releases wrote them
    (tmp_path / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = run("rerun", str(tmp_path), "courier,steps=20/1", cwd=desk)
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[-2].startswith("rewards agent_0 was 1003.0, and is ")
    assert answer.stdout.splitlines()[-1] == "NOT the same"


@pytest.mark.usefixtures("table", "as_json")
def test_compare_two_runs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = str(desk / "b"), str(desk / "a")
    code, out, err = told(capsys, "compare", a, b, "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)["missions"]
    assert [(row["mission"], row["difference"]["count"]) for row in rows] == [
        ("forage,steps=20", 4),
        ("courier,steps=20", 4),
        ("*", 8),
    ]
    assert rows[0]["difference"]["mean"] == pytest.approx(rows[0]["b"]["mean"] - rows[0]["a"]["mean"])
    assert rows[0]["a"]["mean"] < rows[0]["b"]["mean"]  # greedy finds more than chance does
    code, out, err = told(capsys, "compare", a, b, "--policy-b", "nobody")
    assert (code, out) == (2, "")
    assert "B has no policy 'nobody'; it has greedy" in err
    assert "B − A" in told(capsys, "compare", a, b)[1]


@pytest.mark.parametrize("name", ["[/x]", "a[x]", ":dog:"])
def test_names_are_shown_as_they_are(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = told(capsys, "eval", "-m", "forage,steps=2", "-p", f"random,name={name}", "-e", "1", "--no-save")
    assert code == 0
    assert f" {name} " in out


@pytest.mark.usefixtures("table")
def test_a_run_is_resumed_only_as_what_it_was(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capsys, "eval", *GREEDY, "--out", str(desk / "a"))
    assert code == 2
    assert "holds the results of a run; continue it with resume" in err
    code, _, err = told(capsys, "eval", "--resume", str(desk / "a"), "--seed", "3")
    assert code == 2
    assert "was asked seed=0, and now 3: leave it away, or begin anew" in err
    complete = played("--resume", "a", "--json", cwd=desk)
    assert json.loads(complete.stdout)["digest"] == json.loads((desk / "a" / "report.json").read_text())["digest"]


def test_verify_says_so_when_an_episode_comes_out_differently(desk: Path, tmp_path: Path) -> None:
    played("-m", "forage-duel", "-s", "4", "-p", "random", "-e", "1", "--out", str(tmp_path / "run"), cwd=desk)
    lines = tmp_path / "run" / "episodes.jsonl"
    line = json.loads(lines.read_text())
    del line["check"]
    lines.write_text(json.dumps(checked({**line, "digest": "0" * 64})) + "\n")
    answer = played("--resume", str(tmp_path / "run"), "--verify", "1", cwd=desk, code=1)
    assert "these came out differently: forage-duel/0" in answer.stdout


def test_verify_lives_through_policies_that_die(desk: Path) -> None:
    answer = played(
        "-m", "forage-duel", "-p", "own.py:Dies", "-e", "1", "-j", "1", "--verify", "1", "--no-save", cwd=desk, code=3
    )
    assert "ended with exit code 7" in answer.stdout


# -- what there is -------------------------------------------------------------------------------------------


def test_missions_policies_and_describe(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(told(capsys, "missions", "--json")[1]).keys() >= MISSIONS.keys()
    listed = told(capsys, "policies")[1]
    assert all(name in listed for name in POLICIES)
    assert "Uniformly random actions" in listed
    described = told(capsys, "describe", "forage-duel")[1]
    assert "agents=2" in described
    assert "seats         2: agent_0, agent_1" in described
    assert "Discrete(5)" in described
    assert told(capsys, "describe", "greedy")[1].startswith("policy greedy")
    code, out, err = told(capsys, "describe", "nothing")
    assert (code, out) == (2, "")
    assert "there is no mission 'nothing'" in err
    code, out, err = told(capsys, "describe", "paceline.rollout:Rollout")
    assert (code, out) == (2, "")
    assert "paceline.rollout:Rollout makes no environment" in err


def test_an_episode_is_watched_where_there_is_no_terminal(desk: Path) -> None:
    answer = played("-m", "forage-duel", "-s", "3", "--watch", cwd=desk)
    titles = [line for line in answer.stdout.splitlines() if line.startswith("forage-duel/0, step ")]
    assert titles == [f"forage-duel/0, step {step}" for step in range(4)]
    assert "\x1b[H" not in answer.stdout  # colours are the world's own; nothing is drawn over


def test_an_episode_is_drawn(desk: Path, tmp_path: Path) -> None:
    from PIL import Image

    answer = played("-m", "forage-duel", "-s", "3", "--gif", str(tmp_path / "film.gif"), cwd=desk)
    assert "4 frames of forage-duel/0" in answer.stderr
    with Image.open(tmp_path / "film.gif") as film:
        assert film.format == "GIF"
        assert 2 <= film.n_frames <= 4  # frames that are alike are one


def test_where_the_time_went_is_written(desk: Path, tmp_path: Path) -> None:
    played(
        "-m", "forage-duel", "-s", "3", "-e", "2", "-j", "1", "--no-save", "--trace", str(tmp_path / "t.json"), cwd=desk
    )
    assert json.loads((tmp_path / "t.json").read_text())


# -- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("-m", "forrage"), "there is no mission 'forrage'; close to it: forage"),
        (("-p", "gredy"), "there is no policy 'gredy'; close to it: greedy"),
        (("-p", "nobody.py"), "nobody.py is a file: say which policy in it, as nobody.py:policy"),
        (("-m", "nothing.py"), "there is no file nothing.py"),
        (("-m", "forage,agents=1"), "agents=1"),
        (("-m", "gym:CartPole-v1"), "greedy"),
        (("-j", "many"), "--jobs many: give a number of workers, 0 (here), or auto"),
        (("-j", "0", "--plan", "ray"), "--jobs 0 plays here, and --plan ray does not: leave one of them away"),
        (("--plan", "nowhere"), "no backend is called 'nowhere'; there are inline, thread, process, ray"),
        (("--parallel-policy=nowhere",), "there is no mode 'nowhere' for agents; give one of off, thread"),
        (("--parallel-agents",), "--parallel-agents is called --parallel-policy now"),
        (("--parallel-agents=thread",), "write --parallel-policy, or --parallel-policy=thread"),
        (("-e", "0"), "episodes=0; give a whole number, 1 or more"),
        (("--seed", "-1"), "seed=-1; give a whole number, 0 or more"),
        (("--lanes", "0"), "lanes=0; give a whole number, 1 or more"),
        (("--on-error", "ignore"), "on_error='ignore'; give continue, stop or retry"),
        (("--max-failures", "0"), "max_failures=0; give a whole number, 1 or more"),
        (("--json", "--csv"), "--json and --csv both want all of the output"),
        (("--call-deadline", "1", "--parallel-policy=off"), "use agents='process'"),
        (("--call-deadline", "nan"), "call_deadline=nan; give a finite number of seconds above 0"),
        (("--episode-deadline", "1e999"), "episode_deadline=inf; give a finite number of seconds above 0"),
        (("--action-timeout", "inf"), "action_timeout=inf; give a finite number of seconds above 0"),
        (("--episode-deadline", "1", "-j", "0"), "a deadline for episodes cannot be kept where plan='inline'"),
        (("--resume", "nothing"), "holds no run: there is no plan.json in it"),
        (("--device", "tpu"), "device='tpu': give auto, cpu, cuda or mps"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_told_and_nothing_is_played(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = told(capsys, "eval", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert complaint in err
    assert not (tmp_path / "runs").exists()


def test_a_mistake_ends_the_command_with_2(tmp_path: Path) -> None:
    answer = run("eval", "-m", "forrage", "--json", cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: there is no mission 'forrage'; close to it: forage")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "-m", "courier,steps=5", "-p", "random", "-e", "200", "-j", "0"),
        ("rollout", str(Path(__file__).parents[2] / "examples/groups.yaml"), "--policy", "random", "--plan", "inline"),
        ("collect", "CartPole-v1", "-p", "random", "-n", "40", "-j", "0"),
    ],
    ids=lambda words: words[0],
)
def test_a_full_disk_ends_a_run_with_the_results_that_there_are(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, kept[1]))
    try:
        code, out, err = told(capsys, *words, "--out", str(tmp_path / "run"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    assert code == 2
    assert "digest:" in out
    assert "cannot be written: File too large" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_trace_that_cannot_be_written_is_told_before_anything_is_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("eval", "-m", "courier,steps=5", "-e", "1", "-j", "0", "--out", str(tmp_path / "run"), "--trace")
    code, out, err = told(capsys, *words, str(tmp_path))
    assert (code, out) == (2, "")
    assert f"error: --trace {tmp_path} cannot be written: Is a directory; give another file" in err
    assert not (tmp_path / "run").exists()
