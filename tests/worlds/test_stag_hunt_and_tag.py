"""Stag hunt and tag keep the rules that their modules state, and count how agents cooperate."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import evaluate
from paceline.errors import BadInput
from paceline.worlds import make_stag_hunt, make_tag
from paceline.worlds.stag_hunt import Stag

STAY, NORTH, SOUTH, WEST, EAST = range(5)
Cell = tuple[int, int]


def place(env: Any, cell: Cell) -> int:
    return int(env.world.inside[cell[0] * env.world.width + cell[1]])


def put(env: Any, cells: list[Cell]) -> None:
    """An empty world with the agents where a test wants them."""
    env.world.clear()
    env.world.turn = 1
    for agent, cell in zip(env.game.agents, cells, strict=True):
        env.world.add(agent, place(env, cell))


def hunt(cells: list[Cell], stags: tuple[Cell, ...] = (), hares: tuple[Cell, ...] = (), **options: Any) -> Any:
    env = make_stag_hunt(agents=len(cells), size=9, stags=max(1, len(stags)), hares=len(hares), **options)
    env.reset(seed=0)
    put(env, cells)
    for cell in stags:
        env.world.add(Stag(), place(env, cell))
    env.world.fill("hare", [place(env, cell) for cell in hares])
    return env


def step(env: Any, *choices: int) -> tuple[list[float], list[dict[str, int]]]:
    _, rewards, _, _, infos = env.step(dict(zip(env.agents, choices, strict=True)))
    return list(rewards.values()), list(infos.values())


def test_a_stag_is_caught_by_two_beside_it_and_not_by_one() -> None:
    env = hunt([(4, 3), (4, 7)], stags=((4, 4),))
    rewards, infos = step(env, STAY, WEST)
    assert rewards == [0.0, 0.0]
    assert [info["waited"] for info in infos] == [1, 0]
    rewards, infos = step(env, STAY, WEST)
    assert rewards == [Stag.value, Stag.value]
    assert [info["stags"] for info in infos] == [1, 1]
    assert env.world["stag"].sum() == 1
    assert env.game.measures() == {
        "stags": 1,
        "hunters_per_stag": 2.0,
        "hares": 0,
        "abandoned": 0,
        "cooperation": 1.0,
    }


def test_to_leave_a_stag_that_is_not_caught_is_to_abandon_it() -> None:
    """Once per stag that is left; a hare that is taken instead counts as caught alone."""
    env = hunt([(4, 3), (8, 8)], stags=((4, 4),), hares=((4, 2),))
    assert [info["abandoned"] for info in step(env, STAY, STAY)[1]] == [0, 0]
    rewards, infos = step(env, WEST, STAY)
    assert rewards == [1.0, 0.0]
    assert [info["abandoned"] for info in infos] == [1, 0]
    assert [info["hares"] for info in infos] == [1, 0]
    assert env.world["hare"].sum() == 1
    assert (env.game.measures()["cooperation"], env.game.measures()["abandoned"]) == (0.0, 1)


def test_a_stag_stands_still_while_an_agent_is_beside_it_and_blocks_the_way() -> None:
    env = hunt([(4, 3), (8, 8)], stags=((4, 4),))
    for _ in range(40):
        infos = step(env, EAST, STAY)[1]
        assert env.world.find("stag", place(env, (4, 4))) is not None
    assert infos[0]["blocked"] == 40
    step(env, WEST, STAY)
    places = set()
    for _ in range(40):
        step(env, STAY, STAY)
        places.add(int(env.world["stag"].argmax()))
    assert len(places) > 3


@settings(max_examples=15, deadline=None, derandomize=True)
@given(agents=st.integers(2, 20), hunters=st.integers(1, 2), seed=st.integers(0, 2**31))
def test_stags_and_hares_are_conserved_and_rewards_add_up(agents: int, hunters: int, seed: int) -> None:
    env, rng = make_stag_hunt(agents=agents, hunters=hunters, steps=25), np.random.default_rng(seed)
    env.reset(seed=seed)
    total = np.zeros(agents)
    while env.agents:
        rewards, infos = step(env, *rng.integers(5, size=agents).tolist())
        total += rewards
        assert env.world["stag"].sum() == env.game.stags
        assert env.world["hare"].sum() == env.game.hares
        assert not (env.world["hare"] & env.world["agent"]).any()
        expected = [info["hares"] + Stag.value * info["stags"] for info in infos]
        np.testing.assert_allclose(total, expected)


def test_what_agents_do_does_not_shift_the_draws_that_follow() -> None:
    for make in (make_stag_hunt, make_tag):
        idle, busy, rng = make(agents=6), make(agents=6), np.random.default_rng(1)
        idle.reset(seed=5)
        busy.reset(seed=5)
        for _ in range(60):
            step(idle, *[STAY] * 6)
            step(busy, *rng.integers(5, size=6).tolist())
        assert idle.game.rng.bit_generator.state == busy.game.rng.bit_generator.state


def test_results_tell_how_agents_cooperated() -> None:
    """Greedy agents hunt together, random ones hardly; the measures are the game's stats in a report."""
    shares = {}
    for policy in ("greedy", "random"):
        report = evaluate("stag_hunt,steps=60", policy, episodes=3, plan="inline")
        assert report.episodes[0].game_stats.keys() == {
            "stags",
            "hunters_per_stag",
            "hares",
            "abandoned",
            "cooperation",
        }
        assert report.episodes[0].stats["agent_0"].keys() >= {"stags", "hares", "waited", "abandoned"}
        shares[policy] = float(np.mean([episode.game_stats["stags"] for episode in report.episodes]))
    assert shares["greedy"] > 5 * shares["random"] + 5


