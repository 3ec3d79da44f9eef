"""Rollouts are pure functions of (weights, task, seed, iteration, index), wherever they are played."""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from collect_members import (
    TASKS,
    Deadly,
    Dies,
    DrawnWeighs,
    Draws,
    DrawsNoise,
    Interrupts,
    Locked,
    Overwrites,
    Raises,
    RaisesWhile,
    Rowed,
    Sums,
    Unclosable,
    Weighs,
)
from sketch_members import Hidden, Remembers

import paceline
from paceline import BadInput, Collection, Collector, Plan, Pool, collect, schedule
from paceline.collect import costs, places
from paceline.engine.planning import budget


def remembered(env: Any = Hidden, plan: Any = 0, **more: Any) -> Collection:
    return collect(env, Remembers, 20, tasks=TASKS, episodes=2, seed=5, plan=plan, **more)


HERE = Plan("process", 2, agents="here")
PLACES = [1, 3, HERE, Plan("inline", agents="here"), "thread", "auto"]


def test_any_gymnasium_env_has_one_digest(backend: str) -> None:
    def found(plan: Any) -> str:
        make, policy = (lambda: gym.make("CartPole-v1")), (lambda obs: int(obs[2] > 0))
        return collect(make, policy, rollouts=12, seed=3, plan=plan).digest

    assert found(Plan(backend, 1 if backend == "inline" else 3)) == found("inline")


@pytest.mark.parametrize("plan", PLACES, ids=str)
def test_a_memory_has_one_digest_wherever_the_forward_is(plan: Any) -> None:
    assert remembered(plan=plan).digest == remembered().digest


@pytest.mark.parametrize("plan", [1, 3, Plan("process", 2, agents="here")], ids=str)
def test_an_env_that_draws_from_process_wide_generators_has_one_digest(plan: Any) -> None:
    drawn = remembered(Draws, plan)
    assert drawn.digest == remembered(Draws).digest != remembered().digest
    assert drawn.notes == ["rollouts draw from numpy.random, which they share: they were played one at a time"]


def test_a_policy_that_draws_from_process_wide_generators_has_one_digest() -> None:
    found = {
        collect(Hidden, DrawsNoise, 12, seed=5, plan=plan).digest for plan in (0, 2, Plan("process", 2, agents="here"))
    }
    assert len(found) == 1


def test_a_rollout_does_not_depend_on_its_neighbours() -> None:
    whole = remembered()
    with Collector(Hidden, Remembers, tasks=TASKS, episodes=2, seed=5, plan=0) as collector:
        alone = collector.collect(20, iteration=0, indices=[13])
    assert [rollout.index for rollout in alone] == [13]
    assert paceline.digest(alone[0].agents) == paceline.digest(whole[13].agents)


@pytest.mark.parametrize("plan", [0, 2, Plan("inline", agents="here")], ids=str)
@pytest.mark.parametrize("env", [Hidden, Draws], ids=["together", "alone"])
def test_rollout_i_has_row_i_mod_lanes(env: Any, plan: Any) -> None:
    """At all of its steps, whether the rows beside it are in use or not, and in a collection of some rollouts."""
    with Collector(env, Rowed, tasks=TASKS, episodes=2, seed=5, lanes=3, plan=plan) as collector:
        collected = [*collector.collect(8), *collector.collect(20, indices=[4, 7, 13, 17])]
    found = [set(rollout.columns["row"].tolist()) for rollout in collected]
    assert found == [{rollout.index % 3} for rollout in collected]


def test_the_workers_of_a_pool_play_beside_its_members_and_stay() -> None:
    """`pool=` changes no bit, a worker that dies loses neither rollouts nor members, and the pool stays open."""
    with Pool([deque, deque], backend="process", workers=2) as pool:
        pool.call("append", {0: (7,), 1: (7,)})
        with Collector(Hidden, Remembers, tasks=TASKS, episodes=2, seed=5, pool=pool) as collector:
            os.kill(pool.workers[1].pid, signal.SIGKILL)
            collected = collector.collect(20, iteration=0)
        assert collected.digest == remembered().digest
        assert set(collected.timing.busy) <= {worker.pid for worker in pool.workers}
        assert pool.call("count", {0: (7,), 1: (7,)}) == {0: 1, 1: 1}


