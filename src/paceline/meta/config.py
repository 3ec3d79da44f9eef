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
from paceline.options import split
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
        gaps: Lines that say "..." alone: a guide leaves keys out there.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    plan: str | int | None = None
    out: str | None = None
    tensorboard: bool = False
    without_effect: tuple[str, ...] = ()
    gaps: tuple[int, ...] = ()


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


def read_config(path: Path, agent: str | None = None, ppo: str | None = None) -> Read:
    """What a file of YAML says; only what it says.

    Args:
        path: The file.
        agent: Who learns, if not who the file says; what the file says of its network counts where it has that.
        ppo: How it learns, `key=value,…`; each counts before what the file says.

    Raises:
        BadInput: it cannot be read, has a key that there is none of, one that contradicts another or has no effect, or
            a value that does not fit.
    """
    gaps: list[int] = []
    said = read_yaml(path, "env and train", gaps)
    config = Config.read({name: value for name, value in said.items() if value is not None}, str(path))
    settings: dict[str, Any] = {"env": config.env.env_name}
    for section, names in _TAKEN.items():
        settings |= {name: getattr(getattr(config, section), name) for name in names}
    settings |= {name: getattr(config, name) for name in ("lag", "seed", "lanes", "device")}
    written, unused = _agent(config, str(path), agent)
    settings |= {"agent": written, "ppo": _learning(config, str(path), ppo) or None}
    workers = config.env.num_parallel_workers
    if workers is not None and config.plan is not None:
        raise BadInput(f"{path}: num_parallel_workers and plan both say where rollouts are played: give one of them")
    return Read(
        {name: value for name, value in settings.items() if value is not None},
        config.plan if workers is None else 0 if workers == 1 else workers,
        config.out,
        bool(config.eval.log_tensorboard),
        (*unused, *_without_effect(config)),
        tuple(gaps),
    )


_NETWORK = {"cell": "seq_model", "memory": "rnn_hidden_size", "layers": "rnn_num_layers", "hidden": "policy_layers"}
"""Option of an agent → the key of `policy` that says it."""
_OF_A_MEMORY = ("cell", "memory", "layers")


def _agent(config: Config, path: str, instead: str | None) -> tuple[str | None, list[str]]:
    """The agent, with the options of its network; and keys that say nothing, as somebody else learns."""
    policy = config.policy
    model, shown = _model(config, path), config.env.oracle or bool(config.env.multi_task)
    if config.agent is not None and (shown or model):
        raise BadInput(f"{path}: agent, and oracle, multi_task or seq_model, both say who learns: give one of them")
    if shown and model in ("gru", "lstm"):
        raise BadInput(
            f"{path}: an oracle is shown the task, and has no memory: leave oracle (multi_task) away, or "
            f"seq_model={model}"
        )
    said: dict[str, Any] = {
        "cell": model if model != "mlp" else None,
        "memory": policy.rnn_hidden_size,
        "layers": policy.rnn_num_layers,
        "hidden": "x".join(map(str, policy.policy_layers)) if policy.policy_layers else None,
    }
    said = {name: value for name, value in said.items() if value is not None}
    if instead is None and config.agent is None and not shown and model is None and not said:
        return None, []
    kind = "oracle" if shown else "markov" if model == "mlp" else "memory"
    whole = next(each for each in (instead, config.agent, kind) if each is not None)
    name, options = split(whole)
    foreign = [] if name in ("memory", "memory_markov") else [part for part in _OF_A_MEMORY if part in said]
    twice = [part for part in said if part in options]
    if instead is None:
        for part in foreign:
            raise BadInput(f"{path}: policy.{_NETWORK[part]} has no effect, as {name} has no memory: leave it away")
        for part in twice:
            raise BadInput(f"{path}: agent ({whole}) and policy.{_NETWORK[part]} both say {part}: give one of them")
    added = [f"{part}={value}" for part, value in said.items() if part not in (*foreign, *twice)]
    return ",".join([whole, *added]), [f"policy.{_NETWORK[part]}" for part in foreign]


def _model(config: Config, path: str) -> str | None:
    model, arch = config.policy.seq_model, config.policy.arch
    if model and arch and model != arch:
        raise BadInput(f"{path}: policy.seq_model={model} and policy.arch={arch} both say the same: give one of them")
    return model or arch


def _learning(config: Config, path: str, flags: str | None) -> dict[str, Any]:
    said = {"lr": config.policy.lr, "gamma": config.policy.gamma}
    said = {name: value for name, value in said.items() if value is not None}
    own = config.ppo or {}
    for name in said.keys() & own.keys():
        raise BadInput(f"{path}: policy.{name} and ppo.{name} both say {name}: give one of them")
    return {**said, **own, **(split(f"ppo,{flags}")[1] if flags else {})}


def _without_effect(config: Config) -> Iterator[str]:
    """The keys of a source's configuration that are for its own learners."""
    for section in ("env", "train", "eval", "policy"):
        found = getattr(config, section)
        known = {*_TAKEN.get(section, ()), *_MEANT.get(section, ())}
        yield from (f"{section}.{name}" for name in sorted(found.model_fields_set) if name not in known)
    if config.cuda is not None:
        yield "cuda"
