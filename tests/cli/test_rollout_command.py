"""`paceline rollout` and `paceline play`, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from text_worlds import config
from waits import LONGEST, until_child, until_over, until_readable

import paceline
from paceline.testing import CALM, LlmServer

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(paceline.__file__).parents[1]), str(TESTS)])}


def run(*words: str, cwd: Path, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    trusted = ("--trust",) if "--resume" in words else ()  # text_worlds lies in another directory
    done = subprocess.run(
        [sys.executable, "-m", "paceline", *words, *trusted],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=100,
        env=ENVIRONMENT,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = {**config({"SimpleSokoban": 2, "Countdown": 1, "Ladder": 1}, base=5), "agent_proxy": {"max_turn": 3}}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(written))
    return path


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "trajectories.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(("jobs", "where"), [("0", "on 2 workers"), ("2", "here")])
def test_verify_plays_again_elsewhere_and_compares(file: Path, tmp_path: Path, jobs: str, where: str) -> None:
    words = ("rollout", str(file), "--policy", "random", "-j", jobs, "--verify")
    done = run(*words, "--out", "a", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == f"verified: 8 trajectories played again {where} came out the same"
    (tmp_path / "worlds.py").write_text(
        "import os\nfrom text_worlds import Ladder\n"
        "class Fickle(Ladder):\n"
        "    def step(self, action):\n"
        "        text, reward, *rest = super().step(action)\n"
        "        return text, reward + os.getpid(), *rest\n"
    )
    asked = yaml.safe_load(file.read_text())
    asked["custom_envs"]["Ladder"]["env_type"] = "worlds.py:Fickle"
    file.write_text(yaml.safe_dump(asked))
    done = run(*words, "--out", "b", cwd=tmp_path, code=1)
    assert (
        done.stdout.splitlines()[-1] == f"played again {where}, these came out differently: trajectory 6, trajectory 7"
    )


def test_a_scripted_policy_plays_and_everything_is_on_disk(file: Path, tmp_path: Path) -> None:
    done = run("rollout", str(file), "--policy", "random", "--out", "a", cwd=tmp_path)
    assert "SimpleSokoban" in done.stdout
    assert "pass@2" in done.stdout
    assert "digest: " in done.stdout
    records = lines(tmp_path / "a")
    assert sorted(record["env_id"] for record in records) == list(range(8))
    first = min(records, key=lambda record: record["env_id"])
    assert [message["role"] for message in first["messages"][:3]] == ["system", "user", "assistant"]
    assert first["mask"] == [int(message["role"] == "assistant") for message in first["messages"]]
    assert {"state", "actions_left", "actions", "reward", "info", "llm_response"} <= first["history"][0].keys()
    again = json.loads(
        run("rollout", str(file), "--policy", "random", "--out", "b", "-j", "2", "--json", cwd=tmp_path).stdout
    )
    assert f"digest: {again['digest']}" in done.stdout
    assert json.loads((tmp_path / "b" / "report.json").read_text()) == again
    assert list(again["tags"]) == ["SimpleSokoban", "Countdown", "Ladder"]


def test_a_run_that_was_killed_goes_on_to_the_same_digest(file: Path, tmp_path: Path) -> None:
    whole = json.loads(run("rollout", str(file), "--policy", "random", "--out", "a", "--json", cwd=tmp_path).stdout)
    (tmp_path / "b").mkdir()
    for name in ("plan.json", "trajectories.jsonl"):
        (tmp_path / "b" / name).write_text((tmp_path / "a" / name).read_text())
    kept = (tmp_path / "b" / "trajectories.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "b" / "trajectories.jsonl").write_text("".join(kept[:3]) + kept[3][:40])  # killed in mid-line
    done = run("rollout", str(file), "--policy", "random", "--resume", "b", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["digest"] == whole["digest"]
    refused = run("rollout", str(file), "--policy", "random", "--seed", "9", "--resume", "b", cwd=tmp_path, code=2)
    assert "holds another run: there seed is 5, and here 9" in refused.stderr


def test_a_run_goes_on_with_what_it_was_begun_with(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.py").write_text(
        "async def says(turn, word='Up'):\n    return f'<think></think><answer>{word}</answer>'\n"
    )
    (tmp_path / "there" / "config.yaml").write_text(yaml.safe_dump(config({"Ladder": 2}, base=7)))
    words = ("config.yaml", "--policy", "mine.py:says,kw.word=Down", "--mode", "val", "--max-turns", "2")
    whole = json.loads(run("rollout", *words, "--out", "a", "--json", cwd=tmp_path / "there").stdout)
    kept = (tmp_path / "there" / "a" / "trajectories.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "there" / "a" / "trajectories.jsonl").write_text(kept[0])
    told = json.loads(run("rollout", "--resume", "there/a", "--json", cwd=tmp_path).stdout)
    assert (told["digest"], told["identity"]) == (whole["digest"], whole["identity"])
    (tmp_path / "there" / "a" / "trajectories.jsonl").write_text(kept[0])
    told = json.loads(run("rollout", "there/config.yaml", "--resume", "there/a", "--json", cwd=tmp_path).stdout)
    assert (told["digest"], told["identity"]) == (whole["digest"], whole["identity"])
    refused = run("rollout", "--resume", "there/a", "--policy", "random", cwd=tmp_path, code=2).stderr
    assert "there policy is 'mine.py:says,kw.word=Down', and here 'random'" in refused
    assert "CONFIG.yaml, or --resume DIR" in run("rollout", "--policy", "random", cwd=tmp_path, code=2).stderr
    path = tmp_path / "there" / "a" / "plan.json"
    plan = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in plan.items() if key not in ("command", "check")}))
    assert "does not say how it was begun" in run("rollout", "--resume", "there/a", cwd=tmp_path, code=2).stderr


def test_a_policy_is_the_same_by_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config({"SimpleSokoban": 1})))
    words = ("rollout", "config.yaml", "--max-turns", "1", "--json", "--policy")
    whole = json.loads(run(*words, "expert", "--out", "a", cwd=tmp_path).stdout)
    assert json.loads(run(*words, "bfs", "--resume", "a", cwd=tmp_path).stdout)["digest"] == whole["digest"]


def begun(tmp_path: Path, *words: str) -> dict[str, Any]:
    """A run of four trajectories, of which the first is on disk; its policy notes how many questions were under way."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.py").write_text(
        "import asyncio\n"
        "under_way = most = 0\n"
        "async def says(turn):\n"
        "    global under_way, most\n"
        "    under_way += 1\n"
        "    most = max(most, under_way)\n"
        "    await asyncio.sleep(0.05)\n"
        "    under_way -= 1\n"
        "    open('most', 'w').write(str(most))\n"
        "    return '<think></think><answer>Up</answer>'\n"
    )
    (tmp_path / "there" / "config.yaml").write_text(yaml.safe_dump(config({"Ladder": 2}, base=7)))
    told = run(
        *("rollout", "config.yaml", "--policy", "mine.py:says", "--max-turns", "2", "--out", "a", "--json", *words),
        cwd=tmp_path / "there",
    )
    forget_all_but_one(tmp_path / "there" / "a")
    report: dict[str, Any] = json.loads(told.stdout)
    return report


