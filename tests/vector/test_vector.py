"""make_vec against Gymnasium's SyncVectorEnv, which we did not write: everything must be equal, bit for bit."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
from envs import Count, Sampler, Settable
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import NormalizeObservation, RecordEpisodeStatistics
from hypothesis import given, settings
from hypothesis import strategies as st
from shm import named_memory

import paceline
from paceline import HERE, BadInput, Plan
from paceline.vector import make_vec

PLANS: dict[str, Any] = {
    "inline": 0,
    "thread": "thread",
    "process": 2,
    "with help": Plan("process", 2, helps=True),
    "with threads": Plan("process", 2, threads=3),
}


def same(ours: Any, theirs: Any, where: str = "") -> None:
    """Fails where two results differ: types of containers, dtypes, shapes, bytes."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs), where
        for key in theirs:
            same(ours[key], theirs[key], f"{where}/{key}")
    elif isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs), where
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, f"{where}/{number}")
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        same(list(ours), list(theirs), where)
    elif isinstance(theirs, np.ndarray | np.generic):
        assert np.asarray(ours).dtype == theirs.dtype, where
        assert np.asarray(ours).tobytes() == theirs.tobytes(), where
    elif hasattr(theirs, "nodes"):
        same(tuple(ours), tuple(theirs), where)
    else:
        assert ours == theirs, where


def both(fns: list[Callable[[], Any]], mode: AutoresetMode, plan: Any, **options: Any) -> tuple[Any, Any]:
    return make_vec(fns, plan=plan, autoreset=mode, **options), SyncVectorEnv(fns, autoreset_mode=mode)


def compare(ours: Any, theirs: Any, steps: int, seed: int, disturb: Callable[[int], None] = lambda _: None) -> None:
    same(ours.reset(seed=seed), theirs.reset(seed=seed))
    theirs.action_space.seed(seed)
    for turn in range(steps):
        actions = theirs.action_space.sample()
        disturb(turn)
        expected = theirs.step(actions)
        same(ours.step(actions), expected, f"step {turn}")
        over = expected[2] | expected[3]
        if theirs.autoreset_mode == AutoresetMode.DISABLED and over.any():
            # Their options are popped in place, so each gets a mask of its own.
            same(ours.reset(options={"reset_mask": over.copy()}), theirs.reset(options={"reset_mask": over.copy()}))


@pytest.fixture(params=PLANS)
def plan(request: pytest.FixtureRequest) -> Any:
    return PLANS[request.param]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_cartpole_is_the_same_in_every_mode(plan: Any, mode: AutoresetMode) -> None:
    ours, theirs = both([lambda: gymnasium.make("CartPole-v1")] * 5, mode, plan)
    with ours.pool:
        compare(ours, theirs, 120, seed=3)


def test_ants_of_mujoco_are_the_same_and_outlive_their_workers() -> None:
    """An info of nine numbers at every step, and nothing that could be pickled: after a death all is replayed."""
    ours, theirs = both([partial(gymnasium.make, "Ant-v5", max_episode_steps=12)] * 3, AutoresetMode.NEXT_STEP, 2)

    def kill_all(turn: int) -> None:
        for worker in ours.pool.workers if turn == 25 else ():
            os.kill(worker.pid, signal.SIGKILL)

    with ours.pool:
        compare(ours, theirs, 40, seed=3, disturb=kill_all)
        assert sum(event.kind == "lost" for event in ours.pool.events) == 2


LEAVES = st.sampled_from(
    [
        spaces.Box(-1, 1, (3,), np.float32),
        spaces.Box(0, 255, (2, 2, 3), np.uint8),
        spaces.Box(-1, 1, (), np.float64),
        spaces.Discrete(4),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiBinary((2, 2)),
    ]
)
ODD = st.sampled_from(
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(3)),
        spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(2)),
        spaces.OneOf([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
    ]
)


