"""What rollouts cost where, from the first ones that were played here; and the place that follows from that.

Clock of the first rollouts ──► Costs ──► seconds here, on n workers, with the forward here ──► Choice
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.collect.clock import Clock
from paceline.engine import TWO_CORES_ARE_NOT_TWICE_ONE
from paceline.schedule import STARTING

_MESSAGE = 150e-6  # seconds that a step of an environment elsewhere costs this process


@dataclass(frozen=True)
class Costs:
    """What rollouts take in one process.

    Attributes:
        environment: Seconds of an environment's step.
        forward: Seconds of one forward, padded to its lanes, however many of them are asked.
        other: Seconds of everything else, for each step.
        steps: Steps of a rollout.
        lanes: How many rollouts may share a forward.
        building: Seconds that it takes to build an environment.
        seating: Seconds that it takes to build the policy.
        waits: Whether most of the time is waiting, not computing.
        cold: Seconds until there is a process from which workers can be forked.
    """

    environment: float
    forward: float
    other: float
    steps: float
    lanes: int
    building: float = 0.0
    seating: float = 0.0
    waits: bool = False
    cold: float = 0.0

    @classmethod
    def of(
        cls, clock: Clock, rollouts: int, lanes: int, *, steps: float, seating: float, waits: bool, cold: float
    ) -> Costs:
        """What a clock says that has seen some rollouts from the beginning.

        Args:
            clock: The clock.
            rollouts: How many it has seen.
            lanes: How many may share a forward.
            steps: Steps of a rollout.
            seating: Seconds that it took to build the policy when there was none yet.
            waits: Whether most of the time was waiting.
            cold: Seconds until there is a process from which workers can be forked.
        """
        rows = max(1, clock.rows)
        other = clock.wall - clock.environments - clock.policy - clock.seating - clock.building
        return cls(
            environment=clock.environments / rows,
            forward=clock.policy / max(1, clock.forwards),
            other=max(0.0, other) / rows,
            steps=steps,
            lanes=lanes,
            building=clock.building / max(1, rollouts),
            seating=seating,
            waits=waits,
            cold=cold,
        )

    def here(self, rollouts: int) -> float:
        """Seconds of so many rollouts in this process."""
        forwards = rollouts * self.steps / min(self.lanes, rollouts)
        return rollouts * (self.steps * (self.environment + self.other) + self.building) + forwards * self.forward

    def copies(self, rollouts: int, workers: int) -> float:
        """Seconds of so many rollouts on workers with a copy of the policy each, once these are there."""
        return self.here(-(-rollouts // workers)) * self._beside(workers)

    def central(self, rollouts: int, workers: int) -> float:
        """Seconds of so many rollouts with the environments on workers and the forward here, once these are there."""
        forwards = rollouts * self.steps / min(self.lanes, rollouts)
        mine = rollouts * self.steps * (self.other + _MESSAGE) + forwards * self.forward
        theirs = -(-rollouts // workers) * (self.steps * self.environment + self.building) * self._beside(workers)
        return mine + theirs

    def starting(self, forward: str) -> float:
        """Seconds until workers are of use: the forward is in each 'worker', or 'here'."""
        return STARTING + self.cold + (self.seating if forward == "worker" else 0.0)

    def _beside(self, workers: int) -> float:
        return 1.0 if self.waits or workers == 1 else TWO_CORES_ARE_NOT_TWICE_ONE


@dataclass(frozen=True)
class Choice:
    """A place for the rollouts to go.

    Attributes:
        workers: How many; 0: here.
        forward: Where the policy computes: in each "worker", or "here".
        gain: Seconds that the best workers would save, were they there already.
        why: In one sentence.
    """

    workers: int
    forward: str
    gain: float
    why: str


def choose(
    costs: Costs,
    rollouts: int,
    most: int,
    *,
    forwards: tuple[str, ...] = ("worker", "here"),
    foregone: float = 0.0,
    more: bool = False,
) -> Choice:
    """Chooses the place where the rest takes the least time, workers that are still to be started included.

    Args:
        costs: What rollouts take.
        rollouts: How many are to go.
        most: The most workers that there may be.
        forwards: Where the policy may be.
        foregone: Seconds that workers would have saved before, had they been there: in earlier iterations.
        more: Whether the costs are lower bounds, because not one rollout has been played to its end.
    """
    here = costs.here(rollouts)
    places = [
        (_seconds_there(costs, rollouts, workers, forward), workers, forward)
        for forward in forwards
        for workers in range(2, min(most, rollouts) + 1)
    ]
    found = f"{_found(costs, more)}; the {rollouts} rollouts to go take {_time(here)} here"
    if not places:
        return Choice(0, "worker", 0.0, f"{found}, and {_why_alone(rollouts)}: they are played here")
    there, workers, forward = min(places, key=lambda place: place[0] + costs.starting(place[2]))
    gain, starting = max(0.0, here - there), costs.starting(forward)
    compared = [f"{found}, {_time(there)} on {workers} workers {_WORDS[forward]}"]
    compared += [f"{_time(other[0])} {_WORDS[other[2]]}" for other in _others(places, forward)]
    text = f"{', '.join(compared)}; to start workers takes {_time(starting)}"
    if gain + foregone <= starting:
        return Choice(0, "worker", gain, f"{text}: they are played here")
    return Choice(workers, forward, gain, f"{text}: {workers} workers, {_CHOSEN[forward]}")


_WORDS = {"worker": "with a copy of the policy each", "here": "with the policy here"}
_CHOSEN = {"worker": "a copy of the policy in each", "here": "the policy here"}


def _seconds_there(costs: Costs, rollouts: int, workers: int, forward: str) -> float:
    return costs.copies(rollouts, workers) if forward == "worker" else costs.central(rollouts, workers)


def _others(places: list[tuple[float, int, str]], chosen: str) -> list[tuple[float, int, str]]:
    """The best place with the policy elsewhere, if it may be there."""
    others = [place for place in places if place[2] != chosen]
    return [min(others)] if others else []


def _why_alone(rollouts: int) -> str:
    return "there is one to play at a time" if rollouts < 2 else "there is one CPU slot"


def _found(costs: Costs, more: bool) -> str:
    rows = f" of {costs.lanes} rows" if costs.lanes > 1 else ""
    waits = ", most of it waiting" if costs.waits else ""
    least = "at least " if more else ""
    return (
        f"a step takes {least}{_time(costs.environment)} in its environment and a forward{rows} "
        f"{_time(costs.forward)}{waits}"
    )


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
