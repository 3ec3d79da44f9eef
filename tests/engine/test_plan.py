"""Auto: measured, chosen, explained, and never a change of the result."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from time import perf_counter

import numpy as np
import pytest

import paceline
from paceline import BadInput, Budget, Plan, Pool
from paceline.engine.planning import budget
from paceline.engine.planning import plan as plan_module
from paceline.engine.planning.plan import Measured, Meter, choose
from paceline.engine.workers.process import fork_client

TWO = Budget(slots=2, memory=1 << 34)


@pytest.fixture(autouse=True, scope="module")
def warm_start() -> None:
    """What the first process costs is waited for before a move; here that has been paid, whatever ran before."""
    with Pool([dict], backend="process", workers=1):
        pass


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else uses the cores while the tests run, auto is told that nobody does."""
    monkeypatch.setattr(budget, "crowded", lambda: False)


def test_plans_are_words_numbers_or_plans() -> None:
    assert Plan.parse("auto").backend == "auto"
    assert Plan.parse("process") == Plan(backend="process")
    assert (Plan.parse(3).backend, Plan.parse(3).workers) == ("process", 3)
    assert Plan.parse(0).backend == "inline"
    assert Plan.parse(Plan(isolate=True)).isolate
    for wrong in (-1, 1.5, None, True):
        with pytest.raises(BadInput, match="plan="):
            Plan.parse(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("plan", [Plan("process", 2, threads=4), Plan("process", 2, helps=True)])
def test_what_only_vectors_can_do_is_refused_elsewhere(plan: Plan) -> None:
    with pytest.raises(BadInput, match="for vectors"):
        paceline.evaluate("forage", "random", episodes=1, plan=plan)
    config = {"es_manager": {"train": {"env_groups": 1, "group_size": 1, "env_configs": {"tags": ["Bandit"]}}}}
    with pytest.raises(BadInput, match="for vectors"):
        paceline.EnvStateManager(config, plan=plan)


@pytest.mark.parametrize(
    ("measured", "backend", "reason"),
    [
        (Measured(8, 5e-6), "inline", "would not be clearly less: staying here"),
        (Measured(8, 1e-3), "process", "on 2 processes about"),
        (Measured(8, 1e-3, sendable=False), "inline", "cannot be sent"),
        (Measured(8, 5e-3, cpu_share=0.01), "thread", "it waits for 99% of that: on 8 threads"),
        (Measured(8, 5e-3, cpu_share=0.01, touches_globals=True), "process", "on 2 processes"),
        (Measured(128, 12e-6, own=15e-6), "inline", "would not be clearly less"),  # more of it is the caller's own
        (Measured(128, 12e-6, own=3e-6), "process", "on 2 processes"),
        (Measured(128, 60e-6, own=15e-6), "process", "on 2 processes"),
        (Measured(32, 100e-6), "process", "on 2 processes"),
        (Measured(32, 100e-6, messages=32), "inline", "would not be clearly less"),  # each asked by itself
        (Measured(1, 1.0), "inline", "nothing to share out"),
        (Measured(8, 2e-4, message_bytes=10_000_000), "inline", "would not be clearly less"),
        (Measured(8, 100e-6, through_port=True), "process", "4 here, the others on 1 process: about"),
        (Measured(32, 15e-6, through_port=True), "process", "16 here, the others on 1 process: about"),
        (Measured(8, 5e-6, through_port=True), "inline", "would not be clearly less"),
        (Measured(32, 2e-6, message_bytes=28_000, through_port=True), "inline", "would not be clearly less"),
        (Measured(8, 5e-3, cpu_share=0.01, through_port=True), "thread", "on 8 threads"),
        (Measured(128, 5e-3, cpu_share=0.01, through_port=True), "process", "on 4 processes of 32 threads"),
        (Measured(128, 5e-3, cpu_share=0.01, through_port=True, in_step=False), "thread", "on 128 threads"),
        (Measured(128, 5e-3, cpu_share=0.01, through_port=True, sendable=False), "thread", "on 128 threads"),
        (Measured(128, 5e-3, cpu_share=0.01), "thread", "on 128 threads"),
    ],
)
def test_the_choice_and_its_reason(measured: Measured, backend: str, reason: str) -> None:
    choice = choose(measured, TWO)
    assert choice.backend == backend
    assert reason in choice.why
    assert choice.why.count("\n") == 0
    if choice.backend != "inline":  # what is worth it pays, sooner or later
        assert choice.pays(measured.round, spent=1e4, members=measured.members)


def test_rounds_of_which_a_part_is_waited_for_are_known() -> None:
    with Pool([partial(Busy, 0, 0.0)] * 2, backend="auto") as pool:
        port, pilot = pool.port("step_row", {"move": ((), np.float64)}, {"out": ((), np.float64)}), pool._crew.pilot
        assert pilot is not None
        port.round()
        assert pilot._measured().in_step
        port.post()
        port.wait(1)
        assert not pilot._measured().in_step


def test_one_slot_or_little_memory_means_here() -> None:
    assert "one CPU slot" in choose(Measured(8, 1.0), Budget(1, 1 << 34)).why
    assert "memory" in choose(Measured(8, 1.0), Budget(8, 100 << 20)).why


class Busy:
    """Computes for a while, on numbers that follow from its calls."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.rng = np.random.default_rng(seed)
        self.seconds = seconds

    def step(self, move: float) -> float:
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return move + float(self.rng.normal())

    def step_row(self, move: np.ndarray, out: np.ndarray) -> None:
        out[...] = self.step(float(move))

    def rest(self) -> None:
        """Takes no time."""


class Sleepy(Busy):
    def step(self, move: float) -> float:
        time.sleep(self.seconds)
        return move + float(self.rng.normal())


def run(backend: str, kind: type, seconds: float, rounds: int) -> tuple[str, Plan, set[str]]:
    with Pool([partial(kind, n, seconds) for n in range(4)], backend=backend, workers=2) as pool:
        said = [pool.call("step", {n: (float(turn),) for n in range(4)}) for turn in range(rounds)]
        return paceline.digest(said), pool.plan, {worker.backend for worker in pool.workers}


@pytest.mark.parametrize(
    ("kind", "seconds", "rounds", "backend"),
    [(Busy, 0.01, 40, "process"), (Sleepy, 0.01, 8, "thread"), (Busy, 0.0, 3000, "inline")],
)
def test_auto_goes_where_it_pays_and_the_result_is_the_same(
    kind: type, seconds: float, rounds: int, backend: str
) -> None:
    digest, plan, _ = run("auto", kind, seconds, rounds)
    assert digest == run("inline", kind, seconds, rounds)[0]
    # On a loaded machine processes may turn out slower than here; then it comes back, and says so.
    assert plan.backend == backend or "back here" in plan.why
    assert plan.why


def busy(_: int) -> int:
    end = perf_counter() + 0.01
    while perf_counter() < end:
        pass
    return os.getpid()


def test_maps_under_auto_take_no_more_workers_than_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "current", lambda: Budget(slots=6, memory=1 << 34))
    with Pool([], backend="auto", workers=2) as pool:
        pool.map(busy, range(40))
        assert [(worker.number, worker.backend) for worker in pool.workers] == [(0, "process"), (1, "process")]


class Draws:
    def draw(self) -> float:
        return float(np.random.rand())


def test_members_that_leave_threads_take_no_more_workers_than_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "current", lambda: Budget(slots=6, memory=1 << 34))
    with Pool([Draws] * 6, backend="auto", workers=2) as pool:
        pool.begin_on("thread", 2, "as it is told")
        pool.call("draw")
        assert [(worker.number, worker.backend) for worker in pool.workers] == [(0, "process"), (1, "process")]


def test_auto_moves_a_port_too() -> None:
    def job(backend: str) -> tuple[str, str]:
        with Pool([partial(Busy, n, 0.005) for n in range(4)], backend=backend, workers=2) as pool:
            port = pool.port("step_row", {"move": ((), "f8")}, {"out": ((), "f8")})
            seen = []
            for turn in range(40):
                port.inputs["move"][:] = turn
                port.post()
                port.wait()
                seen.append(port.outputs["out"].copy())
            return paceline.digest(seen), pool.plan.backend

    digest, _ = job("auto")
    assert digest == job("inline")[0]


def test_auto_moves_nothing_that_came_another_way() -> None:
    """In its third round it says what nothing determines, and from then on the same as ever."""

    class Astray(Busy):
        def step_row(self, move: np.ndarray, out: np.ndarray) -> None:
            super().step_row(move, out)
            out[...] = os.urandom(1)[0] + time.perf_counter() if float(move) == 2.0 else 0.0

    with Pool([partial(Astray, n, 0.02) for n in range(4)], backend="auto", workers=2) as pool:
        port = pool.port("step_row", {"move": ((), "f8")}, {"out": ((), "f8")})

        def go_on() -> None:
            for turn in range(200):
                port.inputs["move"][:] = turn
                port.round()

        with pytest.raises(paceline.ReplayDiverged, match=r"member 0 .* of the runs 1 to "):
            go_on()


def test_auto_comes_back_when_the_clock_says_so(tmp_path: object) -> None:
    class Trap(Busy):
        """Dear here and dearer elsewhere: no model can know, the clock can."""

        def step(self, move: float) -> float:
            self.seconds = 0.003 if threading.current_thread() is threading.main_thread() and here() else 0.03
            return super().step(move)

    import os

    main = os.getpid()

    def here() -> bool:
        return os.getpid() == main

    with Pool([partial(Trap, n, 0.0) for n in range(4)], backend="auto", workers=2) as pool:
        for turn in range(1000):
            pool.call("step", {n: (float(turn),) for n in range(4)})
            if "back here" in pool.plan.why:
                break
        assert pool.plan.backend == "inline"
        assert "back here" in pool.plan.why
        assert [event.kind for event in pool.events].count("moved") == 2


def measured(monkeypatch: pytest.MonkeyPatch, rounds: list[float]) -> Meter:
    """A meter that has seen rounds of two calls, so many seconds each."""
    now, meter = 0.0, Meter()
    with monkeypatch.context() as patch:
        patch.setattr(plan_module, "perf_counter", lambda: now)
        for seconds in rounds:
            meter.begin()
            now += seconds
            meter.end(2)
    return meter


@pytest.mark.parametrize(
    ("here", "there", "comes_back"),
    [
        ([0.02] * 5, [0.01] * 5, False),
        ([0.02] * 5, [0.03] * 5, True),
        (
            [0.02, 0.02, 0.02, 0.02, 0.1],
            [0.02, 0.02, 0.11, 0.02, 0.05] * 6,
            False,
        ),  # they differ by luck, for all we know
        ([0.02, 0.02, 0.02, 0.02, 0.1], [0.2, 0.21, 0.22, 0.4, 0.25], True),
        ([0.4], [0.6], True),
    ],
)
def test_auto_comes_back_only_if_the_clock_is_sure(
    monkeypatch: pytest.MonkeyPatch, here: list[float], there: list[float], comes_back: bool
) -> None:
    with Pool([partial(Busy, n, 0.0) for n in range(2)], backend="auto", workers=2) as pool:
        pilot = pool._crew.pilot
        assert pilot is not None
        pilot._here, pilot._meter = measured(monkeypatch, here), measured(monkeypatch, there)
        pilot._keep_or_return()
        assert pilot.final
        assert ("back here" in pool.plan.why) == comes_back


def test_auto_measures_on_while_it_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    with Pool([partial(Busy, n, 0.0) for n in range(2)], backend="auto", workers=2) as pool:
        pilot = pool._crew.pilot
        assert pilot is not None
        pilot._here, pilot._meter = measured(monkeypatch, [0.02, 0.02, 0.1]), measured(monkeypatch, [0.02, 0.11, 0.05])
        pilot._keep_or_return()
        assert not pilot.final
        assert "back here" not in pool.plan.why


def test_auto_stays_here_with_what_cannot_be_sent() -> None:
    lock = threading.Lock()

    def factory() -> Busy:
        with lock:
            return Busy(0, 0.005)

    with Pool([factory] * 4, backend="auto", workers=2) as pool:
        for turn in range(6):
            pool.call("step", {n: (float(turn),) for n in range(4)})
        assert pool.plan.backend == "inline"
        assert "cannot be sent" in pool.plan.why


def test_isolate_keeps_everybody_out_of_the_callers_process() -> None:
    with Pool([partial(Busy, n, 0.0) for n in range(2)], backend="auto", workers=2, isolate=True) as pool:
        pool.call("step", {0: (1.0,)})
        assert {worker.backend for worker in pool.workers} == {"process"}


def test_reconsider_measures_again() -> None:
    with Pool([partial(Busy, n, 0.0) for n in range(4)], backend="auto", workers=2) as pool:
        first = decided(pool, 2)
        assert "a round of 2 calls" in first
        pool.reconsider()
        assert "a round of 4 calls" in decided(pool, 4)


def decided(pool: Pool, members: int) -> str:
    """Calls so many members until auto has made up its mind about them; how many rounds that takes is the machine's."""
    for turn in range(100_000):
        pool.call("step", {n: (float(turn),) for n in range(members)})
        if f"a round of {members} calls" in pool.plan.why:
            break
    return pool.plan.why


def sleepy_square(number: int) -> int:
    time.sleep(0.01)
    return number * number


def test_auto_spreads_a_map() -> None:
    with Pool([], backend="auto") as pool:
        assert pool.map(sleepy_square, range(60)) == [n * n for n in range(60)]
        assert any(event.kind == "spread" and "threads" in event.text for event in pool.events)


def drawing(number: int) -> float:
    time.sleep(0.01)
    return number + (float(np.random.rand()) if number > 20 else 0.0)


def test_a_map_that_draws_on_threads_goes_on_in_processes() -> None:
    with Pool([], backend="auto", seed=4) as pool, Pool([], seed=4) as plain:
        assert pool.map(drawing, range(60)) == plain.map(drawing, range(60))
        assert any(event.kind == "unshared" for event in pool.events)


def test_the_meter_divides_by_members() -> None:
    meter = Meter()
    for _ in range(5):
        meter.begin()
        time.sleep(0.02)
        meter.end(4, 400)
    measured = meter.measured(sendable=True, touches_globals=False)
    assert meter.enough
    assert measured.members == 4
    assert measured.message_bytes == 100
    assert measured.cpu_share < 0.5
    assert measured.seconds >= 0.005


def test_auto_stays_here_while_others_keep_the_cores_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "crowded", lambda: True)
    digest, plan, places = run("auto", Busy, 0.01, 24)
    assert digest == run("inline", Busy, 0.01, 24)[0]
    assert places == {"inline"}
    assert "other programs keep the cores busy" in plan.why


