"""Banks of independent learners: the same bits in any grouping, nothing of another agent, states that travel."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from learning_windows import Rows, noise, seats

from paceline.errors import BadInput
from paceline.learning import DQN, PPO, build_bank, learner_spec
from paceline.seeds import digest, seed_of

SPECS = ["dqn,hidden=16x16,batch=10,steps=3,target_every=7", "dqn,hidden=16,batch=10,dueling=true,n_step=3,steps=3"]
SPECS += ["ppo,hidden=16x16,batch=24,passes=1"]
SPECS += ["dqn,hidden=16,memory=5,sequence=3,lead=2,batch=9,n_step=2,steps=2,target_every=7"]
NAMES = [f"agent_{number}" for number in range(8)]
UPDATES = 20  # 40 gradient steps of every kind, and more


@pytest.fixture(params=SPECS, ids=["dqn", "dueling", "ppo", "memory"])
def spec(request: Any) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """A bank computes on one thread, and leaves the number of threads as it was."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


def bank_of(spec: str, names: Sequence[str] = NAMES, worlds: int = 1, seed: int = 5) -> Any:
    return build_bank(seats(*names), learner_spec(spec), seed=seed, worlds=worlds)


def taught(bank: Any, updates: int = UPDATES, first: int = 0) -> Any:
    for update in range(first, first + updates):
        bank.learn({agent: noise(agent, update) for agent in bank.agents})
    return bank


def state_of(*banks: Any) -> dict[str, str]:
    return {agent: digest(own) for bank in banks for agent, own in bank.snapshot()["agents"].items()}


def begun(bank: Any, epoch: int = 3, worlds: int = 1) -> Any:
    bank.begin(epoch, {agent: [seed_of(1, agent, world) for world in range(worlds)] for agent in bank.agents})
    return bank


def answers(bank: Any, worlds: int = 1, due: Any = None, turns: int = 12) -> dict[Any, list[Any]]:
    """What agents answer to observations of their own; `due` says who is asked at a turn, by default all."""
    rngs = {
        (agent, world): np.random.default_rng(seed_of(2, agent, world))
        for agent in bank.agents
        for world in range(worlds)
    }
    found: dict[Any, list[Any]] = {place: [] for place in rngs}
    for turn in range(turns):
        asked = [place for place in rngs if due is None or due(turn, *place)]
        acted = bank.act({place: rngs[place].standard_normal(5, np.float32) for place in asked})
        for place, answer in acted.items():
            found[place].append((answer.action, dict(answer.extras)))
    return found


def test_agents_learn_the_same_bits_in_any_grouping(spec: str) -> None:
    """One by one, in pairs, 3 and 5, all eight, and in another order."""
    whole = state_of(taught(bank_of(spec)))
    for groups in ([[name] for name in NAMES[:2]], [NAMES[:3], NAMES[3:]], [NAMES[::-1]], [NAMES[6:]]):
        parts = state_of(*(taught(bank_of(spec, group)) for group in groups))
        assert parts == {agent: whole[agent] for agent in parts}


def test_any_subset_may_learn_in_any_order(spec: str) -> None:
    """Agents that learn one after another, in calls of their own, become what they become together."""
    whole, apart = taught(bank_of(spec), 6), bank_of(spec)
    for agents in (NAMES[5:], NAMES[:1], NAMES[4:0:-1]):
        for update in range(6):
            apart.learn({agent: noise(agent, update) for agent in agents})
    assert state_of(apart) == state_of(whole)


def test_agents_that_are_asked_one_after_another_answer_as_all_at_once(spec: str) -> None:
    """A forward of any part of the stack gives the bits of one of all of it."""
    whole, apart = begun(taught(bank_of(spec), 2)), begun(taught(bank_of(spec), 2))
    seen = {(agent, 0): np.full(5, number, np.float32) for number, agent in enumerate(NAMES)}
    together = {place: (acted.action, dict(acted.extras)) for place, acted in whole.act(seen).items()}
    for places in (NAMES[:1], NAMES[7:], NAMES[1:3], NAMES[6:2:-1]):
        acted = apart.act({(agent, 0): seen[agent, 0] for agent in places})
        assert {place: (one.action, dict(one.extras)) for place, one in acted.items()} == {
            (agent, 0): together[agent, 0] for agent in places
        }


