"""One digest wherever and however something is run: whole matrices of places, deaths and resumed runs.

    python benchmarks/digests.py                             # about half an hour
    python benchmarks/digests.py --only train --only meta    # parts: cartpole, collect, train, ordered, meta
    python benchmarks/digests.py --seed 7                    # other moments of death

The tests run a small part of each matrix. A line is one matrix: how many runs there were, how many workers were killed
and held up in them, and the digest that all of them gave. The exit code is 1 if a run gave another one than inline's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from faults import kill, workers
from quiet import family

import paceline
from paceline import Plan, collect, meta, train

WORLDS = ("AntDir-v0", "PointRobot-H20-v0")
AGENTS = ("markov", "memory", "memory_markov")
HERE, HERE_ALONE = Plan("process", 2, agents="here"), Plan("inline", agents="here")
PROCESSES = (Plan("process", 1), Plan("process", 2), Plan("process", 4))
STOPPED = 0.2  # seconds that a worker is held up


class Noisy(gym.Wrapper[Any, Any, Any, Any]):
    """A point robot whose observations have noise from a process-wide generator."""

    def __init__(self) -> None:
        super().__init__(gym.make(WORLDS[1], disable_env_checker=True))

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        return observation + np.random.normal(size=observation.shape).astype(observation.dtype), *rest


class Harried:
    """Workers of this process are killed and held up by turns, each drawn by lot: while it is entered, now and then.

    Args:
        luck: Draws them, and the time to the next.
    """

    def __init__(self, luck: random.Random) -> None:
        self._luck, self._over, self.killed, self.stopped = luck, threading.Event(), 0, 0

    def epoch(self, _: object) -> None:
        """A watcher of a training, which can be over before the first moment comes: after every other epoch."""
        if self._luck.random() < 0.5:
            self._disturb()

    def __enter__(self) -> Harried:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._luck.uniform(0.3, 1.2)):
            self._disturb()

    def _disturb(self) -> None:
        pids = sorted(workers())
        if not pids:
            return
        pid = self._luck.choice(pids)
        if (self.killed + self.stopped) % 2:
            self.killed += kill(pid)
        else:
            self.stopped += _hold_up(pid)


def _hold_up(pid: int) -> bool:
    """Stops a worker, and lets it go on after a while."""
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        return False
    threading.Timer(STOPPED, _go_on, (pid,)).start()
    return True


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):  # it may have been killed meanwhile
        os.kill(pid, signal.SIGCONT)


@dataclass(frozen=True)
class Run:
    """One cell of a matrix.

    Attributes:
        name: Where and how it is run.
        digest: Runs it.
        harried: Whether workers are killed and held up meanwhile.
        watched: Whether that is done after epochs: `digest` takes a watcher.
    """

    name: str
    digest: Callable[..., str]
    harried: bool = False
    watched: bool = False


Matrix = tuple[str, list[Run]]
"""What is run, and the runs; the first one is the reference."""


# -- matrices ----------------------------------------------------------------------------------------------------


def cartpole(luck: random.Random) -> Iterator[Matrix]:
    """The guide's first call."""

    def collected(plan: Any) -> str:
        return collect(
            lambda: gym.make("CartPole-v1"), lambda obs: int(obs[2] > 0), rollouts=12, seed=3, plan=plan
        ).digest

    plans = ("inline", "thread", "process", 3, "ray")
    yield "collect, CartPole", [Run(str(plan), lambda plan=plan: collected(plan)) for plan in plans]


def rollouts(luck: random.Random) -> Iterator[Matrix]:
    """Worlds with tasks × agents × workers × places of the policy, undisturbed and harried."""
    for world in (*WORLDS, Noisy):
        for agent in AGENTS:

            def collected(plan: Any, world: Any = world, agent: str = agent) -> str:
                many = 96 if world == WORLDS[0] else 400
                tasks = "train" if isinstance(world, str) else None
                return collect(
                    world, f"{agent},hidden=16", many, tasks=tasks, episodes=2, horizon=40, seed=5, plan=plan
                ).digest

            calm = [0, 1, 2, 3, HERE, HERE_ALONE]
            runs = [Run(str(plan), lambda plan=plan, run=collected: run(plan)) for plan in calm]
            runs += [Run(f"{plan}, harried", lambda plan=plan, run=collected: run(plan), True) for plan in (2, 3, HERE)]
            yield f"collect, {world if isinstance(world, str) else world.__name__}, {agent}", runs


def training(luck: random.Random) -> Iterator[Matrix]:
    """Independent learners at each lag, in every place, harried, and killed three times and resumed."""
    for lag in (0, 1, 2):
        yield f"train, simultaneous, lag {lag}", _trained(luck, lag, "simultaneous")


def ordered(luck: random.Random) -> Iterator[Matrix]:
    """The same with agents that act one after another, answered ahead and not."""
    for lag in (0, 1):
        yield f"train, ordered, lag {lag}", _trained(luck, lag, "ordered")


