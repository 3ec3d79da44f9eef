"""Batches: policies that answer several seats in one call.

A batch has `lanes` rows, always, and a seat of an episode has the same row wherever it is played: the bits of a forward
pass depend on both (law 7). Rows that no seat is due in are padding.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from paceline.errors import BadInput
from paceline.seeds import seed_of, sequence
from paceline.team.chairs import Chair
from paceline.types import Acted, Seat

Answers = dict[int, Any]
"""Place → its action, or an `Acted`."""


class Joint:
    """Policies that share state and are asked together, by the numbers of their seats."""

    def __init__(self, chairs: Sequence[Chair], act_seats: Callable[[Mapping[int, Any]], Mapping[int, Any]]) -> None:
        self._seats, self._act_seats = [chair.seat.index for chair in chairs], act_seats

    def act(self, observations: Mapping[int, Any]) -> Answers:
        """Answers by place, in one call."""
        answers = self._act_seats({self._seats[place]: obs for place, obs in observations.items()})
        return {place: answers[self._seats[place]] for place in observations}


class Batch:
    """The rows of a policy that answers many seats at once.

    A policy that can begin single rows serves all chairs. One that has only `reset(seed)` begins all of its rows at
    once, so each episode has one of its own.

    Args:
        chairs: What it plays.
        rows: The row of each chair.
        lanes: How many rows there are.
        seed: The run's seed.
        build: Gives a policy.
    """

    def __init__(
        self, chairs: Sequence[Chair], rows: Sequence[int], lanes: int, seed: int, build: Callable[[], Any]
    ) -> None:
        self._chairs, self._rows, self._seed, self._build = tuple(chairs), tuple(rows), seed, build
        padding = np.random.default_rng(0)  # padding must draw from no seat's stream
        self._seats: list[Seat | None] = [None] * lanes
        self._rngs: list[np.random.Generator] = [padding] * lanes
        first = build()
        self._shared = hasattr(first, "begin") or not hasattr(first, "reset")
        self._serving: dict[Any, Any] = {self._episode(0): first}
        self.begin({place: chair.episode for place, chair in enumerate(chairs)})

    @property
    def policies(self) -> list[Any]:
        """All that were built."""
        return list(self._serving.values())

    def begin(self, episodes: Mapping[int, tuple[str, int]]) -> None:
        """Begins episodes: by place, mission and index of the one that the chair plays now."""
        self._chairs = tuple(
            chair.playing(episodes[place]) if place in episodes else chair for place, chair in enumerate(self._chairs)
        )
        for place in episodes:
            row, chair = self._rows[place], self._chairs[place]
            self._seats[row] = chair.seat
            self._rngs[row] = np.random.default_rng(sequence(self._seed, "row", *chair.episode, chair.seat.agent))
        self._begin_policies(sorted(episodes))

    def _begin_policies(self, places: Sequence[int]) -> None:
        chairs = [self._chairs[place] for place in places]
        if not self._shared:
            mine = {self._episode(place) for place in range(len(self._chairs))}
            spare = [policy for key, policy in self._serving.items() if key not in mine]
            self._serving = {key: policy for key, policy in self._serving.items() if key in mine}
            for chair in {self._episode(place): self._chairs[place] for place in places}.values():
                policy = self._serving.pop(chair.episode, None) or (spare.pop() if spare else self._build())
                policy.reset(seed_of(self._seed, "policy", *chair.episode, chair.player.name))
                self._serving[chair.episode] = policy
            return
        for policy in self._serving.values():
            if hasattr(policy, "begin"):
                seeds = [seed_of(self._seed, "policy", *chair.episode, chair.seat.agent) for chair in chairs]
                policy.begin([self._rows[place] for place in places], seeds)

    def _episode(self, place: int) -> Any:
        """What tells the policies of places apart: their episode, or nothing."""
        return None if self._shared else self._chairs[place].episode

    def act(self, observations: Mapping[int, Any]) -> Answers:
        """Answers by place, in one call for each policy."""
        return {
            place: answer
            for policy, places in self._by_policy(observations)
            for place, answer in self._asked(policy, {p: observations[p] for p in places}).items()
        }

    def tell(self, outcomes: Mapping[int, tuple[float, bool, bool, Any]]) -> None:
        """Tells outcomes by place (see `minds.Outcome`) to the policies that take them, in one call for each."""
        for policy, places in self._by_policy(outcomes):
            if hasattr(policy, "tell_rows"):
                rewards, terminated, truncated, _ = zip(*(outcomes[place] for place in places), strict=True)
                rows = [self._rows[place] for place in places]
                policy.tell_rows(rows, np.array(rewards), np.array(terminated), np.array(truncated))

    def _by_policy(self, places: Iterable[int]) -> list[tuple[Any, list[int]]]:
        together: dict[Any, list[int]] = {}
        for place in places:
            together.setdefault(self._episode(place), []).append(place)
        return [(self._serving[key], mine) for key, mine in together.items()]

    def _asked(self, policy: Any, observations: Mapping[int, Any]) -> Answers:
        rows: list[Any] = [next(iter(observations.values()))] * len(self._seats)
        mask = np.zeros(len(rows), bool)
        for place, obs in observations.items():
            rows[self._rows[place]] = obs
            mask[self._rows[place]] = True
        answers = policy.act_batch(rows, self._seats, mask, self._rngs)
        extras = answers.extras if type(answers) is Acted else {}
        actions = answers.action if type(answers) is Acted else answers
        for what, values in (("", actions), *((f"the extra {name!r} of ", values) for name, values in extras.items())):
            _check_rows(values, len(rows), f"{what}act_batch of policy {self._chairs[0].player.name!r}")
        if not extras:
            return {place: actions[self._rows[place]] for place in observations}
        return {
            place: Acted(actions[row], {name: values[row] for name, values in extras.items()})
            for place in observations
            for row in [self._rows[place]]
        }

    def states(self, places: Iterable[int]) -> dict[Hashable, Any]:
        """What policies with `take_rows` keep for these places, by chair."""
        return {
            self._chairs[place].name: policy.take_rows([self._rows[place]])
            for policy, mine in self._by_policy(places)
            if hasattr(policy, "take_rows")
            for place in mine
        }

    @property
    def can_be_saved(self) -> bool:
        """Whether what the policies keep can be taken out and put in: whole, or row by row."""
        return all(_saves_rows(policy) or _saves_itself(policy) for policy in self.policies)

    def save(self) -> Any:
        """What the policies keep, by row or whole, and the generators of the rows."""
        kept = [
            policy.take_rows(list(self._rows)) if _saves_rows(policy) else policy.snapshot() for policy in self.policies
        ]
        return kept, [self._rngs[row].bit_generator.state for row in self._rows]

    def restore(self, state: Any) -> None:
        """Goes on from what `save` gave."""
        kept, generators = state
        for policy, mine in zip(self.policies, kept, strict=True):
            if _saves_rows(policy):
                policy.put_rows(list(self._rows), mine)
            else:
                policy.restore(mine)
        for row, generator in zip(self._rows, generators, strict=True):
            self._rngs[row].bit_generator.state = generator


def _saves_rows(policy: Any) -> bool:
    return hasattr(policy, "take_rows") and hasattr(policy, "put_rows")


def _saves_itself(policy: Any) -> bool:
    return hasattr(policy, "snapshot") and hasattr(policy, "restore")


def _check_rows(answers: Any, lanes: int, who: str) -> None:
    """A list, a tuple, an array or a tensor with a value in every row; what stands in rows of padding is not read."""
    rows = hasattr(answers, "__getitem__") and hasattr(answers, "__len__") and not isinstance(answers, Mapping | str)
    if rows and getattr(answers, "shape", (1,)) != () and len(answers) == lanes:
        return
    many = f"{len(answers)} rows" if rows and getattr(answers, "shape", (1,)) != () else f"a {type(answers).__name__}"
    raise BadInput(
        f"{who} was asked {lanes} rows (lanes={lanes}) and answered {many}: give a list or an "
        "array with one value per row, those where mask is false included"
    )
