"""One environment in play: kinds of environments, limits, ends, and what is recorded."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from players import Counter, Meeting, Walk, turns

import paceline
from paceline.evaluate import evaluate
from paceline.kinds import ONLY_AGENT, shown
from paceline.rollout import Rollout, play
from paceline.team import Player
from paceline.types import Episode, Mission, Step


class Talk:
    """A team of counters: who is asked what, step by step."""

    def __init__(self, rollout: Rollout) -> None:
        self.minds = {seat.agent: Counter(seat) for seat in rollout.seats()}
        self.asked: list[list[str]] = []
        self.extras: dict[str, dict[str, Any]] = {}

    def tell(self, step: Step) -> None:
        """It learns nothing."""

    def act(self, observations: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(list(observations))
        return {agent: self.minds[agent].act(obs) for agent, obs in observations.items()}


def played(mission: Mission, seed: int = 1) -> tuple[Episode, Talk]:
    rollout = Rollout(mission)
    team = Talk(rollout)
    return play(rollout, team, seed), team


def test_a_gymnasium_env_is_a_world_with_one_agent() -> None:
    episode, team = played(Mission("walk", Walk, {"length": 5}))
    assert (episode.steps, episode.ended, episode.truncated) == (5, True, False)
    assert team.asked == [[ONLY_AGENT]] * 5
    assert episode.stats == {ONLY_AGENT: {"time": 5.0}}


def test_the_missions_limit_truncates() -> None:
    episode, _ = played(Mission("walk", Walk, {"length": 50}, steps=7))
    assert (episode.steps, episode.ended, episode.truncated) == (7, False, True)


def test_agents_that_leave_are_not_asked_any_more() -> None:
    episode, team = played(Mission("meeting", Meeting, {"agents": 3, "length": 6, "leave": {1: 2}}))
    assert team.asked == [["agent_0", "agent_1", "agent_2"]] * 2 + [["agent_0", "agent_2"]] * 4
    assert (episode.steps, episode.ended, episode.truncated) == (6, False, True)
    assert set(episode.rewards) == {"agent_0", "agent_1", "agent_2"}
    assert {agent: numbers["turns"] for agent, numbers in episode.stats.items()} == {
        "agent_0": 6.0,
        "agent_1": 2.0,  # the last that it was told
        "agent_2": 6.0,
    }


def test_stats_are_numbers_and_nothing_else() -> None:
    episode, _ = played(Mission("meeting", Meeting, {"length": 2}))
    assert episode.stats["agent_0"] == {"turns": 2.0}  # no names, and no flags


def test_an_episode_without_agents_is_over_at_once() -> None:
    class Empty(Meeting):
        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed)
            self.agents = []
            return {}, {}

    episode, team = played(Mission("empty", Empty))
    assert (episode.steps, episode.ended, team.asked) == (0, True, [])
    assert len(episode.digest) == 64


def test_an_env_by_turns_is_played_in_turns() -> None:
    """Everybody is asked, and who is not on turn is not heard; the one who leaves is let go."""
    episode, team = played(Mission("turns", turns))
    assert [set(asked) for asked in team.asked[:5]] == [{"north", "east", "south"}] * 5
    assert set(team.asked[-1]) == {"north", "south"}
    assert (episode.steps, episode.truncated) == (9, True)
    assert set(episode.rewards) == {"north", "east", "south"}
    assert played(Mission("turns", turns))[0].digest == episode.digest


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")
@pytest.mark.parametrize("name", ["classic.tictactoe_v3", "classic.rps_v2"])
def test_envs_of_pettingzoo_that_go_by_turns(name: str) -> None:
    from paceline.catalog import find_missions

    report = evaluate(find_missions([f"pz:{name}"], steps=30), "random", episodes=3, plan=0, agents="off")
    assert report.failures == []
    assert [len(episode.seats) for episode in report.episodes] == [2] * 3
    assert all(episode.steps > 0 for episode in report.episodes)


def test_what_is_no_environment_is_refused() -> None:
    with pytest.raises(paceline.BadInput, match="which is no environment; missions are"):
        Rollout(Mission("dict", dict))


REMEMBERED: list[Any] = []


def remembers(obs: Any) -> int:
    REMEMBERED.append(obs)
    return 2


@pytest.mark.parametrize("mode", ["off", "thread"])
def test_an_env_that_writes_into_what_it_has_shown_does_no_harm(mode: str) -> None:
    """Walk gives the same array again and again; a policy that keeps what it saw must find it as it was."""
    report = evaluate(Mission("walk", Walk, {"length": 4}), Player("keeps", remembers), plan=0, agents=mode)
    assert report.failures == []
    kept = REMEMBERED[-4:]
    assert not kept[0].any()
    assert len({obs.tobytes() for obs in kept}) == 4


def test_the_digest_follows_seed_and_actions() -> None:
    mission = Mission("walk", Walk, {"length": 4})

    def digest(seed: int, actions: list[int]) -> str:
        rollout = Rollout(mission)
        rollout.begin(seed)
        for action in actions:
            rollout.step({ONLY_AGENT: action})
        return rollout.episode.digest

    assert digest(1, [0, 1, 2, 0]) == digest(1, [0, 1, 2, 0])
    assert digest(1, [0, 1, 2, 0]) != digest(2, [0, 1, 2, 0])
    assert digest(1, [0, 1, 2, 0]) != digest(1, [0, 1, 2, 1])


def test_seats_are_told_their_spaces() -> None:
    box, mixed = spaces.Box(0, 1, (2,), np.float32), spaces.Dict({"a": spaces.Discrete(2)})
    mission = Mission("two", Meeting, {"agents": 2, "seen": [box, mixed], "done": spaces.Discrete(5)})
    first, second = Rollout(mission, device="cpu").seats()
    assert (first.agent, first.index, first.mission, first.device) == ("agent_0", 0, "two", "cpu")
    assert (first.observation_space, second.observation_space) == (box, mixed)
    assert second.action_space == spaces.Discrete(5)


def test_options_count_before_the_missions_own() -> None:
    mission = Mission("meeting", Meeting, {"agents": 3, "length": 6})
    assert len(Rollout(mission, options={"agents": 5}).seats()) == 5


# -- environments that do not keep to their protocol ---------------------------------------------------------


class OldWalk(Walk):
    """Answers as it is told."""

    def __init__(self, first: Any = None, then: Any = None) -> None:
        super().__init__()
        self.first, self.then = first, then

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        answer = super().reset(seed=seed)
        return answer if self.first is None else self.first

    def step(self, action: int) -> Any:
        answer = super().step(action)
        return self.then if self.then is not None and self.time == 2 else answer


class OddMeeting(Meeting):
    """Changes what it gives in its second step."""

    def __init__(self, change: Any) -> None:
        super().__init__(agents=2)
        self.change = change

    def step(self, actions: dict[str, Any]) -> Any:
        answer = super().step(actions)
        return self.change(*answer) if self.time == 2 else answer


def without(mapping: dict[str, Any]) -> dict[str, Any]:
    return {agent: value for agent, value in mapping.items() if agent != "agent_1"}


SEEN = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("mission", "step", "complaint"),
    [
        (Mission("old", OldWalk, {"first": SEEN}), 0, r"reset\(\) of its environment gave array"),
        (Mission("old", OldWalk, {"first": (SEEN, {}, 1)}), 0, "gave 3 values; it must give 2: observation, info"),
        (
            Mission("old", OldWalk, {"then": (SEEN, 0.0, False, {})}),
            1,
            "gave 4 values; it must give 5: observation, reward, terminated, truncated, info",
        ),
        (Mission("old", OldWalk, {"then": SEEN}), 1, r"step\(\) of its environment gave array"),
        (
            Mission("old", OldWalk, {"then": (SEEN, None, False, False, {})}),
            1,
            "gave None .* as the reward of 'agent_0'",
        ),
        (
            Mission("odd", OddMeeting, {"change": lambda o, r, e, c, i: (o, r, e, i)}),
            1,
            "gave 4 values; it must give 5",
        ),
        (
            Mission("odd", OddMeeting, {"change": lambda o, r, e, c, i: (without(o), r, e, c, i)}),
            1,
            "gave no observations for agent 'agent_1', who is in play",
        ),
        (
            Mission("odd", OddMeeting, {"change": lambda o, r, e, c, i: (o, r, e, {}, i)}),
            1,
            "gave no truncations for agent 'agent_0'",
        ),
        (
            Mission("odd", OddMeeting, {"change": lambda o, r, e, c, i: (o, {**r, "x": 1.0}, e, c, i)}),
            1,
            "gave a reward for 'x', who is none of possible_agents",
        ),
        (
            Mission("odd", OddMeeting, {"change": lambda o, r, e, c, i: (o, 1.0, e, c, i)}),
            1,
            r"gave 1.0 \(float\) as rewards; it must be a dict, by agent",
        ),
    ],
)
def test_an_env_that_gives_something_else_is_told_so(mission: Mission, step: int, complaint: str) -> None:
    (episode,) = evaluate(mission, Counter, plan=0).episodes
    assert episode.failure is not None
    assert episode.failure.kind == "BadInput"
    assert episode.failure.message.startswith(f"mission {mission.name!r}: ")
    assert re.search(complaint, episode.failure.message), episode.failure.message
    assert abs(episode.failure.step - step) <= 1


class Learns(Counter):
    """A learner that learns nothing."""

    def learn(self, window: Any) -> dict[str, float]:
        return {}

    def snapshot(self) -> Any:
        return {}

    def restore(self, state: Any) -> None:
        pass


@pytest.mark.parametrize("info", [None, "x", "", [], (), 0], ids=repr)
def test_an_info_is_a_dict(info: Any) -> None:
    """That of a reset and of a step, of an agent and of all, in every job; empty ones of other kinds too."""
    missions = [
        Mission("first", OldWalk, {"first": (SEEN, info)}),
        Mission("then", OldWalk, {"then": (SEEN, 0.0, False, False, info)}),
        Mission("one", OddMeeting, {"change": lambda o, r, e, c, i: (o, r, e, c, {**i, "agent_1": info})}),
        Mission("all", OddMeeting, {"change": lambda o, r, e, c, i: (o, r, e, c, info)}),
    ]
    gave = [
        f"mission 'first': reset() of its environment gave {shown(info)} as the info of agent 'agent_0'",
        f"mission 'then': step() of its environment gave {shown(info)} as the info of agent 'agent_0'",
        f"mission 'one': step() of its environment gave {shown(info)} as the info of agent 'agent_1'",
        f"mission 'all': step() of its environment gave {shown(info)} as infos",
    ]
    report = evaluate(missions, Counter, plan=0)
    assert [episode.failure.message.partition(";")[0] for episode in report.failures if episode.failure] == gave
    with pytest.raises(paceline.RolloutsFailed, match=re.escape(gave[0])):
        paceline.collect(missions[0], Counter, rollouts=1, plan=0)
    with pytest.raises(paceline.BadInput, match=re.escape(gave[1])):
        paceline.train(missions[1], Learns, epochs=1, plan=0)


def test_what_an_env_raises_itself_comes_as_it_is() -> None:
    class Raises(Walk):
        def step(self, action: int) -> Any:
            raise KeyError("its own")

    (episode,) = evaluate(Mission("raises", Raises), Counter, plan=0).episodes
    assert episode.failure is not None
    assert (episode.failure.kind, episode.failure.message) == ("KeyError", "'its own'")
