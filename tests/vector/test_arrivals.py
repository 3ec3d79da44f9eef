"""`recv` gives as many envs as it is asked for; who is ready besides is kept, and not written over."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import NoAsyncCallError
from interrupting import interrupted

from paceline import BadInput, Closed, Plan
from paceline.vector import PaceVectorEnv, make_vec


class Tally(gymnasium.Env[Any, Any]):
    """Counts its steps, tells them in its info, and raises when it is asked for a 1."""

    observation_space = spaces.Box(0, 1e6, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, words: bool = False) -> None:
        self.steps, self.words = 0, words

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if action:
            raise LookupError("asked for")
        self.steps += 1
        told = str(self.steps) if self.words else self.steps
        return np.full(1, self.steps, np.float32), float(self.steps), False, False, {"steps": told}


@pytest.fixture(params=[0, "thread", Plan("process", 2), Plan("process", 1, threads=4)], ids=str)
def plan(request: pytest.FixtureRequest) -> Any:
    return request.param


def sent(plan: Any, count: int = 5, words: bool = False) -> PaceVectorEnv:
    envs = make_vec([partial(Tally, words)] * count, plan=plan)
    envs.reset(seed=0)
    envs.send(np.zeros(count, int))
    return envs


@pytest.mark.parametrize("words", [False, True], ids=["numbers", "words"])
def test_batches_are_as_large_as_asked_for_and_nobody_is_left_out(plan: Any, words: bool) -> None:
    with sent(plan, words=words) as envs:
        steps = dict.fromkeys(range(5), 0)
        for _ in range(25):
            seen, rewards, ended, cut, infos, who = envs.recv(2)
            assert len(seen) == len(rewards) == len(ended) == len(cut) == len(who) == 2
            assert who.tolist() == sorted(who)
            for row, env in enumerate(who.tolist()):
                steps[env] += 1
                assert seen[row, 0] == rewards[row] == steps[env]
                assert infos["_steps"][env]
                assert infos["steps"][env] == (str(steps[env]) if words else steps[env])
            envs.send(np.zeros(2, int), who)
        assert sum(steps.values()) == 50
        assert envs.recv()[-1].tolist() == [0, 1, 2, 3, 4]


def test_fewer_if_no_more_were_sent_to(plan: Any) -> None:
    with sent(plan, 3) as envs:
        assert envs.recv(10)[-1].tolist() == [0, 1, 2]
        with pytest.raises(BadInput, match="without a send"):
            envs.recv(1)


def test_what_was_not_fetched_is_not_written_over() -> None:
    with sent(0) as envs:  # here all are run as soon as somebody waits
        first = envs.recv(2)[-1]
        for step in (envs.step, envs.step_async):
            with pytest.raises(BadInput, match=r"envs \[2, 3, 4\] have been stepped"):
                step(np.zeros(5, int))
        with pytest.raises(BadInput, match="while envs are stepping"):
            envs.reset(seed=1)
        with pytest.raises(BadInput, match=r"envs \[2, 3, 4\] have been stepped"):
            envs.step_wait()
        with pytest.raises(BadInput, match=r"envs \[3\] have been stepped"):
            envs.send(np.zeros(1, int), [3])
        envs.send(np.zeros(2, int), first)
        assert envs.recv(3)[-1].tolist() == [2, 3, 4]
        assert envs.recv(3)[-1].tolist() == [0, 1]
        assert envs.step(np.zeros(5, int))[1].tolist() == [3, 3, 2, 2, 2]


def test_others_are_not_lost_with_one_that_raises(plan: Any) -> None:
    with sent(plan, 4) as envs:
        envs.recv()
        envs.send(np.array([0, 1, 0, 1]))
        with pytest.raises(LookupError, match="asked for") as raised:
            envs.recv(4)
        assert any("also member 3: LookupError" in note for note in raised.value.__notes__)
        assert envs.recv(4)[-1].tolist() == [0, 2]


@pytest.mark.parametrize("count", [0, -1])
def test_a_batch_of_nobody_makes_no_sense(count: int) -> None:
    with sent(0) as envs, pytest.raises(BadInput, match="makes no sense"):
        envs.recv(count)


class Blocked(Tally):
    """Steps once a file is there, and not before."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        self.path = path

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        end = time.monotonic() + 30
        while self.path is not None and not self.path.exists():
            if time.monotonic() > end:
                raise TimeoutError("whoever waits for another is not given what is there")
            time.sleep(0.01)
        return super().step(action)


def test_what_numbers_mean_is_not_asked_of_a_worker_that_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "go"
    with make_vec([partial(Blocked, None), partial(Blocked, path)], plan=1) as envs:
        envs.reset(seed=0)
        envs.send(np.zeros(2, int))
        *_, infos, who = envs.recv(1)
        path.touch()
        assert who.tolist() == [0]
        assert infos["steps"][0] == 1
        assert envs.recv()[-1].tolist() == [1]


