"""What training keeps in memory: the rows of all agents, and what stays after many updates."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from quiet import Quiet, Row, family
from train_parts import Training, numbers

from paceline.checkpoints import Checkpoints
from paceline.engine import Plan

_SHARED_INTS = 256  # Python has one object for each smaller one
_GRAIN = 16  # bytes: what Python takes for an object is a multiple of it


def memory(quiet: Quiet, sizes: Any) -> Iterator[Row]:
    """Memory that rows take in main and worker, after an update from them, and in main while they are saved / the bytes
    of the rows."""
    agents, rows = sizes.kept
    mission = numbers(agents, 16, 50)
    with (
        tempfile.TemporaryDirectory() as kept,
        Training(
            mission,
            "dqn,hidden=8,steps=1",
            rows // 50 + 4,
            Plan("process", 1),
            1,
            checkpoints=Checkpoints(Path(kept)),
        ) as training,
    ):
        training.play(1)
        before, alone = _resident(), _most_in(lambda: None)
        size = training.fill(rows, 50)
        training.play(2)
        taken, saving = _resident() - before, _most_in(training.trainer.checkpoint) - alone
    measure = f"memory, {agents} agents × {rows:,} rows, main and worker: taken / bytes of the rows"
    for name, found in ((measure, taken), ("… main, while a checkpoint is written", saving)):
        met = "yes" if found <= 1.2 * size else "no"
        yield Row(name, f"{found / size:.3f}", "≤ 1.2", met, "", f"{found / 1e6:.0f} MB", f"{size / 1e6:.0f} MB")


def endurance(quiet: Quiet, sizes: Any) -> Iterator[Row]:
    """Memory of main and worker from the first half of the updates to the last one. Journals reach their length, 1,000
    calls, before; records of updates and rewards are part of the result."""
    epochs = sizes.updates // 2
    mission = numbers(2, 4, 2)
    with Training(mission, "dqn,hidden=8,steps=1,batch=4", epochs, Plan("process", 1), 1, 64) as training:
        training.play(epochs // 2)
        records, first = _records(training), _by_process()  # in this order: to look at records gives them dicts
        training.play(epochs - epochs // 2)
        records, last = _records(training) - records, _by_process()
    main = last.pop(os.getpid()) - first.pop(os.getpid())
    workers = sum(last.values()) - sum(first.values())
    grown = f"main {main / 1e6:+.2f} MB, of it {records / 1e6:.2f} MB records; worker {workers / 1e6:+.2f} MB"
    met = "yes" if max(main - records, workers) <= 1e6 else "no"
    yield Row(f"growth, from 50 % to 100 % of {sizes.updates:,} updates", "", "≤ 1 MB", met, "", grown)


def _resident() -> float:
    """Bytes of main and workers; pages that they share count once."""
    return sum(psutil.Process(pid).memory_full_info().pss for pid in family())


def _most_in(call: Callable[[], Any]) -> int:
    """Bytes that are in main's memory during a call, at the most."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    call()
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def _by_process() -> dict[int, int]:
    gc.collect()  # what an earlier measure has left behind is no growth, nor is that it goes
    return {pid: psutil.Process(pid).memory_full_info().uss for pid in family()}


def _records(training: Training) -> int:
    """Bytes of what a training tells when it is over."""
    return _size(training.trainer.updates.records) + _size(training.trainer.rewards)


def _size(value: Any) -> int:
    """Bytes of a value and all that it holds; small numbers and texts, which many share, are not counted."""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    elif hasattr(value, "__dict__"):
        inner = (vars(value),)
    elif not isinstance(value, float) and not (isinstance(value, int) and value > _SHARED_INTS):
        return 0
    return -(-sys.getsizeof(value) // _GRAIN) * _GRAIN + sum(map(_size, inner))
