"""The doctor finds out of each env what is true of it, and says what to do."""

import random
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from players import turns
from subjects import (
    CountsItself,
    SeedsTheGlobals,
    Waits,
    Walk,
)
from text_worlds import Careless, Drawer, Ladder

from paceline import BadInput
from paceline.doctor import Diagnosis, examine
from paceline.testing.looking import look_at

STEPS = 24
SHARED = ["spaces", "reset", "step", "sendable", "generators", "aliasing", "again", "restart", "process"]
ALL = [*SHARED, "slowed", "twin", "order", "paceline", "snapshot", "cost", "waiting", "plan"]


def problems(diagnosis: Diagnosis) -> set[str]:
    return {finding.name for finding in diagnosis.problems}


def test_a_good_env_is_reproducible() -> None:
    diagnosis = examine("gym:CartPole-v1", steps=STEPS)
    assert [finding.name for finding in diagnosis.findings] == ALL
    assert {finding.verdict for finding in diagnosis.findings} == {"ok"}
    assert diagnosis.reproducible
    numbers = diagnosis["cost"].numbers
    assert numbers.keys() == {f"{what}_seconds" for what in ("step", "reset", "build", "message")} | {
        "observation_bytes"
    }
    assert all(number > 0 for number in numbers.values())
    assert diagnosis["snapshot"].numbers["bytes"] > 0


def test_an_env_that_ends_its_process_or_never_comes_back_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r"DiesWhenBuilt cannot be examined: .*, its process ended with SIGKILL"):
        examine("deadly_worlds:DiesWhenBuilt", steps=STEPS)
    (tmp_path / "slow.py").write_text("import time\ndef make():\n    time.sleep(1000)\n")
    monkeypatch.setattr("paceline.doctor.target._PATIENCE", 1.0)
    with pytest.raises(BadInput, match=r"make cannot be examined: .*, it was still running after 1 s"):
        examine(f"{tmp_path}/slow.py:make", steps=STEPS)


def test_a_diagnosis_is_plain_data_and_progress_is_told() -> None:
    told: list[str] = []
    data = examine(Walk, steps=STEPS, seed=7, progress=told.append).to_dict()
    assert (told[0], told[-1]) == ("playing it", "timing it")
    assert (data["target"], data["steps"], data["seed"], data["reproducible"]) == ("Walk", STEPS, 7, True)
    assert [finding["name"] for finding in data["findings"]] == ALL
    assert data["findings"][0].keys() == {"name", "verdict", "sentence", "numbers", "advice"}


def test_generators_that_a_reset_seeds_are_still_everybodys() -> None:
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tobytes()
    diagnosis = examine(SeedsTheGlobals, steps=STEPS)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == before
    assert problems(diagnosis) == {"generators", "twin"}
    assert not diagnosis.reproducible
    assert diagnosis["generators"].numbers == {"reset": ["numpy.random"], "step": ["numpy.random"]}
    assert "only as long as nobody else draws" in diagnosis["generators"].advice
    assert "threads refuse it" in diagnosis["paceline"].sentence


def test_who_was_built_before_must_not_matter() -> None:
    diagnosis = examine(CountsItself, steps=STEPS)
    assert problems(diagnosis) == {"twin", "order", "paceline"}
    assert not diagnosis.reproducible
    assert diagnosis["paceline"].numbers == {"first_difference": 1}


def test_an_env_that_waits_is_planned_for_threads() -> None:
    diagnosis = examine(Waits, steps=STEPS)
    assert diagnosis.reproducible
    assert "waits for" in diagnosis["waiting"].sentence
    assert "threads" in diagnosis["plan"].sentence
    assert diagnosis["snapshot"].verdict == "warning"
    assert "replays" in diagnosis["snapshot"].advice


