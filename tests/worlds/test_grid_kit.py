"""The grid kit's invariants, in worlds and games that are drawn: places, layers, windows, the order of agents."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import digest, worlds
from paceline.catalog.resolve import missions_of
from paceline.errors import BadInput
from paceline.worlds.grid import Agent, Ascii, Entity, Game, OneHot, Rgb, Wall, World

GAMES = ("treasure_hunt", "cleanup", "forage", "stag_hunt", "tag")
SMALL = {"cleanup": {"width": 8}, "forage": {"size": 6}}


class Coin(Entity):
    """Lies about."""

    value = 1.0
    colour = (250, 210, 60)
    glyph = "$"


class Ghost(Entity):
    """Passes; one of a layer of its own."""

    layer = 5
    glyph = "~"


class Walker(Agent):
    """Walks."""

    colour = (10, 20, 200)

    def act(self, world: World, action: int) -> float:
        self.walk(world, action)
        return 0.0


KINDS = (Wall, Coin, Ghost, Walker)


def rebuilt(world: World) -> np.ndarray:
    """What blocks, from the planes alone."""
    solid = [not kind.passable for kind in world.kinds]
    return np.stack([world[name] for name, is_solid in zip(world.names, solid, strict=True) if is_solid]).any(0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), height=st.integers(1, 6), width=st.integers(2, 6), reach=st.integers(1, 3))
def test_nothing_enters_a_place_that_is_blocked_and_a_layer_holds_one(
    data: st.DataObject, height: int, width: int, reach: int
) -> None:
    """Any sequence of adding, moving, removing, filling and emptying; also goes on after a copy."""
    world = World(KINDS, height, width, reach)
    inside = st.sampled_from(world.inside.tolist())
    placed: list[Entity] = []
    for _ in range(data.draw(st.integers(1, 25))):
        what, place = data.draw(st.sampled_from(["add", "move", "remove", "fill", "empty", "copy"])), data.draw(inside)
        if what == "add":
            entity = data.draw(st.sampled_from([lambda: Walker(0), Ghost]))()
            if world.has_room(entity, place):
                world.add(entity, place)
                placed.append(entity)
            else:
                with pytest.raises(BadInput, match="no room"):
                    world.add(entity, place)
        elif what in ("fill", "empty"):
            if what == "empty" or not world.at(place):
                getattr(world, what)(data.draw(st.sampled_from(["coin", "wall"])), place)
        elif what == "copy":
            world, placed = pickle.loads(pickle.dumps((world, placed)))
        elif placed:
            entity = data.draw(st.sampled_from(placed))
            before, blocked = entity.place, rebuilt(world)
            if what == "remove":
                world.remove(entity)
                placed.remove(entity)
            else:
                towards = before + data.draw(st.sampled_from(world.moves[1:]))
                went = world.move(entity, towards)
                assert not (went and blocked[towards])
                assert entity.place == (towards if went else before)
        np.testing.assert_array_equal(world.blocked.astype(bool), rebuilt(world))
        for entity in placed:
            assert world.find(entity.kind, entity.place) is entity
            layers = [other.layer for other in world.at(entity.place)]
            assert layers == sorted(set(layers))
        assert int(world["agent"].sum()) == sum(isinstance(entity, Walker) for entity in placed)
        assert int(world["ghost"].sum()) == sum(isinstance(entity, Ghost) for entity in placed)


@pytest.mark.parametrize("name", GAMES)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(agents=st.integers(2, 12), seed=st.integers(0, 2**31), ordered=st.booleans())
def test_every_game_keeps_one_agent_per_place_and_its_account(name: str, agents: int, seed: int, ordered: bool) -> None:
    """No agent stands in a wall or in another, and what agents have earned is the world's total."""
    env = getattr(worlds, f"make_{name}")(agents=agents, steps=12, turn="ordered" if ordered else "simultaneous")
    game, rng = env.game, np.random.default_rng(seed)
    game.reset(seed)
    while not game.over:
        game.play_turn(rng.integers(game.actions, size=agents).tolist())
        spots = [agent.place for agent in game.agents]
        assert len(set(spots)) == agents
        assert not game.world["wall"][spots].any()
        np.testing.assert_array_equal(game.world.blocked.astype(bool), rebuilt(game.world))
        assert game.world.total_reward == pytest.approx(sum(agent.earned for agent in game.agents))


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("sees", ["onehot", "rgb", "ascii"])
def test_windows_are_crops_of_the_whole_map(name: str, sees: str) -> None:
    """The same game seen whole, cut to the window; and both fit their spaces."""
    make = getattr(worlds, f"make_{name}")
    near, whole = make(agents=5, view=2, sees=sees), make(agents=5, view="map", sees=sees)
    reach, rng = whole.world.reach, np.random.default_rng(0)
    seen, everything = near.reset(seed=2)[0], whole.reset(seed=2)[0]
    for _ in range(8):
        for agent in near.agents:
            assert near.observation_space(agent).contains(seen[agent])
            assert whole.observation_space(agent).contains(everything[agent])
            np.testing.assert_array_equal(rows(seen[agent]), cropped(rows(everything[agent]), reach, 2))
        actions = {agent: int(rng.integers(near.game.actions)) for agent in near.agents}
        seen, everything = near.step(actions)[0], whole.step(actions)[0]


