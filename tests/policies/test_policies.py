"""The built-in policies are functions of their seed, know their worlds, and are as good as they say."""

import copy
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from paceline import digest, seed_of
from paceline.errors import BadInput
from paceline.policies import ABOUT, DEFAULT, POLICIES, TorchNet, mind
from paceline.policies.torchnet import WEIGHTS
from paceline.roles import Policy, RowPolicy
from paceline.testing import check_policy
from paceline.types import Mission, Seat
from paceline.worlds import MISSIONS, board, make_cleanup

WORLDS = ("forage", "cleanup", "courier", "treasure_hunt")
PAIRS = [
    *((policy, world) for policy in POLICIES for world in WORLDS),
    *((policy, world) for policy in ("random", "noop", "greedy") for world in ("stag_hunt", "tag")),
]


def seats_of(env: Any, mission: str) -> list[Seat]:
    if not hasattr(env, "possible_agents"):
        return [Seat("agent", 0, env.observation_space, env.action_space, mission)]
    return [
        Seat(agent, index, env.observation_space(agent), env.action_space(agent), mission)
        for index, agent in enumerate(env.possible_agents)
    ]


def seat_in(world: str) -> Seat:
    return seats_of(MISSIONS[world].build(), world)[0]


def build(policy: str, world: str) -> Any:
    """A recipe of a policy: other processes build it too."""
    return POLICIES[policy](seat_in(world))


def play(mission: Mission, factory: Callable[[Seat], Any], seed: int) -> tuple[float, list[Any]]:
    """Plays an episode; gives the mean reward of the seats, and what the first of them saw."""
    env = mission.build()
    seats = seats_of(env, mission.name)
    policies = [factory(seat) for seat in seats]
    for seat, policy in zip(seats, policies, strict=True):
        policy.reset(seed_of(seed, seat.agent))
    obs, total, seen, over = env.reset(seed=seed)[0], 0.0, [], False
    while not over:
        if len(seats) == 1:
            seen.append(obs)
            obs, reward, terminated, truncated, _ = env.step(policies[0].act(obs))
            total, over = total + reward, terminated or truncated
        else:
            seen.append(obs[seats[0].agent])
            actions = {seat.agent: policy.act(obs[seat.agent]) for seat, policy in zip(seats, policies, strict=True)}
            obs, rewards, _, _, _ = env.step(actions)
            total, over = total + sum(rewards.values()) / len(rewards), not env.agents
    return total, seen


@cache
def scores(policy: str, world: str, episodes: int) -> np.ndarray:
    return np.array([play(MISSIONS[world], POLICIES[policy], seed)[0] for seed in range(episodes)])


@cache
def sights(world: str) -> list[Any]:
    """What a seat sees in the first steps of an episode."""
    return play(MISSIONS[world], POLICIES["random"], 0)[1][:60]


# -- the list ----------------------------------------------------------------------------------------------


def test_each_has_a_name_and_a_sentence() -> None:
    assert list(POLICIES) == list(ABOUT) == ["random", "noop", "greedy", "memory", "torch"]
    assert DEFAULT in POLICIES
    assert all(about.endswith(".") for about in ABOUT.values())


@pytest.mark.parametrize(("policy", "world"), PAIRS)
def test_each_plays_each_world(policy: str, world: str) -> None:
    built = build(policy, world)
    assert isinstance(built, Policy)
    assert isinstance(built, RowPolicy) == (policy == "torch")


def test_to_list_the_policies_imports_neither_torch_nor_gymnasium() -> None:
    program = "import sys, paceline.policies; print([m for m in ('torch', 'gymnasium') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_worlds_and_policies_agree_on_moves_and_planes() -> None:
    # Neither may import the other, so each has its own list.
    assert mind.MOVES == board.MOVES
    for planes, world in mind.WORLDS.items():
        assert frozenset(seat_in(world).observation_space.planes) == planes


# -- a function of seed and observations -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "world"),
    [
        *((policy, world) for policy, world in PAIRS if policy != "torch" and world in WORLDS),
        ("torch", "forage"),
        ("greedy", "stag_hunt"),
    ],
)  # to import torch elsewhere takes long
def test_it_can_be_run_in_parallel(policy: str, world: str) -> None:
    report = check_policy(partial(build, policy, world), sights(world))
    assert all(finding.verdict == "ok" for finding in report.findings), str(report)
    assert "snapshot" in report


