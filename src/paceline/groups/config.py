"""The configuration of groups, in RAGEN's shape: read from a dict, OmegaConf or a YAML file, checked, and frozen.

    es_manager   how many groups of which tags, penalties, workers      train and val have groups of their own
    custom_envs  tag → kind of environment, its options, its limits
    agent_proxy  turns, actions per turn, how a conversation is built
    seed         the base seed of train and val

Other top-level keys belong to the trainer and are left alone; an unknown key in these four is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from paceline.catalog.ragen import Envs
from paceline.catalog.text_envs import TAGS
from paceline.errors import BadInput
from paceline.settings import Settings, read_yaml

VAL_SEED = 123
MODES = ("train", "val")
TIMEOUTS = ("step_timeout", "trajectory_timeout")
"""Of a call and of a trajectory: in `es_manager` for all tags; in `custom_envs.TAG` for one, which counts more."""

_log = logging.getLogger("paceline")
_told: set[float] = set()


Seconds = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


class Tag(Settings):
    """One kind of environment, as `custom_envs` names it."""

    env_type: str
    max_actions_per_traj: int = Field(10, ge=1)
    env_instruction: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    parallel_friendly: bool = False  # upstream's switch for threads: every environment is safe to run in parallel here
    max_workers: int | None = Field(None, ge=0)  # upstream's, per tag: one budget serves all
    env_config: dict[Any, Any] | None = None
    step_timeout: Seconds | None = None
    trajectory_timeout: Seconds | None = None
    dynamics: Literal["group", "member"] = "group"


class EnvConfigs(Settings):
    """Which tags have how many groups."""

    tags: tuple[str, ...]
    n_groups: tuple[int, ...] | None = None


class Side(Settings):
    """The groups of one mode."""

    env_groups: int = Field(ge=0)
    group_size: int = Field(1, ge=1)
    env_configs: EnvConfigs

    def shares(self, where: str) -> tuple[int, ...]:
        """How many groups each tag has."""
        tags, given = self.env_configs.tags, self.env_configs.n_groups
        if given is None:
            if not tags or self.env_groups % len(tags):
                raise BadInput(
                    f"{where}: {self.env_groups} groups cannot be shared evenly by {len(tags)} tags; give n_groups"
                )
            return (self.env_groups // len(tags),) * len(tags)
        if len(given) != len(tags):
            raise BadInput(f"{where}.env_configs: {len(tags)} tags but {len(given)} n_groups; give one number per tag")
        if any(count < 0 for count in given):
            raise BadInput(f"{where}.env_configs.n_groups is {list(given)}; a tag has no groups, or some, not fewer")
        if sum(given) != self.env_groups:
            raise BadInput(
                f"{where}.env_configs.n_groups is {list(given)}, which makes {sum(given)} groups; "
                f"env_groups is {self.env_groups}"
            )
        return given


class Manager(Settings):
    """What `es_manager` says for both modes."""

    format_penalty: float = Field(-0.1, strict=True, allow_inf_nan=False)
    use_multiprocessing: bool | None = None
    max_workers: int | None = Field(None, ge=0, strict=True)
    sequential_env_types: tuple[str, ...] = ()
    step_timeout: Seconds | None = None
    trajectory_timeout: Seconds | None = None
    check_groups: bool = True
    envs: Envs = "paceline"
    train: Any = None
    val: Any = None


class Seeds(Settings):
    """The base seeds; one number counts for both modes."""

    train: Any = None
    val: Any = None

    def of(self, mode: str) -> Any:
        """That of a mode."""
        return self.train if mode == "train" else self.val


class RewardNormalization(Settings):
    """How a trainer makes advantages of returns; kept for it, not used here."""

    grouping: Literal["state", "batch", "inductive"] = "state"
    method: Literal["identity", "mean_std", "mean", "asym_clip"] = "identity"


class Talk(Settings):
    """What `agent_proxy` says: how long a conversation is, and how it is written."""

    max_turn: int = Field(5, ge=1)
    max_actions_per_turn: int = Field(2, ge=1)
    action_sep: str = Field("||", min_length=1)
    enable_think: bool = True
    context_window_mode: Literal["full", "limited_multi_turn", "single_turn"] = "full"
    max_context_window: int | None = -1
    use_turn_scores: bool = False
    batch_adjust_mode: str = "copy"
    reward_normalization: RewardNormalization = RewardNormalization()


@dataclass(frozen=True)
class GroupsConfig:
    """Everything that a run of groups follows from."""

    mode: str
    group_size: int
    shares: tuple[tuple[str, int], ...]
    tags: Mapping[str, Tag]
    manager: Manager
    talk: Talk
    base_seed: int | None
    format_penalty: float

    @property
    def env_groups(self) -> int:
        """How many groups there are."""
        return sum(count for _, count in self.shares)

    @property
    def timeouts(self) -> dict[str, float]:
        """All limits in seconds that are set, by the keys that say so."""
        written: dict[str, Tag | Manager] = {"es_manager": self.manager}
        written |= {f"custom_envs.{name}": tag for name, tag in self.tags.items()}
        said = {f"{where}.{name}": getattr(part, name) for where, part in written.items() for name in TIMEOUTS}
        return {key: seconds for key, seconds in said.items() if seconds is not None}

    def limits(self, tag: str, step_timeout: float | None) -> tuple[float | None, float | None]:
        """Seconds for a call and for a trajectory of a tag.

        Args:
            tag: Which one.
            step_timeout: Seconds that a call may take where a tag says nothing.

        Returns:
            For a call None, if the pool's own limit is the one that holds.
        """
        own, whole = self.tags[tag], self.tags[tag].trajectory_timeout
        whole = self.manager.trajectory_timeout if whole is None else whole
        return step_timeout if own.step_timeout is None and whole is not None else own.step_timeout, whole

    def tag_of_each(self) -> list[str]:
        """The tag of every environment, in the order of their ids."""
        return [tag for tag, count in self.shares for _ in range(count * self.group_size)]


def read_config(config: Any, mode: str) -> GroupsConfig:
    """Reads a configuration: a mapping, an OmegaConf node, a namespace, or the path of a YAML file.

    Raises:
        BadInput: a key is unknown, or a value makes no sense; names the key.
    """
    if mode not in MODES:
        raise BadInput(f"mode={mode!r}; give 'train' or 'val'")
    top = _top(config)
    manager = Manager.read(_part(top, "es_manager"), "es_manager")
    for other in MODES:
        if getattr(manager, other) is not None:
            Side.read(getattr(manager, other), f"es_manager.{other}")
    side = Side.read(_side(manager, mode), f"es_manager.{mode}")
    shares = tuple(zip(side.env_configs.tags, side.shares(f"es_manager.{mode}"), strict=True))
    custom = _part(top, "custom_envs") or {}
    if not isinstance(custom, Mapping):
        raise BadInput(f"custom_envs is a {type(custom).__name__}; expected tags and what they stand for")
    tags = _tags(custom, [tag for tag, _ in shares])
    return GroupsConfig(
        mode=mode,
        group_size=side.group_size,
        shares=shares,
        tags=tags,
        manager=manager,
        talk=Talk.read(_part(top, "agent_proxy"), "agent_proxy"),
        base_seed=_seed(_part(top, "seed"), mode),
        format_penalty=_penalty(manager.format_penalty),
    )


def _side(manager: Manager, mode: str) -> Any:
    side = getattr(manager, mode)
    if side is None:
        raise BadInput(f"es_manager.{mode} is missing: it says env_groups, group_size and env_configs")
    return side


def _tags(custom: Mapping[str, Any], used: list[str]) -> dict[str, Tag]:
    for tag in used:
        if tag not in custom and tag not in TAGS:
            known = ", ".join(sorted({*custom, *TAGS}))
            raise BadInput(f"tag {tag!r} is not in custom_envs, and not built in; there are {known}")
    return {tag: Tag.read(custom[tag] if tag in custom else TAGS[tag], f"custom_envs.{tag}") for tag in used}


def _seed(seed: Any, mode: str) -> int | None:
    if isinstance(seed, Mapping):
        seed = Seeds.read(seed, "seed").of(mode)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise BadInput(f"seed.{mode} is {seed!r}; give a whole number from 0")
    return seed


def _penalty(asked: float) -> float:
    """A penalty is added, so it is negative; written as a positive number it still means a penalty."""
    if asked <= 0:
        return asked
    if asked not in _told:
        _told.add(asked)
        _log.warning("es_manager.format_penalty is %g: taken as a penalty of %g, which is added", asked, -asked)
    return -asked


# -- where a configuration comes from --------------------------------------------------------------------


def _top(config: Any) -> Any:
    top = read_yaml(Path(config), "es_manager") if isinstance(config, str | Path) else config
    if _part(top, "es_manager") is None:
        hint = ""
        if _part(top, "defaults") is not None:
            hint = "; it has Hydra's defaults list: compose it with Hydra, and give the result"
        raise BadInput(f"the configuration has no es_manager{hint}")
    return top


def _part(top: Any, name: str) -> Any:
    """One part as plain Python. Only the parts that are read: others may hold interpolations that nobody resolves."""
    found = top.get(name) if hasattr(top, "get") else getattr(top, name, None)
    return _plain(found)


def _resolved(node: Any) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.to_container(node, resolve=True)
    except OmegaConfBaseException as error:
        raise BadInput(f"the configuration cannot be resolved: {error}") from error


def _plain(value: Any) -> Any:
    if type(value).__module__.partition(".")[0] == "omegaconf":
        return _resolved(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return _plain(vars(value)) if type(value).__name__ in ("SimpleNamespace", "Namespace") else value
