"""The directory of a run of each job, small, as a user leaves it; and a command line that is run here."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.cli.app import run as run_here

_GROUPS = """
es_manager:
  format_penalty: -0.1
  train: {env_groups: 1, group_size: 2, env_configs: {tags: [Bandit], n_groups: [1]}}
custom_envs: {Bandit: {env_type: bandit, max_actions_per_traj: 1}}
seed: {train: 3}
"""
_TRAINING = ("forage,agents=2", "--learners", "dqn,hidden=4", "--epochs", "2", "--max-turns", "4", "-j", "0")
_LEARNING = ("PointRobot-H20-v0", "--agent", "memory,memory=4,hidden=4", "--num-iters", "1")
_LEARNING += ("--num-rollouts-per-iter", "4", "--num-init-rollouts-pool", "1", "--num-updates-per-iter", "1")
_LEARNING += ("--num-eval-tasks", "2", "--lanes", "4", "-j", "0")
JOBS = {
    "eval": ("-m", "forage,agents=2", "-p", "random", "-e", "2", "-s", "5", "-j", "0"),
    "rollout": ("config.yaml", "--policy", "random", "-j", "0"),
    "collect": ("CartPole-v1", "--random", "-n", "2", "--horizon", "5", "-j", "0"),
    "train": _TRAINING,
    "meta": _LEARNING,
    "seeds": (*_TRAINING, "--seeds", "1"),
}
"""Kind of a run → the words that it is begun with."""
READERS = {
    "eval": [("eval", "--resume", "RUN", "-j", "0"), ("rerun", "RUN", "forage,agents=2/1"), ("compare", "RUN", "RUN")],
    "rollout": [("rollout", "--resume", "RUN", "-j", "0")],
    "collect": [("rerun", "RUN", "1")],
    "train": [("train", "--resume", "RUN", "-j", "0")],
    "meta": [("meta", "--resume", "RUN", "-j", "0")],
    "seeds": [("train", "--resume", "RUN", "-j", "0")],
}
"""Kind of a run → the commands that read it; RUN stands for its directory."""


def called(*words: str) -> tuple[int, str]:
    """Runs a command line in this process, and comes back to where it was. Gives its code, and what it printed."""
    page = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(page), contextlib.redirect_stderr(page):
        patch.setattr(sys, "argv", ["paceline", *words])
        patch.setattr(sys, "path", [*sys.path])
        patch.chdir(Path.cwd())
        return run_here(), page.getvalue()


def begun(home: Path) -> dict[str, Path]:
    """Begins a run of each kind in a directory. Gives their directories."""
    (home / "config.yaml").write_text(_GROUPS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        for kind, words in JOBS.items():
            code, page = called("train" if kind == "seeds" else kind, *words, "--out", kind)
            assert code == 0, page
    return {kind: home / kind for kind in JOBS}


@contextlib.contextmanager
def of_another_user(state: Path) -> Iterator[None]:
    """Has what the body writes be of a user whose key lies elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        yield