def test_few_rollouts_are_dealt_to_all_workers() -> None:
    """Twelve rollouts in lanes of eight are three parts for three workers."""
    told: list[int] = []
    with Collector(Hidden, Remembers, tasks=TASKS, seed=5, plan=3) as collector:
        collector.collect(12, watcher=lambda done, _: told.append(done))
    assert told == [4, 8, 12]


def test_a_pool_takes_the_place_of_a_plan() -> None:
    """A plan beside a pool would be ignored: it is an error."""
    with Pool([]) as pool, pytest.raises(BadInput, match="so leave the plan out"):
        Collector(Hidden, Remembers, plan=2, pool=pool)


def test_reuse_and_other_numbers_of_rollouts_change_no_bit() -> None:
    assert remembered(reuse=True).digest == remembered().digest
    more = collect(Hidden, Remembers, 27, tasks=[*TASKS, *TASKS[:7]], episodes=2, seed=5, plan=2)
    assert paceline.digest([rollout.agents for rollout in more][:20]) == paceline.digest(
        [r.agents for r in remembered()]
    )


def test_seeds_iterations_and_lanes_are_part_of_a_rollout() -> None:
    with Collector(Hidden, Remembers, tasks=TASKS, seed=5, plan=0) as collector:
        first, second = collector.collect(4), collector.collect(4)
        again = collector.collect(4, iteration=1)
    assert first.digest == again.digest != second.digest
    starts = [rollout.columns["observations"][0, 1] for rollout in (*first, *second)]
    assert len(set(starts)) == 8


def test_a_worker_that_dies_in_mid_rollout_costs_no_bit(tmp_path: Path) -> None:
    for place, plan in enumerate((2, Plan("process", 2, agents="here"))):
        died = remembered(partial(Dies, tmp_path / str(place)), plan)
        assert died.digest == remembered().digest
        assert (tmp_path / str(place)).exists()


@pytest.mark.parametrize("plan", [0, 2, Plan("process", 2, agents="here")], ids=str)
def test_a_rollout_that_fails_is_told_and_the_others_are_kept(plan: Any) -> None:
    with pytest.raises(
        paceline.RolloutsFailed, match=r"1 of 20 .* rollout 10 by RuntimeError: the ground gave way"
    ) as found:
        remembered(Raises, plan)
    kept, whole = found.value.collection, remembered()
    assert list(kept.failures) == [10]
    assert np.isnan(kept.returns[10]).all()
    for rollout in kept:
        assert rollout.failure is not None or paceline.digest(rollout.agents) == paceline.digest(
            whole[rollout.index].agents
        )


@pytest.mark.parametrize("plan", [2, Plan("process", 2, agents="here")], ids=["worker", "here"])
def test_a_rollout_that_kills_every_worker_is_found_among_its_neighbours(plan: Any) -> None:
    with pytest.raises(paceline.RolloutsFailed) as found:
        remembered(Deadly, plan)
    failures = found.value.collection.failures
    assert list(failures) == [10]
    assert failures[10].kind == "WorkerLost"


@pytest.mark.parametrize("plan", [2, Plan("process", 2, agents="here")], ids=["worker", "here"])
def test_what_raises_costs_its_neighbours_nothing(plan: Any) -> None:
    """Rollouts that had ended before are kept, and only those in play beside it are played alone."""
    with Collector(Raises, Remembers, tasks=TASKS, episodes=2, seed=5, plan=plan, lanes=4) as collector:
        with pytest.raises(paceline.RolloutsFailed) as found:
            collector.collect(20, iteration=0)
        assert list(found.value.collection.failures) == [10]
        again = collector.collect(10, iteration=0)
    assert [rollout.digest for rollout in again] == [
        rollout.digest for rollout in collect(Hidden, Remembers, 10, tasks=TASKS, episodes=2, seed=5, lanes=4, plan=0)
    ]


