"""Backends are found by name, from this package and from others."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest
from waits import LONGEST

import paceline
from paceline import Pool, Trace
from paceline.engine import backend as backends


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
    from paceline.engine import wire

    return wire.pack(value)


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(paceline.BadInput, match="inline, thread, process, ray"):
        backends.find("cloud")


def test_what_a_server_preloads_is_not_on_its_command_line() -> None:
    """With torch there are thousands of names: a list of processes would be full of them, and there is a limit."""
    with Pool([os.getppid], backend="process") as pool:
        server = psutil.Process(pool.call("__int__")[0])
        assert len(" ".join(server.cmdline())) < 1000


def test_another_package_adds_a_backend(tmp_path: Path) -> None:
    """A real distribution on sys.path, with an entry point: found by name, used like any other."""
    (tmp_path / "elsewhere.py").write_text(
        textwrap.dedent("""
        from paceline.engine.inline import InlineBackend
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
from paceline.engine import backend
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
