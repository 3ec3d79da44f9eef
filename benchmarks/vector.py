"""How fast vectors of envs step: ours, those of Gymnasium, Stable-Baselines3 and TorchRL, and a plain loop.

    python benchmarks/vector.py --peers .bench [--quick] [--only WORKLOAD] [--markdown FILE] [--plot FILE]

`--peers` installs the peers, and us, into an environment of their own, and goes on in there. Steps per second of each
contestant, divided by those of a plain loop over the same envs in the same round of one interleaved run. Everything is
on in ours: infos, checks, journals, crash detection. Contestants that are not installed are named as absent.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from quiet import Quiet, Slices, interleave, machine, versions
from vector_envs import Bench

from paceline import Plan
from paceline.vector import make_vec

Step = Callable[[], Any]

WORKLOADS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "nano": (partial(Bench, "nano"), (2, 8, 32, 128)),
    "CartPole": (partial(gymnasium.make, "CartPole-v1"), (2, 8, 32, 128)),
    "cpu 0.1 ms": (partial(Bench, "cpu", 1e-4), (8, 32)),
    "cpu 1 ms": (partial(Bench, "cpu", 1e-3), (2, 8, 32)),
    "cpu 10 ms": (partial(Bench, "cpu", 1e-2), (8,)),
    "sleep 5 ms": (partial(Bench, "sleep", 5e-3), (8, 32, 128)),
    "image 84×84×4": (partial(Bench, "image"), (8, 32)),
    "skewed": (partial(Bench, "skewed", 2e-4), (32,)),
    "Ant": (partial(gymnasium.make, "Ant-v5"), (8,)),
}
ABSENT = "absent"
PEERS = ("torch==2.13.0", "torchrl>=0.14", "stable-baselines3>=2.4", "gymnasium[mujoco]>=1.1", "matplotlib>=3.8")
_TORCHRL_MOST = 32


def loop(make: Callable[[], Any], envs: int) -> tuple[Step, Step]:
    """The yardstick: a for loop."""
    all_of_them = [make() for _ in range(envs)]
    for number, env in enumerate(all_of_them):
        env.reset(seed=number)
    actions = [env.action_space.sample() for env in all_of_them]

    def step() -> None:
        for env, action in zip(all_of_them, actions, strict=True):
            _, _, ended, cut, _ = env.step(action)
            if ended or cut:
                env.reset()

    return step, lambda: [env.close() for env in all_of_them]


def gymnasium_like(kind: Callable[..., Any], make: Callable[[], Any], envs: int) -> tuple[Step, Step]:
    vector = kind([make] * envs)
    vector.reset(seed=0)
    actions = vector.action_space.sample()
    return lambda: vector.step(actions), vector.close


def sb3_like(kind: str, make: Callable[[], Any], envs: int) -> tuple[Step, Step]:
    from stable_baselines3.common import vec_env

    options = {"start_method": "fork"} if kind == "SubprocVecEnv" else {}
    vector = getattr(vec_env, kind)([make] * envs, **options)
    vector.seed(0)
    vector.reset()
    actions = np.array([vector.action_space.sample() for _ in range(envs)])
    return lambda: vector.step(actions), vector.close


def torchrl_like(make: Callable[[], Any], envs: int) -> tuple[Step, Step]:
    if envs > _TORCHRL_MOST:
        raise RuntimeError("a process with torch for each of them")
    from torchrl.envs import GymWrapper, ParallelEnv

    vector = ParallelEnv(envs, lambda: GymWrapper(make()), mp_start_method="fork")
    state = vector.rand_action(vector.reset())
    return lambda: vector.step_and_maybe_reset(state), vector.close


def ready_first(make: Callable[[], Any], envs: int) -> tuple[Step, Step]:
    """Half of the envs at a time, whoever is ready; a call is a whole round of steps."""
    vector = make_vec([make] * envs, plan=2)
    vector.reset(seed=0)
    action = vector.single_action_space.sample()
    vector.send(np.array([action] * envs))

    def step() -> None:
        done = 0
        while done < envs:
            *_, who = vector.recv(envs // 2)
            vector.send(np.array([action] * len(who)), who)
            done += len(who)

    return step, vector.close


CONTESTANTS: dict[str, Callable[[Callable[[], Any], int], tuple[Step, Step]]] = {
    "loop": loop,
    "ours, auto": partial(gymnasium_like, partial(make_vec, plan="auto")),
    "ours, 1 worker and here": partial(gymnasium_like, partial(make_vec, plan=Plan("process", 1, helps=True))),
    "ours, 2 workers": partial(gymnasium_like, partial(make_vec, plan=2)),
    "ours, first ready": ready_first,
    "Sync": partial(gymnasium_like, SyncVectorEnv),
    "Async": partial(gymnasium_like, AsyncVectorEnv),
    "SB3 Dummy": partial(sb3_like, "DummyVecEnv"),
    "SB3 Subproc": partial(sb3_like, "SubprocVecEnv"),
    "TorchRL Parallel": torchrl_like,
}


def per_step(step: Step, envs: int, seconds: float) -> Callable[[], float]:
    """Seconds per env step over one slice."""

    def run() -> float:
        begin, count = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            step()
            count += 1
        return (time.perf_counter() - begin) / count / envs

    return run


def measure(name: str, envs: int, quiet: Quiet, rounds: int, seconds: float) -> dict[str, Slices | str]:
    make, _ = WORKLOADS[name]
    steps: dict[str, Callable[[], float]] = {}
    found: dict[str, Slices | str] = {}
    with contextlib.ExitStack() as stack:
        for contestant, build in CONTESTANTS.items():
            if contestant == "ours, first ready" and name != "skewed":
                continue
            try:
                step, close = build(make, envs)
            except Exception as error:
                found[contestant] = f"{ABSENT} ({type(error).__name__})"
                continue
            stack.callback(close)
            warm = time.perf_counter()
            # Auto measures first, and then moves: what a vector of some length does is what comes after that.
            while time.perf_counter() - warm < (3.0 if contestant == "ours, auto" else 1.5 * seconds):
                step()
            steps[contestant] = per_step(step, envs, seconds)
        found.update(interleave(quiet, steps, rounds))
    return found


def table(results: dict[tuple[str, int], dict[str, Slices | str]]) -> str:
    names = list(CONTESTANTS)
    lines = [["workload", "envs", "loop, µs per step", *names[1:]], ["---"] * (len(names) + 2)]
    for (name, envs), found in results.items():
        base = found.get("loop")
        if not isinstance(base, Slices):
            lines.append([name, str(envs), str(base), *[""] * (len(names) - 1)])
            continue
        lines.append([name, str(envs), f"{base.median() * 1e6:.3g}", *(_cell(base, found.get(n)) for n in names[1:])])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(base: Slices, other: Slices | str | None) -> str:
    if not isinstance(other, Slices):
        return other or ""
    ratio = base.over(other)
    low, high = ratio.interval()
    return f"{ratio.median():.3g} [{low:.3g}, {high:.3g}]{' loaded' if ratio.loaded else ''}"


def plot(results: dict[tuple[str, int], dict[str, Slices | str]], path: Path) -> None:
    """Bars: how many times a plain loop each contestant is."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [(key, found) for key, found in results.items() if isinstance(found.get("loop"), Slices)]
    names = [name for name in CONTESTANTS if name != "loop"]
    figure, axes = plt.subplots(figsize=(10, 1.0 + 0.75 * len(rows)))
    for place, name in enumerate(names):
        for row, (_, found) in enumerate(rows):
            base, other = found["loop"], found.get(name)
            if isinstance(base, Slices) and isinstance(other, Slices):
                axes.barh(row + 0.1 * place, base.over(other).median(), 0.1, color=f"C{place}")
    axes.set_yticks([row + 0.3 for row in range(len(rows))], [f"{name}, {envs} envs" for (name, envs), _ in rows])
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel("steps per second, a plain loop = 1")
    handles = [plt.Rectangle((0, 0), 1, 1, color=f"C{place}") for place in range(len(names))]
    axes.legend(handles, names, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def go_on_in(directory: Path) -> None:
    """Installs everybody into an environment of their own, if that has not been done, and starts over in there."""
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        home = str(Path(__file__).resolve().parents[1])
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", home, *PEERS]
        subprocess.run([str(word) for word in command], check=True)
    rest = [word for word in sys.argv[1:] if word not in ("--peers", str(directory))]
    os.execv(python, [str(python), __file__, *rest])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few minutes: does it still run, is anything far off?")
    parser.add_argument("--only", choices=WORKLOADS, action="append", help="one workload; may be repeated")
    parser.add_argument("--peers", type=Path, help="an environment for the peers; made if it is not there")
    parser.add_argument("--markdown", type=Path, help="write the table to this file too")
    parser.add_argument("--plot", type=Path, help="draw it (needs 'paceline[report]')")
    parser.add_argument("--wait-quiet", type=float, default=120.0, help="seconds to wait for a quiet machine, in all")
    options = parser.parse_args()
    if options.peers:
        go_on_in(options.peers)
    names = options.only or list(WORKLOADS)
    rounds, seconds = (3, 0.2) if options.quick else (6, 0.5)
    quiet, results = Quiet(), {}
    for name in names:
        quiet.grant(options.wait_quiet / len(names))
        for envs in WORKLOADS[name][1]:
            print(f"{name}, {envs} envs …", file=sys.stderr, flush=True)
            results[name, envs] = measure(name, envs, quiet, rounds, seconds)
    facts = [*machine(), versions("paceline", "gymnasium", "stable-baselines3", "torchrl", "numpy", "mujoco")]
    text = "\n".join(["# Vectors", "", *(f"- {fact}" for fact in facts), "", table(results), ""])
    print(text)
    if options.markdown:
        options.markdown.write_text(text)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
