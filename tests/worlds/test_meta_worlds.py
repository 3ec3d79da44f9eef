"""The meta-RL worlds: a task is a value, `reset(seed, task)` makes a world as new, and each keeps its own rules."""

from __future__ import annotations

import math
import pickle
import random
import subprocess
import sys
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium

from paceline import digest
from paceline.errors import BadInput
from paceline.testing import check_env
from paceline.worlds.meta import Angles, Choice, Circle, Disk, HalfCircle, Interval, Square, TaskWorld, check_disjoint
from paceline.worlds.meta.registration import WORLDS

IDS = [env_id for env_id in WORLDS if not env_id.startswith("MetaWorld")]
POINTS = ["PointRobot-v0", "PointRobot-H20-v0", "PointRobotSparse-v0", "Wind-v0"]
DIRECTIONS = ["AntDir-v0", "AntDir2D-v0", "AntFwdBack-v0", "HumanoidDir-v0"]
HORIZONS = {"PointRobot-v0": 60, "PointRobot-H20-v0": 20, "PointRobotSparse-v0": 60, "Wind-v0": 75}
SIZES = {"HalfCheetahVel-v0": 20, "HalfCheetahDir-v0": 20, "AntDir-v0": 27, "AntGoal-v0": 107, "HumanoidDir-v0": 348}
OTHER_TASK = {"PointRobot-v0": (4.0, -7.0), "Wind-v0": (0.5, 0.5), "AntDir-v0": 0.3, "HalfCheetahDir-v0": 0.25}


def make(env_id: str, **options: Any) -> Any:
    """The world itself, without Gymnasium's wrappers."""
    return gymnasium.make(env_id, **options).unwrapped


def played(env: Any, steps: int = 12, seed: int = 0) -> list[Any]:
    """What an env answers to random actions."""
    rng = np.random.default_rng(seed)
    space = env.action_space
    return [env.step(rng.uniform(space.low, space.high).astype(space.dtype))[:4] for _ in range(steps)]


# -- tasks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", IDS)
def test_a_world_has_tasks_and_two_sets_of_them_that_share_none(env_id: str) -> None:
    env = make(env_id)
    assert isinstance(env, TaskWorld)
    assert env.horizon == HORIZONS.get(env_id, 200)
    assert env.reusable is True
    assert env.n_tasks == len(env.train_tasks) + len(env.eval_tasks)
    assert env.train_tasks
    keys = [env.tasks.key(task) for task in (*env.train_tasks, *env.eval_tasks)]
    assert len(set(keys)) == len(keys)
    env.reset(seed=0)
    for task in (*env.sample_tasks(3), *env.train_tasks[:2]):
        _, info = env.reset_task(task)
        assert info["task"] == env.task == task
        assert env.tasks.value(env.get_current_task()) == task


@pytest.mark.parametrize("env_id", ["PointRobot-v0", "HalfCheetahVel-v0"])
def test_the_sets_follow_from_the_numbers_and_the_task_seed_not_from_the_seed_of_a_reset(env_id: str) -> None:
    one, two = (make(env_id, num_train_tasks=5, num_eval_tasks=3) for _ in range(2))
    one.reset(seed=1)
    assert (one.train_tasks, one.eval_tasks) == (two.train_tasks, two.eval_tasks)
    assert (len(one.train_tasks), len(one.eval_tasks)) == (5, 3)
    assert make(env_id, num_train_tasks=5, task_seed=1).train_tasks != one.train_tasks


@pytest.mark.parametrize("env_id", ["PointRobot-v0", "Wind-v0", "AntDir2D-v0"])
def test_what_a_reset_draws_is_in_neither_set_even_with_the_same_seed(env_id: str) -> None:
    env = make(env_id, task_seed=5)
    drawn = {env.reset(seed=5)[1]["task"], *env.sample_tasks(200)}
    assert not drawn & {*env.train_tasks, *env.eval_tasks}


def test_the_directions_of_the_ants_are_those_of_their_ancestors() -> None:
    ant = make("AntDir-v0")
    assert (ant.train_tasks, ant.eval_tasks) == ((-1.0, 1.0), ())
    ant.reset(seed=0)
    assert set(ant.sample_tasks(30)) == {-1.0, 1.0}
    assert make("AntFwdBack-v0").train_tasks == (0.0, math.pi)
    assert all(0 <= task <= 2 * math.pi for task in make("AntDir2D-v0").train_tasks)
    many = make("AntDir-v0", num_train_tasks=50, num_eval_tasks=20)
    assert (len(many.train_tasks), len(many.eval_tasks), many.n_tasks) == (50, 20, 70)
    held_out = make("AntDir-v0", num_eval_tasks=4)
    assert (held_out.train_tasks, len(held_out.eval_tasks)) == ((-1.0, 1.0), 4)


