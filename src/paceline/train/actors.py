"""Those who act: the mind half of the loop, with the versions that the timetable names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from paceline.engine import Pool
from paceline.seeds import seed_of
from paceline.train.banks import Recipe
from paceline.train.hosts import Name
from paceline.train.job import Job
from paceline.trees import Apart
from paceline.types import Step


class Actors:
    """The mind half of the loop: every agent in every world.

    Args:
        recipes: The banks.
        pool: Their acting halves, in the same order.
        job: What is trained.
    """

    def __init__(self, recipes: Sequence[Recipe], pool: Pool, job: Job) -> None:
        self._recipes, self._pool, self._job = recipes, pool, job
        self._member = {agent: number for number, recipe in enumerate(recipes) for agent in recipe.agents}
        self._loaded: dict[str, int] = {}
        self.extras: dict[Name, Mapping[str, Any]] = {}
        """What came with the last actions."""
        self.unsaved: dict[str, str] = {}
        """Agent → why its copies are in no checkpoint."""

    def begin(self, epoch: int) -> None:
        """An epoch begins: noise follows from (agent, epoch, world)."""
        job = self._job
        calls = {}
        for member, recipe in enumerate(self._recipes):
            seeds = {
                agent: [seed_of(job.seed, "act", agent, epoch, world) for world in range(job.worlds)]
                for agent in recipe.agents
            }
            calls[member] = epoch, seeds
        self._pool.call("begin", calls)

    def load(self, versions: Mapping[str, tuple[int, Any]]) -> None:
        """Gives the copies that act other versions, where they have not got them."""
        calls: dict[int, tuple[dict[str, Any], dict[str, int]]] = {}
        for agent, (version, weights) in versions.items():
            if self._loaded.get(agent) != version:
                self._loaded[agent] = version
                mine = calls.setdefault(self._member[agent], ({}, {}))
                mine[0][agent], mine[1][agent] = weights, version
        if calls:
            self._pool.call("load", calls)

    def save(self) -> dict[str, Any]:
        """What acting has changed in users' own policies, and which versions they have; ours begin every epoch anew."""
        mine = [number for number, recipe in enumerate(self._recipes) if recipe.is_users]
        agents = {}
        for number, outcome in self._pool.call(
            "snapshot", dict.fromkeys(mine, ()), record=False, outcomes=True
        ).items():
            agent, error = self._recipes[number].agents[0], outcome.error
            if error is None:
                agents[agent] = Apart(outcome.answer)
            else:
                self.unsaved[agent] = f"{type(error).__name__}: {error}"
        return {"copies": agents, "loaded": {agent: self._loaded[agent] for agent in agents if agent in self._loaded}}

    def go_on(self, copies: Mapping[str, Any], loaded: Mapping[str, int]) -> None:
        """Goes on with copies, and the versions that they have loaded, that `save` gave."""
        calls = {self._member[agent]: (each,) for agent, each in copies.items()}
        if calls:
            self._pool.call("restore", calls)
        self._loaded = dict(loaded)

    @property
    def memoryless(self) -> frozenset[str]:
        """Those that may be asked ahead, and again: their answers follow from weights, observation and draw alone."""
        found = self._pool.call("memoryless", record=False)
        return frozenset(agent for agent, number in self._member.items() if found[number])

    def act(self, observations: Mapping[Name, Any]) -> dict[Name, Any]:
        """Asks the agents that are due; those that cannot act are not asked."""
        actions, self.extras = self.ask(observations)
        return {name: actions[name] for name in observations}

    def ask(
        self, observations: Mapping[Name, Any], again: Collection[Name] = ()
    ) -> tuple[dict[Name, Any], dict[Name, Mapping[str, Any]]]:
        """Asks some agents. Gives actions, and what came with them.

        Args:
            observations: What they see.
            again: Those whose last action was not taken: this one has the draws of that.
        """
        calls: dict[int, tuple[dict[Name, Any], list[Name]]] = {}
        for name, seen in observations.items():
            mine = calls.setdefault(self._member[name[1]], ({}, []))
            mine[0][name] = seen
            if name in again:
                mine[1].append(name)
        answers = self._pool.call("act", calls)
        actions = {name: action for mine, _ in answers.values() for name, action in mine.items()}
        return actions, {name: extras for _, beside in answers.values() for name, extras in beside.items()}

    def tell(self, step: Step) -> None:
        """Learners learn from their rows; they are told nothing else."""
