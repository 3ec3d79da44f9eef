"""Real faults, really done: killed, crashed, hung, too large, cut off. What is promised is what must come out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from interrupting import interrupted
from members import Clock, Fault, Walker, dying
from shm import named_memory
from waits import is_alive, until, until_readable

import paceline
from paceline import Pool
from paceline.engine.workers.process import fork_client
from paceline.engine.workers.process import handle as process

DEATHS = {"sigkill": "SIGKILL", "exit": "exit code 7", "segfault": "SIGSEGV", "abort": "SIGABRT"}
HANGS = ("spin", "spin_in_c", "sleep")


@pytest.mark.parametrize("how", DEATHS)
def test_a_poison_call_is_given_up_and_the_others_live_on(how: str) -> None:
    with Pool([partial(Fault, n) for n in range(4)], backend="process", workers=2) as pool:
        pool.call("add", dict.fromkeys(range(4), (10,)))
        outcomes = pool.call("do", {0: ("fine",), 1: (how,), 2: ("fine",), 3: ("fine",)}, outcomes=True)
        assert [outcome.ok for outcome in outcomes.values()] == [True, False, True, True]
        error = outcomes[1].error
        assert isinstance(error, paceline.WorkerLost)
        assert "member 1" in str(error)
        assert "do()" in str(error)
        assert DEATHS[how] in str(error)
        if how == "segfault":
            assert "string_at" in str(error)  # the stack that faulthandler wrote in dying
        assert pool.call("add", dict.fromkeys(range(4), (1,))) == {n: n + 11 for n in range(4)}


@pytest.mark.parametrize("how", HANGS)
def test_a_call_that_hangs_is_ended_at_its_deadline(how: str) -> None:
    with Pool([partial(Fault, n) for n in range(3)], backend="process", workers=2, restarts=2) as pool:
        pool.call("add", dict.fromkeys(range(3), (10,)))
        outcomes = pool.call("do", {0: (how,), 1: ("fine",), 2: ("fine",)}, outcomes=True, deadline=0.4)
        assert isinstance(outcomes[0].error, paceline.CallTimeout)
        assert isinstance(outcomes[0].error, TimeoutError)
        assert "within 0.4 s" in str(outcomes[0].error)
        assert "members.py" in str(outcomes[0].error)  # the stack that it was asked for before it was killed
        assert [outcomes[n].ok for n in (1, 2)] == [True, True]
        assert pool.call("add", dict.fromkeys(range(3), (1,))) == {n: n + 11 for n in range(3)}


class Sleeper:
    """Says something, and then hangs."""

    def sleep(self) -> None:
        print("good night")
        os.write(2, b"from a library in C\n")
        time.sleep(600)


def test_the_stack_of_a_hung_worker_is_in_the_error_and_not_on_the_screen(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level("DEBUG", logger="paceline"),
        Pool([Sleeper], backend="process", workers=1, restarts=2) as pool,
        pytest.raises(paceline.CallTimeout, match="in sleep") as caught,
    ):
        pool.call("sleep", deadline=0.4)
    assert "most recent call first" in str(caught.value)
    shown = capfd.readouterr().err
    assert shown.count("good night") == 2  # what it says itself is shown
    assert "from a library in C" in shown  # the second time it may be counted only
    assert "most recent call first" not in shown
    told = [record.levelname for record in caplog.records if "most recent call first" in record.getMessage()]
    assert len(told) >= 2  # for each try
    assert set(told) == {"DEBUG"}


class Deaf:
    def sleep(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        time.sleep(600)


def test_a_hung_worker_that_blocks_every_signal_is_not_asked_for_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not say it, however long main waited for that."""
    monkeypatch.setattr(process, "_LAST_WORDS", 600.0)
    with (
        Pool([Deaf], backend="process", workers=1, restarts=1) as pool,
        pytest.raises(paceline.CallTimeout, match="did not answer sleep") as caught,
    ):
        pool.call("sleep", deadline=0.2)
    assert "most recent call first" not in str(caught.value)