@pytest.mark.parametrize("env_id", OTHER_TASK)
def test_any_value_of_its_kind_is_a_task(env_id: str) -> None:
    env, task = make(env_id), OTHER_TASK[env_id]
    for form in (task, np.array(task), list(task) if isinstance(task, tuple) else np.float32(task)):
        _, info = env.reset(seed=0, options={"task": form})
        assert info["task"] == pytest.approx(task)
        assert type(info["task"]) is type(task)


@pytest.mark.parametrize(
    ("env_id", "task"),
    [
        ("PointRobot-v0", 3),
        ("PointRobot-v0", (1.0, 2.0, 3.0)),
        ("PointRobot-v0", (1.0, math.nan)),
        ("AntDir-v0", (1.0, 2.0)),
        ("AntDir-v0", "1"),
        ("AntDir-v0", math.inf),
        ("AntDir-v0", {"goal": 1.0}),
    ],
)
def test_a_value_of_another_form_is_refused_and_changes_nothing(env_id: str, task: Any) -> None:
    env = make(env_id)
    env.reset(seed=0)
    before = env.task, env.np_random.bit_generator.state
    with pytest.raises(BadInput, match="is no task of this world: a task is"):
        env.reset(seed=1, options={"task": task})
    assert (env.task, env.np_random.bit_generator.state) == before


@pytest.mark.parametrize(
    ("env_id", "options", "hint"),
    [
        ("PointRobot-v0", {"train_tasks": [(0, 0)], "eval_tasks": [(1, 1), (0.0, -0.0)]}, r"\(0.0, -0.0\) is a train"),
        ("AntDir-v0", {"train_tasks": [1.0], "eval_tasks": [1.0 - 2 * math.pi]}, "is a train task and an eval task"),
        ("HalfCheetahDir-v0", {"num_eval_tasks": 1}, "has the tasks .* only"),
        ("PointRobot-v0", {"num_train_tasks": -1}, "num_train_tasks=-1 must be"),
        ("PointRobot-v0", {"num_train_tasks": 1, "train_tasks": [(0, 0)]}, "leave one of the two away"),
        ("PointRobot-v0", {"train_tasks": [0, 1]}, "not an index"),
        ("PointRobot-v0", {"horizon": 0}, "horizon=0"),
    ],
)
def test_sets_that_leak_or_make_no_sense_are_refused(env_id: str, options: dict[str, Any], hint: str) -> None:
    with pytest.raises(BadInput, match=hint):
        make(env_id, **options)


def test_a_set_is_drawn_without_repetition_or_refused() -> None:
    class Die(Interval):
        def sample(self, generator: np.random.Generator) -> float:
            return float(generator.integers(6))

    die, rng = Die(0, 6), np.random.default_rng(0)
    train = die.draw_set(4, rng)
    assert sorted((*train, *die.draw_set(2, rng, train))) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(BadInput, match="there are not 3 different tasks"):
        die.draw_set(3, rng, train)


def test_kinds_draw_from_their_range() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert 0 <= Interval(0, 3).sample(rng) <= 3
        assert Choice((2.0, 5.0)).sample(rng) in (2.0, 5.0)
        assert 0 <= Circle().sample(rng) <= 2 * math.pi
        assert max(map(abs, Square(0.08).sample(rng))) <= 0.08
        x, y = HalfCircle().sample(rng)
        assert y >= 0
        assert math.hypot(x, y) == pytest.approx(1)
        assert math.hypot(*Disk(3).sample(rng)) <= 3


def test_angles_a_turn_apart_are_one_task() -> None:
    check_disjoint(Circle(), [0.0, 1.0], [2.0, 3.0])
    for kind in (Circle(), Angles((0.0,))):
        with pytest.raises(BadInput, match="is a train task and an eval task"):
            check_disjoint(kind, [0.0], [2 * math.pi])


# -- episodes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", IDS)
def test_a_seeded_reset_with_a_task_makes_a_used_world_as_new(env_id: str) -> None:
    env, task = make(env_id), make(env_id).train_tasks[0]
    env.reset(seed=5)
    played(env, 9, seed=3)
    answers = []
    for world in (env, make(env_id), pickle.loads(pickle.dumps(make(env_id)))):
        start = world.reset(seed=7, options={"task": task})
        first = played(world)
        answers.append(digest([start, first, world.reset(), played(world), world.sample_tasks(2)]))
    assert len(set(answers)) == 1


