"""The contract of RAGEN's EnvStateManager, edge cases included, in the caller's process and in workers."""

from __future__ import annotations

import json
import logging
import threading
from typing import Any

import numpy as np
import pytest
import text_worlds
from text_worlds import config, said

from paceline import BadInput, NotSendable
from paceline.adapters.ragen import EnvStateManager
from paceline.catalog.text_envs import lookup_of, register_env_type
from paceline.groups.driver import prompters
from paceline.groups.export import record
from paceline.settings import Settings

PLACES = pytest.mark.parametrize("plan", ["inline", 2], ids=["here", "2 workers"])


@PLACES
def test_a_turn_is_recorded_as_upstream_records_it(plan: Any) -> None:
    with EnvStateManager(config({"Ladder": 2}), plan=plan) as manager:
        caches = manager.reset(seed=10)
        assert [cache["env_id"] for cache in caches] == [0, 1, 2, 3]
        assert [cache["group_id"] for cache in caches] == [0, 0, 1, 1]
        first = caches[1]["history"][0]
        assert first["state"].startswith("train: rung 0 of 3")
        assert first["actions_left"] == 5
        outputs = manager.step([said(1, "up", "UP"), said(2, "down")])
        assert [cache["env_id"] for cache in outputs] == [1, 2]
        done, now = outputs[0]["history"]
        assert (done["actions"], done["llm_response"], done["llm_raw_response"]) == ([1, 1], "r", "raw")
        assert done["reward"] == pytest.approx(-0.2)
        assert done["info"]["raw_reward"] == 1.0
        assert "rung 2 of 3" in now["state"]
        assert now["actions_left"] == 3
        assert manager.rollout_cache[0]["history"] == [caches[0]["history"][0]]
        assert manager.rollout_cache[1]["penalty"] == 0


@PLACES
def test_success_ends_a_trajectory_and_so_does_the_budget(plan: Any) -> None:
    with EnvStateManager(config({"Ladder": 1}, most=4), plan=plan) as manager:
        manager.reset(seed=1)
        outputs = manager.step([said(0, "Up", "Up", "Up", "Up"), said(1, "Down", "Down", "Down", "Down", "Up")])
        assert outputs == []
        won, spent = (entry["status"] for entry in manager.envs)
        assert (won.terminated, won.truncated, won.num_actions, won.success) == (True, False, 3, True)
        assert (spent.terminated, spent.truncated, spent.num_actions) == (True, True, 4)
        assert manager.rollout_cache[1]["history"][-1]["actions_left"] == 0
        assert manager.rollout_cache[1]["penalty"] == 0  # over the budget is not invalid


class Menu(text_worlds.Ladder):
    """Takes words, until somebody opens a menu."""

    action_lookup = None  # type: ignore[assignment]

    def step(self, action: Any) -> tuple[str, float, bool, dict[str, Any]]:
        self.action_lookup = {1: "Soup", 2: "Bread"}
        return super().step(1 if isinstance(action, str) else action)


@PLACES
def test_a_menu_may_appear_in_the_middle_of_an_episode(plan: Any) -> None:
    settings = config({"Ladder": 1})
    settings["custom_envs"]["Ladder"]["env_type"] = f"{__name__}:Menu"
    with EnvStateManager(settings, plan=plan) as manager:
        manager.reset(seed=1)
        manager.step([said(0, "open it")])
        manager.step([said(0, "soup", "nonsense")])
        first, second, _ = manager.rollout_cache[0]["history"]
        assert (first["actions"], second["actions"]) == (["open it"], [1])
        assert manager.rollout_cache[0]["penalty"] == -0.1


class ByField(Settings):
    action_lookup: dict[int, str] = {1: "Up"}  # noqa: RUF012


class ByProperty(Settings):
    @property
    def action_lookup(self) -> dict[int, str]:
        return {1: "Up"}


class Wordy(Settings):
    pass


@pytest.mark.parametrize(("kind", "found"), [(ByField, {1: "Up"}), (ByProperty, {1: "Up"}), (Wordy, None)])
def test_settings_may_name_the_actions_however_they_like(kind: type[Settings], found: Any) -> None:
    env = text_worlds.Told()
    env.config = kind()  # type: ignore[assignment]
    assert lookup_of(env) == found


