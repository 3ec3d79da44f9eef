"""A bank: independent learners of one architecture, stacked, that act in one forward and learn in one descent.

    observations by (agent, world) ──► rows [agents, worlds, …] of the agents from the first to the last that is due,
                                       zeros where none is due ──► one forward ──► actions
    a window per agent ──► batches [agents, rows, …] ──► `Learning`: the due agents' rows, and no others ──► figures

Every agent has weights, moments, counters and generators of its own, and what it does and becomes is the same bits in
any bank, beside any other agents, in any order. What an update learns from is its window; what an epoch draws follows
from the seeds of `begin`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.errors import BadInput
from paceline.learning.encoding import Numbers, Observations
from paceline.learning.recurrence import Recurrence
from paceline.learning.specs import DQN, PPO, architecture
from paceline.learning.stacked import Layers, Layout, Learning, Parameters, narrowest, one_thread, padded
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
    memoryless = True
    """Whether an answer follows from weights, observation and draw alone, so that an agent may be asked again."""
    _draws = 0  # numbers that an agent draws for an action
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
        self._layers, self._memories = self._networks(), self._recurrences()
        self._parts: tuple[Layers | Recurrence, ...] = (*self._layers, *self._memories)
        self._layout = Layout({name: shape for part in self._parts for name, shape in part.shapes.items()})
        self._rows = {kept: self._blank() for kept in self._kept}
        for number, agent in enumerate(self.agents):
            self._put("weights", number, self._first_weights(seed, agent))
        self._slices: dict[tuple[int, int], Parameters] = {}
        self._steps = [0] * len(seats)
        self._epoch = 0
        self._rngs: dict[Place, np.random.Generator] = {}
        self._drawn: dict[Place, Array] = {}  # for the last action
        self._seen = torch.zeros(len(padded(range(len(seats)))), worlds, self._inputs)

    def _networks(self) -> tuple[Layers, ...]:
        """The networks of an agent."""
        raise NotImplementedError

    def _recurrences(self) -> tuple[Recurrence, ...]:
        """What an agent remembers with."""
        return ()

    def _choose(self, parameters: Parameters, seen: Tensor, first: int, due: Sequence[Place]) -> list[Acted]:
        """Answers what is seen [agents, worlds, …] by agent `first` and those after it, for the places that are due."""
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
        drawn = {name: array for part in self._parts for name, array in part.first(rng).items()}
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
        drawn = {world: numbers for (n, world), numbers in self._drawn.items() if n == number}
        return {"rows": rows, "steps": self._steps[number], "generators": generators, "drawn": drawn}

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
        self._epoch, self._rngs, self._drawn = state["epoch"], {}, {}
        for agent, own in agents.items():
            self._restore_agent(self._numbers[agent], own)

    def _restore_agent(self, number: int, own: Mapping[str, Any]) -> None:
        self._steps[number] = int(own["steps"])
        for kept, row in own["rows"].items():
            self._put(kept, number, row)
        for world, generator in own["generators"].items():
            self._rngs[number, world] = rng = np.random.default_rng(0)
            rng.bit_generator.state = copy.deepcopy(generator)
        for world, numbers in own["drawn"].items():
            self._drawn[number, world] = numbers

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
        self._epoch, self._drawn = epoch, {}
        self._rngs = {
            (self._number(agent), world): np.random.default_rng(seed)
            for agent, own in seeds.items()
            for world, seed in enumerate(own)
        }

    def act(
        self, observations: Mapping[tuple[str, int], Any], again: Collection[tuple[str, int]] = ()
    ) -> dict[tuple[str, int], Acted]:
        """Answers the agents that are due, in one forward of their part of the stack; the others draw nothing.

        Args:
            observations: What each sees, by agent and world.
            again: Those whose last action was not taken, because they see something else now: what they drew for it
                counts for this one.

        Raises:
            BadInput: an agent is not in the bank, or has not begun in that world.
        """
        if not observations:
            return {}
        due = {name: self._place(*name) for name in observations}
        first, end = narrowest([number for number, _ in due.values()], len(self._seen))
        part = self._seen[first:end]
        seen = part.numpy()
        seen[:] = 0
        for name, (number, world) in due.items():
            self._observations[number].write(seen[number - first, world], observations[name])
            if name not in again:
                self._drawn[number, world] = self._rngs[number, world].random(self._draws)
        with one_thread(), torch.inference_mode():
            parameters = self._parameters(first, end)
            acted = self._choose(parameters, part.to(self._device), first, list(due.values()))
        return dict(zip(observations, acted, strict=True))

    def _parameters(self, first: int, end: int) -> Parameters:
        """The weights of a part of the stack, by name; they share its memory, which stays where it is."""
        if (first, end) not in self._slices:
            self._slices[first, end] = self._layout.views(self._rows["weights"][first:end])
        return self._slices[first, end]

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
            Exception: what went wrong with the rows of an agent; then all agents are as they were.
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
