"""What is particular to Ray: its deaths, its nodes, who may speak to it, and how a cluster of ours comes and goes.

What every backend promises is tested in `test_pool.py` and `test_port.py`, on Ray too.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from members import Fault, LateDrawer, TwoArguments, Walker
from waits import LONGEST, until, until_over

import paceline
from paceline import Pool
from paceline.engine.planning import budget
from paceline.engine.port.answers import Answers
from paceline.engine.workers.process.fork_client import environment
from paceline.engine.workers.ray import handle as backend

TESTS = str(Path(__file__).parents[1])
WALK = ({"move": ((), np.float64)}, {"place": ((4,), np.float64), "total": ((), np.float64)})


class Patient(Walker):
    """Says that a step has begun, and ends it when it may."""

    def step_when_told(self, move: float, folder: str) -> tuple[np.ndarray, float]:
        Path(folder, str(os.getpid())).touch()
        while not Path(folder, "go").exists():
            time.sleep(0.01)
        return self.step(move)


class Doubles:
    """Has as many rows as it is told."""

    def step_row(self, a: np.ndarray, o: np.ndarray) -> None:
        o[...] = 2 * a


class Witness(Fault):
    """Tells what its process is like, and what becomes of arrays."""

    def doubled(self, array: np.ndarray) -> np.ndarray:
        array *= 2  # its own to change
        return array

    def log(self, text: str) -> None:
        logging.getLogger("elsewhere").warning("%s is said", text, extra={"lock": threading.Lock()})

    def surroundings(self) -> dict[str, Any]:
        import torch

        return {
            "environment": {name: os.environ.get(name) for name in (*environment(), "PACELINE_TEST")},
            "path": sys.path,
            "folder": os.getcwd(),
            "hash": hash("paceline"),
            "threads": torch.get_num_threads(),
            "niceness": os.nice(0),
            "budget": budget.current(),
            "level": logging.getLogger().level,
            "interrupts": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        }


@pytest.fixture(scope="module")
def pool(ray_cluster: str) -> Iterator[Pool]:
    """Four members on two workers; whatever was done to them, they are there for the next test."""
    with Pool([partial(Witness, n) for n in range(4)], backend="ray", workers=2, restarts=2) as pool:
        yield pool


@pytest.fixture
def folder() -> Iterator[str]:
    """A folder with a short name: Ray puts sockets into it."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


def killed_and_waited_for(pid: int) -> None:
    process = psutil.Process(pid)
    process.kill()
    process.wait(LONGEST)


# -- deaths ------------------------------------------------------------------------------------------------------------


def test_killed_when_idle_and_in_a_call(ray_cluster: str, tmp_path: Path) -> None:
    factories = [partial(Patient, n) for n in range(2)]
    with Pool(factories) as plain, Pool(factories, backend="ray") as pool:

        def step(move: float) -> None:
            calls = {n: (move + n,) for n in range(2)}
            assert paceline.digest(pool.call("step", calls)) == paceline.digest(plain.call("step", calls))

        step(1.0)
        killed_and_waited_for(pool.workers[0].pid)
        step(2.0)
        handle = pool.post("step_when_told", {1: (3.0, str(tmp_path))})
        until(lambda: (tmp_path / str(pool.workers[0].pid)).exists())
        killed_and_waited_for(pool.workers[0].pid)
        (tmp_path / "go").touch()
        assert paceline.digest(handle.wait()) == paceline.digest(plain.call("step", {1: (3.0,)}))
        step(4.0)
        lost = [event.text for event in pool.events if event.kind == "lost"]
        assert len(lost) == 2
        assert all("SYSTEM_ERROR" in text for text in lost)
        assert "step_when_told()" in lost[1]


def test_a_poison_call_is_named_and_the_others_live_on(pool: Pool) -> None:
    before = pool.call("add", dict.fromkeys(range(4), (10,)))
    outcomes = pool.call("do", {0: ("fine",), 1: ("segfault",), 2: ("fine",)}, outcomes=True)
    assert [outcome.ok for outcome in outcomes.values()] == [True, False, True]
    error = outcomes[1].error
    assert isinstance(error, paceline.WorkerLost)
    assert not isinstance(error, paceline.CallTimeout)
    for words in ("member 1 (key 1)", "do()", "worker 0 (ray, pid", "died (SYSTEM_ERROR", "string_at"):
        assert words in str(error)  # the last: the stack that faulthandler wrote in dying
    assert pool.call("add", dict.fromkeys(range(4), (1,))) == {n: value + 1 for n, value in before.items()}