@PLACES
def test_invalid_actions_cost_a_penalty(plan: Any) -> None:
    with EnvStateManager(config({"Ladder": 2}), plan=plan) as manager:
        manager.reset(seed=1)
        outputs = manager.step([said(0, "Fly"), said(1, "Up", "Fly"), said(2), said(3, "Up")])
        assert [cache["penalty"] for cache in outputs] == [-0.1, -0.1, -0.1, 0]
        nothing, some = outputs[0]["history"], outputs[1]["history"]
        assert nothing[0]["info"]["manager_invalid_action"] is True
        assert nothing[1]["manager_invalid_action"] is True
        assert nothing[0]["actions"] == []
        assert nothing[0]["state"] == nothing[1]["state"]
        assert "manager_invalid_action" not in some[1]
        assert some[0]["actions"] == [1]


@PLACES
def test_an_environment_that_is_named_again_takes_its_turns_in_order(plan: Any) -> None:
    with EnvStateManager(config({"Ladder": 1}, most=4), plan=plan) as manager:
        manager.reset(seed=1)
        outputs = manager.step([said(0, "Down"), said(1, "Up"), said(0, "Up"), said(0, "Up", "Up", "Up")])
        assert [cache["env_id"] for cache in outputs] == [0, 1, 0]
        history = manager.rollout_cache[0]["history"]
        assert [turn.get("actions") for turn in history] == [[2], [1], [1, 1], None]
        assert manager.envs[0]["status"].truncated


@PLACES
def test_inputs_after_the_end_do_nothing_and_are_counted(plan: Any, caplog: pytest.LogCaptureFixture) -> None:
    with EnvStateManager(config({"Ladder": 1}), plan=plan) as manager:
        manager.reset(seed=1)
        manager.step([said(0, "Up", "Up", "Up")])
        before = manager.digest()
        with caplog.at_level(logging.WARNING, "paceline"):
            assert manager.step([said(0, "Down"), said(0, "Down")]) == []
        assert manager.digest() == before
        assert manager.envs[0]["status"].success
        assert manager.envs[0]["status"].late == 2
        assert sum("was done already" in record.message for record in caplog.records) == 1


def test_seeds_go_on_in_train_and_begin_again_in_val() -> None:
    def seeds(manager: EnvStateManager, seed: int | None = None) -> list[int | None]:
        manager.reset(seed)
        return [entry["status"].seed for entry in manager.envs]

    with EnvStateManager(config({"Ladder": 2}, base=7)) as manager:
        assert seeds(manager) == [7, 7, 8, 8]
        assert seeds(manager) == [9, 9, 10, 10]
        assert seeds(manager, 20) == [20, 20, 21, 21]
        assert seeds(manager) == [22, 22, 23, 23]  # behind the last one used; upstream would play 21 again
        assert seeds(manager, 3) == [3, 3, 4, 4]
        assert seeds(manager) == [5, 5, 6, 6]
    with EnvStateManager(config({"Ladder": 1}, base=7), mode="val") as manager:
        assert seeds(manager) == seeds(manager) == [7, 7]
        assert manager.rollout_cache[0]["history"][0]["state"].startswith("val:")
    with EnvStateManager(config({"Ladder": 1}), mode="val") as manager:
        assert seeds(manager) == [123, 123]
    with EnvStateManager(config({"Ladder": 1})) as manager:
        assert 0 <= seeds(manager)[0] <= 1_000_000


def test_upstreams_own_test_of_seeds() -> None:
    with EnvStateManager(config({"Ladder": 1}, group_size=1, base=7)) as manager:
        firsts = []
        for _ in range(2):
            manager.reset()
            firsts.append(manager.envs[0]["status"].seed)
        assert firsts == [7, 8]


@PLACES
def test_a_reset_forgets_everything_but_the_digest(plan: Any) -> None:
    with EnvStateManager(config({"Ladder": 1}), plan=plan) as manager:
        manager.reset(seed=1)
        one = manager.digest()
        manager.step([said(0, "Up"), said(1, "Fly")])
        manager.reset(seed=1)
        assert all(len(cache["history"]) == 1 and cache["penalty"] == 0 for cache in manager.rollout_cache)
        assert manager.digest() != one  # what was before belongs to it
        pids = [worker.pid for worker in manager.pool.workers]
        manager.reset(seed=2)
        assert [worker.pid for worker in manager.pool.workers] == pids


