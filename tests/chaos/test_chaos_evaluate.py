"""Evaluations to which real things happen: killed, interrupted, hung, crashed. What is done is kept, and nothing is
made up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deadly_worlds import DiesWhenBuilt, DiesWhenClosed, Plain
from players import Breaks, Counter, Harms, Liar, Meeting, RaisesInOdd, RowsThatRaise
from waits import until, until_child

import paceline
from paceline import BadInput, Plan
from paceline.evaluate import Report, evaluate
from paceline.team import Player
from paceline.types import Episode, Failure, Mission

SOURCE = str(Path(paceline.__file__).parents[1])
TESTS = str(Path(__file__).parents[1])
MEETING = Mission("meeting", Meeting, {"length": 8})
HARMLESS = Mission("harmless", Meeting, {"length": 8})


def harms(how: str, **options: Any) -> Player:
    """A policy that does harm in its fourth action in one mission, and plays the other one well."""
    return Player("harms", partial(Harms, how=how, only="meeting", agent="agent_1", **options))


def both(player: Player, **options: Any) -> Report:
    return evaluate([MEETING, HARMLESS], player, episodes=2, seed=3, **options)


@pytest.fixture(scope="module")
def undisturbed() -> Report:
    """What comes out where no harm is done."""
    return both(harms("nothing"), plan=0, agents="off")


def failure(report: Report, number: int = 0) -> Failure:
    found = report.episodes[number].failure
    assert found is not None
    return found


def check_that_only_one_mission_failed(report: Report, undisturbed: Report) -> None:
    """Those who could be played are what they would have been; those who failed are in no mean."""
    assert [episode.failure is None for episode in report.episodes] == [False, False, True, True]
    assert [e.digest for e in report.episodes[2:]] == [e.digest for e in undisturbed.episodes[2:]]
    broken, whole = report.scores()[:2]
    assert (broken.failed, broken.reward.count, broken.reward.mean, broken.steps) == (2, 0, None, None)
    assert whole.reward == undisturbed.scores()[1].reward
    everything = report.scores()[-1]
    assert (everything.mission, everything.reward) == ("*", whole.reward)


# -- policies that fail --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plan", "agents"), [(0, "off"), (0, "process"), (0, "thread"), (0, "gpu"), (2, "auto")])
def test_a_policy_that_raises_is_named(undisturbed: Report, plan: int, agents: str) -> None:
    report = both(harms("raise"), plan=plan, agents=agents)
    check_that_only_one_mission_failed(report, undisturbed)
    first = report.failures[0]
    assert (first.mission, first.index, first.seed, first.name) == ("meeting", 0, 3, "meeting/0")
    found = failure(report)
    assert (found.kind, found.message) == ("Stumble", "the policy has stumbled #7")
    assert (found.agent, found.policy, found.step) == ("agent_1", "harms", 3)
    assert 'raise Stumble("the policy has stumbled", 7)' in found.traceback
    assert report.digest == both(harms("raise"), plan=0, agents="off").digest


@pytest.mark.parametrize("how", ["exit", "segfault", "sigkill"])
@pytest.mark.parametrize(("plan", "agents"), [(0, "process"), (2, "off")])
def test_a_policy_that_kills_its_process(undisturbed: Report, how: str, plan: int, agents: str) -> None:
    report = both(harms(how), plan=plan, agents=agents)
    check_that_only_one_mission_failed(report, undisturbed)
    found = failure(report)
    assert found.kind == "WorkerLost"
    assert {"exit": "exit code 7", "segfault": "SIGSEGV", "sigkill": "SIGKILL"}[how] in found.message
    if agents == "process":  # there it can be said who it was
        assert (found.agent, found.policy, found.step) == ("agent_1", "harms", 3)


def test_a_policy_that_hangs_is_ended_by_the_deadline_of_a_call(undisturbed: Report) -> None:
    report = both(harms("hang"), plan=0, agents="process", call_deadline=0.4)
    check_that_only_one_mission_failed(report, undisturbed)
    found = failure(report)
    assert (found.kind, found.agent, found.step) == ("CallTimeout", "agent_1", 3)
    assert "within 0.4 s" in found.message


def test_a_policy_that_hangs_is_ended_by_the_deadline_of_an_episode(undisturbed: Report) -> None:
    report = both(harms("hang"), plan=2, agents="off", episode_deadline=0.6)
    check_that_only_one_mission_failed(report, undisturbed)
    assert failure(report).kind == "CallTimeout"


def test_under_auto_a_call_deadline_means_processes(undisturbed: Report) -> None:
    report = both(harms("nothing"), plan="auto", agents="auto", call_deadline=20.0)
    assert report.failures == []
    assert report.digest == undisturbed.digest


@pytest.mark.parametrize("agents", ["off", "thread", "batch", "gpu"])
def test_a_call_deadline_that_cannot_be_kept_is_told_before_anything_is_played(agents: str, tmp_path: Path) -> None:
    with pytest.raises(paceline.BadInput, match=rf"agents='{agents}'.*use agents='process'"):
        both(harms("nothing"), agents=agents, call_deadline=1.0, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("plan", "agents"), [(0, "off"), ("thread", "off"), (2, "gpu")])
def test_an_episode_deadline_that_cannot_be_kept_is_told_too(plan: Any, agents: str, tmp_path: Path) -> None:
    with pytest.raises(paceline.BadInput, match="deadline"):
        both(harms("nothing"), plan=plan, agents=agents, episode_deadline=1.0, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("world", [Breaks, Liar])
@pytest.mark.parametrize("agents", ["off", "process", "gpu"])
def test_an_environment_that_fails_is_told_from_its_policies(world: type, agents: str) -> None:
    report = evaluate(Mission("world", world), Counter, episodes=4, plan=0, agents=agents)
    assert [episode.failure is None for episode in report.episodes] == [True, False, True, False]
    found = failure(report, 1)
    assert (found.agent, found.policy) == ("", "")
    assert found.step == (3 if world is Breaks else 4)
    assert ("the world has come to its end" if world is Breaks else "shape (4,)") in found.message
    assert report.digest == evaluate(Mission("world", world), Counter, episodes=4, plan=0, agents="off").digest


@pytest.mark.parametrize("wrong", [False, True])
def test_a_batch_that_fails_is_the_failure_of_one_episode(wrong: bool) -> None:
    """Under gpu several episodes share a forward pass; the one that it fails for must not take the others along."""
    player = Player("rows", partial(RowsThatRaise, limit=70.0, wrong=wrong))
    mission = Mission("meeting", Meeting, {"agents": 2, "length": 4})
    alone, together = (evaluate(mission, player, episodes=8, plan=0, agents=mode) for mode in ("off", "gpu"))
    assert 0 < len(alone.failures) < 8
    assert together.digest == alone.digest
    assert [e.failure and (e.failure.kind, e.failure.agent, e.failure.step) for e in together.episodes] == [
        e.failure and (e.failure.kind, e.failure.agent, e.failure.step) for e in alone.episodes
    ]


# -- what is done about failures -----------------------------------------------------------------------------


def test_an_environment_that_dies_when_it_is_closed_loses_no_episode() -> None:
    report = evaluate(DiesWhenClosed, "random", episodes=3, plan=Plan("process", 1))
    assert [episode.failure for episode in report.episodes] == [None] * 3
    assert report.digest == evaluate(Mission("DiesWhenClosed", Plain), "random", episodes=3, plan=0).digest
    said = "mission 'DiesWhenClosed': close() of its environment ended its process; its episodes count"
    assert report.notes.count(said) == 1


def test_an_environment_that_dies_when_it_is_built_leaves_the_caller_alone() -> None:
    with pytest.raises(BadInput, match="mission 'DiesWhenBuilt' cannot be looked at: to build its environment"):
        evaluate(DiesWhenBuilt, "random", episodes=2, plan=Plan("process", 1))


def test_stop_ends_with_the_first_failure() -> None:
    report = both(harms("raise"), plan=0, agents="off", on_error="stop")
    assert [episode.name for episode in report.episodes] == ["meeting/0"]
    assert not report.complete
    assert (report.planned, len(report.failures)) == (4, 1)


def test_max_failures_ends_with_so_many() -> None:
    report = evaluate([MEETING, HARMLESS], harms("raise"), episodes=3, plan=0, agents="off", max_failures=2)
    assert [episode.name for episode in report.episodes] == ["meeting/0", "meeting/1"]


def test_retry_plays_a_failed_episode_again_and_then_lets_it_be(tmp_path: Path, undisturbed: Report) -> None:
    mended = tmp_path / "mended"
    player = harms("raise", until=str(mended))

    def mend(_: Episode, done: int, total: int) -> None:
        if done == total:
            mended.touch()

    once = both(player, plan=0, agents="off", on_error="retry", watcher=mend)
    assert once.failures == []
    assert [episode.tries for episode in once.episodes] == [2, 2, 1, 1]
    assert once.digest == undisturbed.digest
    always = both(harms("raise"), plan=0, agents="off", on_error="retry")
    assert [(episode.tries, episode.failure is None) for episode in always.episodes] == [
        (3, False),
        (3, False),
        (1, True),
        (1, True),
    ]


def test_what_failed_is_played_again_when_a_run_is_resumed(tmp_path: Path, undisturbed: Report) -> None:
    player = harms("raise", until=str(tmp_path / "mended"))
    first = both(player, plan=0, agents="off", out=tmp_path / "run")
    assert [episode.name for episode in first.failures] == ["meeting/0", "meeting/1"]
    again = both(player, plan=0, agents="off", out=tmp_path / "run", resume=True)
    assert again.digest == first.digest
    (tmp_path / "mended").touch()
    again = both(player, plan=0, agents="off", out=tmp_path / "run", resume=True)
    assert again.digest == undisturbed.digest


def test_verify_does_not_play_again_what_has_killed_a_worker(undisturbed: Report) -> None:
    report = both(harms("exit"), plan=1, agents="off", verify=4)
    assert report.verified == {"harmless/0": True, "harmless/1": True}


def test_no_failed_episode_has_a_number_anywhere() -> None:
    report = evaluate(MEETING, RaisesInOdd, episodes=8, plan=0)
    good = [episode for episode in report.episodes if episode.failure is None]
    assert 0 < len(good) < 8
    (score,) = report.scores()
    means = [sum(episode.rewards.values()) / 3 for episode in good]
    assert (score.reward.count, score.failed) == (len(good), 8 - len(good))
    assert score.reward.mean == pytest.approx(sum(means) / len(means))
    assert score.reward.least == min(means)
    rows = [line.split(",") for line in report.as_csv().splitlines()[1:]]
    assert {row[5] == "" for row in rows if row[-1]} == {True}
    assert all(row[5] for row in rows if not row[-1])


# -- the main process ----------------------------------------------------------------------------------------


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "paceline", "eval", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, TESTS])}


SLOW = ("-m", "players:Meeting,length=8", "-p", "players:Sleepy", "-e", "16", "--seed", "4")


def started(where: Path, *more: str) -> subprocess.Popen[str]:
    """A run of sixteen episodes of which three are on disk; its temporary files are beside it."""
    temporary = where.parent / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        command(*SLOW, "--out", str(where), *more),
        env={**environment(), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines = where / "episodes.jsonl"
    until_child(process, lambda: lines.exists() and lines.read_bytes().count(b"\n") >= 3)
    return process


def resumed(where: Path, *more: str) -> dict[str, Any]:
    answer = subprocess.run(
        command("--resume", str(where), "--json", *more), env=environment(), capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the slow run when nothing happens to it."""
    sys_path_mission = Mission("players:Meeting,length=8", Meeting, {"length": 8})
    return evaluate(sys_path_mission, Player("players:Sleepy", Counter), episodes=16, seed=4, plan=0).digest


