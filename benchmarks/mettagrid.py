"""What missions of mettagrid cost and gain: against upstream's runner, unconnected processes, and the source design.

    python benchmarks/mettagrid.py [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. See README.md for how to read the
table.
"""
# ruff: noqa: E402

from __future__ import annotations

import sys
from pathlib import Path

# This file has the name of the package that it measures: its directory goes to the end, so that the package is found.
_HERE = str(Path(__file__).resolve().parent)
sys.path[:] = [*(place for place in sys.path if place != _HERE), _HERE]

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

from apart import Apart
from command import run as run_command
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.policy.policy_spec import PolicySpec
from mettagrid.runner.rollout import run_multi_episode_rollout
from mettagrid.simulator.rollout import Rollout
from mettagrid_crowd import Each, Heavy, PickledEveryStep, Thinker
from quiet import Quiet, Row, Slices, gain_row, interleave, ratio_row
from unconnected import Unconnected

from paceline import Plan
from paceline.adapters.mettagrid import PerAgentProcessWrapper, WrappedMultiAgentPolicy
from paceline.adapters.mettagrid.missions import Asked, stand_in
from paceline.catalog import find_missions
from paceline.catalog.resolve import casts_of
from paceline.engine import Pool
from paceline.evaluate import evaluate
from paceline.evaluate.playing import play_episode
from paceline.evaluate.run import Job, Run
from paceline.team import Setting
from paceline.types import Mission


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 9
    share: float = 1.0  # of the ticks below
    episodes: int = 16
    steps: int = 300  # of each of these
    source_steps: int = 40
    auto_steps: int = 250
    auto_rounds: int = 7  # slices of seconds, four a round


QUICK = Sizes(rounds=3, share=0.3, episodes=4, steps=60, source_steps=10, auto_steps=60, auto_rounds=3)

SHORT = 20  # ticks of the short episode that is taken off the long one
MISSIONS: dict[str, tuple[str, int, int, float | None]] = {  # name → spec, agents, ticks, aim
    "market": ("mettagrid:market", 8, 200, 2),
    "machina_1 (stand-in)": ("machina_1", 8, 150, None),
    "arena": ("mettagrid:arena", 4, 1000, None),
    "empty room": ("mettagrid:empty_room", 4, 1500, 0.85),
}


def mission_of(spec: str, agents: int, steps: int) -> Mission:
    if spec == "machina_1":  # also where cogsguard, which has the real one, is installed
        return stand_in(spec, {}, Asked(agents, steps))
    return find_missions([spec], agents=agents, steps=steps)[0]


