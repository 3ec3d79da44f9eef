"""World: a mettagrid simulation as a PettingZoo parallel env, with what upstream's runner counts.

actions, by number ──► the simulator's buffers ──► step ──► copies of its rows, rewards, flags
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from mettagrid.config.mettagrid_config import MettaGridConfig
from mettagrid.map_builder.ascii import AsciiMapBuilderConfig
from mettagrid.map_builder.map_builder import GameMap, HasSeed, MapBuilderConfig
from mettagrid.policy.policy_env_interface import PolicyEnvInterface
from mettagrid.runner.rollout import resolve_env_for_seed
from mettagrid.simulator import Simulation
from mettagrid.simulator.replay_log_writer import InMemoryReplayWriter

from paceline.adapters.mettagrid.tokens import ActionTable, NumberSpace, SpokenSpace, TalkSpace, TokenSpace
from paceline.errors import BadInput
from paceline.types import Totals


class MettaGridWorld:
    """One mission of mettagrid. Every episode has a new simulation; observations are copies, never views.

    Args:
        config: The mission.
        render_mode: "ansi", or None.
    """

    def __init__(self, config: MettaGridConfig, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise BadInput(f"a mettagrid mission cannot be drawn as {render_mode!r}: use --watch, or --save-replay-dir")
        self.config, self.render_mode = config, render_mode
        interface = PolicyEnvInterface.from_mg_cfg(config)
        table = ActionTable([action.name for action in config.game.actions.actions()])
        self.possible_agents = [f"agent_{number}" for number in range(config.game.num_agents)]
        self.agents: list[str] = []
        self._buffers, self._talks = table.buffers, config.game.talk.enabled
        self._seen = TalkSpace(interface, table) if self._talks else TokenSpace(interface, table)
        text = spaces.Text(config.game.talk.max_length, min_length=0)
        self._done = SpokenSpace(table, text) if self._talks else NumberSpace(table)
        self._nothing: dict[str, dict[str, Any]] = {agent: {} for agent in self.possible_agents}
        self._sim: Simulation | None = None
        self._replay: _Replay | None = None
        self._seeds = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What every agent sees."""
        return self._seen

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What every agent may do."""
        return self._done

    def save_replay(self, path: Path, policies: Mapping[str, str]) -> None:
        """Has the next episode written to a file in mettagrid's format when it ends.

        Args:
            path: The file; its name ends in .json.z.
            policies: Agent → the name of its policy, as the viewer shows it.
        """
        self._replay = _Replay(path, policies)

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins an episode: map and simulation follow from the seed, unless the mission has a map seed of its own.

        Without a seed the env's own stream goes on, as in Gymnasium: the next seed follows from the last.
        """
        self.close()
        if seed is None:
            seed = int(self._seeds.integers(2**31))
        else:
            self._seeds = np.random.default_rng(seed)
        handlers = [] if self._replay is None else [self._replay.writer]
        # Without a Simulator: one that serves again would add an offset to the map's seed.
        sim = Simulation(resolve_env_for_seed(self.config, seed), seed, handlers, maps_cache=_maps_of(self.config))
        if self._replay is not None:
            self._replay.name_policies(sim)
        self._sim, self._core = sim, sim._c_sim
        self._actions, self._vibes = self._core.actions(), self._core.vibe_actions()
        # Upstream's step also keeps a stopwatch, which costs as much as the simulation of a small room.
        self._step = sim.step if self._talks or sim._event_handlers else self._core.step
        self._sums: dict[str, float] = {}
        self._steps = 0
        self.agents = list(self.possible_agents)
        return self._look(), self._nothing

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Plays a tick with a number for every agent; where agents talk, with a pair of number and text."""
        main, vibes, buffers = self._actions, self._vibes, self._buffers
        for number, agent in enumerate(self.possible_agents):
            action = actions[agent]
            if self._talks:
                action = self._say(number, *action)
            main[number], vibes[number] = buffers[action]
        self._step()
        core, agents = self._core, self.possible_agents
        self._count()
        over = core.terminals(), core.truncations()
        if over[0].all() or over[1].all():
            self.agents = []
        return (
            self._look(),
            dict(zip(agents, core.rewards().tolist(), strict=True)),
            dict(zip(agents, over[0].tolist(), strict=True)),
            dict(zip(agents, over[1].tolist(), strict=True)),
            self._nothing,
        )

    def episode_totals(self) -> Totals:
        """What the simulator has counted: rewards in its own precision, stats of agents and of the game."""
        assert self._sim is not None
        if self._replay is not None and not self.agents:
            self._replay.write()
        stats, agents = self._core.get_episode_stats(), self.possible_agents
        return Totals(
            dict(zip(agents, map(float, self._core.get_episode_rewards()), strict=True)),
            dict(zip(agents, stats["agent"], strict=True)),
            dict(stats["game"]),
            {name: total / self._steps for name, total in self._sums.items()} if self._steps else {},
        )

    def render(self) -> str:
        """The map as text: walls, agents by number, other objects by their first letter."""
        assert self._sim is not None
        rows = [[" "] * self._sim.map_width for _ in range(self._sim.map_height)]
        for thing in self._sim.grid_objects().values():
            column, row = thing["location"][:2]
            agent = thing.get("agent_id")
            mark = str(agent % 10) if agent is not None else "#" if thing["type_name"] == "wall" else thing["type_name"]
            rows[row][column] = mark[0]
        return "\n".join("".join(row) for row in rows)

    def close(self) -> None:
        """Ends the simulation."""
        if self._sim is not None:
            self._sim.close()
            self._sim = None

    def _look(self) -> dict[str, Any]:
        raw = self._core.observations().copy()
        if not self._talks:
            return dict(zip(self.possible_agents, raw, strict=True))
        return {
            agent: {"tokens": raw[number], "talk": self._heard(number)}
            for number, agent in enumerate(self.possible_agents)
        }

    def _count(self) -> None:
        """Adds the game's stats up, for their averages over time."""
        self._steps += 1
        sums = self._sums
        for name, value in self._core.get_episode_stats()["game"].items():
            sums[name] = sums.get(name, 0.0) + float(value)

    def _say(self, agent: int, number: int, text: str) -> int:
        assert self._sim is not None
        if text:
            self._sim.agent(agent).set_talk(text)
        return number

    def _heard(self, agent: int) -> tuple[tuple[Any, ...], ...]:
        assert self._sim is not None
        return tuple(
            (talk.agent_id, talk.text, talk.location.row, talk.location.col, talk.remaining_steps)
            for talk in self._sim._visible_talk(agent)
        )


