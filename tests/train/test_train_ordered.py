"""Ordered turns: agents act one after another, and speculation changes no bit of what comes of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ordered_worlds import Blurred, Coins, InParallel, Undeclared
from train_members import Counts, Dies, Falls, Field

import paceline
from paceline import Mission, Plan, train
from paceline.catalog import find_missions
from paceline.rollout import Rollout
from paceline.seeds import env_seed
from paceline.train import Training
from paceline.train.job import in_turns
from paceline.train.speculation import Pace

COINS = Mission("coins", Coins)
MIXED = {
    "agent_0": "dqn,hidden=8",
    "agent_1": Counts,
    "agent_2": "ppo,hidden=8",
    "agent_3": "random",
    "agent_4": "dqn,hidden=8,memory=4",
}
ACTING = Plan("process", 2, agents="process")


def played(plan: Any = "inline", **more: Any) -> Training:
    asked = {"mission": COINS, "learners": "dqn,hidden=16,explore=3", "epochs": 8, "turn": "ordered", "seed": 3}
    return train(**{**asked, "plan": plan, **more})


def by_hand(env: Any, choose: Any, seed: int) -> tuple[dict[str, list[tuple[Any, ...]]], dict[str, float]]:
    """Agent → (observation, action, reward until it is asked again, terminated, truncated) of each of its actions.

    Also what each agent got in all, before its first action too.
    """
    totals = dict.fromkeys(env.possible_agents, 0.0)
    rows: dict[str, list[list[Any]]] = {agent: [] for agent in env.possible_agents}
    env.reset(seed=seed)
    for agent in env.agent_iter():
        seen, reward, ended, cut, _ = env.last()
        totals[agent] += reward
        if rows[agent]:
            rows[agent][-1] += [reward, ended, cut]
        action = None if ended or cut else choose(seen)
        if action is not None:
            rows[agent].append([seen.tolist(), action])
        env.step(action)
    return {agent: [tuple(row) for row in mine] for agent, mine in rows.items()}, totals


class Walks:
    """A learner that goes where it sees fewer coins, and learns nothing."""

    def act(self, obs: Any) -> int:
        return int(obs[:5].argmin()) % 3

    def learn(self, window: Any) -> dict[str, float]:
        return {"rows": float(len(window))}

    def snapshot(self) -> Any:
        return {}

    def restore(self, state: Any) -> None:
        pass


def test_rows_are_those_of_a_loop_over_agents() -> None:
    """An agent's row has what it saw when it acted, and all that it collected until it was asked again, or ended."""
    kept: list[dict[str, Any]] = []

    def record(epoch: int, tape: Any) -> None:
        columns = {agent: track.columns for (_, agent), track in tape.tracks.items()}
        names = ("observations", "actions", "rewards", "terminations", "truncations")
        kept.append(
            {agent: list(zip(*(mine[name].tolist() for name in names), strict=True)) for agent, mine in columns.items()}
        )

    found = played(learners=Walks, epochs=6, recorder=record)
    for epoch, rows in enumerate(kept):
        expected, totals = by_hand(Coins(), Walks().act, env_seed(3, "world", epoch, 0))
        assert rows == expected
        assert found.totals[epoch, 0].tolist() == list(totals.values())
    assert {row[2] for rows in kept for mine in rows.values() for row in mine} >= {0.0, 1.0, 1.25}  # by others too


@pytest.mark.parametrize(
    ("plan", "lag"), [(Plan("thread", 2), 1), (Plan("process", 2), 0), (Plan("process", 2), 1), (ACTING, 1)], ids=str
)
def test_one_digest_in_any_place_speculated_or_not(plan: Any, lag: int) -> None:
    reference = played(lag=lag, speculate=False)
    for speculate in (True, None):
        assert played(plan, lag=lag, speculate=speculate).digest == reference.digest


@pytest.mark.parametrize("learners", ["ppo,hidden=16", MIXED], ids=["ppo", "mixed"])
def test_speculation_changes_nothing_of_several_worlds(learners: Any) -> None:
    """Users' own learners and scripted policies are asked in order, among learners that are asked ahead."""
    agents = {"mission": Mission("coins", Coins, {"agents": 5}), "learners": learners, "worlds": 3}
    off, on = played(speculate=False, **agents), played(speculate=True, **agents)
    assert on.digest == off.digest
    assert off.speculation is not None
    assert on.speculation is not None
    assert off.speculation.ahead == 0
    assert 0 < on.speculation.again < on.speculation.ahead
    assert (on.speculation.ahead == on.speculation.answers) == (learners != MIXED)


def test_ordered_turns_are_another_game_than_simultaneous_ones() -> None:
    hunt = {"mission": "treasure_hunt,steps=10", "epochs": 4}
    assert played(**hunt).digest != played(**hunt, turn="simultaneous").digest


@pytest.mark.parametrize("member", [Dies, Falls])
def test_one_who_is_killed_costs_no_bit(member: Any, tmp_path: Path) -> None:
    """A learner in its process, or a policy in its own while agents act in order."""
    dies = partial(member, tmp_path / "mark")
    learners = {"agent_0": "dqn,hidden=8", "agent_1": dies, "agent_2": "dqn,hidden=8", "agent_3": Counts}
    there = played(Plan("process", 2, agents="process" if member is Falls else None), learners=learners, speculate=True)
    assert (tmp_path / "mark").exists()
    assert there.digest == played(learners=learners, speculate=False).digest