def test_a_deadline_is_per_member_not_per_message() -> None:
    def nap(_: int) -> int:
        time.sleep(0.15)
        return 1

    class Napper:
        def nap(self) -> int:
            return nap(0)

    with Pool([Napper] * 6, backend="process", workers=1, restarts=1) as pool:
        assert sum(pool.call("nap", deadline=0.6).values()) == 6


@pytest.mark.parametrize("how", ["sigkill", "exit", "segfault"])
def test_a_death_that_does_not_come_again_is_not_seen(how: str, tmp_path: Path) -> None:
    """The same answer as without the fault: the call is made again on a rebuilt member."""

    class Once(Walker):
        def step(self, move: float) -> tuple[np.ndarray, float]:
            marker = tmp_path / "died"
            if move == 3.0 and not marker.exists() and os.getpid() != main:
                marker.touch()
                Fault().do(how)
            return super().step(move)

    main = os.getpid()
    with (
        Pool([partial(Once, n) for n in range(3)], backend="process", workers=2) as pool,
        Pool([partial(Once, n) for n in range(3)]) as plain,
    ):
        for turn in range(6):
            calls = {n: (float(turn),) for n in range(3)}
            assert paceline.digest(pool.call("step", calls)) == paceline.digest(plain.call("step", calls))
        assert (tmp_path / "died").exists()


def test_a_constructor_that_kills_its_worker() -> None:
    with pytest.raises(paceline.WorkerLost, match="its constructor"):
        Pool([Fault, dying, Fault], backend="process", workers=1)
    with Pool([Fault, dying, Fault], backend="process", workers=1, failed_builds="keep") as pool:
        outcomes = pool.call("add", {n: (n,) for n in range(3)}, outcomes=True)
        assert [outcome.ok for outcome in outcomes.values()] == [True, False, True]
        assert isinstance(outcomes[1].error, paceline.WorkerLost)
        assert "exit code 9" in str(outcomes[1].error)


def test_killed_while_it_is_rebuilt(tmp_path: Path) -> None:
    """The replay itself is shot at; in the end the member is what it was."""

    class Slow(Walker):
        def __init__(self, start: int) -> None:
            super().__init__(start)
            built = len(list(tmp_path.iterdir()))
            (tmp_path / f"built-{built}-{os.getpid()}").touch()
            if built in (1, 2):
                os.kill(os.getpid(), signal.SIGKILL)

    with Pool([partial(Slow, 1)], backend="process", restarts=4) as pool, Pool([partial(Walker, 1)]) as plain:
        for turn in range(6):
            if turn == 3:
                os.kill(pool.workers[0].pid, signal.SIGKILL)
            calls = {0: (float(turn),)}
            assert paceline.digest(pool.call("step", calls)) == paceline.digest(plain.call("step", calls))
    assert len(list(tmp_path.iterdir())) == 4


def test_not_a_function_of_its_calls_is_found_every_time() -> None:
    for _ in range(20):
        with Pool([Clock], backend="process") as pool:
            pool.call("step", {0: (1.0,)})
            os.kill(pool.workers[0].pid, signal.SIGKILL)
            with pytest.raises(paceline.ReplayDiverged, match="paceline doctor"):
                pool.call("step", {0: (1.0,)})


def test_fifty_megabytes_and_the_limit() -> None:
    with Pool([Fault], backend="process") as pool:
        assert pool.call("megabytes", {0: (50,)})[0].nbytes == 50 << 20
        with pytest.raises(paceline.TooLarge, match="limit of 268,435,456;"):
            pool.call("megabytes", {0: (300,)})
        assert pool.call("add", {0: (1,)}) == {0: 1}


def test_three_hundred_members_on_two_workers() -> None:
    with Pool([partial(Fault, n) for n in range(300)], backend="process", workers=2) as pool:
        assert pool.call("add", dict.fromkeys(range(300), (1,))) == {n: n + 1 for n in range(300)}
        os.kill(pool.workers[1].pid, signal.SIGKILL)
        assert pool.call("add", dict.fromkeys(range(300), (1,))) == {n: n + 2 for n in range(300)}