def forget_all_but_one(directory: Path) -> None:
    kept = (directory / "trajectories.jsonl").read_text().splitlines(keepends=True)
    (directory / "trajectories.jsonl").write_text(kept[0])


def test_a_run_goes_on_at_the_pace_and_in_the_place_that_it_was_begun_with(tmp_path: Path) -> None:
    whole = begun(tmp_path, "--concurrency", "1", "--plan", "thread", "-j", "1", "--deadline", "90", "--quorum", "1")
    there = tmp_path / "there"
    for words, most, backend in [((), "1", "thread"), (("--concurrency", "3", "-j", "0"), "3", "inline")]:
        told = json.loads(run("rollout", "--resume", "there/a", "--json", *words, cwd=tmp_path).stdout)
        assert (told["digest"], told["plan"]["backend"]) == (whole["digest"], backend)
        assert (there / "most").read_text() == most
        forget_all_but_one(there / "a")
    (there / "mine.py").write_text((there / "mine.py").read_text().replace("0.05", "600"))
    plan = json.loads((there / "a" / "plan.json").read_text())
    assert (plan["command"]["deadline"], plan["command"]["quorum"]) == (90, 1)
    plan["command"]["deadline"] = 0.2
    del plan["check"]
    (there / "a" / "plan.json").write_text(json.dumps({**plan, "files": {}}))
    told = json.loads(run("rollout", "--resume", "there/a", "--json", cwd=tmp_path, code=3).stdout)
    assert told["tags"]["Ladder"]["cuts"] == 3
    assert (
        "--jobs 2 wants workers"
        in run(*("rollout", "--resume", "there/a", "--plan", "inline", "-j", "2"), cwd=tmp_path, code=2).stderr
    )


