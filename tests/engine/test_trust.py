"""With trust="data" nothing that a worker sends runs code in main: gadgets of every kind, on every way back."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import socket
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gadgets import GADGETS, Failed, Reduced, sprung_here
from waits import until

from paceline import BadInput, Pool, WorkerLost
from paceline.engine import HERE, Plan
from paceline.engine.workers.reply_check import Sentry
from paceline.errors import NotData, PacelineError, RemoteError

ROW = ({"order": ((), np.int64)}, {"out": ((), np.int64)})
NAMES = list(GADGETS)


class Smuggler:
    """Gives gadgets back on every way that there is."""

    def __init__(self, where: str) -> None:
        self._where, self._count = where, 0

    def give(self, name: str) -> Any:
        self._count += 1
        return GADGETS[name](self._where)

    def fail(self, name: str) -> None:
        error = RuntimeError("no", GADGETS[name](self._where))
        error.__notes__ = [GADGETS[name](self._where)]  # type: ignore[list-item]
        raise error from Failed(self._where)

    def fail_with_a_gadget(self) -> None:
        raise Failed(self._where)

    def log(self, name: str) -> None:
        gadget = GADGETS[name](self._where)
        logging.getLogger("smuggler").warning("%s comes", name, extra={"gadget": gadget, "many": (gadget, 1)})

    def write(self) -> None:
        """What a tool or a model may print: once a mark before a pickle was enough."""
        word = base64.b64encode(pickle.dumps(Reduced(self._where))).decode()
        for stream in (sys.stdout, sys.stderr):
            print(f"\x1epaceline-log {word}", file=stream, flush=True)

    def step_row(self, order: Any, out: Any) -> Any:
        out[()] = order + 1
        return None if order < 0 else self.give(NAMES[int(order)])

    def count(self) -> int:
        return self._count

    def keep(self) -> None:
        self._count += 1

    def snapshot(self) -> Any:
        return self._count, [make(self._where) for make in GADGETS.values()]

    def restore(self, state: Any) -> None:
        self._count = state[0]

    def shout(self) -> None:
        """Writes what main may take for an answer to every socket and pipe of this process."""
        packed = pickle.dumps(("reply", (Reduced(self._where), [])))
        for fd in map(int, os.listdir("/proc/self/fd")):
            for parts in ([bytes(16), packed], [packed]):
                try:
                    socket.socket(fileno=os.dup(fd)).send(b"".join(parts))
                except OSError:
                    continue


@pytest.fixture(params=("process", "ray"), scope="module")
def pool(request: pytest.FixtureRequest, where: Path) -> Iterator[Pool]:
    """Two members on two workers; what is refused of the first says nothing of the second."""
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
    recipes = [partial(Smuggler, str(where))] * 2
    with Pool(recipes, backend=request.param, workers=2, trust="data", snapshot_every=2) as pool:
        yield pool


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(autouse=True)
def _nothing_has_run_here(where: Path) -> Iterator[None]:
    yield
    assert not sprung_here(where)


def test_the_gadgets_work(tmp_path: Path) -> None:
    """Each leaves a trace where it is unpickled, so that none is harmless by mistake."""
    import cloudpickle

    for name, make in GADGETS.items():
        pickle.loads(cloudpickle.dumps(make(str(tmp_path))))
        assert sprung_here(tmp_path), name
        Path(tmp_path, str(os.getpid())).unlink()


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_data_or_an_error_of_its_member(pool: Pool, name: str) -> None:
    first, second = pool.call("give", {0: (name,), 1: (name,)}, outcomes=True).values()
    for number, outcome in enumerate((first, second)):
        assert isinstance(outcome.error, NotData)
        assert isinstance(outcome.error, PacelineError)
        assert "is not data" in str(outcome.error)
        assert any(f"member {number}" in note for note in outcome.error.__notes__)
    assert set(pool.call("count").values()) != {0}  # they live on


@pytest.mark.parametrize("name", NAMES)
def test_an_error_comes_in_words(pool: Pool, name: str) -> None:
    outcome = pool.call("fail", {0: (name,)}, outcomes=True)[0]
    assert type(outcome.error) is RuntimeError
    assert all(type(part) is str for part in (*outcome.error.args, *outcome.error.__notes__))


def test_an_exception_of_a_class_of_its_own_is_named(pool: Pool) -> None:
    with pytest.raises(RemoteError, match=r"gadgets\.Failed"):
        pool.call("fail_with_a_gadget", {0: ()})


def test_maps_and_streams_give_an_error_per_item(pool: Pool, where: Path) -> None:
    outcomes = pool.map(partial(_made, str(where)), [*NAMES, ""], outcomes=True)
    assert [type(outcome.error) for outcome in outcomes[:-1]] == [NotData] * len(NAMES)
    assert outcomes[-1].answer == "nothing"
    streamed = dict(pool.stream(partial(_made, str(where)), NAMES))
    assert {type(outcome.error) for outcome in streamed.values()} == {NotData}


def _made(where: str, name: str) -> Any:
    return GADGETS[name](where) if name else "nothing"


def test_what_comes_beside_rows_is_data_or_an_error_of_its_member(pool: Pool) -> None:
    port = pool.port("step_row", *ROW)
    for number in range(len(NAMES)):
        port.inputs["order"][:] = [number, -1]
        port.post()
        with pytest.raises(NotData, match="is not data") as caught:
            port.wait()
        assert any("member 0" in note for note in caught.value.__notes__)
    port.inputs["order"][:] = -1
    port.post()
    assert port.wait() == [0, 1]
    assert port.outputs["out"].tolist() == [0, 0]
    port.close()


def test_log_records_come_as_fields(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    for name in NAMES:
        pool.call("log", {0: (name,)})
    until(lambda: len([record for record in caplog.records if record.name == "smuggler"]) == len(NAMES))
    told = [record for record in caplog.records if record.name == "smuggler"]
    assert [record.getMessage().partition("] ")[2] for record in told] == [f"{name} comes" for name in NAMES]
    kinds = {type(part) for record in told for part in (vars(record)["gadget"], *vars(record)["many"])}
    assert kinds <= {str, int, list, tuple}


def test_output_is_text(pool: Pool) -> None:
    pool.call("write")


def test_snapshots_are_kept_and_never_opened(killable: str, where: Path) -> None:
    """A snapshot may hold anything: main keeps its bytes, and a worker opens them."""
    recipes = [partial(Smuggler, str(where))]
    with Pool(recipes, backend=killable, workers=1, trust="data", snapshot_every=1) as mine:
        for _ in range(3):
            mine.call("keep")
        os.kill(mine.workers[0].pid, 9)
        assert mine.call("count") == {0: 3}


def test_what_a_member_writes_to_its_worker_s_descriptors_is_no_answer(where: Path) -> None:
    with Pool([partial(Smuggler, str(where))] * 2, backend="process", workers=2, trust="data", restarts=1) as mine:
        first, second = mine.call("shout", {0: ()}, outcomes=True), mine.call("count", {1: ()}, outcomes=True)
        assert isinstance(first[0].error, WorkerLost)
        assert "trusted with data only" in str(first[0].error)
        assert second[1].answer == 0


def test_what_an_actor_returns_is_no_pickle(ray_cluster: str, where: Path) -> None:
    with Pool([partial(Usurper, str(where))], backend="ray", workers=1, trust="data", restarts=1) as mine:
        outcome = mine.call("take_over", outcomes=True)[0]
        assert isinstance(outcome.error, WorkerLost)
        assert "trusted with data only" in str(outcome.error)


class Usurper:
    """Has its worker return a gadget in the place of bytes."""

    def __init__(self, where: str) -> None:
        self._where = where

    def take_over(self) -> None:
        from paceline.engine.transport import plain_data

        plain_data.to_bytes = lambda said: Reduced(self._where)  # type: ignore[assignment, return-value]


def test_data_comes_as_it_is(pool: Pool) -> None:
    """What is data arrives as itself, with types and bits."""
    told = pool.map(_data, [0])[0]
    here = _data(0)
    assert [type(part) for part in told] == [type(part) for part in here]
    assert repr(told) == repr(here)


def _data(_: int) -> list[Any]:
    return [
        *(None, True, 1 << 80, -0.0, float("nan"), 1j, "ä\udc80", b"b", bytearray(b"y"), (1,), {1: [2]}, {3}),
        *(frozenset({4}), np.float32(1.5), np.arange(6.0).reshape(2, 3).T, np.zeros(5000), np.array("2020", "M8[D]")),
        *(np.zeros(2, [("a", "<i4"), ("b", "<f8", (2,))]), np.bool_(True), np.array([]), list(range(20))),
    ]


@pytest.mark.parametrize(
    "asked",
    [{"backend": "inline"}, {"backend": "thread"}, {"workers": 0}, {"backend": "process", "workers": 2, "helps": True}],
)
def test_a_plan_that_keeps_members_here_cannot_distrust_them(asked: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="trust='data' is for members in processes of their own"):
        Plan(**asked, trust="data")


def test_no_member_of_such_a_pool_is_placed_or_moved_here(pool: Pool, where: Path) -> None:
    with pytest.raises(BadInput, match="caller's process"):
        pool.move([HERE, 0])
    with pytest.raises(BadInput, match="caller's process"):
        Pool([partial(Smuggler, str(where))], backend="process", placement=[HERE], trust="data")


@pytest.mark.parametrize(
    "outputs",
    [
        {},
        {"o": np.ones(2)},
        {"o": np.ones(3), "asked": np.ones(3, np.uint8)},
        {"o": np.ones(3), "a": np.ones(3)},
        {"o": np.ones(3), "state": np.ones(3, np.uint8)},
    ],
    ids=["none", "too few rows", "asked", "inputs", "state"],
)
def test_rows_that_come_back_are_the_outputs_that_were_asked_for(outputs: dict[str, np.ndarray]) -> None:
    sentry = Sentry(1 << 20, on_threads=False)
    layout = {"a": ((4,), "<f8"), "o": ((4,), "<f8"), "asked": ((2,), "|u1"), "state": ((2,), "|u1")}
    sentry.asked(("bind", 7, "step", {0: (0, slice(0, 3)), 1: (1, slice(3, 4))}, ["a"], layout))
    assert sentry.heard(("reply", ([], [])))
    ship = ("ship", 7, [0], np.array([0, 1, 2]), {"a": np.ones(3)})
    sentry.asked(ship)
    good = {"o": np.ones(3)}, np.ones(1, np.uint8)
    assert sentry.heard(("reply", (good, []))) == ("reply", (good, []))
    sentry.asked(ship)
    with pytest.raises(NotData):
        sentry.heard(("reply", ((outputs, np.ones(1, np.uint8)), [])))