# -- tag ---------------------------------------------------------------------------------------------------


def chase(cells: list[Cell], it: int = 0, **options: Any) -> Any:
    env = make_tag(agents=len(cells), size=9, **options)
    env.reset(seed=0)
    put(env, cells)
    for agent in env.game.agents:
        agent.is_it = agent.number == it
    env.world.fill("it", env.game.agents[it].place)
    return env


def test_it_tags_whom_it_walks_into_and_is_free() -> None:
    env = chase([(4, 3), (4, 4), (8, 8)], rest=2)
    rewards, infos = step(env, EAST, STAY, STAY)
    assert rewards == [1.0, -1.0, 0.0]
    assert [agent.is_it for agent in env.game.agents] == [False, True, False]
    assert [info["tagged"] for info in infos] == [1, 0, 0]
    assert [info["caught"] for info in infos] == [0, 1, 0]
    assert env.world["it"].nonzero()[0].tolist() == [env.game.agents[1].place]
    for _ in range(2):  # turns of rest: it cannot tag back
        assert step(env, STAY, WEST, STAY)[0] == [0.0, 0.0, 0.0]
    assert step(env, STAY, WEST, STAY)[0] == [-1.0, 1.0, 0.0]
    assert env.game.measures() == {"tags": 2, "longest_it": 3}


def test_others_cannot_tag_and_those_who_are_it_do_not_tag_each_other() -> None:
    env = chase([(4, 3), (4, 4), (8, 8)], it=2)
    assert step(env, EAST, WEST, STAY)[0] == [0.0, 0.0, 0.0]
    both = chase([(4, 3), (4, 4), (8, 8)], its=2)
    both.game.agents[1].is_it = True
    both.world.fill("it", both.game.agents[1].place)
    assert step(both, EAST, STAY, STAY)[0] == [0.0, 0.0, 0.0]


@settings(max_examples=15, deadline=None, derandomize=True)
@given(agents=st.integers(2, 20), seed=st.integers(0, 2**31), ordered=st.booleans())
def test_as_many_are_it_as_in_the_beginning_and_each_bears_its_mark(agents: int, seed: int, ordered: bool) -> None:
    env = make_tag(agents=agents, steps=30, rest=1, turn="ordered" if ordered else "simultaneous")
    game, rng = env.game, np.random.default_rng(seed)
    game.reset(seed)
    while not game.over:
        game.play_turn(rng.integers(5, size=agents).tolist())
        marked = sorted(agent.place for agent in game.agents if agent.is_it)
        assert game.world["it"].nonzero()[0].tolist() == marked
        assert len(marked) == game.its
        assert game.world.total_reward == 0.0


def test_greedy_agents_are_better_at_tag_than_random_ones() -> None:
    """In the same games: they tag, and are not caught."""
    report = evaluate("tag,agents=8", ["greedy", "random"], episodes=4, plan="inline")
    rewards = {score.policy: score.reward.mean for score in report.scores() if score.policy != "all"}
    assert rewards["greedy"] > 0.1 > -0.1 > rewards["random"]


@pytest.mark.parametrize(
    ("make", "options", "hint"),
    [
        (make_stag_hunt, {"agents": 1}, "from 2 to 64"),
        (make_stag_hunt, {"hunters": 5, "agents": 8}, "from 1 to 4"),
        (make_stag_hunt, {"stags": 0}, "stags=0"),
        (make_tag, {"its": 5}, "from 1 to 4"),
        (make_tag, {"size": 2}, "size=2"),
        (make_tag, {"turn": "both"}, "'simultaneous' or 'ordered'"),
    ],
)
def test_a_bad_option_is_refused(make: Any, options: dict[str, Any], hint: str) -> None:
    with pytest.raises(BadInput, match=hint):
        make(**options)