def test_a_policy_that_is_named_now_is_looked_for_from_here(tmp_path: Path) -> None:
    whole = begun(tmp_path)
    for policy, cwd, where in [
        ("mine.py:says", "there", "a"),
        ("./mine.py:says", "there", "a"),
        ("there/mine.py:says", ".", "there/a"),
    ]:
        words = ("rollout", "--resume", where, "--policy", policy, "--json")
        assert json.loads(run(*words, cwd=tmp_path / cwd).stdout)["digest"] == whole["digest"]
    words = ("rollout", "--resume", "there/a", "--policy", "mine.py:says")
    assert f"there is no file {tmp_path / 'mine.py'}" in run(*words, cwd=tmp_path, code=2).stderr
    (tmp_path / "mine.py").write_text((tmp_path / "there" / "mine.py").read_text())
    refused = run(*words, cwd=tmp_path, code=2).stderr
    assert f"there policy is 'mine.py:says', and here '{tmp_path / 'mine.py'}:says'" in refused


def test_a_run_whose_directory_is_gone_says_so_and_looks_here(tmp_path: Path) -> None:
    whole = begun(tmp_path)
    (tmp_path / "there").rename(tmp_path / "here")
    told = run("rollout", "--resume", "a", "--json", cwd=tmp_path / "here")
    assert f"was begun in {tmp_path / 'there'}, which is not there: files are looked for here" in told.stderr
    assert json.loads(told.stdout)["digest"] == whole["digest"]
    told = run("rollout", "--resume", "a", "--policy", "mine.py:says", "--json", cwd=tmp_path / "here")
    assert json.loads(told.stdout)["digest"] == whole["digest"]
    assert "cannot be read" in run("rollout", "--resume", "here/a", cwd=tmp_path, code=2).stderr


def test_an_endpoint_is_found_again_but_secrets_are_not_written_down(file: Path, tmp_path: Path) -> None:
    with LlmServer(api_key=None) as server:
        words = ("rollout", str(file), "--model", "test-model", "--temperature", "0.5", "--json")
        first = json.loads(run(*words, "--base-url", server.url, "--out", "a", cwd=tmp_path).stdout)
        again = json.loads(run("rollout", "--resume", "a", "--json", cwd=tmp_path).stdout)
        assert (again["digest"], again["identity"]) == (first["digest"], first["identity"])
        secret = server.url.replace("//", "//me:a-secret@")
        run(*words, "--base-url", secret, "--out", "b", cwd=tmp_path)
    assert "a-secret" not in (tmp_path / "b" / "plan.json").read_text()
    assert "--base-url of" in run("rollout", "--resume", "b", cwd=tmp_path, code=2).stderr