def rows(seen: Any) -> np.ndarray:
    """A view as an array whose last two axes are rows and columns."""
    if isinstance(seen, str):
        return np.array([list(line) for line in seen.split("\n")])
    return seen if seen.shape[-1] != 3 else seen.transpose(2, 0, 1)


def cropped(seen: np.ndarray, reach: int, to: int) -> np.ndarray:
    part = slice(reach - to, reach + to + 1)
    return seen[..., part, part]


def test_the_highest_layer_is_what_is_seen_from_above() -> None:
    world = World(KINDS, 1, 3, 1)
    left, middle, right = world.inside.tolist()
    world.fill("coin", [left, right])
    world.add(Ghost(), right)
    walker = Walker(0)
    world.add(walker, middle)
    (text,) = Ascii(world).of(world, [walker])
    assert text == "###\n$@~\n###"
    (image,) = Rgb(world).of(world, [walker])
    assert image[1].tolist() == [list(Coin.colour), list(Walker.colour), list(Ghost.colour)]
    (planes,) = OneHot(world).of(world, [walker])
    assert planes[:, 1].tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 1], [0, 0, 0]]
    walker.moved = True
    assert OneHot(world).of(world, [walker])[0, 3, 1, 1] == 1
    assert [entity.kind for entity in world.at(right)] == ["coin", "ghost"]
    assert world.at(left)[0].value == 1.0


# -- turns -------------------------------------------------------------------------------------------------


class Field(Game):
    """A few walkers on a small field."""

    kinds = KINDS

    def __init__(self, turn: str, agents: int = 6) -> None:
        super().__init__(agents=agents, height=3, width=4, steps=30, turn=turn)

    def new_agent(self, number: int) -> Agent:
        return Walker(number)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31))
def test_the_order_of_agents_matters_in_ordered_turns_only(seed: int) -> None:
    """A simultaneous turn is done in the order that the game draws; an ordered one in that of the agents' numbers."""
    rng = np.random.default_rng(seed)
    for turn in ("ordered", "simultaneous"):
        game, twin = Field(turn), Field(turn)
        game.reset(seed)
        twin.reset(seed)
        for _ in range(6):
            actions = rng.integers(5, size=6).tolist()
            drawn = pickle.loads(pickle.dumps(twin.rng)).permutation(6).tolist()
            game.play_turn(actions)
            for who in range(6) if turn == "ordered" else drawn:
                twin.let_act(twin.agents[who], actions[who])
            if turn == "simultaneous":
                twin.rng.permutation(6)
            twin.finish_turn()
            assert game.cells() == twin.cells()
            assert game.rng.bit_generator.state == twin.rng.bit_generator.state


def test_names_give_no_agent_an_advantage_in_simultaneous_turns() -> None:
    """Two that want one place get it equally often; in ordered turns the first in the order always does."""
    won = {"simultaneous": [0, 0], "ordered": [0, 0]}
    for turn, wins in won.items():
        for seed in range(60):
            game = Field(turn, agents=2)
            game.reset(seed)
            for agent in game.agents:
                game.world.remove(agent)
            for agent, column in zip(game.agents, (0, 2), strict=True):
                game.world.add(agent, int(game.world.inside[4 + column]))
            game.play_turn([4, 3])
            wins[[agent.moved for agent in game.agents].index(True)] += 1
    assert won["ordered"] == [60, 0]
    assert min(won["simultaneous"]) > 15


@pytest.mark.parametrize("turn", ["ordered", "simultaneous"])
def test_a_game_plays_itself_with_the_policies_of_its_agents(turn: str) -> None:
    """What `take_turn` does is what the env does with the same actions; an agent without a policy is named."""
    game, env = worlds.make_treasure_hunt(turn=turn).game, worlds.make_treasure_hunt(turn=turn).game.env(turn=turn)
    game.reset(5)
    env.reset(seed=5)
    with pytest.raises(BadInput, match="agent_0 has no policy"):
        game.take_turn()
    game.reset(5)
    for agent in game.agents:
        agent.policy = lambda state: int(state.sum()) % 5
    for _ in range(20):
        game.take_turn()
        for agent in game.agents:
            env.step(int(env.observe(agent.name).sum()) % 5)
    assert digest(game.world.cells) == digest(env.world.cells)
    assert game.world.total_reward == pytest.approx(sum(agent.earned for agent in env.game.agents))
    while not game.over:
        game.take_turn()
    with pytest.raises(BadInput, match="call reset"):
        game.take_turn()