def test_what_is_put_back_comes_first_the_next_time() -> None:
    with sent(0, words=True) as envs:
        envs._arrivals.put_back(*envs._arrivals.take(2, None))
        *_, infos, who = envs.recv(2)
        assert who.tolist() == [0, 1]
        assert infos["steps"][:2].tolist() == ["1", "1"]


def test_errors_speak_of_envs(plan: Any) -> None:
    with make_vec([Tally] * 4, plan=plan) as envs:
        envs.reset(seed=0)
        envs.send(np.zeros(1, int), [3])
        for again in (lambda: envs.send(np.zeros(2, int), [0, 3]), lambda: envs.step(np.zeros(4, int))):
            with pytest.raises(BadInput, match="env 3 has been sent to and not been received: recv"):
                again()
        for wrong in (99, -1):
            with pytest.raises(BadInput, match=f"there is no env {wrong}; there are 0 to 3"):
                envs.send(np.zeros(1, int), [wrong])
        with pytest.raises(BadInput, match="env 1 is sent to twice"):
            envs.send(np.zeros(3, int), [1, 0, 1])
        assert envs.recv()[-1].tolist() == [3]
        envs.step_async(np.zeros(4, int))
        for again in (envs.step, envs.step_async, envs.send):
            with pytest.raises(BadInput, match="have been asked to step"):
                again(np.zeros(4, int))
        assert envs.step_wait()[1].tolist() == [1, 1, 1, 2]


class Text(Tally):
    """Shows what fits into no row."""

    observation_space = spaces.Text(8)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return "a", {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        _, *others = super().step(action)
        return (str(self.steps), *others)


@pytest.mark.parametrize("make", [Tally, Text])
def test_nothing_is_waited_for_that_was_not_asked_for(make: Any, plan: Any) -> None:
    with make_vec([make] * 3, plan=plan) as envs:
        envs.reset(seed=0)
        for _ in range(2):
            with pytest.raises(NoAsyncCallError, match="no env has been asked to step"):
                envs.step_wait()
            envs.step_async(np.zeros(3, int))
            for other in (envs.step, envs.step_async):
                with pytest.raises(BadInput, match="have been asked to step"):
                    other(np.zeros(3, int))
            with pytest.raises(BadInput, match="while envs are stepping"):
                envs.reset()
            envs.step_wait()
        assert envs.step(np.zeros(3, int))[1].tolist() == [3, 3, 3]
        with pytest.raises(LookupError):
            envs.step(np.array([0, 1, 0]))
        with pytest.raises(NoAsyncCallError):
            envs.step_wait()
        assert envs.step(np.zeros(3, int))[1].tolist() == [5, 4, 5]


class BlockedText(Text, Blocked):
    """Shows what fits into no row, once a file is there."""


def test_a_step_that_was_interrupted_can_still_be_waited_for(plan: Any, tmp_path: Path) -> None:
    path = tmp_path / "go"
    with make_vec([partial(BlockedText, None), partial(BlockedText, path)], plan=plan) as envs:
        envs.reset(seed=0)
        path.touch()
        envs.step(np.zeros(2, int))
        path.unlink()
        envs.step_async(np.zeros(2, int))
        with pytest.raises(KeyboardInterrupt):
            interrupted(envs.step_wait)
        path.touch()
        with pytest.raises(BadInput, match=r"with recv\(\) or step_wait\(\)"):
            envs.step(np.zeros(2, int))
        assert envs.step_wait()[0] == ("2", "2")
        assert envs.step(np.zeros(2, int))[0] == ("3", "3")


def test_some_are_received_and_not_waited_for() -> None:
    with make_vec([Tally] * 3, plan=0) as envs:
        envs.reset(seed=0)
        envs.send(np.zeros(2, int), [0, 2])
        with pytest.raises(NoAsyncCallError, match=r"only 2 of 3 envs have been sent to: recv\(\)"):
            envs.step_wait()
        assert envs.recv()[-1].tolist() == [0, 2]


def test_whatever_is_asked_of_closed_envs_is_answered_so(plan: Any) -> None:
    envs = sent(plan)
    envs.recv()
    envs.close()
    actions = np.zeros(5, int)
    for ask in (
        lambda: envs.step(actions),
        lambda: envs.step_async(actions),
        envs.step_wait,
        lambda: envs.send(actions),
        envs.recv,
        envs.reset,
        envs.render,
        lambda: envs.get_attr("steps"),
        lambda: envs.set_attr("steps", 1),
        lambda: envs.set_tasks([None] * 5),
    ):
        with pytest.raises(Closed, match="these envs have been closed"):
            ask()
