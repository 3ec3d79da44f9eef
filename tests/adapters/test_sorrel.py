"""Sorrel's style of experiments through `ParallelEnvironment`: a twin of its surface, and one result in every mode."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sorrel_twin as twin
import torch

from paceline import digest
from paceline.adapters.sorrel import Buffer, ParallelEnvironment, Record, ThreadSafe, ThreadSafeBuffer
from paceline.errors import BadInput, Diverged, MemberExit, NotSendable, SharedRandomness, WorkerLost

NO_DATA = ("optimizer", "rng", "seed", "rand", "roll")
SWITCHES = ("parallel_actions", "parallel_training", "async_learning")


def seeded() -> None:
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)


def nets(*kinds: type[twin.Net]) -> list[Any]:
    return [kind() for kind in kinds or (twin.Net, twin.Net, twin.Net)]


def tables() -> list[Any]:
    return [twin.Table(number) for number in range(3)]


def played(
    parallel: dict[str, Any],
    models: Callable[[], list[Any]] = nets,
    env: Callable[..., Any] = twin.Environment,
    epochs: int = 4,
    turns: int = 5,
) -> tuple[Any, Record]:
    """Runs an experiment from seeds that are always the same. Returns the environment and the record."""
    seeded()
    config = {"experiment": {"epochs": epochs, "max_turns": turns}, "parallel": {"train_interval": 2, **parallel}}
    made = env(config, models())
    return made, ParallelEnvironment(made).run_experiment()


def everything(env: Any, record: Record) -> str:
    """Rewards, trainings, and all that the caller's own objects hold."""
    models = [agent.model for agent in env.agents]
    held = [
        {**vars(model), **(model.state_dict() if isinstance(model, torch.nn.Module) else {}), "memory": None}
        for model in models
    ]
    optimizers = [model.optimizer.state_dict() for model in models if hasattr(model, "optimizer")]
    rings = [{name: value for name, value in vars(model.memory).items() if name != "_lock"} for model in models]
    plain = [{name: value for name, value in each.items() if name not in NO_DATA} for each in held]
    streams = [model.rng.bit_generator.state for model in models if hasattr(model, "rng")]
    places = [agent.location for agent in env.agents]
    updates = [(each.agent, each.number, each.epoch, each.status, each.figures) for each in record.updates]
    return digest([record.rewards, updates, plain, optimizers, rings, streams, places, env.world.total_reward])


def said(record: Record) -> list[str]:
    """The notes, but for that on the price of questions in workers: agents that answer at once are dear there."""
    return [note for note in record.notes if not note.startswith("parallel_actions costs more than it saves")]


def switched(*on: bool, **more: Any) -> dict[str, Any]:
    return {"enabled": True, "num_workers": 2, **dict(zip(SWITCHES, on, strict=True)), **more}


@pytest.mark.parametrize("switches", list(product((False, True), repeat=3))[1:])
def test_every_combination_in_processes_gives_what_one_process_gives(switches: tuple[bool, bool, bool]) -> None:
    """Agents that draw from process-wide generators and are in each other's way."""
    inline = {"enabled": True, "async_learning": True, "num_workers": 0} if switches[2] else {}
    expected, found = played(inline), played(switched(*switches))
    assert everything(*found) == everything(*expected)
    assert said(found[1]) == []
    assert [(each.agent, each.epoch) for each in found[1].updates if each.status == "run"] == [
        (f"agent_{number}", epoch) for epoch in (2, 4) for number in range(3)
    ]
    assert (found[1].asked > 0) == switches[0]


@pytest.mark.parametrize("switches", list(product((False, True), repeat=3))[1:])
def test_every_combination_on_threads_gives_what_one_process_gives(switches: tuple[bool, bool, bool]) -> None:
    """Agents with generators of their own, which threads can run beside each other."""
    inline = {"enabled": True, "async_learning": True, "num_workers": 0} if switches[2] else {}
    expected = played(inline, tables, twin.QuietEnvironment, epochs=9)
    found = played(switched(*switches, use_threads=True), tables, twin.QuietEnvironment, epochs=9)
    assert everything(*found) == everything(*expected)
    assert said(found[1]) == []
    assert (found[1].asked > 0) == switches[0]


def test_hooks_are_told_the_epoch_as_they_take_it() -> None:
    """Sorrel's own models take it by name alone."""
    told: list[Any] = []

    class ByName(twin.Table):
        def start_epoch_action(self, **kwargs: Any) -> None:
            told.append(kwargs)

        def end_epoch_action(self, epoch: int, *rest: Any) -> None:
            told.append(epoch)

    played({}, lambda: [ByName(0)], twin.QuietEnvironment, epochs=1)
    assert told == [{"epoch": 0}, 0, {"epoch": 1}, 1]


def test_on_threads_agents_that_draw_from_process_wide_generators_are_run_in_order_and_that_is_said() -> None:
    found = played(switched(True, True, False, use_threads=True))
    assert everything(*found) == everything(*played({}))
    assert any("asked in order" in note for note in found[1].notes)
    (trained,) = [note for note in found[1].notes if "trained in order" in note]
    assert trained.startswith("agent_0, agent_1, agent_2 are trained in order: they draw")
    assert "Processes would train agents beside each other (use_threads: false)" in trained


