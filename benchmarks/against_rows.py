"""What `against.py` measures, and the program that measures it in one commit's code.

Only public names of Paceline are used, and only those that old commits have too: both commits run this file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from plain_loop import actions_of
from seats import Seat, own_line, say, serve_slices
from vector_envs import WORKLOADS

import paceline

_AUTO_SETTLES = 3.0  # seconds: it measures first, and then moves; a vector is what it is after that
_EPISODES, _SB3_EPISODES = 30, 20
_SOKOBANS, _TURNS = 128, 24
_ITEMS = 1000
_NET = Path(__file__).with_name("against_net.py")


# -- vectors -------------------------------------------------------------------------------------------


def vector(workload: str, envs: int, pace: float) -> Seat:
    """Steps of a vector under `auto`, as users have it."""
    vectored = paceline.make_vec([WORKLOADS[workload].recipe(pace)] * envs)
    vectored.reset(seed=0)
    actions = actions_of(vectored.single_action_space, envs)
    return Seat(
        lambda: vectored.step(actions), vectored.close, envs, warm=_AUTO_SETTLES, says=lambda: vectored.plan.why
    )


# -- groups --------------------------------------------------------------------------------------------


def sokoban(pace: float) -> Seat:
    """Turns of Sokobans under `auto`, an episode at a time, so that histories stay short; resets are not timed."""
    groups = paceline.Groups(_sokobans())
    moves = ["Up", "Right", "Left", "Down"] * (_TURNS // 4)
    inputs = [[_said(number, move) for number in range(_SOKOBANS)] for move in moves]

    def turns() -> None:
        for each in inputs:
            groups.step(each)

    return Seat(turns, groups.close, _TURNS, before=lambda: groups.reset(seed=7), says=lambda: groups.plan.why)


def _sokobans() -> dict[str, Any]:
    side = {"env_groups": 1, "group_size": _SOKOBANS, "env_configs": {"tags": ["Sokoban"], "n_groups": [1]}}
    room = {"dim_x": 6, "dim_y": 6, "num_boxes": 3, "search_depth": 100, "max_steps": 1_000_000}
    custom = {"Sokoban": {"env_type": "sokoban", "max_actions_per_traj": 1_000_000, "env_config": room}}
    return {"es_manager": {"train": side}, "custom_envs": custom}


def _said(env_id: int, action: str) -> dict[str, Any]:
    text = f"<think>I go around the box.</think><answer>{action}</answer>"
    return {"env_id": env_id, "actions": [action], "llm_response": text, "llm_raw_response": text}


# -- evaluation ----------------------------------------------------------------------------------------


def torch_eval(pace: float) -> Seat:
    """Short episodes of CartPole, played by a network that has learnt nothing."""
    import torch
    from against_net import Net

    chance = torch.Generator().manual_seed(0)
    weights = {name: torch.randn(value.shape, generator=chance) for name, value in Net().state_dict().items()}
    torch.save(weights, _own_file("net.pt"))
    return _evaluation(f"torch:{_NET}:Net,weights={_own_file('net.pt')}", _EPISODES)


def sb3_eval(pace: float) -> Seat:
    """The same with a model of Stable-Baselines3, from its archive."""
    import stable_baselines3

    stable_baselines3.PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu").save(_own_file("ppo.zip"))
    return _evaluation(f"sb3:PPO,weights={_own_file('ppo.zip')},trust=true", _SB3_EPISODES)


def _evaluation(policy: str, episodes: int) -> Seat:
    said = ""

    def play() -> None:
        nonlocal said
        report = paceline.evaluate("gym:CartPole-v1", policy, episodes=episodes)
        said = f"digest {report.digest}"

    return Seat(play, lambda: None, 1, says=lambda: said, warm_again=False)


def _own_file(name: str) -> Path:
    """Both contestants run in one directory; they read different files of the same content."""
    return Path.cwd() / f"{json.loads(sys.argv[1])['name']}-{name}"


# -- the engine ----------------------------------------------------------------------------------------


class Echo:
    """A member that does nothing."""

    def echo(self, value: Any) -> Any:
        return value


def _square(number: int) -> int:
    return number * number


def call(pace: float) -> Seat:
    pool = paceline.Pool([Echo], backend="process", workers=1)
    return Seat(lambda: pool.call("echo", {0: (1.0,)}), pool.close, 1)


def map_items(pace: float) -> Seat:
    pool = paceline.Pool([Echo, Echo], backend="process", workers=2)
    return Seat(lambda: pool.map(_square, range(_ITEMS)), pool.close, 1)


# -- the program ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A row of the table: what is timed, and how it is built where one second is `pace` rounds of work."""

    text: str
    build: Callable[[float], Seat]


MEASURES = {
    "cartpole-2": Measure("CartPole × 2, an env step", partial(vector, "CartPole", 2)),
    "cartpole-8": Measure("CartPole × 8, an env step", partial(vector, "CartPole", 8)),
    "cartpole-32": Measure("CartPole × 32, an env step", partial(vector, "CartPole", 32)),
    "image-8": Measure("image 84×84×4 × 8, an env step", partial(vector, "image 84×84×4", 8)),
    "cpu-8": Measure("cpu 0.1 ms × 8, an env step", partial(vector, "cpu 0.1 ms", 8)),
    "ant-8": Measure("Ant × 8, an env step", partial(vector, "Ant", 8)),
    "sokoban": Measure(f"Sokoban × {_SOKOBANS}, a turn of all", sokoban),
    "torch-eval": Measure(f"evaluate, {_EPISODES} short episodes of a torch policy", torch_eval),
    "sb3-eval": Measure(f"evaluate, {_SB3_EPISODES} episodes of an SB3 archive", sb3_eval),
    "call": Measure("a tiny call of one member in a process", call),
    "map": Measure(f"a map of {_ITEMS:,} items on 2 processes", map_items),
}


def attend(line: TextIO, name: str, row: str, tree: str, pace: float, warm: float) -> None:
    """Builds, and serves slices.

    Args:
        line: For the answers.
        name: Of the contestant.
        row: Of `MEASURES`.
        tree: Where Paceline must come from.
        pace: Rounds of work of a second.
        warm: Seconds of calls that do not count, before the first slice.
    """
    found = Path(paceline.__file__)
    if not found.is_relative_to(tree):
        raise ImportError(f"paceline comes from {found}, and not from {tree}")
    say(line, imported=name)
    sys.stdin.readline()
    serve_slices(line, MEASURES[row].build(pace), warm)


def _main() -> None:
    line, order = own_line(), json.loads(sys.argv[1])
    try:
        attend(line, **order)
    except Exception as error:
        say(line, absent=" ".join(f"{type(error).__name__}: {error}".split())[:300])
        raise


if __name__ == "__main__":
    _main()