def test_an_agent_that_is_asked_again_draws_what_it_drew(spec: str) -> None:
    """Answers to observations that turn out to be others leave no trace, also if the bank was saved in between."""
    once, twice = begun(bank_of(spec)), begun(bank_of(spec))
    for turn in range(20):
        seen = {(agent, 0): np.full(5, number - turn, np.float32) for number, agent in enumerate(NAMES)}
        expected = once.act(seen)
        guessed = twice.act({place: one + 1 for place, one in seen.items()})
        restored = bank_of(spec)
        restored.restore(pickle.loads(pickle.dumps(twice.snapshot())))
        twice = restored
        wrong = [place for number, place in enumerate(seen) if number % 3]
        again = twice.act({place: seen[place] for place in wrong}, again=wrong)
        assert {place: one.action for place, one in again.items()} == {place: expected[place].action for place in wrong}
        assert guessed.keys() == expected.keys()


def test_figures_are_those_of_the_agents_that_learned(spec: str) -> None:
    """Figures come by agent, and are the same bits in any grouping."""
    bank, alone = bank_of(spec), bank_of(spec, NAMES[2:3])
    figures = bank.learn({agent: noise(agent, 0) for agent in NAMES[4:1:-1]})
    assert list(figures) == NAMES[4:1:-1]
    assert {"loss", "grad_norm"} <= set(figures[NAMES[2]])
    assert figures[NAMES[2]] == alone.learn({NAMES[2]: noise(NAMES[2], 0)})[NAMES[2]]


def test_rows_of_different_numbers_learn_together(spec: str) -> None:
    """An agent with more rows than another becomes what it becomes alone."""
    bank, alone = bank_of(spec, NAMES[:3]), bank_of(spec, NAMES[1:2])
    bank.learn({agent: noise(agent, 0, rows) for agent, rows in zip(NAMES, (70, 31, 15), strict=False)})
    alone.learn({NAMES[1]: noise(NAMES[1], 0, 31)})
    assert state_of(bank)[NAMES[1]] == state_of(alone)[NAMES[1]]


def test_an_agent_without_rows_stays_as_it_is(spec: str) -> None:
    """It has no figures, and the others learn."""
    bank = bank_of(spec, NAMES[:2])
    before, empty = state_of(bank), noise(NAMES[0], 0)
    nothing = Rows({name: column[:0] for name, column in empty.columns.items()}, empty.rng)
    figures = bank.learn({NAMES[0]: nothing, NAMES[1]: noise(NAMES[1], 0)})
    assert figures[NAMES[0]] == {}
    assert state_of(bank)[NAMES[0]] == before[NAMES[0]]
    assert state_of(bank)[NAMES[1]] != before[NAMES[1]]


@pytest.mark.parametrize("column", ["observations", "rewards", "final_observations"])
def test_no_number_of_an_agent_reaches_another(spec: str, column: str) -> None:
    """NaN in the rows of one agent changes no bit of the others."""
    clean, spoilt = bank_of(spec, NAMES[:3]), bank_of(spec, NAMES[:3])
    for update in range(4):
        windows = {agent: noise(agent, update) for agent in NAMES[:3]}
        for columns in (windows[NAMES[1]].columns, windows[NAMES[1]].new):
            columns[column][:] = np.nan
        spoilt.learn(windows)
    taught(clean, 4)
    ours, theirs = state_of(clean), state_of(spoilt)
    assert [ours[agent] == theirs[agent] for agent in NAMES[:3]] == [True, False, True]


@pytest.mark.parametrize("worlds", [1, 3])
def test_agents_act_the_same_bits_in_any_grouping(spec: str, worlds: int) -> None:
    """Alone, in a part, or all together, in one world or several."""
    whole = answers(begun(taught(bank_of(spec, worlds=worlds), 2), worlds=worlds), worlds)
    for group in (NAMES[:1], NAMES[5:], NAMES[::-1]):
        part = answers(begun(taught(bank_of(spec, group, worlds), 2), worlds=worlds), worlds)
        assert part == {place: whole[place] for place in part}


