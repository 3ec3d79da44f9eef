"""A twin of Sorrel's surface, written by hand: a grid, entities, agents, an environment, and small models."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
import torch
from torch import nn

from paceline.adapters.sorrel import Buffer, ThreadSafeBuffer

SIZE = 7
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))


class Entity:
    """What a place holds."""

    def __init__(self, value: float = 0.0, passable: bool = True, has_transitions: bool = False) -> None:
        self.value, self.passable, self.has_transitions = value, passable, has_transitions

    def transition(self, world: Any) -> None:
        pass


class Sand(Entity):
    """Grows a gem now and then, by the process-wide generator."""

    def __init__(self) -> None:
        super().__init__(has_transitions=True)

    def transition(self, world: Any) -> None:
        if np.random.random() < 0.05:
            world.map[world.place_of(self)] = Entity(value=random.choice([1.0, 2.0]))


class SourceBuffer(Buffer):
    """As the source document writes it, with a lock that is not left out when it is copied."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lock = Lock()

    def add(self, *row: Any) -> None:
        with self._lock:
            super().add(*row)

    def sample(self, batch_size: int) -> Any:
        with self._lock:
            return super().sample(batch_size)


class World:
    """A grid of entities."""

    ground: Any = Sand

    def __init__(self) -> None:
        self.map: Any = np.empty((SIZE, SIZE), object)
        self.total_reward, self.is_done = 0.0, False

    def create_world(self) -> None:
        self.total_reward = 0.0
        for place in np.ndindex(self.map.shape):
            self.map[place] = Sand()

    def place_of(self, entity: Any) -> tuple[int, int]:
        return next(place for place, found in np.ndenumerate(self.map) if found is entity)


class Agent(Entity):
    """Moves, and takes what it finds. Others are in its way."""

    def __init__(self, model: Any) -> None:
        self.value, self.passable, self.has_transitions = 0.0, False, True
        self.model, self.location = model, (0, 0)

    def reset(self) -> None:
        for _ in range(2):
            self.add_memory(np.zeros(25, np.float32), 0, 0.0, False)

    def pov(self, world: Any) -> Any:
        y, x = self.location
        seen = np.full((5, 5), -1.0, np.float32)
        for dy in range(-2, 3):
            for dx in range(-2, 3):
                if 0 <= y + dy < SIZE and 0 <= x + dx < SIZE:
                    found = world.map[y + dy, x + dx]
                    seen[dy + 2, dx + 2] = found.value if found.passable else 9.0
        return seen.reshape(-1)

    def get_action(self, state: Any) -> int:
        return int(self.model.take_action(state))

    def act(self, world: Any, action: int) -> float:
        y, x = (a + b for a, b in zip(self.location, MOVES[action], strict=True))
        if not (0 <= y < SIZE and 0 <= x < SIZE and world.map[y, x].passable):
            return -0.1
        reward = world.map[y, x].value
        world.map[self.location], world.map[y, x], self.location = world.ground(), self, (y, x)
        return float(reward)

    def is_done(self, world: Any) -> bool:
        return bool(world.is_done)

    def add_memory(self, state: Any, action: int, reward: float, done: bool) -> None:
        self.model.memory.add(state, action, reward, done)

    def transition(self, world: Any) -> None:
        state = self.pov(world)
        action = self.get_action(state)
        reward = self.act(world, action)
        done = self.is_done(world)
        world.total_reward += reward
        self.add_memory(state, action, reward, done)


class Net(nn.Module):
    """A small torch model that draws from process-wide generators, with a count of its own."""

    def __init__(self, buffer: type[Buffer] = ThreadSafeBuffer) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(25, 16), nn.ReLU(), nn.Linear(16, 4))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.memory = buffer(120, (25,))
        self.epsilon, self.answers, self.trainings, self.epochs = 0.8, 0, 0, [0]
        self.noted: dict[float, bool] = {}

    def take_action(self, state: Any) -> int:
        self.answers += 1
        self.noted[round(float(state.sum()), 3)] = True
        if len(self.noted) % 4 == 3:  # an answer that did not hold, and was not taken back, would show
            return 0
        if np.random.random() < self.epsilon:
            return random.randrange(4)
        with torch.no_grad():
            return int(self.net(torch.from_numpy(state)).argmax())

    def train_step(self) -> float:
        states, actions, rewards, following, _, _ = self.memory.sample(16)
        with torch.no_grad():
            wanted = torch.from_numpy(rewards) + 0.9 * self.net(torch.from_numpy(following)).max(1, keepdim=True).values
        noisy = self.net(torch.from_numpy(states) + 0.01 * torch.randn(16, 25))
        loss = (noisy.gather(1, torch.from_numpy(actions)) - wanted).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.trainings += 1
        return float(loss.detach())

    def start_epoch_action(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def end_epoch_action(self, epoch: int) -> None:
        self.epsilon *= 0.9

    def epsilon_decay(self, rate: float) -> None:
        self.epsilon *= 1 - rate

    def save(self, path: Path) -> None:
        torch.save(self.state_dict(), path)


class Normed(Net):
    """Has sums that depend on how many threads torch computes on."""

    def __init__(self) -> None:
        super().__init__()
        self.net.insert(1, nn.LayerNorm(16))
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)


