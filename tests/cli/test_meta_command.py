"""`paceline meta`, as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from waits import until

from paceline import MetaTraining, meta
from paceline.checkpoints import Checkpoints
from paceline.cli._progress import _made_bars
from paceline.cli.app import run as run_here
from paceline.records import Records

ENV, AGENT = "PointRobot-H20-v0", "memory,memory=8,hidden=8"
NUMBERS = {
    "num_iters": 3,
    "num_rollouts_per_iter": 8,
    "num_init_rollouts_pool": 4,
    "num_updates_per_iter": 2,
    "num_eval_tasks": 4,
    "lanes": 8,
}
WORDS = (
    ENV,
    "--agent",
    AGENT,
    *(word for name in NUMBERS for word in (f"--{name.replace('_', '-')}", f"{NUMBERS[name]}")),
)

Told = Callable[..., tuple[int, str, str]]


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Runs the command, and gives its code and what it said."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["paceline", "meta", *words])
            patch.chdir(Path.cwd())
            return run_here(), *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def learned() -> MetaTraining:
    """What the command must give."""
    return meta(ENV, AGENT, seed=1, plan=0, **NUMBERS)  # type: ignore[arg-type]


def test_json_is_one_object_and_a_run_goes_on(told: Told, learned: MetaTraining) -> None:
    """The keys that scripts read are there, files are whole, and to resume a finished run gives its result again."""
    code, out, _ = told(*WORDS, "--seed", "1", "--json", "--out", "run", "-j", "0", "--tensorboard")
    found = json.loads(out)
    assert (code, found["digest"], found["env_steps"]) == (0, learned.digest, (4 + 3 * 8) * 40)
    assert found["return_eval_episodes"] == learned.return_eval_episodes
    assert len(found["return_random_episodes"]) == 2
    assert found["unit"] == "sum of rewards of an episode"
    assert set(found["references"]) == {"random", "markov", "script", "oracle"}
    with (Path("run") / "progress.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [json.loads(line) for line in (Path("run") / "progress.jsonl").read_text().splitlines()]
    wanted = {"z/env_steps", "z/rollouts", "z/rl_steps", "z/fps", "z/time_cost", "rl_loss/policy_loss"}
    wanted |= {"metrics/return_train_total", "metrics/return_train_episode_2"}
    wanted |= {"metrics/return_eval_total", "metrics/return_eval_episode_2"}
    assert wanted <= set(rows[0])
    assert wanted <= set(lines[0])
    assert [int(row["z/rollouts"]) for row in rows] == [12, 20, 28]
    assert (Path("run") / "curves.png").stat().st_size > 5000
    assert list((Path("run") / "tensorboard").iterdir())
    code, out, _ = told("--resume", "run", "--max-rollouts-per-task", "2", "--json")  # as by default
    assert (code, json.loads(out)["digest"]) == (0, learned.digest)
    code, _, said = told("--resume", "run", "--max-rollouts-per-task", "3")
    assert (code, "was asked max_rollouts_per_task=2, and now 3" in said) == (2, True)


def test_a_table_shows_unit_random_and_references(told: Told, learned: MetaTraining) -> None:
    code, out, _ = told(*WORDS, "--seed", "1", "--no-save", "-j", "0")
    assert code == 0
    for said in ("mean over 4 evaluation tasks", "random moves", "shown the task", "collect", learned.digest):
        assert said in out


def test_seeds_side_by_side_give_what_each_gives_alone(told: Told, learned: MetaTraining) -> None:
    code, out, _ = told(*WORDS, "--seed", "1", "--seeds", "2", "-j", "2", "--out", "runs", "--json")
    found = json.loads(out)
    assert (code, [one["seed"] for one in found]) == (0, [1, 2])
    assert found[0]["digest"] == learned.digest != found[1]["digest"]
    assert (Path("runs") / "seed-2" / "meta.json").exists()
    assert (Path("runs") / "curves.png").exists()


CONFIG = """
seed: 1
env: {env_type: meta, env_name: PointRobot-H20-v0, max_rollouts_per_task: 2, num_eval_tasks: 4, num_parallel_workers: 1}
train:
  num_iters: 3
  num_rollouts_per_iter: 8
  num_init_rollouts_pool: 4
  num_updates_per_iter: 2
  buffer_size: 1e6
