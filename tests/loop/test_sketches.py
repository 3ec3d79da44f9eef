"""The jobs to come, as small as the loop lets them be: collection with tasks, and independent learners."""

from __future__ import annotations

from typing import Any

from players import Meeting
from sketch_members import Hidden, Learns, Remembers

from paceline.engine import Plan
from paceline.rollout import Rollout, play
from paceline.schedule import Schedule
from paceline.seeds import digest
from paceline.tape import Tape
from paceline.team import Player, Setting, Team
from paceline.types import Mission, Task

HIDDEN = Mission("hidden", Hidden, reuse=True)


def collected(index: int, lanes: int = 4) -> tuple[int, dict[str, Any]]:
    """One rollout: two episodes of a task, with a policy that remembers."""
    rollout, task = Rollout(HIDDEN, index), Task(index, {"hidden": index / 12})
    seats, player = rollout.seats(), Player("remembers", Remembers)
    tape = Tape(seats)
    try:
        with Team.seated(seats, [player], [0], Setting(lanes=lanes), ("hidden", index)) as team:
            for inner in range(2):
                play(rollout, team, 100 * index + inner, task, tape)
    finally:
        rollout.close()
    return index, tape.batch()


def collect(plan: Plan) -> list[dict[str, Any]]:
    with Schedule(collected, lambda index: index, _raise, plan, noun="rollout") as schedule:
        found = dict(result for _, result in schedule.run(range(12), 12))
    return [found[index] for index in range(12)]


def _raise(index: int, error: BaseException) -> Any:
    raise error


def test_rollouts_with_tasks_and_a_memory_are_the_same_everywhere(backend: str) -> None:
    tapes = collect(Plan(backend, 1 if backend == "inline" else 3))
    assert digest(tapes) == digest(collect(Plan("inline", 1)))
    for index, tape in enumerate(tapes):
        length = 4 + index // 3
        assert len(tape["rewards"]) == 2 * length
        assert tape["ends"].tolist() == [length - 1, 2 * length - 1]
        assert tape["final_observations"][:, 0].tolist() == [length, length]
        assert tape["truncations"].sum() == 2
        assert len(tape["values"]) == 2 * length


def trained(agents: str, epochs: int = 6) -> dict[str, Any]:
    """Two independent learners in one world: each is told the outcomes of its own actions, and learns from them."""
    mission = Mission("meeting", Meeting, {"agents": 2, "length": 5}, reuse=True)
    rollout, rewards, figures = Rollout(mission), [], []
    seats, players = rollout.seats(), [Player("one", Learns), Player("other", Learns)]
    with Team.seated(seats, players, [0, 1], Setting(seed=3, agents=agents), ("meeting", 0)) as team:
        for epoch in range(epochs):
            if epoch:
                team.begin({seat.agent: ("meeting", epoch) for seat in seats})
            rewards.append(play(rollout, team, epoch).rewards)
            figures.append(team.learn())
    rollout.close()
    return {"rewards": rewards, "figures": figures}


def test_independent_learners_are_the_same_wherever_they_live() -> None:
    here = trained("off")
    assert [figures["agent_0"]["rows"] for figures in here["figures"]] == [5.0] * 6
    assert here["figures"][0] != here["figures"][-1]
    assert {digest(trained(agents)) for agents in ("off", "thread", "process", "auto")} == {digest(here)}
