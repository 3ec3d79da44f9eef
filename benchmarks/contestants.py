"""Who steps vectors of envs, each in a process of its own, which `lanes.py` starts and asks; `seats.py` is how.

Everything is on in ours: infos, checks, journals, crash detection.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from plain_loop import Loop, actions_of, serve
from seats import Seat, own_line, say, serve_slices
from unconnected import Unconnected
from vector_envs import WORKLOADS, Make

from paceline import Plan
from paceline.vector import make_vec

LOOP, SYNC, ASYNC, ENVPOOL = "loop", "Sync", "Async", "EnvPool"
AUTO, HELPED, TWO = "ours, auto", "ours, 1 worker and here", "ours, 2 workers"
LENT = "ours, auto, copy=False"
FIRST_READY, UNCONNECTED = "ours, first ready", "2 unconnected loops"

_AUTO_SETTLES = 3.0  # seconds: it measures first, and then moves; a vector is what it is after that
_ASIDE = 0.05  # seconds of work per message to unconnected processes, so that messages do not count
_PUFFER_SPINS = 0.6  # seconds for which its workers go on spinning when there is nothing to do
_TORCHRL_MOST = 32  # envs: each is a process with torch


def loop(make: Make, envs: int) -> Seat:
    """The yardstick."""
    plain = Loop(make, range(envs))
    return Seat(plain.step, plain.close, envs)


def unconnected(make: Make, envs: int) -> Seat:
    """Half of the envs in each of two processes that never wait for each other: what two cores can do."""
    pair = Unconnected(serve)
    pair.ask([(make, range(envs // 2)), (make, range(envs // 2, envs))])
    pair.ask([1, 1])
    begin = time.perf_counter()
    pair.ask([1, 1])
    rounds = 1 + int(_ASIDE / (time.perf_counter() - begin))
    return Seat(lambda: pair.ask([rounds, rounds]), pair.close, envs * rounds)


def gymnasium_like(kind: Callable[..., Any], make: Make, envs: int) -> Seat:
    vector = kind([make] * envs)
    vector.reset(seed=0)
    actions = actions_of(vector.single_action_space, envs)
    return Seat(lambda: vector.step(actions), vector.close, envs)


def ours(plan: Plan | int | str, make: Make, envs: int, *, copy: bool = True) -> Seat:
    vector = make_vec([make] * envs, plan=plan, copy=copy)
    vector.reset(seed=0)
    actions = actions_of(vector.single_action_space, envs)
    warm = _AUTO_SETTLES if plan == "auto" else 0.0
    return Seat(lambda: vector.step(actions), vector.close, envs, warm=warm, says=lambda: vector.plan.why)


def first_ready(make: Make, envs: int) -> Seat:
    """Half of the envs at a time, whoever is ready; a call is a round of steps, less what the last one did too much."""
    vector = make_vec([make] * envs, plan=2)
    vector.reset(seed=0)
    actions, half = actions_of(vector.single_action_space, envs), envs // 2
    vector.send(actions)
    done = 0

    def step() -> None:
        nonlocal done
        while done < envs:
            *_, who = vector.recv(half)
            vector.send(actions[who], who)
            done += len(who)
        done -= envs

    return Seat(step, vector.close, envs)


def sb3_like(kind: str, make: Make, envs: int) -> Seat:
    from stable_baselines3.common import vec_env

    options = {"start_method": "fork"} if kind == "SubprocVecEnv" else {}
    vector = getattr(vec_env, kind)([make] * envs, **options)
    vector.seed(0)
    vector.reset()
    actions = actions_of(vector.action_space, envs)
    return Seat(lambda: vector.step(actions), vector.close, envs)


def torchrl_like(make: Make, envs: int) -> Seat:
    import torch
    from torchrl.envs import GymWrapper, ParallelEnv

    def wrapped() -> Any:
        return GymWrapper(make(), categorical_action_encoding=True)

    vector = ParallelEnv(envs, wrapped, mp_start_method="fork")
    vector.set_seed(0)
    state = vector.rand_action(vector.reset())
    state["action"] = torch.as_tensor(actions_of(make().action_space, envs), dtype=state["action"].dtype)
    return Seat(lambda: vector.step_and_maybe_reset(state), vector.close, envs)


def puffer_like(kind: str, make: Make, envs: int) -> Seat:
    from pufferlib import emulation, vector

    wrapped = partial(emulation.GymnasiumPufferEnv, env_creator=make)
    apart = kind == "Multiprocessing"
    options = {"num_workers": 2, "overwork": True} if apart else {}
    vectored = vector.make(wrapped, num_envs=envs, backend=getattr(vector, kind), **options)
    vectored.reset(seed=0)
    actions = actions_of(vectored.single_action_space, envs)
    return Seat(lambda: vectored.step(actions), vectored.close, envs, rest=_PUFFER_SPINS if apart else 0.0)


def envpool_like(make: Make, envs: int) -> Seat:
    """Other envs than everybody else's: the same ones, written in C++."""
    import envpool

    vector = envpool.make_gymnasium(make.args[0], num_envs=envs, seed=0)  # type: ignore[attr-defined]
    vector.reset()
    actions = actions_of(make().action_space, envs).astype(vector.action_space.dtype)
    return Seat(lambda: vector.step(actions), vector.close, envs)