def test_agents_that_are_not_due_change_nothing(spec: str) -> None:
    """Who is asked beside an agent makes no difference to it, and one that is not asked draws nothing."""
    whole = answers(begun(bank_of(spec, worlds=2), worlds=2), 2)
    gone = begun(bank_of(spec, worlds=2), worlds=2)
    some = answers(gone, 2, lambda turn, agent, world: (agent, world) == (NAMES[3], 1) or (turn + world) % 2)
    assert some[NAMES[3], 1] == whole[NAMES[3], 1]
    assert len(some[NAMES[0], 0]) == 6


def test_what_is_drawn_follows_from_the_seeds_of_the_epoch(spec: str) -> None:
    """The same seeds give the same actions again; others give others."""
    bank = bank_of(spec)
    first, again = answers(begun(bank), turns=40), answers(begun(bank), turns=40)
    bank.begin(3, {agent: [seed_of(9, agent)] for agent in NAMES})
    assert first == again != answers(bank, turns=40)


def test_first_weights_follow_from_seed_and_name(spec: str) -> None:
    """An agent begins alike in every bank, and no two agents or seeds begin alike."""
    whole, part, other = bank_of(spec).weights(), bank_of(spec, NAMES[3:5]).weights(), bank_of(spec, seed=6).weights()
    assert digest(whole[NAMES[3]]) == digest(part[NAMES[3]])
    assert len({digest(own) for weights in (whole, other) for own in weights.values()}) == 2 * len(NAMES)


def test_a_snapshot_goes_on_with_the_same_bits(spec: str) -> None:
    """Learning and acting, from a state that was sent, in a bank of other seeds and another order."""
    bank = begun(taught(bank_of(spec), 3))
    answers(bank, turns=3)
    state = pickle.loads(pickle.dumps(bank.snapshot()))
    other = bank_of(spec, NAMES[::-1], seed=77)
    other.restore(state)
    assert answers(other, turns=4) == answers(bank, turns=4)
    assert state_of(taught(other, 3, 3)) == state_of(taught(bank, 3, 3))
    assert state_of(bank) != {agent: digest(own) for agent, own in state["agents"].items()}


def test_weights_travel_for_some_agents_only(spec: str) -> None:
    """Those that are loaded act as where they come from; the others act as before."""
    learned, copy = taught(bank_of(spec), 4), bank_of(spec)
    before, sent = copy.weights(), {agent: own for agent, own in learned.weights().items() if agent in NAMES[:2]}
    copy.load(sent)
    for array in sent[NAMES[0]].values():
        array[:] = 0  # what was given is a copy
    after = copy.weights()
    assert digest(after[NAMES[0]]) == digest(learned.weights()[NAMES[0]])
    assert digest(after[NAMES[2]]) == digest(before[NAMES[2]])
    ours, theirs = answers(begun(copy), turns=20), answers(begun(learned), turns=20)
    assert ours[NAMES[1], 0] == theirs[NAMES[1], 0]


def test_weights_that_do_not_fit_are_refused(spec: str) -> None:
    """The error names the agent and a shape, and nothing is taken."""
    bank, other = bank_of(spec), bank_of(spec.replace("hidden=16", "hidden=8"))
    before, sent = state_of(bank), bank.weights()
    sent[NAMES[0]] = {name: array + 1 for name, array in sent[NAMES[0]].items()}
    sent[NAMES[1]] = other.weights()[NAMES[1]]
    with pytest.raises(BadInput, match=r"agent 'agent_1'.*shape"):
        bank.load(sent)
    assert state_of(bank) == before
    with pytest.raises(BadInput, match="another architecture"):
        bank.restore(other.snapshot())
    with pytest.raises(BadInput, match="of the agents"):
        bank.restore(bank_of(spec, NAMES[:2]).snapshot())


def test_strangers_are_named(spec: str) -> None:
    """An agent that is not in the bank, a world that has not begun, seeds for another number of worlds."""
    bank = begun(bank_of(spec, NAMES[:2]))
    for call in (lambda: bank.learn({"nemo": noise("nemo", 0)}), lambda: bank.load({"nemo": {}})):
        with pytest.raises(BadInput, match="agent 'nemo' is not in this bank: it has 'agent_0', 'agent_1'"):
            call()
    with pytest.raises(BadInput, match="'agent_0' has not begun in world 1"):
        bank.act({("agent_0", 1): np.zeros(5)})
    with pytest.raises(BadInput, match="'agent_0' has 2 seeds for 1 worlds"):
        bank.begin(0, {"agent_0": [1, 2]})