@pytest.mark.parametrize(("policy", "world"), PAIRS)
def test_it_bears_any_observation_of_its_space(policy: str, world: str) -> None:
    space = copy.deepcopy(seat_in(world).observation_space)
    space.seed(0)
    built = build(policy, world)
    built.reset(1)
    assert all(seat_in(world).action_space.contains(built.act(space.sample())) for _ in range(300))


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "noop"])
def test_other_seeds_give_other_actions(policy: str) -> None:
    built, actions = build(policy, "forage"), []
    for seed in range(8):
        built.reset(seed)
        actions.append(tuple(built.act(obs) for obs in sights("forage")))
    assert len(set(actions)) > 4


@pytest.mark.parametrize(("policy", "world"), PAIRS)
def test_a_snapshot_stays_as_it_was_taken(policy: str, world: str) -> None:
    built = build(policy, world)
    built.reset(0)
    for obs in sights(world)[:20]:
        built.act(obs)
    saved = built.snapshot()
    ends = []
    for _ in range(2):
        built.restore(saved)
        ends.append([built.act(obs) for obs in sights(world)[20:]])
    assert ends[0] == ends[1]


# -- how good they are -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("better", "worse", "world", "episodes", "times"),
    [
        ("greedy", "random", "forage", 5, 2.5),
        ("greedy", "random", "cleanup", 5, 4),
        ("greedy", "random", "courier", 16, 4),
        ("greedy", "random", "treasure_hunt", 5, 5),
        ("memory", "greedy", "forage", 5, 1.05),
        ("memory", "greedy", "courier", 16, 2),
        ("torch", "random", "forage", 3, 2.5),
        ("torch", "random", "cleanup", 3, 4),
        ("torch", "random", "courier", 16, 1.5),
        ("torch", "random", "treasure_hunt", 5, 4),
    ],
)
def test_one_is_better_than_the_other(better: str, worse: str, world: str, episodes: int, times: float) -> None:
    above, below = scores(better, world, episodes), scores(worse, world, episodes)
    error = np.sqrt((above.var(ddof=1) + below.var(ddof=1)) / episodes)
    assert above.mean() > times * below.mean()
    assert above.mean() - below.mean() > 2 * error


class Idler(mind.Mind):
    """Eats apples, and lets others clean."""

    def choose(self, view: Any) -> int:
        blocked = self.obstacles(view)
        return self.toward(blocked, view["apple"]) or self.wander(blocked)


def test_a_group_in_which_some_clean_does_better_than_one_in_which_nobody_does() -> None:
    mission = Mission("cleanup", make_cleanup)

    def mixed(seat: Seat) -> Any:
        return POLICIES["memory"](seat) if seat.index % 3 == 0 else Idler(seat)

    idle = np.mean([play(mission, Idler, seed)[0] for seed in range(3)])
    some = np.mean([play(mission, mixed, seed)[0] for seed in range(3)])
    assert some > idle + 10
    assert idle < 2