def test_a_short_job_is_not_moved() -> None:
    _, plan, places = run("auto", Busy, 0.01, 4)
    assert places == {"inline"}
    assert "too early" in plan.why or "measuring" in plan.why


def test_the_first_process_is_called_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[bool] = []
    monkeypatch.setattr(budget, "crowded", lambda: False)
    monkeypatch.setattr(fork_client, "is_running", lambda: False)
    monkeypatch.setattr(fork_client, "server", lambda: called.append(True))
    with Pool([partial(Busy, n, 0.01) for n in range(4)], backend="auto", workers=2) as pool:
        pool.call("step", dict.fromkeys(range(4), (1.0,)))
        assert not called
        for _ in range(40):
            pool.call("step", dict.fromkeys(range(4), (1.0,)))
            if called:
                break
        assert called
        assert "too early" in pool.plan.why


def test_what_goes_through_a_port_is_measured_by_itself() -> None:
    """Quick calls beside it, a reset of every env say, do not make its rounds look quick."""
    with Pool([partial(Busy, n, 0.02) for n in range(4)], backend="auto", workers=4) as pool:
        port = pool.port("step_row", {"move": ((), "f8")}, {"out": ((), "f8")})
        for _ in range(8):
            pool.call("rest")
            port.round()
            if "a round of 4 calls takes" in pool.plan.why:  # at once: later measures would be right again
                break
        assert "a round of 4 calls takes" in pool.plan.why
        milliseconds = float(pool.plan.why.partition("takes ")[2].partition(" ms")[0])
        assert milliseconds >= 80


