"""What `paceline eval` says before it plays: options that exclude each other, and what `--dry-run` finds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.cli.app import run as run_here

FILE = '''
class Fine:
    def __init__(self, seat):
        pass

    def act(self, obs):
        return 0


class FailsWhenBuilt(Fine):
    """Only at a seat that is not tried before work begins."""

    def __init__(self, seat):
        if seat.index == 1:
            raise RuntimeError("no seat for me")


class FailsWhenAsked(Fine):
    def act(self, obs):
        return self.think(obs)

    def think(self, obs):
        raise RuntimeError("no idea")


def no_env():
    raise RuntimeError("no world today")


class Blind:
    """A parallel env that cannot be drawn."""

    possible_agents = ["a"]

    def __init__(self, render_mode=None):
        self.agents = []

    def observation_space(self, agent):
        from gymnasium import spaces
        return spaces.Discrete(2)

    action_space = observation_space

    def reset(self, seed=None, options=None):
        self.agents = ["a"]
        return {"a": 0}, {"a": {}}

    def step(self, actions):
        self.agents = []
        return {"a": 0}, {"a": 0.0}, {"a": True}, {"a": False}, {"a": {}}

    def close(self):
        pass


class Blank(Blind):
    """One that draws, but no pictures."""

    def render(self):
        return "no picture"
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "mine_to_try.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield "mine_to_try.py"
    sys.path[:] = before
    sys.modules.pop("mine_to_try", None)


def told(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["paceline", "eval", *arguments])
        code = run_here()
    return code, *capfd.readouterr()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--gif film.txt", "--gif film.txt: give a file whose name ends in .gif"),
        ("--no-save --out a", "--no-save and --out contradict each other"),
        ("--no-save --resume a", "--resume and --no-save contradict each other"),
        ("--resume a --out b", "--resume and --out both say where the results go"),
        ("--dry-run --csv", "--dry-run and --csv do not go together"),
        ("--watch --json", "--watch and --json do not go together: --watch shows one episode"),
        ("--watch --csv", "--watch and --csv do not go together"),
        ("--gif a.gif --json", "--gif and --json do not go together"),
        ("--watch --gif a.gif", "--watch and --gif do not go together"),
        ("--watch --dry-run", "--watch and --dry-run do not go together"),
        ("-j \u00b2", "give a number of workers"),
    ],
)
def test_options_that_exclude_each_other(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = told(capfd, *arguments.split())
    assert (code, out) == (2, "")
    assert complaint in err
    assert list(tmp_path.iterdir()) == []


# -- dry runs ------------------------------------------------------------------------------------------------

DUEL = ("-m", "forage-duel", "-s", "4", "-e", "2", "--dry-run")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("FailsWhenBuilt", ("agent agent_1", "step 0): RuntimeError: no seat for me")),
        ("FailsWhenAsked", ("agent agent_0", "step 0): RuntimeError: no idea", "in think")),
    ],
)
def test_a_dry_run_says_which_policy_fails(
    file: str, policy: str, words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = told(capfd, *DUEL, "-p", f"{file}:{policy}")
    assert code == 2
    assert "fails" in out
    assert err.startswith("error: forage-duel/0 (seed 0, ")
    for each in words:
        assert each in err
    assert "minds.py" not in err  # no frames of ours
    assert not Path("runs").exists()


def test_a_dry_run_tries_those_who_sit_later(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    both = ("-p", f"{file}:Fine", "-p", f"{file}:FailsWhenAsked")
    code, _, err = told(capfd, "-m", "courier", "-s", "4", "-e", "2", "--dry-run", *both)
    assert code == 2
    assert "courier/1" in err
    code, _, _ = told(capfd, "-m", "courier", "-s", "4", "-e", "1", "--dry-run", *both)
    assert code == 0  # it would never sit


def test_a_dry_run_says_which_mission_cannot_be_made(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = told(capfd, "-m", f"{file}:no_env", "-p", f"{file}:Fine", "--dry-run")
    assert code == 2
    assert "mission 'mine_to_try.py:no_env' cannot be built: RuntimeError: no world today" in err


def test_a_dry_run_as_json_is_one_object(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = told(capfd, *DUEL, "--json", "-p", "greedy")
    plan = json.loads(out)
    assert (code, plan["dry_run"], plan["planned"]) == (0, True, 2)
    (mission,) = plan["missions"]
    assert (mission["name"], mission["failure"]) == ("forage-duel", None)
    assert mission["seats"] == {"agent_0": "greedy", "agent_1": "greedy"}
    code, out, _ = told(capfd, *DUEL, "--json", "-p", f"{file}:FailsWhenAsked")
    assert code == 2
    assert json.loads(out)["missions"][0]["failure"]["message"] == "no idea"


# -- one episode for the eyes ----------------------------------------------------------------------------------


def test_what_cannot_be_shown_is_told_in_words(file: str, capfd: pytest.CaptureFixture[str]) -> None:
    fine = ("-p", f"{file}:Fine")
    for arguments, complaint in (
        (("-m", f"{file}:Blind", "--watch", *fine), "cannot be shown: its environment has no render()"),
        (("-m", f"{file}:Blind", "--gif", "a.gif", *fine), "cannot be shown: its environment has no render()"),
        (("-m", f"{file}:Blank", "--gif", "a.gif", *fine), "render() gave a str, where --gif needs an array"),
        (("-m", f"{file}:no_env", "--watch", *fine), "it makes no environment with render_mode='ansi'"),
        (
            ("-m", "forage-duel", "--watch", "-p", f"{file}:FailsWhenAsked"),
            "forage-duel/0, step 0, agent agent_0, policy mine_to_try.py:FailsWhenAsked: RuntimeError: no idea",
        ),
        (("-m", "forage-duel", "--gif", "a.gif", "-p", f"{file}:FailsWhenAsked"), "RuntimeError: no idea"),
        (("-m", "forage-duel", "--watch", "-p", f"{file}:FailsWhenBuilt"), "RuntimeError: no seat for me"),
    ):
        code, _, err = told(capfd, *arguments)
        assert code == 2, (arguments, err)
        assert err.startswith("error: ")
        assert complaint in err
        assert "Traceback" not in err
    assert not Path("a.gif").exists()