def test_spaces_that_a_learner_cannot_handle_are_named(spec: str) -> None:
    """The error says which agent and which space, before anything is built."""
    config = learner_spec(spec)
    for bad, said in (({"done": spaces.Box(-1, 1, (2,))}, "Box"), ({"seen": spaces.Text(5)}, "Text")):
        with pytest.raises(BadInput, match=rf"agent 'a' of mission 'm'.*{said}"):
            build_bank(seats("a", **bad), config, seed=0, worlds=1)
    mixed = [*seats("a"), *seats("b", done=spaces.Discrete(4))]
    with pytest.raises(BadInput, match=r"agent 'b'.*architecture"):
        build_bank(mixed, config, seed=0, worlds=1)


def test_agents_of_one_architecture_may_see_and_act_in_their_own_ways(spec: str) -> None:
    """Observations are encoded, and actions numbered, by each agent's own spaces."""
    parts = spaces.Dict(door=spaces.Discrete(2, start=1), place=spaces.Box(-1, 1, (3,), np.float32))
    mixed = [*seats("a"), *seats("b", seen=parts, done=spaces.Discrete(3, start=7))]
    bank = begun(build_bank(mixed, learner_spec(spec), seed=0, worlds=1))
    numbers = set()
    for _ in range(30):
        seen = {("a", 0): np.zeros(5, np.float32), ("b", 0): {"door": 2, "place": np.zeros(3, np.float32)}}
        acted = bank.act(seen)
        numbers |= {(agent, answer.action) for (agent, _), answer in acted.items()}
    assert numbers == {(agent, first + number) for agent, first in (("a", 0), ("b", 7)) for number in range(3)}
    for strange in (0, 3):
        with pytest.raises(BadInput, match=rf"an observation has {strange} where its space says 1 … 2"):
            bank.act({("b", 0): {"door": strange, "place": np.zeros(3, np.float32)}})
    for wrong in (np.zeros(1, np.float32), np.zeros((2, 3), np.float32)):
        with pytest.raises(BadInput, match=r"an observation has shape .*, and its space 3 numbers there"):
            bank.act({("b", 0): {"door": 1, "place": wrong}})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sac", "'sac' is no learner: give dqn or ppo"),
        ("dqn,epsilon_stop=1", r"dqn.epsilon_stop is not known; did you mean epsilon_start\?"),
        ("ppo,wings=2", "ppo.wings is not known; there are hidden, lr"),
        ("dqn,lr=-1", "dqn.lr is -1: input should be greater than 0"),
        ("dqn,hidden=64xtwo", "dqn.hidden"),
        ("dqn,hidden=0", "dqn.hidden.0 is 0"),
        ("ppo,gamma=1.5", "ppo.gamma is 1.5"),
        ("dqn,batch", "'batch' in 'dqn,batch' is no option"),
    ],
)
def test_a_spec_that_makes_no_sense_names_the_key(text: str, said: str) -> None:
    """The error says which key, and what is allowed."""
    with pytest.raises(BadInput, match=said):
        learner_spec(text)


def test_specs_are_read() -> None:
    """Sizes of layers are a number, or several with an x between them."""
    assert learner_spec("dqn") == DQN()
    assert learner_spec("dqn,hidden=128,lr=0.01,double=false") == DQN(hidden=(128,), lr=0.01, double=False)
    assert learner_spec("ppo,hidden=8x9") == PPO(hidden=(8, 9))


def test_a_lone_agent_is_computed_as_in_a_stack() -> None:
    """In a shape of which BLAS computes a lone product in another order: a critic of 128 inputs, in four worlds."""
    whole = answers(begun(bank_of("ppo,hidden=128", NAMES[:3], worlds=4), worlds=4), 4, turns=4)
    alone = answers(begun(bank_of("ppo,hidden=128", NAMES[:1], worlds=4), worlds=4), 4, turns=4)
    assert alone == {place: whole[place] for place in alone}
