"""The tools that ship to users: they find what is wrong, and the faults that they inject are real."""

import gc
import os
import pickle
import random
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv
from subjects import (
    Broken,
    Careless,
    Counter,
    Forgetful,
    Gambler,
    Masked,
    Noisy,
    NoReset,
    OldReset,
    OldStep,
    RaisesLate,
    SavedCounter,
    StandStill,
    Unsaved,
    Walk,
    WalkElsewhere,
    WalkInPlace,
    WalkOnGlobals,
    WalkThatRemembers,
    WalkUnseeded,
    WithoutSpaces,
    WrongTypes,
)

from paceline import Anew, BadInput, CallTimeout, Pool, WorkerLost, digest
from paceline.testing import check_env, check_policy, hang_at, kill_worker_at, raise_at, same_everywhere
from paceline.testing.envs import Trial, again
from paceline.testing.faults import Faulty

STEPS = 20

# -- same_everywhere -----------------------------------------------------------------------------------


def count(factory: Callable[[], Any], backend: str, workers: int, **options: Any) -> list[dict[int, int]]:
    with Pool([factory] * 3, backend=backend, workers=workers, **options) as pool:
        return [pool.call("add", {member: (amount + member,) for member in range(3)}) for amount in range(6)]


def test_a_job_is_the_same_everywhere() -> None:
    job = partial(count, Counter)
    assert same_everywhere(job) == digest(job("inline", 1))


def test_places_and_reference_are_the_callers() -> None:
    asked: list[tuple[str, int]] = []
    same_everywhere(lambda *place: asked.append(place), places=[("ray", 7)], reference="thread")
    assert asked == [("thread", 1), ("ray", 7)]


class Name(str):
    """Looks like any other string."""


@dataclass
class Result:
    name: str
    rewards: np.ndarray


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ({"a": [1, 2, {"b": 3}]}, {"a": [1, 2, {"b": 4}]}, "value['a'][2]['b'] is 4 there, and 3 on inline"),
        ({"a": 1}, {"a": 1, "b": 2}, "value['b'] is 2 there, and absent on inline"),
        ([1, 2], [1], "value[1] is absent there, and 2 on inline"),
        ((1,), [1], "value is [1] there, and (1,) on inline"),
        (1, True, "value is True there, and 1 on inline"),
        (1.0, np.float64(1.0), "value is np.float64(1.0) there, and 1.0 on inline"),
        (np.zeros((2, 2)), np.eye(2), "value[0, 0] is np.float64(1.0) there, and np.float64(0.0) on inline"),
        (np.zeros(2), np.zeros(2, np.float32), "value is array([0., 0.], dtype=float32) there"),
        ("red", Name("red"), "value is 'red' (Name) there, and 'red' (str) on inline"),
        (np.zeros(2), np.zeros(3), "value is array([0., 0., 0.]) there"),
        (Result("x", np.zeros(2)), Result("x", np.ones(2)), "value.rewards[0] is np.float64(1.0) there"),
        (Counter(1), Counter(2), "value.total is 2 there, and 1 on inline"),
    ],
)
def test_the_first_difference_is_named(right: Any, wrong: Any, told: str) -> None:
    with pytest.raises(AssertionError) as raised:
        same_everywhere(lambda backend, workers: wrong if (backend, workers) == ("process", 2) else right)
    assert str(raised.value).startswith("process with 2 workers gives another result than inline: ")
    assert told in str(raised.value)


def test_an_error_says_where_it_happened() -> None:
    def job(backend: str, workers: int) -> None:
        if backend == "process":
            raise KeyError("gone")

    with pytest.raises(KeyError) as raised:
        same_everywhere(job)
    assert raised.value.__notes__ == ["in process with 1 worker"]


# -- check_env -----------------------------------------------------------------------------------------


def verdicts(factory: Callable[[], Any]) -> dict[str, str]:
    return {finding.name: finding.sentence for finding in check_env(factory, steps=STEPS).problems}


def test_a_good_env_passes() -> None:
    report = check_env(partial(gymnasium.make, "CartPole-v1"), steps=STEPS)
    report.raise_for_problems()
    assert {finding.verdict for finding in report.findings} == {"ok"}
    assert report["again"].numbers == {"steps": STEPS}