def test_a_run_goes_on_speculated_or_not(tmp_path: Path) -> None:
    def stop(trainer: Any) -> None:
        if trainer.epoch == 3:
            trainer.checkpoint()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        played(out=tmp_path, speculate=True, watcher=stop)
    resumed = played(Plan("process", 2), out=tmp_path, speculate=False, resume=True)
    assert resumed.digest == played().digest
    assert resumed.speculation is not None
    assert 0 < resumed.speculation.ahead < resumed.speculation.answers == resumed.rows
    with pytest.raises(paceline.BadInput, match="holds another run"):
        played(out=tmp_path, max_turns=3, resume=True)


def test_a_limit_of_turns_is_one_of_each_agents_turns() -> None:
    """All are cut off when the first of them has acted so often, with what they have collected until then."""
    ends: list[Any] = []

    def record(epoch: int, tape: Any) -> None:
        ends.extend((track.columns["truncations"].tolist(), len(track)) for track in tape.tracks.values())

    cut = played(max_turns=3, epochs=1, recorder=record, speculate=True)
    assert ends == [([False, False, True], 3)] * 4
    assert cut.steps == cut.rows == 12
    assert cut.digest == played(max_turns=3, epochs=1, speculate=False).digest


def test_the_parallel_form_of_a_world_is_played_in_its_order() -> None:
    assert played(mission=Mission("coins", InParallel)).digest == played().digest


def test_a_world_that_does_not_say_that_looking_is_free_is_speculated_if_asked() -> None:
    plain = played(mission=Mission("coins", Undeclared))
    assert "metadata['observe_is_pure']" in plain.notes[-1]
    asked = played(mission=Mission("coins", Undeclared), speculate=True)
    assert asked.digest == plain.digest
    assert "of them made again; as asked" in asked.notes[-1]
    with pytest.raises(paceline.BadInput, match="changes if `observe` is called twice"):
        played(mission=Mission("blurred", Blurred), speculate=True)
    assert played(mission=Mission("blurred", Blurred)).rows == plain.rows


@pytest.mark.parametrize("env", ["pz:mpe2.simple_spread_v3", "pz:classic.connect_four_v3"])
def test_envs_of_pettingzoo_take_their_turns(env: str) -> None:
    """In the one nothing happens before all have chosen, in the other each move changes what the next player sees."""
    short = {"mission": env, "epochs": 2, "max_turns": 5, "learners": "dqn,hidden=8,batch=8,steps=2"}
    off, on = played(speculate=False, **short), played(speculate=True, **short)
    assert on.digest == off.digest
    assert on.speculation is not None
    assert on.speculation.rate == 0 if "mpe2" in env else on.speculation.rate > 0.3


def test_agents_that_cannot_be_asked_ahead_are_asked_in_order() -> None:
    found = played(learners=Counts, speculate=True)
    assert found.digest == played(learners=Counts).digest
    assert found.as_dict()["speculation"]["ahead"] == 0
    assert "no agent can be asked ahead" in found.notes[-1]


@pytest.mark.parametrize("quicker", [True, False])
def test_the_quicker_way_is_taken_and_looked_at_again(quicker: bool) -> None:
    pace = Pace(None)
    taken = []
    for _ in range(5000):
        taken.append(pace.turn())
        pace.spend(1.0 if taken[-1] == quicker else 2.0, 1)
    assert set(taken[100:900]) == {quicker}
    assert len(set(taken[900:1100])) == 2
    assert taken[-1] == quicker
    assert pace.why.startswith("on" if quicker else "off")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"turn": "sometimes"}, "turn='sometimes'; give simultaneous or ordered"),
        (
            {"mission": Mission("field", Field)},
            "'field' is a PettingZoo parallel env .*cannot be stepped agent by agent",
        ),
        ({"mission": "gym:CartPole-v1"}, "is a Gymnasium env"),
        ({"mission": "treasure_hunt", "turn": "simultaneous", "speculate": True}, "give turn='ordered' with it"),
        ({"turn": "simultaneous"}, "'coins' act one after another: give turn='ordered'"),
    ],
)
def test_what_cannot_be_played_in_order_is_told_before_anything_starts(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        played(**given)


@pytest.mark.parametrize("game", ["treasure_hunt", "forage", "cleanup", "stag_hunt", "tag"])
def test_games_on_a_grid_are_played_in_order(game: str) -> None:
    """Each is told that turns are ordered, declares that looking is free, and its measures are in the record."""
    (mission,) = find_missions([game], steps=3)
    rollout = Rollout(in_turns(mission, "ordered"))
    seen = rollout.begin(1)
    assert rollout.can_look
    while not rollout.over:
        assert len(seen) == 1
        seen = rollout.step(dict.fromkeys(seen, 1)).observations
    assert rollout.episode.steps == 3 * len(rollout.seats())
    assert bool(rollout.episode.game_stats) == (game in ("stag_hunt", "tag"))
    rollout.close()


def test_looking_gives_what_the_agents_will_see_if_nothing_happens() -> None:
    """The look is at all agents in play but the one that is due, and leaves no trace."""
    rollout = Rollout(in_turns(COINS, "ordered"), digested=False)
    seen = rollout.begin(1)
    looked = rollout.look()
    assert list(seen) == ["agent_0"]
    assert list(looked) == ["agent_1", "agent_2", "agent_3"]
    following = rollout.step({"agent_0": 1}).observations
    assert np.array_equal(following["agent_1"], looked["agent_1"])
    rollout.close()
