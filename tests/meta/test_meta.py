"""`meta`: learning to learn, one digest wherever rollouts are played and after every death, and references."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from meta_worlds import Blank, DiesOnce, Setless, Sick, WhichLever

import paceline
from paceline import BadInput, MetaTraining, Mission, Plan, collect, meta
from paceline.meta.finite import check_finite
from paceline.meta.references import references_for

POINT = "PointRobot-H20-v0"
SMALL: dict[str, Any] = {
    "num_iters": 2,
    "num_rollouts_per_iter": 12,
    "num_init_rollouts_pool": 4,
    "num_updates_per_iter": 3,
    "num_eval_tasks": 6,
    "lanes": 6,
    "seed": 5,
}


def small(env: Any = POINT, agent: str = "memory,memory=8,hidden=8", plan: Any = 0, **more: Any) -> MetaTraining:
    return meta(env, agent, plan=plan, **{**SMALL, **more})


@pytest.fixture(scope="module")
def undisturbed() -> MetaTraining:
    return small()


def test_a_memory_learns_which_lever_pays_and_uses_it_in_the_second_episode() -> None:
    """In seconds it is far better than random, and its second episode is nearly perfect."""
    learned = meta(
        WhichLever,
        "memory,memory=16,hidden=16",
        num_iters=25,
        num_rollouts_per_iter=32,
        num_init_rollouts_pool=32,
        ppo="lr=0.01",
        seed=1,
        plan=0,
    )
    first, second = learned.return_eval_episodes
    assert second > max(2.9, first)
    assert first + second > learned.random.sum(1).mean() + 1
    assert learned.notes == ["WhichLever has no tasks but the 2 for learning: it is evaluated on these"]


def test_an_agent_without_a_memory_learns_nothing_of_a_lever_that_it_is_not_shown() -> None:
    """The oracle knows the lever in the first episode; Markov gets half of what there is."""
    given: dict[str, Any] = {"num_iters": 12, "num_rollouts_per_iter": 32, "ppo": "lr=0.01", "seed": 1, "plan": 0}
    oracle, markov = (meta(WhichLever, f"{agent},hidden=16", **given) for agent in ("oracle", "markov"))
    assert min(oracle.return_eval_episodes) > 2.9
    assert sum(markov.return_eval_episodes) == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize(
    "plan", [1, 2, "auto", Plan("process", 2, agents="here"), Plan("inline", agents="here")], ids=str
)
def test_one_digest_of_weights_and_returns_wherever_rollouts_are_played(undisturbed: MetaTraining, plan: Any) -> None:
    found = small(plan=plan)
    assert found.digest == undisturbed.digest
    assert found.env_steps == undisturbed.env_steps == (4 + 2 * 12) * 40


def test_one_episode_of_a_task_is_enough() -> None:
    """An observation has no number then that says where an episode begins."""
    found = small(max_rollouts_per_task=1)
    assert found.returns.shape == (2, 12, 1)
    assert found.return_eval_episodes == [found.rows[-1]["metrics/return_eval_total"]]


def test_a_training_whose_steps_are_over_with_the_random_ones_says_so() -> None:
    found = small(num_iters=None, n_env_steps_total=100)
    assert (len(found.returns), found.rl_steps) == (0, 0)
    assert found.notes[0].startswith("nothing was learned: 4 rollouts of random actions took 160 steps already")


def test_the_seed_is_part_of_the_result(undisturbed: MetaTraining) -> None:
    assert undisturbed.digest != small(seed=6).digest


@pytest.mark.parametrize("agents", ["worker", "here"])
def test_a_worker_that_dies_costs_no_bit(tmp_path: Path, agents: str) -> None:
    there, mark = tmp_path / "there", tmp_path / agents
    there.touch()
    found = [
        small(Mission("dies", DiesOnce, {"mark": str(path), "horizon": 20}), plan=plan).digest
        for path, plan in ((there, 0), (mark, Plan("process", 2, agents=agents)))
    ]
    assert mark.exists()
    assert found[0] == found[1]


_KILLED = """
import os, signal, sys
from test_meta import small