def test_what_cannot_be_sent_stays_here() -> None:
    lock = threading.Lock()

    def locked() -> Walk:
        with lock:
            return Walk()

    diagnosis = examine(locked, steps=STEPS)
    assert problems(diagnosis) == {"sendable", "process"}
    assert "<closure lock>" in diagnosis["sendable"].sentence
    assert diagnosis["paceline"].verdict == "warning"
    assert diagnosis["plan"].numbers["backend"] == "inline"
    assert not diagnosis.reproducible  # nobody has seen it in another process


def test_an_env_that_cannot_be_played_is_not_reproducible() -> None:
    class Stumbles(Walk):
        def noise(self) -> float:
            raise ValueError("stumbled")

    diagnosis = examine(Stumbles, steps=STEPS)
    assert [finding.name for finding in diagnosis.findings] == ["spaces", "reset", "step", "sendable"]
    assert diagnosis["step"].sentence == "step() raised ValueError: stumbled (at step 1)."
    assert not diagnosis.reproducible


# -- text environments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sokoban,num_boxes=1", "text:frozen_lake", "Countdown", "text_worlds:Planned"])
def test_a_good_text_environment_is_reproducible(target: str) -> None:
    diagnosis = examine(target, steps=STEPS)
    assert [finding.name for finding in diagnosis.findings] == ALL
    assert {finding.verdict for finding in diagnosis.findings} == {"ok"}
    assert diagnosis.reproducible
    assert "a text environment" in diagnosis["spaces"].sentence
    assert diagnosis["cost"].sentence.startswith("A turn of one action takes")


@pytest.mark.parametrize("prefix", ["", "text:"])
def test_a_text_environment_in_a_file_may_need_options(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "tall.py").write_text(
        "from text_worlds import Ladder\n"
        "class Tall(Ladder):\n"
        "    def __init__(self, config):\n"
        "        super().__init__({'goal': config['goal']})\n"
    )
    assert examine(f"{prefix}{tmp_path}/tall.py:Tall,goal=2", steps=STEPS).reproducible
    assert "tall" not in sys.modules
    with pytest.raises(BadInput, match="does not build an env"):
        examine(f"{prefix}{tmp_path}/tall.py:Tall")


def test_every_kind_of_action_is_drawn() -> None:
    class Listens(Ladder):
        heard: set[object] = set()  # noqa: RUF012

        def step(self, action: int) -> tuple[str, float, bool, dict[str, object]]:
            self.heard.add(action)
            return super().step(action)

    class Reads(Listens):
        action_lookup = None  # type: ignore[assignment]
        heard: set[object] = set()  # noqa: RUF012

    for env, heard in ((Listens, lambda heard: heard == {1, 2}), (Reads, lambda heard: all(map(str.isdigit, heard)))):
        examine(env, steps=STEPS)
        assert env.heard
        assert heard(env.heard)


def test_a_text_environment_that_does_not_follow_its_seed_is_told() -> None:
    diagnosis = examine(Careless, steps=STEPS)
    assert problems(diagnosis) >= {"again", "restart", "twin", "order"}
    assert "np.random.default_rng(seed)" in diagnosis["again"].advice
    diagnosis = examine(Drawer, steps=STEPS)
    assert problems(diagnosis) == {"generators", "twin"}
    assert diagnosis["generators"].numbers["step"] == ["numpy.random", "random"]


def test_what_a_text_environment_answers_is_looked_at() -> None:
    class Silent(Ladder):
        def step(self, action: int) -> tuple[str, float, bool, dict[str, object]]:
            state, reward, _, _ = super().step(action)
            return state, reward, True, {}

    class Short(Ladder):
        def step(self, action: int) -> object:  # type: ignore[override]
            return super().step(action)[:3]

    class Blank(Ladder):
        def render(self) -> str:
            return None  # type: ignore[return-value]

    for env, where, words in (
        (Silent, "step", "has no success; without it every episode counts as lost (at step 1)"),
        (Short, "step", "step() gave a tuple of 3; a text environment gives (state, reward, done, info)"),
        (Blank, "reset", "render() gave None; a state is text"),
    ):
        diagnosis = examine(env, steps=STEPS)
        assert words in diagnosis[where].sentence
        assert not diagnosis.reproducible


