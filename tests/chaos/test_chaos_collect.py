"""Collections whose processes end: what environments have started ends with them, and the caller lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from deadly_worlds import DiesWhenBuilt
from waits import is_alive, until, until_child

import paceline
from paceline import BadInput, collect

SOURCE = str(Path(paceline.__file__).parents[1])
WORLD = """
import os, pathlib, subprocess, time
import gymnasium

class Starts(gymnasium.Env):
    "Starts a process in a session of its own, and writes down whose it is; an episode does not end."
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        pathlib.Path(f"{child.pid}.started").write_text(str(os.getpid()))
        self.train_tasks = [0, 1]

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        pathlib.Path(f"{os.getpid()}.plays").touch()
        time.sleep(1000)
"""
POLICY = """
class Agent:
    def act(self, observation):
        return 0
"""


@pytest.mark.parametrize("more", [["--random"], ["-p", "policy.py:Agent", "--tasks", "train"]])
def test_what_environments_have_started_ends_with_the_main_process(tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "world.py").write_text(WORLD)
    (tmp_path / "policy.py").write_text(POLICY)
    words = ["collect", "world.py:Starts", *more, "-n", "2", "-j", "2", "--no-save"]
    process = subprocess.Popen(
        [sys.executable, "-m", "paceline", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until_child(process, lambda: list(tmp_path.glob("*.plays")))
    process.kill()
    process.wait()
    started = [int(path.stem) for path in tmp_path.glob("*.started")]
    try:
        assert str(process.pid) not in [path.read_text() for path in tmp_path.glob("*.started")]
        until(lambda: not any(map(is_alive, started)))
    finally:
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_an_environment_that_dies_when_it_is_built_is_told_by_name() -> None:
    with pytest.raises(BadInput, match="environment 'DiesWhenBuilt' cannot be looked at: to build it, or a policy"):
        collect(DiesWhenBuilt, random_actions=True, plan=1)
