"""`paceline doctor`, run as a user runs it: in a process of its own, on files of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import paceline

SOURCE = str(Path(paceline.__file__).parents[1])

ENVS = """
import random, threading, time
import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.normal(size=2).astype(np.float32)
        return self.seen(), {}

    def step(self, action):
        self.place[action] += self.noise()
        return self.seen(), float(self.place.sum()), False, False, {}

    def noise(self):
        return self.np_random.normal()

    def seen(self):
        return self.place.copy()


class Dice(Walk):
    def noise(self):
        print("a throw")
        return random.random()


class InPlace(Walk):
    def seen(self):
        return self.place


class Clock(Walk):
    def noise(self):
        return time.perf_counter() % 1.0  # of a machine that is up for a day, float32 has no fractions left


class Names(Walk):
    def noise(self):
        return float("".join(str("12345678".index(digit)) for digit in set("12345678")))


class NoDisplay(Walk):
    def __init__(self):
        raise OSError("no display")


def locked():
    lock = threading.Lock()

    def make():
        with lock:
            return InPlace()

    return make


make_locked = locked()
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("home")
    (directory / "my_envs.py").write_text(ENVS)
    return directory


def doctor(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONHASHSEED": "0", "COLUMNS": "400"}
    command = [sys.executable, "-m", "paceline", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=120)


def findings(output: str) -> dict[str, dict[str, object]]:
    return {finding["name"]: finding for finding in json.loads(output)["findings"]}


def test_a_good_env_gets_a_table_and_code_0() -> None:
    answer = doctor("CartPole-v1")
    assert (answer.returncode, answer.stderr) == (0, "")
    title, *lines, conclusion = answer.stdout.splitlines()
    assert title == "CartPole-v1"
    assert {line.split()[0] for line in lines} == {"ok"}
    assert conclusion == "Reproducible: seed 0 gave the same trajectory however it was played."


def test_an_env_of_pettingzoo_is_named_as_for_eval() -> None:
    answer = doctor("pz:classic.rps_v2")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.splitlines()[0] == "pz:classic.rps_v2"


def test_json_is_one_object_and_nothing_else(home: Path) -> None:
    """Though this env prints, here and in the workers."""
    answer = doctor("my_envs.py:Dice", "--json", "--steps", "30", "--seed", "5", cwd=home)
    assert answer.returncode == 1
    data = json.loads(answer.stdout)
    assert (data["target"], data["steps"], data["seed"], data["reproducible"]) == ("my_envs.py:Dice", 30, 5, False)
    found = findings(answer.stdout)
    assert found["generators"]["numbers"] == {"step": ["random"]}
    assert "reset(seed) does not restart those" in str(found["generators"]["advice"])
    assert "self.np_random" in str(found["generators"]["advice"])
    assert found["paceline"]["verdict"] == "ok"
    assert "a throw" in answer.stderr


def test_a_misuse_of_random_is_told_in_the_table(home: Path) -> None:
    answer = doctor("my_envs.py:Dice", "--steps", "10", cwd=home)
    assert answer.returncode == 1
    assert "It uses random in step(), which all of a process share." in answer.stdout
    assert answer.stdout.count("Paceline gives each member streams of its own") == 1
    assert answer.stdout.endswith("Not reproducible: seed 0 did not always give the same trajectory.\n")


@pytest.mark.parametrize(
    ("name", "code", "problems"),
    [
        ("make_locked", 0, {"sendable": "<closure lock>", "aliasing": "first in step 1"}),
        ("Clock", 1, dict.fromkeys(("again", "restart", "process", "twin", "order", "paceline"), "differs")),
        ("Names", 1, {"process": "the observation of step 1 differs"}),
    ],
)
def test_what_is_wrong_is_found(home: Path, name: str, code: int, problems: dict[str, str]) -> None:
    answer = doctor(f"my_envs.py:{name}", "--json", "--steps", "30", cwd=home)
    assert answer.returncode == code
    found = {key: value for key, value in findings(answer.stdout).items() if value["verdict"] == "problem"}
    assert found.keys() == problems.keys()
    assert all(words in str(found[key]["sentence"]) for key, words in problems.items())
    assert name != "Names" or "PYTHONHASHSEED" in str(found["process"]["advice"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["my_envs.py:NoDisplay"], "OSError: no display"),
        (["their_envs.py:make"], "there is no file their_envs.py"),
        (["CartPol-v1", "--steps", "9"], "close to it: CartPole-v1"),
        ([], "TARGET"),
    ],
)
def test_bad_input_is_one_line_and_code_2(home: Path, arguments: list[str], words: str) -> None:
    answer = doctor(*arguments, cwd=home)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: ")
    assert words in answer.stderr.upper() if words.isupper() else words in answer.stderr
    assert "Traceback" not in answer.stderr


def test_the_help_has_examples_and_codes() -> None:
    answer = doctor("--help")
    assert answer.returncode == 0
    assert "  paceline doctor CartPole-v1\n" in answer.stdout
    assert "Exit codes:" in answer.stdout
