"""One digest of a report, wherever episodes and agents are played and whatever happens to workers: that of -j 0."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from players import (
    Counter,
    Dice,
    HarmfulRows,
    Harms,
    LateDice,
    Meeting,
    Rows,
    Saved,
    SavedRows,
    Squad,
    Told,
    ToldRows,
    WaitingDice,
    Walk,
)
from waits import until

from paceline.catalog import find_missions
from paceline.evaluate import Report, evaluate
from paceline.evaluate.store import read_report
from paceline.team import Player
from paceline.types import Episode, Mission

PLANS = (0, 1, 2, 4)
EVERYBODY = ("random", "greedy", "memory", "torch")
SIX = ("courier", "courier-maze", "forage", "cleanup", "forage-duel", "forage-64")
MEETING = Mission("meeting", Meeting, {"agents": 8, "length": 12, "leave": {2: 5, 5: 9}})


def six(plan: int | str, agents: str, **options: object) -> Report:
    """Missions × episodes × 1 to 64 agents, four policies mixed."""
    return evaluate(
        find_missions(SIX, steps=20),
        EVERYBODY,
        episodes=2,
        seed=3,
        plan=plan,
        agents=agents,
        **options,  # type: ignore[arg-type]
    )


def small(policy: object, plan: int | str = 0, agents: str = "off", **options: object) -> Report:
    return evaluate(MEETING, policy, episodes=3, seed=5, plan=plan, agents=agents, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def reference() -> Report:
    return six(0, "off")


def test_the_reference_is_whole(reference: Report) -> None:
    assert [len(episode.seats) for episode in reference.episodes[::2]] == [1, 1, 8, 6, 2, 64]
    assert reference.complete
    assert reference.failures == []
    assert {policy for episode in reference.episodes for policy in episode.seats.values()} == set(EVERYBODY)


@pytest.mark.parametrize("plan", PLANS)
def test_the_same_with_any_number_of_jobs(reference: Report, plan: int) -> None:
    assert six(plan, "auto").digest == reference.digest


@pytest.mark.parametrize("agents", ["thread", "process", "batch", "gpu"])
def test_the_same_with_agents_anywhere(reference: Report, agents: str) -> None:
    assert six(0, agents).digest == reference.digest


@pytest.mark.parametrize("agents", ["off", "process", "gpu"])
def test_the_same_with_all_three_levels_at_once(reference: Report, agents: str) -> None:
    assert six(2, agents).digest == reference.digest


def test_the_same_when_auto_plans(reference: Report) -> None:
    report = six("auto", "auto")
    assert report.digest == reference.digest
    assert [episode.rewards for episode in report.episodes] == [episode.rewards for episode in reference.episodes]


def test_the_same_on_ray(reference: Report, ray_cluster: str) -> None:
    assert six("ray", "auto").digest == reference.digest


@pytest.mark.parametrize("policy", [Dice, Rows], ids=lambda policy: policy.__name__)
def test_the_same_for_any_policy_on_ray(policy: type, ray_cluster: str) -> None:
    assert small(policy, "ray").digest == small(policy).digest


@pytest.mark.parametrize("policy", EVERYBODY)
def test_every_policy_alone(policy: str) -> None:
    missions = find_missions(["courier", "forage", "cleanup"], steps=30)

    def digest(plan: int, agents: str) -> str:
        return evaluate(missions, policy, episodes=2, plan=plan, agents=agents).digest

    assert {digest(2, "off"), digest(0, "process"), digest(0, "thread"), digest(0, "gpu")} == {digest(0, "off")}


STATEFUL = (Counter, Saved, Squad, Rows, SavedRows, Told, ToldRows)


@pytest.mark.parametrize("policy", STATEFUL, ids=lambda policy: policy.__name__)
def test_policies_keep_their_state(policy: type) -> None:
    """Alone, shared by the seats of an episode, or by rows of a batch: it is theirs, from the first action on."""
    player = Player("player", Squad() if policy is Squad else policy)
    places = [(0, "off"), (0, "process"), (0, "thread"), (0, "gpu"), (0, "auto"), (2, "off")]
    assert len({small(player, plan, agents).digest for plan, agents in places}) == 1


@pytest.mark.parametrize("policy", [Dice, LateDice])
def test_policies_that_draw_from_the_process(policy: type) -> None:
    places = [(0, "off"), (0, "process"), (0, "thread"), (2, "off"), (0, "batch"), (0, "gpu")]
    assert len({small(policy, plan, agents).digest for plan, agents in places}) == 1


@pytest.mark.parametrize("policy", [Dice, LateDice])
def test_in_episodes_on_threads_such_draws_are_a_named_error(policy: type) -> None:
    report = small(policy, "thread", "thread")
    assert {episode.failure.kind for episode in report.episodes if episode.failure} == {"SharedRandomness"}
    assert len(report.failures) == len(report.episodes)
    assert "use processes" in report.failures[0].failure.message  # type: ignore[union-attr]


def test_auto_takes_those_who_draw_from_threads_to_processes() -> None:
    """They wait, so threads are chosen; then they draw from a generator that belongs to the process."""
    mission = Mission("meeting", Meeting, {"agents": 6, "length": 18})
    here, there = (evaluate(mission, WaitingDice, plan=0, agents=mode, seed=2) for mode in ("off", "auto"))
    assert there.failures == []
    assert there.digest == here.digest


# -- workers that are killed -------------------------------------------------------------------------------


def _is_a_server(child: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):  # a child of another test that has ended
        return "paceline.engine.workers.process.fork_server" in " ".join(child.cmdline())
    return False


class Assassin:
    """Kills every worker that there is when the first episode has ended."""

    def __init__(self) -> None:
        self.killed: list[int] = []

    def __call__(self, episode: Episode, done: int, total: int) -> None:
        if not self.killed:
            mine = psutil.Process().children()
            servers = [child for child in mine if _is_a_server(child)]
            for worker in [worker for server in servers for worker in server.children()]:
                worker.send_signal(signal.SIGKILL)
                self.killed.append(worker.pid)


def test_the_same_with_workers_killed(reference: Report) -> None:
    assassin = Assassin()
    report = six(2, "off", watcher=assassin)
    assert report.digest == reference.digest
    obituaries = [f"pid {pid}) was killed by SIGKILL" for pid in assassin.killed]
    assert any(obituary in note for obituary in obituaries for note in report.notes), (obituaries, report.notes)


def deadly(marker: Path) -> list[Player]:
    """A policy that kills the process that it lives in, once, unless that is this one."""
    harms = partial(Harms, how="sigkill", at=6, agent="agent_3", once=str(marker), spare=os.getpid())
    return [Player("harms", harms, 3), Player("saved", Saved), Player("dice", Dice)]


@pytest.mark.parametrize(("plan", "agents"), [(0, "process"), (2, "process"), (2, "off")])
def test_the_same_with_an_agents_process_killed(tmp_path: Path, plan: int, agents: str) -> None:
    marker = tmp_path / "killed"
    report = small(deadly(marker), plan, agents)
    assert marker.exists()
    assert report.failures == []
    assert report.digest == small(deadly(tmp_path / "not here")).digest


@pytest.mark.parametrize(("plan", "agents"), [(0, "process"), (2, "batch")])
def test_the_same_with_the_process_of_a_batch_killed(tmp_path: Path, plan: int, agents: str) -> None:
    def player(name: str) -> Player:
        return Player("rows", partial(HarmfulRows, once=str(tmp_path / name), spare=os.getpid()))

    report = small(player("killed"), plan, agents)
    assert (tmp_path / "killed").exists()
    assert report.digest == small(player("not here")).digest


# -- what the digest is of ---------------------------------------------------------------------------------


class Stumbles(Walk):
    """Raises in its second step if its seed is 2 or 4; with seed 1 it waits for the last of these failures.

    Args:
        last: The seed of that failure.
        told: A directory in which failures are told; None: nothing is waited for.
    """

    def __init__(self, last: int, told: str | None = None) -> None:
        super().__init__(4)
        self.last, self.told = last, told

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.seed = seed
        return super().reset(seed=seed)

    def step(self, action: int) -> Any:
        if self.seed in (2, 4) and self.time == 1:
            if self.told is not None:
                Path(self.told, str(self.seed)).touch()
            raise ArithmeticError("it stumbles")
        if self.seed == 1 and self.told is not None:
            until(Path(self.told, str(self.last)).exists)
        return super().step(action)


def stumbling(plan: int, told: Path | None = None, **options: Any) -> Report:
    last = 2 if options.get("on_error") == "stop" else 4
    made = {"last": last, "told": None if told is None else str(told)}
    missions = [Mission(name, Stumbles, made) for name in ("one", "two")]
    with pytest.warns(UserWarning, match="it stumbles"):
        return evaluate(missions, "random", episodes=6, plan=plan, **options)


@pytest.mark.parametrize("stop", [{"on_error": "stop"}, {"max_failures": 2}, {"max_failures": 2, "on_error": "retry"}])
def test_a_run_that_stops_keeps_the_same_episodes_everywhere(stop: dict[str, Any], tmp_path: Path) -> None:
    """What one process would have played: the episodes up to the last failure, in the order of the plan."""
    alone = stumbling(0, **stop)
    assert [episode.name for episode in alone.episodes] == [
        f"one/{n}" for n in range(3 if len(alone.failures) < 2 else 5)
    ]
    beside = stumbling(2, tmp_path, out=tmp_path / "out", **stop)
    assert beside.digest == alone.digest
    assert read_report(tmp_path / "out").digest == alone.digest
    for how in ({"levels": ("missions", "agents")}, {"agents": "batch"}):
        assert stumbling(0, **how, **stop).digest == alone.digest


def test_a_digest_knows_neither_times_nor_places() -> None:
    slow, quick = (six(plan, "off", action_limit=limit) for plan, limit in ((2, None), (0, 1e-9)))
    assert slow.digest == quick.digest
    assert slow.plan != quick.plan
    assert sum(sum(episode.late.values()) for episode in quick.episodes) > 0


def test_a_digest_differs_when_an_action_does() -> None:
    counted = small(Counter)
    other = small([Player("Counter", partial(Harms, how="nothing"))])
    drawn = small([Player("Counter", Dice)])
    assert counted.digest == other.digest  # the same actions by another class
    assert counted.digest != drawn.digest
    assert counted.digest != small(Player("another name", Counter)).digest
    assert counted.digest != evaluate(MEETING, Counter, episodes=3, seed=6).digest


def test_lanes_are_part_of_the_result_and_seen_in_the_identity() -> None:
    four, eight = (evaluate(MEETING, Rows, plan=0, lanes=lanes) for lanes in (4, 8))
    assert (four.identity["lanes"], eight.identity["lanes"]) == (4, 8)
    assert four.digest != eight.digest
    for agents in ("process", "gpu"):
        assert evaluate(MEETING, Rows, plan=0, lanes=4, agents=agents).digest == four.digest


@pytest.mark.parametrize("lanes", [1, 3, 24])
def test_batches_of_any_size_are_the_same_in_cohorts(lanes: int) -> None:
    """Episodes fill the rows of a forward pass together, or need several passes each."""
    missions = [MEETING, Mission("few", Meeting, {"agents": 3, "length": 6})]
    players = [Player("rows", Rows, 2), Player("counter", Counter)]

    def digest(plan: int, agents: str) -> str:
        return evaluate(missions, players, episodes=5, lanes=lanes, plan=plan, agents=agents).digest

    assert {digest(0, "gpu"), digest(2, "gpu"), digest(2, "batch")} == {digest(0, "off")}


class Ponders(Counter):
    """Waits in every other action, so that episodes on threads get in between each other."""

    def act(self, obs: object) -> object:
        time.sleep(0.001 * (self.calls % 2))
        return super().act(obs)


@pytest.mark.parametrize("agents", ["off", "auto", "thread"])
def test_episodes_on_threads_do_not_see_each_other(agents: str) -> None:
    """Each has pools of its own within its thread, which must not swap the generators of the whole process."""
    player = Player("ponders", Ponders)
    report = small(player, "thread", agents)
    assert report.failures == []
    assert report.digest == small(player).digest
