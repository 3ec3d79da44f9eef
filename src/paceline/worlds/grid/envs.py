"""A game in PettingZoo's two forms.

    Parallel   all agents choose, then the turn is played          reset, step(actions)
    Aec        agents are asked one after another in every turn    reset, step(action), last, agent_iter

Both are real envs of PettingZoo where it is installed, and follow its protocol where it is not. In the AEC form of an
ordered game an action is done at once. In that of a simultaneous game actions are kept until the last agent has chosen;
what agents see does not change before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gymnasium import spaces

from paceline.errors import BadInput
from paceline.types import Totals
from paceline.worlds.board import MODES, Array, choice
from paceline.worlds.grid.entities import Agent
from paceline.worlds.grid.game import NO_EPISODE, Game
from paceline.worlds.grid.world import World

try:
    from pettingzoo import AECEnv, ParallelEnv
except ImportError:  # the protocol is all that is needed of it
    AECEnv = ParallelEnv = object

EVER = 2**63


class _Env:
    """What both forms have: spaces, names, rendering."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.metadata: dict[str, Any] = {**MODES, "name": game.name, "is_parallelizable": not game.ordered}
        self.render_mode = game.render_mode
        self.possible_agents = [agent.name for agent in game.agents]
        self.agents: list[str] = []

    @property
    def unwrapped(self) -> Any:
        """The env itself."""
        return self

    @property
    def world(self) -> World:
        """The game's world."""
        return self.game.world

    @property
    def num_agents(self) -> int:
        """How many agents are in play."""
        return len(self.agents)

    @property
    def max_num_agents(self) -> int:
        """How many agents there can be."""
        return len(self.possible_agents)

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent can see; all agents see the same way."""
        return self.game.view.space

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What an agent can do; all agents can do the same."""
        return self.game.choices

    def episode_totals(self) -> Totals | None:
        """What the game has counted, where it has measures of its own."""
        return self.game.totals()

    def render(self) -> Array | str:
        """An image or a coloured text, as the render mode says."""
        return self.game.render()

    def close(self) -> None:
        """There is nothing to close."""

    def __str__(self) -> str:
        return self.game.name