def test_many_workers_start_and_end() -> None:
    with Pool([partial(Fault, n) for n in range(100)], backend="process", workers=100) as pool:
        pids = set(pool.call("pid").values())
        assert len(pids) == 100
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_map_items_that_kill_are_told_from_the_others() -> None:
    def work(number: int) -> int:
        if number == 13:
            os._exit(5)
        return number

    with Pool([], backend="process", workers=2) as pool:
        outcomes = pool.map(work, range(40), outcomes=True)
        assert [n for n, outcome in enumerate(outcomes) if not outcome.ok] == [13]
        assert "item 13" in str(outcomes[13].error)
        assert [outcome.answer for n, outcome in enumerate(outcomes) if n != 13] == [n for n in range(40) if n != 13]


def test_a_member_may_start_processes_and_they_die_with_it() -> None:
    class Parent:
        def spawn(self) -> int:
            return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid

    with Pool([Parent], backend="process") as pool:
        child = pool.call("spawn", record=False)[0]
        assert psutil.pid_exists(child)
        os.kill(pool.workers[0].pid, signal.SIGKILL)
        pool.call("spawn", record=False)
        until(lambda: not is_alive(child))


def test_create_and_close_leaves_nothing() -> None:
    with Pool([Fault], backend="process"):
        pass
    me = psutil.Process()

    def held() -> tuple[int, int, int]:
        return me.num_fds(), me.num_threads(), len(me.children(recursive=True))

    before = held()
    for _ in range(60):
        with Pool([Fault, Fault], backend="process", workers=2) as pool:
            pool.call("add", {0: (1,)})
            pool.port("fault_row", {"order": ((), "i8")}, {"out": ((), "i8")})
    # A thread that has been joined may still be among the kernel's for a moment.
    until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)))


def test_close_works_from_any_state() -> None:
    pool = Pool([Fault, Fault], backend="process", workers=2)
    pids = [worker.pid for worker in pool.workers]
    pool.post("do", {0: ("spin",)})
    os.kill(pids[1], signal.SIGKILL)
    pool.close()
    pool.close()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_memory_does_not_grow() -> None:
    """Calls of members that can be saved: journals are cut, nothing piles up in either process."""

    class Saved(Fault):
        def snapshot(self) -> int:
            return self.value

        def restore(self, value: int) -> None:
            self.value = value

    with Pool([Saved] * 4, backend="process", workers=2) as pool:
        processes = [psutil.Process(), *(psutil.Process(worker.pid) for worker in pool.workers)]
        calls = dict.fromkeys(range(4), (1,))
        for _ in range(2500):
            pool.call("add", calls)
        before = [process.memory_info().rss for process in processes]
        for _ in range(7500):
            pool.call("add", calls)
        after = [process.memory_info().rss for process in processes]
        assert max(b - a for a, b in zip(before, after, strict=True)) < 1 << 20


# -- the main process itself ---------------------------------------------------------------------------

MAIN = """
import os, sys, time
sys.path.insert(0, {tests!r})
from members import Fault
from paceline import Pool
if __name__ == "__main__":
    pool = Pool([Fault] * 3, backend="process", workers=3)
    pids = [worker.pid for worker in pool.workers]
    if {state!r} == "idle":
        pool.call("add", {{0: (1,)}})
    else:
        for n in range(3):
            pool.post("do", {{n: ({state!r},)}}, deadline=3600)
    print(*pids, flush=True)
    pool.post("do", {{0: ("sleep",)}}, deadline=3600).wait()
"""


def descendants(process: subprocess.Popen) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def start_main(tmp_path: Path, state: str) -> subprocess.Popen:
    script = tmp_path / "main.py"
    script.write_text(MAIN.format(tests=str(Path(__file__).parent.parent), state=state))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    until_readable(process, process.stdout)
    assert len(process.stdout.readline().split()) == 3
    return process