@pytest.mark.parametrize("plan", [0, Plan("inline", agents="here")], ids=["worker", "here"])
def test_rollouts_that_had_ended_before_one_raises_are_not_played_again(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[float] = []
    reset = Raises.reset

    def counted(self: Raises, **keywords: Any) -> Any:
        begun.append(keywords["options"]["hidden"])
        return reset(self, **keywords)

    monkeypatch.setattr(Raises, "reset", counted)
    with pytest.raises(paceline.RolloutsFailed):
        remembered(Raises, plan, lanes=1)  # the chunk of rollout 10 begins with 8 and 9
    assert [begun.count(task.options["hidden"]) for task in TASKS[:10]] == [2] * 10  # its two episodes
    assert begun.count(TASKS[10].options["hidden"]) > 1


@pytest.mark.parametrize("plan", [0, 2, HERE, Plan("inline", agents="here"), "auto"], ids=str)
def test_an_environment_that_cannot_be_closed_costs_no_rollout(plan: Any) -> None:
    found = remembered(Unclosable, plan)
    assert found.digest == remembered().digest
    assert found.notes == ["close() of an environment raised RuntimeError: the door is stuck; its rollouts count"]


def test_weights_for_a_policy_that_takes_none_are_told() -> None:
    with (
        Collector(Hidden, lambda obs: np.zeros(1, np.float32), plan=0) as collector,
        pytest.raises(paceline.RolloutsFailed, match=r"the policy has no load\(version, weights\)"),
    ):
        collector.collect(2, weights={"weight": 1.0})


def test_workers_of_a_policy_that_is_here_last_from_one_iteration_to_the_next() -> None:
    """So do its environments and the policy itself, which gets the weights of each."""
    with Collector(Hidden, Weighs, tasks=TASKS, seed=5, plan=Plan("process", 2, agents="here")) as collector:
        first, second = (collector.collect(8, weights={"weight": weight}) for weight in (0.0, 0.25))
    assert set(first.timing.busy) == set(second.timing.busy)
    assert len(first.timing.busy) == 2
    assert os.getpid() not in first.timing.busy


@pytest.mark.parametrize("plan", [2, "auto", 0], ids=str)
def test_a_policy_that_cannot_be_sent_stays_here(plan: Any) -> None:
    found = collect(Hidden, partial(Locked, threading.Lock()), 20, tasks=TASKS, episodes=2, seed=5, plan=plan)
    assert found.digest == remembered().digest
    if plan == 2:
        assert (found.plan.agents, found.plan.workers) == ("here", 2)
        assert "cannot be sent to a worker" in found.plan.why


def test_auto_goes_to_workers_when_rollouts_take_long_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured rollouts are part of the result, and the next iteration begins in the workers."""
    monkeypatch.setattr(budget, "_current", budget.Budget(2, 2**33))
    monkeypatch.setattr(costs, "STARTING", -10.0)  # to start workers seems to gain time
    monkeypatch.setattr(schedule, "_LOOK", 0.0)
    monkeypatch.setattr(places, "WAITS_BELOW", 0.0)  # on a busy machine a short look seems to be all waiting
    monkeypatch.setattr(places, "prepare_workers", lambda: True)
    with Collector(Hidden, Remembers, tasks=TASKS, episodes=2, seed=5) as collector:
        first, second = collector.collect(20, iteration=0), collector.collect(20, iteration=0)
    assert first.digest == second.digest == remembered().digest
    assert (first.plan.backend, first.plan.workers) == ("process", 2)
    assert "a step takes" in first.plan.why
    assert os.getpid() not in second.timing.busy


@pytest.mark.parametrize("agents", ["worker", "here"])
def test_threads_that_play_are_counted(agents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a worker of its own, though they share a process."""
    monkeypatch.setattr(budget, "_current", budget.Budget(3, 2**33))
    timing = remembered(plan=Plan("thread", agents=agents)).timing
    assert len(timing.busy) == timing.workers > 1
    assert os.getpid() not in timing.busy


def test_where_the_time_went_is_told() -> None:
    timing = remembered().timing
    assert 0 < timing.environments < timing.wall
    assert 0 < timing.policy < timing.wall


def test_numbers_that_are_none_are_told() -> None:
    def sick(obs: Any) -> Any:
        return np.array([np.nan if obs[0] > 1 else 0.5], np.float32)

    notes = collect(Hidden, sick, 3, plan=0).notes
    assert notes == [
        f"{what} are NaN in 3 rollouts, first in rollout 0 after 2 steps" for what in ("actions", "rewards")
    ]


def test_a_task_of_another_kind_is_told_before_any_rollout_is_played() -> None:
    with pytest.raises(BadInput, match="is no task of this world: a task is a point") as found:
        collect("PointRobot-v0", tasks=[0.5], random_actions=True)
    assert not getattr(found.value, "__notes__", [])


def test_weights_are_published_to_every_worker() -> None:
    def rounds(plan: Any) -> list[str]:
        with Collector(Hidden, Weighs, tasks=TASKS, seed=5, plan=plan) as collector:
            return [collector.collect(16, weights={"weight": weight}).digest for weight in (0.0, 0.25, 0.25)]

    assert rounds(0) == rounds(3) == rounds(Plan("process", 2, agents="here"))
    assert len(set(rounds(0))) == 3


@pytest.mark.parametrize("plan", [0, 2, Plan("process", 2, agents="here")], ids=["inline", "worker", "here"])
def test_weights_with_which_no_rollout_could_be_played_are_forgotten(plan: Any, tmp_path: Path) -> None:
    """The policy plays with those before, or as it was built: also one that has served with the others."""
    mark = tmp_path / "raises"
    with Collector(partial(RaisesWhile, mark), Weighs, tasks=TASKS, seed=5, plan=plan) as collector:
        built = collector.collect(8, iteration=1).digest
        mark.touch()
        with pytest.raises(paceline.RolloutsFailed):
            collector.collect(8, iteration=1, weights={"weight": 0.25})
        mark.unlink()
        assert collector.collect(8, iteration=1).digest == built
        given = collector.collect(8, iteration=1, weights={"weight": 0.25}).digest
        assert given != built
        with pytest.raises(paceline.RolloutsFailed, match="KeyError"):
            collector.collect(8, iteration=1, weights={"none": 0.5})
        assert collector.collect(8, iteration=1).digest == given


def test_collectors_of_one_pool_do_not_play_with_the_weights_of_another() -> None:
    """They may find the same policy in the workers."""
    with Pool([], backend="process", workers=1) as pool:
        one, other = (Collector(Hidden, DrawnWeighs, tasks=TASKS, seed=5, pool=pool) for _ in range(2))
        built = one.collect(8, iteration=1).digest
        weighed = one.collect(8, iteration=1, weights={"weight": 0.25}).digest
        assert other.collect(8, iteration=1).digest == built != weighed
        assert one.collect(8, iteration=1).digest == weighed


def test_tapes_hold_episodes_final_observations_extras_and_start_states() -> None:
    rollout = remembered(plan=2)[8]
    columns, length = rollout.columns, 4 + int(0.4 * 4)
    assert columns["ends"].tolist() == [length - 1, 2 * length - 1]
    assert columns["final_observations"][:, 0].tolist() == [length, length]
    assert columns["observations"][:, 0].tolist() == [*range(length), *range(length)]
    assert columns["truncations"].sum() == 2
    assert len(columns["values"]) == rollout.steps == 2 * length
    assert columns["starts"].tolist() == [0]
    assert len(rollout.returns) == 2
    assert sum(rollout.returns) == pytest.approx(columns["rewards"].sum())


@pytest.mark.parametrize("plan", [0, "thread", 2, HERE, Plan("inline", agents="here")], ids=str)
def test_final_observations_stay_though_an_environment_writes_into_them_at_its_next_reset(plan: Any) -> None:
    """The next episode, or in an environment that is reused the next rollout, begins before they are recorded."""
    found = collect(Overwrites, random_actions=True, rollouts=6, tasks=TASKS, episodes=2, reuse=True, seed=5, plan=plan)
    for rollout in found:
        finals = rollout.columns["final_observations"]["seen"][:, 0]
        assert finals.tolist() == np.diff(rollout.columns["ends"], prepend=-1).tolist()


@pytest.mark.parametrize("plan", [0, 2, HERE], ids=str)
def test_rewards_and_ends_stay_though_an_environment_writes_into_them_at_its_next_reset(plan: Any) -> None:
    found = collect(Sums, random_actions=True, rollouts=3, episodes=2, reuse=True, seed=5, plan=plan)
    for rollout in found:
        for columns in rollout.agents.values():
            assert columns["rewards"].tolist() == [1, 2, 3, 1, 2, 3]
            assert columns["ends"].tolist() == [2, 5]


def test_views_for_learners() -> None:
    collection = remembered()
    flat, padded = collection.to_numpy(), collection.padded()
    assert len(flat["rewards"]) == collection.steps == padded["mask"].sum()
    assert np.array_equal(padded["observations"][padded["mask"]], flat["observations"])
    assert flat["rollout"].tolist() == [rollout.index for rollout in collection for _ in range(rollout.steps)]
    assert collection.returns.shape == (20, 2)


def test_a_collection_is_saved_and_read(tmp_path: Path) -> None:
    collection = remembered()
    again = Collection.load(collection.save(tmp_path / "kept"))
    assert again.digest == collection.digest
    assert [rollout.digest for rollout in again] == [rollout.digest for rollout in collection]
    assert [rollout.task for rollout in again] == [rollout.task for rollout in collection]
    with np.load(tmp_path / "kept.npz") as file:
        arrays = {**file, "r.99": np.zeros(1), "more": np.ones(2)}
    np.savez(tmp_path / "more.npz", allow_pickle=False, **arrays)
    with pytest.raises(paceline.BadInput, match=r"beside its rollouts it holds more, r\.99"):
        Collection.load(tmp_path / "more.npz")
    (tmp_path / "other.npz").write_bytes(b"no archive")
    with pytest.raises(paceline.BadInput, match="holds no collection"):
        Collection.load(tmp_path / "other.npz")
    with pytest.raises(paceline.BadInput, match="is not there"):
        Collection.load(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (None, []),
        (None, "text"),
        ("rollouts", [5]),
        ("rollouts", 5),
        ("rollouts", [[0, 1.0, {"strange": 1}]]),
        ("rollouts", [[0, 1.0, [1]]]),
        ("rollouts", [["0", 1.0, None]]),
        ("rollouts", [[0, "1.0", None]]),
        ("iteration", None),
        ("columns", 7),
        ("columns", ["list", [["value", 3]]]),
        ("columns", ["dict", [[[], ["value", 3]]]]),
        ("columns", ["list", []]),
        ("tasks", ["list", [["value", 3]]]),
        ("tasks", ["list", [["list", []]]]),
        ("tasks", ["array", {}]),
        ("digest", None),
        ("episodes", "x"),
        ("notes", 3),
    ],
    ids=str,
)
def test_what_is_told_of_a_collection_that_makes_no_sense(tmp_path: Path, part: str | None, value: Any) -> None:
    collection = collect(Sums, random_actions=True, rollouts=1, plan=0)
    with np.load(collection.save(tmp_path / "kept")) as file:
        arrays = dict(file)
    about = json.loads(arrays.pop("about").tobytes())
    about = value if part is None else {**about, part: value}
    np.savez(
        tmp_path / "other.npz", allow_pickle=False, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays
    )
    with pytest.raises(BadInput, match=r"other\.npz .*is damaged"):
        Collection.load(tmp_path / "other.npz")


