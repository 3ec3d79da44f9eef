"""`paceline collect`, and `paceline rerun` of what it collected, run as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waits import until_child

import paceline
from paceline import Collection
from paceline.cli.app import run as run_here

SOURCE = str(Path(paceline.__file__).parents[1])

FILE = '''
import os
import time
from pathlib import Path

import gymnasium
import numpy as np


def upright(obs):
    return int(obs[2] > 0)


class Numbered(gymnasium.Env):
    """Its task is a number; an episode has as many steps, and one more."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.task, self.time = int((options or {}).get("task", 0)), 0
        return self.np_random.normal(size=1).astype(np.float32), {}

    def step(self, action):
        self.time += 1
        print("a step is played")
        return self.np_random.normal(size=1).astype(np.float32), float(self.gain()), self.time > self.task, False, {}

    def gain(self):
        return self.task


class Fickle(Numbered):
    def gain(self):
        return os.getpid() if self.task == 1 else 1


class Raises(Numbered):
    def gain(self):
        if self.task == 2:
            raise RuntimeError("the ground gave way")
        return 1


class Kills(Numbered):
    def gain(self):
        if self.task == 1:
            os.kill(os.getpid(), 9)
        return 1


class Hangs(Numbered):
    def gain(self):
        if self.task == 4:
            Path("hangs").touch()
            time.sleep(600)
        time.sleep(0.03)  # so long that no worker is sent two at once
        return 1