def _trained(luck: random.Random, lag: int, turn: str) -> list[Run]:
    given = {"epochs": 12, "seed": 13, "train_interval": 2, "lag": lag, "turn": turn}

    def here(plan: Any, **more: Any) -> str:
        return train("treasure_hunt", "dqn", **given, plan=plan, **more).digest

    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    command = ["train", "treasure_hunt", *flags]
    ways: list[dict[str, Any]] = [{}] if turn == "simultaneous" else [{"speculate": on} for on in (False, True)]
    runs = []
    for way in ways:
        words = ", ".join(f"{name}={on}" for name, on in way.items())
        for plan in ("inline", "thread", *PROCESSES, "ray"):
            runs.append(Run(f"{plan} {words}", lambda plan=plan, way=way: here(plan, **way)))
        for plan in PROCESSES:
            runs.append(Run(f"{plan} {words}, harried", partial(here, plan, **way), True, True))
    for jobs in ("0", "2"):
        runs.append(Run(f"from the shell, -j {jobs}", lambda jobs=jobs: _told([*command, "-j", jobs, "--no-save"])))
    for jobs in ("0", "2"):
        runs.append(Run(f"killed and resumed, -j {jobs}", lambda jobs=jobs: _resumed(luck, command, jobs)))
    return runs


def metas(luck: random.Random) -> Iterator[Matrix]:
    """Weights and returns after 20 iterations of each agent."""
    for agent in (*AGENTS, "oracle"):
        given = {"num_iters": 20, "num_rollouts_per_iter": 16, "num_eval_tasks": 20, "seed": 1}

        def here(plan: Any, agent: str = agent, given: dict[str, Any] = given) -> str:
            return meta(WORLDS[1], agent, plan=plan, **given).digest

        command = ["meta", WORLDS[1], "--agent", agent, *(f"--{n.replace('_', '-')}={v}" for n, v in given.items())]
        plans: list[Any] = [0, 1, 2, HERE, HERE_ALONE]
        runs = [Run(str(plan), lambda plan=plan, run=here: run(plan)) for plan in plans]
        runs += [Run(f"{plan}, harried", lambda plan=plan, run=here: run(plan), True) for plan in (1, 2, HERE)]
        runs += [
            Run(f"killed and resumed, -j {jobs}", lambda jobs=jobs, words=command: _resumed(luck, words, jobs))
            for jobs in ("0", "2")
        ]
        yield f"meta, {WORLDS[1]}, {agent}, 20 iterations", runs


MATRICES = {"cartpole": cartpole, "collect": rollouts, "train": training, "ordered": ordered, "meta": metas}


# -- from the shell ----------------------------------------------------------------------------------------------


def _command(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "paceline", *words, "--json"]


def _told(words: list[str]) -> str:
    """The digest that a command prints."""
    return str(json.loads(subprocess.run(_command(words), stdout=subprocess.PIPE, check=True).stdout)["digest"])


def _resumed(luck: random.Random, words: list[str], jobs: str, deaths: int = 3) -> str:
    """The digest of a run that is killed some times, at moments drawn by lot, and resumed each time."""
    with tempfile.TemporaryDirectory() as kept:
        out = Path(kept, "run")
        begin = time.monotonic()
        _told([*words, "-j", jobs, "--out", str(Path(kept, "whole"))])
        whole = time.monotonic() - begin
        command, descendants = [*words, "-j", jobs, "--out", str(out)], set[int]()
        for _ in range(deaths):
            main = subprocess.Popen(_command(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                main.wait(luck.uniform(0.3, 0.9) * whole)
            except subprocess.TimeoutExpired:
                descendants |= set(family(main.pid))
                main.send_signal(signal.SIGKILL)
                main.wait()
            if out.exists():
                command = [words[0], "--resume", str(out)]
        found = _told(command)
    left = [pid for pid in descendants if Path(f"/proc/{pid}").exists()]
    if left:
        raise SystemExit(f"processes outlived a killed run: {left}")
    return found


# -- the command -------------------------------------------------------------------------------------------------


def _check(name: str, runs: list[Run], luck: random.Random) -> bool:
    digests, killed, stopped = dict[str, str](), 0, 0
    for run in runs:
        harried = Harried(luck)
        if run.watched:
            digests[run.name] = run.digest(watcher=harried.epoch)
        else:
            with harried if run.harried else nullcontext():
                digests[run.name] = run.digest()
        killed, stopped = killed + harried.killed, stopped + harried.stopped
        _end_ray()
    expected = digests[runs[0].name]
    others = {place: digest for place, digest in digests.items() if digest != expected}
    spent = f"{killed} workers killed, {stopped} held up" if any(run.harried for run in runs) else "undisturbed"
    print(f"{name}: {len(runs) - len(others)} of {len(runs)} runs give {expected[:16]} ({spent})", flush=True)
    for place, digest in others.items():
        print(f"  another one: {place}: {digest[:16]}", flush=True)
    return not others


def _end_ray() -> None:
    """Ends what a run has started of Ray: its processes would be killed in place of workers."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", metavar="NAME", choices=MATRICES, action="append", help=", ".join(MATRICES))
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which workers die")
    chosen = parser.parse_args()
    luck = random.Random(chosen.seed)
    print(f"paceline {paceline.__version__}", flush=True)
    found = [_check(*matrix, luck) for name in chosen.only or MATRICES for matrix in MATRICES[name](luck)]
    return 0 if all(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
