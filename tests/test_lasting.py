"""What belongs to the process and changes in play is told once; caches, constants and what is installed are not."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from players import Walk

from paceline import evaluate, make_vec
from paceline.doctor.questions import lasting
from paceline.lasting import Lasting
from paceline.testing import check_policy
from paceline.testing.envs import Trial
from paceline.types import Mission

WALK = Mission("walk", Walk, {"length": 5})
RNG, IDS, TABLE = np.random.default_rng(0), itertools.count(), {"a": [1, float("nan")]}


class Counted(Walk):
    """Counts its instances on the class."""

    made = 0

    def __init__(self) -> None:
        super().__init__(5)
        type(self).made += 1


class Here(Counted):
    """The same, counted by itself."""

    made = 0


class Away(Counted):
    """Another one."""

    made = 0


class Careful(Walk):
    """Fills caches, has constants, and keeps a dict to which it only adds."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "nothing": float("nan")}
    loaded: str | None = None
    by_seed: ClassVar[dict[Any, int]] = {}
    table = np.zeros(10)

    def __init__(self) -> None:
        super().__init__(5)
        Careful.loaded = "it is"

    @functools.lru_cache  # noqa: B019
    def doubled(self, number: int) -> int:
        return 2 * number

    def reset(self, **given: Any) -> Any:
        Careful.by_seed[given.get("seed")] = self.doubled(len(TABLE)) + len(self.table)
        return super().reset(**given)


class Grows(Walk):
    """Keeps a log, names it has seen, and the last two of its results."""

    log: ClassVar[list[int]] = [0]
    names: ClassVar[set[Any]] = {"first"}
    latest: ClassVar[dict[Any, int]] = {-2: 0, -1: 1}

    def __init__(self) -> None:
        super().__init__(5)

    def reset(self, **given: Any) -> Any:
        Grows.log.append(len(Grows.names))
        Grows.names.add(len(Grows.names))
        Grows.latest[len(Grows.log)] = 1
        del Grows.latest[next(iter(Grows.latest))]
        return super().reset(**given)


class Draws:
    """Draws from a generator of its module."""

    def reset(self, seed: int) -> None: ...

    def act(self, seen: Any) -> int:
        return drawn()


def drawn() -> int:
    next(IDS)
    return int(RNG.integers(3))


class Learned:
    """Answers by how often its class has been asked, and built."""

    asked, built = 0, 0

    def __init__(self) -> None:
        type(self).built += 1

    def act(self, seen: Any) -> int:
        type(self).asked += 1
        return (type(self).asked + type(self).built) % 4 // 2


def remembers() -> Callable[[Any], int]:
    memory: list[int] = []
    return lambda seen: memory.append(1) or len(memory) % 3


def test_what_changes_in_play_and_is_not_the_objects_own_is_in_the_report() -> None:
    def noted(mission: Mission, policy: Any, plan: int = 0) -> list[str]:
        report = evaluate(mission, policy, episodes=4, plan=plan, agents="off")
        return [note.partition(" is ")[0] for note in report.notes]

    assert noted(Mission("counted", Counted), lambda seen: 0) == [f"{__name__}.Counted.made"]
    assert sorted(noted(WALK, lambda seen: drawn())) == [f"{__name__}.IDS", f"{__name__}.RNG"]
    assert sorted(noted(WALK, Draws, plan=1)) == [f"{__name__}.IDS", f"{__name__}.RNG"]
    assert noted(Mission("careful", Careful), remembers()) == []
    assert noted(Mission("grows", Grows), lambda seen: 0) == []


def test_processes_of_agents_in_which_something_lasts_serve_one_episode() -> None:
    reports = [evaluate(WALK, Learned, episodes=4, plan=plan, agents="process") for plan in (0, 2)]
    assert len({report.digest for report in reports}) == 1
    assert [report.notes for report in reports] == [[], []]


@pytest.mark.parametrize(("kind", "plan"), [(Here, 0), (Away, 2)])
def test_a_vector_tells_it_once(kind: type, plan: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), make_vec(kind, 4, plan=plan) as envs:
        for seed in range(3):
            envs.reset(seed=seed)
    told = [record.getMessage() for record in caplog.records if f"{kind.__name__}.made" in record.getMessage()]
    assert len(told) == 1
    assert "changes in play: all instances in a process share it" in told[0]


def test_looks_become_rare() -> None:
    watch, plays, looks = Lasting(), list[int](), list[int]()
    watch.look = lambda: looks.append(len(plays))  # type: ignore[method-assign]
    for number in range(1, 101):
        plays.append(number)
        watch.begin()
        watch.end()
    assert looks == [1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64]


def test_what_is_installed_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "bought.py").write_text("class Env:\n    made = 0\n")
    monkeypatch.syspath_prepend(place)
    from bought import Env  # type: ignore[import-not-found]

    watch = Lasting()
    watch.meet(Env())
    for Env.made in range(1, 5):
        watch.look()
    assert watch.news() == []


def test_an_instance_that_was_met_has_no_dict_made_and_is_as_quick_as_before() -> None:
    env = Careful()
    env.env = Here()  # type: ignore[attr-defined]
    Lasting().meet(env)
    assert not [each for made in (env, env.env) for each in gc.get_referents(made) if type(each) is dict]  # type: ignore[attr-defined]


def test_wrappers_that_refer_to_each_other_are_met() -> None:
    outer, inner = Careful(), Here()
    outer.env, inner.env = inner, outer  # type: ignore[attr-defined]
    watch = Lasting()
    watch.meet(outer)
    watch.look()
    Here.made += 1
    watch.look()
    Here.made += 1
    watch.look()
    assert len(watch.news()) == 1


def test_classes_of_one_name_are_looked_at_each_by_itself() -> None:
    def made(number: int) -> type:
        class Made:
            level = number

        return Made

    watch, first, second = Lasting(), made(1), made(2)
    watch.meet(first())
    watch.look()
    watch.meet(second())
    watch.look()
    assert watch.news() == []
    for first.level in range(3, 5):  # type: ignore[attr-defined]
        watch.look()
    assert len(watch.news()) == 1
    del first
    gc.collect()
    assert len(watch._classes) == 1


def test_a_value_of_too_many_items_is_left_out_wherever_they_are() -> None:
    class Loaded:
        rows: ClassVar[Any] = [[number] * 100 for number in range(500)]
        small: ClassVar[Any] = [[number] * 100 for number in range(50)]

    watch = Lasting()
    watch.meet(Loaded())
    for number in range(3):
        watch.look()
        Loaded.rows[0][0], Loaded.small[0][0] = number + 1, number + 1
    assert [text.partition(" is ")[0].rpartition(".")[2] for text in watch.news()] == ["small"]


def test_a_value_that_cannot_be_read_hides_no_other() -> None:
    class Guarded:
        dice, made = random.SystemRandom(), 0

    watch = Lasting()
    watch.meet(Guarded())
    for Guarded.made in range(1, 5):
        watch.look()
    assert [text.partition(" is ")[0].rpartition(".")[2] for text in watch.news()] == ["made"]


def test_env_and_policy_are_examined_for_it() -> None:
    (finding,) = lasting(Trial(Counted, 20, 0))
    assert finding.sentence.startswith(f"{__name__}.Counted.made is an attribute of a class and changes in play")
    assert lasting(Trial(Careful, 20, 0)) == []
    found = [each for each in check_policy(Draws, [np.zeros(2)] * 4).findings if each.name == "lasting"]
    assert sorted(each.sentence.partition(" is ")[0] for each in found) == [f"{__name__}.IDS", f"{__name__}.RNG"]
    assert {each.verdict for each in found} == {"warning"}
