"""What training gains and costs: stacked learners, learning beside collecting, the source plan, memory.

    python benchmarks/train.py [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. Rows in CPU time add up what this
process and its workers used: other work on the machine is not in them, but for its caches, and no slice is thrown away.
See README.md for how to read the table.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from command import run
from quiet import Quiet, Row, Slices, cpu_seconds, family, gain_row, interleave
from train_memory import endurance, memory
from train_parts import Training, numbers
from train_singles import INPUTS, SETTINGS, SPEC, Ready, Single, bank_of
from train_source_plan import SourcePlan

from paceline.engine import Plan
from paceline.seeds import digest

_LEARNING_AIMS = {8: 2.0, 32: 2.5, 128: 2.5}
_ACTING_AIM = 3.0
_BENCHMARL = Path(__file__).parents[1] / ".bench-benchmarl" / "bin" / "python"
_WARM = 3  # epochs that are not counted
_HERE, _APART = Plan("inline"), Plan("process", 1)

Found = dict[str, Slices]
"""Contestant → its slices."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    agents: tuple[int, ...] = (2, 8, 32)
    rounds: int = 9
    seconds: float = 0.25
    overlap_rounds: int = 9
    epochs: int = 20
    source_rounds: int = 5
    source_rows: tuple[int, ...] = (1_000, 10_000, 100_000)
    kept: tuple[int, int] = (128, 100_000)  # agents, rows
    updates: int = 10_000


QUICK = Sizes((8, 32), 5, 0.1, 2, 6, 2, (10_000,), (16, 10_000), 5_000)


def _family_seconds() -> float:
    return sum(map(cpu_seconds, family()))


def _cpu(call: Callable[[], Any]) -> float:
    """CPU seconds of a call, here and in workers."""
    begin = _family_seconds()
    call()
    return _family_seconds() - begin