# -- random ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 5]),
        spaces.MultiBinary(4),
        spaces.Box(-1, 1, (2,)),
        spaces.Text(5),
        spaces.Tuple([spaces.Discrete(2), spaces.Dict({"a": spaces.Box(0, np.inf)})]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_random_plays_any_space_and_leaves_the_envs_own_alone(space: Any) -> None:
    space.seed(7)
    before = digest(copy.deepcopy(space).sample())
    policy = POLICIES["random"](Seat("a", 0, spaces.Discrete(2), space, "any"))
    runs = []
    for _ in range(2):
        policy.reset(2**62 + 5)
        runs.append([policy.act(0) for _ in range(20)])
    assert digest(runs[0]) == digest(runs[1])
    assert all(space.contains(action) for action in runs[0])
    assert digest(space.sample()) == before


def test_random_keeps_to_an_action_mask() -> None:
    policy = POLICIES["random"](Seat("a", 0, spaces.Discrete(2), spaces.Discrete(4), "any"))
    seen = {"observation": 0, "action_mask": np.array([0, 1, 0, 1], np.int8)}
    assert {int(policy.act(seen)) for _ in range(50)} == {1, 3}


# -- unknown worlds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["greedy", "memory", "torch"])
def test_an_unknown_world_is_refused_with_what_to_use_instead(policy: str) -> None:
    env = gymnasium.make("CartPole-v1")
    seat = Seat("agent", 0, env.observation_space, env.action_space, "gym:CartPole-v1")
    with pytest.raises(BadInput, match=f"'{policy}'.*'gym:CartPole-v1'.*'random'"):
        POLICIES[policy](seat)


# -- torch -------------------------------------------------------------------------------------------------


def rows(count: int) -> tuple[list[Any], list[Seat | None], np.ndarray, list[np.random.Generator]]:
    seats = seats_of(MISSIONS["forage"].build(), "forage")[:count]
    return sights("forage")[:count], list(seats), np.ones(count, bool), [np.random.default_rng(i) for i in range(count)]


def test_padding_touches_no_state_and_changes_no_row() -> None:
    obs, seats, mask, rngs = rows(8)
    policy = TorchNet(seat_in("forage"))
    full = policy.act_batch(obs, seats, mask, [np.random.default_rng(i) for i in range(8)])
    own = digest(policy.snapshot().bit_generator.state)
    mask[5:] = False
    padded = [*obs[:5], obs[0], obs[0], obs[0]]
    untouched = [digest(rng.bit_generator.state) for rng in rngs]
    part = policy.act_batch(padded, [*seats[:5], None, None, None], mask, rngs)
    assert part == [*full[:5], None, None, None]
    after = [digest(rng.bit_generator.state) for rng in rngs]
    assert [before == now for before, now in zip(untouched, after, strict=True)] == [False] * 5 + [True] * 3
    assert digest(policy.snapshot().bit_generator.state) == own


def test_padding_needs_no_generator() -> None:
    obs, seats, mask, _ = rows(2)
    mask[1] = False
    assert TorchNet(seat_in("forage")).act_batch(obs, seats, mask, [np.random.default_rng(0), None])[1] is None


def test_one_pass_serves_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, passes = TorchNet(seat_in("forage")), []
    forward = policy._forward
    monkeypatch.setattr(policy, "_forward", lambda windows: passes.append(len(windows)) or forward(windows))
    policy.act_batch(*rows(8))
    assert passes == [8]


def test_without_sharpness_it_takes_the_likeliest_and_draws_nothing() -> None:
    policy = TorchNet(seat_in("forage"), sharpness=None).to("cpu")
    before = digest(policy.snapshot().bit_generator.state)
    assert policy.act_batch(*rows(8)) == policy.act_batch(*rows(8))
    policy.act(sights("forage")[0])
    assert digest(policy.snapshot().bit_generator.state) == before


def test_the_shipped_weights_are_small_and_no_pickles() -> None:
    files = sorted(WEIGHTS.glob("*"))
    assert [file.name for file in files] == ["cleanup.npz", "courier.npz", "forage.npz", "treasure_hunt.npz"]
    assert sum(file.stat().st_size for file in files) < 300_000
    for file in files:
        assert {array.dtype for array in np.load(file, allow_pickle=False).values()} == {np.dtype(np.float16)}


def test_weights_of_ones_own(tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    seat = Seat("agent", 0, env.observation_space, env.action_space, "gym:CartPole-v1")
    path = tmp_path / "own.npz"
    np.savez(path, weight0=np.array([[0, 0, -9, -9], [0, 0, 9, 9]]), bias0=np.zeros(2))
    assert play(Mission("cartpole", partial(gymnasium.make, "CartPole-v1")), partial(TorchNet, weights=path), 0)[0] > 30
    np.savez(path, weight0=np.zeros((2, 3)), bias0=np.zeros(2))
    with pytest.raises(BadInput, match=r"3 inputs and 2 actions.*has 4 and 2"):
        TorchNet(seat, weights=path)


@pytest.mark.parametrize("content", [None, b"not a zip", b"", b"PK\x03\x04", b"\x93NUMPY"])
def test_weights_that_cannot_be_read(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadInput, match="cannot read weights from"):
        TorchNet(seat_in("forage"), weights=path)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"pip install 'paceline\[train\]'"):
        build("torch", "forage")
    build("greedy", "forage")
