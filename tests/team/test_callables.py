"""What a person holds is understood: policies, what makes them, and what is neither; parameters may have any name."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from players import Meeting, Walk

import paceline
from paceline.adapters.torch_module import Module
from paceline.engine import Plan
from paceline.evaluate import evaluate
from paceline.spaces import checked
from paceline.team import Player, plainly_acts, understood
from paceline.types import Mission, Seat

WALK = Mission("walk", Walk, {"length": 6})
SEAT = Seat("a", 0, spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3), "walk")


class Leans:
    """Answers by what it sees, and by how often it was asked in this episode."""

    def __init__(self) -> None:
        self.asked = 0

    def act(self, seen: Any) -> int:
        self.asked += 1
        return int(float(seen[0]) > 0) + self.asked % 2


class Called(Leans):
    """The same, but it is called."""

    act = None  # type: ignore[assignment]

    def __call__(self, anything: Any) -> int:
        return Leans.act(self, anything)


def makes(place: Any) -> Leans:
    assert place.action_space.n == 4
    return Leans()


def leaning(seen: Any, asked: int) -> int:
    return int(float(seen[0]) > 0) + asked % 2


def by_default(seen: Any, asked: list[Any] = []) -> int:  # noqa: B006
    asked.append(seen)
    return leaning(seen, len(asked))


def in_a_closure() -> Any:
    import math

    generator, numbers = np.random.default_rng(0), np.random.default_rng(0).integers(1000, size=100).tolist()
    return lambda seen: leaning(seen, math.floor(numbers.index(generator.integers(1000)) + 1))


def in_shared_cells() -> Any:
    asked, counting = 0, torch.zeros(())

    def count() -> None:
        nonlocal asked
        asked += 1
        counting.add_(1)

    def acts(seen: Any) -> int:
        count()
        assert asked == counting
        return leaning(seen, asked)

    return acts


def by_itself() -> Any:
    def acts(seen: Any, deeper: int = 2) -> int:
        if deeper:
            return acts(seen, deeper - 1)
        acts.asked += 1  # type: ignore[attr-defined]
        return leaning(seen, acts.asked)  # type: ignore[attr-defined]

    acts.asked = 0  # type: ignore[attr-defined]
    return acts


def by_methods() -> Any:
    act, take = Leans().act, [*range(1, 100)].pop

    def acts(seen: Any) -> int:
        answer = act(seen)
        assert answer == leaning(seen, take(0))
        return answer

    return acts


class Holds:
    """Has functions with state."""

    def __init__(self) -> None:
        self.answers = {"acts": in_shared_cells()}

    def act(self, seen: Any) -> int:
        answer: int = self.answers["acts"](seen)
        return answer


def held() -> list[Any]:
    """Sixteen ways to give the same policy."""
    bound = Leans().act
    made = [Leans(), Leans, Called(), Called, bound, makes, lambda: Leans(), lambda x: Called(), partial(makes)]
    stateful = [by_default, in_a_closure(), in_shared_cells(), by_itself(), by_methods(), Holds()]
    return [*made, *stateful, partial(in_shared_cells())]


def test_whatever_is_held_plays_the_same_everywhere(backend: str) -> None:
    """Each seat and episode has a copy as it was given, so that none depends on others, or on where it is played."""
    mission, given = Mission("meeting", Meeting, {"agents": 16, "length": 5}), held()
    expected = evaluate(mission, [Player(str(n), Leans) for n in range(16)], episodes=3, plan=0)
    players = [Player(str(number), policy) for number, policy in enumerate(given)]
    report = evaluate(mission, players, episodes=3, plan=Plan(backend, 2), agents="off")
    assert report.failures == []
    assert report.digest == expected.digest
    assert report.notes == []
    assert [given[0].asked, given[2].asked, given[4].__self__.asked, given[12].asked] == [0, 0, 0, 0]
    assert by_default.__defaults__ == ([],)


@pytest.mark.parametrize("name", ["o", "obs", "observation", "seat", "state", "self", "x"])
def test_the_name_of_a_parameter_does_not_matter(name: str) -> None:
    acts = eval(f"lambda {name}: int({name}[0] > 0)")
    expected = evaluate(WALK, Player("it", lambda obs: int(obs[0] > 0)), episodes=2, plan=0)
    assert evaluate(WALK, Player("it", acts), episodes=2, plan=0).digest == expected.digest
    made = eval(f"lambda {name}: (lambda {name}: int({name}[0] > 0))")
    assert evaluate(WALK, Player("it", made), episodes=2, plan=0).digest == expected.digest


@settings(max_examples=60, deadline=None)
@given(st.integers(-3, 5) | st.floats() | st.none() | st.text(max_size=3) | st.lists(st.integers(0, 2), max_size=2))
def test_a_callable_is_a_policy_if_what_it_answers_is_an_action(answer: Any) -> None:
    """Or else it is told what it gave, both times, and how to be explicit."""

    def fits() -> bool:
        try:
            checked(answer, SEAT.action_space, "it")
        except paceline.BadInput:
            return False
        return answer is not None

    player = Player("it", lambda o: answer)
    observe: Callable[[Seat], Any] = lambda seat: (seat, np.zeros(2, np.float32))  # noqa: E731
    if fits():
        assert understood(player, SEAT, observe).acts is True
    else:
        with pytest.raises(
            paceline.BadInput, match=r"neither makes a policy nor is one.*acts=False\) if it makes .* acts=True\)"
        ):
            understood(player, SEAT, observe)
    made = understood(Player("it", lambda o: lambda seen: answer), SEAT, observe)
    assert made.acts is False


def test_what_is_said_is_not_tried() -> None:
    def never(seat: Any) -> Any:
        raise AssertionError("it was tried")

    assert understood(Player("it", never, acts=True), SEAT, never).acts is True
    with pytest.raises(AssertionError, match="it was tried"):
        understood(Player("it", never, acts=False), SEAT, never)
    report = evaluate(WALK, Player("it", never, acts=True), plan=0)
    (failed,) = report.failures
    assert failed.failure is not None
    assert failed.failure.message == "it was tried"
    assert [plainly_acts(Player("it", each)) for each in (Leans, Leans(), never, partial(Leans), partial(never))] == [
        False,
        True,
        None,
        False,
        None,
    ]


def test_an_error_in_making_a_policy_is_told_with_its_place() -> None:
    def makes_nothing(seat: Any) -> Any:
        raise FileNotFoundError("no weights")

    with pytest.raises(
        paceline.BadInput, match=r"Asked to make a policy it raises FileNotFoundError: no weights \(.*test_ca"
    ):
        evaluate(WALK, makes_nothing, plan=0)


def test_trying_draws_nothing() -> None:
    """A policy that draws from a process-wide generator gets the episode's own stream, tried or not."""
    tried = evaluate(WALK, Player("it", lambda o: random.randrange(3)), episodes=2, plan=0)
    said = evaluate(WALK, Player("it", lambda o: random.randrange(3), acts=True), episodes=2, plan=0)
    held = evaluate(WALK, Player("it", lambda o, draw=random.randrange: draw(3)), episodes=2, plan=0)
    assert tried.digest == said.digest == held.digest


