"""Training is a function of mission, learners, seed and timetable, wherever learners learn."""

from __future__ import annotations

import contextlib
import json
import os
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train_members import (
    Breaks,
    Careless,
    CarelessField,
    Changing,
    Counts,
    Dies,
    Explodes,
    Field,
    Light,
    Locked,
    Looks,
    NoLearner,
    Numbered,
    Odd,
    Restless,
    Slow,
    Sown,
    Stumbles,
    Tells,
    TwoRows,
    Unsaved,
    WithoutOne,
)

import paceline
from paceline import Mission, Plan, Trace, train
from paceline.engine import SharedArrays
from paceline.engine.randomness.isolation import Swapping
from paceline.learning.exactness import Exactness
from paceline.seeds import digest, env_seed
from paceline.testing import check_independence
from paceline.train import Training

FIELD = Mission("field", Field)
PLACES = [Plan("thread", 2), Plan("process", 1), Plan("process", 3), "auto"]


def counted(learner: Any = Counts, plan: Any = "inline", **more: Any) -> Training:
    return train(FIELD, learner, **{"epochs": 12, "train_interval": 2, "seed": 3, "plan": plan, **more})


def test_users_learners_have_one_digest_per_lag(backend: str) -> None:
    """Whatever the backend, the digest is inline's; lags differ."""
    plan = Plan(backend, 1 if backend == "inline" else 2)
    found = [counted(plan=plan, lag=lag).digest for lag in (0, 1, 2)]
    assert found == [counted(lag=lag).digest for lag in (0, 1, 2)]
    assert len(set(found)) == 3


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.parametrize("plan", PLACES, ids=str)
def test_stacked_learners_have_one_digest_per_lag(plan: Any, lag: int) -> None:
    """Agents in any number of parts, in any place, get the same bits."""

    def found(place: Any) -> str:
        return train("treasure_hunt,steps=10", "dqn,hidden=16", epochs=6, lag=lag, seed=13, plan=place).digest

    assert found(plan) == found("inline")


def test_lags_of_stacked_learners_differ() -> None:
    hunts = [
        train("treasure_hunt", epochs=12, train_interval=2, lag=lag, seed=13, plan="inline").digest for lag in (0, 1, 2)
    ]
    assert len(set(hunts)) == 3


def test_nothing_is_swapped_beside_threads_that_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap in main would look to them as if somebody drew; so worlds and policies that draw are refused, always."""
    swapped: list[str] = []
    swap = Swapping._swapped
    monkeypatch.setattr(Swapping, "_swapped", lambda *given: swapped.append(given[2]) or swap(*given))
    there = counted(epochs=80, lag=1, plan=Plan("thread", 2))  # so long that journals of those who act are shortened
    assert not {"begin", "load", "act", "step", "snapshot"} & set(swapped)
    assert there.digest == counted(epochs=80, lag=1).digest
    assert {"begin", "load", "act", "step", "snapshot"} <= set(swapped)
    careless = Mission("careless", CarelessField)
    with pytest.raises(paceline.SharedRandomness, match="use processes"):
        train(careless, Counts, epochs=3, lag=1, plan=Plan("thread", 1))


def test_delays_change_nothing() -> None:
    """Updates that take longer or shorter are published by their numbers."""
    for lag in (0, 1, 3):
        slow = counted(Slow, Plan("process", 3), lag=lag, train_interval=1)
        assert slow.digest == counted(lag=lag, train_interval=1).digest


def test_a_learner_that_is_killed_costs_no_bit(tmp_path: Path) -> None:
    for lag in (0, 2):
        mark = tmp_path / str(lag)
        died = counted(partial(Dies, mark), Plan("process", 2), lag=lag)
        assert mark.exists()
        assert died.digest == counted(lag=lag).digest
        assert any("rebuilding" in note for note in died.notes)


def test_every_due_update_runs_once_in_order_on_the_agents_own_rows() -> None:
    """23 epochs at an interval of 4 make five updates of each agent, none at the first epoch and none lost."""
    training = counted(epochs=23, train_interval=4, lag=1)
    lengths = {"agent_0": 2, "agent_1": 3, "agent_2": 4}  # agent i leaves after 2 + i steps
    for agent, length in lengths.items():
        mine = [update for update in training.updates if update.agent == agent]
        assert [(u.number, u.epoch, u.status) for u in mine] == [(n, 4 * n + 3, "run") for n in range(5)]
        assert [update.rows for update in mine] == [4 * length * (n + 1) for n in range(5)]
        assert [update.new for update in mine] == [4 * length] * 5
    assert training.count("run") == 15
    assert training.rewards.shape == (23, 3)


def test_updates_before_the_warmup_are_skipped_with_their_reason() -> None:
    training = counted(warmup=20, train_interval=1)
    skipped = [update for update in training.updates if update.agent == "agent_0" and update.status == "skipped"]
    assert [update.number for update in skipped] == list(range(9))
    assert skipped[0].reason == "warmup: 2 of 20 rows"
    assert skipped[0].figures == {}


def test_a_ring_keeps_the_newest_rows() -> None:
    """With a capacity windows are as long as that, whatever lies in between; results do not depend on the place."""
    small = partial(counted, epochs=40, train_interval=1, capacity=13, lag=2, max_turns=6)
    rows = [update.rows for update in small().updates if update.agent == "agent_2"]
    assert rows[:4] == [4, 8, 12, 13]
    assert set(rows[4:]) == {13}
    assert small(plan=Plan("process", 2)).digest == small().digest


def test_rings_that_grow_leave_no_memory_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it is not known how long an epoch can be, rings grow: each is in memory once, and a death costs no bit."""
    monkeypatch.setattr(import_module("paceline.train.filing"), "_ROOM", 8)
    others, found = memory_for_rows(), list[int]()
    run = partial(counted, epochs=30, train_interval=1, lag=2)
    dies = partial(Dies, tmp_path / "mark")
    grown = run(dies, Plan("process", 2), watcher=lambda _: found.append(len(memory_for_rows() - others)))
    assert set(found) == {3}
    monkeypatch.undo()
    assert grown.digest == run().digest


