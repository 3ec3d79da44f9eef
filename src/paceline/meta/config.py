"""What a file says about a meta-training: the sections and keys of pomdp-baselines, and the keywords of `meta`.

env: {env_name: …, max_rollouts_per_task: 2, num_parallel_workers: 6}     keywords of `meta`
train: {num_rollouts_per_iter: 12, …}                                 ──► where it runs
policy: {seq_model: gru, rnn_hidden_size: 128}, eval: {…}                 what does nothing here, to be told
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from paceline.errors import BadInput
from paceline.settings import Settings, read_yaml


class Env(Settings):
    """The world."""

    env_name: str
    env_type: Literal["meta"] = "meta"
    max_rollouts_per_task: int | None = None
    num_train_tasks: int | None = None
    num_eval_tasks: int | None = None
    num_parallel_workers: int | None = Field(None, ge=0)
    oracle: bool = False
    num_tasks: int | None = None
    multi_task: bool | None = None


class Train(Settings):
    """How long, and how much at a time."""

    num_iters: int | None = None
    n_env_steps_total: float | None = None
    num_init_rollouts_pool: int | None = None
    num_rollouts_per_iter: int | None = None
    num_updates_per_iter: int | float | None = None
    buffer_size: float | None = None
    batch_size: int | None = None
    sampled_seq_len: int | None = None
    sample_weight_baseline: float | None = None


class Eval(Settings):
    """When the agent is tried on unseen tasks."""

    log_interval: int | None = None
    log_tensorboard: bool | None = None
    eval_stochastic: bool | None = None
    save_interval: int | None = None
    num_episodes_per_task: int | None = None


class Policy(Settings):
    """The network, and how it learns."""

    seq_model: Literal["gru", "lstm", "mlp"] | None = None
    arch: Literal["gru", "lstm", "mlp"] | None = None
    rnn_hidden_size: int | None = None
    rnn_num_layers: int | None = None
    policy_layers: list[int] | None = None
    lr: float | None = None
    gamma: float | None = None
    algo_name: str | None = None
    algo: str | None = None
    separate: bool | None = None
    action_embedding_size: int | None = None
    state_embedding_size: int | None = None
    observ_embedding_size: int | None = None
    reward_embedding_size: int | None = None
    dqn_layers: list[int] | None = None
    tau: float | None = None
    entropy_alpha: float | None = None
    automatic_entropy_tuning: bool | None = None
    alpha_lr: float | None = None
    exploration_noise: float | None = None
    target_noise: float | None = None
    target_noise_clip: float | None = None
    sac: dict[str, Any] | None = None
    td3: dict[str, Any] | None = None


class Config(Settings):
    """The sections of a file."""

    env: Env
    train: Train = Train()
    eval: Eval = Eval()
    policy: Policy = Policy()
    agent: str | None = None
    ppo: dict[str, Any] | None = None
    lag: int | None = None
    seed: int | None = Field(None, ge=0)
    lanes: int | None = None
    device: str | None = None
    cuda: int | None = None
    plan: str | int | None = None
    out: str | None = None


@dataclass(frozen=True)
class Read:
    """What a file says.

    Attributes:
        settings: Keywords of `meta`.
        plan: Where it runs; None: it does not say.
        out: The directory of the run; None: it does not say.
        tensorboard: Whether event files are written.
        without_effect: Keys that mean something to other learners, and do nothing here.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    plan: str | int | None = None
    out: str | None = None
    tensorboard: bool = False
    without_effect: tuple[str, ...] = ()


_TAKEN = {
    "env": ("max_rollouts_per_task", "num_train_tasks", "num_eval_tasks"),
    "train": (
        "num_iters",
        "n_env_steps_total",
        "num_init_rollouts_pool",
        "num_rollouts_per_iter",
        "num_updates_per_iter",
    ),
    "eval": ("log_interval",),
}
_MEANT = {
    "env": ("env_type", "env_name", "num_parallel_workers", "oracle", "multi_task"),
    "eval": ("log_tensorboard",),
    "policy": ("seq_model", "arch", "rnn_hidden_size", "rnn_num_layers", "policy_layers", "lr", "gamma"),
}


def read_config(path: Path) -> Read:
    """What a file of YAML says; only what it says.

    Raises:
        BadInput: it cannot be read, has a key that there is none of, or a value that does not fit.
    """
    config = Config.read(read_yaml(path, "env and train"), str(path))
    settings: dict[str, Any] = {"env": config.env.env_name}
    for section, names in _TAKEN.items():
        settings |= {name: getattr(getattr(config, section), name) for name in names}
    settings |= {name: getattr(config, name) for name in ("lag", "seed", "lanes", "device")}
    settings |= {"agent": _agent(config), "ppo": _learning(config) or None}
    workers = config.env.num_parallel_workers
    if workers is not None and config.plan is not None:
        raise BadInput(f"{path}: num_parallel_workers and plan both say where rollouts are played: give one of them")
    return Read(
        {name: value for name, value in settings.items() if value is not None},
        config.plan if workers is None else 0 if workers == 1 else workers,
        config.out,
        bool(config.eval.log_tensorboard),
        tuple(_without_effect(config)),
    )


def _agent(config: Config) -> str | None:
    """The agent, with the options of its network."""
    policy = config.policy
    model = policy.seq_model or policy.arch
    if config.agent is not None and (config.env.oracle or model):
        raise BadInput("agent, and oracle or seq_model, both say who learns: give one of them")
    oracle = config.env.oracle or bool(config.env.multi_task)
    kind = "oracle" if oracle else "markov" if model == "mlp" else "memory"
    options: dict[str, Any] = {
        "cell": model if model != "mlp" else None,
        "memory": policy.rnn_hidden_size,
        "layers": policy.rnn_num_layers,
    }
    given = {name: value for name, value in options.items() if value is not None} if kind == "memory" else {}
    if policy.policy_layers:
        given["hidden"] = "x".join(map(str, policy.policy_layers))
    if config.agent is None and not oracle and model is None and not given:
        return None
    return ",".join([config.agent or kind, *(f"{name}={value}" for name, value in given.items())])


def _learning(config: Config) -> dict[str, Any]:
    told = {"lr": config.policy.lr, "gamma": config.policy.gamma}
    return {**{name: value for name, value in told.items() if value is not None}, **(config.ppo or {})}


def _without_effect(config: Config) -> Iterator[str]:
    """The keys of a source's configuration that are for its own learners."""
    for section in ("env", "train", "eval", "policy"):
        found = getattr(config, section)
        known = {*_TAKEN.get(section, ()), *_MEANT.get(section, ())}
        yield from (f"{section}.{name}" for name in sorted(found.model_fields_set) if name not in known)
    if config.cuda is not None:
        yield "cuda"