'''


def command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONHASHSEED"}
    return [sys.executable, "-m", "paceline", *arguments], {**clean, "PYTHONPATH": SOURCE}


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    words, environment = command(*arguments)
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment, timeout=100)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The same in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paceline", *arguments])
        patch.chdir(Path.cwd())  # back again afterwards: to play a run again is to go where it was begun
        code = run_here()
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a file of the user's."""
    directory = tmp_path_factory.mktemp("collected")
    (directory / "own_worlds.py").write_text(FILE)
    return directory


@pytest.fixture(autouse=True)
def at_the_desk(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk)


CARTPOLE = ("CartPole-v1", "-p", "own_worlds.py:upright", "-n", "12", "--seed", "3")
DIGEST_OF_THE_GUIDE = "62b007d9a213e407"


@pytest.fixture(scope="module")
def table(desk: Path) -> str:
    answer = run("collect", *CARTPOLE, "-j", "2", "--verify", "--out", "a", cwd=desk)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def test_a_table_with_returns_verdict_pace_and_digest(desk: Path, table: str) -> None:
    head, row, *_ = table.splitlines()
    assert head.split() == ["env", "episode", "rollouts", "return", "±", "95", "%", "std", "min", "max", "steps"]
    assert row.split()[:4] == ["CartPole-v1", "1", "12", "47.50"]
    assert "verified: 12 rollouts played again here came out the same" in table
    assert "12 rollouts, 570 steps in" in table
    assert "process on 2 workers: as asked" in table
    assert "times the median" in table
    assert "`paceline doctor CartPole-v1` tells whether --reuse is safe" in table
    assert f"results: {desk / 'a'}" in table
    assert table.splitlines()[-1].startswith(f"digest:  {DIGEST_OF_THE_GUIDE}")


@pytest.mark.usefixtures("table")
def test_the_directory_holds_what_was_asked_and_the_rollouts(desk: Path) -> None:
    assert sorted(path.name for path in (desk / "a").iterdir()) == ["plan.json", "rollouts.npz"]
    plan = json.loads((desk / "a" / "plan.json").read_text())
    assert (plan["job"], plan["identity"]["rollouts"], plan["identity"]["seed"]) == ("collect", 12, 3)
    assert "own_worlds.py of policy 'own_worlds.py:upright'" in plan["files"]
    assert Collection.load(desk / "a").digest.startswith(DIGEST_OF_THE_GUIDE)


def test_json_is_one_object_though_the_world_prints(desk: Path) -> None:
    arguments = ("own_worlds.py:Numbered", "--random", "--tasks", "0,1,2", "-e", "2", "-j", "0", "--no-save", "--json")
    answer = run("collect", *arguments, "--trace", "trace.json", cwd=desk)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["tasks"] == [0, 1, 2]
    assert found["returns"] == [[0, 0], [2, 2], [6, 6]]
    assert (found["rollouts"], found["steps"], found["failed"], found["out"]) == (3, 12, {}, None)
    assert found["plan"]["backend"] == "inline"
    assert found["timing"].keys() >= {"utilisation", "building", "slowest", "median"}
    assert "a step is played" in answer.stderr
    assert json.loads((desk / "trace.json").read_text())
    assert not (desk / "runs").exists()


@pytest.mark.parametrize(
    ("tasks", "expected"),
    [
        ("train", [0.5, -0.25]),
        ("eval", [2.0]),
        ("0.5,-0.5", [0.5, -0.5]),
        ("[0.25]", [0.25]),
        ("tasks.json", [1, 0.5, 2]),
    ],
)
def test_tasks_by_name_by_value_and_from_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, tasks: str, expected: list[float]
) -> None:
    Path("tasks.json").write_text("[1, 0.5, 2]")
    Path("two_tasks.py").write_text(
        "import own_worlds\n\n\nclass Two(own_worlds.Numbered):\n    train_tasks, eval_tasks = (0.5, -0.25), (2.0,)\n"
    )
    arguments = ("two_tasks.py:Two", "--random", "--tasks", tasks, "-n", str(len(expected)), "-j", "0")
    assert told(capsys, "collect", *arguments, "--out", str(tmp_path / "run"))[0] == 0
    assert Collection.load(tmp_path / "run").tasks == expected


def test_row_policies_have_names_and_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("PointRobot-H20-v0", "-n", "4", "--tasks", "draw", "-e", "2", "--horizon", "4", "-j", "0")
    policies = ("markov", "memory", "memory,cell=lstm,memory=8,hidden=8x8")
    digests = []
    for number, policy in enumerate(policies):
        code, out, _ = told(capsys, "collect", *arguments, "-p", policy, "--out", str(tmp_path / str(number)))
        assert code == 0
        digests.append(out.splitlines()[-1])
    assert len(set(digests)) == 3
    drawn = paceline.collect("PointRobot-H20-v0", "markov", 4, tasks="draw", episodes=2, horizon=4, plan=0)
    assert digests[0] == f"digest:  {drawn.digest}"
    assert len(set(drawn.tasks)) == 4


# -- once more -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("table")
def test_rerun_plays_a_rollout_again(desk: Path, tmp_path: Path) -> None:
    answer = run("rerun", str(desk / "a"), "7", "--trust", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    before, now, verdict = answer.stdout.splitlines()
    assert before.split()[2:] == now.split()[1:]
    assert verdict == "the same"


@pytest.mark.usefixtures("table")
def test_rerun_sees_one_changed_number(desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text((desk / "a" / "plan.json").read_text())
    with np.load(desk / "a" / "rollouts.npz") as file:
        arrays = {name: file[name] for name in file.files}
    shape = json.loads(arrays["about"].tobytes())["columns"][1][5]
    name = dict(dict(shape[1])[next(iter(dict(shape[1])))][1])["rewards"][1]
    arrays[name][3] += 1
    np.savez(tmp_path / "rollouts.npz", allow_pickle=False, **arrays)
    code, out, _ = told(capsys, "rerun", str(tmp_path), "5")
    assert (code, out.splitlines()[-1]) == (1, "NOT the same")
    assert told(capsys, "rerun", str(tmp_path), "6")[0] == 0
    with pytest.raises(paceline.BadInput, match="is damaged"):
        Collection.load(tmp_path)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("index", ["12", "-1", "CartPole-v1/3"])
def test_rerun_of_a_rollout_that_is_not_there(desk: Path, capsys: pytest.CaptureFixture[str], index: str) -> None:
    code, out, err = told(capsys, "rerun", str(desk / "a"), "--", index)
    assert (code, out) == (2, "")
    assert f"has no rollout '{index}'; give one of 0, 1, 2, 3, 4 …" in err


def test_rerun_of_what_python_collected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paceline.collect("gym:CartPole-v1", "random", 2, horizon=3, plan=0, out=tmp_path / "run")
    code, _, err = told(capsys, "rerun", str(tmp_path / "run"), "1")
    assert (code, "was not begun by `paceline collect`" in err) == (2, True)
    with pytest.raises(paceline.BadInput, match="holds the results of a run; give another directory"):
        paceline.collect("gym:CartPole-v1", "random", 2, horizon=3, plan=0, out=tmp_path / "run")


@pytest.mark.parametrize("jobs", ["0", "1"])
def test_verify_names_the_rollouts_that_came_out_differently(capsys: pytest.CaptureFixture[str], jobs: str) -> None:
    arguments = ("own_worlds.py:Fickle", "--random", "--tasks", "0,1,2,1", "-j", jobs, "--no-save", "--verify")
    code, out, _ = told(capsys, "collect", *arguments)
    where = "on 2 workers (the policy in this process)" if jobs == "0" else "here"
    assert f"played again {where}, these came out differently: rollout 1, rollout 3" in out
    assert code == 1


# -- what goes wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_a_failed_rollout_is_told_and_the_others_are_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, jobs: str
) -> None:
    arguments = ("own_worlds.py:Raises", "--random", "--tasks", "0,1,2,3", "-j", jobs, "--verify")
    code, out, _ = told(capsys, "collect", *arguments, "--out", str(tmp_path / "run"))
    assert code == 3
    assert "1 of 4 rollouts failed:\n  rollout 2: RuntimeError: the ground gave way" in out
    assert f"play it again: paceline rerun {tmp_path / 'run'} 2" in out
    assert "verified: 3 rollouts" in out
    kept = Collection.load(tmp_path / "run")
    assert list(kept.failures) == [2]
    assert [rollout.steps for rollout in kept] == [1, 2, 0, 4]
    code, out, err = told(capsys, "rerun", str(tmp_path / "run"), "2")
    assert (code, out.splitlines()[-1]) == (0, "the same")
    assert "the ground gave way" in err


@pytest.mark.parametrize(("jobs", "number"), [("0", signal.SIGINT), ("2", signal.SIGINT), ("0", signal.SIGTERM)])
def test_an_interrupt_keeps_what_is_done(desk: Path, tmp_path: Path, jobs: str, number: signal.Signals) -> None:
    (tmp_path / "own_worlds.py").write_text(FILE)
    arguments = ("own_worlds.py:Hangs", "--random", "--tasks", "0,1,2,3,4,5", "-j", jobs, "--out", "run")
    words, environment = command("collect", *arguments)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, start_new_session=True, **pipes) as started:
        until_child(started, (tmp_path / "hangs").exists)
        started.send_signal(number)
        _, err = started.communicate(timeout=60)
    kept = [rollout.index for rollout in Collection.load(tmp_path / "run")]
    assert started.returncode == 130
    assert f"interrupted; {len(kept)} of 6 rollouts are kept: {tmp_path / 'run'}" in err
    assert "Traceback" not in err
    assert 4 not in kept
    if jobs == "0":
        assert kept == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("CartPol-v1", "--random"), "Gymnasium knows no env 'CartPol-v1'; close to it: CartPole-v1"),
        (("CartPole-v1", "-p", "markof"), "there is no policy 'markof'"),
        (("CartPole-v1", "-p", "markov,depth=3"), "'depth' in 'markov,depth=3' is no option of a policy"),
        (("CartPole-v1", "-p", "markov,hidden=wide"), "give the sizes of its layers"),
        (("CartPole-v1", "-p", "markov,weights=none.npz"), "there is no file none.npz"),
        (("CartPole-v1", "-p", "memory,cell=rnn"), "cell='rnn': give 'gru' or 'lstm'"),
        (("CartPole-v1", "-p", "memory,memory=0"), "memory=0 in 'memory,memory=0': give a whole number from 1 on"),
        (("CartPole-v1", "-p", "markov,sampled=maybe"), "sampled=maybe in 'markov,sampled=maybe': give true or false"),
        (("CartPole-v1", "-p", "markov,log_std=low"), "log_std=low in 'markov,log_std=low': give a number"),
        (("CartPole-v1",), "no policy is given, and the default does not suit"),
        (("PointRobot-v0", "--random", "--tasks", "0,1"), "0 is no task of this world: a task is a point, two numbers"),
        (("AntDir-v0", "--random", "--tasks", "[NaN]"), "nan is no task of this world"),
        (("CartPole-v1", "--random", "--out", "/dev/null"), "the results cannot be kept in /dev/null"),
        (("CartPole-v1", "-p", "random", "--random"), "-p and --random both say what plays: give one of them"),
        (("CartPole-v1", "--random", "-n", "0"), "rollouts=0; give"),
        (("CartPole-v1", "--random", "--episodes", "0"), "episodes=0; give"),
        (("CartPole-v1", "--random", "--horizon", "0"), "horizon=0; give"),
        (("CartPole-v1", "--random", "--seed", "-1"), "seed=-1; give a whole number, 0 or more"),
        (("CartPole-v1", "--random", "--tasks", "train"), "has no train_tasks"),
        (("CartPole-v1", "--random", "--tasks", "draw"), "has no sample_tasks"),
        (("CartPole-v1", "--random", "--tasks", "many"), "--tasks many is no list of tasks"),
        (("CartPole-v1", "--random", "--tasks", "none.json"), "--tasks none.json cannot be read"),
        (("PointRobot-v0", "--random", "--tasks", "draw", "--untrusted"), "--untrusted) does not allow"),
        (("CartPole-v1", "--random", "-j", "many"), "--jobs many: give a number of workers, 0 (here), or auto"),
        (("CartPole-v1", "--random", "--plan", "inline", "-j", "2"), "--jobs 2 wants workers"),
        (("CartPole-v1", "--random", "--plan", "nowhere"), "no backend is called 'nowhere'"),
        (("CartPole-v1", "--random", "--no-save", "--out", "x"), "--no-save and --out contradict each other"),
        (("CartPole-v1", "--random", "--device", "tpu"), "device='tpu': give auto, cpu, cuda or mps"),
        ((), "Missing argument"),
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
    code, out, err = told(capsys, "collect", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert complaint in err
    assert list(tmp_path.iterdir()) == []


def test_a_rollout_that_lost_its_worker_is_played_again_in_one(desk: Path) -> None:
    """Neither the run nor `rerun` is killed by it."""
    first = run(
        "collect", "own_worlds.py:Kills", "--random", "--tasks", "0,1,2", "-j", "2", "--out", "killed", cwd=desk
    )
    assert first.returncode == 3
    assert "rollout 1: WorkerLost" in first.stdout
    again = run("rerun", "killed", "1", cwd=desk)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "the same")
