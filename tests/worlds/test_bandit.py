"""Bandit: groups share their arms, chance is apart, and the bold arm pays what it should."""

import pickle
from typing import Any

import pytest

from paceline.errors import BadInput
from paceline.worlds.text.bandit import ARMS, INSTRUCTION, Bandit

BOLD = {bold for pairs in ARMS.values() for _, bold in pairs}


def begun(seed: int = 0, dynamics: int | None = None, **config: Any) -> Bandit:
    env = Bandit(config)
    env.reset(seed, dynamics=dynamics)
    return env


def bold(env: Bandit) -> str:
    assert env.action_lookup is not None
    return next(name for name in env.action_lookup.values() if name in BOLD)


def sure(env: Bandit) -> str:
    assert env.action_lookup is not None
    return next(name for name in env.action_lookup.values() if name not in BOLD)


@pytest.mark.parametrize("split", ARMS)
def test_no_name_is_both_bold_and_sure_or_in_both_splits(split: str) -> None:
    names = [name for pair in ARMS[split] for name in pair]
    others = [name for other in ARMS if other != split for pair in ARMS[other] for name in pair]
    assert len(set(names)) == len(names)
    assert not set(names) & set(others)


def test_the_members_of_a_group_get_the_same_question_whatever_was_built_before() -> None:
    questions = {Bandit().reset(7, dynamics=member) for member in range(16)}
    assert len(questions) == 1
    env = Bandit()
    assert env.reset(7) == env.reset(7) == questions.pop()
    assert len({env.reset(seed) for seed in range(60)}) > 12


def test_the_state_names_both_arms() -> None:
    env = begun(3)
    assert env.action_lookup is not None
    assert set(env.action_lookup) == {1, 2}
    assert all(f"<answer>{name}</answer>" in env.render() for name in env.action_lookup.values())
    assert "<answer>" in INSTRUCTION


def test_both_orders_of_the_arms_occur() -> None:
    places = {begun(seed).action_lookup[1] in BOLD for seed in range(30)}  # type: ignore[index]
    assert places == {True, False}


def test_the_sure_arm_pays_for_sure_and_is_no_success() -> None:
    env = begun(5)
    state, reward, done, info = env.step(sure(env))
    assert (reward, done) == (0.1, True)
    assert state == f"{sure(env)}: 0.1 points" == env.render()
    assert info == {"action_is_valid": True, "action_is_effective": True, "success": False}


def test_the_bold_arm_pays_one_time_in_four_and_is_a_success() -> None:
    paid = []
    for member in range(400):
        env = begun(5, dynamics=member)
        _, reward, done, info = env.step(bold(env))
        assert done
        assert info["success"]
        paid.append(reward)
    assert set(paid) == {0.0, 1.0}
    assert 70 <= sum(paid) <= 130


def test_chance_follows_the_dynamics_alone() -> None:
    def drawn(seed: int, dynamics: int | None) -> float:
        env = begun(seed, dynamics)
        return env.step(bold(env))[1]

    assert [drawn(5, member) for member in range(40)] == [drawn(6, member) for member in range(40)]
    assert [drawn(seed, None) for seed in range(40)] == [drawn(seed, seed) for seed in range(40)]


def test_numbers_and_names_in_any_case_mean_the_same() -> None:
    env = begun(2)
    assert env.action_lookup is not None
    for number, name in env.action_lookup.items():
        env.reset(2)
        by_number = env.step(number)
        env.reset(2)
        assert env.step(f" {name.upper()} ") == by_number


@pytest.mark.parametrize("action", [0, 3, -1, 1.5, "", "Nobody", "x" * 1_000_000, "\x00", None, [1], "1"])
def test_an_unknown_action_changes_nothing(action: Any) -> None:
    env = begun(2)
    before = env.render()
    assert env.step(action) == (
        before,
        0.0,
        False,
        {"action_is_valid": False, "action_is_effective": False, "success": False},
    )
    assert env.step(1)[2]


def test_after_the_end_nothing_happens() -> None:
    env = begun(2)
    state = env.step(bold(env))[0]
    again = env.step(sure(env))
    assert again[:3] == (state, 0.0, True)
    assert not again[3]["action_is_valid"]
    assert again[3]["success"]


def test_a_snapshot_goes_on_as_it_would_have() -> None:
    for member in range(20):
        env = begun(9, dynamics=member)
        saved = pickle.loads(pickle.dumps(env.snapshot()))
        first = env.step(bold(env))
        other = Bandit()
        other.restore(saved)
        assert other.step(bold(other)) == first


def test_settings_are_upstreams_and_are_checked() -> None:
    env = begun(1, split="test", action_space_start=0, lo_arm_score=0.5, hi_arm_hiscore_prob=1.0, action_lookup=None)
    assert env.action_lookup is not None
    assert set(env.action_lookup) == {0, 1}
    assert bold(env) in {name for _, name in ARMS["test"]}
    assert env.step(bold(env))[1] == 1.0
    with pytest.raises(BadInput, match=r"bandit\.hi_arm_hiscore_prob"):
        Bandit({"hi_arm_hiscore_prob": 2})
    with pytest.raises(BadInput, match="did you mean split"):
        Bandit({"splits": "train"})


def test_a_step_before_the_reset_is_refused() -> None:
    with pytest.raises(BadInput, match="reset"):
        Bandit().step(1)
