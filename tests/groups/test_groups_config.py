"""Configurations in RAGEN's shape: where they come from, what they mean, and what is refused."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import text_worlds
import yaml
from omegaconf import OmegaConf
from text_worlds import config

from paceline import BadInput
from paceline.catalog.text_envs import TAGS, find_text_env, register_env_type
from paceline.groups import read_config

WHOLE: dict[str, Any] = {
    "seed": {"train": 7, "val": 123},
    "es_manager": {
        "format_penalty": -0.2,
        "use_multiprocessing": True,
        "max_workers": 3,
        "sequential_env_types": ["bandit"],
        "step_timeout": 5.0,
        "check_groups": False,
        "train": {"env_groups": 3, "group_size": 2, "env_configs": {"tags": ["S", "Bandit"], "n_groups": [2, 1]}},
        "val": {"env_groups": 4, "group_size": 1, "env_configs": {"tags": ["S", "Bandit"]}},
    },
    "custom_envs": {
        "S": {
            "env_type": "sokoban",
            "max_actions_per_traj": 4,
            "env_instruction": "Push.",
            "max_tokens": 50,
            "parallel_friendly": True,
            "max_workers": 32,
            "env_config": {"num_boxes": 1},
            "dynamics": "member",
        },
        "Unused": {"env_type": "alfworld", "something": "else"},
    },
    "agent_proxy": {
        "max_turn": 3,
        "max_actions_per_turn": 4,
        "action_sep": ";",
        "enable_think": False,
        "context_window_mode": "limited_multi_turn",
        "max_context_window": 2,
        "use_turn_scores": False,
        "batch_adjust_mode": "copy",
        "reward_normalization": {"grouping": "batch", "method": "mean_std"},
    },
    "trainer": {"n_gpus": "${nobody.resolves.this}"},
}


def test_every_key_is_read() -> None:
    read = read_config(WHOLE, "train")
    assert (read.env_groups, read.group_size, read.base_seed, read.format_penalty) == (3, 2, 7, -0.2)
    assert read.tag_of_each() == ["S"] * 4 + ["Bandit"] * 2
    assert read.tags["S"].max_actions_per_traj == 4
    assert read.tags["S"].env_config == {"num_boxes": 1}
    assert read.tags["Bandit"].env_type == "bandit"
    assert read.manager.sequential_env_types == ("bandit",)
    assert (read.talk.max_turn, read.talk.action_sep, read.talk.max_context_window) == (3, ";", 2)
    assert read.talk.reward_normalization.method == "mean_std"


def test_groups_are_shared_evenly_if_nobody_says_how() -> None:
    assert read_config(WHOLE, "val").shares == (("S", 2), ("Bandit", 2))


def test_a_configuration_comes_from_a_dict_omegaconf_a_namespace_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(WHOLE))
    expected = read_config(WHOLE, "train")
    for source in (OmegaConf.create(WHOLE), SimpleNamespace(**WHOLE), file, str(file)):
        assert read_config(source, "train") == expected


def test_what_omegaconf_cannot_resolve_is_told() -> None:
    broken = {**WHOLE, "es_manager": {**WHOLE["es_manager"], "max_workers": "${nothing.there}"}}
    with pytest.raises(BadInput, match=r"(?s)cannot be resolved: .*nothing.*es_manager\.max_workers"):
        read_config(OmegaConf.create(broken), "train")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("es_manager", "format_penalti"), 1, "did you mean format_penalty"),
        (("es_manager", "format_penalty"), "much", "es_manager.format_penalty is 'much'"),
        (("es_manager", "use_multiprocessing"), "perhaps", "es_manager.use_multiprocessing"),
        (("es_manager", "max_workers"), -1, "es_manager.max_workers is -1"),
        (("es_manager", "sequential_env_types"), 3, "es_manager.sequential_env_types is 3"),
        (("es_manager", "step_timeout"), 0, "es_manager.step_timeout is 0"),
        (("es_manager", "train"), None, "es_manager.train is missing"),
        (("es_manager", "train", "env_groups"), 4, "makes 3 groups; env_groups is 4"),
        (("es_manager", "train", "env_groups"), -1, "es_manager.train.env_groups is -1"),
        (("es_manager", "train", "group_size"), 0, "es_manager.train.group_size is 0"),
        (("es_manager", "train", "env_configs", "n_groups"), [3], "2 tags but 1 n_groups"),
        (("es_manager", "train", "env_configs", "n_groups"), [4, -1], "not fewer"),
        (("es_manager", "train", "env_configs", "tags"), ["S", "Nobody"], "tag 'Nobody' is not in custom_envs"),
        (("es_manager", "train", "env_configs", "tag"), 1, "did you mean tags"),
        (("custom_envs", "S", "max_actions_per_traj"), 0, "custom_envs.S.max_actions_per_traj is 0"),
        (("custom_envs", "S", "env_typ"), "x", "did you mean env_type"),
        (("custom_envs", "S", "env_config"), [1], "custom_envs.S.env_config"),
        (("custom_envs", "S", "dynamics"), "wild", "custom_envs.S.dynamics is 'wild'"),
        (("agent_proxy", "max_turns"), 3, "did you mean max_turn"),
        (("agent_proxy", "max_turn"), 0, "agent_proxy.max_turn is 0"),
        (("agent_proxy", "action_sep"), "", "agent_proxy.action_sep"),
        (("agent_proxy", "context_window_mode"), "open", "agent_proxy.context_window_mode is 'open'"),
        (("agent_proxy", "reward_normalization", "method"), "x", "agent_proxy.reward_normalization.method is 'x'"),
        (("seed", "train"), "x", "seed.train is 'x'"),
        (("seed", "trian"), 5, "did you mean train"),
        (("es_manager", "format_penalty"), float("nan"), "es_manager.format_penalty"),
        (("es_manager", "format_penalty"), True, "es_manager.format_penalty is True"),
        (("es_manager", "max_workers"), True, "es_manager.max_workers is True"),
        (("es_manager", "val"), {"env_grops": 1}, "es_manager.val.env_grops is not known"),
        (("es_manager", "train", "env_configs", "tags"), "S", "should be a list"),
        (("custom_envs",), [1], "custom_envs is a list"),
        (("seed", "train"), -1, "seed.train is -1"),
        (("es_manager",), None, "no es_manager"),
    ],
    ids=lambda part: ".".join(part) if isinstance(part, tuple) else None,
)
def test_bad_values_are_named(path: tuple[str, ...], value: Any, words: str) -> None:
    broken = copy.deepcopy(WHOLE)
    place = broken
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(BadInput) as told:
        read_config(broken, "train")
    assert words in str(told.value)


def test_a_mode_is_train_or_val() -> None:
    with pytest.raises(BadInput, match="mode='test'"):
        read_config(WHOLE, "test")


def test_hydra_defaults_are_not_composed_here() -> None:
    with pytest.raises(BadInput, match="compose it with Hydra"):
        read_config({"defaults": ["base"]}, "train")


@pytest.mark.parametrize(
    ("content", "words"), [("[1, 2]", "holds a list"), ("a: [", "is not YAML"), (None, "cannot be read")]
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, content: str | None, words: str) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(BadInput, match=words):
        read_config(file, "train")


def test_a_positive_penalty_is_a_penalty_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    written = config({"Ladder": 1}, format_penalty=0.125)
    with caplog.at_level(logging.WARNING, "paceline"):
        assert read_config(written, "train").format_penalty == -0.125
        assert read_config(written, "train").format_penalty == -0.125
    assert sum("format_penalty" in record.message for record in caplog.records) == 1


def test_every_built_in_tag_can_be_built() -> None:
    for name, tag in TAGS.items():
        env = find_text_env(tag["env_type"])(tag.get("env_config"))
        first = env.reset(seed=3, mode="train")
        assert first == env.render(), name


def test_an_unknown_kind_is_told_with_what_to_do() -> None:
    with pytest.raises(BadInput, match="did you mean sokoban"):
        find_text_env("sokobann")


@pytest.mark.parametrize(
    ("name", "factory", "told"),
    [("mine", 3, "is a int"), ("", dict, "give it a name"), (3, dict, "called 3")],
)
def test_names_that_cannot_be_given_are_told(name: Any, factory: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        register_env_type(name, factory)


def test_a_name_that_is_registered_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    for kind in (text_worlds.Ladder, text_worlds.Ladder, text_worlds.Saved, text_worlds.Told):
        register_env_type("again", kind)
    assert find_text_env("again") is text_worlds.Told
    told = [record.message for record in caplog.records]
    assert len(told) == 1
    assert "env_type 'again' is registered again: <class 'text_worlds.Saved'> takes the place of" in told[0]


def test_a_key_that_must_be_there_is_told_as_missing() -> None:
    written = config({"Ladder": 1})
    del written["es_manager"]["train"]["env_groups"], written["custom_envs"]["Ladder"]["env_type"]
    with pytest.raises(BadInput, match=r"^es_manager\.train\.env_groups is missing$"):
        read_config(written, "train")
    written["es_manager"]["train"]["env_groups"] = 1
    with pytest.raises(BadInput, match=r"^custom_envs\.Ladder\.env_type is missing$"):
        read_config(written, "train")


def test_a_seed_that_is_a_number_counts_for_both_modes() -> None:
    written = {**config({"Ladder": 1}), "seed": 5}
    assert [read_config(written, mode).base_seed for mode in ("train", "val")] == [5, 5]
    del written["seed"]
    assert read_config(written, "train").base_seed is None


def test_a_file_that_refers_to_itself_is_told(tmp_path: Path) -> None:
    file = tmp_path / "loop.yaml"
    file.write_text("es_manager: &m\n  train: *m\n")
    with pytest.raises(BadInput, match=r"loop\.yaml refers to itself: an alias"):
        read_config(file, "train")
