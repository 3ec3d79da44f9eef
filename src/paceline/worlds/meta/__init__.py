"""Worlds for meta-RL: the rules of one world differ from task to task, and a task is a value that `reset` is given.

    tasks.py          kinds of tasks, and sets of them for training and for evaluation
    world.py          TaskWorld: what makes a Gymnasium env a world with tasks
    point.py          a point on a plane: PointRobot-v0, PointRobot-H20-v0, PointRobotSparse-v0, Wind-v0
    cheetah.py        HalfCheetahVel-v0, HalfCheetahDir-v0 (MuJoCo)
    ant.py            AntDir-v0, AntDir2D-v0, AntFwdBack-v0, AntGoal-v0 (MuJoCo)
    humanoid.py       HumanoidDir-v0 (MuJoCo)
    meta_world.py     Meta-World, if that package is installed
    varibad.py        VariBadWrapper: several episodes of one task are one long episode
    registration.py   the ids, for `gymnasium.make`

A name is imported when it is asked for: to register the ids costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.worlds.meta.tasks import Angles, Choice, Circle, Disk, HalfCircle, Interval, Square, check_disjoint
    from paceline.worlds.meta.varibad import VariBadWrapper, inner_returns
    from paceline.worlds.meta.world import TaskWorld

__all__ = [
    "Angles",
    "Choice",
    "Circle",
    "Disk",
    "HalfCircle",
    "Interval",
    "Square",
    "TaskWorld",
    "VariBadWrapper",
    "check_disjoint",
    "inner_returns",
]

_KINDS = ("Angles", "Choice", "Circle", "Disk", "HalfCircle", "Interval", "Square", "check_disjoint")
_HOMES = {
    **dict.fromkeys(_KINDS, "tasks"),
    "TaskWorld": "world",
    "VariBadWrapper": "varibad",
    "inner_returns": "varibad",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first asked for."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
