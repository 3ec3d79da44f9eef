"""pomdp-baselines' names: its guide's own code runs, workers may die, and their number changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from waits import is_alive, until, until_over, until_readable

import paceline
from paceline import BadInput, Closed
from paceline.adapters.pomdp_baselines import (
    AGENT_ARCHS,
    Learner,
    ParallelEnvManager,
    logger,
    make_env,
    make_parallel_env,
)

QUICK = "PointRobot-H20-v0"
TASKS = [(0.5, 0.5), (-0.5, 0.5), (0.0, -1.0)]


def manager(workers: int = 2, env_id: str = QUICK, seed: int | None = 17, **more: Any) -> ParallelEnvManager:
    return make_parallel_env(env_id, 2, workers, seed=seed, **more)


@pytest.fixture(scope="module")
def shared() -> Iterator[ParallelEnvManager]:
    """Two workers for tests that leave them as they were."""
    with manager() as envs:
        yield envs


def pids(envs: ParallelEnvManager) -> list[int]:
    return [worker.pid for worker in envs.workers]


def actions(envs: ParallelEnvManager, time: int) -> list[Any]:
    shape = envs.action_space.shape
    return [np.full(shape, np.sin(time + worker), np.float32) for worker in range(envs.num_workers)]


# -- the guide -------------------------------------------------------------------------------------------------


class GuideLearner(Learner):
    """`init_env` and `train` as the guide has them."""

    def init_env(  # type: ignore[override]
        self,
        env_type: Any,
        env_name: Any,
        max_rollouts_per_task: Any,
        num_train_tasks: Any,
        num_eval_tasks: Any,
        num_parallel_workers: int = 4,
        **kwargs: Any,
    ) -> None:
        self.eval_env = make_env(
            env_name,
            max_rollouts_per_task,
            seed=self.seed + 1,
            num_train_tasks=num_train_tasks,
            num_eval_tasks=num_eval_tasks,
            **kwargs,
        )
        if num_parallel_workers > 1:
            self.train_env_parallel = make_parallel_env(
                env_name,
                max_rollouts_per_task,
                num_workers=num_parallel_workers,
                seed=self.seed,
                num_train_tasks=num_train_tasks,
                num_eval_tasks=num_eval_tasks,
                **kwargs,
            )
        else:
            self.train_env_parallel = None
        self.train_env = make_env(
            env_name,
            max_rollouts_per_task,
            seed=self.seed,
            num_train_tasks=num_train_tasks,
            num_eval_tasks=num_eval_tasks,
            **kwargs,
        )

    def train(self) -> None:
        self._start_training()
        if self.num_init_rollouts_pool > 0:
            logger.log("Collecting initial pool of data..")
            while self._n_env_steps_total < self.num_init_rollouts_pool * self.max_trajectory_len:
                self.collect_rollouts_parallel(
                    num_rollouts=1,
                    random_actions=True,
                    parallel_env=self.train_env_parallel,
                )
        while self._n_env_steps_total < self.n_env_steps_total:
            env_steps = self.collect_rollouts_parallel(
                num_rollouts=self.num_rollouts_per_iter,
                parallel_env=self.train_env_parallel,
            )
            assert env_steps == self.num_rollouts_per_iter * self.max_trajectory_len
            train_stats = self.update(...)
            self.log_train_stats(train_stats)

    updates = 0

    def update(self, num_updates: Any) -> dict[str, float]:
        self.updates += 1
        with_memory = self.agent.arch != AGENT_ARCHS.Markov
        batch = self.policy_storage.sample(4)
        assert batch["rewards"].shape == ((self.max_trajectory_len, 4) if with_memory else (4,))
        bias = next(iter(self.agent.network.parameters()))
        bias.data += 0.01 * float(batch["rewards"].mean())  # no learning, but weights that follow from the batches
        return {"reward": float(batch["rewards"].mean())}


def trained(workers: int, arch: AGENT_ARCHS, kind: type[Learner] = GuideLearner) -> tuple[str, int, int]:
    env = {"env_type": "meta", "env_name": QUICK, "max_rollouts_per_task": 2, "num_train_tasks": 5, "num_eval_tasks": 2}
    with kind(
        env_args={**env, "num_parallel_workers": workers},
        train_args={"num_init_rollouts_pool": 2, "num_rollouts_per_iter": 9, "num_iters": 2},
        policy_args={"arch": arch, "hidden": (8,)},
        seed=3,
    ) as learner:
        learner.train()
        assert learner._n_rollouts_total == 20
        assert set(learner.train_tasks) == set(learner.train_env.train_tasks)
        return learner.policy_storage.digest(), learner._n_env_steps_total, len(learner.policy_storage)


@pytest.mark.parametrize("arch", AGENT_ARCHS)
def test_the_guides_learner_files_the_same_with_any_number_of_workers(arch: AGENT_ARCHS) -> None:
    """`init_env` and `train` of the guide run as they are; 0, 2 and 3 workers fill the same buffer."""
    alone = trained(0, arch)
    assert alone[1:] == (800, 800)
    assert trained(2, arch) == trained(3, arch) == alone


def test_the_bases_own_loop_files_the_same_with_any_number_of_workers() -> None:
    """`Learner` trains without an `init_env` or a `train` of the user's, with an update that learns nothing."""
    assert trained(0, AGENT_ARCHS.Markov, Learner) == trained(2, AGENT_ARCHS.Markov, Learner)


