"""What parallel evaluation gains and costs, against unconnected processes, one after another, and the source design.

    python benchmarks/evaluate.py [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. See README.md for how to read the
table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from command import run
from crowd import Heavy, OneByOne, PickledEveryStep, Waiting
from quiet import Quiet, Row, gain_row, interleave, ratio_row
from unconnected import Unconnected

from paceline import Plan
from paceline.evaluate import evaluate
from paceline.policies import TorchNet
from paceline.rollout import Rollout
from paceline.team import Player, Setting, Team
from paceline.types import Mission
from paceline.worlds import MISSIONS, make_forage

SIX = ("forage", "forage-duel", "cleanup", "cleanup-24", "courier", "courier-maze")


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 7
    episodes: int = 24  # of one mission; the six share as many
    waiting_steps: int = 4
    steps: int = 60
    auto_episodes: int = 6


QUICK = Sizes(rounds=3, episodes=8, waiting_steps=2, steps=20, auto_episodes=2)


def timed(call: Callable[[], Any]) -> Callable[[], float]:
    def measure() -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return measure


# -- 1: missions and episodes --------------------------------------------------------------------------


def _play_alone(asked: tuple[tuple[str, ...], int, int]) -> None:
    missions, episodes, seed = asked
    evaluate(missions, "memory", episodes=episodes, seed=seed, plan=0, agents="off")


def spread(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Two workers / two unconnected sequential processes with half of the episodes each; our start included."""
    peer = Unconnected(_play_alone)
    peer.ask([(("forage-duel",), 1, 0)] * 2)
    for name, missions in (("one mission", ("forage",)), ("six missions", SIX)):
        each = max(2, sizes.episodes // len(missions) // 2 * 2)

        def ours(missions: tuple[str, ...] = missions, each: int = each) -> None:
            evaluate(missions, "memory", episodes=each, plan=2, agents="off")

        def theirs(missions: tuple[str, ...] = missions, each: int = each) -> None:
            peer.ask([(missions, each // 2, seed) for seed in (0, each // 2)])

        slices = interleave(quiet, {"ours": timed(ours), "theirs": timed(theirs)}, sizes.rounds)
        yield gain_row(
            f"efficiency, {name}: 2 unconnected processes / 2 workers", slices["ours"], slices["theirs"], 0.95
        )
    peer.close()


# -- 2 to 4: agents ------------------------------------------------------------------------------------


def episode(mission: Mission, factory: Any, mode: str, lanes: int = 8) -> float:
    """Seconds per step of one episode, without its start."""
    rollout = Rollout(mission)
    seats = rollout.seats()
    players = [Player("policy", factory)]
    with Team.seated(seats, players, [0] * len(seats), Setting(agents=mode, lanes=lanes), (mission.name, 0)) as team:
        return _per_step(rollout, team)


def _per_step(rollout: Rollout, team: Any) -> float:
    seen = rollout.begin(0)
    seen = rollout.step(team.act(seen)).observations  # the first step warms up
    begin = time.perf_counter()
    while not rollout.over:
        seen = rollout.step(team.act(seen)).observations
    return (time.perf_counter() - begin) / (rollout.episode.steps - 1)


def meadow(agents: int, steps: int) -> Mission:
    return Mission(f"forage of {agents}", make_forage, {"agents": agents, "steps": steps})


def waiting(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """64 agents whose policy waits 20 ms: one after another / on threads; auto / threads."""
    mission, longer = meadow(64, sizes.waiting_steps), meadow(64, 10 * sizes.waiting_steps)
    contestants = {
        "off": lambda: episode(mission, Waiting, "off"),
        "thread": lambda: episode(longer, Waiting, "thread"),
        "auto": lambda: episode(longer, Waiting, "auto"),
    }
    slices = interleave(quiet, contestants, sizes.rounds)
    yield gain_row("64 agents that wait 20 ms: one after another / threads", slices["thread"], slices["off"], 30)
    yield ratio_row("… auto / threads", slices["auto"], slices["thread"], 1.1)


def heavy(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """8 agents with 1 MB of state each: what a step costs more than here, source design / process mode."""
    mission = meadow(8, sizes.steps)

    def source() -> float:
        rollout = Rollout(mission)
        team = PickledEveryStep(rollout, Heavy, 2)
        try:
            return _per_step(rollout, team)
        finally:
            team.close()

    contestants = {
        "off": lambda: episode(mission, Heavy, "off"),
        "process": lambda: episode(mission, Heavy, "process"),
        "source": source,
    }
    slices = interleave(quiet, contestants, sizes.rounds)
    ours, theirs = slices["process"].minus(slices["off"]), slices["source"].minus(slices["off"])
    yield gain_row("8 agents with 1 MB each, overhead per step: source design / process mode", ours, theirs, 10)


def batch(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """32 seats of a network: seat by seat / in batches of 32."""
    mission = meadow(32, sizes.steps)
    contestants = {
        "batch": lambda: episode(mission, TorchNet, "batch", lanes=32),
        "single": lambda: episode(mission, OneByOne, "off"),
    }
    slices = interleave(quiet, contestants, sizes.rounds)
    yield gain_row("a step of 32 seats of a network: seat by seat / act_batch", slices["batch"], slices["single"], 2.5)


# -- 5: auto -------------------------------------------------------------------------------------------


def auto(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Auto / the best of the fixed modes, workload by workload."""
    many, few = sizes.auto_episodes * 4, sizes.auto_episodes
    workloads: list[tuple[str, Any, Any, int, list[tuple[Any, str]], float]] = [
        ("cheap policy, agents", meadow(8, 400), "greedy", few, [(0, "off")], 1.05),
        ("dear policy, agents of one episode", meadow(64, 400), "memory", 1, [(0, "off"), (0, "process")], 1.1),
        ("network, agents", meadow(32, 200), TorchNet, few, [(0, "off"), (0, "batch")], 1.1),
        ("episodes, cheap", meadow(2, 60), "greedy", few, [(0, "off"), (2, "off")], 1.1),
        ("episodes, dear", MISSIONS["forage"], "memory", many, [(0, "off"), (2, "off")], 1.1),
    ]
    for name, mission, policy, episodes, fixed, aim in workloads:
        contestants = {f"{plan} {mode}": _evaluation(mission, policy, episodes, plan, mode) for plan, mode in fixed}
        agents_only = name.endswith(("agents", "episode"))
        chosen: Any = Plan("inline", 1) if agents_only else "auto"
        contestants["auto"] = _evaluation(mission, policy, episodes, chosen, "auto" if agents_only else "off")
        slices = interleave(quiet, contestants, sizes.rounds)
        ours = slices.pop("auto")
        best = min(slices, key=lambda key: slices[key].median())
        yield ratio_row(f"{name}: auto / best fixed ({_place(best)})", ours, slices[best], aim)


def _evaluation(mission: Mission, policy: Any, episodes: int, plan: Any, agents: str) -> Callable[[], float]:
    return timed(lambda: evaluate(mission, policy, episodes=episodes, plan=plan, agents=agents))


def _place(key: str) -> str:
    plan, mode = key.split()
    return f"{plan} workers, agents {mode}" if plan != "0" else f"here, agents {mode}"


MEASURES: dict[str, Callable[[Quiet, Sizes], Iterator[Row]]] = {
    "spread": spread,
    "waiting": waiting,
    "heavy": heavy,
    "batch": batch,
    "auto": auto,
}


if __name__ == "__main__":
    about = str(__doc__).partition("\n")[0]
    run("Evaluation", about, MEASURES, Sizes(), QUICK, ("paceline", "numpy", "torch", "gymnasium"))