policy: {seq_model: gru, rnn_hidden_size: 8, policy_layers: [8]}
lanes: 8
"""


def test_a_configuration_of_pomdp_baselines_says_the_same_as_flags(told: Told, learned: MetaTraining) -> None:
    """What has no effect is told; flags count before the file."""
    Path("config.yaml").write_text(CONFIG + "out: elsewhere\neval: {log_tensorboard: true}\n  ...\n")
    code, out, said = told("config.yaml", "--no-save", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["return_eval_episodes"] == learned.return_eval_episodes
    assert found["plan"]["backend"] == "inline"
    assert "without effect in config.yaml, being for other learners or agents: train.buffer_size" in said
    assert "config.yaml, line 14: '...' is passed over; what is not said there is as by default" in said
    assert "without effect in config.yaml, as --no-save keeps nothing: eval.log_tensorboard" in said
    assert not Path("elsewhere").exists()
    code, out, _ = told("config.yaml", "--no-save", "--json", "--num-iters", "1", "--agent", "markov,hidden=8")
    assert (json.loads(out)["iterations"], json.loads(out)["agent"]) == (1, "markov,hidden=8")
    code, out, said = told("config.yaml", "--no-save", "--json", "--num-iters", "1", "--agent", "markov")
    assert json.loads(out)["agent"] == "markov,hidden=8"
    assert "without effect in config.yaml" in said
    assert "policy.seq_model, policy.rnn_hidden_size" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what is learned: ENV-ID or CONFIG.yaml"),
        (("PointRobt-H20-v0",), "PointRobot-H20-v0"),
        (("CartPole-v1", "--no-save"), "is no world with tasks"),
        ((ENV, "--agent", "memory,cel=lstm"), "'cel'"),
        ((ENV, "--num-iters", "1", "--n-env-steps-total", "100"), "both say how long to train"),
        (("bad.yaml",), "bad.yaml.train.num_rollout_per_iter is not known; did you mean num_rollouts_per_iter?"),
        (("--resume", "nowhere"), "holds no run"),
        ((ENV, "--no-save", "--tensorboard"), "--tensorboard needs a directory"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_mistakes_are_told_in_a_line_with_exit_code_2(told: Told, words: tuple[str, ...], said: str) -> None:
    Path("bad.yaml").write_text("env: {env_name: PointRobot-v0}\ntrain: {num_rollout_per_iter: 3}\n")
    code, out, error = told(*words)
    assert (code, out) == (2, "")
    assert said in error
    assert "Traceback" not in error


def test_each_iteration_has_one_line_in_each_log_after_a_stop(
    told: Told, learned: MetaTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is stopped after a checkpoint and before the line of its iteration has it when it has gone on."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    add = Records.add

    def stopped(records: Records, line: Mapping[str, float]) -> None:
        if line["z/iteration"] == 2:
            raise KeyboardInterrupt
        add(records, line)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "due", True)
        patch.setattr(Records, "add", stopped)
        code, _, said = told(*WORDS, "--seed", "1", "--out", "run", "-j", "0", "--tensorboard")
    assert (code, "go on with: paceline meta --resume" in said) == (130, True)
    code, out, _ = told("--resume", "run", "--json")
    assert (code, json.loads(out)["digest"]) == (0, learned.digest)
    run = Path("run")
    with (run / "progress.csv").open(newline="") as file:
        table = [float(row["z/iteration"]) for row in csv.DictReader(file)]
    lines = [json.loads(line)["z/iteration"] for line in (run / "progress.jsonl").read_text().splitlines()]
    newest = max((run / "tensorboard").iterdir(), key=lambda file: file.stat().st_mtime_ns)  # it makes others void
    shown = EventAccumulator(str(newest)).Reload().Scalars("z/iteration")
    assert table == lines == [event.value for event in shown] == [1, 2, 3]


def test_progress_says_everything_in_a_terminal_of_80_columns() -> None:
    """How far, how fast, how long still; and below returns and shares."""
    bars, page = _made_bars(told=True), Console(width=80, file=StringIO())
    told = "return -47.27  evaluation tasks -22.81 -23.40  collect 40 %, update 34 %"
    bars.add_task("env steps", total=20_000_000, completed=9_760_000, told=told)
    page.print(bars.get_renderable())
    bar, below = page.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "9760000/20000000" in bar
    assert bar.endswith("-:--:--")
    assert below == told


def test_a_run_that_diverged_is_not_said_to_go_on(told: Told) -> None:
    """The exit code is 3, and there is something to do; `--resume` is a mistake then."""
    code, _, said = told(*WORDS, "--ppo", "lr=1e30,clip=1e30", "--out", "run", "-j", "0")
    assert (code, "Begin anew with a smaller learning rate" in said, "go on with" in said) == (3, True, False)
    code, _, said = told("--resume", "run")
    assert (code, "cannot be gone on with" in said) == (2, True)


SICK = """
from paceline.worlds.meta.point import PointRobot

class Sick(PointRobot):
    def step(self, action):
        if abs(self.position[0]) < 0.2:
            raise ValueError("it is too near")
        return super().step(action)
"""


@pytest.mark.parametrize("more", [("-j", "0"), ("--seeds", "2", "-j", "0"), ("--seeds", "2", "-j", "2")], ids=" ".join)
def test_of_a_rollout_that_failed_it_is_said_which_and_where(told: Told, more: tuple[str, ...]) -> None:
    """With the line of the world that raised, the task with which it does, and the seed of several."""
    file = f"sick{''.join(more).replace('-', '_')}.py"  # modules of one name would be taken for one another
    Path(file).write_text(SICK)
    code, _, said = told(f"{file}:Sick", *WORDS[1:], "--seed", "7", "--out", "run", *more)
    assert code == 3
    assert "--seeds" not in more or "\n  seed 7\n" in said or "\n  seed 8\n" in said
    assert "by ValueError: it is too near" in said
    assert "of iteration 0, task (" in said
    assert 'raise ValueError("it is too near")' in said
    assert "paceline/collect" not in said


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    """SIGTERM does the same; the exit code is 130."""
    words = [sys.executable, "-m", "paceline", "meta", *WORDS, "--num-iters", "1000000", "--out", "run", "-j", "0"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        lines = tmp_path / "run" / "progress.jsonl"
        until(lambda: lines.exists() and lines.stat().st_size > 0)
        os.kill(process.pid, signal.SIGTERM)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "go on with: paceline meta --resume" in said