def test_an_endless_call_is_ended_at_its_deadline(pool: Pool) -> None:
    before = pool.call("add", dict.fromkeys(range(4), (10,)))
    outcomes = pool.call("do", {0: ("fine",), 3: ("spin_in_c",)}, outcomes=True, deadline=0.4)
    assert outcomes[0].ok
    assert isinstance(outcomes[3].error, paceline.CallTimeout)
    assert "member 3" in str(outcomes[3].error)
    assert pool.call("add", dict.fromkeys(range(4), (1,))) == {n: value + 1 for n, value in before.items()}


def test_a_stopped_process_is_not_left_behind(pool: Pool) -> None:
    """It does not hear that Ray asks it to exit."""
    before, pid = pool.call("add", {2: (1,)}), pool.workers[1].pid
    os.kill(pid, signal.SIGSTOP)
    assert pool.call("add", {2: (0,)}, deadline=1.0) == before
    assert not psutil.pid_exists(pid)


# -- what travels ------------------------------------------------------------------------------------------------------


def test_exceptions_come_as_themselves(pool: Pool) -> None:
    with pytest.raises(TwoArguments, match="broken #42") as caught:
        pool.call("do", {2: ("two_arguments",), 3: ("two_arguments",)})
    assert caught.value.number == 42
    assert "members.py" in str(caught.value.__cause__)
    assert any("member 2" in note and "(ray, pid" in note for note in caught.value.__notes__)
    assert any("also member 3" in note for note in caught.value.__notes__)


def test_large_arrays_are_everybodys_own(pool: Pool) -> None:
    sent = np.asfortranarray(np.arange(1 << 20, dtype=np.float64).reshape(1024, 1024))
    answers = pool.call("doubled", {0: (sent,), 3: (sent,)})
    for answer in answers.values():
        assert answer.flags.writeable
        assert np.array_equal(answer, 2 * sent)
        answer += 1
    assert sent[0, 1] == 1.0


def test_a_port_is_the_same_as_inline_also_when_killed_in_the_middle(ray_cluster: str) -> None:
    def walk(pool: Pool, kill_at: int) -> list[np.ndarray]:
        port, seen = pool.port("step_row", *WALK), []
        for turn in range(8):
            port.inputs["move"][:] = np.arange(3) + turn
            port.post([0, 2] if turn == 5 else None)
            if turn == kill_at:
                os.kill(pool.workers[0].pid, signal.SIGKILL)
            port.wait()
            seen += [port.outputs["place"].copy(), port.outputs["total"].copy()]
        return seen

    factories = [partial(Walker, n) for n in range(3)]
    with Pool(factories) as plain, Pool(factories, backend="ray") as pool:
        assert paceline.digest(walk(pool, 3)) == paceline.digest(walk(plain, -1))
        assert [event.kind for event in pool.events] == ["lost"]


def test_a_row_that_turns_out_to_draw_and_is_killed_when_it_is_rebuilt(ray_cluster: str, tmp_path: Path) -> None:
    """What came back with the draw counts for nothing: the row has to be run again by whoever comes next."""

    class Doomed(LateDrawer):
        def __init__(self, after: int) -> None:
            super().__init__(after)
            built = len(list(tmp_path.iterdir()))
            if os.getpid() != main:
                (tmp_path / str(built)).touch()
                if built == 1:
                    os.kill(os.getpid(), signal.SIGKILL)

    def job(pool: Pool) -> list[float]:
        port, seen = pool.port("step_row", {"move": ((), np.float64)}, {"total": ((), np.float64)}), []
        for turn in range(4):
            port.inputs["move"][:] = turn
            port.post()
            port.wait()
            seen.append(float(port.outputs["total"][0]))
        return seen

    main = os.getpid()
    with Pool([partial(Doomed, 2)]) as plain, Pool([partial(Doomed, 2)], backend="ray") as pool:
        assert job(pool) == job(plain)
        assert [event.kind for event in pool.events] == ["isolated", "lost"]