@pytest.mark.parametrize("threads", [False, True])
def test_what_questions_in_workers_cost_is_said_once_where_they_are_forced(threads: bool) -> None:
    """The first turn, which starts the workers, does not count."""
    _, record = played(switched(True, False, False, use_threads=threads), tables, twin.QuietEnvironment)
    (note,) = record.notes
    assert note.startswith("parallel_actions costs more than it saves: to ask 3 agents in workers took")
    assert "num_workers: null asks them in order" in note
    _, short = played(switched(True, False, False), tables, twin.QuietEnvironment, epochs=0, turns=1)
    assert (short.asked, short.notes) == (3, [])


def test_a_thread_that_learns_leaves_the_process_wide_generators_alone() -> None:
    """Swapped in and out again, they would be seen by the turn that is played meanwhile, now and then."""

    def watched() -> list[Any]:
        return [twin.Watched(number) for number in range(3)]

    env, _ = played(switched(False, True, True, use_threads=True), watched, twin.QuietEnvironment, epochs=9)
    for agent in env.agents:
        here, *elsewhere = agent.model.seen
        assert here != random.getstate()[1][:3]  # streams of its own, where it is found out whether it draws
        assert elsewhere == [random.getstate()[1][:3]] * 3


@pytest.mark.parametrize("trainings", [0, 2])
def test_on_threads_one_that_draws_is_trained_while_no_other_is(trainings: int) -> None:
    """Its streams are swapped in where no thread can see them, and what it draws on a thread is drawn from nothing."""

    def mixed() -> list[Any]:
        return [twin.Wavers(0, trainings=trainings), twin.Table(1), twin.Table(2), twin.Table(3)]

    expected, after = played({}, mixed, twin.QuietEnvironment, epochs=9), np.random.random()
    found = played(switched(False, True, False, use_threads=True), mixed, twin.QuietEnvironment, epochs=9)
    assert np.random.random() == after
    assert everything(*found) == everything(*expected)
    if not trainings:
        assert [note.split(":")[0] for note in found[1].notes] == ["agent_0 is trained in order"]


def test_on_threads_one_that_draws_late_does_not_draw_from_the_streams_of_the_world() -> None:
    def mixed() -> list[Any]:
        return [twin.Wavers(0, answers=8), twin.Table(1), twin.Table(2)]

    expected, found = (played(each, mixed) for each in ({}, switched(True, False, False, use_threads=True)))
    assert everything(*found) == everything(*expected)
    assert any(note.startswith("agent_0 is asked in order") for note in found[1].notes)


@pytest.mark.parametrize("late", [{"answers": 40}, {"trainings": 2}], ids=lambda late: next(iter(late)))
def test_one_that_begins_to_draw_beside_threads_ends_the_run(late: dict[str, int]) -> None:
    """Whose draw it was cannot be told, so that it is an error, whichever side is the first to see it."""

    def mixed() -> list[Any]:
        return [twin.Wavers(0, **late), twin.Table(1)]

    with pytest.raises(SharedRandomness):
        played(switched(False, True, True, use_threads=True), mixed, twin.QuietEnvironment, epochs=12)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_run_that_ends_with_an_error_leaves_no_thread_that_learns(error: type[BaseException]) -> None:
    """It would go on, and draw, beside what the caller does next; after Ctrl-C, too."""
    with pytest.raises(error, match="in play"):
        played(
            switched(False, True, True, use_threads=True),
            lambda: [twin.Lingers(0, error), twin.Table(1)],
            twin.QuietEnvironment,
            epochs=9,
        )
    assert twin.Lingers.ended.is_set()


def test_a_lag_is_another_result_and_the_same_one_for_every_lag_everywhere() -> None:
    results = []
    for lag in (1, 2):
        inline = {"enabled": True, "async_learning": True, "num_workers": 0, "lag": lag}
        expected = everything(*played(inline, tables, epochs=9))
        assert everything(*played({**inline, "num_workers": 2}, tables, epochs=9)) == expected
        results.append(expected)
    assert len({*results, everything(*played({}, tables, epochs=9))}) == 3


def test_agents_who_have_changed_by_their_turn_are_asked_again() -> None:
    _, record = played(switched(True, False, False), tables, epochs=3)
    assert 0 < record.asked_again < record.asked


def test_the_environment_of_the_source_document_has_no_turn_of_its_own() -> None:
    """Agents in five calls, entities first, and those that cannot act left out."""
    expected = played({}, tables, twin.PlainEnvironment)
    assert sum(sum(rewards.values()) for rewards in expected[1].rewards) > 0
    assert everything(*played(switched(True, True, False), tables, twin.PlainEnvironment)) == everything(*expected)


def test_to_be_asked_whether_it_can_act_may_draw_and_may_change_an_agent() -> None:
    expected, found = (played(each, env=twin.DrowsyEnvironment) for each in ({}, switched(True, False, False)))
    assert everything(*found) == everything(*expected)
    assert found[1].asked > 0
    assert any("can_act changes the agent" in note for note in found[1].notes)


