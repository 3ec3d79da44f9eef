"""The policies of an episode: who sits where, how they are built, what they may answer, where they live."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as some
from interrupting import interrupted
from players import (
    CannotBeBuilt,
    Counter,
    Locked,
    Meeting,
    NoSeat,
    Rows,
    Says,
    Slow,
    Squad,
    ToldRows,
    Unrepeatable,
    first_or_second,
    keeps_a_log,
    makes_rows,
)
from waits import until

import paceline
from paceline import Plan
from paceline.evaluate import Report, evaluate
from paceline.team import MODES, Chair, Player, Setting, Team, assign, counts, first_episodes, most_counts
from paceline.team import team as team_module
from paceline.team.minds import Recipe
from paceline.team.team import _batches, recipes
from paceline.types import Failure, Mission, Seat, Step

FOUR = Seat("agent_0", 0, spaces.Box(-1, 1, (2,)), spaces.Discrete(4), "mission")
MEETING = Mission("meeting", Meeting, {"length": 6})
DICT = spaces.Dict({"view": spaces.Box(-np.inf, np.inf, (2, 2), np.float32), "mode": spaces.Discrete(3)})
TUPLE = spaces.Tuple((spaces.Discrete(4), spaces.Box(-np.inf, np.inf, (2,), np.float64)))


def played(policy: Any, mission: Mission = MEETING, agents: str = "off", **options: Any) -> Report:
    return evaluate(mission, policy, plan=0, agents=agents, **{"episodes": 1, **options})


def failure(report: Report) -> Failure:
    found = report.episodes[0].failure
    assert found is not None
    return found


# -- who sits where ------------------------------------------------------------------------------------------

shares = some.lists(some.integers(0, 7), min_size=1, max_size=6).filter(any)


def players_with(given_shares: list[int]) -> list[Player]:
    return [Player(f"player {number}", NoSeat, share) for number, share in enumerate(given_shares)]


@given(shares, some.integers(1, 200))
def test_seats_are_shared_out_by_proportion(given_shares: list[int], seats: int) -> None:
    found = counts(players_with(given_shares), seats)
    assert sum(found) == seats
    for share, count in zip(given_shares, found, strict=True):
        assert abs(count - share * seats / sum(given_shares)) < 1
        assert share or not count


@given(shares, some.integers(1, 70), some.integers(0, 2**40), some.integers(0, 99))
def test_an_assignment_follows_from_identity(given_shares: list[int], seats: int, seed: int, index: int) -> None:
    players = players_with(given_shares)
    found = assign(players, seats, seed, "mission", index)
    assert [found.count(number) for number in range(len(players))] == counts(players, seats, index)
    assert assign(players, seats, seed, "mission", index) == found


@given(shares, some.integers(1, 8), some.integers(0, 40))
def test_where_seats_are_few_players_take_turns_by_proportion(given_shares: list[int], seats: int, last: int) -> None:
    """After any number of episodes each has had its proportion of the seats, rounded up or down."""
    players = players_with(given_shares)
    each = [counts(players, seats, index) for index in range(last + 1)]
    assert all(sum(episode) == seats for episode in each)
    if seats >= sum(share > 0 for share in given_shares):
        assert all(episode == each[0] for episode in each)  # there it is as it is in every episode
        return
    for number, share in enumerate(given_shares):
        due = share * seats * (last + 1) / sum(given_shares)
        assert abs(sum(episode[number] for episode in each) - due) < 1
        assert max(episode[number] for episode in each) <= most_counts(players, seats)[number]
    first = first_episodes(players, seats)
    assert [at is not None for at in first] == [share > 0 for share in given_shares]
    assert all(at is None or at > last or each[at][number] for number, at in enumerate(first))


def test_turns_begin_with_the_largest_share() -> None:
    players = players_with([1, 2, 1])
    assert [assign(players, 1, 0, "mission", index)[0] for index in range(8)] == [1, 0, 1, 2] * 2


@given(shares.filter(lambda given_shares: sum(map(bool, given_shares)) > 2), some.integers(1, 24))
def test_rows_of_those_who_take_turns_do_not_collide(given_shares: list[int], lanes: int) -> None:
    """A player has two seats of one episode and one of the next: its rows must not overlap in a batch of both."""
    players = players_with(given_shares)
    most = most_counts(players, 2)
    mine = [
        Chair((index, place), ("mission", index), FOUR, players[who], most[who])
        for index in range(6)
        for place, who in enumerate(assign(players, 2, 0, "mission", index))
    ]
    for player in players:
        chairs_of = [chair for chair in mine if chair.player is player]
        together = dict(rows_of(_batches(chairs_of, lanes)))
        for _, rows in _batches(chairs_of, lanes):
            assert len(set(rows)) == len(rows)
        for index in range(6):
            alone = [chair for chair in chairs_of if chair.episode[1] == index]
            assert all(together[name] == row for name, row in rows_of(_batches(alone, lanes)))


def test_seats_are_shuffled_from_episode_to_episode() -> None:
    report = evaluate(
        Mission("meeting", Meeting, {"agents": 8, "length": 1}),
        [Player("a", Counter, 3), Player("b", NoSeat)],
        episodes=12,
        plan=0,
    )
    seatings = [tuple(episode.seats.values()) for episode in report.episodes]
    assert {tuple(sorted(Tally(seating).items())) for seating in seatings} == {(("a", 6), ("b", 2))}
    assert len(set(seatings)) > 6


def test_shares_that_make_no_sense_are_refused() -> None:
    with pytest.raises(paceline.BadInput, match="not all 0"):
        played([Player("nobody", NoSeat, 0)])


# -- rows of batches -----------------------------------------------------------------------------------------


def chairs(mission: str, index: int, agents: int) -> list[Chair]:
    player = Player("rows", Rows)
    return [Chair((index, f"agent_{n}"), (mission, index), FOUR, player) for n in range(agents)]


def rows_of(many: list[tuple[list[Chair], list[int]]]) -> Iterator[tuple[Any, int]]:
    for seats, rows in many:
        yield from zip((chair.name for chair in seats), rows, strict=True)


@given(
    some.integers(1, 40),
    some.integers(1, 20),
    some.sets(some.integers(0, 30), min_size=1, max_size=8),
)
def test_a_seats_row_depends_on_nobody_else(lanes: int, agents: int, episodes: set[int]) -> None:
    alone = {}
    for index in episodes:
        alone.update(rows_of(_batches(chairs("mission", index, agents), lanes)))
    together = _batches([chair for index in sorted(episodes) for chair in chairs("mission", index, agents)], lanes)
    assert dict(rows_of(together)) == alone
    assert len(alone) == agents * len(episodes)
    for _, rows in together:
        assert len(set(rows)) == len(rows)
        assert all(0 <= row < lanes for row in rows)


def test_who_plays_together() -> None:
    def kinds(player: Player, episodes: int) -> list[int]:
        mine = [
            Chair((index, f"agent_{n}"), ("mission", index), FOUR, player)
            for index in range(episodes)
            for n in range(3)
        ]
        return [len(recipe.chairs) for recipe in recipes(mine, Setting(lanes=8))]

    assert kinds(Player("counter", Counter), 2) == [1] * 6
    assert kinds(Player("squad", Squad()), 2) == [3, 3]
    assert kinds(Player("rows", Rows), 2) == [6]
    assert kinds(Player("rows", partial(Rows)), 3) == [6, 3]


def test_a_minds_key_says_who_it_is_and_not_where() -> None:
    (alone,) = recipes(chairs("mission", 4, 1)[:1], Setting(lanes=8))
    assert alone.key == ("mission", 4, "policy", "rows", "agent_0")
    chair = Chair("x", ("mission", 4), FOUR, Player("counter", Counter))
    assert Recipe((chair,), (), 0, 8, None).key == ("mission", 4, "agent_0")


# -- how policies are built ----------------------------------------------------------------------------------


@pytest.mark.parametrize("agents", MODES)
@pytest.mark.parametrize("policy", [first_or_second, NoSeat], ids=["a function", "a class without parameters"])
def test_functions_and_factories_without_parameters(policy: Any, agents: str) -> None:
    report = played(policy, agents=agents)
    assert report.failures == []
    assert report.digest == played(policy).digest


def test_a_lambda_is_a_policy() -> None:
    report = played(Player("one", lambda obs: 1))
    assert report.failures == []
    assert report.digest == played(Player("one", partial(Says, what=1))).digest


def test_what_is_no_policy_is_refused() -> None:
    with pytest.raises(paceline.BadInput, match="it has no act"):
        played(Player("number", lambda: 3))
    with pytest.raises(paceline.BadInput, match="is no policy"):
        played([3])


def test_a_factory_that_hides_its_batches_is_told_so() -> None:
    with pytest.raises(paceline.BadInput, match=r"give the class Rows itself, or set act_batch = True"):
        played(makes_rows)


@pytest.mark.parametrize("agents", ["off", "process", "thread"])
def test_a_policy_that_cannot_be_built_is_the_failure_of_its_seat(agents: str) -> None:
    found = failure(played(CannotBeBuilt, agents=agents))
    assert (found.kind, found.agent, found.step) == ("Stumble", "agent_2", 0)
    assert found.message == "no constructor for seat #2"


def test_a_policy_that_cannot_be_sent_stays_here_and_the_report_says_so(tmp_path: Path) -> None:
    logging = keeps_a_log(tmp_path / "log")
    for factory, culprit in ((Locked(), "lock"), (logging, "TextIOWrapper")):
        report = played(Player("bound", factory), agents="process", episodes=2)
        assert report.failures == []
        assert report.digest == played(Player("bound", factory), episodes=2).digest
        (note,) = report.notes
        assert culprit in note
        assert note.endswith("agents='process' is not possible, played here instead")
    logging.file.close()  # type: ignore[attr-defined]
    assert "agent_2" in (tmp_path / "log").read_text()


def test_under_auto_what_cannot_be_sent_is_played_here() -> None:
    class Busy(Locked):
        def __call__(self, seat: Any) -> Any:
            return partial(self.work, Counter(seat))

        def work(self, counter: Counter, obs: Any) -> Any:
            sum(range(60_000))
            return counter.act(obs)

    mission = Mission("meeting", Meeting, {"length": 30})
    report = evaluate(mission, Player("busy", Busy()), episodes=14)
    assert report.failures == []
    assert report.complete
    assert report.plan["backend"] == "inline"


def test_a_policy_without_batches_is_mentioned_where_batches_were_asked_for() -> None:
    assert played(Counter, agents="batch").notes == [
        "policy 'Counter' has no act_batch: under agents='batch' it is asked seat by seat"
    ]
    assert played(Rows, agents="batch").notes == []


def test_players_can_live_in_different_places() -> None:
    players = [Player("here", Counter), Player("there", Counter, agents="process"), Player("rows", Rows)]
    mission = Mission("meeting", Meeting, {"agents": 6, "length": 5})
    plain = [Player("here", Counter), Player("there", Counter), Player("rows", Rows)]
    assert played(players, mission).digest == played(plain, mission).digest


def test_a_mode_that_does_not_exist_is_told_before_anything_is_played() -> None:
    for policy, agents in ((Counter, "nowhere"), (Player("counter", Counter, agents="nowhere"), "off")):
        with pytest.raises(paceline.BadInput, match="no mode 'nowhere' for agents; give one of off, thread"):
            played(policy, agents=agents)


# -- observations and actions --------------------------------------------------------------------------------

SPACES = {
    "discrete": spaces.Discrete(4, start=2),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "bytes": spaces.Box(0, 255, (2,), np.uint8),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(3),
}
WRONG = {
    "discrete": [1, 6, 2.0, True, None, "north", np.zeros(2, int), np.array([2.5]), np.array([4]), [3], np.float32(3)],
    "box": [np.zeros(3, np.float32), 0.5, "north", np.array([1j, 0]), [0.5, [0.5]], np.array([1e300, 0])],
    "bytes": [np.array([0.0, 1.0]), [0, 256], [-1, 0], np.array([True, False])],
    "multi-discrete": [
        np.array([3, 0]),
        np.array([0, -1]),
        np.array([0.0, 1.0]),
        np.array([0, 0, 0]),
        1,
        [True, False],
    ],
    "multi-binary": [np.array([0, 1, 2]), np.array([0.5, 0, 0]), np.array([1, 1])],
}
RIGHT = {
    "discrete": [2, 5, np.int32(3), np.int64(4), np.array(5, np.uint8), np.array(2)],
    "box": [
        np.zeros(2, np.float32),
        np.array([0.25, -0.5]),
        [0.5, 0.5],
        (1, 0),
        np.array([1, 0]),
        np.array([7.0, -9.0]),
    ],
    "bytes": [np.array([0, 255], np.uint8), [3, 4], np.array([5, 6])],
    "multi-discrete": [np.array([2, 3]), [0, 0], np.array([1, 1], np.int8)],
    "multi-binary": [np.array([0, 1, 1]), np.array([1, 1, 1], np.int8), [True, False, True]],
}


@pytest.mark.parametrize("seen", [None, DICT], ids=["in rows", "in messages"])
@pytest.mark.parametrize("kind", SPACES)
def test_an_action_of_another_kind_is_refused(kind: str, seen: Any) -> None:
    mission = Mission("meeting", Meeting, {"seen": seen, "done": SPACES[kind], "length": 2})
    for what in WRONG[kind]:
        found = failure(played(Player("says", partial(Says, what=what)), mission))
        assert (found.kind, found.agent, found.policy) == ("BadInput", "agent_0", "says")
        assert f"policy 'says' of agent 'agent_0' answered {what!r}, which is no action of" in found.message


@pytest.mark.parametrize("seen", [None, DICT], ids=["in rows", "in messages"])
@pytest.mark.parametrize("kind", SPACES)
def test_an_action_of_its_space_is_taken_in_any_dress(kind: str, seen: Any) -> None:
    mission = Mission("meeting", Meeting, {"seen": seen, "done": SPACES[kind], "length": 2})
    for what in RIGHT[kind]:
        assert played(Player("says", partial(Says, what=what)), mission).failures == []


def test_an_array_of_one_is_no_number_and_the_error_says_what_to_do() -> None:
    found = failure(played(Player("says", partial(Says, what=np.array([1])))))
    assert found.message.endswith("an array of shape (1,), where one integer is wanted; answer action.item()")
    assert (found.agent, found.policy, found.step) == ("agent_0", "says", 0)


def test_floats_are_rounded_to_the_width_of_their_box() -> None:
    heard: list[Any] = []

    class Hears(Meeting):
        def step(self, actions: dict[str, Any]) -> Any:
            heard.extend(actions.values())
            return super().step(actions)

    mission = Mission("hears", Hears, {"agents": 1, "length": 1, "done": SPACES["box"]})
    assert played(Player("says", partial(Says, what=[1 / 3, 2])), mission).failures == []
    assert heard[0].dtype == np.float32
    assert heard[0].tolist() == [float(np.float32(1 / 3)), 2.0]  # rounded; beyond its bounds, and not clipped


@pytest.mark.parametrize("agents", ["off", "process"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([0, 0], "answered 2 rows"),
        ([0] * 9, "answered 9 rows"),
        (np.zeros(2, int), "answered 2 rows"),
        (None, "answered a NoneType"),
        (3, "answered a int"),
        (np.array(3), "answered a ndarray"),
        (dict.fromkeys(range(8), 0), "answered a dict"),
    ],
)
def test_a_batch_of_another_length_or_kind_is_a_clear_error(answer: Any, words: str, agents: str) -> None:
    found = failure(played(Player("rows", partial(RowsThatSay, answer=answer)), agents=agents))
    assert (found.kind, found.policy, found.step) == ("BadInput", "rows", 0)
    assert f"act_batch of policy 'rows' was asked 8 rows (lanes=8) and {words}: give a list" in found.message


class RowsThatSay(Rows):
    def __init__(self, seat: Any, answer: Any) -> None:
        super().__init__(seat)
        self.answer = answer

    def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> Any:
        return self.answer


def test_a_wrong_action_in_a_batch_is_told_of_its_seat() -> None:
    class OneWrong(Rows):
        def act_batch(self, obs: Any, seats: Any, mask: Any, rngs: Any) -> list[Any]:
            return [9 if seat is not None and seat.agent == "agent_1" else 0 for seat in seats]

    found = failure(played(Player("rows", OneWrong)))
    assert (found.kind, found.agent) == ("BadInput", "agent_1")


@pytest.mark.parametrize("agents", ["off", "process", "thread", "gpu"])
@pytest.mark.parametrize("seen", [DICT, TUPLE, spaces.Text(5), spaces.MultiBinary(4)], ids=lambda s: type(s).__name__)
def test_observations_of_every_kind(seen: Any, agents: str) -> None:
    mission = Mission("meeting", Meeting, {"seen": seen, "length": 5, "leave": {1: 2}})
    policy = Player("says", Says) if isinstance(seen, spaces.Text) else Counter
    report = played(policy, mission, agents)
    assert report.failures == []
    assert report.digest == played(policy, mission).digest


@pytest.mark.parametrize("agents", ["off", "process", "gpu"])
def test_agents_that_are_not_alike(agents: str) -> None:
    mission = Mission(
        "mixed",
        Meeting,
        {
            "agents": 4,
            "seen": [spaces.Discrete(9), spaces.Box(-np.inf, np.inf, (5,), np.float64), DICT, spaces.Discrete(9)],
            "done": [spaces.Discrete(2), spaces.Box(-9, 9, (2,), np.float32), spaces.MultiDiscrete([2, 2]), TUPLE],
        },
    )
    report = played(Counter, mission, agents, episodes=2)
    assert report.failures == []
    assert report.digest == played(Counter, mission, episodes=2).digest


@pytest.mark.parametrize("how", ["shape", "type"])
def test_an_observation_that_its_space_does_not_declare_is_a_clear_error(how: str) -> None:
    from players import Liar

    report = evaluate(Mission("liar", Liar, {"how": how}), Counter, episodes=2, plan=0)
    found = report.episodes[1].failure
    assert found is not None
    assert "the environment showed agent 'agent_1' an observation of shape" in found.message
    assert "correct the space, or the observation" in found.message
    assert report.episodes[0].failure is None


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agents", ["off", "process", "gpu"])
@pytest.mark.parametrize("seen", [None, DICT], ids=["in rows", "in messages"])
def test_late_actions_are_recorded_and_nothing_else_happens(agents: str, seen: Any) -> None:
    mission = Mission("meeting", Meeting, {"agents": 2, "length": 6, "seen": seen})
    players = [Player("slow", Slow), Player("counter", Counter)]
    report = played(players, mission, agents, action_limit=0.02)
    (episode,) = report.episodes
    slow = next(agent for agent, policy in episode.seats.items() if policy == "slow")
    assert episode.late[slow] >= 2  # every third action; a busy machine may add some
    assert {score.policy: score.late for score in report.scores()}["slow"] == episode.late[slow]
    assert report.digest == played(players, mission).digest


def test_policies_that_are_not_deterministic_are_asked_by_message() -> None:
    report = played(Unrepeatable, agents="process")
    assert report.failures == []
    assert report.episodes[0].steps == 6


def test_a_team_closes_its_policies_and_can_be_closed_twice() -> None:
    closed: list[str] = []

    class Closes(NoSeat):
        def close(self) -> None:
            closed.append("closed")

    seats = [FOUR, Seat("agent_1", 1, FOUR.observation_space, FOUR.action_space, "mission")]
    with Team.seated(seats, [Player("closes", Closes)], [0, 0], Setting(), ("mission", 0)) as team:
        assert team.act({"agent_0": np.zeros(2, np.float32)}) == {"agent_0": 1}
    team.close()
    assert closed == ["closed"] * 2


@pytest.mark.parametrize("agents", ["off", "thread", "process"])
def test_rows_are_told_what_came_of_their_own_actions(agents: str) -> None:
    """Each row its own outcome; what one row was told shows in no other, and not after it has begun again."""
    seats = [Seat(f"agent_{n}", n, spaces.Box(-1, 1, (2,)), spaces.Discrete(90_000), "mission") for n in range(3)]
    seen = {seat.agent: np.zeros(2, np.float32) for seat in seats}
    with Team.seated(seats, [Player("told", ToldRows)], [0] * 3, Setting(agents=agents), ("mission", 0)) as team:
        first = team.act(seen)
        rewards = {"agent_0": 10.0, "agent_2": 20.0}
        team.tell(Step({}, rewards, dict.fromkeys(rewards, True), dict.fromkeys(rewards, False), {}, {}))
        second = team.act(seen)
        team.begin({"agent_2": ("mission", 0)})
        third = team.act(seen)
    assert second == {
        "agent_0": first["agent_0"] + 8_000,
        "agent_1": first["agent_1"],
        "agent_2": first["agent_2"] + 15_000,
    }
    assert third == {**second, "agent_2": first["agent_2"]}


@pytest.mark.parametrize("agents", ["off", "process", "gpu"])
def test_rows_that_raise_when_they_are_told_are_the_failure_of_their_episode(agents: str) -> None:
    found = failure(played(Player("told", partial(ToldRows, raises=True)), agents=agents))
    assert (found.kind, found.policy, found.step) == ("Stumble", "told", 1)


def test_auto_begins_where_it_ended_with_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits was quick on threads within processes: on as many processes without them it would be slow."""
    lessons: dict[Any, Plan] = {}
    monkeypatch.setattr(team_module, "_lessons", lessons)
    monkeypatch.setattr(team_module, "_played", {})
    seats = [Seat(f"agent_{n}", n, spaces.Box(-1, 1, (2,)), spaces.Discrete(4), "mission") for n in range(4)]

    def places(workers: int | None = None) -> Plan:
        setting = Setting(agents="auto", workers=workers)
        with Team.seated(seats, [Player("counter", Counter)], [0] * 4, setting, ("mission", 0)) as team:
            [home] = team._homes
            return home.pool.plan

    assert places().backend == "inline"
    [kind] = lessons
    lessons[kind] = Plan("process", 2, threads=2)
    learned = places()
    assert (learned.backend, learned.workers, learned.threads) == ("process", 2, 2)
    assert lessons[kind].threads == 2
    assert places(workers=1).workers == 1