def test_log_records_arrive_with_worker_and_member(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    pool.call("log", {1: ("one",), 2: ("two",)})
    assert {record.getMessage() for record in caplog.records if record.name == "elsewhere"} == {
        f"[worker 0 pid {pool.workers[0].pid} member 1] one is said",
        f"[worker 1 pid {pool.workers[1].pid} member 2] two is said",
    }


def test_more_workers_than_cpus_each_settled_like_a_process(ray_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_TEST", "set after the cluster was started")
    with (
        Pool([Witness] * 3, backend="process", workers=3) as processes,
        Pool([Witness] * 3, backend="ray", workers=3) as actors,
    ):
        assert actors.call("surroundings", {2: ()}) == processes.call("surroundings", {2: ()})
        pids = set(actors.call("pid").values())
        assert len(pids) == 3
    assert not any(psutil.pid_exists(pid) for pid in pids)


# -- the cluster -------------------------------------------------------------------------------------------------------


def test_workers_that_do_not_come_up_are_an_error_and_none_stays(
    ray_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_UP_WITHIN", 0.001)
    with pytest.raises(paceline.PlanNotMet, match="2 of 2 Ray workers did not come up"):
        Pool([Fault, Fault], backend="ray", workers=2)
    assert not [worker for worker in backend._living if not worker.pid]


def test_a_ray_that_knows_no_tokens_is_too_old(ray_cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "__version__", "2.58.1")
    with pytest.raises(paceline.PlanNotMet, match=r"ray 2\.58\.1 is too old: pip install 'ray>=2\.59'"):
        Pool([Fault], backend="ray")


def started(script: str, **environment: str) -> subprocess.Popen[str]:
    """Starts a script in a Python of its own, without the session's Ray."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**own, "PYTHONPATH": TESTS, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    """Waits for a script's end. Gives what it printed."""
    output, errors = until_over(process)
    assert process.returncode == 0, errors
    return output


def test_without_ray_the_extra_is_named() -> None:
    script = """
        import sys
        from importlib.machinery import PathFinder

        class WithoutRay(PathFinder):
            @classmethod
            def find_spec(cls, name, *rest):
                return None if name == "ray" else super().find_spec(name, *rest)

        sys.meta_path[:] = [WithoutRay if finder is PathFinder else finder for finder in sys.meta_path]
        import paceline
        try:
            paceline.Pool([dict], backend="ray")
        except paceline.PlanNotMet as error:
            print(error)
    """
    assert "pip install 'paceline[ray]'" in ended(started(script))


def test_whoever_has_no_token_is_turned_away(ray_cluster: str) -> None:
    script = f"""
        import logging, ray
        try:
            ray.init(address="{ray_cluster}", logging_level=logging.ERROR, log_to_driver=False)
            print("in")
        except ConnectionError:
            print("out")
    """
    # On this machine only, and without Ray's twenty tries.
    common = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_NUM_REDIS_GET_RETRIES": "1"}
    clients = {
        "friend": started(script, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=os.environ["RAY_AUTH_TOKEN"], **common),
        "stranger": started(script, RAY_AUTH_MODE="disabled", **common),
        "impostor": started(script, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64, **common),
    }
    doors = {name: ended(process).strip() for name, process in clients.items()}
    assert doors == {"friend": "in", "stranger": "out", "impostor": "out"}


def test_ray_without_authentication_is_refused_unless_one_insists(folder: str) -> None:
    script = """
        import logging, os
        import paceline, ray

        def attempt():
            try:
                with paceline.Pool([str], backend="ray") as pool:
                    print(pool.call("upper"))
            except paceline.PlanNotMet as error:
                print(error)

        attempt()
        assert not ray.is_initialized()
        ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level=logging.ERROR, _temp_dir="FOLDER")
        attempt()
        os.environ["PACELINE_RAY_INSECURE"] = "1"
        attempt()
        ray.shutdown()
    """
    lines = ended(
        started(
            script.replace("FOLDER", folder),
            RAY_AUTH_MODE="disabled",
            RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
        )
    ).splitlines()
    assert len(lines) == 3
    assert all("PACELINE_RAY_INSECURE=1" in line and "without authentication" in line for line in lines[:2])
    assert lines[2] == "{0: ''}"


def test_a_cluster_of_ours_is_private_and_ends_with_us(tmp_path: Path) -> None:
    script = """
        import json, os, psutil, ray
        from functools import partial
        from members import Walker
        from paceline import Pool, digest
        from paceline.engine.workers.ray import cluster

        factories = [partial(Walker, n) for n in range(2)]
        with Pool(factories) as plain:
            expected = [digest(plain.call("step", {0: (1.0,), 1: (2.0,)})) for _ in range(4)]
        pool = Pool(factories, backend="ray")
        found = [digest(pool.call("step", {0: (1.0,), 1: (2.0,)})) for _ in range(2)]
        family = psutil.Process().children(recursive=True)
        ports = [c for p in family for c in p.net_connections("tcp") if c.status == "LISTEN"]
        first = cluster._directory
        ray.shutdown()
        found += [digest(pool.call("step", {0: (1.0,), 1: (2.0,)})) for _ in range(2)]
        family += psutil.Process().children(recursive=True)
        print(json.dumps({
            "same": found == expected,
            "lost": [event.text for event in pool.events],
            "listening": sorted({port.laddr.ip.removeprefix("::ffff:") for port in ports}),
            "names": [p.name() for p in family if p.is_running()],
            "folders": [first, cluster._directory],
            "mode": os.stat(cluster._directory).st_mode,
            "pids": [p.pid for p in family],
        }))
    """
    # The token is made in this home; nobody closes the pool.
    told = json.loads(ended(started(script, HOME=str(tmp_path))))
    assert told["same"]
    assert ["went down with its Ray session" in text for text in told["lost"]] == [True]
    assert told["listening"] == ["127.0.0.1"]
    assert not any("ray::Dashboard" in name and "Agent" not in name for name in told["names"])
    assert stat.S_IMODE(told["mode"]) == 0o700
    assert stat.S_IMODE((tmp_path / ".ray" / "auth_token").stat().st_mode) == 0o600
    assert not any(Path(folder).exists() for folder in told["folders"])
    until(lambda: not any(psutil.pid_exists(pid) for pid in told["pids"]))


def test_a_node_that_dies_takes_no_answer_along(folder: str) -> None:
    """Two raylets on this machine stand for two machines; one of them is killed with all that it runs."""
    script = """
        import logging
        from functools import partial
        import ray
        from members import Walker
        from paceline import Pool, digest
        from ray.cluster_utils import Cluster

        class Resident(Walker):
            def node(self):
                return ray.get_runtime_context().get_node_id()

            def began_with_one_thread(self):  # which this cluster does not give its processes by itself
                return b"OPENBLAS_NUM_THREADS=1" in open("/proc/self/environ", "rb").read().split(b"\\0")

        quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500,
                 "health_check_failure_threshold": 2, "worker_niceness": 0, "prestart_worker_first_driver": False}
        common = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 << 20}
        nodes = Cluster(initialize_head=True, head_node_args={**common, "_system_config": quick})
        other = nodes.add_node(**common)
        ray.init(address=nodes.address, logging_level=logging.ERROR, log_to_driver=False)
        factories = [partial(Resident, n) for n in range(4)]
        with Pool(factories) as plain, Pool(factories, backend="ray", workers=2) as pool:
            def step(turn):
                calls = {n: (float(turn + n),) for n in range(4)}
                assert digest(pool.call("step", calls)) == digest(plain.call("step", calls))

            assert set(pool.call("node", record=False).values()) == {node["NodeID"] for node in ray.nodes()}
            assert set(pool.call("began_with_one_thread").values()) == {True}
            for turn in range(3):
                step(turn)
            nodes.remove_node(other, allow_graceful=False)
            while not pool.events:
                step(turn := turn + 1)
            assert set(pool.call("node", record=False).values()) == {ray.get_runtime_context().get_node_id()}
            step(turn + 1)
            print("and lost:", len(pool.events))
        ray.shutdown()
        nodes.shutdown()
    """
    token = {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
    process = started(script, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_TMPDIR=folder, **token)
    assert "and lost: 1" in ended(process)


def test_rows_travel_to_and_from_the_worker_of_their_member_only(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived: list[tuple[list[int], tuple[int, ...], int]] = []
    take, rows = Answers.take, [1, 2, 3, 1]

    def watched(self: Answers, slot: Any, request: Any, answer: Any) -> None:
        arrived.append((list(request.items), answer[0]["o"].shape, len(answer[1])))
        take(self, slot, request, answer)

    monkeypatch.setattr(Answers, "take", watched)
    with Pool([Doubles] * 4, backend="ray", workers=2) as pool:
        port = pool.port("step_row", {"a": ((3,), "f8")}, {"o": ((3,), "f8")}, rows=dict(enumerate(rows)))
        port.inputs["a"][:] = np.arange(21).reshape(7, 3)
        port.round()
        assert port.outputs["o"].tolist() == (2 * np.arange(21).reshape(7, 3)).tolist()
        port.inputs["a"][:] = 1
        port.post([2])
        port.wait()
        assert port.outputs["o"].sum(axis=1).tolist() == [6, 24, 42, 6, 6, 6, 114]
    assert [(sum(rows[item] for item in items), len(items)) for items, _, _ in arrived] == [
        (shape[0], states) for _, shape, states in arrived
    ]
    assert sorted(items for items, _, _ in arrived[:2]) == [[0, 1], [2, 3]]
    assert arrived[2:] == [([2], (3, 3), 1)]
