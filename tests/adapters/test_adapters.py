"""Networks of other libraries as policies: torch modules and their weights, models of Stable-Baselines3."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from networks import Net

import paceline
from paceline.adapters.torch_module import Module
from paceline.catalog import find_policies
from paceline.evaluate import Report, evaluate
from paceline.types import Seat

CARTPOLE = "gym:CartPole-v1"
SEAT = Seat("agent_0", 0, spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2, start=3), "mission")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same weights, kept in every way: tensors alone, and with pickles around them."""
    from safetensors.torch import save_file

    torch.manual_seed(3)
    net, directory = Net(), tmp_path_factory.mktemp("weights")
    files = {kind: directory / f"net.{kind}" for kind in ("safetensors", "pt", "pickled", "other", "text")}
    save_file(net.state_dict(), files["safetensors"])
    torch.save(net.state_dict(), files["pt"])
    torch.save(Holder(net.state_dict()), files["pickled"])
    torch.save({"strange": torch.zeros(2)}, files["other"])
    files["text"].write_text("no weights at all")
    return files


class Holder(dict):
    """More than tensors: to unpickle it runs code of its own."""

    def __reduce__(self) -> Any:
        return (Holder, (dict(self),))


def played(spec: str, **options: Any) -> Report:
    return evaluate(CARTPOLE, spec, **{"episodes": 2, "plan": 0, "agents": "off", **options})


def test_a_torch_module_plays_the_same_from_tensors_of_any_file(weights: dict[str, Path]) -> None:
    safe = played(f"torch:networks:Net,weights={weights['safetensors']},name=net")
    assert safe.failures == []
    assert played(f"torch:networks:Net,weights={weights['pt']},name=net").digest == safe.digest
    assert played(f"torch:networks:Net,weights={weights['pickled']},trust=true,name=net").digest == safe.digest