def test_who_cannot_be_asked_again_is_not_taken_for_who_draws() -> None:
    """On threads, where an agent that draws beside others is asked again, and so are these."""

    class Draws(NoSeat):
        def act(self, obs: Any) -> int:
            return random.randrange(2)

    class Once(NoSeat):
        deterministic = False

        def act(self, obs: Any) -> int:
            time.sleep(0.01)
            return 1

    seats = [Seat(f"agent_{n}", n, FOUR.observation_space, FOUR.action_space, "mission") for n in range(4)]
    seen = {seat.agent: np.zeros(2, np.float32) for seat in seats}
    setting = Setting(agents="thread")
    players = [Player("draws", Draws), Player("once", Once)]
    with Team.seated(seats, players, [0, 1, 0, 1], setting, ("mission", 0)) as team:
        for _ in range(5):
            assert team.act(seen).keys() == seen.keys()


class Stuck:
    """Draws from NumPy's own generator; then is interrupted, and does not come back until it is let go."""

    go = threading.Event()
    inside = False

    def __init__(self) -> None:
        self.calls = 0

    def act(self, obs: Any) -> int:
        np.random.random()
        self.calls += 1
        if self.calls == 3:
            Stuck.inside = True
            interrupted(partial(self.go.wait, 20.0))
            Stuck.inside = False
        return 0


def test_a_policy_that_hangs_on_a_thread_is_not_asked_for_notes_and_holds_no_other_run_up() -> None:
    try:
        with pytest.raises(KeyboardInterrupt):
            played(Stuck, Mission("meeting", partial(Meeting, agents=1)), agents="thread")
        assert Stuck.inside
        assert played(Says, agents="thread").episodes[0].failure is None
        assert Stuck.inside
    finally:
        Stuck.go.set()
    until(lambda: not Stuck.inside)
