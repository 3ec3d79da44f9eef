"""`evaluate()`: what is asked, what is kept, what is reported, and how two reports are compared."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from players import Counter, Meeting, NoSeat, Says, Unrepeatable, Walk

import paceline
from paceline.cli._failures import told
from paceline.evaluate import Report, compare, evaluate
from paceline.evaluate.store import read_episodes, read_report
from paceline.team import Player
from paceline.types import Episode, Failure, Mission

MEETING = Mission("meeting", Meeting, {"length": 4})
OTHER = Mission("other", Meeting, {"length": 3, "agents": 2})


def says(what: int) -> Player:
    return Player("says", partial(Says, what=what))


def played(policy: Any = Counter, **options: Any) -> Report:
    return evaluate([MEETING, OTHER], policy, **{"episodes": 3, "plan": 0, **options})


# -- what is asked -------------------------------------------------------------------------------------------


def test_seeds_go_up_from_episode_to_episode() -> None:
    assert [(episode.name, episode.seed) for episode in played(seed=7).episodes] == [
        ("meeting/0", 7),
        ("meeting/1", 8),
        ("meeting/2", 9),
        ("other/0", 7),
        ("other/1", 8),
        ("other/2", 9),
    ]


def test_an_episode_does_not_depend_on_what_else_is_played() -> None:
    everything = {episode.name: episode.digest for episode in played().episodes}
    alone = evaluate(OTHER, Counter, episodes=1, plan=0)
    assert alone.episodes[0].digest == everything["other/0"]


@pytest.mark.parametrize(
    ("missions", "policies", "options", "complaint"),
    [
        ([], Counter, {}, "there is no mission to evaluate"),
        (MEETING, [], {"episodes": 0}, "episodes=0"),
        ([MEETING, MEETING], Counter, {}, "more than one mission is called meeting"),
        ([MEETING, Mission("meeting", Meeting, {"length": 5})], Counter, {}, "more than one mission is called meeting"),
        (MEETING, [Counter, Counter], {}, "more than one policy is called Counter"),
        (MEETING, Counter, {"plan": -1}, "plan=-1 makes no sense"),
        (MEETING, Counter, {"plan": "nowhere"}, "no backend is called 'nowhere'"),
        (MEETING, Counter, {"lanes": 0}, "lanes=0"),
        (MEETING, Counter, {"seed": -3}, "seed=-3"),
        (MEETING, Counter, {"on_error": "ignore"}, "on_error='ignore'"),
        (MEETING, Counter, {"episode_deadline": -1.0}, r"episode_deadline=-1\.0; give a finite number"),
        (Mission("dict", dict), Counter, {}, "mission 'dict' made {}, which is no environment"),
        (Mission("broken", Meeting, {"nothing": 1}), Counter, {}, "mission 'broken' cannot be built: TypeError"),
        (Mission("nobody", Meeting, {"agents": 0}), Counter, {}, "has no seats: nobody can play it"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_is_played(
    missions: Any, policies: Any, options: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        evaluate(missions, policies, out=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


# -- what is told and kept -----------------------------------------------------------------------------------


def test_a_watcher_is_told_of_every_episode() -> None:
    seen: list[tuple[str, int, int]] = []
    played(plan=2, watcher=lambda episode, done, total: seen.append((episode.name, done, total)))
    assert [done for _, done, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert {total for _, _, total in seen} == {6}
    assert len({name for name, _, _ in seen}) == 6


def test_results_are_on_disk_and_read_back(tmp_path: Path) -> None:
    report = played(out=tmp_path, about={"why": "a test"})
    assert json.loads((tmp_path / "plan.json").read_text())["why"] == "a test"
    assert read_report(tmp_path).digest == report.digest
    assert list(read_episodes(tmp_path).values()) == report.episodes
    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(report.as_dict()))


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = played(out=tmp_path)
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "episodes.jsonl").write_text("".join(lines[:2]) + lines[2][:30])
    seen: list[str] = []
    again = played(out=tmp_path, resume=True, watcher=lambda episode, *_: seen.append(episode.name))
    assert again.digest == whole.digest
    assert seen == ["meeting/2", "other/0", "other/1", "other/2"]


def test_another_run_is_not_continued(tmp_path: Path) -> None:
    played(out=tmp_path)
    with pytest.raises(paceline.BadInput, match="holds the results of a run; continue it with resume"):
        played(out=tmp_path)
    with pytest.raises(paceline.BadInput, match="holds another run: there seed is 0, and here 1"):
        played(out=tmp_path, resume=True, seed=1)
    (tmp_path / "episodes.jsonl").write_text("no json\n")
    with pytest.raises(paceline.BadInput, match=r"line 1 is damaged .*remove that line"):
        played(out=tmp_path, resume=True)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(paceline.BadInput, match=r"the results cannot be kept in .*give another directory"):
        played(out=tmp_path / "file")


@pytest.mark.parametrize(
    ("plan", "options"),
    [(0, {}), (2, {}), ("auto", {}), (2, {"levels": ("missions", "agents")}), (0, {"agents": "batch"})],
)
def test_episodes_are_planned_as_they_are_played(plan: Any, options: dict[str, Any], tmp_path: Path) -> None:
    """There may be more than memory could hold."""

    def enough(episode: Episode, done: int, total: int) -> None:
        assert total == 2 * 10**12
        if done % 5 == 0:
            raise KeyboardInterrupt

    for count in (5, 10):
        with pytest.raises(KeyboardInterrupt):
            played(episodes=10**12, plan=plan, out=tmp_path, resume=True, watcher=enough, **options)
        report = read_report(tmp_path)
        assert (len(report.episodes), report.planned) == (count, 2 * 10**12)
        assert report.episodes == sorted(report.episodes, key=lambda episode: (episode.mission, episode.index))


class Trips(Counter):
    """Raises when it is said to, in the first mission."""

    now = False

    def act(self, obs: Any) -> Any:
        if Trips.now and self.first:
            raise ArithmeticError("it trips")
        return super().act(obs)

    def __init__(self, seat: Any) -> None:
        super().__init__(seat)
        self.first = seat.mission == "meeting"


def test_what_is_played_ahead_outlives_an_interrupt_of_a_run_that_may_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun by episode, "other/0" ends before "meeting/1"."""

    def enough(episode: Episode, done: int, total: int) -> None:
        if episode.name == "meeting/1":
            raise KeyboardInterrupt

    how: dict[str, Any] = {"on_error": "stop", "levels": ("missions", "agents"), "out": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        played(Trips, watcher=enough, **how)
    assert [episode.name for episode in read_report(tmp_path).episodes] == ["meeting/0", "meeting/1", "other/0"]
    monkeypatch.setattr(Trips, "now", True)
    with pytest.warns(UserWarning, match="it trips"):
        stopped = played(Trips, resume=True, **how)
    assert [episode.name for episode in stopped.episodes] == ["meeting/0", "meeting/1", "meeting/2"]
    monkeypatch.setattr(Trips, "now", False)
    assert played(Trips, resume=True, **how).digest == played(Trips).digest


def test_verify_plays_some_again() -> None:
    report = played(plan=2, verify=4)
    assert len(report.verified) == 4
    assert set(report.verified.values()) == {True}
    assert played(verify=100).verified.keys() == {episode.name for episode in report.episodes}


# -- reports -------------------------------------------------------------------------------------------------


def test_scores_are_per_seat_and_per_mission() -> None:
    report = played([says(1), Player("none", NoSeat)], seed=2)
    for score in report.scores():
        mine = [e for e in report.episodes if score.mission in (e.mission, "*") and score.policy in e.seats.values()]
        rewards = []
        for episode in mine:
            own = [episode.rewards[agent] for agent, policy in episode.seats.items() if policy == score.policy]
            rewards.append(math.fsum(own) / len(own))
        assert score.reward.count == len(mine)
        assert score.reward.mean == pytest.approx(math.fsum(rewards) / len(rewards))
        assert score.steps == pytest.approx(sum(episode.steps for episode in mine) / len(mine))
        if score.mission != "*":  # there, missions with more seats weigh more
            assert score.stats["turns"] == pytest.approx(score.steps)
    assert [score.mission for score in report.scores()] == ["meeting", "meeting", "other", "other", "*", "*"]


def test_numbers_that_json_does_not_know_are_null() -> None:
    report = Report(
        {"missions": [{"name": "m"}], "policies": [{"name": "p"}], "seed": 0, "lanes": 8, "device": "cpu"},
        [Episode("m", 0, 0, seats={"a": "p"}, rewards={"a": math.nan}, stats={"a": {"x": math.inf}})],
        1,
    )
    assert json.loads(json.dumps(report.as_dict(), allow_nan=False))["episodes"][0]["rewards"] == {"a": None}


def test_a_reports_digest_is_of_what_was_played() -> None:
    first, second = played(), played()
    second.seconds, second.plan, second.notes, second.out = 99.0, {}, ["a note"], "elsewhere"
    second.episodes[0].seconds = 99.0
    assert second.digest == first.digest
    second.episodes[0].digest = "0" * 64
    assert second.digest != first.digest


# -- comparisons ---------------------------------------------------------------------------------------------


def made(rewards: list[float | None], seed: int = 0) -> Report:
    """A report of one mission; None is an episode that failed."""
    episodes = [
        Episode(
            "m",
            index,
            seed + index,
            seats={"a": "p"},
            rewards={"a": 0.0 if reward is None else reward},
            failure=Failure("Error", "no") if reward is None else None,
        )
        for index, reward in enumerate(rewards)
    ]
    identity = {"missions": [{"name": "m"}], "policies": [{"name": "p"}], "seed": seed, "lanes": 8, "device": "cpu"}
    return Report({**identity, "episodes": len(rewards)}, episodes, len(rewards))


def test_two_reports_are_compared_on_the_same_seeds() -> None:
    (found,) = compare(made([1.0, 2.0, None, 4.0]), made([2.0, 2.0, 9.0, 5.0]))
    assert (found.difference.count, found.wins, found.ties) == (3, 2, 1)  # the failed episode is in no mean
    assert found.difference.mean == pytest.approx(2 / 3)
    assert found.win_rate == pytest.approx(5 / 6)
    assert not found.clear
    (other,) = compare(made([1.0, 2.0, 3.0], seed=0), made([10.0, 11.0, 12.0], seed=1))
    assert other.difference.count == 2
    assert compare(made([1.0, 1.1, 0.9]), made([5.0, 5.2, 4.9]))[0].clear


def test_reports_without_a_seed_in_common_cannot_be_compared() -> None:
    with pytest.raises(paceline.BadInput, match="no episode in common"):
        compare(made([1.0, 2.0]), made([1.0], seed=50))
    with pytest.raises(paceline.BadInput, match="A has no policy 'q'; it has p"):
        compare(made([1.0]), made([1.0]), policy_a="q")


def test_a_policy_without_a_seat_is_mentioned() -> None:
    report = evaluate("courier", ["random", "greedy"], episodes=1, plan=0)
    assert any("courier has 1 seat for 2 policies: greedy never plays there" in note for note in report.notes)


def test_policies_that_ask_somebody_else_begin_on_threads() -> None:
    """Once they have answered they could not be moved any more: nobody may ask them again."""
    report = evaluate(
        Mission("meeting", Meeting, {"agents": 3}), Player("oracle", Unrepeatable), episodes=1, plan=0, agents="auto"
    )
    assert report.failures == []
    assert any("thread: they are not deterministic" in note for note in report.notes), report.notes


def test_a_class_or_a_function_that_makes_environments_is_a_mission() -> None:
    def meet() -> Meeting:
        return Meeting(length=2)

    named = evaluate(Mission("meet", Meeting, {"length": 2}), "random", episodes=2, plan=0)
    made = evaluate(meet, "random", episodes=2, plan=0)
    assert made.digest == named.digest
    assert evaluate(Meeting, "random", plan=0).digest == evaluate([Meeting], "random", plan=0).digest
    for given, words in ((None, "is no mission: give a name"), ([Meeting()], "is no mission"), ([], "no mission")):
        with pytest.raises(paceline.BadInput, match=words):
            evaluate(given, "random")  # type: ignore[arg-type]
    with pytest.raises(paceline.BadInput, match="episodes='3'; give a whole number, 1 or more"):
        evaluate(Meeting, "random", episodes="3")  # type: ignore[arg-type]


class CountsResets(Says):
    """Writes down every episode that it begins."""

    def __init__(self, seat: Any, log: Path) -> None:
        super().__init__(seat)
        self._log = log

    def reset(self, seed: int) -> None:
        with self._log.open("a") as file:
            file.write(f"{seed}\n")


@pytest.mark.parametrize("plan", [0, 1, "auto"])
def test_no_episode_is_played_twice_where_torch_is_imported(plan: Any, tmp_path: Path) -> None:
    """Minds are swapped in and out within an episode; that is no draw of the episode's own, which is not repeated."""
    assert torch is not None
    log = tmp_path / "log"
    evaluate(OTHER, partial(CountsResets, log=log), episodes=4, seed=5, plan=plan)
    begun = log.read_text().split()
    assert len(begun) == len(set(begun)) == 8


# -- failures are not silent ---------------------------------------------------------------------------------


class NotANumber(Walk):
    """Gives NaN in its third step: as a reward, or in what is seen; or in the last thing that is seen."""

    def __init__(self, where: str) -> None:
        super().__init__(5)
        self.where = where

    def step(self, action: int) -> Any:
        seen, reward, *rest = super().step(action)
        bad = np.full_like(seen, np.nan) if self.time == {"seen": 3, "last": 5}.get(self.where) else seen.copy()
        return bad, math.nan if self.time == 3 and self.where == "reward" else reward, *rest[:-1], {"count": math.nan}


class NotANumberWithin(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Shows the same among other things: in a dict, a tuple or a number of Python."""

    def __init__(self, form: Callable[[Any], Any]) -> None:
        super().__init__(NotANumber("seen"))
        self.form, self.observation_space = form, space_of(form(np.zeros(2, np.float32)))

    def reset(self, **given: Any) -> Any:
        seen, info = super().reset(**given)
        return self.form(seen), info

    def step(self, action: Any) -> Any:
        seen, *rest = super().step(action)
        return self.form(seen), *rest


def space_of(value: Any) -> Any:
    if isinstance(value, dict):
        return gymnasium.spaces.Dict({name: space_of(part) for name, part in value.items()})
    if isinstance(value, tuple):
        return gymnasium.spaces.Tuple([space_of(part) for part in value])
    return gymnasium.spaces.Box(-np.inf, np.inf, np.shape(value), np.float32)


def test_a_reward_that_is_no_number_fails_its_episode(tmp_path: Path) -> None:
    report = evaluate(Mission("nan", NotANumber, {"where": "reward"}), "random", plan=0, seed=4, out=tmp_path)
    (failure,) = [episode.failure for episode in report.episodes]
    assert failure is not None
    assert (failure.kind, failure.step) == ("BadInput", 2)
    assert "gave nan as the reward of agent 'agent_0' at step 2 (episode 0, seed 4)" in failure.message
    for line in (tmp_path / "episodes.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("make", "given", "step"),
    [
        (NotANumber, "seen", 3),
        (NotANumber, "last", 5),
        (NotANumberWithin, lambda seen: {"ones": np.ones(2, np.float32), "seen": seen}, 3),
        (NotANumberWithin, lambda seen: (np.ones(2, np.float32), {"seen": seen}), 3),
        (NotANumberWithin, lambda seen: {"seen": float(seen[0])}, 3),
    ],
    ids=["seen", "last", "dict", "tuple", "number"],
)
@pytest.mark.parametrize("agents", ["off", "gpu"])
def test_nan_in_observations_is_told(make: Any, given: Any, step: int, agents: str) -> None:
    """Whatever the form, also where nothing follows, and where episodes are stepped together."""
    report = evaluate(Mission("nan", partial(make, given)), "random", episodes=3, plan=0, agents=agents)
    assert f"an observation held NaN, first of agent 'agent_0' of nan/0 (seed 0), step {step}" in report.notes
    assert report.ok


def test_nan_in_observations_is_told_once(tmp_path: Path) -> None:
    report = evaluate(Mission("nan", NotANumber, {"where": "seen"}), "random", episodes=3, plan=0, out=tmp_path)
    assert report.notes == ["an observation held NaN, first of agent 'agent_0' of nan/0 (seed 0), step 3"]
    assert report.ok
    json.loads((tmp_path / "episodes.jsonl").read_text().splitlines()[0], parse_constant=pytest.fail)
    assert math.isnan(next(iter(read_episodes(tmp_path).values())).stats["agent_0"]["count"])


def test_failed_episodes_are_warned_of() -> None:
    mission = Mission("nan", NotANumber, {"where": "reward"})
    with pytest.warns(UserWarning, match=r"^2 of 2 episodes failed, nan/0 \(seed 0\) by BadInput: mission 'nan'"):
        report = evaluate(mission, "random", episodes=2, plan=0)
    assert not report.ok
    with pytest.raises(paceline.EpisodesFailed, match="2 of 2 episodes failed") as raised:
        report.raise_for_failures()
    assert raised.value.report is report


class Leaves(Walk):
    """Calls `sys.exit` in its third step, or has its process die then, or fails when it is closed."""

    def __init__(self, how: str) -> None:
        super().__init__(5)
        self.how, self.time = how, 0

    def step(self, action: int) -> Any:
        if self.time == 2 and self.how == "exit":
            sys.exit(3)
        if self.time == 2 and self.how == "death":
            os._exit(3)
        return super().step(action)

    def close(self) -> None:
        if self.how == "close":
            raise RuntimeError("it does not close")
        if self.how == "exit in close":
            sys.exit(3)


@pytest.mark.parametrize(("how", "plan", "kind"), [("exit", 0, "MemberExit"), ("death", 1, "WorkerLost")])
def test_an_exit_and_a_death_say_which_step_was_under_way(how: str, plan: int, kind: str) -> None:
    report = evaluate(Mission("leaves", Leaves, {"how": how}), "random", plan=plan, seed=5)
    (failure,) = [episode.failure for episode in report.failures]
    assert failure is not None
    assert (failure.kind, failure.step) == (kind, 2)
    assert f"leaves/0 (seed 5, step 2): {kind}: the episode" in told(report.failures[0])


@pytest.mark.parametrize("how", ["close", "exit in close"])
def test_an_env_that_fails_to_close_has_its_episodes_count(how: str) -> None:
    whole = evaluate(Mission("leaves", Leaves, {"how": "never"}), "random", episodes=3, plan=0)
    report = evaluate(Mission("leaves", Leaves, {"how": how}), "random", episodes=3, plan=0)
    assert [episode.digest for episode in report.episodes] == [episode.digest for episode in whole.episodes]
    (note,) = report.notes
    assert note.startswith("mission 'leaves': close() of its environment raised ")
    assert note.endswith("; its episodes count")


def test_missions_of_one_name_that_were_played_otherwise_are_not_compared() -> None:
    short, longer = (evaluate(Mission("walk", Walk, {"length": n}, steps=n), "random", plan=0) for n in (3, 4))
    with pytest.raises(
        paceline.BadInput, match="length of walk is 3 in A, and 4 in B; steps of walk is 3 in A, and 4 in"
    ):
        compare(short, longer)
    assert compare(short, longer, anyway=True)[0].difference.count == 1


def test_options_that_are_bound_count_as_those_of_a_mission(tmp_path: Path) -> None:
    def walk_of(length: int) -> Any:
        return lambda: Walk(length)

    for short, longer, words in [
        (partial(Walk, length=3), partial(Walk, length=4), "length of walk is 3 in A, and 4 in B"),
        (partial(Walk, 3), partial(Walk, 4), "argument 0 of walk is 3 in A, and 4 in B"),
        (walk_of(3), walk_of(4), "function.closure length of walk is 3 in A, and 4 in B"),
    ]:
        runs = [evaluate(Mission("walk", make), "random", plan=0) for make in (short, longer)]
        with pytest.raises(paceline.BadInput, match=words):
            compare(*runs)
        assert compare(runs[0], evaluate(Mission("walk", short), "random", plan=0))[0].ties == 1
    evaluate(Mission("walk", walk_of(3)), "random", plan=0, out=tmp_path / "a")
    with pytest.raises(paceline.BadInput, match=words):
        compare(read_report(tmp_path / "a"), runs[1])
    runs[0].made_of = {}  # as of an older release
    assert compare(*runs)[0].difference.count == 1


CHANGING = """
import players

class Walk(players.Walk):
    pass

def built(cls, length):
    return cls(length)

def maker_of(cls):
    return lambda: cls(3)
"""


def test_code_that_was_changed_is_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy may live in the same file: to compare its versions is what runs are compared for."""
    monkeypatch.syspath_prepend(tmp_path)
    reports = []
    for number in range(2):
        (tmp_path / "changing_walks.py").write_text(CHANGING + number * "# another policy\n")
        monkeypatch.delitem(sys.modules, "changing_walks", raising=False)
        walks = import_module("changing_walks")
        missions = [
            Mission("argument", partial(walks.built, walks.Walk, 3)),
            Mission("closure", walks.maker_of(walks.Walk)),
        ]
        reports.append(evaluate(missions, "random", plan=0))
    assert reports[0].made_of != reports[1].made_of
    assert [each.ties for each in compare(*reports)] == [1, 1, 2]


def test_a_finished_run_goes_on_with_more_episodes(tmp_path: Path) -> None:
    played(episodes=2, out=tmp_path)
    assert played(episodes=4, out=tmp_path, resume=True).digest == played(episodes=4).digest
    assert len((tmp_path / "episodes.jsonl").read_text().splitlines()) == 8
    assert played(episodes=4, out=tmp_path, resume=True).digest == played(episodes=4).digest
    with pytest.raises(paceline.BadInput, match="there episodes is 4, and here 3"):
        played(episodes=3, out=tmp_path, resume=True)