class Gathers(Net):
    """Sums gradients up over trainings."""

    def train_step(self) -> float:
        states, actions, rewards, *_ = self.memory.sample(16)
        found = self.net(torch.from_numpy(states)).gather(1, torch.from_numpy(actions))
        loss = (found - torch.from_numpy(rewards)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.trainings += 1
        return float(loss.detach())


class Attached(Net):
    """Holds the process-wide generators, as Sorrel's models hold what `torch.manual_seed` gives."""

    def __init__(self) -> None:
        super().__init__()
        self.seed, self.rand, self.roll = torch.default_generator, np.random.mtrand._rand, random.random

    def take_action(self, state: Any) -> int:
        if self.roll() < self.rand.random_sample() * float(torch.rand((), generator=self.seed)):
            return super().take_action(state)
        return self.answers % 4


class Table:
    """A model of NumPy alone, with a generator of its own: it can be run on threads."""

    def __init__(self, seed: int) -> None:
        self.rng, self.values, self.memory = np.random.default_rng(seed), np.zeros(4), Buffer(60, (25,))
        self.number = seed
        self.losses: list[float] = []

    def take_action(self, state: Any) -> int:
        return int((self.values + self.rng.normal(size=4) + state[12] * 0).argmax())

    def train_step(self) -> float:
        rows = self.rng.integers(max(1, self.memory.size), size=8)
        for row in rows:
            action = self.memory.actions[row]
            self.values[action] += 0.1 * (self.memory.rewards[row] - self.values[action])
        self.losses.append(float(self.values.sum()))
        return self.losses[-1]

    def start_epoch_action(self, epoch: int) -> None:
        pass

    end_epoch_action = start_epoch_action


class Watched(Table):
    """Notes where the process-wide generator stands whenever it learns."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seen: list[Any] = []

    def train_step(self) -> float:
        self.seen.append(random.getstate()[1][:3])
        return super().train_step()


class Wavers(Table):
    """Draws from a process-wide generator, too, once it has been asked or trained a few times."""

    def __init__(self, seed: int, answers: int = 10**9, trainings: int = 10**9) -> None:
        super().__init__(seed)
        self.left, self.lessons = answers, trainings

    def take_action(self, state: Any) -> int:
        self.left -= 1
        return int(np.random.randint(4)) if self.left < 0 else super().take_action(state)

    def train_step(self) -> float:
        self.lessons -= 1
        return super().train_step() + (float(np.random.random()) if self.lessons < 0 else 0.0)


class Lingers(Table):
    """Its second training goes on for a while after its agent has failed in play."""

    begun, failed, ended = Event(), Event(), Event()

    def __init__(self, seed: int, error: type[BaseException]) -> None:
        super().__init__(seed)
        self.error = error
        for event in (self.begun, self.failed, self.ended):
            event.clear()

    def start_epoch_action(self, epoch: int) -> None:
        if epoch == 5:
            self.begun.wait()
            self.failed.set()
            raise self.error("in play")

    def train_step(self) -> float:
        if self.losses:
            self.begun.set()
            self.failed.wait()
            sum(range(3_000_000))
            self.ended.set()
        return super().train_step()


class Environment:
    """What Sorrel's does: its loop trains after every epoch."""

    def __init__(self, config: Any, models: list[Any]) -> None:
        self.config, self.world, self.turn, self.stop_if_done = config, World(), 0, False
        self.agents = [Agent(model) for model in models]

    def reset(self) -> None:
        self.turn, self.world.is_done = 0, False
        self.world.create_world()
        for agent in self.agents:
            agent.location = (random.randrange(SIZE), int(np.random.randint(SIZE)))
            while not self.world.map[agent.location].passable:
                agent.location = (random.randrange(SIZE), int(np.random.randint(SIZE)))
            self.world.map[agent.location] = agent
            agent.reset()

    def take_turn(self) -> None:
        self.turn += 1
        for _, entity in np.ndenumerate(self.world.map):
            if entity.has_transitions and not isinstance(entity, Agent):
                entity.transition(self.world)
        for agent in self.agents:
            agent.transition(self.world)


class ImageRenderer:
    """Writes what it has been shown as text, under a picture's name."""

    def __init__(self, experiment_name: str, record_period: int, num_turns: int) -> None:
        self.name, self.frames = experiment_name, list[str]()

    def add_image(self, world: Any) -> None:
        self.frames.append(f"{world.total_reward:.3f} {random.random()}")  # a renderer may draw

    def save_gif(self, epoch: int, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}_epoch{epoch}.gif").write_text("\n".join(self.frames))
        self.frames.clear()


class ConsoleLogger:
    """Prints a line for every epoch."""

    def __init__(self, max_epochs: int) -> None:
        self.max_epochs = max_epochs

    def record_turn(self, epoch: int, loss: float, reward: float, epsilon: float = 0.0) -> None:
        print(f"epoch {epoch} of {self.max_epochs}")


class LoopedEnvironment(Environment):
    """Has a loop of its own, as Sorrel's has: on the caller's generators and threads, trained after every epoch."""

    threads = 0

    def run_experiment(
        self, animate: bool = True, logging: bool = True, logger: Any = None, output_dir: Path | None = None
    ) -> str:
        settings, self.threads = self.config["experiment"], torch.get_num_threads()
        pictures = ImageRenderer(type(self).__name__, settings["record_period"], settings["max_turns"])
        logger = logger or ConsoleLogger(settings["epochs"])
        for epoch in range(settings["epochs"] + 1):
            self.reset()
            for agent in self.agents:
                agent.model.start_epoch_action(epoch=epoch)
            while self.turn < settings["max_turns"]:
                if animate:
                    pictures.add_image(self.world)
                self.take_turn()
            for agent in self.agents:
                agent.model.end_epoch_action(epoch=epoch)
            loss = sum(agent.model.train_step() for agent in self.agents)
            if logging:
                logger.record_turn(epoch, loss, self.world.total_reward, self.agents[0].model.epsilon)
        return "done"


class QuietEnvironment(Environment):
    """Draws from a generator of its own alone."""

    def __init__(self, config: Any, models: list[Any]) -> None:
        super().__init__(config, models)
        self.rng, self.world.ground = np.random.default_rng(5), Entity

    def reset(self) -> None:
        self.turn = 0
        self.world.create_world()
        for place in np.ndindex(self.world.map.shape):
            self.world.map[place] = Entity(value=float(self.rng.integers(3)))
        for number, agent in enumerate(self.agents):
            agent.location = (3, 2 + number)
            self.world.map[agent.location] = agent
            agent.reset()


class PlainAgent(Entity):
    """As the source document has it: asked in five calls, by a turn that is not its own; sometimes it rests."""

    __init__, reset, add_memory = Agent.__init__, Agent.reset, Agent.add_memory  # type: ignore[assignment]
    pov, get_action, act, is_done = Agent.pov, Agent.get_action, Agent.act, Agent.is_done

    def can_act(self) -> bool:
        return (self.location[0] + self.location[1]) % 5 != 0


class PlainEnvironment(Environment):
    """As the source document has it: no `take_turn`."""

    take_turn = None  # type: ignore[assignment]

    def __init__(self, config: Any, models: list[Any]) -> None:
        super().__init__(config, models)
        self.agents = [PlainAgent(model) for model in models]


class DrowsyAgent(PlainAgent):
    """Acts by chance, and in some places every third time that it is asked whether it can."""

    asked = 0

    def can_act(self) -> bool:
        self.asked += self.location[1] % 2
        return self.asked % 3 != 1 and bool(np.random.random() < 0.8)


class DrowsyEnvironment(PlainEnvironment):
    """As `PlainEnvironment`, with agents that change when they are asked whether they can act."""

    def __init__(self, config: Any, models: list[Any]) -> None:
        super().__init__(config, models)
        self.agents = [DrowsyAgent(model) for model in models]


class ScribblingAgent(PlainAgent):
    """Writes to what it sees before that is remembered."""

    def get_action(self, state: Any) -> int:
        action = int(self.model.take_action(state))
        state[0] = action
        return action


class ScribblingEnvironment(PlainEnvironment):
    """As `PlainEnvironment`, with agents that write to what they see."""

    def __init__(self, config: Any, models: list[Any]) -> None:
        super().__init__(config, models)
        self.agents = [ScribblingAgent(model) for model in models]


class Raises(Net):
    """Its second training fails, after it has changed something."""

    def train_step(self) -> float:
        loss = super().train_step()
        if self.trainings == 2:
            raise RuntimeError("no more")
        return loss


class Spoils(Net):
    """Its second training fills weights, and with them its optimizer, with NaN, as a rate that is too high does."""

    loss = float("nan")

    def train_step(self) -> float:
        loss = super().train_step()
        if self.trainings == 2:
            with torch.no_grad():
                self.net[2].weight.fill_(torch.nan)
                self.optimizer.state[self.net[2].weight]["exp_avg"].fill_(torch.inf)
            self.memory.add(np.ones(25), 1, 1.0, True)
            return self.loss
        return loss


class SpoilsUnseen(Spoils):
    """As `Spoils`, with a loss like any other."""

    loss = 0.5


class LosesItself(Net):
    """The loss of its second training is NaN, and its weights are numbers."""

    def train_step(self) -> float:
        loss = super().train_step()
        return float("nan") if self.trainings == 2 else loss


class SpoilsTable(Table):
    """A model of NumPy alone, whose second training puts another array in the place of its values."""

    def train_step(self) -> float:
        loss = super().train_step()
        if len(self.losses) == 2:
            self.values = self.values + np.array([0.0, np.inf, 0.0, 0.0])
        return loss


class Exits(Net):
    """Its second training ends the program, if it is let."""

    def train_step(self) -> float:
        loss = super().train_step()
        if self.trainings == 2:
            sys.exit(4)
        return loss


class Masked(Net):
    """Has a mask that is infinite, and is made anew in every training."""

    mask = torch.empty(0)

    def train_step(self) -> float:
        self.mask = torch.full((4,), -torch.inf)
        return super().train_step()


class Lazy(Spoils):
    """Has a layer that gets its weights in its first training, and loses them in the second."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.LazyLinear(2)

    def train_step(self) -> float:
        self.last(torch.ones(3))
        loss = super().train_step()
        if self.trainings == 2:
            self.last.weight.data.fill_(torch.nan)
        return loss


class Dies(Net):
    """Its second training kills its process, at every try."""

    def train_step(self) -> float:
        if self.trainings == 1:
            os._exit(3)
        return super().train_step()


class Hangs(Table):
    """Its second training does not end."""

    def train_step(self) -> float:
        if len(self.losses) == 1:
            time.sleep(600)
        return super().train_step()


class FailsOnce(Net):
    """Its second training fails after it has changed something, and works if it is tried again."""

    failed = False

    def train_step(self) -> float:
        loss = super().train_step()
        if self.trainings == 2 and not FailsOnce.failed:
            FailsOnce.failed = True
            raise RuntimeError("once")
        return loss


class DiesOnce(Net):
    """Its process is killed in the middle of its third training, once; and of its fifth answer to a question, once."""

    def __init__(self, mark: Path) -> None:
        super().__init__()
        self.mark, self.main = mark, os.getpid()

    def _die(self, name: str) -> None:
        mark = self.mark.with_suffix(name)
        if os.getpid() != self.main and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def train_step(self) -> float:
        loss = super().train_step()
        if self.trainings == 3:
            self._die(".trained")
        return loss

    def take_action(self, state: Any) -> int:
        action = super().take_action(state)
        if self.answers > 4:
            self._die(".asked")
        return action


class ShufflingEnvironment(QuietEnvironment):
    """Lets agents move in another order in every turn; one rests in some, and some are made anew in every epoch."""

    def reset(self) -> None:
        self.agents = sorted([*self.agents, *getattr(self, "resting", [])], key=lambda agent: agent.model.number)
        self.agents[1:] = [type(agent)(agent.model) for agent in self.agents[1:]]
        self.resting: list[Any] = []
        super().reset()

    def take_turn(self) -> None:
        self.agents += self.resting
        self.rng.shuffle(self.agents)
        self.resting = [self.agents.pop()] if self.turn % 2 else []
        super().take_turn()


class ChangingAgent(Agent):
    """Chooses by a method of its own, and by another one from some turn on."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.get_action = self.choose  # type: ignore[method-assign]

    def choose(self, state: Any) -> int:
        return 3 - int(self.model.take_action(state))

    def act(self, world: Any, action: int) -> float:
        if self.model.memory.size == 12:
            self.get_action = lambda state: 0  # type: ignore[method-assign]
        return super().act(world, action)


class StubbornAgent(Agent):
    """Always does the same."""

    def get_action(self, state: Any) -> int:
        return 0


class ConvertingEnvironment(QuietEnvironment):
    """Its agents become stubborn in epoch 2: they are of another class from then on."""

    epochs = -1

    def reset(self) -> None:
        super().reset()
        self.epochs += 1
        if self.epochs == 2:
            for agent in self.agents:
                agent.__class__ = StubbornAgent


class RemakingEnvironment(QuietEnvironment):
    """All agents are made anew in every epoch."""

    def reset(self) -> None:
        self.agents = [type(agent)(agent.model) for agent in self.agents]
        super().reset()


class Iterates(Table):
    """Holds an iterator from some epoch on, which cannot be copied."""

    def start_epoch_action(self, epoch: int) -> None:
        if epoch == 3:
            self.steps = [count()]