class Leaning(Leans):
    """Has settings of its own, with defaults."""

    def __init__(self, more: int = 0, *others: Any) -> None:
        super().__init__()
        self.more = more

    def act(self, seen: Any) -> int:
        return super().act(seen) + self.more


class Seated(Leaning):
    """Takes its seat, if it is given one."""

    def __init__(self, seat: Any = None) -> None:
        super().__init__(0 if seat is not None else 1)


@pytest.mark.parametrize("policy", [Leaning, partial(Leaning), lambda more=0: Leaning(more), Seated])
def test_a_setting_with_a_default_is_not_the_seat(policy: Any) -> None:
    """A class that can be built without arguments is: its first setting keeps its default, unless it is called seat."""
    report = evaluate(WALK, policy, plan=0)
    assert report.failures == []
    assert report.episodes[0].rewards == evaluate(WALK, Leans(), plan=0).episodes[0].rewards


class Locked(Leans):
    """Cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


def locked() -> Any:
    leans = Locked()
    return lambda seen: leans.act(seen)


@pytest.mark.parametrize("policy", [Locked(), Locked().act, locked()])
def test_what_cannot_be_copied_is_played_here_and_it_is_said_once(policy: Any) -> None:
    report = evaluate(WALK, Player("it", policy), episodes=3)
    assert report.failures == []
    (note,) = report.notes
    assert note.startswith("policy 'it' cannot be copied (TypeError: cannot pickle '_thread.lock' object): it is pl")
    with pytest.raises(paceline.BadInput, match=r"cannot be sent to a worker: .*lock.*plan=0"):
        evaluate(WALK, Player("it", policy), episodes=3, plan=2)
    with pytest.raises(paceline.BadInput, match=r"cannot be sent to a worker: .*lock.*plan=0"):
        evaluate(WALK, Player("it", policy), episodes=3, episode_deadline=60.0)


# -- networks ------------------------------------------------------------------------------------------------


def network() -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))


def test_a_network_plays_as_it_is() -> None:
    """Its copies do, without dropout. Torch's Sequential is one policy, and not a list of layers."""
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    expected = evaluate(WALK, Player("it", partial(Module, make=network)), plan=0, episodes=2)
    report = evaluate(WALK, net, plan=0, episodes=2)
    assert report.failures == []
    assert [each.rewards for each in report.episodes] == [each.rewards for each in expected.episodes]
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_network_sees_numbers_in_the_precision_of_its_weights() -> None:
    report = evaluate(WALK, network().double(), plan=0)
    assert report.failures == []
    assert report.episodes[0].rewards == evaluate(WALK, network(), plan=0).episodes[0].rewards


