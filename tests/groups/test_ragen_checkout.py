"""RAGEN's proxy with its own manager and with ours: the same prompts, trajectories and seeds, under RAGEN's names."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import text_worlds
from omegaconf import OmegaConf

import paceline
from paceline import BadInput, EnvStateManager, Groups
from paceline.groups.driver import prompters
from paceline.sources import files_of

TOLD = "is Paceline's own world here"


def written(envs: dict[str, str] | None = None, *, kinds: tuple[str, ...] = ("sokoban", "parrot")) -> Any:
    """RAGEN's configuration, with a key of ours or without."""
    tags = [f"Tag{number}" for number in range(len(kinds))]
    side = {
        "env_groups": 2 * len(kinds),
        "group_size": 2,
        "env_configs": {"tags": tags, "n_groups": [2] * len(kinds)},
    }
    limits = {"max_actions_per_traj": 6, "env_config": None, "parallel_friendly": False, "max_workers": 32}
    return OmegaConf.create(
        {
            "seed": {"train": 10000, "val": 123},
            "es_manager": {"format_penalty": -0.1, "train": side, "val": side, **(envs or {})},
            "custom_envs": {
                tag: {"env_type": kind, **limits, **({"env_config": {"length": 5}} if kind == "sokoban" else {})}
                for tag, kind in zip(tags, kinds, strict=True)
            },
            "agent_proxy": {"max_turn": 4},
        }
    )


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a checkout in which a user changes one import."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "checkout"))
    monkeypatch.setattr("paceline.catalog.ragen._told", set())
    yield importlib.import_module("ragen.llm_agent.agent_proxy")
    for name in [name for name in sys.modules if name.partition(".")[0] == "ragen"]:
        del sys.modules[name]


def model(prompt: str, env_id: int) -> list[str]:
    """Answers follow from the words of the prompt: another word, and the trajectory is another."""
    drawn = random.Random(f"{env_id} {prompt}")
    return drawn.choices(["Left", "Right", "right", "Fly"], k=drawn.randrange(4))


def plain(value: Any) -> Any:
    """By kind: 0 is not 0.0; RAGEN's manager keeps NumPy's numbers, which read the same."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value) if key not in ("metrics", "correct_answer")}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return repr(value.item() if isinstance(value, np.generic) else value)


def played(proxies: Any, config: Any) -> list[Any]:
    proxy = proxies.LLMAgentProxy(config, model)
    managers = [proxy.train_es_manager, proxy.val_es_manager]
    rollouts = [plain(proxy.rollout(val)) for val in (False, False, True)]
    seeds = [[entry["status"].seed for entry in manager.envs] for manager in managers]
    for manager in managers:
        manager.close()
    return [rollouts, seeds, proxy.prompts]


def test_the_proxy_plays_the_same_with_our_manager(proxies: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = played(proxies, written())
    assert "Reward:\n0\n" in "".join(theirs[2])
    for plan in ("inline", 2):
        monkeypatch.setattr(proxies, "EnvStateManager", partial(EnvStateManager, plan=plan))
        assert played(proxies, written({"envs": "ragen"})) == theirs


def test_seeds_go_on_as_theirs_do(proxies: Any) -> None:
    theirs = importlib.import_module("ragen.llm_agent.es_manager").EnvStateManager
    for mode in ("train", "val"):
        seeds = []
        for kind, config in ((theirs, written()), (EnvStateManager, written({"envs": "ragen"}))):
            manager = kind(config, mode=mode)
            for seed in (None, None, 500, None, 9000, None, None):
                manager.reset(seed=seed)
                seeds.append([entry["status"].seed for entry in manager.envs])
            manager.close()
        assert seeds[:7] == seeds[7:]


def test_their_options_and_symbols_are_known(proxies: Any) -> None:
    config = written({"envs": "ragen"})
    with Groups(config) as groups:
        groups.reset()
        system = prompters(groups)["Tag0"].messages(groups.trajectories[0])[0]["content"]
        assert "_: floor, P: player" in system
        assert "Left, Right" in system
        assert list(files_of(groups.factories["Tag0"])) == [Path(sys.modules["ragen.env"].__file__)]
    config.custom_envs.Tag0.env_config = {"lenght": 3}
    with pytest.raises(BadInput, match=r"custom_envs\.Tag0\.env_config\.lenght is not known; did you mean length"):
        Groups(config)


def test_a_world_of_ours_under_a_name_of_theirs_is_told_once(proxies: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with Groups(written(kinds=("bandit", "bandit"))) as groups:
            groups.reset()
        with Groups(written({"envs": "ragen"}, kinds=("frozen_lake", "parrot"))) as groups:
            assert groups.factories["Tag1"].__name__ == "Parrot"
    told = [record.message for record in caplog.records if TOLD in record.message]
    assert len(told) == 2
    assert "'bandit'" in told[0]
    assert told[0].endswith("es_manager.envs: ragen takes those")
    assert "'frozen_lake'" in told[1]
    assert "its registries in ragen.env have none" in told[1]


def test_nothing_is_told_where_there_is_no_checkout(caplog: pytest.LogCaptureFixture) -> None:
    with Groups(written(kinds=("sudoku",))) as groups:
        groups.reset()
    assert not [record.message for record in caplog.records if TOLD in record.message]
    with pytest.raises(BadInput, match=r"es_manager\.envs: ragen, but there is no module ragen\.env: start in"):
        Groups(written({"envs": "ragen"}))
    with pytest.raises(BadInput, match=r"es_manager\.envs is 'theirs'"):
        Groups(written({"envs": "theirs"}))


def test_another_package_of_that_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: Any) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "ragen"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "ragen").mkdir()
    (tmp_path / "ragen" / "__init__.py").touch()
    (tmp_path / "ragen" / "env.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadInput, match=r"ragen/env\.py is another package of that name"):
        Groups(written({"envs": "ragen"}))


def test_what_is_registered_counts_before_theirs_and_ours(
    proxies: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paceline.catalog.text_envs._registered", {})
    for kind in (text_worlds.Told, text_worlds.Ladder, text_worlds.Ladder):
        paceline.register_env_type("frozen_lake", kind)
    for envs in (None, {"envs": "ragen"}):
        with Groups(written(envs, kinds=("frozen_lake",)), plan=1) as groups:
            assert groups.reset()[0]["history"][0]["state"].startswith("train: rung 0 of 3")
    told = [record.message for record in caplog.records]
    assert len(told) == 1
    assert "env_type 'frozen_lake' is registered again: <class 'text_worlds.Told'> takes the place of" in told[0]