def test_what_the_caller_does_between_calls_is_not_what_they_cost() -> None:
    with Pool([partial(Busy, n, 0.0) for n in range(4)], backend="auto") as pool:
        pilot = pool._crew.pilot
        assert pilot is not None
        pool.call("step", dict.fromkeys(range(4), (1.0,)))
        handles = [pool.post("step", {n: (1.0,)}, apart=True) for n in range(4)]
        time.sleep(0.5)  # a policy thinks
        for handle in handles:
            handle.finish()
        pool.round_over(*handles)
        measured = pilot._measured()
        assert measured.seconds * 4 < pilot._meter.seconds_per_call
        assert measured.messages == round(5 / 2)
        assert not pilot._meter.clocked  # to compare that with another place would be to compare thoughts
        assert not pilot._meter.enough


def test_reads_between_calls_are_not_what_they_cost() -> None:
    with Pool([partial(Busy, n, 0.02) for n in range(2)], backend="auto", workers=2) as pool:
        pilot = pool._crew.pilot
        assert pilot is not None
        pool.call("step", dict.fromkeys(range(2), (1.0,)))
        for _ in range(5):
            pool.call("rest", record=False)
        measured = pilot._measured()
        assert measured.seconds >= 0.02
        assert (measured.members, measured.messages) == (2, 1)
        assert pilot._meter.clocked


def test_rounds_that_nobody_has_ended_are_not_decided_on() -> None:
    with Pool([partial(Busy, n, 0.02) for n in range(2)], backend="auto", workers=2) as pool:
        pilot = pool._crew.pilot
        assert pilot is not None
        for _ in range(8):
            pool.post("step", dict.fromkeys(range(2), (1.0,))).finish()
        assert not pilot._meter.enough
        handle = pool.post("step", dict.fromkeys(range(2), (1.0,)))
        handle.finish()
        pool.round_over(handle)
        assert pilot._meter.enough
        assert (pilot._measured().members, pilot._measured().messages) == (2, 1)