class Net(torch.nn.Module):
    """A class of networks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer = torch.nn.Linear(2, 3)

    def forward(self, rows: Any) -> Any:
        return self.layer(rows)


class ActingNet(Net):
    """A network that says itself how it acts."""

    def act(self, obs: Any) -> int:
        return int(self(torch.as_tensor(obs)).argmax())


def test_a_class_of_networks_makes_them_and_a_network_with_act_is_a_policy() -> None:
    of_class, held, acting = (
        evaluate(WALK, Player("it", each), episodes=2, plan=0) for each in (Net, Net(), ActingNet())
    )
    assert of_class.failures == []
    assert of_class.digest == held.digest == acting.digest
    with pytest.raises(paceline.BadInput, match=r"is a torch module, but its factory does not say so.*its class Net"):
        evaluate(WALK, lambda: Net(), plan=0)


def test_a_network_that_was_trained_further_is_another_run(tmp_path: Any) -> None:
    net = network()
    evaluate(WALK, net, plan=0, out=tmp_path)
    assert evaluate(WALK, net, plan=0, out=tmp_path, resume=True).complete
    with torch.no_grad():
        net[0].bias += 1
    with pytest.raises(paceline.BadInput, match=r"0\.bias of policy 'Sequential' was torch"):
        evaluate(WALK, net, plan=0, out=tmp_path, resume=True)


# -- Stable-Baselines3 -----------------------------------------------------------------------------------------


def ppo() -> Any:
    import stable_baselines3 as sb3

    return sb3.PPO("MlpPolicy", Walk(), n_steps=8, batch_size=8, seed=1, device="cpu")


def test_a_model_that_is_held_plays_as_its_file_does(tmp_path: Any) -> None:
    model = ppo()
    model.save(tmp_path / "model.zip")
    saved = evaluate(WALK, f"sb3:PPO,weights={tmp_path / 'model.zip'},trust=true,name=PPO", episodes=2, plan=0)
    report = evaluate(WALK, model, episodes=2, plan=0, out=tmp_path / "run")
    assert report.failures == []
    assert report.digest == saved.digest
    assert [note for note in report.notes if not note.startswith("agents='auto'")] == []
    assert evaluate(WALK, model, episodes=2, plan=0, out=tmp_path / "run", resume=True).digest == saved.digest
    with torch.no_grad():
        model.policy.action_net.bias += 1
    with pytest.raises(paceline.BadInput, match=r"action_net\.bias of policy 'PPO' was 'torch\.float32"):
        evaluate(WALK, model, episodes=2, plan=0, out=tmp_path / "run", resume=True)


def test_an_archive_is_read_once_for_all_episodes(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ppo()
    model.save(tmp_path / "model.zip")
    load, reads = type(model).load, list[Any]()

    def counted(path: Any, *given: Any, **options: Any) -> Any:
        reads.append(path)
        return load(path, *given, **options)

    monkeypatch.setattr(type(model), "load", counted)
    report = evaluate(WALK, f"sb3:PPO,weights={tmp_path / 'model.zip'},trust=true", episodes=20, plan=0)
    assert report.failures == []
    assert len(reads) == 1


def test_models_and_networks_travel() -> None:
    here, there = (evaluate(WALK, [ppo(), network()], episodes=2, plan=plan) for plan in (0, 1))
    assert here.failures == []
    assert there.digest == here.digest


def test_a_model_sees_what_it_was_trained_on() -> None:
    """If its observations were normalized, they are in evaluation."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    envs = VecNormalize(DummyVecEnv([Walk]))
    model = sb3.PPO("MlpPolicy", envs, n_steps=8, batch_size=8, seed=1, device="cpu").learn(16)
    report = evaluate(WALK, Player("it", model), plan=0)
    by_hand = Player("it", lambda o: model.predict(envs.normalize_obs(o), deterministic=True)[0], acts=True)
    assert report.digest == evaluate(WALK, by_hand, plan=0).digest


# -- missions ------------------------------------------------------------------------------------------------


def test_the_class_of_an_env_is_a_mission_and_an_env_is_told_so() -> None:
    env = Walk()
    assert evaluate(type(env), "random", plan=0).complete
    with pytest.raises(paceline.BadInput, match=r"is no mission.*give what makes it, such as its class Walk"):
        evaluate(env, "random", plan=0)  # type: ignore[arg-type]
