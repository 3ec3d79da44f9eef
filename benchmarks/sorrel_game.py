"""A game in the style of Sorrel: learners hunt treasures on a grid. Objects and loop are as its users write them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from paceline.adapters.sorrel import Buffer, ThreadSafeBuffer

SIZE, VISION, KINDS, ACTIONS = 21, 4, 4, 4
INPUTS = KINDS * (2 * VISION + 1) ** 2
_MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Entity:
    """What a place holds."""

    kind, value, has_transitions, passable = 0, 0.0, False, True


class Sand(Entity):
    """Empty ground, on which treasures appear."""

    has_transitions = True

    def transition(self, world: World) -> None:
        if np.random.random() < 0.001:
            world.appears.append(self)


class Treasure(Entity):
    """Worth something."""

    kind, value = 1, 1.0


class World:
    """The grid."""

    def __init__(self) -> None:
        self.total_reward, self.is_done = 0.0, False
        self.create_world()

    def create_world(self) -> None:
        self.map = np.empty((SIZE, SIZE), object)
        self.appears: list[Any] = []
        for place in np.ndindex(self.map.shape):
            self.map[place] = Sand()


class Model(nn.Module):
    """Learns by Q-learning: as many gradient steps of one training as it is told."""

    def __init__(self, rows: int, steps: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(INPUTS, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, ACTIONS)
        )
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.memory: Buffer = ThreadSafeBuffer(rows, (INPUTS,))
        self.epsilon, self.steps = 0.5, steps

    def take_action(self, state: Any) -> int:
        if np.random.random() < self.epsilon:
            return int(np.random.randint(ACTIONS))
        with torch.no_grad():
            return int(self.net(torch.from_numpy(state)).argmax())

    def train_step(self) -> float:
        loss = torch.zeros(())
        for _ in range(self.steps):
            states, actions, rewards, following, dones, _ = map(torch.from_numpy, self.memory.sample(64))
            with torch.no_grad():
                best = self.net(following).max(1, keepdim=True).values
            loss = (self.net(states).gather(1, actions) - rewards - 0.9 * (1 - dones) * best).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def start_epoch_action(self, epoch: int) -> None:
        """Nothing is to be done."""

    def end_epoch_action(self, epoch: int) -> None:
        self.epsilon = max(0.05, self.epsilon * 0.99)


class Hunter(Entity):
    """Sees a window of the grid, one-hot, and moves."""

    kind, passable, has_transitions = 2, False, True

    def __init__(self, model: Model) -> None:
        self.model, self.location = model, (0, 0)

    def pov(self, world: World) -> Any:
        seen = np.zeros((KINDS, 2 * VISION + 1, 2 * VISION + 1), np.float32)
        y, x = self.location
        for row in range(-VISION, VISION + 1):
            for column in range(-VISION, VISION + 1):
                inside = 0 <= y + row < SIZE and 0 <= x + column < SIZE
                kind = world.map[y + row, x + column].kind if inside else 3
                seen[kind, row + VISION, column + VISION] = 1.0
        return seen.reshape(-1)

    def get_action(self, state: Any) -> int:
        return self.model.take_action(state)

    def act(self, world: World, action: int) -> float:
        y, x = (a + b for a, b in zip(self.location, _MOVES[action], strict=True))
        if not (0 <= y < SIZE and 0 <= x < SIZE and world.map[y, x].passable):
            return -0.1
        reward = float(world.map[y, x].value)
        world.map[self.location], world.map[y, x], self.location = Sand(), self, (y, x)
        return reward

    def is_done(self, world: World) -> bool:
        return world.is_done

    def add_memory(self, state: Any, action: int, reward: float, done: bool) -> None:
        self.model.memory.add(state, action, reward, done)

    def transition(self, world: World) -> None:
        state = self.pov(world)
        action = self.get_action(state)
        reward = self.act(world, action)
        world.total_reward += reward
        self.add_memory(state, action, reward, self.is_done(world))


class Hunt:
    """The environment, with the loop of the source: it trains after every so many epochs."""

    def __init__(self, config: dict[str, Any], agents: int, rows: int, steps: int) -> None:
        self.config, self.world, self.turn = config, World(), 0
        self.agents = [Hunter(Model(rows, steps)) for _ in range(agents)]

    def reset(self) -> None:
        self.turn, self.world.is_done, self.world.total_reward = 0, False, 0.0
        self.world.create_world()
        for place in np.random.permutation(SIZE * SIZE)[: 40 + len(self.agents)]:
            self.world.map[divmod(int(place), SIZE)] = Treasure()
        for agent, place in zip(self.agents, np.random.permutation(SIZE * SIZE), strict=False):
            agent.location = divmod(int(place), SIZE)
            self.world.map[agent.location] = agent

    def take_turn(self) -> None:
        self.turn += 1
        for place, entity in np.ndenumerate(self.world.map):
            if entity.has_transitions and not isinstance(entity, Hunter):
                entity.transition(self.world)
                if self.world.appears:
                    self.world.appears.clear()
                    self.world.map[place] = Treasure()
        for agent in self.agents:
            agent.transition(self.world)

    def play(self, epoch: int) -> None:
        """Plays an epoch."""
        self.reset()
        for agent in self.agents:
            agent.model.start_epoch_action(epoch)
        for _ in range(self.config["experiment"]["max_turns"]):
            self.take_turn()
        for agent in self.agents:
            agent.model.end_epoch_action(epoch)

    def run_in_order(self) -> None:
        """The source's own loop, in one process."""
        interval = self.config["parallel"]["train_interval"]
        for epoch in range(self.config["experiment"]["epochs"] + 1):
            self.play(epoch)
            if epoch and epoch % interval == 0:
                for agent in self.agents:
                    agent.model.train_step()


def shares(env: Hunt) -> dict[str, float]:
    """Which share of the source's loop observing, acting (inference), executing and learning have."""
    spent: Counter[str] = Counter()

    def timed(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return own(*args)
            finally:
                spent[name] += time.perf_counter() - begin

        return run

    for agent in env.agents:
        for name, method in (("observing", "pov"), ("acting", "get_action"), ("executing", "act")):
            setattr(agent, method, timed(name, getattr(agent, method)))
        object.__setattr__(agent.model, "train_step", timed("learning", agent.model.train_step))
    begin = time.perf_counter()
    env.run_in_order()
    whole = time.perf_counter() - begin
    return {**{name: took / whole for name, took in spent.items()}, "rest": 1 - sum(spent.values()) / whole}