@dataclass(frozen=True)
class Contestant:
    """How somebody is built, and where.

    Attributes:
        build: Makes the envs.
        package: What it needs that may not be there.
        workloads: How the names of those begin in which it takes part.
        most: How many envs it is given at most.
        raced: Whether it is a Python peer of ours.
        lends: Whether what it returns is its own buffers, which the next step writes again.
    """

    build: Callable[[Make, int], Seat]
    package: str = "gymnasium"
    workloads: tuple[str, ...] = ("",)
    most: int = 1_000_000
    raced: bool = False
    lends: bool = False

    def takes_part(self, workload: str, envs: int) -> bool:
        return workload.startswith(self.workloads) and envs <= self.most


_sb3 = partial(Contestant, package="stable_baselines3", raced=True)
_puffer = partial(Contestant, package="pufferlib", raced=True, lends=True)

CONTESTANTS = {
    LOOP: Contestant(loop),
    AUTO: Contestant(partial(ours, "auto")),
    LENT: Contestant(partial(ours, "auto", copy=False), lends=True),
    HELPED: Contestant(partial(ours, Plan("process", 1, helps=True))),
    TWO: Contestant(partial(ours, 2)),
    FIRST_READY: Contestant(first_ready, workloads=("skewed",)),
    UNCONNECTED: Contestant(unconnected, workloads=("cpu", "Ant")),
    SYNC: Contestant(partial(gymnasium_like, SyncVectorEnv), raced=True),
    ASYNC: Contestant(partial(gymnasium_like, AsyncVectorEnv), raced=True),
    "SB3 Dummy": _sb3(partial(sb3_like, "DummyVecEnv")),
    "SB3 Subproc": _sb3(partial(sb3_like, "SubprocVecEnv")),
    "TorchRL Parallel": Contestant(torchrl_like, "torchrl.envs", most=_TORCHRL_MOST, raced=True),
    "PufferLib Serial": _puffer(partial(puffer_like, "Serial")),
    "PufferLib Multi": _puffer(partial(puffer_like, "Multiprocessing")),
    ENVPOOL: Contestant(envpool_like, "envpool", workloads=("CartPole", "Ant")),
}


# -- the program ---------------------------------------------------------------------------------------


def attend(line: TextIO, name: str, workload: str, envs: int, pace: float, warm: float) -> None:
    """Builds, and serves slices."""
    contestant = CONTESTANTS[name]
    importlib.import_module(contestant.package)
    say(line, imported=name)
    sys.stdin.readline()
    serve_slices(line, contestant.build(WORKLOADS[workload].recipe(pace), envs), warm)


def _why(name: str, error: Exception) -> str:
    """In one line; what was not installed has left word why."""
    left = Path(sys.prefix) / "peers" / CONTESTANTS[name].package
    if isinstance(error, ImportError) and left.exists() and (said := left.read_text(encoding="utf-8").strip()):
        return said
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


if __name__ == "__main__":
    _line, _order = own_line(), json.loads(sys.argv[1])
    try:
        attend(_line, **_order)
    except Exception as _error:
        say(_line, absent=_why(_order["name"], _error))
        raise