@pytest.mark.parametrize("jobs", ["0", "2"])
def test_a_run_whose_main_process_was_killed_is_resumed(tmp_path: Path, whole: str, jobs: str) -> None:
    process = started(tmp_path / "run", "-j", jobs)
    assert list(tmp_path.glob("temporary/paceline-*"))
    process.kill()
    process.communicate(timeout=20)
    if jobs == "2":  # without workers there is nothing that outlives it to remove them
        until(lambda: not list(tmp_path.glob("temporary/paceline-*")))
    lines = tmp_path / "run" / "episodes.jsonl"
    done = lines.read_text().count("\n")
    assert 3 <= done < 16
    assert not (tmp_path / "run" / "report.json").exists()
    with lines.open("a") as file:
        file.write('{"mission": "players:Meeting,length=8", "index": 15, "se')  # cut off in the middle of a line
    report = resumed(tmp_path / "run", "-j", jobs)
    assert report["digest"] == whole
    assert (report["played"], report["failed"]) == (16, 0)
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(records) == 16  # what was done was not done again
    assert json.loads((tmp_path / "run" / "report.json").read_text())["digest"] == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", ["0", "2"])
def test_an_interrupt_keeps_what_is_done(tmp_path: Path, whole: str, jobs: str, number: signal.Signals) -> None:
    process = started(tmp_path / "run", "-j", jobs)
    os.killpg(process.pid, number)  # a terminal sends it to everybody, and so does a scheduler
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert out == ""
    assert f"interrupted; what is done is kept: paceline eval --resume {tmp_path / 'run'}" in err
    assert "Traceback" not in err
    assert resumed(tmp_path / "run")["digest"] == whole


def test_exit_code_3_says_that_episodes_failed(tmp_path: Path) -> None:
    answer = subprocess.run(
        command("-m", "players:Meeting", "-p", "players:Harms", "-e", "2", "-j", "0", "--out", str(tmp_path / "run")),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 3, answer.stderr
    assert "2 of 2 episodes failed:" in answer.stdout
    assert (
        "players:Meeting/0 (seed 0, agent agent_0, policy players:Harms, step 3): Stumble: the policy has stumbled #7"
        in answer.stdout
    )
    assert 'raise Stumble("the policy has stumbled", 7)' in answer.stdout
    assert f"play it again: paceline rerun {tmp_path / 'run'} players:Meeting/0" in answer.stdout