def test_a_run_goes_on_only_with_the_files_that_it_was_begun_with(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Says:\n"
        "    def __init__(self, weights, model):\n"
        "        pass\n"
        "    async def answer(self, turn):\n"
        "        return '<think></think><answer>1</answer>'\n"
        "async def says(turn):\n"
        "    return '<think></think><answer>2</answer>'\n"
    )
    (tmp_path / "worlds.py").write_text("from text_worlds import Ladder\nclass Own(Ladder):\n    pass\n")
    (tmp_path / "numbers.jsonl").write_text('{"nums": [1, 2], "target": 3}\n')
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "layer.bin").write_bytes(b"weights")
    (tmp_path / "head.bin").write_bytes(b"weights")
    written = config({"Own": 1, "Countdown": 1}, base=5)
    written["custom_envs"] = {
        "Own": {"env_type": "worlds.py:Own"},
        "Countdown": {"env_type": "countdown", "env_config": {"train_path": "numbers.jsonl"}},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    words = ("rollout", "config.yaml", "--max-turns", "1", "--policy")
    built = (*words, "mine.py:Says,kw.weights=head.bin,kw.model=net")
    run(*built, "--out", "a", cwd=tmp_path)
    run(*built, "--resume", "a", cwd=tmp_path)
    for name in ("mine.py", "head.bin", "net/layer.bin", "worlds.py", "numbers.jsonl"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(before + "\n")
        told = run(*built, "--resume", "a", cwd=tmp_path, code=2).stderr
        assert f"{name.partition('/')[0]} of " in told
        assert "put back what was there, or begin afresh" in told
        (tmp_path / name).write_text(before)
    run(*words, "mine.py:says", "--out", "b", cwd=tmp_path)
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("2", "3"))
    assert (
        "mine.py of policy mine.py:says changed"
        in run(*words, "mine.py:says", "--resume", "b", cwd=tmp_path, code=2).stderr
    )


def test_failures_and_cuts_are_played_again_and_seeds_are_kept(tmp_path: Path) -> None:
    written = {**config({"Ladder": 2}), "agent_proxy": {"max_turn": 2}}  # no seed: one is drawn
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    (tmp_path / "moody.py").write_text(
        "import os\n"
        "class Moody:\n"
        "    async def answer(self, turn):\n"
        "        if turn.env_id == 1 and not os.path.exists('calm'):\n"
        "            raise ConnectionError('nobody there')\n"
        "        return '<think></think><answer>Up</answer>'\n"
    )
    words = ("rollout", "config.yaml", "--policy", "moody.py:Moody", "--json")
    first = json.loads(run(*words, "--out", "a", cwd=tmp_path, code=3).stdout)
    assert first["tags"]["Ladder"]["failures"] == 1
    (tmp_path / "calm").touch()
    again = json.loads(run(*words, "--resume", "a", cwd=tmp_path).stdout)
    assert again["tags"]["Ladder"]["failures"] == 0
    assert again["trajectories"] == 4
    seeds = {record["env_id"]: record["seed"] for record in lines(tmp_path / "a")}
    assert seeds[0] == seeds[1] == seeds[2] - 1


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGTERM of a background job"])
def test_an_interrupt_keeps_what_is_done(file: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "slow.py").write_text(
        "import asyncio, os\n"
        "class Slow:\n"
        "    async def answer(self, turn):\n"
        "        await asyncio.sleep(60 if turn.env_id > 3 and not os.path.exists('calm') else 0)\n"
        "        return '<think></think><answer>Up</answer>'\n"
    )
    words = ["rollout", str(file), "--policy", "slow.py:Slow", "--max-turns", "1"]
    command = [sys.executable, "-m", "paceline", *words, "--out", "a"]
    if "background" in how:  # as a shell without job control starts it: deaf to Ctrl-C
        command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command]
    started = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    path = tmp_path / "a" / "trajectories.jsonl"
    until_child(started, lambda: path.exists() and path.read_text().count("\n") == 4)
    started.send_signal(signal.Signals[how.partition(" ")[0]])
    out, err = until_over(started)
    assert started.returncode == 130
    assert b"--resume a" in err
    assert b"interrupted: 4 of 8 trajectories played in" in out
    assert b"0.0 s with the policy" not in out  # that is not known
    assert b"Traceback" not in err
    assert json.loads((tmp_path / "a" / "report.json").read_text())["interrupted"] is True
    (tmp_path / "calm").touch()
    told = json.loads(run(*words, "--resume", "a", "--json", cwd=tmp_path).stdout)
    assert (told["interrupted"], told["trajectories"]) == (False, 8)
    assert len(lines(tmp_path / "a")) == 8  # what was done was not done again