@pytest.mark.parametrize("later", [False, True])
def test_models_may_hold_the_process_wide_generators(later: bool) -> None:
    """All hold the same ones, and share nothing by that: in a worker they are the worker's."""
    models = partial(nets, twin.Attached, twin.Attached)
    inline = {"enabled": True, "async_learning": True, "num_workers": 0} if later else {}
    expected, found = played(inline, models), played(switched(True, True, later), models)
    assert everything(*found) == everything(*expected)
    assert said(found[1]) == []
    assert found[1].asked_again < found[1].asked
    model = found[0].agents[0].model
    assert (model.seed is torch.default_generator, model.rand is np.random.mtrand._rand) == (True, True)


def test_a_buffer_with_a_lock_is_copied_with_a_lock_of_its_own() -> None:
    def locked() -> list[Any]:
        return [twin.Net(twin.SourceBuffer) for _ in range(2)]

    expected, found = played({}, locked), played(switched(True, True, False), locked)
    assert everything(*found) == everything(*expected)
    assert said(found[1]) == []


def test_an_agent_that_writes_to_what_it_sees_is_asked_in_order() -> None:
    expected, found = (played(each, env=twin.ScribblingEnvironment) for each in ({}, switched(True, False, False)))
    assert everything(*found) == everything(*expected)
    assert any("writes to the observation" in note for note in found[1].notes)


def test_the_callers_own_objects_hold_the_final_state() -> None:
    seeded()
    models = nets()
    weights = [model.net[0].weight for model in models]
    rings = [model.memory.states for model in models]
    env, _ = played(switched(False, True, True), lambda: models)
    assert all(model.net[0].weight is weight for model, weight in zip(models, weights, strict=True))
    assert all(model.memory.states is ring for model, ring in zip(models, rings, strict=True))
    assert [model.optimizer.state[model.net[0].weight]["step"].item() for model in models] == [2.0] * 3
    assert [agent.model for agent in env.agents] == models
    assert not any("pov" in vars(agent) for agent in env.agents)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("kind", [twin.Net, twin.Gathers])
@pytest.mark.parametrize("threads", [False, True])
def test_a_model_that_has_learned_goes_on_in_a_second_run(kind: type[twin.Net], later: bool, threads: bool) -> None:
    """Its gradients are sent with it: a copy without them would not be built alike, and would learn something else."""

    def twice(parallel: dict[str, Any]) -> tuple[str, list[str]]:
        env, first = played(parallel, partial(nets, kind, kind), epochs=5)
        second = ParallelEnvironment(env).run_experiment()
        gradients = [weight.grad for agent in env.agents for weight in agent.model.parameters()]
        return digest([everything(env, second), gradients]), first.notes + second.notes

    inline = {"enabled": True, "async_learning": True, "num_workers": 0} if later else {}
    (expected, _), (found, notes) = twice(inline), twice(switched(False, True, later, use_threads=threads))
    assert found == expected
    assert threads or notes == []


