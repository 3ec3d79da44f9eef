"""`paceline train`, as a user runs it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import os
import pty
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from waits import LONGEST, is_alive, until, until_child, until_over, until_readable

import paceline
from paceline import Training, train
from paceline.cli._training import _logged
from paceline.cli.app import run as run_here

MISSION, LEARNERS = "treasure_hunt,size=9,steps=10", "dqn,hidden=16"
SETTINGS: dict[str, Any] = {"epochs": 8, "train_interval": 2, "lag": 1}
WORDS = (MISSION, "--learners", LEARNERS, "--epochs", "8", "--train-interval", "2", "--lag", "1")
AGENTS = ["agent_0", "agent_1", "agent_2", "agent_3"]

Told = Callable[..., tuple[int, str, str]]


def here(*words: str) -> int:
    """Runs the command in this process, and comes back: to go on with a run is to go where it was begun."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paceline", "train", *words])
        patch.chdir(Path.cwd())
        return run_here()


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Runs the command, and gives its code and what it said."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        return here(*words), *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def trained() -> Training:
    """What the command must give: the result of `train`, inline."""
    return train(MISSION, LEARNERS, **SETTINGS, seed=13, plan="inline")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run that has ended, and what was shown at its end."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as page:
        patch.chdir(home)
        assert here(*WORDS, "--seed", "13", "--out", "a", "--plan", "inline", "--turns", "csv") == 0
    return home / "a", page.getvalue()


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("place", [("--plan", "inline"), ("-j", "1"), ("-j", "2")], ids=" ".join)
def test_one_digest_wherever_learners_learn(told: Told, trained: Training, place: tuple[str, str]) -> None:
    """--json prints the training as one object, and the plan changes neither rewards nor weights."""
    code, page, _ = told(*WORDS, "--seed", "13", "--no-save", "--json", *place)
    found = json.loads(page)
    assert (code, found["digest"], found["rewards"]) == (0, trained.digest, trained.as_dict()["rewards"])
    assert found.keys() == trained.as_dict().keys()
    assert found["plan"]["workers"] == (int(place[1]) if place[0] == "-j" else 1)


def test_the_end_is_told_and_on_disk(finished: tuple[Path, str], trained: Training) -> None:
    """A table has a row for each agent; the directory has results, curves if they can be drawn, and turns if asked."""
    run, page = finished
    lines = page.splitlines()
    assert [line.split()[0] for line in lines[:6]] == ["agent", *AGENTS, "all"]
    assert lines[1].split()[1:3] == [f"{trained.rewards[place, 0]:.2f}" for place in (0, -1)]
    assert lines[5].split()[3:] == ["16", "0", "0"]
    assert f"results: {run}" in page
    assert lines[-1] == f"digest:  {trained.digest}"
    files = {"training.json", "epochs.csv", "updates.csv", "weights.npz", "plan.json", "turns.csv"}
    assert files <= {path.name for path in run.iterdir()}
    log = (run / "train.log").read_text()
    assert "checkpoint after 8 of 8 epochs" in log
    assert f"update 3 of agent 'agent_2' in process {os.getpid()}: 80 rows, {{'loss':" in log
    assert (run / "curves.png").exists()
    turns, epochs = rows_of(run / "turns.csv"), rows_of(run / "epochs.csv")
    assert len(turns) == 8 * 10 * 4
    for epoch in epochs:
        mine = [each for each in turns if (each["epoch"], each["agent"]) == (epoch["epoch"], epoch["agent"])]
        assert [int(each["turn"]) for each in mine] == list(range(10))
        assert sum(float(each["reward"]) for each in mine) == pytest.approx(float(epoch["reward"]))


def test_a_finished_run_is_given_again(finished: tuple[Path, str], told: Told, trained: Training) -> None:
    """`--resume DIR` needs nothing else, from any directory; the plan may be another one."""
    run, _ = finished
    before = (run / "turns.csv").read_text()
    code, page, _ = told("--resume", str(run), "--json")
    assert (code, json.loads(page)["digest"]) == (0, trained.digest)
    code, page, _ = told("--resume", str(run), "--plan", "thread", "-j", "2", "--json")
    assert (json.loads(page)["digest"], json.loads(page)["plan"]["backend"]) == (trained.digest, "thread")
    assert (run / "turns.csv").read_text() == before


