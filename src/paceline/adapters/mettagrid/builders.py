"""Missions of ours on mettagrid's engine, made of its own map builders; each function takes the number of cogs.

Every one of them pays a little for places that an agent has not been to before, so that a policy that walks scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mettagrid.builder.envs import make_arena, make_navigation
from mettagrid.config.action_config import ActionsConfig, ChangeVibeActionConfig, MoveActionConfig, NoopActionConfig
from mettagrid.config.game_value import InventoryValue, StatValue
from mettagrid.config.handler_config import Handler, deposit, withdraw
from mettagrid.config.mettagrid_config import (
    AgentConfig,
    GameConfig,
    GridObjectConfig,
    InventoryConfig,
    MettaGridConfig,
    ResourceLimitsConfig,
    WallConfig,
)
from mettagrid.config.reward_config import AgentReward, reward
from mettagrid.map_builder.random_map import RandomMapBuilderConfig
from mettagrid.mapgen.mapgen import MapGenConfig
from mettagrid.mapgen.scene import ChildrenAction
from mettagrid.mapgen.scenes.biome_caves import BiomeCavesConfig
from mettagrid.mapgen.scenes.random import RandomConfig

_STEPS = 1000
_GOODS = ("berries", "ore", "wood", "water")
_VIBES = 10


def empty_room(cogs: int = 4, width: int = 16, height: int = 16) -> MettaGridConfig:
    """A room with nothing in it but its walls."""
    config = MettaGridConfig.EmptyRoom(num_agents=cogs, width=width, height=height, border_width=1)
    return _finished(config, "empty_room")


def arena(cogs: int = 4) -> MettaGridConfig:
    """Mettagrid's arena, 25 × 25: a few walls, and agents who may attack each other."""
    return _finished(make_arena(cogs), "arena")


def navigation(cogs: int = 4, width: int = 20, height: int = 20, walls: int = 40) -> MettaGridConfig:
    """Mettagrid's navigation game among scattered walls."""
    config = make_navigation(cogs)
    config.game.map_builder = RandomMapBuilderConfig(
        agents=cogs, width=width, height=height, border_width=1, objects={"wall": walls}
    )
    return _finished(config, "navigation")


def caves(cogs: int = 4, width: int = 40, height: int = 40) -> MettaGridConfig:
    """Caves, other ones in every episode, with a way from each to all others."""
    from mettagrid.mapgen.scenes.make_connected import MakeConnectedConfig  # it imports half of scipy

    connected = ChildrenAction(scene=MakeConnectedConfig(), where="full")
    agents = ChildrenAction(scene=_scattered({}, cogs), where="full")
    instance = BiomeCavesConfig(children=[connected, agents])
    return _finished(_game(cogs, width, height, instance), "caves")


def market(cogs: int = 8, width: int = 60, height: int = 60, density: float = 0.15) -> MettaGridConfig:
    """Bushes, mines, trees and wells everywhere; what they give is carried to stores. Many objects, few walls."""
    things = int(width * height * density)
    objects = {name: things // (len(_GOODS) + 1) for name in [*_GOODS, "store"]}
    return _finished(_trade(_game(cogs, width, height, _scattered({**objects, "wall": things // 8}, cogs))), "market")


def machina_1(cogs: int = 4) -> MettaGridConfig:
    """A stand-in for the mission of that name in cogsguard: as large (98 × 98), as full, and not the same game."""
    config = market(cogs, 88, 88, 0.1)  # and a border of five on every side
    config.label = "machina_1"
    return config


BUILDERS: Mapping[str, Callable[..., MettaGridConfig]] = MappingProxyType(
    {make.__name__: make for make in (empty_room, arena, navigation, caves, market)}
)
"""What `mettagrid:NAME` means."""


def _finished(config: MettaGridConfig, label: str) -> MettaGridConfig:
    config.label = label
    config.game.max_steps = _STEPS
    config.game.agent.rewards = {**config.game.agent.rewards, "explore": _explored()}
    return config


def _explored() -> AgentReward:
    return reward(StatValue(name="cell.unique_visited"), weight=0.01)


def _scattered(objects: dict[str, int], cogs: int) -> Any:
    return RandomConfig(agents=cogs, objects=objects)


def _game(cogs: int, width: int, height: int, instance: Any) -> MettaGridConfig:
    vibes = ChangeVibeActionConfig()
    vibes.vibes = vibes.vibes[:_VIBES]
    return MettaGridConfig(
        game=GameConfig(
            num_agents=cogs,
            objects={"wall": WallConfig()},
            actions=ActionsConfig(noop=NoopActionConfig(), move=MoveActionConfig(), change_vibe=vibes),
            map_builder=MapGenConfig(width=width, height=height, border_width=5, instance=instance),
        )
    )


def _trade(config: MettaGridConfig) -> MettaGridConfig:
    """Adds goods, where they come from, and stores that take them."""
    game = config.game
    game.resource_names = [*_GOODS]
    for good in _GOODS:
        game.objects[good] = GridObjectConfig(
            name=good,
            on_use_handler=Handler(name="take", mutations=[withdraw({good: 1}, remove_when_empty=True)]),
            inventory=InventoryConfig(initial={good: 20}),
        )
    game.objects["store"] = GridObjectConfig(
        name="store", on_use_handler=Handler(name="give", mutations=[deposit(dict.fromkeys(_GOODS, 10))])
    )
    cargo = ResourceLimitsConfig(base=10, resources=[*_GOODS])
    carried = {good: reward(InventoryValue(item=good), weight=0.1) for good in _GOODS}
    given = {f"{good}_given": reward(StatValue(name=f"{good}.deposited"), weight=1.0) for good in _GOODS}
    game.agent = AgentConfig(inventory=InventoryConfig(limits={"cargo": cargo}), rewards={**carried, **given})
    return config
