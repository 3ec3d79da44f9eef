"""What games on a grid cost: what agents see of them, in windows and whole; agents that act in order, answered ahead.

    python benchmarks/grid.py [--quick] [--only NAME] [--markdown FILE] [--wait-quiet SECONDS]

Each measure below is a generator of rows; its docstring says what is divided by what. See README.md for how to read the
table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from command import run as run_command
from grid_speculation import turns_per_second
from quiet import Quiet, Row, gain_row, interleave

from paceline.worlds import make_treasure_hunt
from paceline.worlds.grid import Agent, Array, OneHot, World

VIEW = 4


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rounds: int = 15
    turns: int = 1000


QUICK = Sizes(rounds=5, turns=100)


class Walked:
    """What agents see, built as the framework of the source document does: the whole map is walked for each, then cut.

    Args:
        world: What is seen.
    """

    def __init__(self, world: World) -> None:
        self._view = OneHot(world)
        self.space = self._view.space

    def of(self, world: World, agents: Sequence[Agent]) -> Array:
        """[agents, kinds, rows, columns]: what `OneHot` gives, bit for bit."""
        seen = np.stack([self._walk(world, agent) for agent in agents])
        middle = world.reach
        seen[:, world.names.index("agent"), middle, middle] = [agent.moved for agent in agents]
        return seen

    def _walk(self, world: World, agent: Agent) -> Array:
        side, margin = 2 * world.reach + 1, world.reach
        field = np.zeros((len(world.names), world.height + 2 * margin, world.width + 2 * margin), np.uint8)
        field[0] = 1
        planes = [world[name].data for name in world.names]
        for place in world.inside.tolist():
            row, column = world.cell(place)
            for number, plane in enumerate(planes):
                field[number, row + margin, column + margin] = plane[place]
        row, column = world.cell(agent.place)
        return field[:, row : row + side, column : column + side]


def windows(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """CPU time of a turn of treasure hunt, 21 × 21 places, 10 agents: whole-map observations / windows of 9 × 9.

    The whole map walked in Python for each agent and cut to the same window; and the whole map given to each agent.
    """
    near, walked, whole = _Turns(), _Turns(), _Turns(view="map")
    walked.env.game.view = Walked(walked.env.world)
    check_same(near.env, walked.env)
    turns = sizes.turns
    contestants = {
        "windows": lambda: near.cost(turns),
        "walked": lambda: walked.cost(max(3, turns // 100)),
        "whole": lambda: whole.cost(turns),
    }
    slices = interleave(quiet, contestants, sizes.rounds)
    yield gain_row(
        "a turn of 10 agents: whole map walked for each, then cut / windows", slices["windows"], slices["walked"], 2
    )
    yield gain_row("a turn of 10 agents: whole map given to each / windows", slices["windows"], slices["whole"])


def check_same(one: Any, other: Any) -> None:
    """Fails if two envs do not show the same."""
    shown = [env.reset(seed=3)[0] for env in (one, other)]
    assert all((shown[0][agent] == shown[1][agent]).all() for agent in shown[0])


class _Turns:
    """A treasure hunt in which agents move at random.

    Args:
        view: How far they see.
    """

    def __init__(self, view: int | str = VIEW) -> None:
        self.env = make_treasure_hunt(agents=10, view=view, steps=1_000_000)
        self.env.reset(seed=0)
        moves = np.random.default_rng(0).integers(5, size=(64, 10)).tolist()
        self._actions = [dict(zip(self.env.possible_agents, row, strict=True)) for row in moves]

    def cost(self, turns: int) -> float:
        """CPU seconds of a turn."""
        begin = time.process_time()
        for number in range(turns):
            self.env.step(self._actions[number % 64])
        return (time.process_time() - begin) / turns


def speculation(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Wall time of a turn of 3, 8 and 20 agents that learn: asked one by one / answered ahead, and as auto chooses.

    The last row of each number of agents says how many answers were made again.
    """
    yield from turns_per_second(quiet, sizes.rounds)


def sorrel(quiet: Quiet, sizes: Sizes) -> Iterator[Row]:
    """Seconds of an experiment in the style of Sorrel: the source's loop, its plan, and ours; shares of a turn."""
    import sorrel_runs  # it needs torch

    yield from sorrel_runs.measured(quiet, quick=sizes == QUICK)


MEASURES: dict[str, Callable[[Quiet, Sizes], Iterator[Row]]] = {f.__name__: f for f in (windows, speculation, sorrel)}


if __name__ == "__main__":
    run_command(
        "Grid", str(__doc__).partition("\n")[0], MEASURES, Sizes(), QUICK, ("paceline", "torch", "numpy", "gymnasium")
    )