@pytest.mark.parametrize("state", ["idle", "sleep", "spin", "spin_in_c"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_main(tmp_path: Path, state: str, number: signal.Signals) -> None:
    process = start_main(tmp_path, state)
    family = descendants(process)
    assert len(family) >= 4
    named = named_memory([process.pid, *(child.pid for child in family)])
    process.send_signal(number)
    try:
        _, errors = process.communicate(timeout=10)
    finally:
        process.kill()  # if the signal did not end it, nothing of it may disturb the tests to come
    until(lambda: not any(is_alive(child.pid) for child in family))
    assert [path for path in named if path.exists()] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main.py"]
    if number == signal.SIGINT:
        assert errors.count("\n") <= 20
        assert "KeyboardInterrupt" in errors


def test_ctrl_c_leaves_the_pool_usable() -> None:
    with Pool([Fault, Fault], backend="process", workers=2) as pool:
        handle = pool.post("add", {0: (1,)})
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                pool.call("do", {1: ("sleep",)}, deadline=3600)
        finally:
            signal.signal(signal.SIGALRM, old)
        assert handle.wait() == {0: 1}
        assert pool.call("add", {0: (1,)}) == {0: 2}


def run_script(tmp_path: Path, text: str, **options: object) -> subprocess.CompletedProcess:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, cwd=tmp_path, **options
    )


def test_few_open_files_allowed(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        from paceline import Pool, PlanNotMet
        try:
            Pool([dict] * 40, backend="process", workers=40)
        except PlanNotMet as error:
            print(error)
        with Pool([lambda: [0]] * 40, backend="process", workers=4) as pool:
            pool.call("append", {n: (n,) for n in range(40)})
            print(sum(len(str(a)) for a in pool.call("copy").values()) > 0)
        """,
    )
    assert "40 workers need about" in done.stdout
    assert "64 are allowed" in done.stdout
    assert done.stdout.endswith("True\n")
    assert done.returncode == 0


def test_auto_shrinks_where_an_explicit_plan_is_an_error(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import resource, time
        from paceline import Pool
        from paceline.engine.planning import budget
        budget.crowded = lambda: False  # whoever else runs here meanwhile
        class Slow:
            total = 0
            def work(self, n):
                end = time.perf_counter() + 0.004
                while time.perf_counter() < end: pass
                self.total += n
                return self.total
        with Pool([Slow] * 4, backend="auto", workers=4) as pool:
            resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
            for turn in range(2000):  # auto tries when it thinks that it pays; some machines take longer
                answers = pool.call("work", {n: (turn,) for n in range(4)})
                if pool.events: break
            right = dict.fromkeys(range(4), turn * (turn + 1) // 2)
            print(answers == right, pool.plan.backend, [e.kind for e in pool.events])
            print(pool.plan.why)
        """,
    )
    assert "True inline ['shrunk']" in done.stdout
    assert "open files" in done.stdout


def test_script_without_a_main_guard_lambda_and_local_classes(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        from paceline import Pool
        class Local:
            def __init__(self, n): self.n = n
            def twin(self): return Local(self.n + 1)
        scale = 3
        pool = Pool([lambda i=i: Local(i * scale) for i in range(3)], backend="process", workers=2)
        twins = pool.call("twin")
        print([type(t) is Local for t in twins.values()], [t.n for t in twins.values()])
        print(pool.map(lambda x: x + scale, [1, 2]))
        """,
    )
    assert done.stdout == "[True, True, True] [1, 4, 7]\n[4, 5]\n"
    assert done.returncode == 0


def test_from_a_notebook_like_main(tmp_path: Path) -> None:
    code = "from paceline import Pool\nclass C:\n  def m(self): return 5\nprint(Pool([C], backend='process').call('m'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "{0: 5}\n"


def test_an_import_that_fails_names_module_and_worker(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import sys, types
        ghost = types.ModuleType("ghost_module")
        exec("class G: pass", ghost.__dict__)
        ghost.G.__module__ = "ghost_module"
        sys.modules["ghost_module"] = ghost
        from paceline import Pool
        Pool([ghost.G], backend="process")
        """,
    )
    assert "No module named 'ghost_module'" in done.stderr
    assert "in member 0 (key 0), its constructor" in done.stderr
    assert "worker 0 (process, pid" in done.stderr


def test_what_workers_print_and_log_reaches_main(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import logging, os, sys
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
        from paceline import Pool
        class Talker:
            def talk(self):
                print("hello")
                os.write(2, b"from C\\n")
                logging.getLogger("my.env").info("logged %d", 5)
        with Pool([Talker] * 2, backend="process", workers=2) as pool:
            pool.call("talk", {1: ()})
            pid = pool.workers[1].pid
        print("pid", pid)
        """,
    )
    pid = done.stdout.split()[-1]
    assert f"[worker 1 pid {pid} member 1] hello" in done.stderr
    assert f"[worker 1 pid {pid}" in done.stderr.split("from C")[0].splitlines()[-1]
    assert f"INFO my.env [worker 1 pid {pid} member 1] logged 5" in done.stderr
    assert "hello" not in done.stdout


def test_hashing_is_told_once_to_a_library_user(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    text = """
        from paceline import Pool
        for _ in range(2):
            with Pool([dict], backend="process") as pool: pool.call("copy")
        """
    assert run_script(tmp_path, text, env=environment).stderr.count("PYTHONHASHSEED is not set") == 1
    assert "PYTHONHASHSEED" not in run_script(tmp_path, text, env={**environment, "PYTHONHASHSEED": "0"}).stderr


def test_torch_in_main_then_in_workers() -> None:
    import torch

    matrix = torch.ones(64, 64)

    class Net:
        def run(self) -> tuple[float, int]:
            import torch

            return float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()), torch.get_num_threads()

    assert float((matrix @ matrix).sum()) == 64.0**3
    for _ in range(10):
        with Pool([Net] * 5, backend="process", workers=5) as pool:
            assert set(pool.call("run").values()) == {(64.0**3, 1)}


def test_a_member_sets_the_threads_of_torch_for_nobody(caplog: pytest.LogCaptureFixture) -> None:
    import torch

    assert torch.get_num_threads()  # it is imported here, so workers have it from the start

    class Net:
        def ask_for(self, threads: int) -> int:
            import torch

            torch.set_num_threads(threads)
            return int(torch.get_num_threads())

    with Pool([Net] * 2, backend="process", workers=1) as pool:
        assert pool.call("ask_for", {0: (2,)}) == {0: 1}
        assert pool.call("ask_for", {0: (3,), 1: (1,)}) == {0: 1, 1: 1}
        until(lambda: caplog.text.count("torch.set_num_threads(2) has no effect in a worker") == 1)
    assert "set_num_threads(3)" not in caplog.text


def test_no_tcp_port_is_opened() -> None:
    with Pool([Fault] * 2, backend="process", workers=2) as pool:
        pool.call("add", {0: (1,)})
        workers = [psutil.Process(worker.pid) for worker in pool.workers]
        server = workers[0].parent()
        assert server is not None
        assert server in psutil.Process().children()  # not a process above us, nor one of another test's cluster
        ours = [server, *workers]
        assert [c for p in ours for c in p.net_connections("inet") if c.status == "LISTEN"] == []


def test_what_a_worker_inherits_is_its_own() -> None:
    class Looker:
        def sockets(self) -> int:
            return sum(
                os.readlink(f"/proc/self/fd/{fd}").startswith("socket")
                for fd in os.listdir("/proc/self/fd")
                if os.path.lexists(f"/proc/self/fd/{fd}")
            )

        def environment(self) -> tuple[str, str, bool]:
            import faulthandler

            return os.environ["OMP_NUM_THREADS"], os.getcwd(), faulthandler.is_enabled()

    with Pool([Looker] * 3, backend="process", workers=3) as pool:
        assert set(pool.call("sockets").values()) == {2}  # to main, and to the server it came from
        assert set(pool.call("environment").values()) == {("1", os.getcwd(), True)}


class Nest:
    """A member that runs a pool of its own, and processes of multiprocessing's."""

    def nested(self, backend: str) -> tuple[dict[int, int], int]:
        with Pool([partial(Fault, n) for n in range(2)], backend=backend, workers=2) as pool:
            return pool.call("add", {0: (1,), 1: (1,)}), paceline.engine.planning.budget.current().slots

    def multiprocess(self) -> int:
        import multiprocessing

        process = multiprocessing.get_context("fork").Process(target=os._exit, args=(3,))
        process.start()
        process.join(60)
        return process.exitcode or 0


def test_a_pool_within_a_pool() -> None:
    with Pool([Nest] * 2, backend="process", workers=2) as pool:
        slots = max(1, paceline.Budget.of_machine().slots // 2)
        for backend in ("inline", "thread", "process"):
            assert pool.call("nested", {0: (backend,), 1: (backend,)}) == dict.fromkeys(range(2), ({0: 1, 1: 2}, slots))
        assert pool.call("multiprocess") == {0: 3, 1: 3}


def test_a_handle_of_a_closed_pool_says_so() -> None:
    pool = Pool([Fault], backend="process")
    handle = pool.post("do", {0: ("sleep",)})
    pool.close()
    with pytest.raises(paceline.Closed, match=r"before members \[0\]"):
        handle.wait()


def test_a_lost_fork_server_is_replaced() -> None:
    with Pool([partial(Walker, 1)], backend="process") as pool, Pool([partial(Walker, 1)]) as plain:
        for turn in range(4):
            if turn == 2:
                os.kill(psutil.Process(pool.workers[0].pid).ppid(), signal.SIGKILL)
            calls = {0: (float(turn),)}
            assert paceline.digest(pool.call("step", calls)) == paceline.digest(plain.call("step", calls))


class Waits:
    """Waits to be killed, the first time."""

    def __init__(self, where: Path) -> None:
        self.mark = where / "mark"

    def go(self) -> int:
        if not self.mark.exists():
            self.mark.write_text(str(os.getppid()))
            time.sleep(600)
        return 7

    def row(self, out: np.ndarray) -> None:
        out[...] = self.go()


@pytest.mark.parametrize("way", ["map", "port"])
def test_the_death_of_the_fork_server_is_nobodys_fault(tmp_path: Path, way: str) -> None:
    """Restarts are for what a member does to its own worker: here it has none."""

    def kill() -> None:
        until(lambda: (tmp_path / "mark").exists() and (tmp_path / "mark").read_text())
        os.kill(int((tmp_path / "mark").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    with Pool([partial(Waits, tmp_path)], backend="process", workers=1, restarts=1) as pool:
        killer.start()
        if way == "port":
            port = pool.port("row", {}, {"out": ((), "i8")})
            port.round()
            assert port.outputs["out"].tolist() == [7]
        else:
            assert list(pool.map(lambda where: Waits(where).go(), [tmp_path])) == [7]
        killer.join()


def test_a_fork_server_that_is_killed_while_workers_start_is_replaced() -> None:
    fork_client.close_servers()
    killed: list[int] = []

    def kill_two() -> None:
        for _ in range(2):
            until(lambda: any(each._process.pid not in killed for each in fork_client._servers if each._process))
            killed.append(fork_client._servers[-1]._process.pid)  # type: ignore[union-attr]
            os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill_two)
    killer.start()
    with Pool([partial(Walker, 1), partial(Walker, 2)], backend="process", workers=2) as pool:
        killer.join()
        assert len(pool.call("where")) == 2
        assert psutil.Process(pool.workers[0].pid).ppid() not in killed


def test_ctrl_c_while_a_worker_is_being_started_ends_no_other_pool_s() -> None:
    with Pool([partial(Walker, 1)], backend="process") as pool:
        pool.call("step", {0: (0.0,)})
        pid = pool.workers[0].pid
        server = psutil.Process(pid).parent()
        assert server is not None
        server.suspend()  # so that it has been asked, and has not answered
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupted(lambda: Pool([partial(Walker, 2)], backend="process"))
        finally:
            server.resume()
        with Pool([partial(Walker, 3)], backend="process") as other:
            assert psutil.Process(other.workers[0].pid).parent() == server
        assert pool.call("step", {0: (1.0,)})
        assert (pool.workers[0].pid, pool.events) == (pid, [])


def test_from_a_real_notebook() -> None:
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "from paceline import Pool",
        "class Cell:\n    def __init__(self, n): self.n = n\n    def twin(self): return Cell(self.n)",
        "factor = 3\npool = Pool([lambda n=n: Cell(n * factor) for n in range(3)], backend='process', workers=2)",
        "twins = pool.call('twin')\nprint([type(t) is Cell for t in twins.values()], [t.n for t in twins.values()])",
        "print(pool.map(lambda x: x + factor, [1, 2])); pool.close()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.outputs)
    assert "[True, True, True] [0, 3, 6]" in text
    assert "[4, 5]" in text


def test_under_auto_a_worker_that_cannot_be_kept_gives_its_members_away(tmp_path: Path) -> None:
    """Workers die in building as long as there are two of them, as they would when memory is short."""

    class Hungry(Walker):
        def __init__(self, start: int) -> None:
            super().__init__(start)
            while start == 1 and not any(tmp_path.iterdir()):
                time.sleep(0.01)  # the other one is first, always
            others = [path for path in tmp_path.iterdir() if psutil.pid_exists(int(path.name))]
            if start == 1 and others and str(os.getpid()) not in {path.name for path in others}:
                os.kill(os.getpid(), signal.SIGKILL)
            (tmp_path / str(os.getpid())).touch()
            time.sleep(0.2 * start)

    with Pool([partial(Hungry, n) for n in range(2)], backend="auto", workers=2, isolate=True) as pool:
        with Pool([partial(Walker, n) for n in range(2)]) as plain:
            calls = dict.fromkeys(range(2), (1.0,))
            assert paceline.digest(pool.call("step", calls)) == paceline.digest(plain.call("step", calls))
        assert any(event.kind == "shrunk" for event in pool.events)
        assert len([worker for worker in pool.workers if worker.members]) == 1


def test_an_explicit_plan_that_can_no_longer_be_met_is_a_clear_error(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import os, resource, sys
        from paceline import Pool, PlanNotMet
        class Counter:
            n = 0
            def add(self): self.n += 1; return self.n
            def row(self, out): out[...] = self.add()
        with Pool([Counter] * 2, backend="process", workers=2) as pool:
            port = pool.port("row", {}, {"out": ((), "i8")})
            port.post(); port.wait(); pool.call("add")
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, hard))
            os.kill(pool.workers[0].pid, 9)
            for attempt in (lambda: pool.call("add"), lambda: (port.post(), port.wait())):
                try:
                    attempt()
                except PlanNotMet as error:
                    print("open files" in str(error))
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            print(pool.call("add"))
        """,
    )
    assert done.stdout == "True\nTrue\n{0: 3, 1: 5}\n", done.stderr


class Tally:
    """Counts its runs; dies once at every tenth, if it has a place to remember that in."""

    def __init__(self, place: str = "") -> None:
        self.runs, self.place = 0, place

    def go(self, turn: np.ndarray, out: np.ndarray) -> None:
        self.runs += 1
        mark = Path(self.place, str(self.runs))
        if self.place and self.runs % 10 == 0 and int(turn) == self.runs and not mark.exists():
            mark.touch()
            os._exit(1)
        out[...] = self.runs


TALLY: Any = ({"turn": ((), np.int64)}, {"runs": ((), np.int64)})


def test_a_slot_that_gets_a_worker_again_is_rung_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Pool([Tally, Tally], backend="process", workers=1) as pool:
        port = pool.port("go", *TALLY)
        for _ in range(3):
            port.round()

        def none_left(*_: object) -> None:
            raise paceline.PlanNotMet("no descriptors, say")

        with monkeypatch.context() as patch:
            patch.setattr(process.BACKEND, "start", none_left)
            os.kill(pool.workers[0].pid, signal.SIGKILL)
            port.post()
            port.wait(outcomes=True)
            assert sorted(port.errors) == [0, 1]
        for expected in (4, 5, 6):
            port.round()
            assert port.outputs["runs"].tolist() == [expected] * 2


def test_a_crash_now_and_then_is_forgiven_every_time(tmp_path: Path) -> None:
    with Pool([partial(Tally, str(tmp_path)), Tally], backend="process", workers=2) as pool:
        port = pool.port("go", *TALLY)
        for number in range(1, 46):
            port.inputs["turn"][:] = number
            port.round()
            assert port.outputs["runs"].tolist() == [number] * 2
        assert len(list(tmp_path.iterdir())) == 4


class Leaves:
    """Starts processes in sessions of their own, and one that it is not the parent of."""

    def leave(self) -> list[int]:
        child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        command = "import subprocess as s; print(s.Popen(['sleep', '1000'], start_new_session=True, stdout=-3).pid)"
        orphan = subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, check=True)
        return [child.pid, int(orphan.stdout)]


@pytest.mark.parametrize("end", ["close", "death"])
def test_what_a_worker_has_started_ends_with_it(end: str) -> None:
    with Pool([Leaves, Leaves], backend="process", workers=2) as pool:
        first, second = pool.call("leave").values()
        if end == "death":
            os.kill(pool.workers[0].pid, signal.SIGKILL)
            until(lambda: not any(map(is_alive, first)))
            assert all(map(is_alive, second))  # of a worker that lives
    until(lambda: not any(map(is_alive, [*first, *second])))


@pytest.mark.parametrize("end", ["close", "call"])
def test_what_workers_have_started_ends_when_the_fork_server_is_lost(end: str) -> None:
    with Pool([Leaves, Leaves], backend="process", workers=2) as pool:
        left = [pid for pids in pool.call("leave").values() for pid in pids]
        os.kill(psutil.Process(pool.workers[0].pid).ppid(), signal.SIGKILL)
        if end == "call":
            with pytest.raises(paceline.errors.ReplayDiverged):  # other processes have other numbers
                pool.call("leave")
            until(lambda: not any(map(is_alive, left)))
    until(lambda: not any(map(is_alive, left)))


class Tells:
    """Says what its environment variables are."""

    def environ(self) -> dict[str, str]:
        return dict(os.environ)


def test_what_was_started_elsewhere_with_a_workers_environment_lives_on_when_the_fork_server_is_lost() -> None:
    with Pool([Leaves, Tells], backend="process", workers=2) as pool:
        left = pool.call("leave", {0: ()}, record=False)[0]
        mine = subprocess.Popen(["sleep", "1000"], env=pool.call("environ", {1: ()}, record=False)[1])
        try:
            worker = pool.workers[1].pid
            os.kill(psutil.Process(worker).ppid(), signal.SIGKILL)
            until(lambda: not is_alive(worker))
            pool.call("environ", {1: ()}, record=False)
            until(lambda: not any(map(is_alive, left)))
            assert mine.poll() is None
        finally:
            mine.kill()
            mine.wait()


def test_what_workers_have_started_ends_at_the_exit_of_main_when_the_fork_server_is_lost(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        import os, psutil, signal
        from test_chaos_engine import Leaves
        from paceline import Pool
        pool = Pool([Leaves, Leaves], backend="process", workers=2)
        print(*(pid for pids in pool.call("leave").values() for pid in pids))
        os.kill(psutil.Process(pool.workers[0].pid).ppid(), signal.SIGKILL)
        """,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    left = list(map(int, done.stdout.split()))
    assert len(left) == 4, done.stderr
    until(lambda: not any(map(is_alive, left)))
