"""What an iteration of meta-training costs: with workers and without, its parts, and beside RecurrentPPO.

    python benchmarks/meta.py --quick                            # tiny: does it run, is anything far off?
    python benchmarks/meta.py [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

`recurrent` needs sb3-contrib: `pip install --no-deps --target DIR sb3-contrib`, and DIR on PYTHONPATH; without it its
row says so. See README.md for how to read the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from apart import Apart
from command import run as run_command
from quiet import Quiet, Row, Slices, figure_row, gain_row, interleave

POINT, ANT = "PointRobot-H20-v0", "AntDir-v0"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 9
    points: int = 64  # rollouts of an iteration of PointRobot, 40 steps each
    ants: int = 16  # of AntDir, up to 400 steps each
    updates: int = 16  # gradient steps of an iteration


QUICK = Sizes(rounds=3, points=8, ants=2, updates=2)


def iterations(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Whole iterations a second, collection and update, everything warm; and inline / 1 worker, inline / 2 workers.

    Each in a process of its own.
    """
    for name, rollouts in ((POINT, sizes.points), (ANT, sizes.ants)):
        given = (name, rollouts, sizes.updates)
        with (
            Apart(_iterating, *given, 0) as inline,
            Apart(_iterating, *given, 1) as one,
            Apart(_iterating, *given, 2) as two,
        ):
            slices = interleave(quiet, {"inline": inline, "one": one, "two": two}, sizes.rounds)
        label = f"iteration, {name}, {rollouts} rollouts, {sizes.updates} gradient steps"
        for place, found in zip(("inline", "1 worker", "2 workers"), slices.values(), strict=True):
            yield figure_row(f"{label}: {place}", _rates(found, 1), show=lambda rate: f"{rate:.2f}/s")
        yield gain_row(f"{label}: inline / 1 worker", slices["one"], slices["inline"])
        yield gain_row(f"{label}: inline / 2 workers", slices["two"], slices["inline"])


def _rates(slices: Slices, count: int) -> Slices:
    """So many of something in each slice: how many a second."""
    return Slices([count / seconds for seconds in slices.values], slices.clean)


@contextmanager
def _iterating(
    name: str, rollouts: int, updates: int, plan: int, agent: str = "memory"
) -> Iterator[Callable[[], float]]:
    with _loop(name, rollouts, updates, plan, agent) as loop:
        yield lambda: _seconds(loop.iterate)


@contextmanager
def _loop(name: str, rollouts: int, updates: int, plan: int, agent: str = "memory") -> Iterator[Any]:
    """A loop that has played two iterations, and is not evaluated."""
    from paceline.engine import Plan
    from paceline.meta.loop import Loop
    from paceline.meta.meta import job_of

    given = {"num_rollouts_per_iter": rollouts, "num_updates_per_iter": updates, "log_interval": 10**9, "seed": 1}
    given |= {"max_rollouts_per_task": 2, "num_train_tasks": None, "num_eval_tasks": 2, "num_init_rollouts_pool": 2}
    given |= {"n_env_steps_total": 10**12, "num_iters": None, "lag": 0, "lanes": min(32, rollouts), "device": "cpu"}
    with Loop(job_of(name, agent, None, **given), Plan.parse(plan)) as loop:
        loop.begin()
        for _ in range(2):
            loop.iterate()
        yield loop


def _seconds(do: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    do()
    return time.perf_counter() - begin


def shares(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Where the time of an iteration goes, inline: worlds and records, the forward of the policy, the update.

    Shares of wall time; each in a process of its own.
    """
    for name, rollouts in ((POINT, sizes.points), (ANT, sizes.ants)):
        parts = ("worlds and records", "forward", "update")
        for part in parts:
            with Apart(_sharing, name, rollouts, sizes.updates, part) as share:
                slices = interleave(quiet, {part: share}, sizes.rounds)
            yield figure_row(
                f"share of an iteration, {name}: {part}", slices[part], show=lambda part: f"{100 * part:.0f} %"
            )


@contextmanager
def _sharing(name: str, rollouts: int, updates: int, part: str) -> Iterator[Callable[[], float]]:
    from paceline.meta.agents import MemoryAgent

    spent, plain = [0.0], MemoryAgent.act_batch

    def timed(self: Any, *given: Any) -> Any:
        begin = time.perf_counter()
        acted = plain(self, *given)
        spent[0] += time.perf_counter() - begin
        return acted

    MemoryAgent.act_batch = timed  # type: ignore[method-assign]
    with _loop(name, rollouts, updates, 0) as loop:

        def share() -> float:
            spent[0], before = 0.0, loop.seconds["update"]
            whole = _seconds(loop.iterate)
            update = (loop.seconds["update"] - before) / whole
            return {"forward": spent[0] / whole, "update": update}.get(part, 1 - spent[0] / whole - update)

        yield share


def recurrent(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Wall time of a sample, collected and learned from, in one process: RecurrentPPO of SB3-contrib / ours.

    The same world and sizes: as many rollouts of 40 steps, an LSTM of 64, layers of 64 and 64, as many gradient steps
    on as many samples. Theirs does not begin a task with a rollout: its vector env draws one at each reset.
    """
    if find_spec("sb3_contrib") is None:
        yield Row(f"sample, {POINT}, LSTM: RecurrentPPO / ours", "absent", slices="sb3-contrib is not installed")
        return
    samples, given = sizes.points * 40, (POINT, sizes.points, sizes.updates)
    with Apart(_theirs, *given) as theirs, Apart(_iterating, *given, 0, "memory,cell=lstm") as ours:
        slices = interleave(quiet, {"ours": ours, "theirs": theirs}, sizes.rounds)
    row = gain_row(f"sample, {POINT}, LSTM, one process: RecurrentPPO / ours", slices["ours"], slices["theirs"])
    yield row
    for name in ("ours", "theirs"):
        rates = _rates(slices[name], samples)
        yield figure_row(f"samples per second, {name}", rates, show=lambda rate: f"{rate:.0f}/s")


@contextmanager
def _theirs(name: str, rollouts: int, updates: int) -> Iterator[Callable[[], float]]:
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    from paceline import make_env

    torch.set_num_threads(1)
    passes = max(1, updates // 4)
    layers = {"lstm_hidden_size": 64, "net_arch": [64, 64], "enable_critic_lstm": False, "shared_lstm": True}
    envs = DummyVecEnv([lambda: make_env(name, 2) for _ in range(rollouts)])
    batch = 40 * -(-rollouts // 4)
    given = {"n_steps": 40, "batch_size": batch, "n_epochs": passes, "policy_kwargs": layers, "seed": 1}
    model = RecurrentPPO("MlpLstmPolicy", envs, device="cpu", **given)

    def learn() -> float:
        return _seconds(lambda: model.learn(rollouts * 40, reset_num_timesteps=False))

    learn()
    yield learn
    envs.close()


_PACKAGES = ("paceline", "gymnasium", "mujoco", "numpy", "torch", "stable-baselines3", "sb3-contrib")

MEASURES: dict[str, Callable[[Quiet, Sizes], Iterator[Row]]] = {f.__name__: f for f in (iterations, shares, recurrent)}


if __name__ == "__main__":
    run_command("Meta", str(__doc__).partition("\n")[0], MEASURES, Sizes(), QUICK, _PACKAGES)