def test_an_interrupt_tells_of_all_answers_those_in_unfinished_trajectories_too(tmp_path: Path) -> None:
    written = {**config({"Ladder": 1}, options={"goal": 99}, base=5), "agent_proxy": {"max_turn": 3}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    (tmp_path / "slow.py").write_text(
        "import asyncio\n"
        "from paceline.types import Reply\n"
        "async def answer(turn):\n"
        "    if (turn.env_id, turn.number) == (1, 2):\n"
        "        open('begun', 'w').close()\n"
        "        await asyncio.sleep(60)\n"
        "    return Reply('<think></think><answer>Up</answer>', prompt_tokens=3, completion_tokens=2, retries=1)\n"
    )
    words = ["rollout", "config.yaml", "--policy", "slow.py:answer", "--out", "a"]
    started = subprocess.Popen(
        [sys.executable, "-m", "paceline", *words], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    until_child(started, lambda: (tmp_path / "begun").exists() and len(lines(tmp_path / "a")) == 1)
    started.send_signal(signal.SIGINT)
    told, _ = until_over(started)
    assert "interrupted: 1 of 2 trajectories played in" in told
    assert "5 answers (2 in unfinished trajectories, 5 asked again" in told
    assert "15 + 10 tokens" in told


def test_a_model_behind_an_endpoint_plays(file: Path, tmp_path: Path) -> None:
    with LlmServer(api_key=None) as server:
        words = ("rollout", str(file), "--base-url", server.url, "--model", "test-model", "--json", "--out", "a")
        told = json.loads(run(*words, cwd=tmp_path).stdout)
    assert told["tokens"]["requests"] == server.traffic.requests > 8
    assert told["tokens"]["completion_tokens"] > 0


def test_what_failed_is_not_told_as_played(file: Path, tmp_path: Path) -> None:
    faults = replace(CALM, rate_429=1.0, retry_after=0.0, worst=99)
    with LlmServer(api_key=None, faults=faults) as server:
        words = ("rollout", str(file), "--base-url", server.url, "--model", "test-model", "--out", "a")
        told = run(*words, cwd=tmp_path, code=3).stdout
    assert "0 of 8 trajectories played, 8 failed in" in told
    assert "0 answers (40 asked again, 0 cut off, 0 without a valid action), 8 questions without an answer" in told
    assert server.traffic.requests == 48
    assert {record["usage"]["retries"] for record in lines(tmp_path / "a")} == {5}


def test_how_a_model_is_sampled_is_part_of_the_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "ROLLOUT_KEY", "a-secret")
    with LlmServer(api_key="a-secret") as server:
        words = ("rollout", str(file), "--base-url", server.url, "--model", "test-model", "--json")
        key = ("--api-key-env", "ROLLOUT_KEY")
        first, second = (
            json.loads(run(*words, *key, "--top-p", top_p, "--out", top_p, cwd=tmp_path).stdout)
            for top_p in ("0.9", "0.5")
        )
        assert first["digest"] != second["digest"]
        assert first["identity"]["policy"] == {
            "model": "test-model",
            "temperature": 1.0,
            "top_p": 0.9,
            "max_tokens": 400,
        }
        refused = run(*words, *key, "--top-p", "0.5", "--resume", "0.9", cwd=tmp_path, code=2).stderr
        assert "there policy.top_p is 0.9, and here 0.5; ask for the same again, or begin afresh" in refused
        asked = server.traffic.requests
        again = json.loads(run(*words, *key, "--top-p", "0.9", "--resume", "0.9", cwd=tmp_path).stdout)
        assert (again["digest"], server.traffic.requests) == (first["digest"], asked)
        leaked = run(*words, "--api-key-env", "a-secret", cwd=tmp_path, code=2).stderr
    assert "never the key" in leaked
    assert "a-secret" not in leaked
    for path in (tmp_path / "0.9").iterdir():
        assert "a-secret" not in path.read_text()


def test_a_policy_is_built_with_what_is_written(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Says:\n"
        "    def __init__(self, word, times=1):\n"
        "        self.said = ' || '.join([word] * times)\n"
        "    async def answer(self, turn):\n"
        "        return f'<think></think><answer>{self.said}</answer>'\n"
        "async def says(turn, word='Up'):\n"
        "    return f'<think></think><answer>{word}</answer>'\n"
    )
    words = ("rollout", str(file), "--max-turns", "1", "--policy")
    policies = ["mine.py:Says,kw.word=Down,kw.times=2", "mine.py:says,kw.word=Down", "random,kw.actions=1"]
    for number, policy in enumerate(policies):
        run(*words, policy, "--out", str(number), cwd=tmp_path)
        said = {record["history"][0]["llm_raw_response"] for record in lines(tmp_path / str(number))}
        assert {text.count("||") for text in said} == {int(number == 0)}
        assert number == 2 or all("Down" in text for text in said)
    assert "mine.py:says" in run(*words, "random", "--resume", "1", cwd=tmp_path, code=2).stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--policy", "nobody"), "policy 'nobody' is not known"),
        (("--policy", "config.py"), "config.py is a file: say which policy in it, as config.py:policy"),
        (("--policy", ":Class"), "':Class' is only half of a name"),
        (("--policy", "text_worlds:"), "'text_worlds:' is only half of a name"),
        (("--policy", "os:getcwd"), "a function is called with a turn"),
        (("--policy", "bfs"), "policy bfs has no solver for Ladder: there are solvers for env_type sokoban, "),
        ((), "say who plays"),
        (("--policy", "random", "--model", "m"), "not both"),
        (("--policy", "random", "--base-url", "http://x"), "--base-url belongs to --model"),
        (("--policy", "random", "--temperature", "0"), "--temperature belongs to --model"),
        (("--model", "m", "--base-url", ""), "base_url is empty"),
        (("--model", "m", "--base-url", "http://x/v1", "--top-p", "1.5"), "--top-p 1.5: give a share"),
        (("--model", "m", "--base-url", "http://x/v1", "--max-tokens", "0"), "--max-tokens"),
        (("--model", "m", "--base-url", "http://x/v1", "--api-key-env", "NOBODY_HAS_SET_THIS"), "is not set"),
        (("--policy", "random", "--mode", "test"), "mode='test'"),
        (("--policy", "random", "--resume", "nowhere"), "there is no run in it"),
        (("--policy", "random", "--plan", "nowhere"), "nowhere"),
        (("--policy", "random", "--plan", "inline", "-j", "3"), "--jobs 3 wants workers, and --plan inline has none"),
        (("--policy", "random", "--plan", "thread", "-j", "0"), "--jobs 0 plays here, and --plan thread does not"),
        (("--policy", "random", "--quorum", "2"), "quorum=2"),
        (
            ("--policy", "random", "--deadline", "1e999"),
            "deadline=inf; give a finite number of seconds above 0",
        ),
    ],
)
def test_mistakes_are_told_in_words(file: Path, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    assert told in run("rollout", str(file), *words, cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "runs").exists()


def test_a_configuration_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    assert "cannot be read" in run("rollout", "nothing.yaml", "--policy", "random", cwd=tmp_path, code=2).stderr


def test_tags_are_shown_as_they_are(tmp_path: Path) -> None:
    written = config({"Bandit": 3}, group_size=1, base=5)
    tags = ["[/x]", "a[x]", ":dog:"]
    written["es_manager"]["train"]["env_configs"] = {"tags": tags, "n_groups": [1, 1, 1]}
    written["custom_envs"] = {tag: {"env_type": "bandit"} for tag in tags}
    del written["es_manager"]["val"]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    done = run("rollout", "config.yaml", "--policy", "random", cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:4]] == tags