@PLACES
def test_metrics_have_upstreams_names(plan: Any) -> None:
    with EnvStateManager(config({"Ladder": 2}), plan=plan) as manager:
        manager.reset(seed=1)
        manager.step([said(0, "Up", "Up"), said(1, "Down")])
        manager.step([said(0, "Up"), said(1, "Fly")])
        first, second, third, _ = manager.get_rollout_states()
        assert first["metrics"]["Ladder/success"] == 1.0
        assert first["metrics"]["Ladder/num_actions"] == 3
        assert first["metrics"]["Ladder/action_is_valid"] == 1.0
        assert first["metrics"]["Ladder/episodic_return"] == 1.5
        assert first["metrics"]["Ladder/final_score"] == 3.0
        assert first["metrics"]["Ladder/score"] == 2.5
        assert first["metrics"]["Ladder/pass@2"] == second["metrics"]["Ladder/pass@2"] == 1.0
        assert third["metrics"]["Ladder/pass@2"] == third["metrics"]["Ladder/success"] == 0.0
        assert second["metrics"]["Ladder/manager_invalid_action"] == 0.5
        assert first["history"][-1]["metrics"]["score"] == [2.0, 3.0]
        assert first["correct_answer"] == "up 3 times"
        assert first["history"][-1]["metrics"]["note"] == []  # text in an info: upstream counts it as nothing
        assert first["metrics"]["Ladder/note"] == 0.0


@PLACES
def test_the_largest_tile_is_that_at_the_end(plan: Any) -> None:
    with EnvStateManager(config({"Game2048": 1, "Tiles": 1}), plan=plan) as manager:
        manager.reset(seed=1)
        for _ in range(3):
            manager.step([said(number, "Up", "Left", "Down", "Right") for number in (0, 1)])
            manager.step([said(number, "Up", "Up") for number in (2, 3)])
        first, _, other, failed = manager.get_rollout_states()
        tiles = [turn["info"]["max_tile"] for turn in first["history"][:-1]]
        assert first["metrics"]["Game2048/max_tile"] == tiles[-1] > sum(tiles) / len(tiles)
        assert other["metrics"]["Tiles/max_tile"] == 64  # seen in its grid, where RAGEN's manager looks
        assert failed["metrics"]["Tiles/max_tile"] == 64