def test_the_guides_phases_run_as_they_are() -> None:
    """Reset all with tasks; then act, send all, receive all, file: each worker until its own end."""
    learner = Learner(policy_args={"arch": AGENT_ARCHS.Markov, "hidden": (8,)}, seed=4)
    learner.init_env("meta", QUICK, 2, 5, 2, num_parallel_workers=2)
    with learner:
        parallel_env: Any = learner.train_env_parallel
        rng = np.random.default_rng(0)
        for worker_id in range(parallel_env.num_workers):
            task = learner.train_tasks[rng.integers(len(learner.train_tasks))]
            parallel_env.remotes[worker_id].send(("reset", {"task": task}))
        obs = {}
        for worker_id in range(parallel_env.num_workers):
            kind, obs[worker_id] = parallel_env.remotes[worker_id].recv()
            assert kind == "obs"
        active_workers = list(obs)
        while active_workers:
            sent = {}
            for worker_id in active_workers:
                sent[worker_id] = learner.agent.act(obs[worker_id])
                data = sent[worker_id] if worker_id else {"action": sent[worker_id]}  # both forms are known
                parallel_env.remotes[worker_id].send(("step", data))
            for worker_id in list(active_workers):
                kind, (seen, reward, done, info) = parallel_env.remotes[worker_id].recv()
                assert kind == "transition"
                learner.policy_storage.add_sample(
                    observation=obs[worker_id],
                    action=sent[worker_id],
                    reward=np.array([reward]),
                    terminal=np.array([done and not info["TimeLimit.truncated"]], float),
                    next_observation=seen,
                )
                obs[worker_id] = seen
                if done:
                    active_workers.remove(worker_id)
        assert len(learner.policy_storage) == 2 * learner.max_trajectory_len


# -- workers -----------------------------------------------------------------------------------------------------


def played(envs: ParallelEnvManager, tasks: Any, steps: int, kill_at: int | None = None) -> list[Any]:
    """Everything that two rollouts give; a worker is killed in the second."""
    seen: list[Any] = []
    for rollout in range(2):
        seen.append(envs.reset_all(tasks))
        for time in range(steps):
            if rollout and time == kill_at:
                os.kill(pids(envs)[-1], signal.SIGKILL)
            seen.append(envs.step_all(actions(envs, time)))
    return seen


def test_ants_start_differently_in_each_worker_and_a_killed_worker_costs_no_bit() -> None:
    """Three workers have three start states, and the same transitions whether or not one is killed in mid-play."""
    tasks = [0.3, 1.0, -1.0]
    with manager(3, "AntDir-v0") as envs:
        assert len(set(pids(envs))) == envs.num_workers == envs.num_envs == 3
        undisturbed = played(envs, tasks, 8)
        assert len({tuple(obs[:-1]) for obs in undisturbed[0]}) == 3
    with manager(3, "AntDir-v0") as envs:
        before = pids(envs)
        assert paceline.digest(played(envs, tasks, 8, kill_at=5)) == paceline.digest(undisturbed)
        assert before != pids(envs)


def test_an_env_of_any_kind_that_was_left_without_a_seed_survives_its_worker_too() -> None:
    """CartPole knows no tasks, draws from its own generator, and goes on from where it was."""

    def play(kill_at: int | None) -> list[Any]:
        with ParallelEnvManager([lambda: gym.make("CartPole-v1")] * 2, seed=5) as envs:
            assert (envs.n_tasks, envs.horizon_bamdp) == (None, None)
            seen: list[Any] = [[envs.reset(0), envs.reset(1)]]
            for time in range(6):
                if time == kill_at:
                    os.kill(pids(envs)[1], signal.SIGKILL)
                seen.append(envs.step_all([time % 2, 1]) if time % 3 else [envs.reset(0), envs.reset(1)])
            return seen

    undisturbed = play(None)
    assert not np.array_equal(*undisturbed[0])
    assert paceline.digest(play(4)) == paceline.digest(undisturbed)


