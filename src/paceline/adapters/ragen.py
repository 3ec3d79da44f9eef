"""RAGEN's `EnvStateManager`, by its own name and with its own attributes; everything is done by `Groups`."""

from __future__ import annotations

from typing import Any

from paceline.engine import Plan, Trace
from paceline.groups import EnvStatus, Groups


class EnvStateManager(Groups):
    """Many environments in groups, as RAGEN's trainers and agent proxies know them.

    `reset`, `step`, `get_rollout_states`, `render` and `close` take and give what upstream's do. `use_multiprocessing`
    can be switched in mid-run.

    Args:
        config: RAGEN's configuration: a dict, an OmegaConf node, or the path of a YAML file.
        mode: "train" or "val".
        plan: As for `Groups`; by default the configuration decides.
        trace: Records where the time goes.
    """

    def __init__(
        self, config: Any, mode: str = "train", *, plan: str | int | Plan = "auto", trace: Trace | None = None
    ) -> None:
        super().__init__(config, mode, plan=plan, trace=trace)
        self.sys_config = config

    @property
    def envs(self) -> list[dict[str, Any]]:
        """What upstream keeps of every environment. The environment itself lives in its worker."""
        statuses = self.statuses or [EnvStatus() for _ in range(len(self))]
        return [
            {
                "tag": name,
                "group_id": index // self.group_size,
                "env_id": index,
                "config": self.config.tags[name].env_config or {},
                "status": statuses[index],
                "max_actions_per_traj": self.config.tags[name].max_actions_per_traj,
            }
            for index, name in enumerate(self.config.tag_of_each())
        ]