class _Replay:
    """An episode on its way to a file, written by mettagrid's own writer."""

    def __init__(self, path: Path, policies: Mapping[str, str]) -> None:
        self.path, self.writer = path, InMemoryReplayWriter()  # type: ignore[no-untyped-call]
        self._infos = {number: {"policy_name": name} for number, name in enumerate(policies.values())}

    def name_policies(self, sim: Simulation) -> None:
        sim._context["policy_infos"] = self._infos

    def write(self) -> None:
        for replay in self.writer.get_completed_replays():
            replay.write_replay(str(self.path))


class _Maps:
    """The maps of this process that are the same in every episode: generated once."""

    def __init__(self) -> None:
        self._known: list[tuple[MapBuilderConfig[Any], int, GameMap]] = []

    def get_or_create(self, builder: MapBuilderConfig[Any], agents: int) -> GameMap:
        """The map of a builder, as the simulator asks for it."""
        for known, count, game_map in self._known:
            if count == agents and known == builder:
                return game_map
        made: GameMap = builder.create().build_for_num_agents(agents)
        self._known = [(builder, agents, made), *self._known[:7]]
        return made


_maps = _Maps()


def _maps_of(config: MettaGridConfig) -> Any:
    """The maps, if this mission's is the same in every episode; else None, and the simulator builds one."""
    builder = config.game.map_builder
    fixed = builder.seed is not None if isinstance(builder, HasSeed) else isinstance(builder, AsciiMapBuilderConfig)
    return _maps if fixed else None
