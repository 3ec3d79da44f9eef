"""A bank: independent learners of one architecture, stacked, that act in one forward and learn in one descent.

    observations by (agent, world) ──► rows [agents, worlds, …], zeros where no agent is due ──► one forward ──► actions
    a window per agent ──► batches [agents, rows, …] ──► `Learning`: the due agents' rows, and no others ──► figures

Every agent has weights, moments, counters and generators of its own, and what it does and becomes is the same bits in
any bank, beside any other agents, in any order. What an update learns from is its window; what an epoch draws follows
from the seeds of `begin`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.errors import BadInput
from paceline.learning.encoding import Numbers, Observations
from paceline.learning.specs import DQN, PPO, architecture
from paceline.learning.stacked import Layers, Layout, Learning, one_thread, padded
from paceline.roles import Window
from paceline.seeds import sequence
from paceline.spaces import Array
from paceline.types import Acted, Seat

Place = tuple[int, int]
"""Number of an agent, number of a world."""
Figures = dict[str, float]
"""What an update says of itself."""


class Bank:
    """What all banks share; `DQNBank` and `PPOBank` say how agents choose and what they learn.

    Args:
        seats: The agents' seats, of one architecture.
        config: How they learn.
        seed: What the first weights follow from, with the names of the agents.
        worlds: In how many worlds they act side by side; bits depend on it.
        device: Where the networks are; bits depend on it.

    Raises:
        BadInput: a space is none that a learner can handle, or the seats are not of one architecture.
    """

    on_policy = False
    """Whether updates need rows that the weights before them have collected."""
    _kept: tuple[str, ...] = ("weights", "first", "second")  # rows [agents, size]; the last two are Adam's moments

    def __init__(
        self, seats: Sequence[Seat], config: DQN | PPO, *, seed: int, worlds: int, device: str = "cpu"
    ) -> None:
        self.agents = tuple(seat.agent for seat in seats)
        """The agents, in the order of the stack."""
        self._inputs, self._actions = _one_architecture(seats)
        if worlds < 1:
            raise BadInput(f"worlds={worlds}: agents act in at least one")
        self._numbers = {agent: number for number, agent in enumerate(self.agents)}
        self._observations = [Observations(seat.observation_space) for seat in seats]
        self._starts = [Numbers(seat.action_space).start for seat in seats]
        self._device, self._settings, self._worlds = device, config, worlds
        self._layers = self._networks()
        self._layout = Layout({name: shape for layers in self._layers for name, shape in layers.shapes.items()})
        self._rows = {kept: self._blank() for kept in self._kept}
        for number, agent in enumerate(self.agents):
            self._put("weights", number, self._first_weights(seed, agent))
        self._parameters = self._layout.views(self._rows["weights"])
        self._steps = [0] * len(seats)
        self._epoch = 0
        self._rngs: dict[Place, np.random.Generator] = {}
        self._seen = torch.zeros(len(padded(range(len(seats)))), worlds, self._inputs)

    def _networks(self) -> tuple[Layers, ...]:
        """The networks of an agent."""
        raise NotImplementedError

    def _choose(self, seen: Tensor, due: Sequence[Place]) -> list[Acted]:
        """Answers what is seen [agents, worlds, …], for those that are due."""
        raise NotImplementedError

    def _update(self, windows: Mapping[int, Window]) -> dict[int, Figures]:
        """One update of each of these agents, in the order of the stack."""
        raise NotImplementedError

    # -- weights -----------------------------------------------------------------------------------------------

    def _blank(self) -> Tensor:
        return torch.zeros(len(padded(range(len(self.agents)))), self._layout.size, device=self._device)

    def _put(self, kept: str, number: int, row: Array) -> None:
        self._rows[kept][number].copy_(torch.from_numpy(np.array(row, np.float32)))

    def _take(self, kept: str, number: int) -> Array:
        taken: Array = self._rows[kept][number].cpu().numpy().copy()
        return taken

    def _first_weights(self, seed: int, agent: str) -> Array:
        rng = np.random.default_rng(sequence(seed, "init", agent))
        drawn = {name: array for layers in self._layers for name, array in layers.first(rng).items()}
        return self._layout.row(drawn, f"agent {agent!r}")

    def weights(self) -> dict[str, dict[str, Array]]:
        """What acting needs, by agent and name: copies. A weight is [inputs, outputs]."""
        return {agent: self._layout.named(self._take("weights", n)) for agent, n in self._numbers.items()}

    def load(self, weights: Mapping[str, Mapping[str, Array]]) -> None:
        """Takes the weights of some agents, to act by them. What else they learn with stays.

        Raises:
            BadInput: an agent is not in the bank, or its weights do not fit; then nothing is taken.
        """
        rows = {self._number(agent): self._layout.row(own, f"agent {agent!r}") for agent, own in weights.items()}
        for number, row in rows.items():
            self._put("weights", number, row)

    def snapshot(self) -> dict[str, Any]:
        """Everything that it is, by agent: rows of weights and moments, counters, the generators of this epoch."""
        return {"epoch": self._epoch, "agents": {agent: self._state(n) for agent, n in self._numbers.items()}}

    def _state(self, number: int) -> dict[str, Any]:
        generators = {
            world: copy.deepcopy(rng.bit_generator.state) for (n, world), rng in self._rngs.items() if n == number
        }
        rows = {kept: self._take(kept, number) for kept in self._kept}
        return {"rows": rows, "steps": self._steps[number], "generators": generators}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a snapshot of the same agents, in whatever order they were stacked.

        Raises:
            BadInput: it is of other agents, or of another architecture.
        """
        agents = state["agents"]
        if set(agents) != set(self.agents):
            raise BadInput(f"the snapshot is of the agents {sorted(agents)}, and the bank has {sorted(self.agents)}")
        for agent, own in agents.items():
            shapes = {kept: np.shape(row) for kept, row in own["rows"].items()}
            if shapes != dict.fromkeys(self._kept, (self._layout.size,)):
                raise BadInput(f"the snapshot of agent {agent!r} is of another architecture: {shapes}")
        self._epoch, self._rngs = state["epoch"], {}
        for agent, own in agents.items():
            self._restore_agent(self._numbers[agent], own)

    def _restore_agent(self, number: int, own: Mapping[str, Any]) -> None:
        self._steps[number] = int(own["steps"])
        for kept, row in own["rows"].items():
            self._put(kept, number, row)
        for world, generator in own["generators"].items():
            self._rngs[number, world] = rng = np.random.default_rng(0)
            rng.bit_generator.state = copy.deepcopy(generator)

    # -- acting ------------------------------------------------------------------------------------------------

    def begin(self, epoch: int, seeds: Mapping[str, Sequence[int]]) -> None:
        """Begins an epoch.

        Args:
            epoch: Its number, from 0.
            seeds: For each agent that will act, a seed per world.

        Raises:
            BadInput: an agent is not in the bank, or has not one seed per world.
        """
        for agent, own in seeds.items():
            if len(own) != self._worlds:
                raise BadInput(f"agent {agent!r} has {len(own)} seeds for {self._worlds} worlds")
        self._epoch = epoch
        self._rngs = {
            (self._number(agent), world): np.random.default_rng(seed)
            for agent, own in seeds.items()
            for world, seed in enumerate(own)
        }

    def act(self, observations: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], Acted]:
        """Answers the agents that are due, in one forward of all rows; the others draw nothing.

        Args:
            observations: What each sees, by agent and world.

        Raises:
            BadInput: an agent is not in the bank, or has not begun in that world.
        """
        due = [self._place(agent, world) for agent, world in observations]
        seen = self._seen.numpy()
        seen[:] = 0
        for (number, world), value in zip(due, observations.values(), strict=True):
            self._observations[number].write(seen[number, world], value)
        with one_thread(), torch.inference_mode():
            acted = self._choose(self._seen.to(self._device), due)
        return dict(zip(observations, acted, strict=True))

    def _place(self, agent: str, world: int) -> Place:
        place = self._number(agent), world
        if place not in self._rngs:
            raise BadInput(f"agent {agent!r} has not begun in world {world}: call begin(epoch, seeds) before")
        return place

    def _number(self, agent: str) -> int:
        if agent not in self._numbers:
            raise BadInput(f"agent {agent!r} is not in this bank: it has {', '.join(map(repr, self.agents))}")
        return self._numbers[agent]

    # -- learning ----------------------------------------------------------------------------------------------

    def learn(self, windows: Mapping[str, Window]) -> dict[str, Figures]:
        """Makes one update of each agent that is named; the others stay as they are.

        Args:
            windows: What each learns from: its own rows.

        Returns:
            Figures by agent: `loss`, `grad_norm` (before it was clipped) and others, means over the update's gradient
            steps. An agent without rows to learn from stays as it is, and has no figures.

        Raises:
            BadInput: an agent is not in the bank.
        """
        numbers = {self._number(agent): window for agent, window in windows.items()}
        with one_thread():
            figures = self._update({number: numbers[number] for number in sorted(numbers)})
        return {agent: figures.get(self._numbers[agent], {}) for agent in windows}

    def _gather(self, stack: Sequence[int]) -> Learning:
        """Copies of the rows of these agents, to learn with."""
        rows = {kept: tensor[list(stack)] for kept, tensor in self._rows.items()}
        steps = [self._steps[number] for number in stack]
        return Learning(self._layout, rows, steps, lr=self._settings.lr, clip=self._settings.clip)

    def _scatter(self, learning: Learning, agents: Sequence[int]) -> None:
        """Puts what was learned in its place; nothing has been changed before."""
        for place, number in enumerate(agents):
            self._steps[number] = learning.steps[place]
            for kept, tensor in self._rows.items():
                tensor[number].copy_(learning.rows[kept][place])

    def _indices(self, number: int, actions: Any) -> Array:
        """Actions as numbers from 0."""
        found: Array = np.asarray(actions).astype(np.int64) - self._starts[number]
        return found


def _one_architecture(seats: Sequence[Seat]) -> tuple[int, int]:
    if not seats:
        raise BadInput("a bank needs at least one agent")
    sizes = {seat.agent: architecture(seat) for seat in seats}
    if len(sizes) < len(seats):
        raise BadInput(f"two seats of a bank are of one agent: {[seat.agent for seat in seats]}")
    first, found = next(iter(sizes.items()))
    for agent, other in sizes.items():
        if other != found:
            raise BadInput(
                f"agent {agent!r} has (inputs, actions) = {other}, and {first!r} has {found}: agents of one bank are "
                "of one architecture; put them in banks of their own"
            )
    return found


def means(figures: Mapping[str, Sequence[Tensor]], agents: Sequence[int]) -> dict[int, Figures]:
    """Figures [agents] of gradient steps as means by agent."""
    arrays = {name: torch.stack(list(parts)).double().cpu().numpy() for name, parts in figures.items()}
    return {
        number: {name: float(array[:, place].sum() / len(array)) for name, array in arrays.items()}
        for place, number in enumerate(agents)
    }