@pytest.mark.parametrize("plan", [0, Plan("inline", agents="here")], ids=["worker", "here"])
def test_an_interrupt_keeps_the_rollouts_that_are_finished(plan: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        remembered(Interrupts, plan, out=tmp_path / "run")
    assert type(raised.value) is KeyboardInterrupt  # a script that it ends has the usual exit code
    kept, whole = Collection.load(tmp_path / "run"), remembered()
    assert {rollout.index for rollout in kept} >= set(range(12))
    assert [rollout.digest for rollout in kept] == [whole[rollout.index].digest for rollout in kept]


def test_tasks_for_evaluation_must_not_have_been_collected_on() -> None:
    with Collector(Hidden, Remembers, tasks=TASKS[:10], plan=0) as collector:
        collector.collect(10)
        assert len(collector.evaluate(TASKS[10:])) == 10
        with pytest.raises(paceline.BadInput, match=r"rollout 0, .* has been collected on before"):
            collector.evaluate(TASKS[:2])


def test_tasks_may_be_drawn_and_actions_too() -> None:
    with Collector(Hidden, random_actions=True, tasks=lambda rng: float(rng.uniform()), seed=5, plan=0) as collector:
        one, two = collector.collect(6, iteration=0), collector.collect(3, iteration=0)
    assert len(set(one.tasks)) == 6
    assert two.tasks == one.tasks[:3]
    assert len({rollout.columns["actions"][0, 0] for rollout in one}) == 6


@pytest.mark.parametrize("draw", [np.random.uniform, random.random], ids=["numpy", "random"])
def test_tasks_that_are_drawn_from_process_wide_generators_follow_from_the_seed_too(draw: Any) -> None:
    """As the source has it: `train_tasks[np.random.randint(len(train_tasks))]`."""

    def tasks(iteration: int, indices: Any = None) -> list[float]:
        with Collector(Hidden, random_actions=True, tasks=lambda rng: float(draw()), seed=5, plan=0) as collector:
            return collector.collect(6, iteration=iteration, indices=indices).tasks

    first = tasks(0)
    assert tasks(0) == first
    assert tasks(0, [4]) == first[4:5]
    assert len({*first, *tasks(1)}) == 12


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"env_fn": 3}, "3 is no mission"),
        ({"policy": 3}, "is no policy"),
        ({"rollouts": 0}, "rollouts=0; give"),
        ({"episodes": 0}, "episodes=0; give"),
        ({"lanes": 1.5}, "lanes=1.5; give"),
        ({"tasks": []}, "tasks is empty"),
        ({"random_actions": True}, "give one of them"),
        ({"plan": Plan("process", 2, agents="gpu")}, "agents='gpu'"),
        ({"env_fn": "nowhere"}, "nowhere"),
        ({"policy": None}, "no policy is given, and the default does not suit: the policy 'greedy'"),
        ({"seed": None}, "seed=None; give"),
        ({"seed": -1}, "seed=-1; give"),
        ({"tasks": 3}, "tasks=3: give a list of tasks"),
        ({"tasks": np.array(3.0)}, "give a list of tasks"),
        ({"tasks": {(0.0, 1.0)}}, "give a list of tasks"),
        ({"tasks": "many"}, "tasks='many': give train, eval, draw"),
        ({"device": None}, "device=None; give auto, cpu"),
        ({"trace": "trace.json"}, r"trace='trace.json'; give a Trace\(\)"),
    ],
)
def test_what_makes_no_sense_is_told(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        collect(**{"env_fn": Hidden, "policy": Remembers, "rollouts": 4, **given})


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda collector: collector.collect(4, iteration="first"), "iteration='first'; give"),
        (lambda collector: collector.collect(4, iteration=-1), "iteration=-1; give"),
        (lambda collector: collector.collect(4, indices=[4]), "from 0 to 3"),
        (lambda collector: collector.collect(4, indices=[1, 1]), "give each number once"),
        (lambda collector: collector.collect(4, indices=[0.5]), "give each number once"),
        (lambda collector: collector.collect(4, indices=2), "indices=2: give a list"),
        (lambda collector: collector.evaluate(3), r"evaluate\(tasks=3\): give a list of tasks, or 'train' or 'eval'"),
        (lambda collector: collector.evaluate("draw"), r"evaluate\(tasks='draw'\): give a list"),
        (lambda collector: collector.evaluate(lambda rng: 0.5), "give a list of tasks"),
    ],
)
def test_what_a_collector_cannot_play_is_told_and_changes_nothing(ask: Any, complaint: str) -> None:
    with Collector(Hidden, Remembers, tasks=TASKS, plan=0) as collector:
        with pytest.raises(BadInput, match=complaint):
            ask(collector)
        assert collector.collect(1).iteration == 1