def test_torch_computes_on_one_thread_in_a_run_as_it_does_in_workers() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        expected, found = (played(each, partial(nets, twin.Normed)) for each in ({}, switched(False, True, False)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert everything(*found) == everything(*expected)


@pytest.mark.parametrize("threads", [False, True])
def test_agents_are_known_by_what_they_are_and_not_by_their_place(threads: bool) -> None:
    """They move in any order, rest, and are made anew with the same models; each keeps its name, streams and worker."""
    expected = played({}, tables, twin.ShufflingEnvironment)
    found = played(switched(True, True, False, use_threads=threads), tables, twin.ShufflingEnvironment)
    for env, record in (expected, found):
        env.agents = sorted([*env.agents, *env.resting], key=lambda agent: agent.model.number)
        rows = [agent.model.memory for agent in env.agents]
        for number, memory in enumerate(rows):
            earned = sum(rewards[f"agent_{number}"] for rewards in record.rewards)
            assert earned == pytest.approx(float(memory.rewards.sum()), abs=1e-5)
    assert everything(*found) == everything(*expected)
    assert found[1].asked > 0


def test_an_agent_that_joins_a_run_is_an_error_that_says_so() -> None:
    class Joined(twin.QuietEnvironment):
        def reset(self) -> None:
            super().reset()
            self.agents.append(twin.Agent(twin.Table(9)))

    with pytest.raises(BadInput, match="an agent of class Agent has joined in the middle of a run"):
        played({}, tables, Joined)


def one_model() -> list[Any]:
    shared = twin.Table(0)
    return [shared, shared, twin.Table(1)]


def test_agents_that_share_a_model_may_be_made_anew_all_at_once() -> None:
    """They take the numbers of those before them in order, so that this is as if they had stayed."""
    stayed, expected, found = (
        played(parallel, one_model, env)
        for parallel, env in (
            ({}, twin.QuietEnvironment),
            ({}, twin.RemakingEnvironment),
            (switched(True, False, False), twin.RemakingEnvironment),
        )
    )
    assert everything(*expected) == everything(*stayed)
    assert everything(*found) == everything(*stayed)
    assert found[1].asked > 0


def test_one_of_two_with_a_model_that_is_made_anew_while_the_other_rests_is_an_error_that_says_so() -> None:
    class Resting(twin.QuietEnvironment):
        def reset(self) -> None:
            self.agents = [type(agent)(agent.model) for agent in self.agents[1:]]
            super().reset()

    with pytest.raises(BadInput, match="2 agents that share a model have gone, and 1 of class Agent have come"):
        played({}, one_model, Resting)


def test_an_agent_that_is_made_anew_within_a_turn_is_an_error_that_says_so() -> None:
    """What it earns in that turn would be missing from the record."""

    class Hasty(twin.QuietEnvironment):
        def take_turn(self) -> None:
            if self.turn == 3:
                self.agents[0] = type(self.agents[0])(self.agents[0].model)
            super().take_turn()

    with pytest.raises(BadInput, match=r"class Agent came into env.agents within take_turn\(\).* in reset\(\)"):
        played({}, tables, Hasty)


@pytest.mark.parametrize("parallel", [{}, switched(True, False, False)], ids=["in order", "in workers"])
def test_an_agent_may_become_one_of_another_class(parallel: dict[str, Any]) -> None:
    env, record = played(parallel, tables, twin.ConvertingEnvironment)
    for agent in env.agents:
        rows = agent.model.memory.actions[: agent.model.memory.size]  # 2 of reset and 5 of turns in every epoch
        assert set(rows[2:7]) | set(rows[9:14]) > {0}
        assert set(rows[14:]) == {0}
    assert everything(env, record) == everything(*played({}, tables, twin.ConvertingEnvironment))
    assert record.asked == (30 if parallel else 0)
    assert [note.partition(":")[2] for note in said(record)] == [
        " NotSendable: it has another class, or its class has another get_action"
    ] * (3 if parallel else 0)


@pytest.mark.parametrize("parallel", [{}, switched(True, False, False)], ids=["in order", "in workers"])
def test_a_method_that_is_set_on_the_class_of_agents_counts_from_the_next_turn(
    parallel: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Agent(twin.Agent):
        pass

    class Patched(twin.QuietEnvironment):
        def __init__(self, config: Any, models: list[Any]) -> None:
            super().__init__(config, models)
            self.agents = [Agent(model) for model in models]

        def take_turn(self) -> None:
            super().take_turn()
            if self.turn == 2:
                monkeypatch.setattr(Agent, "get_action", lambda self, state: 0)

    env, record = played(parallel, tables, Patched, epochs=0)
    assert record.asked == (6 if parallel else 0)
    for agent in env.agents:
        assert list(agent.model.memory.actions[4:7]) == [0, 0, 0]


@pytest.mark.parametrize("parallel", [{}, switched(True, False, False)], ids=["in order", "in workers"])
def test_an_agent_keeps_the_methods_that_it_has_been_given(parallel: dict[str, Any]) -> None:
    class Mine(twin.QuietEnvironment):
        def __init__(self, config: Any, models: list[Any]) -> None:
            super().__init__(config, models)
            self.agents = [twin.ChangingAgent(model) for model in models]

    env, record = played(parallel, tables, Mine)
    assert [agent.get_action("anything") for agent in env.agents] == [0, 0, 0]
    assert [set(agent.model.memory.actions[13:25]) for agent in env.agents] == [{0}] * 3
    expected = played({}, tables, Mine)
    assert everything(env, record) == everything(*expected)


# -- what the source document leaves open ------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [1, 3, 4])
def test_training_is_due_after_every_interval_but_never_after_epoch_zero(interval: int) -> None:
    _, record = played({"train_interval": interval}, tables, epochs=8, turns=2)
    assert sorted({update.epoch for update in record.updates}) == list(range(interval, 9, interval))
    assert len(record.rewards) == 9


def test_collection_is_never_paused_and_a_training_sees_the_rows_of_its_epoch_and_no_later_ones() -> None:
    """The second contradiction: "paused by lock". With a lag the model plays on while its copy learns."""
    rows: list[int] = []
    models = tables()
    env, _ = played(switched(False, False, True), lambda: models, turns=6)
    for model in models:
        rows.append(len(model.losses))
        assert model.memory.size == min(60, 5 * (6 + 2))
    assert rows == [2, 2, 2]
    assert env.turn == 6


def test_an_agent_acts_on_what_those_before_it_have_done() -> None:
    """The third contradiction: observations that are all taken before any agent moves."""
    seen: list[float] = []

    class Watching(twin.Agent):
        def get_action(self, state: Any) -> int:
            seen.append(float(state[11]))
            return 0

    class Mine(twin.QuietEnvironment):
        def __init__(self, config: Any, models: list[Any]) -> None:
            super().__init__(config, models)
            self.agents = [twin.Agent(models[0]), Watching(models[1])]

    models = tables()
    models[0].values[0] = 100.0  # the first one goes up, and is no longer beside the second
    played(switched(True, False, False, num_workers=0), lambda: models, Mine, epochs=0, turns=1)
    assert seen != [9.0]


# -- forms -------------------------------------------------------------------------------------------------------


class Mine(ParallelEnvironment, twin.Environment):
    """As the source document writes it."""


def test_a_mixin_is_the_same_as_a_wrapper() -> None:
    seeded()
    config = {"experiment": {"epochs": 4, "max_turns": 4}, "parallel": switched(False, True, False)}
    mine = Mine(config, tables(), train_interval=2)
    assert mine.train_interval == 2
    record = mine.run_experiment_parallel()
    assert mine.current_epoch == 4
    assert everything(mine, record) == everything(*played({}, tables, epochs=4, turns=4))
    mine.take_turn_parallel()
    assert mine.turn == 5


@dataclasses.dataclass
class Block:
    enabled: bool = True
    train_interval: int = 3


def test_a_configuration_may_be_written_in_any_form() -> None:
    from omegaconf import OmegaConf

    flat = {"epochs": 3, "max_turns": 2, "parallel": {"enabled": True, "train_interval": 3}}
    nested = {"experiment": {"epochs": 3, "max_turns": 2}, "parallel": flat["parallel"]}
    forms = [flat, nested, SimpleNamespace(epochs=3, max_turns=2, parallel=Block()), OmegaConf.create(nested)]
    forms += [{"epochs": 3, "max_turns": 2, "train_interval": 3}, {**flat, "train_interval": 1}]
    for form in forms:
        env = ParallelEnvironment(twin.Environment(None, tables()), form)
        record = env.run_experiment()
        assert (len(record.rewards), env.train_interval) == (4, 3)
        assert [update.epoch for update in record.updates] == [3, 3, 3]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"parallel": {"asynch_learning": True}}, "did you mean async_learning"),
        ({"parallel": {"num_worker": 3}}, "did you mean num_workers"),
        ({"parallel": {"train_interval": 0}}, "train_interval is 0"),
        ({"parallel": 3}, "give a mapping"),
        ({"epochs": 2, "max_turns": 1, "train_interval": 0}, "train_interval=0: give a whole number"),
        ({"max_turns": 3}, "epochs"),
        ({"epochs": 2, "max_turns": 0}, "max_turns=0"),
        ({"epochs": 2.5, "max_turns": 1}, "epochs=2.5: give a whole number"),
        ({"epochs": 2, "max_turns": [3]}, r"max_turns=\[3\]: give a whole number"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_an_error_that_says_so(config: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        ParallelEnvironment(twin.Environment(None, tables()), config).run_experiment()


def test_what_is_no_environment_or_no_agent_is_an_error_that_says_so() -> None:
    with pytest.raises(BadInput, match="no environment"):
        ParallelEnvironment(3)
    env = twin.Environment({"epochs": 1, "max_turns": 1}, [object()])
    with pytest.raises(BadInput, match="no train_step"):
        ParallelEnvironment(env).run_experiment()


def test_a_mixin_that_does_not_stand_first_or_is_not_set_up_is_an_error_that_says_so() -> None:
    """Where it does not stand first the environment's own loop would be run."""
    with pytest.raises(BadInput, match="class Late: ParallelEnvironment must stand before QuietEnvironment"):
        type("Late", (twin.QuietEnvironment, ParallelEnvironment), {})

    class Bare(ParallelEnvironment, twin.Environment):
        def __init__(self) -> None:
            pass

    with pytest.raises(AttributeError, match=r"its __init__ must call super\(\).__init__"):
        Bare().run_experiment()


def test_what_is_set_on_a_wrapper_is_set_on_its_environment() -> None:
    env = twin.QuietEnvironment({"epochs": 0, "max_turns": 3}, tables())
    wrapper = ParallelEnvironment(env)
    wrapper.agents, wrapper.train_interval = env.agents[:1], 7
    assert [len(rewards) for rewards in wrapper.run_experiment().rewards] == [1]
    assert (len(env.agents), wrapper.train_interval, hasattr(env, "train_interval")) == (1, 7, False)


def test_a_reward_or_a_logger_that_is_none_is_an_error_that_says_so() -> None:
    class Wordy(twin.Agent):
        def act(self, world: Any, action: int) -> Any:
            return "much"

    env = twin.QuietEnvironment({"epochs": 0, "max_turns": 1}, [])
    env.agents = [Wordy(twin.Table(0))]
    with pytest.raises(BadInput, match=r"act\(\) of agent 0, a Wordy, gave 'much'"):
        ParallelEnvironment(env).run_experiment()
    with pytest.raises(BadInput, match="give one that has record_epoch"):
        ParallelEnvironment(env).run_experiment(logger=3)


def test_a_run_follows_from_what_the_caller_has_seeded_and_leaves_that_alone() -> None:
    first, second = played({}, turns=3), played({}, turns=3)
    assert everything(*first) == everything(*second)
    after = random.random(), np.random.random()
    played({}, turns=3)
    assert (random.random(), np.random.random()) == after
    again = ParallelEnvironment(first[0]).run_experiment()
    assert again.rewards != first[1].rewards


def test_epsilon_decays_and_loggers_are_told_as_sorrel_does_it() -> None:
    rows: list[Any] = []
    logger = SimpleNamespace(record_epoch=lambda *row, **_: rows.append(row))
    seeded()
    config = {"epochs": 2, "max_turns": 2, "parallel": {"train_interval": 1}, "model": {"epsilon_decay": 0.5}}
    env = twin.Environment(config, nets())
    ParallelEnvironment(env).run_experiment(animate=False, logger=logger)
    assert [row[0] for row in rows] == [0, 1, 2]
    assert rows[0][1] == 0.0
    assert rows[2][1] > 0.0
    assert env.agents[0].model.epsilon == pytest.approx(0.8 * (0.9 * 0.5) ** 3)


# -- failures ----------------------------------------------------------------------------------------------------


UNTRAINED = "failed, and it is not trained any more"
FROZEN = [(2, "run"), (4, "failed"), (6, "skipped")]


def trainings(record: Record, agent: str) -> list[tuple[int, str]]:
    """The epoch of each training of an agent, and what became of it."""
    return [(each.epoch, each.status) for each in record.updates if each.agent == agent]


@pytest.mark.parametrize(("kind", "words"), [(twin.Raises, "no more"), (twin.Dies, "exit")])
def test_a_training_that_fails_freezes_its_agent_and_changes_nothing_else(kind: type[twin.Net], words: str) -> None:
    """It raises or kills its process: the run goes on to its end, and the agent is named."""
    models = partial(nets, twin.Net, kind, twin.Net)
    env, record = played(switched(False, True, False, on_failure="freeze", num_workers=3), models, epochs=6)
    assert list(record.failures) == ["agent_1"]
    assert words in record.failures["agent_1"].message
    assert record.notes == [f"training 1 of agent_1 {UNTRAINED}: {record.failures['agent_1'].message}"]
    assert trainings(record, "agent_1") == FROZEN
    model = env.agents[1].model
    left = 2 if kind is twin.Raises else 1  # what raises leaves what it has changed, as in Python
    assert (model.trainings, model.optimizer.state[model.net[0].weight]["step"].item()) == (left, left)
    assert [each.status for each in record.updates if each.agent != "agent_1"] == ["run"] * 6
    if kind is twin.Raises:
        assert everything(*played({"on_failure": "freeze"}, models, epochs=6)) == everything(env, record)


@pytest.mark.parametrize("later", [False, True])
def test_a_training_that_diverges_or_exits_is_a_failure_of_its_agent_wherever_it_is(later: bool) -> None:
    """Weights and optimizer are what they were before; a mask that is infinite by design is no failure."""
    models = partial(nets, twin.Spoils, twin.SpoilsUnseen, twin.LosesItself, twin.Exits, twin.Masked)
    inline = {"enabled": True, "async_learning": later, "num_workers": 0}
    expected, clean = played(inline, models, epochs=6), played(inline, models, epochs=3)
    env, record = played(switched(False, True, later), models, epochs=6)
    assert everything(env, record) == everything(*expected)
    messages = {agent: failure.message.partition(";")[0] for agent, failure in record.failures.items()}
    assert messages == {
        "agent_0": "it made weights that are not finite",
        "agent_1": "it made weights that are not finite",
        "agent_2": "its loss is nan",
        "agent_3": "train_step() called sys.exit(4)",
    }
    assert [trainings(record, agent) for agent in messages] == [FROZEN] * 4
    assert [note.partition(":")[0] for note in record.notes] == [
        f"training 1 of {agent} {UNTRAINED}" for agent in messages
    ]
    for spoiled, before in zip(env.agents[:3], clean[0].agents, strict=False):
        held = [[model.state_dict(), model.optimizer.state_dict()] for model in (spoiled.model, before.model)]
        assert digest(held[0]) == digest(held[1])
        assert spoiled.model.trainings == 2
    rows = [(agent.model.memory.states == 1).all(axis=1).sum() for agent in env.agents]
    assert rows == [1, 1, 0, 0, 0]  # all else is left, as by a training that raises


@pytest.mark.parametrize("threads", [{}, switched(False, True, False, use_threads=True)], ids=["here", "on threads"])
def test_arrays_that_are_not_finite_are_a_failure_here_and_on_threads(threads: dict[str, Any]) -> None:
    models = partial(map, twin.SpoilsTable, range(3))
    env, record = played(threads, lambda: list(models()), twin.QuietEnvironment, epochs=6)
    assert [trainings(record, f"agent_{number}") for number in range(3)] == [FROZEN] * 3
    assert all(np.isfinite(agent.model.values).all() and len(agent.model.losses) == 2 for agent in env.agents)


def test_a_layer_that_has_no_weights_before_its_first_training_is_no_failure() -> None:
    env, record = played({}, lambda: nets(twin.Lazy), epochs=4)
    assert trainings(record, "agent_0") == [(2, "run"), (4, "failed")]
    assert all(torch.isfinite(weight).all() for weight in env.agents[0].model.last.parameters())


def test_a_training_that_diverges_again_when_it_is_tried_again_has_not_happened_at_all() -> None:
    env, record = played({"on_failure": "retry"}, lambda: nets(twin.Spoils), epochs=6)
    assert trainings(record, "agent_0") == FROZEN
    model = env.agents[0].model
    assert (model.trainings, (model.memory.states == 1).all(axis=1).any()) == (1, False)


@pytest.mark.parametrize(("kind", "error"), [(twin.Spoils, Diverged), (twin.Exits, MemberExit)])
@pytest.mark.parametrize("parallel", [{}, switched(False, True, False)], ids=["here", "in workers"])
def test_a_training_that_diverges_or_exits_ends_the_run_with_an_error_if_that_is_asked(
    kind: type[twin.Net], error: type[Exception], parallel: dict[str, Any]
) -> None:
    with pytest.raises(error, match=r"not finite|sys\.exit") as raised:
        played({**parallel, "on_failure": "fail"}, lambda: nets(kind), epochs=6)
    assert sum("in a training of agent_0" in note for note in raised.value.__notes__) == 1


def test_a_training_that_hangs_is_ended_at_its_deadline_and_freezes_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is short for the training that hangs alone, so that a slow machine fails no other one."""
    from paceline.adapters.sorrel import learning

    class Patient(learning.Pool):
        def __init__(self, *args: Any, deadline: float, **kwargs: Any) -> None:
            super().__init__(*args, deadline=600.0, **kwargs)
            self.asked, self.trainings = deadline, 0

        def post(self, method: str, calls: Any = None, *args: Any, **kwargs: Any) -> Any:
            if method == "learn" and 1 in calls:
                self.trainings += 1
                kwargs["deadline"] = self.asked if self.trainings == 2 else None
            return super().post(method, calls, *args, **kwargs)

    monkeypatch.setattr(learning, "Pool", Patient)
    parallel = switched(False, True, False, on_failure="freeze", deadline=1.0, num_workers=3)
    env, record = played(parallel, lambda: [twin.Table(0), twin.Hangs(1), twin.Table(2)], epochs=6)
    assert list(record.failures) == ["agent_1"]
    assert "within 1 s" in record.failures["agent_1"].message
    assert trainings(record, "agent_1") == FROZEN
    assert [len(agent.model.losses) for agent in env.agents] == [3, 1, 3]


def test_workers_that_are_killed_cost_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a training and of an answer, on copies that are rebuilt from snapshots and from their calls."""
    from paceline.adapters.sorrel import asking, learning

    for module, every in ((learning, 1), (asking, 4)):
        monkeypatch.setattr(module, "Pool", partial(module.Pool, snapshot_every=every))

    def models() -> list[Any]:
        return [twin.DiesOnce(tmp_path / "one"), twin.Net()]

    expected = played({}, models, epochs=8, turns=3)
    env, record = played(switched(True, True, False), models, epochs=8, turns=3)
    assert record.failures == {}
    assert sorted(mark.name for mark in tmp_path.iterdir()) == ["one.asked", "one.trained"]
    assert everything(env, record) == everything(*expected)


def test_a_failure_ends_the_run_with_the_users_own_error_if_that_is_asked() -> None:
    inline = {"enabled": True, "async_learning": True, "num_workers": 0}
    for parallel in ({}, inline, switched(False, True, False), switched(False, False, True)):
        with pytest.raises(RuntimeError, match="no more") as raised:
            played({**parallel, "on_failure": "fail"}, lambda: nets(twin.Raises), epochs=6)
        assert sum("agent_0" in note for note in raised.value.__notes__) == 1


def test_an_error_that_no_policy_helps_names_its_agent_and_no_policy() -> None:
    inline = {"enabled": True, "async_learning": True, "num_workers": 0, "on_failure": "fail"}
    with pytest.raises(NotSendable, match="count") as raised:
        played(inline, lambda: [twin.Table(0), twin.Iterates(1)])
    assert raised.value.__notes__ == ["in a training of agent_1"]


def test_a_training_that_is_tried_again_and_works_is_as_if_it_had_not_failed() -> None:
    expected = played({}, lambda: nets(), epochs=4)
    _, record = played({"on_failure": "retry"}, lambda: nets(twin.Net, twin.FailsOnce, twin.Net), epochs=4)
    assert record.failures == {}
    assert record.updates == expected[1].updates
    twin.FailsOnce.failed = False


def test_models_that_agents_share_are_trained_in_order_and_refused_with_a_lag() -> None:
    def shared() -> list[Any]:
        one = twin.Table(0)
        return [one, one, twin.Table(1)]

    found = played(switched(False, True, False), shared)
    assert everything(*found) == everything(*played({}, shared))
    assert sum("shares its model" in note for note in found[1].notes) == 2
    with pytest.raises(BadInput, match="async_learning needs a copy"):
        played(switched(False, False, True), shared)


def test_workers_that_cannot_be_had_are_done_without_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline.adapters.sorrel import asking, learning
    from paceline.errors import PlanNotMet

    def refuse(*_: Any, **__: Any) -> Any:
        raise PlanNotMet("no room")

    monkeypatch.setattr(learning, "Pool", refuse)
    monkeypatch.setattr(asking, "Pool", refuse)
    found = played(switched(True, True, False), tables)
    assert everything(*found) == everything(*played({}, tables))
    assert any("there can be no workers" in note for note in found[1].notes)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("pays", ["never", "never after all", "always"])
def test_agents_are_asked_and_trained_elsewhere_only_where_that_pays(
    pays: str, later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long an answer and a training take is measured, so the bounds are set here to what any of them meets."""
    from paceline.adapters.sorrel import asking, experiment, learning

    monkeypatch.setattr(experiment, "current_budget", lambda: SimpleNamespace(slots=2))
    monkeypatch.setattr(asking, "_PAYS", np.inf if pays == "never" else 0.0)
    monkeypatch.setattr(learning, "_STARTING", np.inf if pays == "never" else -1.0)
    monkeypatch.setattr(learning, "_WORTH", np.inf if pays == "always" else 0.0)
    inline = {"enabled": True, "async_learning": True, "num_workers": 0} if later else {}
    for models in (tables, nets):
        found = played(switched(True, True, later, num_workers=None), models, epochs=14)
        assert everything(*found) == everything(*played(inline, models, epochs=14))
        assert (found[1].asked > 0) == (pays != "never")
        notes = [note.partition(":")[0] for note in found[1].notes]
        assert ("agents are trained here" in notes) == (pays == "never")
        assert ("agents are trained here again" in notes) == (pays == "never after all" and not later)
        assert len(notes) == {"never": 2, "always": 0}.get(pays, int(not later))


def test_agents_whose_streams_cannot_be_had_back_stay_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """To come back is to be quicker, and no reason to end a run."""
    from paceline.adapters.sorrel import experiment, learner, learning

    def lost(self: Any) -> Any:
        raise WorkerLost("gone")

    monkeypatch.setattr(experiment, "current_budget", lambda: SimpleNamespace(slots=2))
    monkeypatch.setattr(learning, "_STARTING", -1.0)
    monkeypatch.setattr(learning, "_WORTH", 0.0)
    monkeypatch.setattr(learner.Learner, "states", lost)
    there = switched(False, True, False, use_threads=True, num_workers=None)
    found = played(there, tables, twin.QuietEnvironment, epochs=14)
    assert everything(*found) == everything(*played({}, tables, twin.QuietEnvironment, epochs=14))
    assert found[1].notes == []


# -- buffers -----------------------------------------------------------------------------------------------------


def test_a_buffer_is_a_ring_whose_samples_never_cross_the_place_that_is_written() -> None:
    buffer = ThreadSafeBuffer(4, (1,))
    with pytest.raises(BadInput, match="needs 2 rows"):
        buffer.sample(1)
    with pytest.raises(BadInput, match="batch_size=0"):
        buffer.sample(0)
    with pytest.raises(BadInput, match=r"capacity=2\.5"):
        Buffer(2.5, (1,))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"obs_shape=1: give the shape of an observation, \(1,\) say"):
        Buffer(4, 1)  # type: ignore[arg-type]
    for row in range(6):
        buffer.add([row], row, row / 2, row == 5)
    np.random.seed(0)
    states, actions, rewards, following, dones, whole = buffer.sample(64)
    assert sorted(set(states[:, 0])) == [2, 3, 4]
    assert (following == states + 1).all()
    assert (actions == states).all()
    assert (rewards * 2 == states).all()
    assert not dones.any()
    assert whole.all()
    snapshot = buffer.get_buffer_snapshot()
    buffer.add([9], 9, 9, True)
    assert (snapshot["size"], snapshot["idx"], snapshot["actions"].tolist()) == (4, 2, [4, 5, 2, 3])
    assert set(snapshot) == {"states", "actions", "rewards", "dones", "size", "idx"}


def test_frames_are_stacked_and_epochs_are_kept_apart() -> None:
    buffer = Buffer(10, (1,), n_frames=3)
    for row in range(1, 6):
        buffer.add([row], row, 0.0, row == 3)
    assert buffer.current_state()[:, 0].tolist() == [4, 5]
    states, actions, *_, whole = buffer.sample(64)
    assert {tuple(row) for row in states} == {(1, 2, 3), (2, 3, 4)}
    assert (actions[:, 0] == states[:, 2]).all()
    assert (whole[:, 0] == (states[:, 0] == 1)).all()
    buffer.add_empty()
    assert (buffer.idx, len(buffer)) == (7, 7)


def test_a_lock_can_be_put_around_a_buffer_of_ones_own() -> None:
    class Rows:
        def __init__(self, capacity: int) -> None:
            self.states = self.actions = self.rewards = self.dones = np.zeros(capacity)
            self.size = self.idx = 0

        def add(self, *row: Any) -> None:
            self.size += 1

        def sample(self, batch_size: int) -> int:
            return batch_size

    class Locked(ThreadSafe, Rows):
        pass

    rows = Locked(3)
    rows.add(1, 2, 3, 4)
    assert (rows.sample(5), rows.get_buffer_snapshot()["size"]) == (5, 1)
