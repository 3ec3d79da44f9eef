"""Row policies: what begins by row, whose seeds these are, what goes beside actions, and policies that serve again."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from players import Meeting, Walk

from paceline import evaluate
from paceline.errors import BadInput
from paceline.team import Chair, Player, Setting, Team
from paceline.types import Acted, Mission, Seat

WALK = Mission("walk", Walk, {"length": 6})


class OwnGenerator:
    """A row policy with a generator of its own, which `reset` seeds."""

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[int]:
        return [int(self.rng.integers(3)) if asked else 0 for asked in mask]


class ByRow:
    """The same, with a generator for each row, which `begin` seeds."""

    def __init__(self) -> None:
        self.rngs: dict[int, np.random.Generator] = {}

    def begin(self, rows: list[int], seeds: list[int]) -> None:
        self.rngs.update({row: np.random.default_rng(seed) for row, seed in zip(rows, seeds, strict=True)})

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[int]:
        return [int(self.rngs[row].integers(3)) if asked else 0 for row, asked in enumerate(mask)]


@pytest.mark.parametrize("policy", [OwnGenerator, ByRow])
def test_a_row_policy_with_a_generator_of_its_own_differs_from_episode_to_episode(policy: Any) -> None:
    """All episodes were given one seed once: six identical ones, and an interval of 0."""
    here = evaluate(Mission("m", Meeting, {"agents": 3, "length": 9}), policy, episodes=6, plan=0)
    assert not here.failures
    assert len({episode.digest for episode in here.episodes}) == 6
    for plan, agents in ((2, "off"), (0, "gpu"), (3, "process")):
        mission = Mission("m", Meeting, {"agents": 3, "length": 9})
        assert evaluate(mission, policy, episodes=6, plan=plan, agents=agents).digest == here.digest


class Thinks:
    """Says what it thinks beside what it does."""

    def __init__(self, seat: Seat) -> None:
        self.agent = seat.agent

    def act(self, obs: Any) -> Acted:
        return Acted(1, {"value": float(obs[0]), "who": self.agent})


class ThinksInRows:
    """The same for all rows at once."""

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Acted:
        return Acted([1] * len(obs), {"value": [float(each[0]) for each in obs]})


class ThinksTooLittle:
    """Forgets the rows of padding."""

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Acted:
        return Acted([1] * len(obs), {"value": [0.0]})


def team_of(factory: Any, agents: str) -> Team:
    env = Meeting(agents=2)
    seats = [Seat(a, n, env.observation_space(a), env.action_space(a), "m") for n, a in enumerate(env.possible_agents)]
    chairs = [Chair(seat.agent, ("m", 0), seat, Player("thinks", factory)) for seat in seats]
    return Team(chairs, Setting(agents=agents))


@pytest.mark.parametrize("factory", [Thinks, ThinksInRows])
@pytest.mark.parametrize("agents", ["off", "thread", "process"])
def test_what_comes_beside_actions_is_the_teams_extras(agents: str, factory: Any) -> None:
    seen = {"agent_0": np.full(3, 0.25), "agent_1": np.full(3, 0.5)}
    with team_of(factory, agents) as team:
        assert team.act(seen) == {"agent_0": 1, "agent_1": 1}
        assert {name: extras["value"] for name, extras in team.extras.items()} == {"agent_0": 0.25, "agent_1": 0.5}
        team.act({"agent_1": np.zeros(3)})
        assert {name: extras["value"] for name, extras in team.extras.items()} == {"agent_1": 0.0}


def test_extras_have_a_value_per_row_too() -> None:
    with team_of(ThinksTooLittle, "off") as team:
        _, mishaps = team.ask({"agent_0": np.zeros(3)})
    assert isinstance(mishaps[0].error, BadInput)
    assert "the extra 'value' of act_batch of policy 'thinks' was asked 8 rows (lanes=8) and answered 1 rows" in str(
        mishaps[0].error
    )


class Costly:
    """Dear to build, and as new after a reset."""

    reuse = True
    built: ClassVar[list[str]] = []

    def __init__(self, seat: Seat) -> None:
        self.built.append(seat.agent)

    def reset(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def act(self, obs: Any) -> int:
        return int(self.rng.integers(3))


class CostlyAgain(Costly):
    """Not declared to be as new."""

    reuse = False


def test_a_policy_that_may_serve_again_is_built_once_for_all_episodes() -> None:
    digests = {}
    for factory, built in ((Costly, 1), (CostlyAgain, 21)):
        Costly.built.clear()
        report = evaluate(WALK, Player("costly", factory), episodes=20, plan=0)
        assert not report.failures
        assert len(Costly.built) == built
        digests[factory] = report.digest
    assert len(set(digests.values())) == 1
    assert evaluate(WALK, Player("costly", Costly), episodes=20, plan=2).digest in digests.values()


class FailsOnce(Costly):
    """Raises in one episode, in the middle of an answer."""

    def act(self, obs: Any) -> int:
        if len(self.built) == 1 and self.rng.random() < 0.02:
            raise RuntimeError("stumbled")
        return super().act(obs)


def test_a_policy_that_raised_does_not_serve_again() -> None:
    Costly.built.clear()
    report = evaluate(WALK, Player("fails", FailsOnce), episodes=40, plan=0)
    assert len(report.failures) == 1
    assert len(Costly.built) == 2
