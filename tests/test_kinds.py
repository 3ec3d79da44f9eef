"""Every kind of environment at every entry point: it is played, or refused in a sentence that says what plays it.

The table of docs/kinds.md says which, and is tested cell by cell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from players import Meeting, turns

import paceline
from paceline import BadInput, evaluate, make_vec
from paceline.adapters.agent_rows import agent_rows
from paceline.adapters.pomdp_baselines import ParallelEnvManager
from paceline.catalog import find_missions
from paceline.catalog.text_envs import find_text_env
from paceline.cli.app import run as run_here
from paceline.doctor import examine
from paceline.doctor.target import loaded
from paceline.kinds import Kind, Single, kind_of
from paceline.testing.looking import look_at

PAGE = Path(__file__).parents[1] / "docs" / "kinds.md"


def all_at_once() -> Any:
    from pettingzoo.classic import rps_v2

    return rps_v2.env(max_cycles=4)


def one_room() -> Any:
    return find_missions(["mettagrid:empty_room"], steps=4)[0].build()


def one_bandit(config: Any = None) -> Any:
    return find_text_env("bandit")(config)


MAKERS: dict[str, Callable[..., Any]] = {
    "Gymnasium": lambda: gymnasium.make("CartPole-v1"),
    "PettingZoo parallel": lambda: Meeting(agents=2, length=4),
    "PettingZoo AEC": all_at_once,
    "PettingZoo AEC in turns": turns,
    "text": one_bandit,
    "mettagrid": one_room,
    "vector": lambda: gymnasium.make_vec("CartPole-v1", 2),
}
KINDS = {
    "Gymnasium": Kind.GYMNASIUM,
    "PettingZoo parallel": Kind.PARALLEL,
    "PettingZoo AEC": Kind.AEC,
    "PettingZoo AEC in turns": Kind.AEC,
    "text": Kind.TEXT,
    "mettagrid": Kind.PARALLEL,
    "vector": Kind.VECTOR,
}


def evaluates(make: Callable[..., Any]) -> None:
    (episode,) = evaluate(make, "random", episodes=1, plan=0).episodes
    assert episode.failure is None
    assert episode.steps > 0


def makes_vec(make: Callable[..., Any]) -> None:
    with make_vec(make, 2, plan="inline") as envs:
        plays(envs)


def has_agent_rows(make: Callable[..., Any]) -> None:
    with agent_rows(make, 2, plan="inline") as envs:
        plays(envs)


def plays(envs: Any) -> None:
    envs.reset(seed=1)
    envs.action_space.seed(1)
    for _ in range(12):  # into a second episode
        assert len(envs.step(envs.action_space.sample())[1]) == envs.num_envs


def is_examined(make: Callable[..., Any]) -> None:
    """What the doctor does first, and by which it knows the kind; the rest is asked of all kinds alike."""
    with loaded(make) as found:
        look = look_at(found.factory, 0, 6)
    assert look.complaints == {}


def is_described(make: Callable[..., Any]) -> None:
    from paceline.cli.listing import _described

    said = _described(paceline.Mission("described", make))
    assert "  seats         " in said


ENTRY_POINTS = {
    "evaluate": evaluates,
    "make_vec": makes_vec,
    "agent_rows": has_agent_rows,
    "doctor": is_examined,
    "describe": is_described,
}


def table() -> dict[tuple[str, str], str]:
    """(kind, entry point) → what the page says."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = rows[2 : rows.index(["kind", "is told by"])]
    return {(row[0], entry): cell for row in rows for entry, cell in zip(ENTRY_POINTS, row[1:], strict=True)}


TABLE = table()


def test_the_table_has_every_kind_and_entry_point() -> None:
    assert TABLE.keys() == {(kind, entry) for kind in MAKERS for entry in ENTRY_POINTS}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_kind_is_told_by_what_an_env_has(kind: str) -> None:
    env = MAKERS[kind]()
    assert kind_of(env) is KINDS[kind]
    env.close() if hasattr(env, "close") else None


@pytest.mark.parametrize(("kind", "entry"), TABLE, ids=lambda word: word)
def test_a_cell_of_the_table_is_true(kind: str, entry: str) -> None:
    says = TABLE[kind, entry]
    if says == "yes":
        ENTRY_POINTS[entry](MAKERS[kind])
        return
    with pytest.raises(BadInput) as caught:
        ENTRY_POINTS[entry](MAKERS[kind])
    assert says.removeprefix("no: ").strip("`") in str(caught.value)
    assert KINDS[kind].value in str(caught.value)


