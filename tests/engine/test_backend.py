"""Backends are found by name, from this package and from others."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import psutil
import pytest
from waits import LONGEST

import paceline
from paceline import Pool, Trace
from paceline.engine.workers import base as backends


def test_every_built_in_backend_keeps_the_contract(backend: str) -> None:
    found = backends.find(backend)
    assert found.name == backend
    [worker] = found.start([3], backends.Settings())
    for name in ("number", "backend", "pid", "in_process", "shares_memory", "can_kill", "rings"):
        assert hasattr(worker, name)
    assert (worker.number, worker.backend) == (3, backend)
    worker.send(("define", 1, paceline.digest if worker.in_process else backends_pack(paceline.digest)))
    while (reply := worker.receive()) is None:
        assert found.wait([worker], LONGEST)
    assert reply[0] == "reply"
    worker.say_goodbye()
    worker.close(5.0)


def backends_pack(value: object) -> object:
    from paceline.engine.transport import codec

    return codec.pack(value)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(paceline.BadInput, match="inline, thread, process, ray"):
        backends.find("cloud")


def test_what_a_server_preloads_is_not_on_its_command_line() -> None:
    """With torch there are thousands of names: a list of processes would be full of them, and there is a limit."""
    with Pool([os.getppid], backend="process") as pool:
        server = psutil.Process(pool.call("__int__")[0])
        assert len(" ".join(server.cmdline())) < 1000


class Net:
    """Says on how many threads torch computes, wherever a member's code is run."""

    def __init__(self) -> None:
        import torch

        self.count = torch.get_num_threads
        self.seen = [self.count()]
        self.numbers = torch.arange(300_000, dtype=torch.float32) / 7

    def look(self, fails: bool = False) -> list[float]:
        self.seen.append(self.count())
        if fails:
            raise ValueError("not now")
        return [*self.seen, float(self.numbers.mean())]

    def row(self, out: np.ndarray) -> object:
        out[:] = self.count(), float(self.numbers.mean())
        return None

    def close(self) -> None:
        assert self.count() == 1


@pytest.mark.parametrize("backend", ["inline", "thread", "process"])
def test_members_compute_on_one_thread_of_torch_and_the_caller_on_its_own(backend: str) -> None:
    import torch

    def counted(number: int) -> int:
        return int(torch.get_num_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with Pool([Net] * 2, backend=backend, workers=2) as pool:
            assert torch.get_num_threads() == 3
            with pytest.raises(ValueError, match="not now"):
                pool.call("look", {0: (True,), 1: (False,)})
            assert torch.get_num_threads() == 3
            [*seen, mean] = pool.call("look")[0]
            assert seen == [1, 1, 1]
            assert pool.map(counted, range(3)) == [1, 1, 1]
            port = pool.port("row", {}, {"out": ((2,), "f8")})
            for _ in range(5):
                port.round()
                assert port.outputs["out"].tolist() == [[1.0, mean]] * 2
            port.post()
            assert torch.get_num_threads() == 3
            port.wait()
            assert port.outputs["out"].tolist() == [[1.0, mean]] * 2
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_a_member_that_imports_torch_computes_on_one_thread_from_then_on(backend: str) -> None:
    """And the caller on as many as torch begins with; without such a member torch is not imported."""
    code = """
import sys, threading
from paceline import Pool

class Net:
    def __init__(self):
        import torch
        self.seen = [torch.get_num_threads()]
    def look(self):
        import torch
        return [*self.seen, torch.get_num_threads()]

with Pool([dict], backend=sys.argv[1]) as pool:
    pool.call("copy")
print("torch" in sys.modules)
with Pool([Net], backend=sys.argv[1]) as pool:
    print(pool.call("look")[0])
import torch
found = [torch.get_num_threads()]
other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
other.start(); other.join()
print(found)
"""
    environ = {**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ)
    some = min(2, len(os.sched_getaffinity(0)))
    assert done.stdout == f"False\n[1, 1]\n{[some, some]}\n", done.stderr


def test_another_package_adds_a_backend(tmp_path: Path) -> None:
    """A real distribution on sys.path, with an entry point: found by name, used like any other."""
    (tmp_path / "elsewhere.py").write_text(
        textwrap.dedent("""
        from paceline.engine.workers.inline import InlineBackend
        class Elsewhere(InlineBackend):
            name = "elsewhere"
        """)
    )
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[paceline.backends]\nelsewhere = elsewhere:Elsewhere\n")
    code = """
import sys; sys.path.insert(0, sys.argv[1])
from paceline import Pool
from paceline.engine.workers import base as backend
print(backend.names())
with Pool([dict, list], backend="elsewhere", workers=2) as pool:
    print(pool.call("copy"))
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['inline', 'thread', 'process', 'ray', 'elsewhere']\n{0: {}, 1: []}\n", done.stderr


def test_a_trace_shows_calls_waits_and_rebuilds(killable: str, tmp_path: Path) -> None:
    import json

    from members import Fault

    trace = Trace()
    with Pool([Fault] * 2, backend=killable, workers=2, trace=trace) as pool:
        for _ in range(3):
            pool.call("add", {0: (1,), 1: (1,)})
        os.kill(pool.workers[0].pid, 9)
        pool.call("add", {0: (1,), 1: (1,)})
        pool.map(abs, range(3))
        pids = {worker.pid for worker in pool.workers}
    trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kinds = {event["cat"] for event in events if event["ph"] == "X"}
    assert {"call", "wait", "rebuild", "build", "start", "map"} <= kinds
    assert any(event["ph"] == "X" and "add" in event["name"] and event["args"].get("member") == 1 for event in events)
    assert any(str(pid) in json.dumps(events) for pid in pids)
    assert "Busy share" in trace.summary()