def memory_for_rows() -> set[int]:
    """What this process has open of it."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the list itself
            if "paceline-arrays" in os.readlink(f"/proc/self/fd/{number}"):
                found.add(os.stat(f"/proc/self/fd/{number}").st_ino)
    return found


def test_worlds_side_by_side_are_rows_of_one_agent() -> None:
    three = counted(worlds=3)
    assert three.totals.shape == (12, 3, 3)
    assert three.digest == counted(worlds=3, plan=Plan("process", 2)).digest != counted().digest


def test_the_worlds_of_a_training_start_as_those_of_no_other_seed() -> None:
    """The start of world w of epoch e follows from (seed, e, w), whatever else there is; other seeds share none."""
    found = [starts(seed=seed) for seed in (3, 4)]
    assert len(set(found[0] + found[1])) == 2 * 12 * 2
    assert all(0 <= start < 2**31 for start in found[0])
    assert starts(seed=3, worlds=1) == found[0][::2]
    assert starts(seed=3, lag=2, max_turns=3) == found[0]
    assert found[0] == [env_seed(3, "world", epoch, world) for epoch in range(12) for world in range(2)]


def starts(**more: Any) -> list[int]:
    """The seeds that worlds were reset with."""
    Sown.seeds.clear()
    train(Mission("field", Sown), Counts, **{"epochs": 12, "worlds": 2, "plan": "inline", **more})
    return list(Sown.seeds)


def test_several_updates_per_interval_and_shares_of_them() -> None:
    training = counted(updates_per_interval=4, priority={"agent_0": 0.5, "agent_2": 0}, lag=3, plan=Plan("process", 2))
    counts = {agent: sum(update.agent == agent for update in training.updates) for agent in training.agents}
    assert counts == {"agent_0": 12, "agent_1": 24, "agent_2": 0}
    same = counted(updates_per_interval=4, priority={"agent_0": 0.5, "agent_2": 0}, lag=3)
    assert training.digest == same.digest


def test_lag_is_measured_and_free_running_is_named() -> None:
    """The weights that act are behind by the lag, once there are so many updates; free of it nothing is promised."""
    lagged = counted(lag=2, plan=Plan("process", 2))
    assert lagged.lags[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]
    free = counted(Slow, Plan("process", 3), free_running=True)
    assert not free.reproducible
    assert free.count("run") == 18
    ratio = 18 / free.rows
    assert f"behind, {free.lags.max()} at the most; {ratio:.3g} updates per row" in str(free)
    assert "NOT reproducible" in str(free)
    assert free.as_dict()["reproducible"] is False


def test_versions_may_travel_as_weights() -> None:
    """A learner with weights and load plays as one whose snapshot travels."""
    assert np.array_equal(counted(Light, Plan("process", 2)).totals, counted().totals)


def test_a_version_is_loaded_with_its_number() -> None:
    """A learner that skips a version which it has already loaded misses none."""
    assert np.array_equal(counted(Numbered).totals, counted(Light).totals)


def test_extras_are_never_cut_to_the_type_of_the_first_epoch() -> None:
    with pytest.raises(paceline.BadInput, match="extra 'liked' of agent 'agent_0' was int64"):
        counted(Changing)


def test_policies_that_do_not_learn_may_sit_among_learners() -> None:
    mixed = {"agent_0": "random", "agent_1": Counts, "agent_2": "dqn,hidden=8"}
    training = counted(mixed)
    assert sorted(training.weights) == ["agent_1", "agent_2"]
    assert training.digest == counted(mixed, Plan("process", 2)).digest


def test_policies_that_answer_in_rows_may_sit_among_learners(tmp_path: Path) -> None:
    """A world is a row of a batch of `lanes`, wherever they act, and in a run that was stopped; networks are such."""
    mixed = {"agent_0": TwoRows, "agent_1": "dqn,hidden=8", "agent_2": Counts}
    tried = partial(counted, mixed, worlds=3, lanes=2)
    digest = tried().digest
    assert digest == tried(Plan("process", 2, agents="process")).digest
    with pytest.raises(ZeroDivisionError):
        tried(out=tmp_path, watcher=partial(stop_at, 5))
    assert tried(out=tmp_path, resume=True).digest == digest
    with pytest.raises(paceline.BadInput, match="there lanes is 2, and here 8"):
        counted(mixed, worlds=3, out=tmp_path, resume=True)
    net = torch.nn.Linear(2, 3)
    assert counted({**mixed, "agent_0": net}, epochs=2, worlds=2).count("run") == 2


def test_policies_may_act_in_processes_of_their_own() -> None:
    assert counted(plan=Plan("inline", 1, agents="process")).digest == counted().digest


def test_a_policy_that_is_killed_acts_on_as_it_was(tmp_path: Path) -> None:
    """What acting has changed in a copy is there after its process died, also if its journal was shortened before."""
    dies = partial(Restless, tmp_path / "mark")
    there = counted(dies, Plan("inline", 1, agents="process"), epochs=60)
    assert (tmp_path / "mark").exists()
    assert there.digest == counted(partial(Restless, None), epochs=60).digest


def test_journals_of_those_who_act_stay_short() -> None:
    """Observations that have been answered are not kept, whatever the number of epochs."""
    lengths: list[int] = []
    counted(epochs=200, train_interval=50, watcher=lambda trainer: lengths.append(journaled(trainer)))
    assert max(lengths) < 700  # calls of three agents and a world, of which there have been over 3,000


def journaled(trainer: Any) -> int:
    pools = trainer._actors._pool, trainer._worlds._pool
    return sum(len(member.journal) for pool in pools for member in pool._crew.members)


@pytest.mark.parametrize("plan", ["inline", Plan("process", 2), "auto"], ids=str)
def test_updates_under_way_when_an_agent_is_frozen_are_skipped(plan: Any) -> None:
    """The record says the same wherever learners live, and whenever main has looked at what they did."""
    frozen = counted(Breaks, plan, on_failure="freeze", lag=2)
    mine = [update.status for update in frozen.updates if update.agent == "agent_1"]
    assert mine == ["run", "run", "failed", "skipped", "skipped", "skipped"]


@pytest.mark.parametrize("plan", ["inline", Plan("process", 2)], ids=str)
def test_a_learner_that_fails_ends_the_run_or_is_frozen(plan: Any) -> None:
    with pytest.raises(RuntimeError, match="the ink ran out") as found:
        counted(Breaks, plan)
    assert any("update 2 of agent 'agent_1'" in note for note in found.value.__notes__)
    frozen = counted(Breaks, plan, on_failure="freeze")
    assert list(frozen.frozen) == ["agent_1"]
    mine = [update.status for update in frozen.updates if update.agent == "agent_1"]
    assert mine == ["run", "run", "failed", "skipped", "skipped", "skipped"]
    assert frozen.digest == counted(Breaks, on_failure="freeze").digest


@pytest.mark.parametrize("plan", ["inline", Plan("process", 2)], ids=str)
def test_an_update_that_fails_once_is_tried_again_from_where_it_began(plan: Any, tmp_path: Path) -> None:
    """Nothing of the first try is left; one that fails twice ends the run."""
    tried = counted(partial(Stumbles, tmp_path / "mark"), plan, on_failure="retry")
    assert (tmp_path / "mark").exists()
    assert tried.digest == counted().digest
    assert tried.count("run") == len(tried.updates)
    with pytest.raises(RuntimeError, match="the ink ran out"):
        counted(Breaks, plan, on_failure="retry")


@pytest.mark.parametrize("plan", ["inline", Plan("process", 1)], ids=str)
@pytest.mark.parametrize("learner", ["dqn,hidden=8", "ppo,hidden=8"])
def test_of_a_stack_only_the_agent_that_fails_is_frozen(learner: str, plan: Any) -> None:
    """The others of its stack become what they become beside a sound agent; without freeze the error names it alone."""
    spoilt = partial(counted, learner, plan, watcher=spoil, train_interval=1)
    with pytest.raises(RuntimeError) as found:
        spoilt()
    assert [note for note in found.value.__notes__ if "update" in note] == ["in update 4 of agent 'agent_1'"]
    frozen, sound = spoilt(on_failure="freeze"), counted(learner, train_interval=1)
    assert list(frozen.frozen) == ["agent_1"]
    assert [update.agent for update in frozen.updates if update.status == "failed"] == ["agent_1"]
    for agent in ("agent_0", "agent_2"):
        assert digest(frozen.weights[agent]) == digest(sound.weights[agent])
    assert frozen.losses["agent_0"] == sound.losses["agent_0"]


def test_a_run_with_a_frozen_agent_that_cannot_be_saved_is_saved_and_goes_on(tmp_path: Path) -> None:
    """It acts with its last weights, and they are saved; without freeze the error is raised."""
    asked = partial(counted, Unsaved, on_failure="freeze", out=tmp_path)
    with pytest.raises(ZeroDivisionError):
        asked(watcher=partial(stop_at, 8))
    resumed = asked(resume=True, plan=Plan("process", 2))
    assert list(resumed.frozen) == ["agent_1"]
    assert resumed.digest == counted(Unsaved, on_failure="freeze").digest
    with pytest.raises(RuntimeError, match="the paper is gone"):
        counted(Unsaved, out=tmp_path / "fails")


def spoil(trainer: Any) -> None:
    """Makes the actions of agent_1 in its ring such as there are none, those of the next epoch too."""
    if trainer.epoch == 4:
        ring = trainer.rings["agent_1"]
        ring.extend = partial(_extend_spoilt, ring, ring.extend)


def _extend_spoilt(ring: Any, extend: Any, columns: Any) -> None:
    extend(columns)
    ring.shared.arrays["actions"][: ring.count] = 99


def test_a_trace_shows_what_main_is_about_and_who_learns() -> None:
    """Phases of main have a row, and the workers of each pool rows of their own."""
    trace = Trace()
    counted(plan=Plan("process", 2), lag=1, trace=trace, epochs=4)
    phases = [span.name for span in trace.spans if span.kind == "phase"]
    assert [name for name in phases if name.startswith("collect")] == [f"collect epoch {number}" for number in range(4)]
    assert {name.split()[0] for name in phases} == {"publish", "collect", "train", "wait"}
    assert "wait for update 0 of agent 'agent_0'" in phases
    learning = {(span.pool, span.worker) for span in trace.spans if span.name == "learn" and span.kind == "call"}
    assert learning == {("learners", 0), ("learners", 1)}


def test_a_machine_that_does_not_keep_the_bits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the self-test finds is in the notes; here it finds nothing."""
    tried = partial(counted, {"agent_0": Counts, "agent_1": "dqn,hidden=8", "agent_2": "dqn,hidden=8"}, epochs=2)
    assert tried().notes == []
    broken = Exactness(False, ("agents alone: forward of 2 agents differ",))
    monkeypatch.setattr("paceline.learning.exactness.selftest", lambda *_, **__: broken)
    (note,) = tried().notes
    assert note.startswith("networks of agent_1, agent_2 do not keep their bits on this machine")
    assert note.endswith("agents alone: forward of 2 agents differ")