def _wall(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# -- stacked learners against a loop of single ones --------------------------------------------------------------


def learning(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of an update of eight gradient steps, per agent: a loop of single networks / a bank."""
    for agents in sizes.agents:
        bank, loop = bank_of(agents), [Single() for _ in range(agents)]
        windows = {agent: Ready(number) for number, agent in enumerate(bank.agents)}
        calls = {
            "bank": lambda bank=bank, windows=windows: bank.learn(windows),
            "loop": lambda loop=loop, windows=windows: [
                one.learn(window) for one, window in zip(loop, windows.values(), strict=True)
            ],
        }
        name = f"learning, {agents} agents: loop / bank, CPU per agent-update of {SETTINGS.steps} steps"
        yield _stacked(sizes, name, agents, calls, _LEARNING_AIMS.get(agents))


def acting(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of an action, exploration and encoding included: a loop of single networks / a bank."""
    for agents in sizes.agents:
        bank, loop = bank_of(agents), [Single() for _ in range(agents)]
        seen = np.random.default_rng(0).standard_normal((agents, INPUTS), np.float32)
        shown = {(agent, 0): row for agent, row in zip(bank.agents, seen, strict=True)}
        calls = {
            "bank": lambda bank=bank, shown=shown: bank.act(shown),
            "loop": lambda loop=loop, seen=seen: [one.act(row) for one, row in zip(loop, seen, strict=True)],
        }
        aim = _ACTING_AIM if agents in _LEARNING_AIMS else None
        yield _stacked(sizes, f"acting, {agents} agents: loop / bank, CPU per action", agents, calls, aim)


def _stacked(sizes: Sizes, measure: str, agents: int, calls: dict[str, Any], aim: float | None) -> Row:
    slices = {name: _per_agent(call, agents, sizes.seconds) for name, call in calls.items()}
    found = interleave(Quiet(limit=math.inf), slices, sizes.rounds)  # CPU time is our own: no slice is disturbed
    return gain_row(measure, found["bank"], found["loop"], aim)


def _per_agent(call: Callable[[], Any], agents: int, seconds: float) -> Callable[[], float]:
    """A slice: CPU seconds of a call per agent."""

    def measure() -> float:
        count, begin = 0, time.process_time()
        while time.process_time() - begin < seconds:
            call()
            count += 1
        return (time.process_time() - begin) / count / agents

    call()
    return measure


# -- learning beside collecting ------------------------------------------------------------------------------------


def overlap(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """One schedule, lag 1, where an epoch takes as long to collect as to learn from: here / one learning process.

    The first row is wall time, with the wait for the last update; the aim is 0.85 of what two cores could give,
    (C + L) / max(C, L). The second divides CPU times: what two cores that are free would give at the most.
    """
    mission, epochs = numbers(8, INPUTS, 25), sizes.epochs
    collecting, fixed, step = _costs(mission)
    steps = max(1, round((collecting - fixed) / step))
    learning = fixed + steps * step
    ideal = (collecting + learning) / max(collecting, learning)
    room = 2 + epochs * (2 * sizes.overlap_rounds + 2)
    spec = f"dqn,hidden=128x128,batch=64,steps={steps}"
    with Training(mission, spec, room, _HERE, 1) as here, Training(mission, spec, room, _APART, 1) as apart:
        (here.play(2), apart.play(2))
        calls = {"here": lambda: here.play(epochs), "apart": lambda: apart.play(epochs)}
        # Slices that are run again would set the trainers apart: they are run once, and count if they were clean.
        wall = _once(quiet, {name: lambda call=call: _wall(call) for name, call in calls.items()}, sizes.overlap_rounds)
        busiest = {name: lambda call=call: _busiest(call) for name, call in calls.items()}
        cpu = interleave(Quiet(limit=math.inf), busiest, sizes.overlap_rounds)
        same = _state(here) == _state(apart)
    what = f"asynchronous, {collecting * 1e3:.0f} ms to collect and {learning * 1e3:.0f} ms to learn"
    aim = round(0.85 * ideal, 2)
    yield gain_row(f"{what}, {epochs} epochs: here / 1 worker", wall["apart"], wall["here"], aim)
    yield gain_row("… CPU here / CPU of the busier one of main and worker", cpu["apart"], cpu["here"], aim)
    yield Row("… weights and rewards of both", "", "the same", "yes" if same else "no")


def _costs(mission: Any) -> tuple[float, float, float]:
    """CPU seconds of collecting an epoch, of the updates of all agents without their steps, and of one step of all."""
    never = 10**6  # rows
    idle, short, long = (_epoch(mission, steps, warmup) for steps, warmup in ((1, never), (1, 0), (33, 0)))
    step = (long - short) / 32
    return idle, short - idle - step, step


def _epoch(mission: Any, steps: int, warmup: int) -> float:
    with Training(mission, f"dqn,hidden=128x128,batch=64,steps={steps}", 22, _HERE, warmup=warmup) as training:
        training.play(2)
        return _cpu(lambda: training.play(20)) / 20


def _busiest(call: Callable[[], Any]) -> float:
    """CPU seconds of the process that used most, of this one and its workers."""
    before = {pid: cpu_seconds(pid) for pid in family()}
    call()
    return max(cpu_seconds(pid) - seconds for pid, seconds in before.items())


def _once(quiet: Quiet, contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, Slices]:
    found = {name: Slices() for name in contestants}
    for number in range(rounds):
        for name in sorted(contestants, reverse=bool(number % 2)):
            found[name].take(quiet.once(contestants[name]))
    return found


def _state(training: Training) -> str:
    trainer = training.trainer
    newest = {agent: trainer.updates.versions[agent][count] for agent, count in trainer.updates.done.items()}
    return digest({"weights": newest, "rewards": [epoch[0] for epoch in trainer.rewards]})


# -- the source plan -----------------------------------------------------------------------------------------------


def source(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """An epoch of 25 turns and an update of each of 3 agents: the source plan / ours with one learning process.

    The last row is the plan as it is written, with a new pool for every training; the others are kinder.
    """
    for rows in sizes.source_rows:
        wall, cpu = _against_source(quiet, rows, sizes.source_rounds, pool_each_time=False)
        yield gain_row(f"source plan / ours, {rows:,} rows of 3 agents, an epoch", wall["ours"], wall["theirs"], 5.0)
        yield gain_row("… CPU time of all processes", cpu["ours"], cpu["theirs"])
    wall, cpu = _against_source(quiet, sizes.source_rows[0], 2, pool_each_time=True)
    yield gain_row("… with a new pool for every training", wall["ours"], wall["theirs"], 5.0)


def _against_source(quiet: Quiet, rows: int, rounds: int, *, pool_each_time: bool) -> tuple[Found, Found]:
    """Slices in wall time, and in CPU time, of an epoch."""
    agents, length, epochs = 3, 25, 1 if pool_each_time else 3
    room = rows // length + 200 * rounds * epochs
    theirs = SourcePlan(agents, rows, length, pool_each_time)
    with Training(numbers(agents, INPUTS, length), SPEC, room, _APART, 1, rows) as ours:
        ours.fill(rows, length)
        (ours.play(2), theirs.play(1))
        calls = {"ours": lambda: ours.play(epochs), "theirs": lambda: theirs.play(epochs)}
        walls = {name: lambda call=call: _wall(call) / epochs for name, call in calls.items()}
        wall = interleave(quiet, walls, rounds)
        cpus = {name: lambda call=call: _cpu(call) / epochs for name, call in calls.items()}
        cpu = {} if pool_each_time else interleave(Quiet(limit=math.inf), cpus, rounds)
    theirs.close()
    return wall, cpu


# -- for scale -----------------------------------------------------------------------------------------------------


def benchmarl(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of an epoch of treasure hunt, 4 agents, 25 turns, 8 gradient steps each: BenchMARL's IQL / ours, here.

    Networks, batches and steps are alike, and no parameters are shared. BenchMARL has one buffer, one Adam and one clip
    for all agents; ours has them for each. It runs in an environment of its own, for it wants an older TorchRL.
    """
    agents, turns, count = 4, 25, sizes.epochs
    measure = f"BenchMARL's IQL / ours, CPU of an epoch of treasure hunt, {agents} agents"
    if not _BENCHMARL.exists():
        yield Row(measure, "", "", "", "", "", f"absent: there is no {_BENCHMARL}; see README.md")
        return
    words = [_BENCHMARL, Path(__file__).with_name("train_benchmarl.py"), agents, turns, SETTINGS.steps, count + _WARM]
    said = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True, text=True).stdout
    lines = [line[line.index("{") :] for line in said.splitlines() if "{" in line]
    theirs = [json.loads(line)["seconds"] for line in lines][_WARM - 1 :]  # its first line is of its second epoch
    mission = f"treasure_hunt,agents={agents},steps={turns}"
    with Training(mission, SPEC, count + _WARM, _HERE) as training:
        training.play(_WARM)
        ours = [_cpu(lambda: training.play(1)) for _ in range(len(theirs))]
    clean = [True] * len(theirs)
    yield gain_row(measure, Slices(ours, clean), Slices(theirs, clean))


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(
        "Training",
        "What training gains and costs.",
        {
            "learning": learning,
            "acting": acting,
            "overlap": overlap,
            "source": source,
            "memory": memory,
            "endurance": endurance,
            "benchmarl": benchmarl,
        },
        Sizes(),
        QUICK,
        ("paceline", "torch", "numpy", "ray"),
    )
