"""Windows in memory, and seats, for the tests of banks."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from paceline.seeds import sequence
from paceline.types import Seat

SEEN = spaces.Box(-10, 10, (5,), np.float32)
DONE = spaces.Discrete(3)


def seats(*agents: str, seen: Any = SEEN, done: Any = DONE) -> list[Seat]:
    """A seat for each agent."""
    return [Seat(agent, number, seen, done, "m") for number, agent in enumerate(agents)]


class Rows:
    """A window over columns, as `roles.Window` has it; all of its rows are new unless it is told otherwise.

    Args:
        columns: Name → array.
        rng: The update's generator.
        new: The first row that is new.
    """

    def __init__(self, columns: dict[str, Any], rng: np.random.Generator, new: int = 0) -> None:
        self.columns, self.rng = columns, rng
        ends = columns["ends"]
        self.new = {
            name: column[new:] for name, column in columns.items() if name not in ("ends", "final_observations")
        }
        self.new["ends"] = ends[ends >= new] - new
        self.new["final_observations"] = columns["final_observations"][ends >= new]

    def __len__(self) -> int:
        return len(self.columns["rewards"])

    def sample(self, count: int, *, steps: int = 1, discount: float = 1.0) -> dict[str, Any]:
        ends = dict(zip(self.columns["ends"].tolist(), self.columns["final_observations"], strict=True))
        known = len(self) if len(self) - 1 in ends else len(self) - 1
        drawn = self.rng.integers(known, size=count)
        found = {name: self.columns[name][drawn] for name in ("observations", "actions", "rewards")}
        totals, discounts, following = np.zeros(count, np.float32), np.ones(count, np.float32), []
        for place, first in enumerate(drawn.tolist()):
            for row in range(first, min(first + steps, known)):
                totals[place] += discounts[place] * self.columns["rewards"][row]
                discounts[place] *= discount
                if row in ends:
                    discounts[place] *= not self.columns["terminations"][row]
                    break
            following.append(ends[row] if row in ends else self.columns["observations"][row + 1])
        return {**found, "rewards": totals, "discounts": discounts, "next_observations": np.stack(following)}

    def sequences(self, count: int, length: int, *, lead: int = 0) -> dict[str, Any]:
        ends, terminations = self.columns["ends"].tolist(), self.columns["terminations"]
        rows, mask = [], np.zeros((count, lead + length), bool)
        for place, first in enumerate(self.rng.integers(len(self), size=count).tolist()):
            last = next(end for end in ends if end >= first)
            begin = max((end + 1 for end in ends if end < first), default=0)
            for step, row in enumerate(range(first - lead, first + length)):
                mask[place, step] = begin <= row <= last
                rows.append(min(max(row, begin), last))
        finals = dict(zip(ends, self.columns["final_observations"], strict=True))
        seen = self.columns["observations"]
        found = {name: self.columns[name][rows] for name in ("observations", "actions", "rewards")}
        after = np.stack([finals[row] if row in finals else seen[row + 1] for row in rows])
        return {**found, "terminations": terminations[rows], "next_observations": after, "mask": mask}


def noise(agent: str, update: int, rows: int = 70, seen: int = 5, done: int = 3) -> Rows:
    """Rows that follow from the agent's name and the number of the update: five episodes, some of them cut off."""
    rng = np.random.default_rng(sequence(7, agent, update))
    ends = np.linspace(rows / 5, rows, 5).astype(int) - 1
    terminations, truncations = np.zeros(rows, bool), np.zeros(rows, bool)
    terminations[ends[::2]], truncations[ends[1::2]] = True, True
    columns = {
        "observations": rng.standard_normal((rows, seen), np.float32),
        "actions": rng.integers(done, size=rows),
        "rewards": rng.standard_normal(rows).astype(np.float32),
        "terminations": terminations,
        "truncations": truncations,
        "log_prob": np.full(rows, -np.log(done), np.float32),
        "value": rng.standard_normal(rows).astype(np.float32),
        "ends": ends,
        "final_observations": rng.standard_normal((len(ends), seen), np.float32),
    }
    return Rows(columns, np.random.default_rng(sequence(8, agent, update)))


class Corridor:
    """A place from 0 to 4, begun at 2; the right end is worth 1, the left end 0.1, and both are the end.

    Action 2 goes right, 0 left, 1 stays. After 12 steps it is cut off.
    """

    def reset(self) -> Any:
        self.place, self.time = 2, 0
        return self._look()

    def step(self, action: int) -> tuple[Any, float, bool, bool]:
        self.place, self.time = self.place + action - 1, self.time + 1
        over = self.place in (0, 4)
        return self._look(), {0: 0.1, 4: 1.0}.get(self.place, 0.0), over, not over and self.time == 12

    def _look(self) -> Any:
        return np.eye(5, dtype=np.float32)[self.place]


def play(bank: Any, epoch: int, episodes: int = 6) -> dict[str, dict[str, Any]]:
    """Columns of what each agent of a bank does in corridors of its own, one episode after another."""
    bank.begin(epoch, {agent: [int(sequence(3, agent, epoch).generate_state(1)[0])] for agent in bank.agents})
    columns = {agent: _Log() for agent in bank.agents}
    worlds = {agent: Corridor() for agent in bank.agents}
    seen = {agent: world.reset() for agent, world in worlds.items()}
    while seen:
        acted = bank.act({(agent, 0): value for agent, value in seen.items()})
        for (agent, _), answer in acted.items():
            after, reward, over, cut = worlds[agent].step(answer.action)
            columns[agent].add(seen[agent], answer, reward, over, cut, after)
            seen[agent] = worlds[agent].reset() if over or cut else after
            if columns[agent].episodes == episodes:
                del seen[agent]
    return {agent: log.columns() for agent, log in columns.items()}


class _Log:
    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._ends: list[int] = []
        self._finals: list[Any] = []

    @property
    def episodes(self) -> int:
        return len(self._ends)

    def add(self, seen: Any, acted: Any, reward: float, over: bool, cut: bool, after: Any) -> None:
        row = {"observations": seen, "actions": acted.action, "rewards": reward, "terminations": over}
        self._rows.append({**row, "truncations": cut, **acted.extras})
        if over or cut:
            self._ends.append(len(self._rows) - 1)
            self._finals.append(after)

    def columns(self) -> dict[str, Any]:
        found = {name: np.array([row[name] for row in self._rows]) for name in self._rows[0]}
        return {**found, "ends": np.array(self._ends), "final_observations": np.array(self._finals)}


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns one after another."""
    firsts = np.cumsum([0, *(len(part["rewards"]) for part in parts[:-1])])
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    ends = [part["ends"] + first for part, first in zip(parts, firsts, strict=True)]
    return {**found, "ends": np.concatenate(ends)}