@pytest.mark.parametrize("plan", [0, 2, HERE], ids=str)
def test_a_collector_that_is_playing_refuses_another_thread_and_goes_on(plan: Any) -> None:
    """As it refuses its own watcher."""
    refusals: list[BadInput] = []

    def asks(collector: Collector) -> None:
        for ask in (lambda: collector.collect(1), lambda: collector.evaluate(TASKS[:1])):
            try:
                ask()
            except BadInput as error:
                refusals.append(error)

    with Collector(Hidden, Remembers, tasks=TASKS, episodes=2, seed=5, plan=plan) as collector:

        def watcher(done: int, count: int) -> None:
            asks(collector)
            other = threading.Thread(target=asks, args=(collector,))
            other.start()
            other.join()

        assert collector.collect(20, iteration=0, watcher=watcher).digest == remembered().digest
        assert len(refusals) >= 4
        assert {str(error).partition(",")[0] for error in refusals} == {"this collector is playing rollouts already"}
        assert collector.collect(1).iteration == 1


def test_a_collector_that_has_been_closed_says_so() -> None:
    collector = Collector(Hidden, Remembers, tasks=TASKS, plan=0)
    collector.close()
    collector.close()
    for ask in (lambda: collector.collect(1), lambda: collector.evaluate(TASKS[:1])):
        with pytest.raises(paceline.Closed, match="the collector has been closed"):
            ask()


@pytest.mark.parametrize("name", ["evaluate", "collect"])
def test_jobs_are_functions_though_packages_bear_their_names(name: str) -> None:
    submodules = [path.stem for path in Path(importlib.import_module(f"paceline.{name}").__path__[0]).glob("*.py")]
    code = "\n".join(
        [f"import paceline.{name}.{module}" for module in submodules if module != "__init__"]
        + [f"import paceline.{name}", "import inspect, paceline", f"assert inspect.isfunction(paceline.{name})"]
    )
    subprocess.run([sys.executable, "-c", code], check=True)