@pytest.mark.parametrize("kind", ["Optioned", "Annotated", "Beside"])
@PLACES
def test_a_class_is_given_its_dataclass_of_options(plan: Any, kind: str) -> None:
    with EnvStateManager(config({kind: 1}, options={"goal": 2}), plan=plan) as manager:
        assert "of 2" in manager.reset(seed=1)[0]["history"][0]["state"]
        assert manager.step([said(0, "Rise"), said(1, "Climb")])[0]["history"][0]["actions"] == [1]
    with EnvStateManager(config({kind: 1}), plan=plan) as manager:
        assert "of 5" in manager.reset(seed=1)[0]["history"][0]["state"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gaol": 2}, r"custom_envs\.Annotated\.env_config\.gaol is not known; did you mean goal\?"),
        ({"goal": -1}, r"custom_envs\.Annotated\.env_config: .* a goal is above the ground"),
    ],
)
def test_options_that_a_dataclass_refuses_are_told_before_anything_begins(options: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        EnvStateManager(config({"Annotated": 1}, options=options))


@PLACES
@pytest.mark.parametrize(("options", "returned"), [({}, 0.8), ({"raw": 0.0}, 0.0), ({"raw": 2.0}, 6.0)])
def test_what_is_returned_are_rewards_where_no_raw_ones_are_told(plan: Any, options: dict, returned: float) -> None:
    with EnvStateManager(config({"Raw": 1}, options=options), plan=plan) as manager:
        manager.reset(seed=1)
        manager.step([said(0, "Up", "Up")])
        manager.use_multiprocessing = not manager.use_multiprocessing  # what was told moves along
        manager.step([said(0, "Up"), said(1, "Fly")])
        first, second = manager.get_rollout_states()
        assert first["metrics"]["Raw/episodic_return"] == pytest.approx(returned)
        assert second["metrics"]["Raw/episodic_return"] == 0.0
        assert first["history"][0]["info"]["raw_reward"] == 2 * options.get("raw", 0.0)  # upstream's, as it was


@PLACES
def test_rewards_keep_the_kind_that_the_environment_gave(plan: Any) -> None:
    pays = [1, 2, 0.5, True, np.bool_(True), np.int64(3), np.float32(0.5), np.float64(1), np.array(4)]
    turns = [["Fly"], ["Up"], ["Up", "Up"], *[["Up"]] * 6]
    expected = [0, 1, 2.5, 1, 1, 3, 0.5, 1.0, 4]
    settings = config({"Paying": 1}, group_size=1, most=20, options={"pays": pays})
    with EnvStateManager(settings, plan=plan) as manager:
        manager.reset(seed=1)
        for actions in turns:
            manager.step([said(0, *actions)])
        (trajectory,) = manager.trajectories
        assert repr(trajectory.status.rewards) == repr(expected)
        assert repr([turn["reward"] for turn in trajectory.history[:-1]]) == repr(expected)
        writer = prompters(manager)["Paying"]
        shown = " ".join(message["content"] for message in writer.messages(trajectory))
        assert [words.split("\n")[1] for words in shown.split("Reward:")[1:]] == [str(reward) for reward in expected]
        line = json.loads(json.dumps(record(trajectory, [], writer)))
        assert (repr(line["rewards"]), line["reward"]) == (repr(expected), sum(expected))
        assert type(manager.get_rollout_states()[0]["metrics"]["Paying/episodic_return"]) is float


@PLACES
def test_a_turn_without_an_answer_is_worth_an_int(plan: Any) -> None:
    with EnvStateManager(config({"Told": 1}, group_size=1), plan=plan) as manager:
        manager.reset(seed=1)
        manager.step([said(0, "raise")])
        assert repr(manager.statuses[0].rewards) == "[0]"


def test_webshop_tags_sum_what_is_not_per_turn() -> None:
    register_env_type("pages", text_worlds.Ladder)
    written = config({"Ladder": 1})
    written["custom_envs"] = {"MyWebShop": {"env_type": "pages", "max_actions_per_traj": 5}}
    written["es_manager"]["train"]["env_configs"]["tags"] = ["MyWebShop"]
    with EnvStateManager(written) as manager:
        manager.reset(seed=1)
        manager.step([said(0, "Up", "Up")])
        metrics = manager.get_rollout_states()[0]["metrics"]
        assert metrics["MyWebShop/action_is_valid"] == 1.0
        assert metrics["MyWebShop/traj_sum/score"] == 2.0


@PLACES
def test_pictures_are_pillows(plan: Any) -> None:
    with EnvStateManager(config({"Picture": 1}), plan=plan) as manager:
        (cache, _) = manager.reset(seed=1)
        assert cache["history"][0]["state"] == "<images>"
        (image,) = cache["history"][0]["images"]
        assert np.asarray(image).shape == (4, 4, 3)
        assert isinstance(manager.render()[0], np.ndarray)
        before = manager.digest()
        manager.step([said(0, "Up")])
        assert manager.digest() != before


@PLACES
def test_layouts_are_made_once_per_group_and_remembered(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with EnvStateManager(config({"Planned": 2}, group_size=3), plan=plan) as manager:
        caches = manager.reset(seed=4)
        numbers = [int(cache["history"][0]["state"].rsplit(" ", 1)[1]) for cache in caches]
        assert numbers == [4008] * 3 + [5008] * 3
        made: list[Any] = []
        monkeypatch.setattr(manager.pool, "map", lambda function, items, **_: made.append(list(items)))
        manager.reset(seed=4)
        assert made == []


def test_members_may_differ_after_they_began_alike() -> None:
    written = config({"SimpleSokoban": 1}, group_size=2)
    written["custom_envs"]["SimpleSokoban"] = {"env_type": "frozen_lake", "dynamics": "member"}
    with EnvStateManager(written) as manager:
        manager.reset(seed=2)
        for _ in range(3):
            manager.step([said(0, "Right", "Down"), said(1, "Right", "Down")])
        first, second = (cache["history"] for cache in manager.rollout_cache)
        assert first[0]["state"] == second[0]["state"]
        assert [turn["state"] for turn in first] != [turn["state"] for turn in second]
    written["custom_envs"]["SimpleSokoban"]["env_type"] = "text_worlds:Ladder"
    with EnvStateManager(written) as manager:
        manager.reset(seed=2)
        failure = manager.envs[0]["status"].failure
        assert failure is not None
        assert "takes no `dynamics`" in failure.message


@pytest.mark.parametrize("plan", ["inline", 1], ids=["here", "1 worker"])
def test_members_of_a_group_that_begin_differently_are_found(plan: Any) -> None:
    with EnvStateManager(config({"Careless": 1}), plan=plan) as manager, pytest.raises(BadInput, match="begin alike"):
        manager.reset(seed=1)
    with EnvStateManager(config({"Careless": 1}, check_groups=False), plan=plan) as manager:
        assert len(manager.reset(seed=1)) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"env_id": 9, "actions": []}, "environments 0 to 1"),
        ({"env_id": -1, "actions": []}, "environments 0 to 1"),
        ({"env_id": True, "actions": []}, "env_id is True"),
        ({"actions": []}, "env_id is None"),
        ({"env_id": 0}, "give a list of strings"),
        ({"env_id": 0, "actions": "Up"}, "give a list of strings"),
        ({"env_id": 0, "actions": [1]}, "give a list of strings"),
        (3, "an input is a int"),
    ],
)
def test_inputs_that_make_no_sense_are_refused_before_anything_is_done(given: Any, words: str) -> None:
    with EnvStateManager(config({"Ladder": 1})) as manager:
        manager.reset(seed=1)
        before = manager.digest()
        with pytest.raises(BadInput, match=words):
            manager.step([said(0, "Up"), given])
        assert manager.digest() == before