@pytest.mark.parametrize(
    ("factory", "problems"),
    [
        (WithoutSpaces, {"spaces": "Its observation_space is None"}),
        (OldReset, {"reset": "reset() gave an array of float32 (2,)"}),
        (OldStep, {"step": "step() gave a tuple of 4"}),
        (RaisesLate, {"step": "step() raised ZeroDivisionError: late (at step "}),
        (WalkInPlace, {"close": "close() raised OSError: already closed", "aliasing": "first in step 1"}),
        (WalkElsewhere, {"process": "the observation of step 1 differs"}),
        (WalkThatRemembers, {"restart": "the observation of step 1 differs"}),
        (WalkUnseeded, dict.fromkeys(("again", "restart", "process"), "the observation of the first reset differs")),
    ],
)
def test_what_is_wrong_with_an_env_is_found(factory: Callable[[], Any], problems: dict[str, str]) -> None:
    found = verdicts(factory)
    assert found.keys() == problems.keys()
    assert all(words in found[name] for name, words in problems.items())


class NamesItsActions(gymnasium.Env[Any, Any]):
    """An env like others, which has names for its actions."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    action_names = ("left", "right")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.random(1).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in (0, 1)
        return self.np_random.random(1).astype(np.float32), 0.0, False, False, {}


def test_an_env_with_names_for_its_actions_is_still_an_env() -> None:
    assert check_env(NamesItsActions, 20).problems == ()


def test_every_wrong_type_of_a_step_is_told_once_and_raised_in_plain_words() -> None:
    with pytest.raises(AssertionError) as raised:
        check_env(WrongTypes, steps=STEPS).raise_for_problems()
    title, problem = str(raised.value).splitlines()
    assert title == "WrongTypes has 1 problem:"
    assert problem.startswith("  problem  step: The info of step() is []; it must be a dict (at step 1). ")
    assert [problem.count(word) for word in ("float64", "reward is None", "terminated is 0")] == [1, 1, 1]
    assert "truncated" not in problem


def test_an_env_that_draws_from_process_wide_generators_is_told_where_and_the_callers_stay() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tobytes()
    report = check_env(WalkOnGlobals, steps=STEPS)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before
    assert {p.name for p in report.problems} == {"generators", "again", "restart", "process"}
    assert report["generators"].numbers == {"constructor": ["numpy.random"], "step": ["random"]}
    assert report["generators"].sentence.startswith("It uses numpy.random and random in its constructor and step()")
    assert "self.np_random" in report["generators"].advice


def test_memory_that_is_returned_again_unchanged_is_a_warning() -> None:
    report = check_env(StandStill, steps=STEPS)
    assert (report["aliasing"].verdict, report.problems) == ("warning", ())


def test_a_recipe_that_cannot_be_sent_is_named_with_its_path() -> None:
    lock = threading.Lock()

    def locked() -> Walk:
        with lock:
            return Walk()

    found = verdicts(locked)
    assert found.keys() == {"sendable", "process"}
    assert "<closure lock>" in found["sendable"]


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seed": -1}])
def test_senseless_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadInput, match=next(iter(wrong))):
        check_env(Walk, **wrong)


def test_what_is_no_env_is_refused() -> None:
    with pytest.raises(BadInput, match=r"type int, which has no reset\(\) and no step\(\)"):
        check_env(lambda: 3)


class Duel(ParallelEnv):
    """Two agents; one leaves before the other."""

    metadata = {"name": "duel"}  # noqa: RUF012
    possible_agents = ["red", "blue"]  # noqa: RUF012

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0, 100, (1,), np.float64)

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.clock = 0
        return self.seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        self.clock += 1
        acting = list(self.agents)
        over = {"red": self.clock >= 3, "blue": self.clock >= 5}
        rewards = {agent: float(actions[agent]) for agent in acting}
        seen = self.seen()
        self.agents = [agent for agent in acting if not over[agent]]
        flags = {agent: over[agent] for agent in acting}
        return seen, rewards, flags, dict.fromkeys(acting, False), {agent: {} for agent in acting}

    def seen(self) -> Any:
        return {agent: self.rng.random(1) for agent in self.agents}


class DuelWithNewLuck(Duel):
    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=os.getrandom(1)[0] if seed is None else seed)


class StickyDuel(Duel):
    """Agents now and then do again what they did before, by a generator that a reset without a seed makes anew."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.luck, self.before = gymnasium.utils.seeding.np_random(seed)[0], dict[str, int]()
        return super().reset(seed, options)

    def step(self, actions: dict[str, int]) -> Any:
        again = {agent for agent in actions if self.luck.random() < 0.5}
        self.before = {agent: self.before.get(agent, act) if agent in again else act for agent, act in actions.items()}
        return super().step(self.before)