class Parallel(_Env, ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types for mypy
    """The parallel form: a step is a turn.

    Args:
        game: What is played; in a game with ordered turns agents cannot choose at once.

    Raises:
        BadInput: its turns are ordered.
    """

    def __init__(self, game: Game) -> None:
        if game.ordered:
            raise BadInput(f"turn='ordered': agents of {game.name} act one after another; make its AEC form with env()")
        super().__init__(game)

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begins an episode; without a seed, from the generator as it is."""
        game = self.game
        game.reset(seed)
        self.agents = list(self.possible_agents)
        return self._observations(self.agents, game.agents), _infos(game.agents)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Plays a turn: every agent in play acts once.

        Raises:
            BadInput: the episode is over, or an agent's action is missing or none of its own.
        """
        game, names = self.game, self.agents
        game.check_is_on()
        if missing := [agent for agent in names if agent not in actions]:
            raise BadInput(f"there is no action for {', '.join(missing)}; give one per agent in play")
        count = game.actions
        choices = [choice(agent, actions[agent], count) for agent in names]
        acted = list(game.playing)
        game.begin_step()
        game.play_turn(choices)
        ended, cut = dict.fromkeys(names, False), dict.fromkeys(names, game.over)
        if len(game.playing) < len(acted):
            for name in set(names) - {agent.name for agent in game.playing}:
                ended[name], cut[name] = True, False
        self.agents = [] if game.over else [agent.name for agent in game.playing]
        rewards = {agent.name: agent.reward for agent in acted}
        return self._observations(names, acted), rewards, ended, cut, _infos(acted)

    def _observations(self, names: list[str], agents: list[Agent]) -> dict[str, Any]:
        return dict(zip(names, self.game.view.of(self.game.world, agents), strict=True))


class Aec(_Env, AECEnv):  # type: ignore[misc]
    """The AEC form: a step is an action of the agent that is asked.

    Agents are asked in the order of their numbers. When the last has been, the turn ends. Agents for whom the game is
    over are asked once more then, and answer None; those that remain go on after that.

    Args:
        game: What is played.
    """

    def __init__(self, game: Game) -> None:
        super().__init__(game)
        self.metadata["observe_is_pure"] = True
        self.agent_selection = self.possible_agents[0]
        self.rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self._cumulative_rewards: dict[str, float] = {}
        self._chosen: list[int] = []  # in this turn

    @property
    def infos(self) -> dict[str, dict[str, Any]]:
        """What is counted of the agents in play, as it stands."""
        return _infos([self._agent(name) for name in self.agents])

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begins an episode; without a seed, from the generator as it is."""
        self.game.reset(seed)
        names = self.agents = list(self.possible_agents)
        self.agent_selection = names[0]
        self.rewards, self._cumulative_rewards = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
        self.terminations, self.truncations = dict.fromkeys(names, False), dict.fromkeys(names, False)
        self._chosen = []

    def step(self, action: Any) -> None:
        """Takes the action of the agent that is asked; None from one for whom the game is over.

        Raises:
            BadInput: the episode is over, or the action is none of the agent's.
        """
        if not self.agents:
            raise BadInput(NO_EPISODE)
        name, game = self.agent_selection, self.game
        if self.terminations[name] or self.truncations[name]:
            self._leave(name, action)
            return
        self._chosen.append(choice(name, action, game.actions))
        self._cumulative_rewards[name] = 0.0
        for agent in game.world.earners:
            self.rewards[agent.name] = 0.0
        game.begin_step()
        asked = list(game.playing)
        if game.ordered:
            game.let_act(asked[len(self._chosen) - 1], self._chosen[-1])
        if len(self._chosen) < len(asked):
            self.agent_selection = asked[len(self._chosen)].name
        else:
            self._end_turn(asked)
        for agent in game.world.earners:
            self.rewards[agent.name] = agent.reward
            self._cumulative_rewards[agent.name] += agent.reward

    def observe(self, agent: str) -> Any:
        """What an agent sees now."""
        return self._agent(agent).pov(self.game.world)

    def observe_all(self) -> dict[str, Any]:
        """What each agent in play sees now, built together."""
        agents = [self._agent(name) for name in self.agents]
        return dict(zip(self.agents, self.game.view.of(self.game.world, agents), strict=True))

    def last(self, observe: bool = True) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What the agent that is asked sees, what it has earned since it was asked before, its flags, and its info.

        Raises:
            BadInput: the episode is over, or has not begun.
        """
        if not self.agents:
            raise BadInput(NO_EPISODE)
        name = self.agent_selection
        agent = self._agent(name)
        seen = agent.pov(self.game.world) if observe else None
        flags = self.terminations[name], self.truncations[name]
        return seen, self._cumulative_rewards[name], *flags, dict(agent.counts)

    def agent_iter(self, max_iter: int = EVER) -> Iterator[str]:
        """The agents that are asked, one after another, until the episode is over."""
        while self.agents and max_iter > 0:
            max_iter -= 1
            yield self.agent_selection

    def _end_turn(self, asked: list[Agent]) -> None:
        game = self.game
        if game.ordered:
            game.finish_turn()
        else:
            game.play_turn(self._chosen)
        self._chosen = []
        left = {agent.name for agent in game.playing}
        for agent in asked:
            self.terminations[agent.name] = agent.name not in left
            self.truncations[agent.name] = game.over and agent.name in left
        self._ask_next()

    def _leave(self, name: str, action: Any) -> None:
        if action is not None:
            raise BadInput(f"action {action!r} of {name}, for whom the game is over: its last step takes None")
        self.agents.remove(name)
        for part in (self.rewards, self._cumulative_rewards, self.terminations, self.truncations):
            del part[name]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.game.begin_step()
        self._ask_next()

    def _ask_next(self) -> None:
        """Whom to ask when a turn is over: those first for whom the game is."""
        leaving = [name for name in self.agents if self.terminations[name] or self.truncations[name]]
        if self.agents:
            self.agent_selection = (leaving or self.agents)[0]

    def _agent(self, name: str) -> Agent:
        try:
            return self.game.agents[self.possible_agents.index(name)]
        except ValueError:
            raise BadInput(f"there is no agent {name!r}; there are {', '.join(self.possible_agents)}") from None


def _infos(agents: list[Agent]) -> dict[str, dict[str, Any]]:
    return {agent.name: agent.counts.copy() for agent in agents}