def test_a_run_without_a_checkpoint_begins_again(finished: tuple[Path, str], told: Told, trained: Training) -> None:
    """What was asked stands in plan.json from the beginning; turns of epochs that are played again stand there once."""
    run = Path("b")
    run.mkdir()
    for name in ("plan.json", "epochs.jsonl", "turns.csv"):
        whole = (finished[0] / name).read_bytes()
        (run / name).write_bytes(whole if name == "plan.json" else whole[: len(whole) // 2])
    code, page, _ = told("--resume", "b", "--json")
    assert (code, json.loads(page)["digest"]) == (0, trained.digest)
    assert (run / "turns.csv").read_bytes() == (finished[0] / "turns.csv").read_bytes()
    assert len((run / "epochs.jsonl").read_text().splitlines()) == 8


def test_another_run_is_refused(finished: tuple[Path, str], told: Told) -> None:
    """A run goes on only as what it was; a directory that holds one is not overwritten."""
    run = str(finished[0])
    for words, why in (
        (("--lag", "0"), "holds another run: there lag is 1, and here 0"),
        (("--turns", "parquet"), "was asked turns='csv', and now 'parquet'"),
        (("--seeds", "2"), "was asked no seeds, and now 2"),
        (("--out", "c"), "--resume and --out"),
    ):
        code, page, said = told("--resume", run, *words)
        assert (code, page) == (2, "")
        assert why in said
    code, _, said = told(*WORDS, "--out", run)
    assert code == 2
    assert "holds the results of a run" in said


def test_a_file_says_what_the_flags_do_not(told: Told) -> None:
    """CONFIG.yaml has the keywords of `train`, learners by agent included; flags count before it."""
    some = {agent: LEARNERS if agent == "agent_0" else "random" for agent in AGENTS}
    config = {"mission": MISSION, "learners": some, **SETTINGS, "seed": 4, "plan": 0, "out": "made"}
    Path("hunt.yaml").write_text(yaml.safe_dump(config))
    code, page, _ = told("hunt.yaml", "--epochs", "4", "--seed", "5", "--json")
    found = json.loads(page)
    reference = train(MISSION, some, epochs=4, train_interval=2, lag=1, seed=5, plan="inline")
    assert (code, found["digest"], found["plan"]["backend"]) == (0, reference.digest, "inline")
    assert found["out"] == str(Path("made").resolve())
    Path("hunt.yaml").unlink()  # a run knows what it was asked
    assert json.loads(told("--resume", "made", "--json")[1])["digest"] == reference.digest


def test_agents_may_act_in_order(told: Told) -> None:
    """--turn ordered is another game, that --speculate does not change; the figures of speculation are told."""
    words = (MISSION, "--turn", "ordered", "--learners", LEARNERS, "--epochs", "3", "--no-save", "--plan", "inline")
    reference = train(MISSION, LEARNERS, epochs=3, turn="ordered", plan="inline").digest
    code, page, _ = told(*words, "--speculate", "--json")
    found = json.loads(page)
    assert (code, found["digest"], found["turn"]) == (0, reference, "ordered")
    assert found["speculation"]["ahead"] == found["speculation"]["answers"] == found["steps"] == 3 * 10 * 4
    assert found["speculation"]["rate"] == found["speculation"]["again"] / 120
    Path("hunt.yaml").write_text(
        yaml.safe_dump({"mission": MISSION, "learners": LEARNERS, "epochs": 3, "turn": "ordered", "speculate": False})
    )
    code, page, _ = told("hunt.yaml", "--no-save")
    assert (code, reference in page, "speculation: none; as asked" in page) == (0, True, True)


def test_seeds_are_a_table(told: Told, trained: Training) -> None:
    """Each seed has the digest that it has alone, side by side or one after another, and a directory of its own."""
    words = (*WORDS, "--seed", "13", "--seeds", "2", "--out", "s")
    code, page, _ = told(*words, "-j", "2", "--json")
    found = json.loads(page)
    assert (code, [one["seed"] for one in found]) == (0, [13, 14])
    assert found[0]["digest"] == trained.digest
    assert json.loads(Path("s/seed-14/training.json").read_text())["digest"] == found[1]["digest"]
    shutil.rmtree("s/seed-14")  # as if it had not been begun
    code, page, _ = told("--resume", "s", "-j", "0")
    agents = {line.split()[0]: line.split()[1:] for line in page.splitlines() if line}
    last = [sum(one["rewards"][agent][-1] for agent in AGENTS) / 4 for one in found]
    assert float(agents["all"][0]) == pytest.approx(sum(last) / 2, abs=0.006)
    assert float(agents["all"][1]) == pytest.approx(12.7062 * abs(last[0] - last[1]) / 2, abs=0.006)  # t, 1 freedom
    assert [agents[seed][-1] for seed in ("13", "14")] == [one["digest"] for one in found]
    code, _, said = told("--resume", "s", "--lag", "2")
    assert (code, "was asked lag=1, and now 2" in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "NAME or CONFIG.yaml, or --resume DIR"),
        ((MISSION,), "--epochs N"),
        ((MISSION, "--epochs", "0"), "epochs=0; give"),
        ((*WORDS, "--deadline", "1e999"), "deadline=inf; give a finite number of seconds above 0"),
        ((MISSION, "--epochs", "many"), "Invalid value for '--epochs'"),
        (("no_such_hunt", "--epochs", "2"), "no_such_hunt"),
        ((*WORDS, "--learners", "dqm"), "dqm"),
        ((*WORDS, "--learners", "dqn,hiden=3"), "hiden"),
        ((*WORDS, "--learners", "random"), "random"),
        ((*WORDS, "--learners", "ppo"), "accepts_lag"),
        ((*WORDS, "--priority", "agent_0"), "give agent=share"),
        ((*WORDS, "--priority", "agent_9=2"), "priority names 'agent_9'"),
        ((*WORDS, "--capacity", "3", "--max-turns", "10"), "capacity=3 rows are fewer"),
        ((*WORDS, "--on-failure", "hope"), "on_failure='hope'"),
        ((*WORDS, "--plan", "moon"), "moon"),
        ((*WORDS, "-j", "two"), "--jobs two"),
        ((*WORDS, "--device", "abacus"), "abacus"),
        ((*WORDS, "--turns", "xls"), "--turns xls: give csv or parquet"),
        ((*WORDS, "--turns", "csv", "--no-save"), "--turns needs a directory"),
        ((*WORDS, "--out", "x", "--no-save"), "--no-save and --out"),
        ((*WORDS, "--seeds", "2", "--trace", "t.json"), "--trace and --seeds"),
        ((*WORDS, "--turn", "random"), "give simultaneous or ordered"),
        ((*WORDS, "--speculate"), "give turn='ordered' with it"),
        (("gym:CartPole-v1", "--turn", "ordered", "--epochs", "2"), "cannot be stepped agent by agent"),
        (("--resume", "nowhere"), "there is no plan.json"),
        (("absent.yaml",), "absent.yaml cannot be read"),
        (("odd.yaml",), "odd.yaml: epoch is not known; did you mean epochs?"),
        (("short.yaml",), "short.yaml has no mission"),
        (("wrong.yaml",), "wrong.yaml: lag='some'; give a whole number"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else "",
)
def test_what_makes_no_sense_is_told_before_anything_starts(told: Told, words: tuple[str, ...], why: str) -> None:
    """The exit code is 2, the message says what is wrong, and nothing is written."""
    Path("odd.yaml").write_text(yaml.safe_dump({"mission": MISSION, "epoch": 3}))
    Path("short.yaml").write_text(yaml.safe_dump({"epochs": 3}))
    Path("wrong.yaml").write_text(yaml.safe_dump({"mission": MISSION, "epochs": 3, "lag": "some"}))
    code, page, said = told(*words)
    assert (code, page) == (2, "")
    assert why in said
    assert not Path("runs").exists()


def test_what_is_missing_for_tensorboard_is_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """--tensorboard without TensorBoard is an error, found before anything starts."""
    monkeypatch.setattr("paceline.report.board.find_spec", lambda name: None)
    code, _, said = told(*WORDS, "--tensorboard")
    assert (code, "pip install tensorboard" in said, Path("runs").exists()) == (2, True, False)


def test_another_commands_run_is_refused(
    told: Told, monkeypatch: pytest.MonkeyPatch, finished: tuple[Path, str]
) -> None:
    """Each command goes on with its own runs only."""
    Path("plan.json").write_text(json.dumps({"identity": {}, "asked": {}, "directory": "."}))
    code, _, said = told("--resume", ".")
    assert (code, "was not begun by `paceline train`" in said) == (2, True)
    monkeypatch.setattr(sys, "argv", ["paceline", "eval", "--resume", str(finished[0])])
    assert run_here() == 2


MINE = """
from gymnasium import Env, spaces


class Odd(Env):
    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        raise KeyError("the door is shut")


class Mine:
    def __init__(self, seat):
        self.rows = 0

    def act(self, obs):
        return self.rows % 5

    def learn(self, window):
        self.rows = len(window)
        return {"loss": 1 / self.rows}

    def snapshot(self):
        return self.rows

    def restore(self, rows):
        self.rows = rows


class Lost(Mine):
    def learn(self, window):
        return {"loss": window.columns["reward"].mean()}


class Vague(Mine):
    def learn(self, window):
        return {"loss": "low"}


class Silent(Mine):
    def learn(self, window):
        return 3


class Shut(Mine):
    def __init__(self, seat):
        raise RuntimeError("no licence")
"""
"""A world and learners of the user's own."""


def test_learners_are_classes_of_a_file(told: Told) -> None:
    """`--learners file.py:Class` is for every agent, and is found again when the run is resumed."""
    Path("mine.py").write_text(MINE)
    words = (MISSION, "--learners", "mine.py:Mine", "--epochs", "4", "--worlds", "2", "--out", "a", "--json")
    code, page, _ = told(*words, "-j", "2")
    found = json.loads(page)
    assert (code, found["losses"]["agent_3"]) == (0, [1 / rows for rows in (20, 40, 60, 80)])
    shutil.rmtree("a")
    assert json.loads(told(*words, "-j", "0")[1])["digest"] == found["digest"]
    code, page, _ = told("--resume", "a", "--json")
    assert (code, json.loads(page)["digest"]) == (0, found["digest"])


@pytest.mark.parametrize(
    ("learner", "code", "why"),
    [
        ("Lost", 3, "KeyError: \"'reward' is no column; there are observations"),
        ("Vague", 2, "gives figures by name, {'loss': 0.1} say, or nothing; among {'loss': 'low'} is one"),
        ("Silent", 2, "or nothing; it gave 3"),
        ("Shut", 2, "the learner of agent 'agent_0' cannot be built: RuntimeError: no licence"),
        ("Gone", 2, "there is no 'Gone' in odd_gone.py"),
        ("Odd", 3, "KeyError: 'the door is shut'"),
    ],
)
def test_what_fails_in_the_users_code_is_shown_with_its_own_frames_alone(
    told: Told, learner: str, code: int, why: str
) -> None:
    """The log of the run has the whole traceback."""
    file = f"odd_{learner.lower()}.py"  # a module is loaded once, and under one name
    Path(file).write_text(MINE)
    played = (
        (f"{file}:Odd", "--learners", f"{file}:Mine")
        if learner == "Odd"
        else (MISSION, "--learners", f"{file}:{learner}")
    )
    found, page, said = told(*played, "--epochs", "2", "--out", "a", "--plan", "inline")
    assert (found, page) == (code, "")
    assert why in said
    assert str(Path(paceline.__file__).parent) not in said
    if code == 3:
        assert f'{file}", line' in said
        assert "go on with: paceline train --resume" in said
        assert str(Path(paceline.__file__).parent) in Path("a/train.log").read_text()


def test_an_update_that_fails_stops_the_run_or_freezes_its_agent(told: Told) -> None:
    """The exit code is 3; what is on disk is told. To go on from there would come to the same update."""
    words = (MISSION, "--learners", "dqn,hidden=16,lr=1e30", "--epochs", "4", "--plan", "inline")
    code, page, said = told(*words, "--out", "a")
    assert (code, page) == (3, "")
    assert "diverged" in said
    assert "on_failure='freeze'" in said
    assert "--resume" not in said
    code, page, _ = told(*words, "--on-failure", "freeze", "--no-save")
    assert code == 3
    assert "agent 'agent_0' was frozen" in page


# -- ended from outside ----------------------------------------------------------------------------------------

LONG = (MISSION, "--learners", LEARNERS, "--epochs", "40", "--lag", "1", "--seed", "2")


@pytest.mark.parametrize(
    ("size", "why"), [(20_000, "shared memory cannot be had"), (3_000_000, "there is none before")]
)
def test_no_room_for_memory_or_checkpoints_ends_a_run_in_a_line(
    told: Told, monkeypatch: pytest.MonkeyPatch, size: int, why: str
) -> None:
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    hidden = "dqn,hidden=16" if size < 1_000_000 else "dqn,hidden=512"
    monkeypatch.setattr("paceline.checkpoints._FIRST", 0.0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, kept[1]))
    try:
        code, _, err = told(MISSION, "--learners", hidden, "--epochs", "2", "--plan", "inline", "--out", "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    first, *rest = err.splitlines()
    assert (code, first.startswith("error: "), "File too large" in first, why in first) == (3, True, True, True)
    assert rest[0] == f"stopped; there is no checkpoint yet, only the plan: {Path('a').resolve()}"
    assert "Traceback" not in err
    assert not list(Path("a").glob("checkpoint.*"))


def begun(cwd: Path, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(paceline.__file__).parents[1])}
    return subprocess.Popen([sys.executable, "-m", "paceline", "train", *words], cwd=cwd, env=environment, **streams)


def epochs_in(run: Path) -> int:
    lines = run / "epochs.jsonl"
    return lines.read_bytes().count(b"\n") if lines.exists() else 0


HELD = f"""
import time
from pathlib import Path
from paceline.catalog.missions import find_missions


def make():
    mission = find_missions(["{MISSION}"])[0]
    world = mission.make(**mission.options)
    begin = world.reset

    def reset(seed=None, options=None):
        while seed == 2 + 39 and not Path("go").exists():
            time.sleep(0.01)
        return begin(seed=seed, options=options)

    world.reset = reset
    return world
"""
"""A world whose last epoch of 40, of a training with seed 2, begins when there is a file `go`."""


def test_a_run_that_is_killed_goes_on_to_the_same_result(told: Told, tmp_path: Path) -> None:
    """SIGKILL of the command at any moment leaves no process behind, and `--resume DIR` gives the same digest."""
    moment = random.randrange(1, 40)
    Path("held.py").write_text(HELD)
    words = ("held.py:make", "--max-turns", "10", *LONG[1:], "--out", "a", "-j", "1")
    process = begun(tmp_path, *words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until_child(process, lambda: epochs_in(tmp_path / "a") >= moment)
    left = [each.pid for each in psutil.Process(process.pid).children(recursive=True)]
    assert left
    process.kill()
    until_over(process)
    until(lambda: not any(map(is_alive, left)))
    Path("go").touch()
    code, page, _ = told("--resume", "a", "--json")
    reference = train(MISSION, LEARNERS, epochs=40, lag=1, seed=2, plan="inline")
    assert (code, json.loads(page)["digest"]) == (0, reference.digest), f"killed after epoch {moment}"


def test_ctrl_c_says_what_is_on_disk_and_how_to_go_on(tmp_path: Path) -> None:
    """Meanwhile a bar shows reward, updates and lag; the exit code is 130."""
    ours, theirs = pty.openpty()
    process = begun(tmp_path, *LONG, "--epochs", "9999", "--out", "a", stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    said, interrupted = b"", False
    with contextlib.suppress(OSError):  # the terminal is gone when the command has ended
        until_readable(process, ours)
        while piece := os.read(ours, 65536):
            said += piece
            if b"lag 1" in said and not interrupted:
                process.send_signal(signal.SIGINT)
                interrupted = True
            until_readable(process, ours, said)
    os.close(ours)
    assert process.wait(LONGEST) == 130
    text = said.decode()
    assert "reward" in text
    assert "updates" in text
    assert f"go on with: paceline train --resume {tmp_path / 'a'}" in text.replace("\r\n", "\n")
    assert "checkpoint" in text.partition("interrupted; ")[2]


def test_no_link_is_followed_to_log(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "link").symlink_to("victim")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with _logged(tmp_path / name):
            logging.getLogger("paceline").info("into it")
    assert (tmp_path / "victim").read_text() == "mine"
    with _logged(tmp_path / "new"):
        logging.getLogger("paceline").info("into it")
    assert "into it" in (tmp_path / "new").read_text()


def test_what_is_logged_before_there_is_a_directory_fails_nothing(tmp_path: Path) -> None:
    with _logged(tmp_path / "not_there" / "train.log"):
        logging.getLogger("paceline").info("a worker was interrupted")