class Snail(Entity):
    """Goes east by itself."""

    layer = 3
    has_transitions = True

    def transition(self, world: World) -> None:
        world.move(self, self.place + world.moves[4])


class Garden(Game):
    """A snail and an agent, in a row."""

    kinds = (Wall, Snail, Walker)

    def __init__(self, steps: int = 3) -> None:
        super().__init__(agents=1, height=1, width=6, steps=steps)

    def new_agent(self, number: int) -> Agent:
        return Walker(number)

    def populate(self, rng: np.random.Generator) -> None:
        self.world.add(Snail(), int(self.world.inside[0]))

    def homes(self) -> np.ndarray:
        return self.world.inside[-1:]


def test_a_mission_of_a_game_is_called_as_its_class() -> None:
    (mission,) = missions_of(Garden.parallel_env)
    assert mission.name == "Garden"


def test_what_changes_by_itself_does_so_before_the_agents_act() -> None:
    """Once before the first observation, then once per turn; not after the last."""
    game, at = Garden(), []
    game.reset(0)
    while not game.over:
        at.append(int(game.world["snail"][game.world.inside].argmax()))
        game.play_turn([0])
    assert at == [1, 2, 3]
    assert int(game.world["snail"][game.world.inside].argmax()) == 3
    assert [type(entity) for entity in game.world.movers()] == [Snail]


def test_what_is_done_wrong_with_a_world_is_said() -> None:
    world = World(KINDS, 2, 2, 1)
    first, second = world.inside.tolist()[:2]
    walker = Walker(0)
    world.add(walker, first)
    with pytest.raises(BadInput, match=r"already stands at \(0, 0\)"):
        world.add(walker, second)
    with pytest.raises(BadInput, match="does not stand in this world"):
        world.remove(Walker(1))
    with pytest.raises(BadInput, match="'stag' is no kind of this world; it has wall, coin, ghost, agent"):
        world.fill("stag", second)
    with pytest.raises(BadInput, match="room for a wall"):
        world.fill("wall", [first, second])
    with pytest.raises(BadInput, match="Wall first"):
        World((Coin, Wall), 2, 2, 1)
    with pytest.raises(BadInput, match="changes by itself"):
        Garden().world.fill("snail", 8)
    with pytest.raises(ValueError, match="read-only"):
        world["coin"][first] = 1
    with pytest.raises(BadInput, match="'stag' is no kind of this world"):
        world["stag"]
    with pytest.raises(BadInput, match="is no entity: give an object of one of the kinds"):
        world.add(Coin, second)  # type: ignore[arg-type]
    for place in (-1, 10**6, 1.5, (0, 1)):
        with pytest.raises(BadInput, match=r"is no place of this world: give one of World\.inside"):
            world.add(Walker(1), place)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="'coin' is no kind of entity; give classes"):
        World((Wall, "coin"), 2, 2, 1)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="agent_0 was given '1' as a reward"):
        walker.earn(world, "1")  # type: ignore[arg-type]


class Crowded(Garden):
    """An agent that may start nowhere."""

    def homes(self) -> np.ndarray:
        return self.world.inside[:0]


class Lonely(Garden):
    """No kind of agent is named."""

    kinds = (Wall, Snail)


class Alike(Garden):
    """All agents have one number."""

    def __init__(self) -> None:
        Game.__init__(self, agents=2, height=1, width=6, steps=3)

    def new_agent(self, number: int) -> Agent:
        return Walker(0)


def test_what_is_wrong_with_a_game_is_said() -> None:
    with pytest.raises(BadInput, match="kinds of game are wall, snail: name the class of its agents"):
        Lonely()
    with pytest.raises(BadInput, match=r"new_agent\(1\) gave agent number 0; give an agent with that number"):
        Alike()
    with pytest.raises(NotImplementedError, match=r"Game has no new_agent\(number\)"):
        Game.new_agent(Game.__new__(Game), 0)
    with pytest.raises(NotImplementedError, match=r"Agent has no act\(world, action\)"):
        Agent(0).act(World(KINDS, 2, 2, 1), 0)
    for seed in (-1, "a"):
        with pytest.raises(BadInput, match=r"seed=.*give a whole number from 0 on"):
            Garden().reset(seed)  # type: ignore[arg-type]


def test_a_game_without_room_for_its_agents_says_so() -> None:
    with pytest.raises(BadInput, match="0 places where its 1 agents may start"):
        Crowded().reset(0)
    with pytest.raises(BadInput, match="agents=0"):
        Field("ordered", agents=0)


def test_a_game_of_ones_own_can_be_looked_at() -> None:
    for mode in ("rgb_array", "ansi"):
        game = Garden()
        game.render_mode = mode
        game.reset(0)
        picture = game.render()
        assert "? " in picture if mode == "ansi" else picture.shape[2] == 3