def test_failures_are_an_exit_code_of_their_own(tmp_path: Path) -> None:
    written = config({"Ladder": 1, "Told": 1}, options={"no_reset": True}, base=5)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    done = run("rollout", "config.yaml", "--policy", "random", "--out", "a", cwd=tmp_path, code=3)
    assert "cannot be reset" in done.stderr
    assert sum(record["failure"] is not None for record in lines(tmp_path / "a")) == 2
    run("rollout", "--resume", "a", cwd=tmp_path, code=3)  # those that failed are tried again, and no others
    assert [record["env_id"] for record in lines(tmp_path / "a")[4:]] == [2, 3]


def test_a_trajectory_that_takes_too_long_fails(tmp_path: Path) -> None:
    written = config({"Told": 1}, options={"slow": 9.0}, group_size=1, base=5, trajectory_timeout=0.2)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(written))
    done = run("rollout", "config.yaml", "--policy", "random", "--out", "a", "-j", "1", cwd=tmp_path, code=3)
    assert "ended in TrajectoryTimeout: its environment was ended" in done.stderr
    assert {record["failure"]["kind"] for record in lines(tmp_path / "a")} == {"TrajectoryTimeout"}


def test_a_person_plays(tmp_path: Path) -> None:
    done = run("play", "sokoban,num_boxes=1", "--seed", "3", cwd=tmp_path, stdin="up\nw\nfly\nl\nq\n")
    assert done.stdout.count("######") > 4
    assert "'fly' is no action" in done.stdout
    assert "not solved after 3 actions" in done.stdout
    assert "did you mean sokoban" in run("play", "sokobann", cwd=tmp_path, code=2).stderr
    assert "boxes" in run("play", "sokoban,boxes=1", cwd=tmp_path, code=2).stderr


