"""Who collects transitions of AntDir, each in a process of its own, which `lanes.py` starts and asks (see `seats.py`).

All ask the same network, with the same weights, and a call is about the same number of transitions for all.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TextIO

import numpy as np
from collect_crowd import ANT, AntRows, Plain, act_rows, actor, collector_of, make, serve
from collect_source import Source
from seats import Seat, own_line, say, serve_slices
from unconnected import Unconnected

HORIZON = 200  # steps of an episode of AntDir that does not end before
LOOP, UNCONNECTED = "plain loop", "2 unconnected loops"
INLINE, TWO, HERE = "ours, inline", "ours, 2 workers", "ours, 2 workers, forward here"
ROWS = "ours, 2 workers, lanes of 8"

_seat = partial(Seat, warm_again=False)  # a call takes a second: it needs no warming up


def loop(rollouts: int) -> Seat:
    """The yardstick."""
    plain = Plain(ANT)
    transitions = plain.play_all(range(rollouts))
    return _seat(lambda: plain.play_all(range(rollouts)), lambda: None, transitions)


def unconnected(rollouts: int) -> Seat:
    """Half of the rollouts in each of two processes that never wait for each other: what two cores can do."""
    transitions, half, pair = Plain(ANT).play_all(range(rollouts)), rollouts // 2, Unconnected(serve)
    parts = [(ANT, list(range(half))), (ANT, list(range(half, rollouts)))]
    return _seat(lambda: pair.ask(parts), pair.close, transitions)


def ours(plan: Any, rollouts: int, **options: Any) -> Seat:
    """`Collector`, kept from call to call."""
    collector = collector_of(ANT, plan, **options)
    transitions = collector.collect(rollouts, iteration=0).steps
    return _seat(lambda: collector.collect(rollouts, iteration=0), collector.close, transitions)


def ours_here(rollouts: int) -> Seat:
    """The same with the policy in the main process, and a message per step."""
    from paceline import Plan

    return ours(Plan("process", 2, agents="here"), rollouts)


def source(workers: int, rollouts: int) -> Seat:
    """The source design, rebuilt."""
    rebuilt = Source(ANT, workers)
    transitions = rebuilt.collect(rollouts)
    return _seat(lambda: rebuilt.collect(rollouts), rebuilt.close, transitions)


def gymnasium_async(envs: int, rollouts: int) -> Seat:
    """A loop over `AsyncVectorEnv`, one batched forward for all environments."""
    from gymnasium.vector import AsyncVectorEnv

    vector, steps = AsyncVectorEnv([partial(make, ANT)] * envs), rollouts * HORIZON // envs
    last, _ = vector.reset(seed=0)

    def collect() -> list[Any]:
        nonlocal last
        columns: list[list[Any]] = [[], [], [], [], []]
        for _ in range(steps):
            actions = act_rows(ANT, last)
            after, *outcome, _ = vector.step(actions)
            for column, value in zip(columns, (last, actions, *outcome), strict=True):
                column.append(value)
            last = after
        return [np.array(column) for column in columns]

    return _seat(collect, vector.close, steps * envs)


def sb3(kind: str, envs: int, rollouts: int) -> Seat:
    """`collect_rollouts` of Stable-Baselines3's on-policy algorithms; its policy answers with our network."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common import vec_env
    from stable_baselines3.common.policies import ActorCriticPolicy

    class Same(ActorCriticPolicy):
        def forward(self, obs: Any, deterministic: bool = False) -> Any:
            nothing = torch.zeros(len(obs))
            return actor(ANT)(obs), nothing, nothing

        def predict_values(self, obs: Any) -> Any:
            return torch.zeros(len(obs))

    options = {"start_method": "fork"} if kind == "SubprocVecEnv" else {}
    vector, steps = getattr(vec_env, kind)([partial(make, ANT)] * envs, **options), rollouts * HORIZON // envs
    algorithm = PPO(Same, vector, n_steps=steps, batch_size=steps * envs, device="cpu", seed=0)
    _, callback = algorithm._setup_learn(sys.maxsize)
    torch.set_num_threads(1)

    def collect() -> None:
        algorithm.collect_rollouts(algorithm.env, callback, algorithm.rollout_buffer, n_rollout_steps=steps)

    return _seat(collect, vector.close, steps * envs)


def torchrl(kind: str, rollouts: int) -> Seat:
    """TorchRL's collectors: `Collector` in here, `MultiSyncCollector` in two processes with a policy each."""
    from torchrl import collectors

    frames = rollouts * HORIZON
    options: dict[str, Any] = {"policy_factory": _torchrl_policy, "total_frames": -1, "device": "cpu"}
    envs: Any = _torchrl_env if kind == "Collector" else [_torchrl_env] * 2
    options |= {} if kind == "Collector" else {"num_threads": 1, "cat_results": "stack"}
    collector = getattr(collectors, kind)(envs, frames_per_batch=frames, **options)
    batches = iter(collector)
    return _seat(lambda: next(batches), collector.shutdown, frames)


def _torchrl_env() -> Any:
    from torchrl.envs import GymWrapper

    return GymWrapper(make(ANT), device="cpu")


def _torchrl_policy() -> Any:
    from tensordict.nn import TensorDictModule

    return TensorDictModule(actor(ANT), in_keys=["observation"], out_keys=["action"])


@dataclass(frozen=True)
class Contestant:
    """How a contestant is built from a number of rollouts, and what it needs that may not be there."""

    build: Callable[[int], Seat]
    package: str = "gymnasium"


_sb3 = partial(Contestant, package="stable_baselines3")
_torchrl = partial(Contestant, package="torchrl.collectors")

SOURCES = {f"source design, {count} workers": Contestant(partial(source, count)) for count in (2, 4)}
SCALE = {
    "Async, 2 envs": Contestant(partial(gymnasium_async, 2)),
    "Async, 8 envs": Contestant(partial(gymnasium_async, 8)),
    "SB3 Dummy, 8 envs": _sb3(partial(sb3, "DummyVecEnv", 8)),
    "SB3 Subproc, 2 envs": _sb3(partial(sb3, "SubprocVecEnv", 2)),
    "SB3 Subproc, 8 envs": _sb3(partial(sb3, "SubprocVecEnv", 8)),
    "TorchRL, in process": _torchrl(partial(torchrl, "Collector")),
    "TorchRL, 2 processes": _torchrl(partial(torchrl, "MultiSyncCollector")),
}
CONTESTANTS = {
    LOOP: Contestant(loop),
    INLINE: Contestant(partial(ours, 0)),
    TWO: Contestant(partial(ours, 2)),
    ROWS: Contestant(partial(ours, 2, policy=AntRows)),
    HERE: Contestant(ours_here),
    UNCONNECTED: Contestant(unconnected),
    **SOURCES,
    **SCALE,
}


def attend(line: TextIO, name: str, rollouts: int) -> None:
    """Builds, and serves slices."""
    contestant = CONTESTANTS[name]
    importlib.import_module(contestant.package)
    say(line, imported=name)
    sys.stdin.readline()
    serve_slices(line, contestant.build(rollouts), 0.0)


if __name__ == "__main__":
    _line, _order = own_line(), json.loads(sys.argv[1])
    try:
        attend(_line, **_order)
    except Exception as _error:
        say(_line, absent=" ".join(f"{type(_error).__name__}: {_error}".split())[:160])
        raise