def test_a_step_needs_a_reset() -> None:
    with EnvStateManager(config({"Ladder": 1})) as manager:
        for ask in (lambda: manager.step([said(0, "Up")]), manager.get_rollout_states):
            with pytest.raises(BadInput, match="before reset"):
                ask()


def test_no_groups_are_fine() -> None:
    with EnvStateManager(config({"Ladder": 0})) as manager:
        assert manager.reset(seed=1) == manager.step([]) == manager.get_rollout_states() == manager.render() == []


def test_some_kinds_stay_here_and_the_others_do_not() -> None:
    written = config(
        {"Ladder": 1, "Told": 1}, use_multiprocessing=True, max_workers=2, sequential_env_types=["text_worlds:Told"]
    )
    with EnvStateManager(written) as manager:
        manager.reset(seed=1)
        places = {worker.backend: worker.members for worker in manager.pool.workers if worker.backend == "inline"}
        assert places == {"inline": (2, 3)}
        assert len(manager.step([said(n, "Up") for n in range(4)])) == 4


def test_what_the_caller_says_counts_before_the_configuration() -> None:
    for written, plan, expected in (
        ({"use_multiprocessing": False}, "auto", "inline"),
        ({"use_multiprocessing": True, "max_workers": 1}, "auto", "process"),
        ({"use_multiprocessing": False}, 1, "process"),
        ({"use_multiprocessing": True}, "inline", "inline"),
        ({"max_workers": 0}, "auto", "inline"),
    ):
        with EnvStateManager(config({"Ladder": 1}, **written), plan=plan) as manager:
            assert manager.plan.backend == expected


def test_a_deadline_needs_processes() -> None:
    with pytest.raises(BadInput, match="step_timeout"):
        EnvStateManager(config({"Ladder": 1}, step_timeout=1.0), plan="inline")


def test_processes_that_cannot_be_had_are_told_and_done_without(caplog: pytest.LogCaptureFixture) -> None:
    def played(written: dict[str, Any]) -> tuple[str, str, str]:
        with EnvStateManager(written) as manager:
            manager.reset(seed=1)
            manager.step([said(n, "Up") for n in range(4)])
            return manager.plan.backend, manager.plan.why, manager.digest()

    options = {"goal": 3, "lock": threading.Lock()}  # it cannot be sent
    wished = config({"Ladder": 2}, options=options, use_multiprocessing=True, max_workers=2)
    backend, why, digest = played(wished)
    assert backend == "inline"
    assert "lock" in why
    assert sum("use_multiprocessing cannot be met" in record.message for record in caplog.records) == 1
    assert digest == played(config({"Ladder": 2}, options=options, use_multiprocessing=False))[2]
    with pytest.raises(NotSendable):  # who says so in the call means it
        EnvStateManager(wished, plan=2)
    timed = config({"Ladder": 2}, options=options, use_multiprocessing=True, step_timeout=5)
    with pytest.raises(NotSendable):  # here nobody could end a step that hangs
        EnvStateManager(timed)


def test_a_switch_that_fails_changes_nothing() -> None:
    written = config({"Ladder": 1}, options={"goal": 3, "lock": threading.Lock()}, use_multiprocessing=False)
    with EnvStateManager(written) as manager:
        manager.reset(seed=1)
        with pytest.raises(NotSendable):
            manager.use_multiprocessing = True
        assert manager.use_multiprocessing is False
        assert manager.plan.backend == "inline"
        assert len(manager.step([said(0, "Up")])) == 1