class Elsewhere(SharedArrays):
    """As it would be seen on another machine: no process there has that number."""

    def __reduce__(self) -> Any:
        make, (_, *place) = super().__reduce__()
        return make, (2**22 + 1, *place)


def test_learners_that_cannot_read_the_rows_are_told_before_anything_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("paceline.train.trainer"), "SharedArrays", Elsewhere)
    epochs: list[Any] = []
    with pytest.raises(paceline.BadInput, match=r"plan='process': a learner .* is it on this machine\?"):
        counted(plan=Plan("process", 1), watcher=epochs.append)
    assert epochs == []


def test_losses_are_told_by_agent_and_added_up() -> None:
    training = counted(epochs=4)
    assert training.summed_losses == [sum(training.losses[agent][n] for agent in training.agents) for n in range(2)]
    assert training.as_dict()["summed_losses"] == training.summed_losses


def test_numbers_that_are_none_are_told_with_agent_and_update() -> None:
    with pytest.raises(paceline.Diverged, match="update 2 of agent 'agent_1' diverged: its weights"):
        counted(Explodes)
    assert list(counted(Explodes, on_failure="freeze").frozen) == ["agent_1"]


def test_a_reward_that_is_no_number_is_told_with_agent_and_turn() -> None:
    seed = env_seed(3, "world", 0, 0)
    with pytest.raises(paceline.BadInput, match=rf"agent_2.* a reward of nan at its turn 1 of epoch 0 .*seed {seed}\b"):
        train(Mission("odd", Odd), Counts, epochs=3, seed=3, plan="inline")