def nested(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(leaf, min_size=1, max_size=3)
    return (
        leaf
        | parts.map(lambda found: spaces.Tuple(found))
        | parts.map(lambda found: spaces.Dict({f"part {number}": part for number, part in enumerate(found)}))
    )


@settings(max_examples=25, deadline=None)
@given(
    seen=nested(LEAVES) | nested(LEAVES | ODD),
    actions=nested(LEAVES),
    mode=st.sampled_from(AutoresetMode),
    plan=st.sampled_from([0, 1, 2]),
    infos=st.sampled_from(["none", "numbers", "some"]),
    envs=st.integers(1, 4),
    seed=st.integers(0, 1000),
    kills=st.sets(st.integers(0, 19), max_size=2),
)
def test_any_spaces_modes_seeds_and_kills_are_the_same(
    seen: Any, actions: Any, mode: AutoresetMode, plan: int, infos: str, envs: int, seed: int, kills: set[int]
) -> None:
    ours, theirs = both([partial(Sampler, seen, actions, infos)] * envs, mode, plan)

    def disturb(turn: int) -> None:
        if turn in kills and plan:
            os.kill(ours.pool.workers[0].pid, signal.SIGKILL)

    with ours.pool:
        compare(ours, theirs, 20, seed, disturb)


def test_it_may_move_at_any_time() -> None:
    ours, theirs = both([lambda: gymnasium.make("CartPole-v1")] * 3, AutoresetMode.NEXT_STEP, 2)

    def disturb(turn: int) -> None:
        if turn % 25 == 24:
            ours.pool.move({turn // 25 % 3: (HERE, 0, 1)[turn % 3]})

    with ours.pool:
        compare(ours, theirs, 110, 7, disturb)


def test_spaces_and_metadata_are_those_of_gymnasium(plan: Any) -> None:
    fns = [partial(Sampler, spaces.Dict(a=spaces.Box(-1, 1, (2,)), b=spaces.Discrete(3)), spaces.Discrete(2))] * 3
    ours, theirs = both(fns, AutoresetMode.SAME_STEP, plan)
    with ours.pool:
        for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert ours.metadata == theirs.metadata
        assert (ours.num_envs, ours.render_mode) == (3, "rgb_array")
        ours.reset(seed=1)
        theirs.reset(seed=1)
        same(ours.render(), theirs.render())
        same(ours.call("double", 4), theirs.call("double", 4))
        ours.set_attr("mood", [1.0, 2.0, 3.0])
        assert ours.get_attr("mood") == (1.0, 2.0, 3.0)
        assert ours.np_random_seed == theirs.np_random_seed


def test_wrappers_of_gymnasium_work_on_top(plan: Any) -> None:
    fns = [lambda: gymnasium.make("CartPole-v1")] * 3
    ours, theirs = both(fns, AutoresetMode.NEXT_STEP, plan)
    with ours.pool:
        a, b = (NormalizeObservation(RecordEpisodeStatistics(env)) for env in (ours, theirs))
        same(a.reset(seed=5), b.reset(seed=5))
        for turn in range(80):
            actions = np.full(3, turn % 2)
            mine, his = a.step(actions), b.step(actions)
            mine[4].get("episode", {}).pop("t", None), his[4].get("episode", {}).pop("t", None)  # wall time
            same(mine, his)


@pytest.mark.parametrize("wrong", ["none", "scalar", "long"])
def test_what_does_not_fit_its_space_is_named(plan: Any, wrong: str) -> None:
    ours = make_vec([partial(Count, 0), partial(Count, 1, wrong)], plan=plan)
    with ours.pool:
        ours.reset(seed=0)
        ours.step(np.zeros(2, int))
        ours.step(np.zeros(2, int))
        with pytest.raises(BadInput, match="env 1 showed at step 3"):
            ours.step(np.zeros(2, int))


def test_nan_is_found_if_asked_for(plan: Any) -> None:
    ours = make_vec([partial(Count, 0, "nan")], plan=plan, check=True)
    with ours.pool:
        ours.reset(seed=0)
        ours.step(np.zeros(1, int))
        ours.step(np.zeros(1, int))
        with pytest.raises(BadInput, match="nan"):
            ours.step(np.zeros(1, int))


def test_an_env_that_raises_raises_as_itself(plan: Any) -> None:
    ours = make_vec([partial(Count, 0), partial(Count, 1, "raise")], plan=plan)
    with ours.pool:
        ours.reset(seed=0)
        ours.step(np.zeros(2, int))
        ours.step(np.zeros(2, int))
        with pytest.raises(ValueError, match="env 1 has had enough") as caught:
            ours.step(np.zeros(2, int))
        assert "env 1, at step 3 of episode 0 (seed 1)" in caught.value.__notes__


def test_actions_of_the_wrong_kind_are_refused(plan: Any) -> None:
    ours = make_vec([partial(Count, 0)] * 2, plan=plan)
    with ours.pool:
        ours.reset(seed=0)
        for bad in (np.zeros(3, int), np.zeros(2), [[0, 0]], 0):
            with pytest.raises(BadInput, match="actions"):
                ours.step(bad)
        ours.step([1, 1])


def trajectory(plan: Any, **options: Any) -> list[Any]:
    ours = make_vec([partial(Count, n) for n in range(3)], plan=plan, seed=4, **options)
    with ours.pool:
        seen = [ours.reset()]
        return seen + [ours.step(np.zeros(3, int)) for _ in range(20)]


def test_episodes_with_seeds_of_their_own_survive_a_death() -> None:
    expected = trajectory(0, reseed="episode")
    ours = make_vec([partial(Count, n) for n in range(3)], plan=2, seed=4, reseed="episode")
    with ours.pool:
        same(ours.reset(), expected[0])
        for turn, each in enumerate(expected[1:]):
            if turn % 5 == 4:
                os.kill(ours.pool.workers[turn % 2].pid, signal.SIGKILL)
            same(ours.step(np.zeros(3, int)), each, f"step {turn}")
    seeded = [each[0].tobytes() for each in expected]
    assert len(set(seeded)) == len(seeded)


def test_tasks_follow_env_and_episode(plan: Any) -> None:
    def infos(plan: Any) -> list[Any]:
        ours = make_vec([partial(Settable, n) for n in range(3)], plan=plan, seed=4, tasks=[10, 20, 30, 40])
        with ours.pool:
            _, first = ours.reset(options={"tasks": [1, 2, 3]})
            ours.set_tasks([5, 6, 7])
            kept = ours.get_attr("task")
            later = [ours.step(np.zeros(3, int))[4].get("task") for _ in range(20)]
            return [first["task"], kept, [task for task in later if task is not None]]

    first, kept, later = infos(plan)
    assert first.tolist() == [1, 2, 3]
    assert kept == (5, 6, 7)
    assert len(later) == 2
    assert {int(task) for tasks in later for task in tasks} <= {10, 20, 30, 40}
    same([first, kept, later], infos(0))


def test_a_task_without_a_setter_is_an_option() -> None:
    ours = make_vec([partial(Count, n) for n in range(2)], plan=0, seed=1)
    with ours.pool:
        assert ours.reset(options={"tasks": ["left", "right"]})[1]["task"].tolist() == ["left", "right"]


def test_without_a_seed_the_entropy_is_kept() -> None:
    first = make_vec([partial(Count, n) for n in range(2)], plan=0)
    with first.pool:
        seen = first.reset()
    again = make_vec([partial(Count, n) for n in range(2)], plan=0)
    with again.pool:
        assert again.seed != first.seed
        assert again.reset()[0].tobytes() != seen[0].tobytes()


def test_whoever_is_ready_may_be_taken_first(plan: Any) -> None:
    ours = make_vec([partial(Count, n) for n in range(4)], plan=plan)
    expected: dict[int, list[bytes]] = {n: [] for n in range(4)}
    theirs = SyncVectorEnv([partial(Count, n) for n in range(4)])
    theirs.reset(seed=2)
    for _ in range(12):
        for env, row in enumerate(theirs.step(np.zeros(4, int))[0]):
            expected[env].append(row.tobytes())
    with ours.pool:
        ours.reset(seed=2)
        found: dict[int, list[bytes]] = {n: [] for n in range(4)}
        ours.send(np.zeros(4, int))
        while min(len(rows) for rows in found.values()) < 12:
            seen, rewards, _, _, _, envs = ours.recv(2)
            assert len(seen) == len(rewards) == len(envs) == 2
            for env, row in zip(envs, seen, strict=True):
                found[env].append(row.tobytes())
            ours.send(np.zeros(len(envs), int), envs)
        assert {env: rows[:12] for env, rows in found.items()} == expected


def test_without_copies_arrays_are_written_again(plan: Any) -> None:
    ours = make_vec([partial(Count, 0)] * 2, plan=plan, copy=False)
    with ours.pool:
        ours.reset(seed=0)
        first, rewards = ours.step(np.zeros(2, int))[:2]
        assert first[0, 0] == 1
        rewards[:] = 7.0  # the caller's until the next step
        again = ours.step(np.zeros(2, int))[1]
        assert first[0, 0] == 2
        assert rewards.tolist() == again.tolist() != [7.0, 7.0]


def test_flags_that_are_lent_are_not_to_be_written(plan: Any) -> None:
    ours = make_vec([partial(Count, 0)] * 2, plan=plan, copy=False)
    with ours.pool:
        ours.reset(seed=0)
        for _ in range(3):
            _, _, ended, cut, _ = ours.step(np.zeros(2, int))
            for flags in (ended, cut):
                assert flags.dtype == np.bool_
                with pytest.raises(ValueError, match="read-only"):
                    flags[0] = True  # it would stay: an env that says nothing new writes nothing


def test_what_is_received_is_the_callers_own(plan: Any) -> None:
    ours = make_vec([partial(Count, 0)] * 2, plan=plan)
    with ours.pool:
        ours.reset(seed=0)
        ours.send(np.zeros(2, int))
        for array in ours.recv()[1:4]:
            assert array.flags.owndata
            array[:] = 1
        ended, cut = ours.step(np.zeros(2, int))[2:4]
        assert not ended.any()
        assert not cut.any()


def test_an_id_will_do() -> None:
    with make_vec("CartPole-v1", 3, plan=0, seed=1).pool as pool:
        assert len(pool.workers) == 1
    with pytest.raises(BadInput, match="how many"):
        make_vec("CartPole-v1")
    for options, words in (
        ({"autoreset": "later"}, "NextStep"),
        ({"reseed": "often"}, "episode"),
        ({"plan": -1}, "plan"),
    ):
        with pytest.raises(BadInput, match=words):
            make_vec("CartPole-v1", 2, **options)


@pytest.mark.parametrize("plan", [0, 2])
def test_journals_of_a_vector_take_no_more_memory(plan: int) -> None:
    """The journal is cut by snapshots; nothing else may grow, here or in the workers."""
    with make_vec("CartPole-v1", 4, plan=plan) as envs:
        envs.reset(seed=1)
        actions = np.ones(4, np.int64)
        processes = [psutil.Process(), *(psutil.Process(worker.pid) for worker in envs.pool.workers)]

        journal = envs.pool._crew.members[0].journal

        def after(rounds: int) -> list[int]:
            """So many rounds, and then on to the next snapshot."""
            number, before = 0, 0
            while number < rounds or len(journal) >= before:
                assert number < 200_000, "no snapshot was taken"
                number, before = number + 1, len(journal)
                envs.step(actions)
            return [process.memory_info().rss for process in processes]

        before, then = after(2_000), after(2_000)
        assert max(b - a for a, b in zip(before, then, strict=True)) < 24 << 20  # room for a journal, twice over
        named = named_memory(process.pid for process in processes[1:])
    assert [path for path in named if path.exists()] == []


def test_one_recipe_for_all_or_ids_in_a_list() -> None:
    with make_vec(partial(Count, 3), 2, plan=0) as envs:
        assert envs.get_attr("number") == (3, 3)
    with make_vec(["CartPole-v1", "CartPole-v1"], plan=0) as envs:
        assert envs.num_envs == 2


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((partial(Count, 0),), {}, "needs num_envs"),
        (([partial(Count, 0)], 3), {}, "num_envs=3, but there are 1 recipes"),
        (([partial(Count, 0)],), {"reed": "episode"}, "knows no option 'reed'"),
        (([3],), {}, "3 is no recipe"),
        (("CartPole-v1", 2), {"tasks": "abc"}, "tasks='abc'; give a list"),
        (("CartPole-v1", 2), {"tasks": []}, "give a list of tasks"),
    ],
)
def test_what_makes_no_sense_is_said(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make_vec(*arguments, **options)


def test_nobody_is_reset_while_stepping_or_received_from_while_not() -> None:
    with make_vec("CartPole-v1", 2, plan=0) as envs:
        envs.reset(seed=1)
        with pytest.raises(BadInput, match="without a send"):
            envs.recv()
        envs.send(np.ones(2, np.int64))
        with pytest.raises(BadInput, match="while envs are stepping"):
            envs.reset(seed=2)
        assert envs.recv()[-1].tolist() == [0, 1]


def test_an_env_that_raises_is_named(plan: Any) -> None:
    class Breaks(Count):
        def step(self, action: Any) -> Any:
            raise LookupError("broken")

    with make_vec([partial(Count, 0), partial(Count, 1), partial(Breaks, 2)], plan=plan) as envs:
        envs.reset(seed=0)
        with pytest.raises(LookupError, match="broken") as caught:
            envs.step(np.ones(3, np.int64))
        assert "in member 2 (key 2), step_rows()" in "".join(caught.value.__notes__)


class Fatal(Count):
    """Env 1 takes its process with it, at a reset that is told so and in the third step of its second episode."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.began = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.began += 1
        if options and self.number:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        answer = super().step(action)
        if self.number and self.began == 2 and self.steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


def test_an_env_that_is_lost_is_named_with_episode_seed_and_step() -> None:
    with make_vec([partial(Fatal, n) for n in range(2)], plan=Plan("process", 1, trust="data")) as envs:
        envs.reset(seed=[4, 7])
        for _ in range(9):  # six steps, and the next episode with its first two
            envs.step(np.ones(2, np.int64))
        told = "member 1 (key 1; env 1 after step 2 of episode 1 (seed 7)) lost its worker in step_rows() in 3 tries"
        with pytest.raises(paceline.WorkerLost, match=re.escape(told)) as caught:
            envs.step(np.ones(2, np.int64))
        assert caught.value.member == 1


def test_an_env_that_is_lost_in_a_reset_is_named_with_its_seed() -> None:
    with make_vec([partial(Fatal, n) for n in range(2)], plan=1) as envs:
        with pytest.raises(paceline.WorkerLost, match=r"member 1 \(key 1\) lost its worker in reset\(\)") as caught:
            envs.reset(seed=[4, 7], options={"fatal": True})
        assert "env 1 was to begin with seed 7" in caught.value.__notes__


def test_the_first_episode_has_a_task_too() -> None:
    def tasks(env: int, episode: int, rng: np.random.Generator) -> dict[str, int]:
        return {"goal": 10 * env + episode}

    with make_vec(partial(Settable, 0), 2, tasks=tasks, plan=0) as envs:
        envs.reset(seed=1)
        assert envs.get_attr("task") == ({"goal": 0}, {"goal": 10})
        envs.reset()
        assert envs.get_attr("task") == ({"goal": 1}, {"goal": 11})


class Misfit(Count):
    """Shows something else at the end of its third step."""

    def __init__(self) -> None:
        super().__init__(3)
        self.log: list[Any] = []

    def reset(self, **options: Any) -> Any:
        self.log.append("reset")
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        seen, reward, _, _, info = super().step(action)
        end = len(self.log) % 4 == 3
        self.log.append("end" if end else "step")
        return (np.zeros(7) if end else seen), reward, end, False, info


def test_an_episode_has_ended_even_if_its_last_observation_is_refused() -> None:
    with make_vec(Misfit, 1, plan=0) as envs:
        envs.reset(seed=1)
        actions = np.zeros(1, np.int64)
        for _ in range(2):
            envs.step(actions)
        with pytest.raises(BadInput, match="step 3"):
            envs.step(actions)
        envs.step(actions)
        assert envs.get_attr("log")[0] == ["reset", "step", "step", "end", "reset"]