def kill(loop):
    if loop.iteration == 2:
        loop.checkpoint()
    if loop.iteration == 3:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    small(out=sys.argv[1], watcher=kill, num_iters=4)
"""


def test_a_run_that_was_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    """Two iterations are in its checkpoint, three have been played; it ends as one that was never disturbed."""
    script, out = tmp_path / "killed.py", tmp_path / "run"
    script.write_text(_KILLED)
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    words = [sys.executable, str(script), str(out)]
    assert subprocess.run(words, env={**os.environ, "PYTHONPATH": path}).returncode == -signal.SIGKILL
    gone_on = small(out=out, resume=True, num_iters=4)
    assert gone_on.digest == small(num_iters=4).digest
    lines = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    assert [row["z/iteration"] for row in gone_on.rows] == [line["z/iteration"] for line in lines] == [1, 2, 3, 4]
    assert small(out=out, resume=True, num_iters=4).digest == gone_on.digest


def test_a_run_that_was_stopped_before_its_first_checkpoint_begins_again(
    tmp_path: Path, undisturbed: MetaTraining
) -> None:
    def interrupt(loop: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small(out=tmp_path, watcher=interrupt)
    (tmp_path / "checkpoint.json").unlink(missing_ok=True)  # a slow machine has saved one already
    assert small(out=tmp_path, resume=True).digest == undisturbed.digest


def test_with_a_lag_collection_and_update_overlap_and_give_one_digest(
    tmp_path: Path,
) -> None:
    """Weights are one update behind: another result than without, but the same here, with workers, and gone on with."""

    def stop(loop: Any) -> None:
        if loop.iteration == 2:
            loop.checkpoint()
            raise KeyboardInterrupt

    lagged = {plan: small(plan=plan, lag=1, num_iters=3).digest for plan in (0, 2)}
    with pytest.raises(KeyboardInterrupt):
        small(out=tmp_path, lag=1, num_iters=3, watcher=stop)
    gone_on = small(out=tmp_path, lag=1, num_iters=3, resume=True)
    assert {*lagged.values(), gone_on.digest} == {lagged[0]}
    assert lagged[0] != small(num_iters=3).digest


def test_another_run_does_not_go_on_in_its_directory(tmp_path: Path) -> None:
    small(out=tmp_path / "run", num_iters=1)
    with pytest.raises(BadInput, match="there seed is 5, and here 6"):
        small(out=tmp_path / "run", num_iters=1, seed=6, resume=True)


def test_references_are_ordered_and_known() -> None:
    """Random < best Markov < script < oracle, near the figures that were computed on 20,000 tasks by other means."""
    wanted = {POINT: (-42.6, -31.9, -12.5, -10.5), "PointRobotSparse-v0": (2.46, 13.8, 93.7, 103.7)}
    for env_id, known in wanted.items():
        world: Any = gym.make(env_id).unwrapped
        found = references_for(world, world.sample_tasks(400, np.random.default_rng(0)), 2)
        assert found is not None
        totals = [sum(each) for each in (found.random, found.markov, found.script, found.oracle)]
        assert totals == sorted(totals)
        assert totals == pytest.approx(known, rel=0.12)
    assert references_for(gym.make("CartPole-v1").unwrapped, [0], 2) is None


@pytest.mark.parametrize("unseen", [False, True], ids=["learning", "evaluation"])
@pytest.mark.parametrize(("gives", "number"), [("reward", "nan"), ("observation", "inf")])
def test_a_rollout_with_numbers_that_are_not_finite_has_failed(gives: str, number: str, unseen: bool) -> None:
    """No mean is taken of them, and nothing learned from them: not in an evaluation either."""
    world = Mission("sick", Sick, {"gives": gives, "unseen": unseen})
    with pytest.raises(paceline.RolloutsFailed, match=f"the {gives} at step [67] is {number}") as told:
        small(world, num_train_tasks=3)
    assert told.value.collection.iteration == ("evaluation 0" if unseen else 0)


def test_a_final_observation_that_is_not_finite_is_told_with_its_own_step() -> None:
    """It is that of the first of two episodes, not of the rollout."""
    found = collect(Blank, "markov", 1, episodes=2, reuse=True, plan="inline")
    with pytest.raises(paceline.RolloutsFailed, match="the observation at step 4 is nan"):
        check_finite(found)


def test_an_update_that_is_not_finite_names_itself() -> None:
    with pytest.raises(paceline.Diverged, match="update 1 gave numbers that are not finite"):
        small(ppo={"lr": 1e30, "clip": 1e30})


def test_a_run_whose_update_was_not_finite_does_not_go_on_and_says_what_to_do(tmp_path: Path) -> None:
    """It would come to the same update again; the last weights that acted are kept, to begin anew with."""
    wrong = {"ppo": {"lr": 1e30, "clip": 1e30}, "out": tmp_path / "run"}
    with pytest.raises(paceline.Diverged, match=r"smaller learning rate \(lr=1e\+30 in ppo\)") as told:
        small(**wrong)
    with pytest.raises(BadInput, match=r"cannot be gone on with.*update 1 gave numbers that are not finite"):
        small(**wrong, resume=True)
    again = f"memory,memory=8,hidden=8,weights={tmp_path / 'run' / 'weights.npz'}"
    assert again in str(told.value)
    assert small(agent=again).digest == small().digest  # nothing had been learned before


def test_a_world_without_tasks_for_evaluation_plays_as_many_as_are_asked_for() -> None:
    found = small(WhichLever, num_eval_tasks=5, num_iters=1)
    assert found.evaluations[-1].returns.shape == (5, 2)
    assert found.notes == ["WhichLever has no tasks but the 2 for learning: it is evaluated on these"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ppo": "passes=3"}, "ppo.passes has no effect here: num_updates_per_iter says"),
        ({"ppo": "minibatches=13"}, "ppo.minibatches=13: an iteration has 12 rollouts"),
        ({"agent": "memory,sampled=false"}, "sampled in agent='memory,sampled=false' has no effect"),
        ({"agent": "memory,seed=3,weights=w.npz"}, "seed in agent='memory,seed=3,weights=w.npz' has no effect"),
        ({"env": WhichLever, "agent": "markov,squash=clip"}, "squash in agent='markov,squash=clip' has no effect"),
        ({"env": WhichLever, "agent": "markov,log_std=0"}, "log_std in agent='markov,log_std=0' has no effect"),
        ({"agent": "markov,memory=8"}, "'memory' in 'markov,memory=8' is no option of a policy"),
    ],
)
def test_a_setting_without_effect_is_refused(
    more: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.npz").touch()
    with pytest.raises(BadInput, match=re.escape(said)):
        small(**more)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"agent": 3}, "agent=3; give memory, markov"),
        ({"agent": "memory,memory=0"}, "memory=0 in 'memory,memory=0': give a whole number from 1 on"),
        ({"agent": "memory,log_std=x"}, "log_std=x in 'memory,log_std=x': give a number"),
        ({"agent": "memory,critic=3"}, "critic=3 in 'memory,critic=3': give true or false"),
        ({"agent": "oracl"}, "agent='oracl': give memory, markov, oracle, memory_markov"),
        ({"env": "CartPole-v1"}, "is no world with tasks"),
        ({"env": Setless}, "has no sets of tasks: it needs train_tasks and eval_tasks"),
        ({"num_iters": 0}, "num_iters=0; give a whole number, 1 or more"),
        ({"n_env_steps_total": 1000}, "both say how long to train"),
        ({"num_updates_per_iter": 0}, "num_updates_per_iter=0; give a whole number of"),
        ({"ppo": "lrr=1"}, "ppo.lrr is not known; did you mean lr"),
        ({"lag": 2}, "lag=2; give 0 or 1: weights are at most one update behind"),
        ({"resume": True}, "say with out= what directory"),
        ({"plan": "proces"}, "proces"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_played(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        small(**more)


def test_without_torch_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=re.escape("pip install 'paceline[train]'")):
        small()


def test_an_agent_that_cannot_learn_leaves_no_run_behind(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="PPO needs a critic"):
        small(agent="memory,critic=false", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