def test_an_update_that_diverged_says_so_where_observations_are_no_numbers() -> None:
    odd = Mission("odd", partial(Odd, "observations"))
    with pytest.raises(paceline.Diverged, match=r"agent_2.* diverged: .*it was given observations that are not"):
        paceline.train(odd, "dqn,hidden=8", epochs=3, plan="inline")


def test_it_is_said_that_no_update_was_due() -> None:
    assert counted(epochs=3, train_interval=5).notes == [
        "no update was due: train_interval=5 is more than the 3 epochs that were played"
    ]
    assert counted(epochs=3, train_interval=3).notes == []


@pytest.mark.parametrize("wrong", [{"trace": "there.json"}, {"out": 5}])
def test_a_trace_is_a_trace_and_out_a_directory(wrong: dict[str, Any]) -> None:
    with pytest.raises(paceline.BadInput, match=f"^{next(iter(wrong))}="):
        counted(**wrong)


def test_no_learner_changes_when_another_agents_data_do() -> None:
    for learners in (Counts, Looks, "dqn,hidden=8", "ppo,hidden=8", "dqn,hidden=8,memory=4"):
        check_independence(FIELD, learners)
    check_independence(WithoutOne, "dqn,hidden=8")


def test_learners_that_share_what_they_have_seen_are_found() -> None:
    with pytest.raises(AssertionError, match="other rows of 'agent_0' changed the learners of agent_1, agent_2"):
        check_independence(FIELD, Tells)


