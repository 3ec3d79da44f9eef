"""Policies with networks: rows that do not feel each other, memories that last, weights that travel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from learning_members import Guess

from paceline import evaluate
from paceline.engine import Plan
from paceline.errors import BadInput
from paceline.learning import Markov, Memory, MemoryMarkov
from paceline.lockstep import Survivors, Worlds
from paceline.rollout import Rollout, play
from paceline.schedule import Schedule
from paceline.seeds import digest
from paceline.tape import Tape
from paceline.team import Chair, Player, Setting, Team
from paceline.types import Episode, Mission, Seat, Task

SEEN = spaces.Box(-10, 10, (5,), np.float32)
AMOUNTS = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))
SMALL = {"hidden": (16,)}
KINDS = {
    "markov": partial(Markov, **SMALL),
    "gru": partial(Memory, memory=16, **SMALL),
    "lstm": partial(Memory, cell="lstm", memory=16, layers=2, **SMALL),
    "memory_markov": partial(MemoryMarkov, memory=16, **SMALL),
}
ROWS = 8


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As a team and every worker have it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def seat(done: Any = AMOUNTS, seen: Any = SEEN) -> Seat:
    return Seat("agent_0", 0, seen, done, "m")


def played(policy: Any, rows: list[int], steps: int = 12, due: Any = None) -> dict[int, list[Any]]:
    """What rows answer to observations of their own; `due` says who is asked at a step, by default all."""
    policy.begin(rows, [100 + row for row in rows])
    answers: dict[int, list[Any]] = {row: [] for row in rows}
    streams = {row: np.random.default_rng(row) for row in rows}
    while any(len(answers[row]) < steps for row in rows):
        asked = [row for row in rows if len(answers[row]) < steps and (due is None or due(row))]
        mask = np.zeros(ROWS, bool)
        mask[asked] = True
        obs = [np.full(5, np.nan, np.float32)] * ROWS  # nothing of a row of padding may be looked at
        for row in asked:
            obs[row] = streams[row].normal(size=5).astype(np.float32)
        acted = policy.act_batch(obs, [None] * ROWS, mask, [None] * ROWS)
        for row in asked:
            answers[row].append((acted.action[row], {name: values[row] for name, values in acted.extras.items()}))
        if hasattr(policy, "tell_rows"):
            rewards = np.array([streams[row].normal() for row in asked])
            policy.tell_rows(asked, rewards, np.zeros(len(asked), bool), np.zeros(len(asked), bool))
    return answers


@pytest.mark.parametrize("done", [AMOUNTS, spaces.Discrete(5)], ids=["amounts", "numbers"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_alone_and_among_others(kind: str, done: Any) -> None:
    """Bit for bit: whether the others are padding, are asked too, or are asked now and then."""
    factory = KINDS[kind]
    together = played(factory(seat(done)), list(range(ROWS)))
    for row in (0, 3, 7):
        assert digest(played(factory(seat(done)), [row])[row]) == digest(together[row])
    rng = np.random.default_rng(5)
    now_and_then = played(factory(seat(done)), list(range(ROWS)), due=lambda row: rng.random() < 0.6)
    assert digest(now_and_then) == digest(together)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_change_bits(kind: str) -> None:
    import torch

    found = set()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.add(digest(played(KINDS[kind](seat()), list(range(ROWS)))))
    assert len(found) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_rows_can_be_taken_out_and_put_in_elsewhere(kind: str) -> None:
    policy, other = KINDS[kind](seat()), KINDS[kind](seat())
    played(policy, list(range(ROWS)))
    taken = policy.take_rows([2, 5])
    assert taken["state"].shape == (2, *{"markov": (0, 0), "lstm": (4, 16)}.get(kind, (1, 16)))
    other.put_rows([2, 5], taken)
    assert digest(other.take_rows([5, 2])) == digest(policy.take_rows([5, 2]))
    obs, mask = [np.ones(5, np.float32)] * ROWS, np.isin(np.arange(ROWS), [2, 5])
    one, two = (each.act_batch(obs, [None] * ROWS, mask, [None] * ROWS) for each in (policy, other))
    assert digest([one.action[5], one.extras["value"][2]]) == digest([two.action[5], two.extras["value"][2]])


def test_begin_clears_its_rows_and_no_other() -> None:
    policy = KINDS["gru"](seat())
    played(policy, [0, 1])
    before = digest(policy.take_rows([0]))
    policy.begin([1], [7])
    cleared = policy.take_rows([1])
    assert not cleared["state"].any()
    assert not cleared["actions"].any()
    assert not cleared["rewards"].any()
    assert digest(policy.take_rows([0])) == before


def test_a_memory_hears_of_its_last_action_and_of_the_rewards_since() -> None:
    policy = KINDS["gru"](seat(spaces.Discrete(4, start=2)))
    policy.begin([0], [1])
    action = policy.act_batch([np.ones(5)], [None], np.ones(1, bool), [None]).action[0]
    policy.tell_rows([0], np.array([0.5]), np.array([False]), np.array([True]))
    policy.tell_rows([0], np.array([0.25]), np.array([False]), np.array([False]))
    kept = policy.take_rows([0])
    assert kept["rewards"].tolist() == [0.75]
    assert kept["actions"].tolist() == [[float(number == action) for number in range(2, 6)]]
    assert kept["state"].any()


def test_a_markov_policy_is_not_told_outcomes() -> None:
    """What is declared is paid for with a call per step."""
    assert not Player("markov", KINDS["markov"]).is_told
    assert Player("memory", KINDS["gru"]).is_told


@pytest.mark.parametrize("kind", KINDS)
def test_weights_travel_as_arrays(kind: str) -> None:
    one, other = KINDS[kind](seat(), seed=1), KINDS[kind](seat(), seed=2)
    assert digest(one.weights()) != digest(other.weights())
    assert digest(KINDS[kind](seat(), seed=1).weights()) == digest(one.weights())
    other.load(3, one.weights())
    assert other.version == 3
    assert digest(other.weights()) == digest(one.weights())
    assert digest(played(other, [1])) == digest(played(KINDS[kind](seat(), one.weights()), [1]))


def test_weights_of_another_network_are_refused_whole(tmp_path: Any) -> None:
    policy = KINDS["gru"](seat())
    before = digest(policy.weights())
    with pytest.raises(BadInput, match=r"not those of Memory at seat 'agent_0'.*'actor.0.bias' has shape \(64,\)"):
        policy.load(1, Memory(seat(), memory=16).weights())
    assert (policy.version, digest(policy.weights())) == (0, before)
    with pytest.raises(BadInput, match="cannot read weights from"):
        Memory(seat(), tmp_path / "missing.npz")
    np.savez(tmp_path / "net.npz", **policy.weights())
    assert digest(KINDS["gru"](seat(), tmp_path / "net.npz").weights()) == before


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_drawn_from_global_generators(kind: str) -> None:
    import torch

    torch_before, numpy_before = torch.get_rng_state(), digest(np.random.get_state())
    played(KINDS[kind](seat()), [0, 1])
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert digest(np.random.get_state()) == numpy_before


@pytest.mark.parametrize("squash", ["tanh", "clip"])
def test_amounts_stay_within_bounds_and_are_of_the_spaces_type(squash: str) -> None:
    policy = Markov(seat(), squash=squash, log_std=2.0, **SMALL)
    answers = played(policy, [0, 1], steps=40)
    for action, extras in [answer for row in answers.values() for answer in row]:
        assert AMOUNTS.contains(action)
        assert np.isfinite(extras["log_prob"])
        assert extras["raw_action"].shape == (2,)


def test_a_policy_that_is_not_sampled_draws_nothing() -> None:
    policy = Memory(seat(spaces.Discrete(5)), memory=16, sampled=False, **SMALL)
    policy.begin([0, 1], [1, 2])
    both = policy.act_batch([np.ones(5)] * 2, [None] * 2, np.ones(2, bool), [None] * 2)
    assert both.action[0] == both.action[1]


def test_spaces_that_no_network_takes_are_refused() -> None:
    with pytest.raises(BadInput, match="Discrete or a Box"):
        Markov(seat(spaces.MultiBinary(3)))
    with pytest.raises(BadInput, match="squash='tanh' needs"):
        Markov(seat(spaces.Box(-np.inf, np.inf, (1,))))
    assert Markov(seat(spaces.Box(-np.inf, np.inf, (1,))), squash="clip")
    with pytest.raises(BadInput, match="fit into no arrays"):
        Markov(seat(seen=spaces.Text(3)))
    with pytest.raises(BadInput, match="cell='rnn'"):
        Memory(seat(), cell="rnn")


def test_observations_of_parts_lie_side_by_side() -> None:
    seen = spaces.Dict({"place": spaces.Box(0, 9, (2, 2), np.int64), "mood": spaces.Discrete(3, start=1)})
    policy = Memory(seat(seen=seen), memory=16, **SMALL)
    policy.begin([0], [0])
    policy.act_batch([{"place": np.arange(4).reshape(2, 2), "mood": 2}], [None], np.ones(1, bool), [None])
    assert policy._seen[0, 0].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0, 2.0, 3.0]
    rows = policy.observations.rows({"place": np.arange(4).reshape(1, 2, 2), "mood": np.array([2])})
    assert rows.tolist() == [policy._seen[0, 0].tolist()]


def test_rows_that_have_not_begun_and_other_numbers_of_rows_are_errors() -> None:
    policy = Markov(seat(), **SMALL)
    with pytest.raises(BadInput, match="row 0 has not begun"):
        policy.act_batch([np.ones(5)], [None], np.ones(1, bool), [None])
    played(policy, [0])
    with pytest.raises(BadInput, match="was asked 4 rows, and 8 before"):
        policy.act_batch([np.ones(5)] * 4, [None] * 4, np.ones(4, bool), [None] * 4)


@pytest.mark.parametrize("done", [AMOUNTS, spaces.Discrete(5)], ids=["amounts", "numbers"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_gives_what_the_steps_gave(kind: str, done: Any) -> None:
    """Log-probabilities and values of a rollout are found again by one forward over all of its steps."""
    import torch

    policy = KINDS[kind](seat(done))
    policy.begin([0], [4])
    rng, steps = np.random.default_rng(0), []
    last, reward = np.zeros((1, policy.head.encoded), np.float32), 0.0
    for _ in range(9):
        obs = rng.normal(size=5).astype(np.float32)
        acted = policy.act_batch([obs], [None], np.ones(1, bool), [None])
        raw = acted.extras.get("raw_action", acted.action)[0]
        steps.append((obs, last[0], np.float32(reward), raw, acted.extras["log_prob"][0], acted.extras["value"][0]))
        last, reward = policy.head.encode(acted.action), float(rng.normal())
        if hasattr(policy, "tell_rows"):
            policy.tell_rows([0], np.array([reward]), np.zeros(1, bool), np.zeros(1, bool))
    seen, actions, rewards, raws, logs, values = (torch.from_numpy(np.array(part)) for part in zip(*steps, strict=True))
    with torch.no_grad():
        answer = policy.network(seen[:, None], actions[:, None], rewards[:, None], policy.network.start(1))
        found = policy.head.log_prob(answer.parameters[:, 0], policy.network.spread, raws)
    np.testing.assert_allclose(found, logs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answer.values[:, 0], values, rtol=1e-4, atol=1e-5)


def test_log_probabilities_are_those_of_torch() -> None:
    import torch
    from torch import distributions as known

    from paceline.learning.heads import Categorical, Gaussian

    parameters, log_std = torch.linspace(-1, 2, 6).reshape(3, 2), torch.tensor([-0.5, 0.3])
    raw = torch.linspace(-2, 2, 6).reshape(3, 2)
    normal = known.Independent(known.Normal(parameters, log_std.exp()), 1)
    squashed = known.Independent(
        known.TransformedDistribution(known.Normal(parameters, log_std.exp()), known.TanhTransform(cache_size=1)), 1
    )
    torch.testing.assert_close(Gaussian(AMOUNTS, "clip").log_prob(parameters, log_std, raw), normal.log_prob(raw))
    torch.testing.assert_close(Gaussian(AMOUNTS, "clip").entropy(parameters, log_std), normal.entropy())
    found = Gaussian(AMOUNTS, "tanh").log_prob(parameters, log_std, raw)
    torch.testing.assert_close(found, squashed.log_prob(raw.tanh()), rtol=1e-4, atol=1e-4)
    numbers, head = known.Categorical(logits=parameters), Categorical(spaces.Discrete(2))
    torch.testing.assert_close(
        head.log_prob(parameters, log_std, torch.tensor([0, 1, 0])), numbers.log_prob(torch.tensor([0, 1, 0]))
    )
    torch.testing.assert_close(head.entropy(parameters, log_std), numbers.entropy())


def test_numbers_are_drawn_as_they_are_likely() -> None:
    import torch

    from paceline.learning.heads import Categorical

    scores = torch.tensor([0.1, 0.6, 0.0, 0.3]).log().expand(1000, 4)
    noise = torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1, None]
    drawn = Categorical(spaces.Discrete(4)).raw(scores, torch.zeros(0), noise, True)
    assert np.bincount(drawn.numpy(), minlength=4).tolist() == pytest.approx([100, 600, 0, 300], abs=1)


# -- one digest, wherever it is played -----------------------------------------------------------------------


@pytest.mark.parametrize("numbered", [False, True], ids=["amounts", "numbers"])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_gives_one_digest(kind: str, numbered: bool) -> None:
    mission, player = Mission("guess", Guess, {"numbered": numbered}), Player(kind, KINDS[kind])
    here = evaluate(mission, player, episodes=6, seed=2, plan=0)
    assert not here.failures
    assert len({episode.digest for episode in here.episodes}) == 6
    assert evaluate(mission, player, episodes=6, seed=2, plan=0, agents="gpu").digest == here.digest
    if kind == "gru" and numbered:  # once: a worker imports torch, which takes seconds
        assert evaluate(mission, player, episodes=6, seed=2, plan=2).digest == here.digest


GUESS = Mission("guess", Guess, reuse=True)


def collected(kind: str, index: int) -> tuple[int, dict[str, Any]]:
    """One rollout: two episodes of a task, with what the policy remembers before each."""
    rollout, task = Rollout(GUESS, index), Task(index, {"hidden": index / 6})
    seats = rollout.seats()
    tape = Tape(seats)
    with Team.seated(seats, [Player(kind, KINDS[kind])], [0], Setting(lanes=4), ("guess", index)) as team:
        for inner in range(2):
            play(rollout, team, 100 * index + inner, task, tape)
    rollout.close()
    return index, tape.batch()


def _raise(index: int, error: BaseException) -> Any:
    raise error


def collect(kind: str, plan: Plan) -> list[dict[str, Any]]:
    schedule = Schedule(partial(collected, kind), lambda index: index, _raise, plan, noun="rollout")
    found = dict(result for _, result in schedule.run(range(6), 6))
    return [found[index] for index in range(6)]


@pytest.mark.parametrize("where", ["thread", "process"])
def test_rollouts_of_two_episodes_are_the_same_in_workers(where: str) -> None:
    """What is remembered lasts from the first episode to the second."""
    tapes = collect("gru", Plan(where, 2))
    assert digest(tapes) == digest(collect("gru", Plan("inline", 1)))
    assert {"log_prob", "value", "raw_action"} <= tapes[0].keys()
    assert [len(tape["ends"]) for tape in tapes] == [2] * 6


def stepped_together(workers: int) -> str:
    """Four rollouts stepped together with one team here, which owns the network."""
    seats = [(table, Rollout(GUESS, table).seats()[0]) for table in range(4)]
    chairs = [Chair((table, each.agent), ("guess", table), each, Player("gru", KINDS["gru"])) for table, each in seats]
    worlds = Worlds(
        [partial(Rollout, GUESS, table) for table in range(4)],
        [("guess", table) for table in range(4)],
        [Episode("guess", table, 0) for table in range(4)],
        Plan("process", workers) if workers else Plan("inline", 1),
        outcomes=True,
    )
    tape = Tape({chair.name: chair.seat for chair in chairs})
    with Team(chairs, Setting(lanes=4)) as team, worlds:
        play(worlds, Survivors(team, worlds), [10, 11, 12, 13], None, tape)
    assert len({episode.digest for episode in worlds.episode}) == 4
    return digest([tape.digest, [episode.digest for episode in worlds.episode]])


def test_rollouts_in_lockstep_give_one_digest() -> None:
    assert stepped_together(0) == stepped_together(2)


def test_importing_it_does_not_import_torch() -> None:
    program = "import sys, paceline.learning; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
