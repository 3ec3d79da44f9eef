"""A game on a grid: a world, its agents, and turns. `parallel_env` and `env` make PettingZoo's two forms of it.

a turn:   entities that change by themselves ──► agents act ──► the game's own rules (`end_turn`)

turn="simultaneous"   agents choose on what is there when the turn begins. What they chose is done one after
                      another, in an order that the game draws anew in every turn: what two want the first gets.
turn="ordered"        agents act in the order of their numbers, each on what those before it have left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from paceline.errors import BadInput
from paceline.types import Totals
from paceline.worlds.board import REACH, Array, Moves, mode, whole
from paceline.worlds.grid.entities import Agent, Entity
from paceline.worlds.grid.views import VIEWS, View
from paceline.worlds.grid.world import World
from paceline.worlds.picture import FLOOR, Scene, checkered, rgb, text

if TYPE_CHECKING:
    from paceline.worlds.grid.envs import Aec, Parallel

LONGEST = 1_000_000  # turns of an episode
LARGEST = 1024  # rows, columns, agents
WIDEST = 64  # how far an agent may see, where it does not see the whole map
NO_EPISODE = "no agent is in play: call reset() before the first step and after the end of an episode"
TURNS = ("simultaneous", "ordered")
WHOLE_MAP = "map"


class Game:
    """A game; a subclass says what there is and what the rules are.

    A subclass gives `name`, `kinds`, `actions`, `counts` and `new_agent`, furnishes the world in `populate`, and may
    have rules of its own (`end_turn`), places where agents start (`homes`) and numbers of the whole game (`measures`).

    Args:
        agents: How many agents there are.
        height: Rows of the world.
        width: Columns of the world.
        steps: How many turns an episode has.
        view: How far agents see, in each direction; "map": the whole map, with themselves in the middle.
        sees: What they see: "onehot", "rgb" or "ascii".
        turn: "simultaneous" or "ordered".
        render_mode: "rgb_array", "ansi" or None.

    Attributes:
        world: What there is.
        agents: All agents.
        playing: Those for whom the game is not over.
        over: Whether all its turns have been played.
        rng: The generator for everything random in the game; it is the world's, too.
    """

    name: ClassVar[str] = "game"
    kinds: ClassVar[tuple[type[Entity], ...]] = ()
    actions: ClassVar[int] = 5
    counts: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        agents: int,
        height: int,
        width: int,
        steps: int,
        view: int | str = REACH,
        sees: str = "onehot",
        turn: str = TURNS[0],
        render_mode: str | None = None,
    ) -> None:
        if turn not in TURNS:
            raise BadInput(f"turn={turn!r} is not known; give {' or '.join(map(repr, TURNS))}")
        if sees not in VIEWS:
            raise BadInput(f"sees={sees!r} is not known; give {', '.join(map(repr, VIEWS))}")
        height, width = whole("height", height, 1, LARGEST), whole("width", width, 1, LARGEST)
        reach = max(height, width) - 1 if view == WHOLE_MAP else whole("view", view, 1, WIDEST)
        self.render_mode = mode(render_mode)
        self.ordered = turn == "ordered"
        self.steps = whole("steps", steps, 1, LONGEST)
        self.world = World(self.kinds, height, width, reach)
        if not any(issubclass(kind, Agent) for kind in self.kinds):
            raise BadInput(f"kinds of {self.name} are {', '.join(self.world.names)}: name the class of its agents, too")
        self.view: View = VIEWS[sees](self.world)
        self.choices = Moves(self.actions)
        self.agents = [self.new_agent(number) for number in range(whole("agents", agents, 1, LARGEST))]
        for number, agent in enumerate(self.agents):
            if not isinstance(agent, Agent) or agent.number != number:
                raise BadInput(f"{self.name}: new_agent({number}) gave {_who(agent)}; give an agent with that number")
            agent.view = self.view
        self.playing: list[Agent] = []
        self.over = True
        self.rng: np.random.Generator | None = None

    @classmethod
    def parallel_env(cls, **options: Any) -> Parallel:
        """The game in PettingZoo's parallel form; options as the class has them."""
        from paceline.worlds.grid.envs import Parallel

        return Parallel(cls(**options))

    @classmethod
    def env(cls, **options: Any) -> Aec:
        """The game in PettingZoo's AEC form; options as the class has them."""
        from paceline.worlds.grid.envs import Aec

        return Aec(cls(**options))

    # -- for a game to say ---------------------------------------------------------------------------------

    def new_agent(self, number: int) -> Agent:
        """Makes the agent of that number."""
        raise NotImplementedError(f"{type(self).__name__} has no new_agent(number), which makes an agent")

    def populate(self, rng: np.random.Generator) -> None:
        """Furnishes the empty world, and leaves room for the agents."""

    def homes(self) -> Array:
        """The places where agents may start."""
        return self.world.free()

    def begin(self, rng: np.random.Generator) -> None:
        """What happens when the agents have their places, before the first turn."""

    def end_turn(self, rng: np.random.Generator) -> None:
        """What happens when all agents have acted."""

    def measures(self) -> Mapping[str, float]:
        """Numbers of the whole game, so far."""
        return {}

    def scene(self) -> Scene:
        """What there is to be seen now."""
        world = self.world
        kinds = sorted((kind for kind in self.kinds if not issubclass(kind, Agent)), key=lambda kind: kind.layer)
        things = {kind.kind: world.shape(kind.kind) for kind in kinds}
        looks = {kind.kind: (kind.colour, kind.glyph) for kind in kinds}
        return Scene(checkered(world.height, world.width, FLOOR), things, self.cells(), looks=looks)

    # -- turns ---------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None) -> None:
        """Begins an episode; without a seed, from the generator as it is.

        Raises:
            BadInput: there are not as many places to start as agents, or the seed is none.
        """
        if seed is not None and (not isinstance(seed, int | np.integer) or seed < 0):
            raise BadInput(f"seed={seed!r}: give a whole number from 0 on, or None")
        if seed is not None or self.rng is None:
            self.rng = np.random.default_rng(seed)
        world = self.world
        world.clear()
        world.rng = self.rng
        self.populate(self.rng)
        for agent in self.agents:
            agent.counts = dict.fromkeys(("moved", "blocked", *self.counts), 0)
            agent.reward, agent.earned, agent.moved = 0.0, 0.0, False
            agent.reset()
        homes = self.homes()
        if len(homes) < len(self.agents):
            raise BadInput(
                f"{self.name} has {len(homes)} places where its {len(self.agents)} agents may start: make it larger"
            )
        spots = self.rng.choice(homes, len(self.agents), replace=False).tolist()
        for agent, place in zip(self.agents, spots, strict=True):
            world.add(agent, place)
        self.begin(self.rng)
        self.playing, self.over = list(self.agents), False
        self._begin_turn()

    def take_turn(self) -> None:
        """Plays a turn with the actions that the agents get themselves, from their policies.

        Raises:
            BadInput: the episode is over, or an agent has no policy.
        """
        self.check_is_on()
        self.begin_step()
        if self.ordered:
            for agent in self.playing:
                agent.transition(self.world)
            self.finish_turn()
        else:
            states = self.view.of(self.world, self.playing)
            self.play_turn([agent.get_action(state) for agent, state in zip(self.playing, states, strict=True)])

    def play_turn(self, actions: Sequence[Any]) -> None:
        """Plays a turn with these actions, one per agent in play."""
        assert self.rng is not None
        playing = self.playing
        for who in range(len(playing)) if self.ordered else self.rng.permutation(len(playing)).tolist():
            self.let_act(playing[who], actions[who])
        self.finish_turn()

    def let_act(self, agent: Agent, action: Any) -> None:
        """Lets one agent act; the action of one that cannot is as if it had stayed."""
        if not agent.can_act():
            agent.moved = False
        elif reward := agent.act(self.world, action):
            agent.earn(self.world, reward)

    def begin_step(self) -> None:
        """Begins a step: what agents earn in it counts from 0."""
        for agent in self.world.earners:
            agent.reward = 0.0
        self.world.earners = []

    def finish_turn(self) -> None:
        """Ends a turn, and begins the next one if there is one."""
        assert self.rng is not None
        world = self.world
        self.end_turn(self.rng)
        for agent in [agent for agent in self.playing if agent.is_done(world)]:
            world.remove(agent)
            self.playing.remove(agent)
        self.over = world.turn >= self.steps or not self.playing
        if not self.over:
            self._begin_turn()

    def _begin_turn(self) -> None:
        self.world.turn += 1
        for entity in self.world.movers():
            entity.transition(self.world)

    def check_is_on(self) -> None:
        """Raises `BadInput` if there is no episode."""
        if self.over:
            raise BadInput(NO_EPISODE)

    # -- what is told --------------------------------------------------------------------------------------

    def cells(self) -> list[tuple[int, int]]:
        """The row and the column of each agent."""
        return [self.world.cell(agent.place) for agent in self.agents]

    def totals(self) -> Totals | None:
        """What has been counted in the episode, if the game has measures."""
        measures = self.measures()
        if not measures:
            return None
        return Totals(
            {agent.name: agent.earned for agent in self.agents},
            {agent.name: agent.counts for agent in self.agents},
            measures,
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
        return rgb(self.scene()) if self.render_mode == "rgb_array" else text(self.scene())


def _who(agent: Any) -> str:
    return f"agent number {agent.number}" if isinstance(agent, Agent) else repr(agent)