def test_a_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """Stopped in any epoch and begun again, it ends with the bits of an undisturbed run."""
    for lag in (0, 2):
        out = tmp_path / str(lag)
        for stop in (3, 8):
            with pytest.raises(ZeroDivisionError):
                counted(out=out, lag=lag, resume=out.exists(), watcher=partial(stop_at, stop))
        resumed = counted(out=out, lag=lag, resume=True, plan=Plan("process", 2))
        assert resumed.digest == counted(lag=lag).digest
        assert counted(out=out, lag=lag, resume=True).digest == resumed.digest
        assert len(resumed.updates) == 18
    with pytest.raises(paceline.BadInput, match="holds another run"):
        counted(out=tmp_path / "0", seed=4, resume=True)


def test_epochs_that_a_checkpoint_has_are_on_disk_when_a_run_goes_on(tmp_path: Path) -> None:
    """A process can be killed between a checkpoint and the line of its last epoch."""
    with pytest.raises(ZeroDivisionError):
        counted(out=tmp_path, watcher=partial(stop_at, 5))
    file = tmp_path / "epochs.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    resumed = counted(out=tmp_path, resume=True)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(12))
    assert [sum(line["rewards"][0].values()) for line in lines] == resumed.totals.sum((1, 2)).tolist()


def test_auto_decides_anew_when_a_run_goes_on(tmp_path: Path) -> None:
    """Again once two intervals have been seen in this process; what a process before it took says nothing."""
    with pytest.raises(ZeroDivisionError):
        counted(out=tmp_path, watcher=partial(stop_at, 5))
    backends: list[str] = []
    resumed = counted(
        plan="auto", out=tmp_path, resume=True, watcher=lambda trainer: backends.append(trainer.places.plan.backend)
    )
    assert backends == ["auto"] * 2 + ["inline"] * 5  # from epoch 5 on; updates are due after 5, 7, 9 and 11
    assert resumed.digest == counted().digest