@pytest.mark.parametrize(("plan", "agents"), [(0, "process"), (2, "off"), (0, "gpu"), (0, "batch")])
def test_a_torch_module_plays_the_same_everywhere(weights: dict[str, Path], plan: int, agents: str) -> None:
    spec = f"torch:networks:Net,weights={weights['pt']},kw.sampled=true"
    report = played(spec, plan=plan, agents=agents, episodes=3)
    assert report.failures == []
    assert report.digest == played(spec, episodes=3).digest


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        ("pickled", "it holds more than tensors; if you trust where it comes from, add trust=true"),
        ("other", "cannot be loaded: Error.* in loading state_dict for Net"),
        ("text", "cannot be loaded"),
    ],
)
def test_weights_that_are_not_to_be_trusted_or_do_not_fit(weights: dict[str, Path], kind: str, complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        played(f"torch:networks:Net,weights={weights[kind]}")


def test_the_highest_score_wins_and_numbers_begin_where_the_space_does() -> None:
    module = Module(SEAT, make=partial(torch.nn.Linear, 4, 2))
    rows = [np.eye(4, dtype=np.float32)[row] for row in range(4)]
    mask = np.array([True, True, False, True])
    answers = module.act_batch(rows, [SEAT] * 4, mask, [None] * 4)
    assert answers[2] is None
    assert {answer for answer in answers if answer is not None} <= {3, 4}


def test_a_box_is_answered_with_what_the_module_gives() -> None:
    seat = Seat("a", 0, SEAT.observation_space, spaces.Box(-9, 9, (2,), np.float32), "mission")
    module = Module(seat, make=partial(torch.nn.Linear, 4, 2))
    (answer,) = module.act_batch([np.ones(4, np.float32)], [seat], np.array([True]), [None])
    assert (answer.shape, answer.dtype) == ((2,), np.float32)


def test_a_device_that_is_not_there_is_told() -> None:
    with pytest.raises(paceline.BadInput, match="device='tpu': give auto, cpu, cuda or mps"):
        evaluate("forage", "torch", device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(paceline.BadInput, match=r"device='cuda' is not there.*use device='cpu'"):
            evaluate("forage", "torch", device="cuda")
    assert evaluate("forage,steps=3", "torch", device="auto", plan=0).identity["device"] in ("cpu", "cuda", "mps")


# -- Stable-Baselines3 ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real PPO model, trained for a moment, and saved."""
    import gymnasium
    from stable_baselines3 import PPO

    ppo = PPO("MlpPolicy", gymnasium.make("CartPole-v1"), n_steps=64, batch_size=32, n_epochs=2, seed=1, device="cpu")
    ppo.learn(256)
    path = tmp_path_factory.mktemp("model") / "ppo.zip"
    ppo.save(path)
    return path


def test_a_model_of_sb3_plays_as_it_plays_at_home(model: Path) -> None:
    import gymnasium
    from stable_baselines3 import PPO

    report = played(f"sb3:PPO,weights={model},trust=true", seed=5)
    assert report.failures == []
    ppo, env = PPO.load(model, device="cpu"), gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=5)
    total, over = 0.0, False
    while not over:
        obs, reward, ended, cut, _ = env.step(int(ppo.predict(obs, deterministic=True)[0]))
        total, over = total + float(reward), ended or cut
    assert report.episodes[0].rewards == {"agent_0": total}


def test_a_model_trained_under_vec_normalize_sees_what_it_saw_in_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    vec = VecNormalize(make_vec_env("CartPole-v1", 1, seed=1))
    ppo = PPO("MlpPolicy", vec, n_steps=64, batch_size=32, n_epochs=1, seed=1, device="cpu")
    ppo.learn(128)
    ppo.save(tmp_path / "m.zip")
    vec.save(str(tmp_path / "vec.pkl"))
    spec = f"sb3:PPO,weights={tmp_path / 'm.zip'},trust=true"
    (player,) = find_policies([f"{spec},normalize={tmp_path / 'vec.pkl'}"])
    seat = Seat("agent_0", 0, vec.observation_space, vec.action_space, "CartPole-v1")
    seen = np.array([0.1, 2.0, 0.1, -2.0], np.float32)
    policy = player.factory(seat)
    policy.reset(1)
    assert policy.act(seen) == ppo.predict(vec.normalize_obs(seen), deterministic=True)[0]
    assert policy._normalized.normalize_obs(seen).tobytes() == vec.normalize_obs(seen).tobytes()
    assert "VecNormalize" not in caplog.text
    find_policies([spec])[0].factory(seat)
    assert "was trained under VecNormalize" in caplog.text
    (odd,) = find_policies([f"{spec},normalize={tmp_path / 'm.zip'}"])
    with pytest.raises(paceline.BadInput, match="cannot be read as a saved VecNormalize"):
        odd.factory(seat)


@pytest.mark.parametrize("sampled", ["false", "true"])
def test_a_model_of_sb3_plays_the_same_everywhere(model: Path, sampled: str) -> None:
    spec = f"sb3:PPO,weights={model},trust=true,kw.sampled={sampled}"
    here = played(spec)
    assert here.failures == []
    assert {played(spec, plan=2).digest, played(spec, agents="process").digest} == {here.digest}


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("sb3:PPO", "sb3:PPO needs the model's file: write sb3:PPO,weights=FILE.zip,trust=true"),
        ("sb3:PPO,weights={model}", "is loaded by pickle, which can run anything: add trust=true"),
        ("sb3:PPPO,weights={model},trust=true", "has no algorithm 'PPPO'; it has PPO, A2C"),
    ],
)
def test_models_that_cannot_be_had_or_must_not_be_loaded(model: Path, spec: str, complaint: str) -> None:
    with pytest.raises(paceline.BadInput, match=complaint):
        played(spec.format(model=model))


def test_nothing_is_loaded_to_name_a_policy(model: Path) -> None:
    (player,) = find_policies([f"sb3:PPO,weights={model}"])
    assert player.name == "sb3:PPO"