def test_the_first_workers_play_does_not_depend_on_how_many_there_are(shared: ParallelEnvManager) -> None:
    """A manager with one worker plays what the first of two plays; later seeds begin the streams anew."""
    shared.seed(8)
    several = [shared.reset(0, task=TASKS[0]), shared.step(0, [1, 0]), shared.reset(0, task=TASKS[0])]
    with manager(1) as one:
        one.seed(8)
        alone = [one.reset(0, task=TASKS[0]), one.step(0, [1, 0]), one.reset(0, task=TASKS[0])]
    assert paceline.digest(alone) == paceline.digest(several)
    assert not np.array_equal(several[0], several[2])


def test_no_worker_draws_what_the_evaluation_env_draws(shared: ParallelEnvManager) -> None:
    """The guide's eval env has seed + 1; its tasks and start states are no worker's."""
    shared.seed(17)
    starts = [tuple(obs) for obs in shared.reset_all()]
    near = [tuple(make_env(QUICK, 2, seed=17 + offset).reset()[0]) for offset in range(3)]
    assert len({*starts, *near}) == 5
    assert near[1] == tuple(make_env(QUICK, 2).reset(seed=18)[0])


def test_closing_twice_ends_the_workers_once() -> None:
    """`close` may be called again; afterwards remotes say that they are closed."""
    envs = manager()
    mine = pids(envs)
    envs.remotes[0].send(("reset", {"task": TASKS[0]}))
    envs.close()
    envs.close()
    until(lambda: not any(map(is_alive, mine)))
    with pytest.raises(Closed):
        envs.remotes[0].send(("reset", None))


def test_dropping_a_manager_ends_its_workers_even_after_an_error_and_with_a_remote_kept() -> None:
    """`del` is enough: no error that was raised and no remote keeps the workers."""
    envs = manager()
    mine, remote = pids(envs), envs.remotes[0]
    with pytest.raises(BadInput, match="all episodes of this task are over, or none has begun"):
        envs.step_all([[0, 0], [0, 0]])
    del envs
    until(lambda: not any(map(is_alive, mine)))
    with pytest.raises(Closed):
        remote.send(("reset", None))


SCRIPT = """
import sys
from paceline import make_parallel_env

if __name__ == "__main__":
    envs = make_parallel_env("PointRobot-H20-v0", 2, 2, seed=1)
    envs.remotes[0].send(("reset", {"task": (0.0, 0.0)}))
    print(*[worker.pid for worker in envs.workers], flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("end", ["killed", "exits"])
def test_no_worker_outlives_the_main_process(end: str) -> None:
    """Workers are gone after SIGKILL of the main process, and after an exit without `close`."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until_readable(process, process.stdout)
    assert process.stdout is not None
    mine = [int(pid) for pid in process.stdout.readline().split()]
    assert len(mine) == 2
    if end == "killed":
        process.kill()
    until_over(process)
    until(lambda: not any(map(is_alive, mine)))


# -- what is asked wrongly ------------------------------------------------------------------------------------------


def test_a_receive_without_a_send_is_an_error_and_not_a_hang(shared: ParallelEnvManager) -> None:
    """The guide's first trouble: `recv` says at once that nothing was sent."""
    with pytest.raises(BadInput, match=r"recv\(\) from worker 1, to which nothing has been sent"):
        shared.remotes[1].recv()


def test_answers_come_in_the_order_of_messages_and_calls_do_not_take_them(shared: ParallelEnvManager) -> None:
    """Several messages may be on their way; `reset` beside them would take their answers, so it is refused."""
    remote = shared.remotes[0]
    remote.send(("reset", {"task": TASKS[0], "seed": 3}))
    remote.send(("get_attr", {"attr": "horizon_bamdp"}))
    with pytest.raises(BadInput, match="2 messages whose answers have not been received"):
        shared.reset(0)
    assert remote.poll(None)
    assert (remote.recv()[0], remote.recv(), remote.poll()) == ("obs", ("attr", 40), False)


@pytest.mark.parametrize("message", ["reset", ("jump", {}), ("reset", 3), ("seed", {}), ("get_attr", {"name": "x"})])
def test_a_message_that_no_env_knows_is_refused_when_it_is_sent(shared: ParallelEnvManager, message: Any) -> None:
    """The worker is not asked, and nothing is left to be received."""
    with pytest.raises(BadInput):
        shared.remotes[0].send(message)
    assert shared.remotes[0].due == 0


def test_what_an_env_raises_comes_out_of_recv_and_the_worker_goes_on(shared: ParallelEnvManager) -> None:
    """An unknown attribute and a wrong task are errors of their own types; the next message is answered."""
    with pytest.raises(AttributeError, match="no_such_thing"):
        shared.get_attr("no_such_thing")
    with pytest.raises(BadInput, match="is no task of this world"):
        shared.reset_all(["left", (0.0, 0.0)])
    assert len(shared.reset_all(TASKS[:2])) == 2