@pytest.mark.parametrize("prefix", ["", "text:"])
def test_a_person_plays_whatever_groups_play(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "mine.py").write_text(
        "class Config:\n"
        "    action_lookup = {1: 'Ring', 2: 'Knock'}  # where upstream has it\n"
        "class Door:\n"
        "    config = Config()\n"
        "    def __init__(self, config):\n"
        "        self.opens = config['opens']\n"
        "    def reset(self, seed):  # no mode\n"
        "        pass\n"
        "    def step(self, action):\n"
        "        return '', 1.0, action == self.opens, {'success': action == self.opens}\n"
        "    def render(self):\n"
        "        return 'a door'\n"
        "class Wall(Door):\n"
        "    render = None\n"
    )
    done = run("play", f"{prefix}mine.py:Door,opens=2", cwd=tmp_path, stdin="r\nknock\n")
    assert "solved after 2 actions, reward 2" in done.stdout
    assert "Wall has no render()" in run("play", f"{prefix}mine.py:Wall,opens=2", cwd=tmp_path, code=2).stderr


def read(process: subprocess.Popen[bytes], terminal: int, shown: bytes) -> bytes:
    until_readable(process, terminal, shown)
    return os.read(terminal, 4096)


def typed(*words: str, keys: str, cwd: Path) -> str:
    """What a terminal shows when somebody presses keys, as soon as there is somebody who reads them."""
    ours, theirs = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "paceline", *words], cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=ENVIRONMENT
    )
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal says that nobody is there any more
        while more := read(started, ours, shown):
            if b"q ends" not in shown and b"q ends" in shown + more:
                os.write(ours, keys.encode())
            shown += more
    os.close(ours)
    assert started.wait(LONGEST) == 0
    return shown.decode()


def test_a_terminal_says_which_keys_there_are_and_takes_each_at_once(tmp_path: Path) -> None:
    shown = typed("play", "sokoban,num_boxes=1", "--seed", "3", keys="\x1b[A\nd x\rDq", cwd=tmp_path)
    assert "keys: arrow keys or w a s d; q ends" in shown
    assert "actions:" not in shown  # words are for those who can write them
    assert shown.count("is no action") == 1
    assert "'x' is no action" in shown
    assert "not solved after 3 actions" in shown
    piped = run("play", "sokoban,num_boxes=1", "--seed", "3", cwd=tmp_path, stdin="up\nright\nd\nq\n").stdout
    rooms = [[line.strip() for line in told.splitlines() if line.strip().startswith("#")] for told in (shown, piped)]
    assert rooms[0] == rooms[1]  # d is right, not down


def test_actions_that_are_no_directions_have_keys_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Room:\n"
        "    action_lookup = {1: 'Left', 2: 'Right', 3: 'Duck', 4: 'Jump', 5: 'Stand', 6: 'Sit', 7: 'Quack'}\n"
        "    def __init__(self, config): pass\n"
        "    def reset(self, seed): self.done = []\n"
        "    def step(self, action):\n"
        "        self.done.append(action)\n"
        "        return '', 1.0, False, {}\n"
        "    def render(self): return f'{self.done}'\n"
    )
    shown = typed("play", "mine.py:Room", keys="adj1345q", cwd=tmp_path)
    assert "keys: arrow keys or a d, 1: Duck, j: Jump, 3: Stand, 4: Sit, 5: Quack; q ends" in shown
    assert "[1, 2, 4, 3, 5, 6, 7]" in shown


def test_a_table_fits_into_eighty_columns(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", "80")
    monkeypatch.setitem(ENVIRONMENT, "NO_COLOR", "1")
    monkeypatch.setitem(ENVIRONMENT, "TERM", "dumb")
    shown = typed("rollout", str(file), "--policy", "random", keys="", cwd=tmp_path).splitlines()
    head = next(number for number, line in enumerate(shown) if line.startswith("tag "))
    assert shown[head].split() == ["tag", "traj", "success", "pass@2", "return", "penalty", "actions", "turns"]
    assert max(len(line) for line in shown[head : head + 4]) <= 80
