"""A team whose minds live with the loop itself: for workers that play by themselves, with no pool in between.

Draws from process-wide generators are not kept apart here, as pools keep them: a job that seats its policies so must
see to that (see `engine.draws_of`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from paceline.team.chairs import Chair
from paceline.team.device import one_thread
from paceline.team.minds import Mind
from paceline.team.team import Setting, outcomes_of, recipes
from paceline.types import Step


class LocalTeam:
    """The minds of one or more rollouts, asked by plain calls.

    Args:
        chairs: Every seat, and who plays it.
        setting: What the run says; where minds live is not asked.
    """

    def __init__(self, chairs: Sequence[Chair], setting: Setting) -> None:
        self._minds: list[Mind] = []
        self._restore_threads = one_thread()
        try:
            made = recipes(chairs, setting)
            for recipe in made:
                self._minds.append(recipe())
            self._restore_threads()
            self._restore_threads = one_thread()  # it may be a mind that has imported torch
        except BaseException:
            self.close()
            raise
        self._mind = {
            chair.name: mind for recipe, mind in zip(made, self._minds, strict=True) for chair in recipe.chairs
        }
        self._told = [chair.name for chair in chairs if chair.player.is_told]
        self.extras: dict[Hashable, Mapping[str, Any]] = {}
        """Chair → what its last answer came with beside the action."""

    def act(self, observations: Mapping[Any, Any]) -> dict[Any, Any]:
        """Gives an action for every chair that is due; whatever a policy raises comes as it is."""
        if len(self._minds) == 1 and observations:  # nearly always
            actions, _, self.extras = self._minds[0].act(observations)
            return actions
        actions, self.extras = {}, {}
        for mind, mine in self._by_mind(observations):
            answers, _, extras = mind.act(mine)
            actions.update(answers)
            self.extras.update(extras)
        return actions

    def tell(self, step: Step) -> None:
        """Tells the outcome of a step to those policies that take it."""
        if self._told:
            for mind, mine in self._by_mind(outcomes_of(step, self._told)):
                mind.tell(mine)

    def begin(self, episodes: Mapping[Hashable, tuple[str, int]]) -> None:
        """Begins the next episode of some chairs; see `Mind.begin`."""
        for mind, mine in self._by_mind(episodes):
            mind.begin(mine)

    def states(self, names: Sequence[Hashable]) -> dict[Hashable, Any]:
        """What row policies keep for these chairs now; only of those that can say it."""
        return {
            name: state
            for mind, mine in self._by_mind(dict.fromkeys(names))
            for name, state in mind.states(list(mine)).items()
        }

    def close(self) -> None:
        """Ends the minds."""
        self._restore_threads()
        for mind in self._minds:
            mind.close()

    def __enter__(self) -> LocalTeam:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _by_mind(self, values: Mapping[Any, Any]) -> list[tuple[Mind, Mapping[Any, Any]]]:
        if len(self._minds) == 1:
            return [(self._minds[0], values)] if values else []
        found: dict[int, tuple[Mind, dict[Any, Any]]] = {}
        for name, value in values.items():
            mind = self._mind[name]
            found.setdefault(id(mind), (mind, {}))[1][name] = value
        return [*found.values()]