def test_values_of_the_inner_env_are_fetched_and_its_methods_are_called_there(shared: ParallelEnvManager) -> None:
    """`unwrapped` does not bring the env here, as no message does."""
    assert shared.unwrapped.train_tasks == make_env(QUICK, 2).train_tasks
    assert len(shared.unwrapped.sample_tasks(3)) == 3
    assert shared.get_attr("unwrapped", subattrs=["horizon"]) == 20
    with pytest.raises(BadInput, match="which stays there"):
        shared.get_attr("unwrapped")
    with pytest.raises(BadInput, match=r"manager.unwrapped.sample_tasks\(…\)"):
        shared.get_attr("sample_tasks")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: ParallelEnvManager([]), "one env_fn or more"),
        (lambda: ParallelEnvManager([lambda: gym.make(QUICK)], "fork"), "never forked"),
        (lambda: ParallelEnvManager([lambda: object()]), "env_fns"),
        (lambda: make_parallel_env(QUICK, 2, 0), "num_workers=0"),
        (lambda: make_env("NoSuchWorld-v0", 2), "NoSuchWorld"),
        (lambda: make_env(QUICK, 2, seed=-1), "seed=-1"),
        (lambda: make_env(QUICK, 2, colour="red"), "colour='red'"),
        (lambda: make_env("CartPole-v1", 2), "has no tasks"),
        (lambda: Learner({"env_type": "rmdp", "env_name": QUICK, "max_rollouts_per_task": 2}), "env_type='rmdp'"),
        (lambda: Learner().collect_rollouts(1), r"call init_env\(…\) first"),
        (lambda: quick_learner(arch="mamba").agent, "arch='mamba'"),
        (lambda: quick_learner(arch="markov", wings=2).agent, "wings"),
    ],
)
def test_what_cannot_be_meant_is_said_so(wrong: Any, says: str) -> None:
    """A mistake is a `BadInput` that names what was given."""
    with pytest.raises(BadInput, match=says):
        wrong()


# -- learners --------------------------------------------------------------------------------------------------------


def quick_learner(**policy: Any) -> Learner:
    env = {"env_type": "meta", "env_name": QUICK, "max_rollouts_per_task": 2, "num_parallel_workers": 1}
    return Learner(env, policy_args=policy, seed=6)


def test_an_agent_of_the_users_own_plays_as_it_is_now() -> None:
    """Anything that a `Collector` takes may be the agent; its changes count from the next collection on."""

    class Pushes:
        amount = 0.0

        def act(self, obs: Any) -> Any:
            return np.full(2, self.amount, np.float32)

    learner = quick_learner()
    learner.agent = Pushes()
    learner.collect_rollouts(2)
    learner.agent.amount = 0.5
    learner.collect_rollouts(2)
    stored = learner.policy_storage.sample(200)["actions"]
    assert {float(amount) for amount in stored[:, 0]} == {0.0, 0.5}


def test_evaluation_gives_returns_by_episode_and_files_nothing() -> None:
    """The two episodes' returns sum to the rollout's; train tasks cannot be evaluated on."""
    learner = quick_learner(arch=AGENT_ARCHS.Memory, hidden=(8,))
    learner.collect_rollouts(30)
    held = len(learner.policy_storage)
    returns = learner.evaluate(learner.eval_tasks[:3])
    assert returns.shape == (3, 2)
    assert (returns < 0).all()
    assert len(learner.policy_storage) == held == 30 * 40
    with pytest.raises(BadInput, match="must be others"):
        learner.evaluate(learner.train_tasks)


def test_tasks_of_random_rollouts_are_not_evaluated_on_either() -> None:
    """One collector plays them and another the agent's: both guard the same tasks."""
    learner = quick_learner(hidden=(8,))
    learner.collect_rollouts(30, random_actions=True)
    with pytest.raises(BadInput, match="must be others"):
        learner.evaluate(learner.train_tasks)
    assert learner.evaluate(learner.eval_tasks[:2]).shape == (2, 2)


def test_an_agent_with_a_memory_acts_by_rows_for_loops_of_the_users_own() -> None:
    """What one row has seen changes its answers, and not those of another row."""
    learner = quick_learner(arch=AGENT_ARCHS.Memory, hidden=(8,), sampled=False)
    observation, _ = learner.train_env.reset()
    first = learner.agent.act(observation, row=1)
    later = learner.agent.act(observation, row=1, reward=-3.0)
    assert not np.array_equal(first, later)
    learner.agent.begin(1)
    assert np.array_equal(learner.agent.act(observation, row=1), first)
    with pytest.raises(BadInput, match="lanes=8"):
        learner.agent.act(observation, row=8)
    with pytest.raises(BadInput, match=r"has one for each worker: act\(obs, row=worker, reward=reward\)"):
        learner.agent.act(observation)
