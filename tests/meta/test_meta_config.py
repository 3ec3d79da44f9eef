"""Files for `paceline meta`: the keys of pomdp-baselines, as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline import BadInput
from paceline.meta.config import Read, read_config

RECURRENT = """
seed: 3
cuda: -1
env:
  {env_type: meta, env_name: Wind-v0, max_rollouts_per_task: 1, num_tasks: 60, num_train_tasks: 40, num_eval_tasks: 20}
train:
  {num_iters: 9, num_init_rollouts_pool: 7, num_rollouts_per_iter: 5, buffer_size: 1e6, num_updates_per_iter: 0.02,
   batch_size: 32, sampled_seq_len: -1, sample_weight_baseline: 0.0}
eval: {eval_stochastic: false, log_interval: 4, save_interval: -1, log_tensorboard: true}
policy:
  {separate: True, seq_model: lstm, algo_name: sac, action_embedding_size: 16, observ_embedding_size: 32,
   reward_embedding_size: 16, rnn_hidden_size: 128, dqn_layers: [64], policy_layers: [64, 32], lr: 0.0003, gamma: 0.9,
   tau: 0.005, sac: {entropy_alpha: 0.2, alpha_lr: 0.0003}, td3: {target_noise: 0.2}}
"""


def read(tmp_path: Path, text: str) -> Read:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return read_config(file)


def test_a_recurrent_configuration_is_read_as_it_is_written(tmp_path: Path) -> None:
    """What is for off-policy learners is accepted, and named."""
    found = read(tmp_path, RECURRENT)
    assert found.settings == {
        "env": "Wind-v0",
        "agent": "memory,cell=lstm,memory=128,hidden=64x32",
        "ppo": {"lr": 0.0003, "gamma": 0.9},
        "max_rollouts_per_task": 1,
        "num_train_tasks": 40,
        "num_eval_tasks": 20,
        "num_iters": 9,
        "num_init_rollouts_pool": 7,
        "num_rollouts_per_iter": 5,
        "num_updates_per_iter": 0.02,
        "log_interval": 4,
        "seed": 3,
    }
    assert found.tensorboard
    assert {"train.buffer_size", "train.batch_size", "policy.sac", "policy.tau", "cuda"} <= set(found.without_effect)
    assert not {"env.env_name", "train.num_iters", "policy.lr", "eval.log_tensorboard"} & set(found.without_effect)


GUIDE = """
# In your config YAML
env:
  env_type: meta
  env_name: AntDir-v0
  max_rollouts_per_task: 2
  num_train_tasks: 50
  num_eval_tasks: 20
  num_parallel_workers: 6  # NEW: Number of parallel environment workers

train:
  num_rollouts_per_iter: 12  # Will be distributed across 6 workers (2 each)
  ...
"""


def test_the_configuration_of_a_guide_is_read_as_it_stands_there(tmp_path: Path) -> None:
    """Where it leaves keys out, they are as by default, and it is said which line that was."""
    found = read(tmp_path, GUIDE)
    assert found.settings == {
        "env": "AntDir-v0",
        "max_rollouts_per_task": 2,
        "num_train_tasks": 50,
        "num_eval_tasks": 20,
        "num_rollouts_per_iter": 12,
    }
    assert (found.plan, found.gaps) == (6, (13,))


def test_a_section_without_keys_says_nothing(tmp_path: Path) -> None:
    found = read(tmp_path, "env: {env_name: Wind-v0}\ntrain:\n  # num_iters: 3\npolicy:\n  ...\n")
    assert found.settings == {"env": "Wind-v0"}


@pytest.mark.parametrize(
    ("policy", "agent"),
    [("seq_model: mlp", "markov"), ("arch: mlp, policy_layers: [8]", "markov,hidden=8"), ("lr: 0.1", None)],
)
def test_the_sequence_model_says_who_learns(tmp_path: Path, policy: str, agent: str | None) -> None:
    found = read(tmp_path, f"env: {{env_name: Wind-v0, num_parallel_workers: 6}}\npolicy: {{{policy}}}")
    assert (found.settings.get("agent"), found.plan) == (agent, 6)


@pytest.mark.parametrize("env", ["oracle: true", "multi_task: true"])
def test_who_is_shown_the_task_is_an_oracle(tmp_path: Path, env: str) -> None:
    assert read(tmp_path, f"env: {{env_name: Wind-v0, {env}}}").settings["agent"] == "oracle"


def test_flags_count_before_a_file_and_what_they_leave_open_it_says(tmp_path: Path) -> None:
    """The sizes of the network and other settings of the learner stay; what another agent has no use for is named."""
    file = tmp_path / "config.yaml"
    file.write_text(RECURRENT)
    found = read_config(file, "markov", "lr=0.1")
    assert (found.settings["agent"], found.settings["ppo"]) == ("markov,hidden=64x32", {"lr": 0.1, "gamma": 0.9})
    assert {"policy.seq_model", "policy.rnn_hidden_size"} <= set(found.without_effect)
    assert read_config(file, "memory_markov,memory=8").settings["agent"] == (
        "memory_markov,memory=8,cell=lstm,hidden=64x32"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env: {env_nam: Wind-v0}", "env.env_nam is not known; did you mean env_name"),
        ("train: {}", "env is missing"),
        ("env:", "env is missing"),
        ("env: {env_name: Wind-v0, env_type: pomdp}", "env.env_type is 'pomdp'"),
        ("env: {env_name: Wind-v0, num_parallel_workers: 2}\nplan: inline", "both say where rollouts are played"),
        ("env: {env_name: Wind-v0}\nagent: markov\npolicy: {seq_model: gru}", "both say who learns"),
        ("env: {env_name: Wind-v0, multi_task: true}\nagent: markov", "both say who learns"),
        ("env: {env_name: Wind-v0, oracle: true}\npolicy: {seq_model: gru}", "an oracle .* has no memory"),
        (
            "env: {env_name: Wind-v0}\npolicy: {seq_model: mlp, rnn_hidden_size: 8}",
            "policy.rnn_hidden_size has no effect, as markov has no memory",
        ),
        (
            "env: {env_name: Wind-v0}\nagent: 'memory,hidden=8'\npolicy: {policy_layers: [8]}",
            r"agent \(memory,hidden=8\) and policy.policy_layers both say hidden",
        ),
        ("env: {env_name: Wind-v0}\npolicy: {lr: 0.1}\nppo: {lr: 0.2}", "policy.lr and ppo.lr both say lr"),
        ("env: {env_name: Wind-v0}\npolicy: {seq_model: gru, arch: mlp}", "both say the same"),
    ],
)
def test_what_makes_no_sense_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read(tmp_path, text)