class StuckDuel(StickyDuel):
    """Its first episode has such a generator, too."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        answer = super().reset(seed, options)
        self.luck = np.random.default_rng()
        return answer


class DuelWithoutBlue(Duel):
    def step(self, actions: dict[str, int]) -> Any:
        seen, _, *rest = super().step(actions)
        return seen, {"red": 0.0}, *rest


def test_a_parallel_env_is_checked_too() -> None:
    report = check_env(Duel, steps=STEPS)
    report.raise_for_problems()
    assert "PettingZoo ParallelEnv" in report["spaces"].sentence


def test_the_second_episode_must_follow_from_the_seed_too() -> None:
    finding = check_env(DuelWithNewLuck, steps=STEPS)["again"]
    assert "the observation of the reset after step 5 differs" in finding.sentence
    assert "A reset() without a seed must go on with the generator it has" in finding.advice


@pytest.mark.parametrize(("env", "named"), [(StickyDuel, True), (StuckDuel, False)])
def test_a_reset_without_a_seed_is_named_wherever_it_shows(env: type[Duel], named: bool) -> None:
    """It may show some steps after that reset; whether it is to blame is seen by giving every reset a seed."""
    trial = Trial(env, 60, 0)
    finding = again(trial)
    assert re.search(r"the reward of step \d+ differs", finding.sentence)
    assert ("A reset() without a seed must go on" in finding.advice) == named
    assert ("make_vec(…, reseed='episode')" in finding.advice) == named


def test_trajectories_are_cut_short_where_steps_take_long() -> None:
    """All are as long as the first one got in its time; one step is always made."""
    trial = Trial(Duel, 60, 0, seconds=0.0)
    assert trial.steps == 1
    assert again(trial).sentence.endswith("it gives the same 1 step.")
    assert Trial(Duel, 60, 0).steps == 60


def test_a_parallel_env_must_reward_whoever_acted() -> None:
    assert "The reward is {'red': 0.0}" in verdicts(DuelWithoutBlue)["step"]


def test_masks_are_kept() -> None:
    assert verdicts(Masked) == {}


# -- check_policy --------------------------------------------------------------------------------------


BOX = spaces.Box(-1, 1, (3,), np.float64)


def test_a_good_policy_passes() -> None:
    report = check_policy(Noisy, [np.ones(3), np.zeros(3)])
    report.raise_for_problems()
    assert {f.name for f in report.findings} >= {"again", "restart", "process", "snapshot", "batch"}


@pytest.mark.parametrize(
    ("factory", "problems"),
    [
        (NoReset, {"api": "It has no reset"}),
        (Broken, {"api": "It raised ValueError: blind"}),
        (Forgetful, {"restart": "first in action 0"}),
        (Gambler, {"generators": "random in act()", "again": "", "restart": "", "process": "", "snapshot": ""}),
        (Careless, {"observations": "action 0", "snapshot": "first in action 16", "batch": "1 actions for 32"}),
        (Unsaved, {"snapshot": "only one of snapshot() and restore()"}),
    ],
)
def test_what_is_wrong_with_a_policy_is_found(factory: Callable[[], Any], problems: dict[str, str]) -> None:
    found = {finding.name: finding.sentence for finding in check_policy(factory, BOX).problems}
    assert found.keys() == problems.keys()
    assert all(words in found[name] for name, words in problems.items())


def test_a_policy_needs_observations() -> None:
    with pytest.raises(BadInput, match="no observations"):
        check_policy(Noisy, [])


# -- faults --------------------------------------------------------------------------------------------


def lost(factory: Callable[[], Any], **options: Any) -> tuple[list[dict[int, int]], list[str]]:
    """What a pool on processes gives, and what it says was lost."""
    with Pool([factory] * 3, backend="process", workers=2, **options) as pool:
        answers = [pool.call("add", {m: (amount + m,) for m in range(3)}) for amount in range(6)]
        return answers, [event.text for event in pool.events if event.kind == "lost"]


@pytest.mark.parametrize(
    ("how", "ending"),
    [
        ("SIGKILL", "killed by SIGKILL"),
        ("exit", "exit code 17"),
        ("segfault", "killed by SIG(SEGV|ABRT)"),  # pygame, where it is loaded, turns the one into the other
        ("abort", "killed by SIGABRT"),
    ],
)
def test_a_killed_worker_changes_nothing(how: str, ending: str) -> None:
    answers, deaths = lost(kill_worker_at(Counter, call=4, how=how))
    assert answers == count(Counter, "inline", 1)
    assert len(deaths) == 1
    assert re.search(ending, deaths[0])


@pytest.mark.parametrize("how", ["sleep", "spin", "gil"])
def test_a_hang_is_ended_and_changes_nothing(how: str) -> None:
    answers, deaths = lost(hang_at(Counter, call=4, how=how), deadline=0.5)
    assert answers == count(Counter, "inline", 1)
    assert "overran its deadline" in deaths[0]


def test_a_hang_that_comes_again_is_a_timeout() -> None:
    faulty = hang_at(Counter, call=2, times=None)
    with Pool([faulty], backend="process", deadline=0.5, restarts=2) as pool:
        assert pool.call("add", {0: (1,)}) == {0: 1}
        with pytest.raises(CallTimeout, match=r"member 0 .* add\(\)"):
            pool.call("add", {0: (1,)})


def test_a_fault_happens_so_many_times() -> None:
    answers, deaths = lost(kill_worker_at(Counter, call=4, times=2))
    assert (answers, len(deaths)) == (count(Counter, "inline", 1), 2)


def test_a_fault_that_always_happens_loses_the_worker() -> None:
    faulty = kill_worker_at(Counter, call=1, times=None)
    with Pool([faulty], backend="process") as pool, pytest.raises(WorkerLost, match="member 0"):
        pool.call("add", {0: (1,)})


def test_a_constructor_can_be_what_kills() -> None:
    answers, deaths = lost(kill_worker_at(Counter, call=1, method="__init__"))
    assert (answers, len(deaths)) == (count(Counter, "inline", 1), 1)


def test_only_the_named_method_is_counted() -> None:
    with Pool([kill_worker_at(Counter, call=1, method="anew")], backend="process") as pool:
        assert [pool.call("add", {0: (1,)})[0] for _ in range(3)] == [1, 2, 3]
        assert pool.events == []
        assert pool.call("anew", {0: (10,)}) == {0: 10}
        assert [event.kind for event in pool.events] == ["lost"]
        assert pool.call("add", {0: (1,)}) == {0: 11}


def test_a_snapshot_is_not_counted_and_is_restored_after_a_death() -> None:
    with Pool([kill_worker_at(SavedCounter, call=3)], backend="process") as pool:
        pool.call("add", {0: (1,)})
        pool.snapshot()
        # The rebuilt member starts from the snapshot, so its own third call is the fourth of all.
        assert [pool.call("add", {0: (1,)})[0] for _ in range(3)] == [2, 3, 4]
        assert [event.kind for event in pool.events] == ["lost"]


def test_a_port_is_served_through_a_death() -> None:
    def serve(factory: Callable[[], Any], backend: str) -> tuple[list[list[int]], int]:
        with Pool([factory] * 2, backend=backend, workers=2) as pool:
            port = pool.port("add_row", {"amount": ((), np.int64)}, {"total": ((), np.int64)})
            totals = []
            for amount in range(5):
                port.inputs["amount"][:] = amount
                port.post()
                port.wait()
                totals.append(port.outputs["total"].tolist())
            return totals, len(pool.events)

    faulty = kill_worker_at(Counter, call=3)
    assert serve(faulty, "inline") == (serve(Counter, "inline")[0], 0)
    assert serve(faulty, "process") == (serve(Counter, "inline")[0], 1)


def test_faults_stay_out_of_the_process_that_made_them() -> None:
    faulty = kill_worker_at(hang_at(raise_at(Counter, call=1), call=2), call=3)
    for backend in ("inline", "thread"):
        assert count(faulty, backend, 2) == count(Counter, "inline", 1)


def test_a_raise_comes_back_as_itself_and_again_in_replay() -> None:
    faulty = kill_worker_at(raise_at(Counter, call=2, error=LookupError("twice")), call=4)
    with Pool([faulty], backend="process") as pool:
        said = [pool.call("add", {0: (1,)}, outcomes=True)[0] for _ in range(4)]
        assert [event.kind for event in pool.events] == ["lost"]
    assert [outcome.answer for outcome in said] == [1, None, 2, 3]
    assert isinstance(said[1].error, LookupError)


def test_a_raise_can_be_had_here_too() -> None:
    def job(backend: str, workers: int) -> list[str]:
        with Pool([raise_at(Counter, call=2, here=True)], backend=backend, workers=workers) as pool:
            said = [pool.call("add", {0: (1,)}, outcomes=True)[0] for _ in range(3)]
        return [str(outcome.error or outcome.answer) for outcome in said]

    assert job("inline", 1) == ["1", "raise_at: call 2", "2"]
    same_everywhere(job, places=[("thread", 1), ("process", 1)])


def test_a_class_of_error_may_be_raised() -> None:
    member = raise_at(Counter, call=1, error=TimeoutError, here=True)()
    with pytest.raises(TimeoutError):
        member.add(1)


def test_the_member_is_the_same_but_for_the_fault() -> None:
    member = kill_worker_at(SavedCounter, call=1)()
    assert isinstance(member, SavedCounter)
    member.total = 5
    assert (member.total, member.add(1), member.snapshot()) == (5, 6, 6)
    assert type(member.anew(3)) is Anew
    assert pickle.loads(pickle.dumps(member)).total == 3
    del member.total
    assert not hasattr(member, "total")


@pytest.mark.parametrize("ability", ["snapshot", "restore", "close", "recall"])
def test_no_ability_is_added(ability: str) -> None:
    assert not hasattr(kill_worker_at(Counter, call=1)(), ability)


def test_a_faulty_env_is_still_an_env() -> None:
    env = gymnasium.wrappers.TimeLimit(kill_worker_at(Walk, call=9)(), 5)
    assert env.reset(seed=0)[0] in env.observation_space


def directory_of(faulty: Faulty) -> Path:
    return faulty._fault._directory


def test_the_count_is_private_and_goes_with_the_wrapper() -> None:
    faulty = kill_worker_at(Counter, call=1)
    directory = directory_of(faulty)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    copy = pickle.loads(pickle.dumps(faulty))
    del copy
    gc.collect()
    assert directory.is_dir()
    del faulty
    gc.collect()
    assert not directory.exists()


def test_the_count_goes_with_the_process() -> None:
    program = (
        "from paceline.testing import kill_worker_at\n"
        "faulty = kill_worker_at(dict, call=1)\n"
        "print(faulty._fault._directory)"
    )
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert not Path(answer.stdout.strip()).exists()


def test_a_recipe_that_is_gone_says_so() -> None:
    faulty = kill_worker_at(Counter, call=1)
    directory_of(faulty).rmdir()
    with (
        Pool([faulty], backend="process") as pool,
        pytest.raises(RuntimeError, match="keep it"),
    ):
        pool.call("add", {0: (1,)})


@pytest.mark.parametrize(
    "wrong",
    [
        partial(kill_worker_at, call=0),
        partial(kill_worker_at, call=1, times=0),
        partial(kill_worker_at, call=2, method="__init__"),
        partial(kill_worker_at, call=1, how="SIGTERM"),
        partial(hang_at, call=1, how="wait"),
    ],
)
def test_a_senseless_fault_is_refused(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(BadInput):
        wrong(Counter)