FILE = """
import gymnasium
from paceline.catalog.text_envs import find_text_env

def text(config=None):
    return find_text_env("bandit")(config)

def vector():
    return gymnasium.make_vec("CartPole-v1", 2)
"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["eval", "-p", "random", "-e", "1", "--no-save", "-m", "kinds_here.py:text"], "`paceline rollout`"),
        (["eval", "-p", "random", "-e", "1", "--no-save", "-m", "sokoban"], "'sokoban' is a text environment"),
        (["eval", "-p", "random", "-e", "1", "--no-save", "-m", "kinds_here.py:vector"], "a vector of envs"),
        (["describe", "kinds_here.py:text"], "a text environment (Bandit)"),
        (["describe", "SimpleSokoban"], "`paceline doctor SimpleSokoban` examines it"),
        (["doctor", "kinds_here.py:vector"], "give what makes one of its envs"),
    ],
    ids=lambda word: " ".join(word) if isinstance(word, list) else "",
)
def test_a_wrong_kind_ends_the_command_with_a_sentence_and_the_code_2(
    words: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "kinds_here.py").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["paceline", *words])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "kinds_here", raising=False)
    assert run_here() == 2
    told = " ".join(capsys.readouterr().err.split())
    assert says in told
    assert "Traceback" not in told


def test_names_of_missions_are_no_ids_of_gymnasium() -> None:
    with pytest.raises(BadInput, match=r"names a mission, .*agent_rows.*find_missions\(\['mettagrid:empty_room'\]\)"):
        make_vec("mettagrid:empty_room", 2)
    with pytest.raises(BadInput, match=r"takes a function that makes an env, and 'pz:mpe2.simple_spread_v3' is a name"):
        agent_rows("pz:mpe2.simple_spread_v3", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pz:classic.rps_v2", "mettagrid:empty_room"])
def test_the_doctor_knows_missions_by_their_names(name: str) -> None:
    with loaded(name) as found:
        assert look_at(found.factory, 0, 4).complaints == {}
        assert kind_of(found.recipe()) is Kind.PARALLEL


def test_the_doctor_examines_envs_in_turns() -> None:
    diagnosis = examine(turns, steps=6)  # one episode: the next begins with a seed by chance
    assert diagnosis.reproducible


@pytest.mark.parametrize("plan", [0, "thread", 2], ids=str)
def test_envs_in_turns_have_rows_and_say_whose_turn_it_is(plan: Any) -> None:
    with agent_rows(turns, 2, plan=plan) as envs:
        first, _ = envs.reset(seed=3)
        assert first.shape == (6, 2)
        active, seen = [], []
        for _ in range(7):
            observations, _, _, _, infos = envs.step(np.ones(6, np.int64))
            seen.append(observations.tobytes())
            active.append(infos["active_agent"][0])
    assert active[:4] == ["east", "south", "north", "east"]
    with agent_rows(turns, 2, plan="inline") as envs:
        envs.reset(seed=3)
        assert [envs.step(np.ones(6, np.int64))[0].tobytes() for _ in range(7)] == seen


def test_a_world_of_mettagrid_goes_on_with_seeds_of_its_own() -> None:
    def begun(world: Any) -> list[bytes]:
        firsts = [world.reset(seed=4), world.reset(), world.reset()]
        return [b"".join(seen.tobytes() for seen in observations.values()) for observations, _ in firsts]

    one, two = one_room(), one_room()
    assert begun(one) == begun(two)
    one.close()
    two.close()


class Resettable(gymnasium.Env[Any, Any]):
    """Says what its reset was given."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def reset(self, **given: Any) -> Any:
        self.given.append(given)
        return 0, {}


def test_options_reach_a_reset_only_if_there_are_any() -> None:
    env = Resettable()
    single = Single(env, "mission")
    single.reset(1)
    single.reset(2, {"task": 3})
    assert env.given == [{"seed": 1}, {"seed": 2, "options": {"task": 3}}]


def test_a_gymnasium_env_without_spaces_is_told_what_it_lacks() -> None:
    class Bare(gymnasium.Env[Any, Any]):
        pass

    with pytest.raises(BadInput, match=r"made an env \(Bare\) without observation_space and action_space"):
        make_vec(Bare, 1, plan="inline")
    with pytest.raises(BadInput, match=r"made an env \(Bare\) without observation_space and action_space"):
        evaluate(Bare, "random", plan=0)


class OldGym:
    """As envs of gym were: an observation alone, four values, and a seed by a method."""

    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def seed(self, seed: int | None = None) -> None:
        pass

    def reset(self) -> Any:
        return np.zeros(1, np.float32)

    def step(self, action: int) -> Any:
        return np.zeros(1, np.float32), 1.0, True, {}


class ByProtocol(OldGym):
    """Gymnasium's API, and nothing of its class."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # type: ignore[override]
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        return np.zeros(1, np.float32), 1.0, True, False, {}


@pytest.mark.parametrize(
    "job",
    [
        evaluates,
        makes_vec,
        lambda make: paceline.collect(make, "random", rollouts=1, plan=0),
        lambda make: ParallelEnvManager([make]),
    ],
    ids=["evaluate", "make_vec", "collect", "ParallelEnvManager"],
)
def test_an_env_of_old_gym_is_told_gymnasiums_api(job: Any) -> None:
    with pytest.raises(BadInput, match=r"made an env \(OldGym\) whose reset\(\) takes no seed.* of old: Gymnasium's"):
        job(OldGym)


def test_an_env_by_protocol_is_played_where_nothing_else_is_needed() -> None:
    evaluates(ByProtocol)
    for job in (makes_vec, lambda make: ParallelEnvManager([make])):
        with pytest.raises(BadInput, match=r"\(ByProtocol\) without unwrapped, .*: derive it from gymnasium.Env"):
            job(ByProtocol)