@pytest.mark.parametrize("env_id", IDS)
def test_a_world_with_its_task_drawn_is_the_world_with_that_task_given(env_id: str) -> None:
    drawn, given = make(env_id), make(env_id)
    start, info = drawn.reset(seed=2)
    again, _ = given.reset(seed=2, options={"task": info["task"]})
    np.testing.assert_array_equal(start, again)
    assert digest([played(drawn), drawn.reset()]) == digest([played(given), given.reset()])


def test_which_resets_keep_the_task() -> None:
    env = make("PointRobot-v0")
    _, first = env.reset(seed=0)
    observation, info = env.reset()
    assert info["task"] == first["task"], "the next episode of the same task"
    assert env.reset(options={"task": None})[1]["task"] != first["task"], "one is drawn"
    assert env.reset_task()[1]["task"] != env.reset(seed=0)[1]["task"] == first["task"]
    assert env.reset_task((0.5, 0.5))[1]["task"] == env.reset()[1]["task"] == (0.5, 0.5)
    assert (env.reset()[0] != observation).any(), "start states go on"


@pytest.mark.parametrize("env_id", IDS)
def test_nothing_is_drawn_from_global_generators(env_id: str) -> None:
    before = digest(list(np.random.get_state())), digest(random.getstate())
    env = make(env_id)
    env.reset(seed=0)
    env.sample_tasks(3)
    env.reset_task()
    played(env, 3)
    assert (digest(list(np.random.get_state())), digest(random.getstate())) == before


