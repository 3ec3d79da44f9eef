"""Groups: many text environments for agents that answer in words, exact at any number of workers."""

from paceline.groups.config import GroupsConfig, read_config
from paceline.groups.groups import Answer, Groups
from paceline.groups.trajectory import EnvStatus

__all__ = ["Answer", "EnvStatus", "Groups", "GroupsConfig", "read_config"]