def timed(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# -- 1: a tick -----------------------------------------------------------------------------------------


def tick(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time per marginal tick, (long episode − short episode) / ticks between: upstream's runner / `evaluate` here.

    Each of the two in a process of its own.
    """
    for name, (spec, agents, ticks, aim) in MISSIONS.items():
        for policy in ("random", "noop"):
            asked = (spec, agents, max(40, int(ticks * sizes.share)), policy)
            with Apart(_ticking, _ours, *asked) as ours, Apart(_ticking, _upstream, *asked) as theirs:
                slices = interleave(quiet, {"ours": ours, "theirs": theirs}, sizes.rounds)
            label = f"CPU time of a tick, {name}, {agents} agents, {policy}: upstream's runner / ours"
            yield gain_row(label, slices["ours"], slices["theirs"], aim)


@contextmanager
def _ticking(
    play: Callable[[Mission, str], int], spec: str, agents: int, ticks: int, policy: str
) -> Iterator[Callable[[], float]]:
    short, long = (mission_of(spec, agents, steps) for steps in (SHORT, SHORT + ticks))

    def cpu(mission: Mission, steps: int) -> float:
        begin = time.process_time()
        played = play(mission, policy)
        seconds = time.process_time() - begin
        assert played == steps, f"{played} ticks, not {steps}"
        return seconds

    cpu(short, SHORT)  # imports, and what is made once

    yield lambda: (cpu(long, SHORT + ticks) - cpu(short, SHORT)) / ticks


def _ours(mission: Mission, policy: str) -> int:
    return evaluate(mission, policy, plan=0, agents="off").episodes[0].steps


def _upstream(mission: Mission, policy: str) -> int:
    config = mission.make.config  # type: ignore[attr-defined]
    result, _ = run_multi_episode_rollout(
        policy_specs=[PolicySpec(class_path=policy)],
        assignments=[0] * config.game.num_agents,
        env_cfg=config,
        episodes=1,
        seed=0,
        max_action_time_ms=10_000,
    )
    return result.episodes[0].steps


# -- 2: two workers against two processes that know nothing of each other --------------------------------


def spread(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Episodes of market: two unconnected sequential processes / two workers.

    First with everything warm: a pool that is kept between slices, and the calls that `evaluate` makes of it. Then
    whole calls of `evaluate`, which start their workers and end them.
    """
    mission = mission_of("mettagrid:market", 8, sizes.steps)
    each, numbers = sizes.episodes // 2, list(range(sizes.episodes))
    what = f"{sizes.episodes} episodes of market, 8 agents, {sizes.steps} steps"
    peer, run = Unconnected(_play_alone), _run_of(mission, sizes.episodes)
    with Pool([], backend="process", workers=2, seed=run.seed) as pool:

        def halves(whole: bool) -> None:
            peer.ask([(mission, numbers[:each], whole), (mission, numbers[each:], whole)])

        contestants = {
            "ours": lambda: timed(lambda: _play(pool, run, numbers)),
            "theirs": lambda: timed(lambda: halves(False)),
        }
        for call in contestants.values():
            call()
        slices = interleave(quiet, contestants, sizes.rounds)
    yield gain_row(f"efficiency, {what}, workers warm: 2 unconnected processes / 2 workers", *_pair(slices), 0.9)
    contestants = {
        "ours": lambda: timed(lambda: evaluate(mission, "random", episodes=sizes.episodes, plan=2, agents="off")),
        "theirs": lambda: timed(lambda: halves(True)),
    }
    slices = interleave(quiet, contestants, sizes.rounds)
    peer.close()
    yield gain_row("… whole calls of evaluate, the start of our 2 workers included", *_pair(slices))


def _run_of(mission: Mission, episodes: int) -> Run:
    players, casts = casts_of([mission], "random")
    return Run((mission,), players, episodes, 0, "cpu", Setting(agents="off"), casts)


def _play(pool: Pool, run: Run, numbers: Sequence[int]) -> None:
    """As `evaluate` plays them, here or on workers."""
    jobs = [Job(0, number) for number in numbers]
    for _, outcome in pool.stream(partial(play_episode, run), jobs, keys=[run.key(job) for job in jobs]):
        assert outcome.error is None, outcome.error
        assert outcome.answer[0].failure is None, outcome.answer[0].failure


def _play_alone(asked: tuple[Mission, list[int], bool]) -> None:
    mission, numbers, whole = asked
    if whole:
        evaluate(mission, "random", episodes=len(numbers), seed=numbers[0], plan=0, agents="off")
        return
    run = _run_of(mission, numbers[-1] + 1)
    with Pool([], seed=run.seed) as pool:
        _play(pool, run, numbers)


# -- 3: the source design --------------------------------------------------------------------------------


def source(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """A step of upstream's `Rollout` in an empty room of 8 agents: source design / our process wrapper; both / bare.

    Two workers each, started before the clock.
    """
    config = mission_of("mettagrid:empty_room", 8, sizes.source_steps + 1).make.config  # type: ignore[attr-defined]
    for name, made in (("1 MB of state each", Heavy), ("2 ms of computing each", Thinker)):
        contestants = {
            "ours": partial(_wrapped, config, made),
            "source": partial(_source, config, made),
            "bare": partial(_bare, config, made),
        }
        slices = interleave(quiet, contestants, sizes.rounds)
        ours, theirs, bare = slices["ours"], slices["source"], slices["bare"]
        yield gain_row(f"a step, 8 agents with {name}: source design / PerAgentProcessWrapper", ours, theirs)
        if made is Heavy:
            label = "… overhead over the bare policy: source design / PerAgentProcessWrapper"
            yield gain_row(label, ours.minus(bare), theirs.minus(bare))
        yield gain_row("… the bare policy / PerAgentProcessWrapper", ours, bare)
        yield gain_row("… the bare policy / source design", theirs, bare)


def _per_step(config: Any, agents: list[Any]) -> float:
    rollout = Rollout(config, agents, policy_group_keys=[0] * len(agents))
    rollout.step()  # starts the workers
    seconds = timed(rollout.run_until_done)
    return seconds / (config.game.max_steps - 1)


def _each(config: Any, made: Any) -> Each:
    return Each(PolicyEnvInterface.from_mg_cfg(config), made)


def _bare(config: Any, made: Any) -> float:
    policy = _each(config, made)
    return _per_step(config, [policy.agent_policy(number) for number in range(config.game.num_agents)])


def _wrapped(config: Any, made: Any) -> float:
    with WrappedMultiAgentPolicy(_each(config, made), PerAgentProcessWrapper) as policy:
        return _per_step(config, [policy.agent_policy(number) for number in range(config.game.num_agents)])


def _source(config: Any, made: Any) -> float:
    policy = _each(config, made)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        list(executor.map(abs, range(64)))
        agents = [PickledEveryStep(policy.agent_policy(number), executor) for number in range(config.game.num_agents)]
        return _per_step(config, agents)


# -- 4: auto ---------------------------------------------------------------------------------------------


def auto(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """One episode of 8 agents in an arena: agents="auto" / the better of "off" and "process".

    Where auto has played such a team before in the process, and where it has not (it goes by the mission's name).
    """
    for name, policy, longer in (("cheap (random)", "random", 4), ("dear (2 ms a step)", Thinker, 1)):
        mission = mission_of("mettagrid:arena", 8, sizes.auto_steps * longer)
        new = itertools.count()

        def play(agents: str, mission: Mission = mission, policy: Any = policy) -> float:
            return timed(lambda: evaluate(mission, policy, plan=Plan("inline", 1), agents=agents))

        contestants: dict[str, Callable[[], float]] = {mode: partial(play, mode) for mode in ("off", "process", "auto")}
        contestants["first"] = lambda play=play, mission=mission, new=new: play(  # type: ignore[misc]
            "auto", replace(mission, name=f"{mission.name} {next(new)}")
        )
        for call in contestants.values():
            call()
        slices = interleave(quiet, contestants, sizes.auto_rounds)
        best = min(("off", "process"), key=lambda mode: slices[mode].median())
        steps = sizes.auto_steps * longer
        what = f"an episode of {steps} steps, 8 agents, {name}: auto / best fixed (agents {best})"
        yield ratio_row(what, slices["auto"], slices[best], 1.1)
        yield ratio_row("… where auto has not played such a team before", slices["first"], slices[best], 1.1)
        yield gain_row("… agents off / agents process", slices["process"], slices["off"])


def _pair(slices: dict[str, Slices]) -> tuple[Slices, Slices]:
    return slices["ours"], slices["theirs"]


MEASURES: dict[str, Callable[[Quiet, Sizes], Iterator[Row]]] = {f.__name__: f for f in (tick, spread, source, auto)}


if __name__ == "__main__":
    about = str(__doc__).partition("\n")[0]
    run_command("Mettagrid", about, MEASURES, Sizes(), QUICK, ("paceline", "mettagrid", "numpy", "gymnasium"))
