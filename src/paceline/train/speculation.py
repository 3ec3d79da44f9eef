"""Speculation: agents that act one after another are answered ahead, in one forward on what they see as a turn begins.

    a turn begins ── look ──► what all agents see that come later ──► one stacked forward ──► guesses
    an agent is due ──► it sees the same: its guess is its answer        it sees something else: asked again

It is exact. An answer follows from weights, observation and draw. A guess counts only for the very bits that it was
made of. And an agent's draws are numbered: its next action has the same draw, however often it is asked for it. Agents
with a state that acting changes, users' own ones, are asked in order.

Whether it pays depends on how often agents change what others see. So by default both ways are timed, now and then.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.lockstep import Worlds
from paceline.spaces import same_bits
from paceline.train.actors import Actors
from paceline.train.hosts import Name
from paceline.train.training import Speculated
from paceline.types import Step

_TRIED = 12  # turns by which either way is judged
_WARMING = 12  # turns before the first that is timed: first calls take longer
_AGAIN = 1000  # turns after which it is judged anew: agents learn, and meet more or less often

_UNDECLARED = (
    "this world does not declare that looking changes nothing, with metadata['observe_is_pure'] = True; "
    "speculate=True says so in its place"
)
_UNABLE = "no agent can be asked ahead: acting changes a state of theirs"


@dataclass
class Pace:
    """Whether the next turn is speculated: as asked, or the way that has been quicker.

    Attributes:
        wanted: What was asked; None: what is quicker.
        why: What is done, and why.
    """

    wanted: bool | None
    why: str = ""
    _on: bool = False
    _seconds: float = 0.0
    _answers: int = 0
    _turns: int = -_WARMING
    _costs: dict[bool, list[float]] = field(default_factory=lambda: {True: [], False: []})

    def spend(self, seconds: float, answers: int) -> None:
        """Takes what some answers of this turn took."""
        self._seconds += seconds
        self._answers += answers

    def turn(self) -> bool:
        """A turn begins. Gives whether it is speculated."""
        if self.wanted is not None:
            return self.wanted
        if self._answers and 0 < self._turns < 2 * _TRIED:
            self._costs[self._on].append(self._seconds / self._answers)
        self._seconds, self._answers, self._turns = 0.0, 0, self._turns + 1
        if self._turns < 2 * _TRIED:
            self._on = not self._on
        elif self._turns == 2 * _TRIED:
            self._decide()
        elif self._turns == _AGAIN:
            self._turns, self._costs = 0, {True: [], False: []}
        return self._on

    def _decide(self) -> None:
        ahead, ordered = (statistics.median(self._costs[way]) for way in (True, False))
        self._on = ahead < ordered
        took = f"an answer took {ahead * 1e6:.0f} µs speculated and {ordered * 1e6:.0f} µs in order"
        self.why = f"{'on' if self._on else 'off'} at the end: {took}"


@dataclass(frozen=True)
class _Guess:
    seen: Any
    action: Any
    extras: Mapping[str, Any] | None


class Speculation:
    """The mind half of a training whose turns are ordered.

    Args:
        actors: Who is asked.
        worlds: Where agents look.
        wanted: Whether to speculate; None: where it pays, in worlds that declare that looking changes nothing.
        clock: By what it is judged whether it pays. A turn that is speculated is longer than one question, so by the
            clock on the wall other work on the machine is likelier to fall into it.
    """

    def __init__(self, actors: Actors, worlds: Worlds, wanted: bool | None, clock: Callable[[], float]) -> None:
        self._actors, self._worlds, self._clock = actors, worlds, clock
        self._agents = frozenset[str]() if wanted is False else actors.memoryless
        why = "as asked"
        if wanted is not False and not self._agents:
            why = _UNABLE
        elif wanted is None and not worlds.can_look:
            self._agents, why = frozenset(), _UNDECLARED
        self._pace = Pace(wanted, why if wanted is not None or not self._agents else "")
        self._guesses: dict[Name, _Guess] = {}
        self.counts = [0, 0, 0]
        """Answers; those of speculated turns; those of them that were made again."""
        self.extras: dict[Name, Mapping[str, Any]] = {}
        """What came with the last actions."""

    @property
    def figures(self) -> Speculated:
        """What it has done."""
        answers, ahead, again = self.counts
        return Speculated(answers, ahead, again, self._pace.why or "too few turns to tell whether it pays")

    def begin(self, epoch: int) -> None:
        """An epoch begins."""
        self._guesses.clear()
        self._actors.begin(epoch)

    def act(self, observations: Mapping[Name, Any]) -> dict[Name, Any]:
        """Asks the agents that are due, but those of which the guess is right."""
        begin = self._clock()
        known = {name: self._guesses.pop(name) for name in observations if name in self._guesses}
        right = {name: guess for name, guess in known.items() if same_bits(guess.seen, observations[name])}
        ahead = self._look(name for name in observations if name not in known)
        again = [name for name in known if name not in right] + [name for name in ahead if name in self._guesses]
        asked = {**{name: seen for name, seen in observations.items() if name not in right}, **ahead}
        actions, extras = self._actors.ask(asked, again) if asked else ({}, {})
        for name, seen in ahead.items():
            self._guesses[name] = _Guess(seen, actions[name], extras.get(name))
        for name, guess in right.items():
            actions[name] = guess.action
            if guess.extras is not None:
                extras[name] = guess.extras
        self.extras = {name: extras[name] for name in observations if name in extras}
        self._count(observations, known, right, ahead)
        self._pace.spend(self._clock() - begin, len(observations))
        return {name: actions[name] for name in observations}

    def _look(self, unknown: Iterable[Name]) -> dict[Name, Any]:
        """What agents see that come later, in the worlds where a turn begins that is speculated."""
        tables = sorted({world for world, agent in unknown if agent in self._agents})
        if not tables or not self._pace.turn():
            return {}
        return {name: seen for name, seen in self._worlds.look(tables).items() if name[1] in self._agents}

    def _count(self, due: Iterable[Name], known: Iterable[Name], right: Iterable[Name], ahead: Iterable[Name]) -> None:
        due, known, worlds = list(due), list(known), {world for world, _ in ahead}
        begun = [name for name in due if name not in known and name[0] in worlds and name[1] in self._agents]
        self.counts[0] += len(due)
        self.counts[1] += len(known) + len(begun)
        self.counts[2] += len(known) - len(list(right))

    def tell(self, step: Step) -> None:
        """Learners learn from their rows; they are told nothing else."""
