"""Environments of other makes keep to the contract of text environments, or say in words what is missing."""

import functools
import random
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from paceline.adapters.text_envs import ForeignTextEnv, as_text_env
from paceline.errors import BadInput
from paceline.roles import TextEnv
from paceline.worlds.text.bandit import Bandit


class Guess(gymnasium.Env[str, str]):
    """Gymnasium, and GEM: text in, text out, five parts."""

    action_space = spaces.Text(20)
    observation_space = spaces.Text(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.secret, self.tries = int(self.np_random.integers(10)), 0
        return "Guess a digit.", {"suffix": "now"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.tries += 1
        right = action == str(self.secret)
        return f"try {self.tries}: {right}", float(right), right, self.tries == 3, {"is_success": right}


class OldGym:
    """Old gym: four parts, a method for the seed, a Discrete space."""

    action_space = spaces.Discrete(3, start=1)

    def seed(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def reset(self) -> np.ndarray[Any, Any]:
        self.place = np.array([self.rng.randrange(5), 0])
        return self.place

    def step(self, action: int) -> tuple[Any, Any, bool, dict[str, Any]]:
        self.place = self.place + np.array([0, action - 2])
        return self.place, np.float32(action - 2), bool(self.place[1] >= 2), {}


class Plain:
    """A class that somebody wrote: three parts, nothing random."""

    def reset(self) -> str:
        self.words: list[str] = []
        return "Say stop."

    def step(self, text: str) -> tuple[str, int, bool]:
        self.words.append(text)
        return " ".join(self.words), 1, text == "stop"


class Arena:
    """As TextArena's games are: observations are asked for, rewards come when the game is closed."""

    def __init__(self, player: int = 0, words: bool = False) -> None:
        self.player, self.words, self.closed = player, words, 0

    def reset(self, num_players: int, seed: int | None = None) -> None:
        assert num_players == 1
        self.secret, self.done = seed, False
        self.said: list[Any] = [(-1, f"Say {seed}.", "PROMPT")]

    def get_observation(self) -> tuple[int, Any]:
        said, self.said = self.said, []
        return self.player, "\n".join(words for _, words, _ in said) if self.words else said

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        self.done = action == str(self.secret)
        self.said += [(0, action, "PLAYER_ACTION"), (-1, "Yes." if self.done else "No.", "GAME_MESSAGE")]
        return self.done, {}

    def close(self) -> tuple[dict[int, float], dict[int, Any]]:
        self.closed += 1
        return {0: 0.75}, {0: {"turn_count": 2, "invalid_move": False}}


def lake(**options: Any) -> ForeignTextEnv:
    make = functools.partial(gymnasium.make, "FrozenLake-v1", is_slippery=True, render_mode="ansi")
    return as_text_env(make, success=1.0, **options)


# -- the contract ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "actions"),
    [
        (lambda: as_text_env(Guess), list("0123456789")),
        (lambda: as_text_env(OldGym(), success=2), ["3", "1", "2", "3", "3", "3"]),
        (lambda: as_text_env(Plain, seeding="none", success=0), ["go", "on", "stop"]),
        (lambda: as_text_env(Arena, success=0.5), ["4", "5"]),
        (lambda: lake(actions=["Left", "Down", "Right", "Up"]), ["Down", "right"] * 20),
        (lambda: as_text_env(Bandit), ["Nobody", 1]),
    ],
)
def test_an_adapted_environment_keeps_the_contract(make: Any, actions: list[Any]) -> None:
    env: Any = make()
    assert isinstance(env, TextEnv)
    story = []
    for _ in range(2):
        first, done, played = env.reset(5, mode="val"), False, []
        assert isinstance(first, str)
        assert env.render() == first
        for action in actions:
            state, reward, over, info = env.step(action)
            assert state == env.render()
            assert type(reward) in (int, float)
            assert type(over) is bool
            assert {"action_is_valid", "action_is_effective", "success"} <= info.keys()
            assert type(info["success"]) is bool
            if done:  # nothing happens after the end
                assert (state, reward, over, info["action_is_valid"]) == (played[-1][0], 0, True, False)
            done = over
            played.append((state, reward, over, info["success"]))
        assert done
        story.append((first, played))
    assert story[0] == story[1]
    env.close()


# -- Gymnasium and GEM -------------------------------------------------------------------------------------


def test_five_parts_become_four_and_success_is_read_from_the_info() -> None:
    env = as_text_env(Guess)
    assert env.action_lookup is None
    assert env.reset(3) == "Guess a digit."
    wrong = str((env.env.secret + 1) % 10)
    assert env.step(wrong)[3] == {
        "action_is_valid": True,
        "action_is_effective": True,
        "success": False,
        "is_success": False,
        "truncated": False,
    }
    state, reward, done, info = env.step(str(env.env.secret))
    assert (state, reward, done, info["success"]) == ("try 2: True", 1.0, True, True)


def test_a_truncated_episode_is_over_and_no_success() -> None:
    env = as_text_env(Guess())
    env.reset(3)
    results = [env.step("no") for _ in range(3)]
    assert [done for _, _, done, _ in results] == [False, False, True]
    assert results[-1][3]["truncated"]
    assert not results[-1][3]["success"]


@pytest.mark.parametrize("action", ["x" * 1000, "\x00", 5, None])
def test_what_is_not_in_a_space_of_text_is_not_passed_on(action: Any) -> None:
    env = as_text_env(Guess)
    first = env.reset(3)
    state, reward, done, info = env.step(action)
    assert (state, reward, done, info["action_is_valid"]) == (first, 0.0, False, False)
    assert env.env.tries == 0


def test_discrete_actions_have_names() -> None:
    env = lake(actions=["Left", "Down", "Right", "Up"])
    assert env.action_lookup == {0: "Left", 1: "Down", 2: "Right", 3: "Up"}
    assert lake().action_lookup == {0: "0", 1: "1", 2: "2", 3: "3"}
    assert as_text_env(OldGym).action_lookup == {1: "1", 2: "2", 3: "3"}
    assert as_text_env(OldGym, actions={1: "back", 3: "on"}).action_lookup == {1: "back", 3: "on"}
    env.reset(1)
    assert env.step("sideways")[3]["action_is_valid"] is False
    assert env.step(9)[3]["action_is_valid"] is False
    assert env.step(np.int64(1))[3]["action_is_valid"] is True


def test_what_is_rendered_can_be_shown() -> None:
    env = lake(show="render")
    first = env.reset(0)
    assert "SFFF" in first.replace("\x1b[41m", "").replace("\x1b[0m", "")
    assert lake().reset(0) == "0"
    assert lake(show="You stand at {}.".format).reset(0) == "You stand at 0."


def test_arrays_and_mappings_are_printed() -> None:
    class Mixed(Plain):
        def reset(self) -> Any:
            return {"at": np.array([1, 2]), "near": (np.int64(3), "wall"), "note": "hot"}

    assert as_text_env(Mixed, seeding="none").reset(0) == "at: [1, 2]\nnear: [3, 'wall']\nnote: hot"


def test_a_picture_stays_a_picture_of_its_own() -> None:
    class Seen(Plain):
        picture = np.zeros((4, 5, 3), np.uint8)

        def reset(self) -> Any:
            return self.picture

        def step(self, text: str) -> Any:
            self.picture += 1
            return self.picture, 0, False

    env = as_text_env(Seen, seeding="none")
    first = env.reset(0)
    state, _, _, info = env.step("go")
    assert first.sum() == 0
    assert state.sum() == 60
    assert info["action_is_effective"]


def test_actions_of_another_kind_are_parsed() -> None:
    class Steered(OldGym):
        action_space = spaces.Box(-1, 1, (1,))  # type: ignore[assignment]

        def step(self, action: Any) -> Any:
            return str(action), 0.0, True, {"success": action == 0.5}

    env = as_text_env(Steered, parse=float)
    env.reset(0)
    assert env.action_lookup is None
    assert env.step("fast")[3]["action_is_valid"] is False
    assert env.step("0.5")[3]["success"]


# -- plain classes, RAGEN's and TextArena's -----------------------------------------------------------------


def test_names_that_come_with_the_reset_are_kept_and_mode_is_passed_on() -> None:
    class Ragen:
        class config:  # noqa: N801 - as theirs is
            action_lookup: Any = None

        def reset(self, seed: int, mode: str) -> str:
            self.config.action_lookup = {1: f"arm{seed}", 2: mode}
            return "Pull."

        def step(self, action: int) -> Any:
            return "Done.", action, True, {"success": True}

    env = as_text_env(Ragen)
    env.reset(7, "val")
    assert env.action_lookup == {1: "arm7", 2: "val"}
    assert env.step("VAL")[1] == 2.0


@pytest.mark.parametrize("words", [True, False])
def test_a_game_of_text_arena_is_heard_and_its_rewards_come_last(words: bool) -> None:
    env = as_text_env(Arena(words=words), success="turn_count")
    first = env.reset(5)
    assert first == ("Say 5." if words else "[GAME] Say 5.")
    assert env.step("4")[:3] == ("4\nNo." if words else "[Player] 4\n[GAME] No.", 0.0, False)
    state, reward, done, info = env.step("5")
    assert (reward, done, info["success"], info["turn_count"]) == (0.75, True, True, 2)
    assert state.endswith("Yes.")
    env.close()
    assert env.env.closed == 1


def test_a_game_for_two_is_refused() -> None:
    with pytest.raises(BadInput, match="asks player 1"):
        as_text_env(Arena(player=1)).reset(0)


def test_success_can_be_a_key_a_sum_or_a_function() -> None:
    def ended(success: Any) -> bool:
        env = as_text_env(Plain, seeding="none", success=success)
        env.reset(0)
        env.step("go")
        return bool(env.step("stop")[3]["success"])

    assert ended(2)
    assert not ended(2.5)
    assert ended(lambda info, total: total == 2 and not info)
    with pytest.raises(BadInput, match="has no won: pass success="):
        ended("won")


def test_another_shape_can_be_unpacked() -> None:
    class Shaped(Plain):
        def step(self, text: str) -> Any:
            return {"observation": text, "reward": 1, "done": True}

    with pytest.raises(BadInput, match=r"step gave a dict; .* pass unpack="):
        play(as_text_env(Shaped, seeding="none"))
    env = as_text_env(Shaped, seeding="none", success=1, unpack=lambda said: tuple(said.values()))
    env.reset(0)
    assert repr(env.step("x")[:3]) == "('x', 1, True)"


def test_one_that_can_be_saved_is_saved() -> None:
    env: Any = as_text_env(Bandit)
    env.reset(3)
    saved = env.snapshot()
    first = env.step(1)
    env.restore(saved)
    assert env.step(1) == first
    assert not hasattr(as_text_env(Guess), "snapshot")


# -- what cannot be told -----------------------------------------------------------------------------------


def returning(step: Any = ("", 0, False), reset: Any = "go") -> Any:
    class Returning:
        def reset(self) -> Any:
            return reset

        def step(self, text: str) -> Any:
            return step

    return Returning


class Unsaid(Guess):
    """Has nothing to say beside its observation, and not even an empty info."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], None


def play(env: Any) -> None:
    env.reset(0)
    env.step("x")


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: as_text_env(dict), "{} is no environment: it has no reset and no step"),  # without a signature
        (lambda: as_text_env(3), "3 is no environment: it has no reset and no step"),
        (lambda: as_text_env(lambda config: Plain()), r"functools\.partial"),
        (lambda: as_text_env(Plain), r"reset\(\) .* takes no seed, .* seeding='none'"),
        (lambda: as_text_env(Plain, seeding="method"), "has no method seed"),
        (lambda: as_text_env(Plain, seeding="auto"), "it can be reset, method, none"),  # type: ignore[arg-type]
        (lambda: as_text_env(Plain, seeding="none", actions=["a"]), "no Discrete actions"),
        (lambda: as_text_env(OldGym, actions=["a"]), "has 3 actions, but 1 names"),
        (lambda: as_text_env(OldGym, actions=["a", "A", "b"]), "the same name"),
        (lambda: as_text_env(OldGym, actions={0: "a"}), "has the actions 1 to 3"),
        (lambda: as_text_env(functools.partial(gymnasium.make, "Pendulum-v1")), "PendulumEnv are Box.* pass parse="),
        (lambda: as_text_env(Plain, seeding="none").step("x"), "call reset"),
        (lambda: play(as_text_env(returning(reset=None), seeding="none")), "shows nothing"),
        (lambda: play(as_text_env(returning(reset=b"go"), seeding="none")), "shows a bytes"),
        (lambda: play(as_text_env(returning(reset=np.zeros((50, 50))), seeding="none")), r"shape \(50, 50\).* show="),
        (lambda: play(as_text_env(Unsaid)), r"Unsaid\.reset gave \(str, NoneType\): .* its info must be a mapping"),
        (lambda: play(as_text_env(returning("done"), seeding="none")), "step gave a str"),
        (lambda: play(as_text_env(returning(("", 0)), seeding="none")), r"step gave \(str, int\)"),
        (lambda: play(as_text_env(returning(("", 0, 1)), seeding="none")), "True or False"),
        (lambda: play(as_text_env(returning(("", 0, False, None)), seeding="none")), "info must be a mapping"),
        (lambda: play(as_text_env(returning(("", "much", False)), seeding="none")), "the reward 'much'"),
        (lambda: play(as_text_env(returning(("", float("nan"), False)), seeding="none")), "the reward nan"),
        (
            lambda: play(as_text_env(returning(("", 1, True)), seeding="none")),
            r"its info \(empty\) has no success or is_",
        ),
    ],
)
def test_what_cannot_be_told_is_asked_for(make: Any, hint: str) -> None:
    with pytest.raises(BadInput, match=hint):
        make()


def test_arguments_of_reset_that_are_missing_are_named() -> None:
    class Tasked(Plain):
        def reset(self, task: str, level: int = 1) -> str:  # type: ignore[override]
            return f"{task} {level}"

    with pytest.raises(BadInput, match=r"Tasked\.reset needs task: pass them in reset_options"):
        as_text_env(Tasked, seeding="none")
    assert as_text_env(Tasked, seeding="none", reset_options={"task": "sort"}).reset(0) == "sort 1"