def test_tasks_are_drawn_with_the_generator_that_is_given() -> None:
    env = make("PointRobot-v0")
    env.reset(seed=0)
    before = env.np_random.bit_generator.state
    drawn = [env.sample_tasks(3, np.random.default_rng(1)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert env.np_random.bit_generator.state == before


@pytest.mark.parametrize("env_id", ["PointRobotSparse-v0", "AntDir-v0"])
def test_it_is_fit_to_be_run_in_parallel(env_id: str) -> None:
    report = check_env(partial(gymnasium.make, env_id, horizon=15), steps=20)
    assert all(finding.verdict == "ok" for finding in report.findings), str(report)


@pytest.mark.parametrize("env_id", ["PointRobot-v0", "HalfCheetahDir-v0", "AntGoal-v0", "HumanoidDir-v0"])
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space:UserWarning")
@pytest.mark.filterwarnings("ignore:.*Box observation space m.*imum value is .*infinity:UserWarning")
def test_it_keeps_to_gymnasium(env_id: str) -> None:
    check_gymnasium(make(env_id), skip_render_check=True)


@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_is_cut_off_at_its_horizon_also_after_a_reset_of_the_task(env_id: str) -> None:
    env = gymnasium.make(env_id, horizon=3)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.unwrapped.reset_task(env.unwrapped.train_tasks[0])  # past Gymnasium's wrappers
    assert [env.step(env.action_space.sample())[3] for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize("env_id", [*SIZES])
def test_sizes_of_observations(env_id: str) -> None:
    env = make(env_id)
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (SIZES[env_id],)


@pytest.mark.parametrize("env_id", POINTS)
def test_a_step_or_a_task_before_the_first_reset_is_refused(env_id: str) -> None:
    env = make(env_id)
    with pytest.raises(BadInput, match="call reset"):
        env.step(np.zeros(2, np.float32))
    with pytest.raises(BadInput, match="call reset"):
        env.get_current_task()


def test_a_copy_made_in_mid_play_goes_on_the_same() -> None:
    env = make("Wind-v0")
    env.reset(seed=0)
    played(env, 5)
    other = pickle.loads(pickle.dumps(env))
    assert digest([played(env), env.reset()]) == digest([played(other), other.reset()])


# -- rules -------------------------------------------------------------------------------------------------


def test_the_point_is_rewarded_where_it_has_gone_and_no_wall_stops_it() -> None:
    env = make("PointRobot-v0", horizon=1000)
    env.reset(seed=0, options={"task": (0.0, 0.0)})
    env.position = (0.3, 0.4)
    observation, reward, *_ = env.step(np.array([-0.1, -0.1], np.float32))
    assert reward == pytest.approx(-math.hypot(0.2, 0.3))
    np.testing.assert_allclose(observation, [0.2, 0.3], rtol=1e-6)
    for _ in range(100):
        env.step(np.array([0.1, 5.0], np.float32))
    np.testing.assert_allclose(env.position, [10.2, 10.3], rtol=1e-6)


def test_the_sparse_point_is_rewarded_near_its_goal_only() -> None:
    env = make("PointRobotSparse-v0")
    env.reset(seed=0, options={"task": (0.0, 1.0)})
    for place, reward in (((0.0, 0.81), 1.0), ((0.0, 0.79), 0.0), ((0.0, 1.0), 1.0)):
        env.position = place
        assert env.step(np.zeros(2, np.float32))[1] == reward
        assert env.is_goal_state() == bool(reward)
    starts = np.array([env.reset()[0] for _ in range(300)])
    assert (starts >= [-1.5, -0.5]).all()
    assert (starts <= [1.5, 1.5]).all()
    assert (starts.min(0) < [-1.3, -0.4]).all()
    assert (starts.max(0) > [1.3, 1.4]).all()


def test_the_wind_blows_and_its_goal_is_fixed() -> None:
    env = make("Wind-v0")
    start, _ = env.reset(seed=0, options={"task": (0.05, -0.02)})
    assert start.tolist() == [0.0, 0.0]
    observation, reward, *_ = env.step(np.array([0.0, 0.1], np.float32))
    np.testing.assert_allclose(observation, [0.05, 0.08], rtol=1e-6)
    assert reward == 0.0
    env.position = (-0.05, 1.02)
    assert env.step(np.zeros(2, np.float32))[1] == 1.0


@pytest.mark.parametrize("env_id", DIRECTIONS)
def test_the_reward_is_for_the_velocity_along_the_angle(env_id: str) -> None:
    for task in (0.0, 2.5):
        env = make(env_id)
        env.reset(seed=0, options={"task": task})
        _, reward, _, _, info = env.step(np.full(env.action_space.shape, 0.1, np.float32))
        along = info["x_velocity"] * math.cos(task) + info["y_velocity"] * math.sin(task)
        parts = sum(value for name, value in info.items() if name.startswith("reward_"))
        weight = 1.25 if env_id == "HumanoidDir-v0" else 1.0
        assert info["reward_forward"] == pytest.approx(weight * along)
        assert reward == pytest.approx(parts)


def test_an_ant_that_walks_along_zero_is_gymnasiums_ant() -> None:
    """The world adds nothing to the body: with the usual direction rewards and states are those of Ant-v5."""
    theirs = gymnasium.make("Ant-v5", include_cfrc_ext_in_observation=False).unwrapped
    ours = make("AntDir-v0")
    np.testing.assert_array_equal(theirs.reset(seed=3)[0], ours.reset(seed=3, options={"task": 0.0})[0])
    for (one, reward, *ends), (other, same, *others) in zip(played(theirs), played(ours), strict=True):
        np.testing.assert_array_equal(one, other)
        assert reward == pytest.approx(same)
        assert ends == others


def test_the_cheetahs_are_rewarded_for_their_speed_and_their_direction() -> None:
    action = np.full(6, 0.5, np.float32)
    for env_id, task in (("HalfCheetahVel-v0", 2.0), ("HalfCheetahDir-v0", -1.0)):
        env = make(env_id)
        env.reset(seed=0, options={"task": task})
        observation, reward, terminated, _, info = env.step(action)
        velocity = info["x_velocity"]
        forward = -abs(velocity - 2.0) if env_id == "HalfCheetahVel-v0" else -velocity
        assert reward == pytest.approx(forward - 0.05 * 6 * 0.25)
        assert not terminated
        np.testing.assert_array_equal(observation[-3:], env.data.body("torso").xpos)


def test_the_goal_of_an_ant_is_measured_along_the_axes_and_an_ant_out_of_bounds_goes_on() -> None:
    env = make("AntGoal-v0")
    env.reset(seed=0, options={"task": (1.0, -2.0)})
    env.set_state(np.array([0, 0, 2.0, *env.init_qpos[3:]]), env.init_qvel)  # above the height of a healthy ant
    _, reward, terminated, _, info = env.step(np.zeros(8, np.float32))
    distance = abs(info["x_position"] - 1.0) + abs(info["y_position"] + 2.0)
    assert reward == pytest.approx(-distance + info["reward_contact"])
    assert not terminated


def test_an_ant_out_of_bounds_ends_its_episode() -> None:
    env = make("AntDir-v0")
    env.reset(seed=0)
    env.set_state(np.array([0, 0, 2.0, *env.init_qpos[3:]]), env.init_qvel)
    assert env.step(np.zeros(8, np.float32))[2] is True


# -- what is not installed ---------------------------------------------------------------------------------


def test_without_mujoco_the_points_work_and_the_others_say_what_to_install() -> None:
    program = """
import sys
sys.modules["mujoco"] = None
import gymnasium, paceline
gymnasium.make("PointRobot-v0").reset(seed=0)
try:
    gymnasium.make("AntDir-v0")
except paceline.BadInput as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert "pip install 'paceline[mujoco]'" in answer.stdout
