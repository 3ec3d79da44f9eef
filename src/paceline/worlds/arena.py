"""What the worlds of many agents share: seats, moves in a fair order, windows, and the end.

An arena keeps to the protocol of PettingZoo's `ParallelEnv`, and does not need PettingZoo.

    actions ──► act, each in its turn ──► the world goes on ──► windows, rewards, flags, infos
                (turns are drawn in every step)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from paceline.errors import BadInput
from paceline.worlds.board import MODES, REACH, Array, Board, Moves, Planes, choice, mode, whole
from paceline.worlds.picture import Scene, rgb, text

LONGEST = 1_000_000


class Arena:
    """A board on which several agents act at the same time; all of them stay until the end.

    A world says what the board holds (`_lay_out`), what agents do (`_act`), what grows (`_go_on`) and what it looks
    like (`_scene`). What it counts per agent goes into the infos.

    Args:
        planes: The names of the board's planes; `wall` comes first, and `agent` is among them.
        actions: How many actions an agent has; the first five are moves.
        counts: The names of what is counted per agent.
        agents: How many agents there are.
        height: Rows of the board.
        width: Columns of the board.
        steps: How long an episode is.
        render_mode: "rgb_array", "ansi" or None.
        reach: How far agents see, in each direction.
    """

    metadata: ClassVar[dict[str, Any]] = MODES

    def __init__(
        self,
        planes: Sequence[str],
        actions: int,
        counts: Sequence[str],
        *,
        agents: int,
        height: int,
        width: int,
        steps: int,
        render_mode: str | None,
        reach: int = REACH,
    ) -> None:
        self.render_mode = mode(render_mode)
        self.steps = whole("steps", steps, 1, LONGEST)
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        self.board = Board(planes, height, width, reach)
        self.spots: list[int] = []  # where each agent is
        self.counts = {name: [0] * agents for name in ("moved", "blocked", *counts)}
        self.np_random: np.random.Generator | None = None
        self._actions = actions
        self._moved = [False] * agents  # in this step
        self._time = 0
        self._window = Planes(planes, reach)
        self._choices = {agent: Moves(actions) for agent in self.possible_agents}

    # -- for a world to say --------------------------------------------------------------------------------

    def _lay_out(self, rng: np.random.Generator) -> None:
        """Furnishes the empty board, and leaves room for the agents."""
        raise NotImplementedError

    def _homes(self) -> Array:
        """The places where agents may start."""
        return self.board.free()

    def _act(self, turns: Sequence[int], choices: Sequence[int], rewards: list[float]) -> None:
        """Lets the agents act, in the order of `turns`, and adds to their rewards."""
        raise NotImplementedError

    def _go_on(self, rng: np.random.Generator) -> None:
        """Lets the world go on by a step."""
        raise NotImplementedError

    def _scene(self) -> Scene:
        """What there is to be seen now."""
        raise NotImplementedError

    # -- the protocol --------------------------------------------------------------------------------------

    @property
    def unwrapped(self) -> Arena:
        """The env itself."""
        return self

    @property
    def num_agents(self) -> int:
        """How many agents are in play."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """How many agents there can be."""
        return len(self.possible_agents)

    def observation_space(self, agent: str) -> Planes:
        """Windows of the board; all agents see the same way."""
        return self._window

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        """The moves, and what else the world lets agents do."""
        return self._choices[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins an episode; without a seed, from the generator as it is."""
        if seed is not None or self.np_random is None:
            self.np_random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._time = 0
        self._moved = [False] * len(self.agents)
        for count in self.counts.values():
            count[:] = [0] * len(count)
        self.board.clear()
        self._lay_out(self.np_random)
        self.spots = self.np_random.choice(self._homes(), len(self.agents), replace=False).tolist()
        self.board["agent"][self.spots] = 1
        return self._observations(), self._infos()

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Lets every agent act once.

        Raises:
            BadInput: the episode is over, or an agent's action is missing or none of its own.
        """
        choices = self._choose(actions)
        assert self.np_random is not None
        rewards = [0.0] * len(choices)
        self._act(self.np_random.permutation(len(choices)).tolist(), choices, rewards)
        self._go_on(self.np_random)
        self._time += 1
        over = self._time >= self.steps
        acted, names = self._observations(), self.agents
        infos = self._infos()
        if over:
            self.agents = []
        return (
            acted,
            dict(zip(names, rewards, strict=True)),
            dict.fromkeys(names, False),
            dict.fromkeys(names, over),
            infos,
        )

    def render(self) -> Array | str:
        """An image or a coloured text, as the render mode says.

        Raises:
            BadInput: it was built without a render mode.
        """
        if self.render_mode is None:
            raise BadInput(
                "this world was built without a render mode; build it with render_mode='rgb_array' or 'ansi'"
            )
        return rgb(self._scene()) if self.render_mode == "rgb_array" else text(self._scene())

    def close(self) -> None:
        """There is nothing to close."""

    # -- how it is done ------------------------------------------------------------------------------------

    def _choose(self, actions: Mapping[str, Any]) -> list[int]:
        if not self.agents:
            raise BadInput("nobody is in play: call reset() before the first step and after the end of an episode")
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise BadInput(f"there is no action for {', '.join(missing)}; give one per agent in play")
        return [choice(agent, actions[agent], self._actions) for agent in self.agents]

    def _move(self, turns: Sequence[int], choices: Sequence[int]) -> None:
        """Moves those who chose to: into a free cell, also one that has just been left."""
        # As bytes, because Python reads and writes a single one several times faster than an array's.
        taken = bytearray((self.board["wall"] | self.board["agent"]).tobytes())
        moves, spots = self.board.moves, self.spots
        self._moved = [False] * len(spots)
        for who in turns:
            if not 0 < choices[who] < len(moves):
                continue
            target = spots[who] + moves[choices[who]]
            if taken[target]:
                self.counts["blocked"][who] += 1
                continue
            taken[spots[who]], taken[target] = 0, 1
            spots[who] = target
            self._moved[who] = True
            self.counts["moved"][who] += 1
        self.board["agent"][:] = 0
        self.board["agent"][spots] = 1

    def _observations(self) -> dict[str, Any]:
        seen = self.board.windows(self.spots)
        # Everybody sees itself in the middle; the cell says instead whether the last move went through, which is
        # all that one needs to keep track of where one is.
        seen[:, self.board.names.index("agent"), self.board.reach, self.board.reach] = self._moved
        return dict(zip(self.agents, seen, strict=True))

    def _infos(self) -> dict[str, Any]:
        names, rows = tuple(self.counts), zip(*self.counts.values(), strict=True)
        return {agent: dict(zip(names, row, strict=True)) for agent, row in zip(self.agents, rows, strict=True)}