def test_a_name_that_means_two_things_needs_a_prefix() -> None:
    gymnasium.register("sokoban", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    try:
        with pytest.raises(BadInput, match="'sokoban' is a Gymnasium id and a text environment: write gym:sokoban or"):
            examine("sokoban")
        assert "Gymnasium Env" in examine("gym:sokoban", steps=8)["spaces"].sentence
        assert "text environment" in examine("text:sokoban", steps=8)["spaces"].sentence
    finally:
        gymnasium.registry.pop("sokoban", None)


def test_a_mission_is_examined_by_its_name() -> None:
    diagnosis = examine("treasure_hunt,agents=2", steps=STEPS)
    assert diagnosis.reproducible
    assert "PettingZoo ParallelEnv" in diagnosis["spaces"].sentence


def test_a_mission_with_the_name_of_a_gymnasium_id_needs_a_prefix() -> None:
    gymnasium.register("forage", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    try:
        with pytest.raises(BadInput, match="'forage' is a Gymnasium id and a mission: write gym:forage or"):
            examine("forage")
    finally:
        gymnasium.registry.pop("forage", None)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sokobann", "or do you mean the text environment sokoban?"),
        ("text:sokobann", "did you mean sokoban?"),
        ("sokoban,boxes=1", "boxes"),
        ("text:collections:OrderedDict", "OrderedDict has no reset(); a text environment has reset, step and render"),
    ],
)
def test_a_text_target_that_cannot_be_loaded_says_what_to_do(target: str, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        examine(target)
    assert words in str(raised.value)


# -- targets -------------------------------------------------------------------------------------------

ENVS = """
from gymnasium.envs.classic_control import CartPoleEnv
from helper import NAME

class Nested:
    make = CartPoleEnv

def needs(size): return CartPoleEnv()
def three(): return 3
def breaks(): raise OSError(f"no {NAME}")
instance = CartPoleEnv()
"""

REGISTERS = """
import gymnasium

gymnasium.register("Sampled-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=5)
"""


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a file of envs, and we are in it."""
    (tmp_path / "sampled.py").write_text(ENVS)
    (tmp_path / "helper.py").write_text("NAME = 'display'")
    (tmp_path / "registers.py").write_text(REGISTERS)
    (tmp_path / "broken.py").write_text("import nothing_like_it")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "random.py").write_text("")
    (tmp_path / "relative.py").write_text("from . import other")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_name_in_a_file_is_a_target(sample: Path) -> None:
    path = list(sys.path)
    diagnosis = examine("sampled.py:Nested.make", steps=8)
    assert (diagnosis.subject, diagnosis.reproducible) == ("sampled.py:Nested.make", True)
    assert sys.path == path
    assert not {"sampled", "helper"} & set(sys.modules)


def test_a_name_in_a_module_is_a_target() -> None:
    assert examine("gymnasium.envs.classic_control.cartpole:CartPoleEnv", steps=8).problems == ()


def test_an_id_that_a_module_registers_is_a_target(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(sample)
    try:
        assert examine("registers:Sampled-v0", steps=8).problems == ()
    finally:
        gymnasium.registry.pop("Sampled-v0", None)


def test_a_file_is_read_again(sample: Path) -> None:
    for name in ("display", "sound card"):
        (sample / "helper.py").write_text(f"NAME = {name!r}  # {name}")
        with pytest.raises(BadInput, match=f"OSError: no {name}"):
            examine("sampled.py:breaks")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("CartPole-v7", "knows no env 'CartPole-v7'; close to it: CartPole-v1"),
        ("gym:Cartpole-v1", "close to it: CartPole-v1"),
        ("ALE/Zork-v5", "Namespace ALE not found"),
        ("nobody:Zork-v5", "there is no module 'nobody'"),
        ("nobody", "write a Gymnasium id"),
        ("nowhere.py:make", "there is no file nowhere.py"),
        ("sampled.py", "say which factory in it, as sampled.py:factory; it has Nested, needs, three, breaks"),
        ("sampled.py:three_", "there is no 'three_' in sampled.py; close to it: three"),
        ("sampled.py:zzzzzz", "there is no 'zzzzzz' in sampled.py; it has Nested"),
        ("sampled.py:instance", "is a CartPoleEnv, which cannot be called"),
        ("sampled.py:needs", "missing 1 required positional argument: 'size'; it is called without arguments"),
        (
            "text:sampled.py:three",
            "takes 0 positional arguments but 1 was given; it is called with its options, or None",
        ),
        ("sampled.py:three", "type int, which has no reset() and no step()"),
        ("sampled.py:breaks", "sampled.py, line 10); make it work in plain Python first"),
        ("broken.py:make", "No module named 'nothing_like_it'"),
        ("relative.py:make", "a file of a package is named as package.module:factory"),
        ("odd/random.py:make", "has the name of the module 'random'"),
        ("no.such.module:make", "there is no module 'no'"),
    ],
)
def test_a_target_that_cannot_be_loaded_says_what_to_do(sample: Path, target: str, words: str) -> None:
    with pytest.raises(BadInput) as raised:
        examine(target)
    assert words in str(raised.value)


def test_a_check_of_agents_that_act_in_turn_says_how_they_act_together() -> None:
    with pytest.raises(BadInput, match=r"is a PettingZoo AEC env.* paceline.kinds.parallel_of\(env\)"):
        look_at(turns, 0, 4)


def test_an_env_in_a_file_may_have_options(tmp_path: Path) -> None:
    (tmp_path / "worlds.py").write_text(
        "import gymnasium\n"
        "class Walk(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Discrete(9)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def __init__(self, size):\n"
        "        self.size = size\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        "        self.at = 0\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        "        self.at += 1\n"
        "        return self.at, 1.0, self.at == self.size, False, {}\n"
    )
    diagnosis = examine(f"{tmp_path}/worlds.py:Walk,size=4", steps=12)
    assert diagnosis.reproducible
    assert "text environment" not in str(diagnosis)  # it was called one


def test_an_id_of_gymnasium_may_have_options() -> None:
    found = examine("FrozenLake-v1,map_name=8x8", steps=4)
    assert found.reproducible
    assert found.subject == "FrozenLake-v1,map_name=8x8"


@pytest.mark.parametrize("clock", ["time.time()", "perf_counter()", "time.monotonic_ns() / 1e9"])
def test_an_env_that_ends_by_the_clock_is_not_reproducible(tmp_path: Path, clock: str) -> None:
    (tmp_path / "clocks.py").write_text(
        "import gymnasium, time\n"
        "from time import perf_counter\n"
        "class Minute(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Discrete(9)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        super().reset(seed=seed)\n"
        f"        self.begun = {clock}\n"
        "        return 0, {}\n"
        "    def step(self, action):\n"
        f"        return 1, 1.0, False, {clock} - self.begun > 60, {{}}\n"
    )
    diagnosis = examine(f"{tmp_path}/clocks.py:Minute", steps=12)
    assert problems(diagnosis) == {"slowed"}
    assert not diagnosis.reproducible
    assert "the truncated of step 2 differs" in diagnosis["slowed"].sentence
    assert "count steps" in diagnosis["slowed"].advice


def test_threads_are_not_for_envs_that_draw_with_pygame(tmp_path: Path) -> None:
    def drawn() -> Any:
        return gymnasium.wrappers.AddRenderObservation(gymnasium.make("CartPole-v1", render_mode="rgb_array"))

    assert "threads cannot run it, as it draws with pygame" in examine(drawn, steps=2)["paceline"].sentence
    assert "pygame" not in examine("CartPole-v1", steps=2)["paceline"].sentence