@pytest.mark.parametrize("plan", ["inline", Plan("process", 2, agents="process")], ids=["inline", "process"])
@pytest.mark.parametrize("learner", [Careless, partial(Restless, None)], ids=["process-wide", "own"])
def test_generators_go_on_where_they_were(learner: Any, plan: Any, tmp_path: Path) -> None:
    """Streams that learners, policies and worlds draw from are in a checkpoint, process-wide and own ones."""
    asked = {"mission": Mission("careless", CarelessField), "learners": learner, "epochs": 8, "seed": 3}
    with pytest.raises(ZeroDivisionError):
        train(**asked, out=tmp_path, plan=plan, watcher=partial(stop_at, 3))
    assert train(**asked, out=tmp_path, plan=plan, resume=True).digest == train(**asked, plan="inline").digest


def test_what_cannot_be_saved_of_a_policy_is_told(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        counted(Locked, out=tmp_path, watcher=partial(stop_at, 3))
    resumed = counted(Locked, out=tmp_path, resume=True)
    assert resumed.digest == counted(Locked).digest
    assert any("agent 'agent_0' is in no checkpoint" in note for note in resumed.notes)


def stop_at(epoch: int, trainer: Any) -> None:
    if trainer.epoch == epoch:
        trainer.checkpoint()
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"epochs": 0}, "epochs=0; give"),
        ({"lag": -1}, "lag=-1; give"),
        ({"worlds": 1.5}, "worlds=1.5; give"),
        ({"lanes": 0}, "lanes=0; give"),
        ({"seed": None}, "seed=None; give"),
        ({"worlds": None}, "worlds=None; give"),
        ({"warmup": None}, "warmup=None; give"),
        ({"turn": "ordered"}, "turn='ordered': mission 'field' is a PettingZoo parallel env"),
        ({"on_failure": "hope"}, "on_failure='hope'"),
        ({"capacity": 5, "max_turns": 6}, "capacity=5 rows are fewer than an interval"),
        ({"capacity": 3}, "capacity=3 rows are fewer than an interval of 1 epochs makes, 4"),
        ({"capacity": 6, "max_turns": 6, "priority": {"agent_2": 0.5}}, "2 epochs makes, 12: an update of 'agent_2'"),
        ({"capacity": 4, "priority": {"agent_2": 0.5}}, "of 2 epochs makes, 8: an update of 'agent_2'"),
        ({"priority": {"agent_9": 1}}, "priority names 'agent_9'"),
        ({"priority": ["agent_1"]}, "give a mapping from agents"),
        ({"deadline": "soon", "plan": 1}, "deadline='soon'; give"),
        ({"deadline": -1.0, "plan": 1}, "deadline=-1.0; give"),
        ({"free_running": "no"}, "free_running='no'; give"),
        ({"learners": NoLearner}, "has no learn, no snapshot, no restore"),
        ({"learners": "dqm"}, "'dqm' is no learner"),
        ({"learners": "dqn,hiden=3"}, "hiden"),
        ({"learners": {"agent_0": Counts}}, "agent_1 has none, agent_2 has none; the agents"),
        ({"learners": dict.fromkeys(["agent_0", "agent_1", "agent_2"], "random")}, "no agent learns"),
        ({"learners": "ppo", "lag": 1}, "accepts_lag"),
        ({"mission": "gym:Pendulum-v1", "learners": "dqn"}, "Discrete"),
        ({"resume": True}, "resume=True"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_starts(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        train(**{"mission": FIELD, "learners": Counts, "epochs": 3, "plan": "inline", **given})
