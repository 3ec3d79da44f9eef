"""Entities: what stands on a grid, and the agents among it.

Entity    a kind of thing: what it is worth, whether it blocks the way, whether it changes by itself
└── Agent     sees (`pov`), decides (`get_action`), and acts (`act`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from paceline.errors import BadInput

if TYPE_CHECKING:
    from paceline.worlds.grid.views import View
    from paceline.worlds.grid.world import World

Colour = tuple[int, int, int]
Policy = Callable[[Any], Any]
"""Observation → action."""


class Entity:
    """Something in a place of a world. A subclass is a kind; what holds for all of a kind is said by the class.

    Attributes:
        kind: The name of its plane in observations; by default the name of the class in lower case.
        layer: A place holds one entity per layer, and the highest layer is what one sees from above.
        value: What it is worth to an agent that takes it.
        passable: Whether others may enter its place.
        has_transitions: Whether it changes by itself, in every turn, before the agents act.
        colour: How it looks in RGB.
        glyph: How it looks in text, one character.
        place: Where it stands, as the world numbers places.
    """

    kind: ClassVar[str] = ""
    layer: ClassVar[int] = 0
    value: float = 0.0
    passable: ClassVar[bool] = True
    has_transitions: ClassVar[bool] = False
    colour: ClassVar[Colour] = (170, 170, 170)
    glyph: ClassVar[str] = "?"
    place: int = -1

    def __init_subclass__(cls) -> None:
        """Names the kind after the class, unless the class or a parent of it has said a name."""
        super().__init_subclass__()
        if not cls.kind:
            cls.kind = cls.__name__.lower()

    def transition(self, world: World) -> None:
        """Changes by itself, once per turn. Draws come from `world.rng`."""


class Wall(Entity):
    """What is all around a world, and may stand within it."""

    layer = 9
    passable = False
    colour = (60, 60, 70)
    glyph = "#"


class Agent(Entity):
    """An entity that acts; a subclass says what its actions do.

    Args:
        number: Which of the agents it is.
        policy: What chooses its actions where no env does.

    Attributes:
        name: Its name in envs.
        counts: What is counted of it in an episode; goes into infos.
        reward: What it has earned in the last step.
        earned: What it has earned in the episode.
        moved: Whether its last move went through; an agent sees that in its own cell.
        view: How it sees; set by the game that it is in.
    """

    kind = "agent"
    layer = 9
    passable = False
    colour = (230, 120, 40)
    glyph = "@"

    def __init__(self, number: int, policy: Policy | None = None) -> None:
        self.number, self.policy = number, policy
        self.name = f"agent_{number}"
        self.counts: dict[str, float] = {}
        self.reward = self.earned = 0.0
        self.moved = False
        self.view: View | None = None

    def reset(self) -> None:
        """Begins an episode, before the agent has a place. What it counts begins at 0."""

    def can_act(self) -> bool:
        """Whether its action has an effect in this turn."""
        return True

    def pov(self, world: World) -> Any:
        """What it sees now."""
        assert self.view is not None, "an agent sees as the game says that it is in"
        return self.view.of(world, [self])[0]

    def get_action(self, state: Any) -> Any:
        """What it decides.

        Raises:
            BadInput: it has no policy.
        """
        if self.policy is None:
            raise BadInput(f"{self.name} has no policy to ask: set agent.policy, or step an env of the game")
        return self.policy(state)

    def act(self, world: World, action: Any) -> float:
        """Does it, and gives the reward."""
        raise NotImplementedError(f"{type(self).__name__} has no act(world, action), which gives a reward")

    def is_done(self, world: World) -> bool:
        """Whether the game is over for it; asked at the end of a turn. It leaves the world then."""
        return False

    def transition(self, world: World) -> None:
        """Its whole part of a turn: sees, decides, acts."""
        if self.can_act():
            self.earn(world, self.act(world, self.get_action(self.pov(world))))

    def earn(self, world: World, reward: float) -> None:
        """Gives it a reward: for what it does, or for what others do to it.

        Raises:
            BadInput: it is no number.
        """
        try:
            self.reward += reward
        except TypeError:
            raise BadInput(f"{self.name} was given {reward!r} as a reward: give a number") from None
        if self not in world.earners:
            world.earners.append(self)
        self.earned += reward
        world.total_reward += reward

    def walk(self, world: World, move: int) -> bool:
        """Takes a step, 1 to 4: north, south, west, east. Returns whether it went through; to stay is no step."""
        if not 0 < move < 5:
            self.moved = False
        elif world.move(self, self.place + world.moves[move]):
            self.moved = True
            self.counts["moved"] += 1
        else:
            self.moved = False
            self.counts["blocked"] += 1
        return self.moved
