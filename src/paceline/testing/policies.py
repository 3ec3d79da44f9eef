"""Is this policy a function of its seed and its observations, and can it be moved?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from paceline.engine.transport import codec
from paceline.errors import BadInput
from paceline.lasting import Lasting
from paceline.rollout import play
from paceline.seeds import digest, seed_of
from paceline.testing.elsewhere import Failed, another_hash_seed, run_elsewhere, sendable
from paceline.testing.findings import Finding, Report, lasting_findings
from paceline.testing.generators import Watch, strange_generators
from paceline.types import Acted, Seat, Step

_SAMPLES = 32


def check_policy(factory: Callable[[], Any], observations: Any, *, seed: int = 0) -> Report:
    """Checks that what `factory` builds keeps to the policy API and can be run in parallel.

    A policy has `reset(seed)` and `act(observation)`; it may have `act_batch` (see `paceline.roles.RowPolicy`), and
    `snapshot()` with `restore(state)`. Asks whether the same seed and the same observations give the same actions:
    reset again, built again, and built in another process; whether it leaves the process-wide random generators and
    the observations alone; whether the recipe can be sent to a worker; and whether a policy restored from a snapshot
    goes on the same.

    Args:
        factory: Builds the policy; it is called several times.
        observations: What it is shown: a Gymnasium space to sample from, or a sequence of observations.
        seed: Given to `reset`, and used to sample observations.

    Returns:
        The findings; `raise_for_problems()` is the assertion.

    Raises:
        BadInput: there are no observations.
    """
    trial = PolicyTrial(factory, _observations(observations, seed), seed)
    name = getattr(factory, "__qualname__", None) or repr(factory)
    return Report(name, tuple(trial.findings()))


class PolicyTrial:
    """One policy under examination."""

    def __init__(self, factory: Callable[[], Any], observations: list[Any], seed: int) -> None:
        self._factory = factory
        self._observations = observations
        self._seed = seed
        self._runs = 0

    def findings(self) -> Iterator[Finding]:
        """Asks one question after another; an error in `act` ends it."""
        with strange_generators(0):
            policy = self._factory()
        missing = [name for name in ("reset", "act") if not callable(getattr(policy, name, None))]
        if missing:
            yield Finding(
                "api",
                "problem",
                f"It has no {' and no '.join(missing)}: a policy has reset(seed) and act(observation).",
            )
            return
        try:
            self._expected = self._run(lambda: acted(self._factory, self._seed, self._observations))
        except Exception as error:
            yield Finding("api", "problem", f"It raised {type(error).__name__}: {error}.")
            return
        yield Finding("api", "ok", "It has reset(seed) and act(observation), and acts.")
        yield sendable(self._factory)
        yield self._generators()
        yield self._leaves_observations_alone()
        yield self._same("again", "Built again and reset with the same seed", self._built_again)
        yield self._same("restart", "Reset with the same seed in mid-play", self._reset_again)
        yield self._process()
        yield from lasting_findings(self._look_at)
        if hasattr(policy, "snapshot") or hasattr(policy, "restore"):
            yield self._snapshot(policy)
        if hasattr(policy, "act_batch"):
            yield self._batch()

    def _run(self, work: Callable[[], Any]) -> Any:
        self._runs += 1
        with strange_generators(self._runs):
            return work()

    def _same(self, name: str, how: str, play: Callable[[], list[str]], since: int = 0) -> Finding:
        """Plays it otherwise, and says whether it acts as it did at first."""
        try:
            actions = self._run(play)
        except Exception as error:
            what = str(error) if isinstance(error, Failed) else f"it raised {type(error).__name__}: {error}"
            return Finding(name, "problem", f"{how}: {what}.")
        differing = [
            i for i, pair in enumerate(zip(self._expected[since:], actions, strict=True), since) if len({*pair}) > 1
        ]
        if not differing:
            return Finding(name, "ok", f"{how} it acts the same.", {"actions": len(actions)})
        advice = "It must draw from a generator of its own, which reset(seed) seeds, and forget what was before."
        return Finding(
            name,
            "problem",
            f"{how} it acts otherwise, first in action {differing[0]}.",
            {"first_difference": differing[0]},
            advice,
        )

    def _built_again(self) -> list[str]:
        return acted(self._factory, self._seed, self._observations)

    def _reset_again(self) -> list[str]:
        policy = self._factory()
        _act(policy, self._seed, self._observations)
        return _act(policy, self._seed, self._observations)

    def _look_at(self, watch: Lasting) -> None:
        for _ in range(2):
            policy = self._factory()
            watch.meet(policy)
            watch.look()
            self._run(partial(_act, policy, self._seed, self._observations))
            watch.look()

    def _generators(self) -> Finding:
        touched = self._run(self._touched)
        if not touched:
            return Finding("generators", "ok", "It leaves the process-wide random generators alone.")
        where = "; ".join(f"{' and '.join(names)} in {place}" for place, names in touched.items())
        advice = "Draw from a generator of its own, numpy.random.default_rng(seed), made in reset(seed)."
        return Finding("generators", "problem", f"It uses process-wide generators: {where}.", touched, advice)

    def _touched(self) -> dict[str, tuple[str, ...]]:
        watch = Watch()
        policy = watch.run("its constructor", self._factory)
        watch.run("reset()", lambda: policy.reset(self._seed))
        watch.run("act()", lambda: _act(policy, None, self._observations))
        return watch.touched

    def _leaves_observations_alone(self) -> Finding:
        policy = self._factory()
        shown = codec.fresh(codec.pack(self._observations))
        self._run(lambda: _act(policy, self._seed, shown, fresh=False))
        changed = [
            i for i, pair in enumerate(zip(shown, self._observations, strict=True)) if len({*map(digest, pair)}) > 1
        ]
        if not changed:
            return Finding("observations", "ok", "It leaves the observations that it is shown as they are.")
        sentence = f"It changes the observations that it is shown, first in action {changed[0]}."
        return Finding("observations", "problem", sentence, {"action": changed[0]}, "Work on a copy.")

    def _process(self) -> Finding:
        def play() -> list[str]:
            actions: list[str] = run_elsewhere(
                acted, self._factory, self._seed, self._observations, hash_seed=another_hash_seed()
            )
            return actions

        return self._same("process", "In another process", play)

    def _snapshot(self, policy: Any) -> Finding:
        if not (hasattr(policy, "snapshot") and hasattr(policy, "restore")):
            return Finding("snapshot", "problem", "It has only one of snapshot() and restore(); it needs both or none.")
        middle = len(self._observations) // 2

        def play() -> list[str]:
            one, other = self._factory(), self._factory()
            _act(one, self._seed, self._observations[:middle])
            other.restore(codec.fresh(codec.pack(one.snapshot())))
            return _act(other, None, self._observations[middle:])

        return self._same("snapshot", "Restored from a snapshot taken in mid-play", play, since=middle)

    def _batch(self) -> Finding:
        try:
            batches = [self._run(self._act_on_all_at_once) for _ in range(2)]
        except Exception as error:
            return Finding("batch", "problem", f"act_batch() raised {type(error).__name__}: {error}.")
        if len(batches[0]) != len(self._observations):
            sentence = f"act_batch() gave {len(batches[0])} actions for {len(self._observations)} observations."
            return Finding("batch", "problem", sentence)
        if batches[0] != batches[1]:
            return Finding("batch", "problem", "act_batch() acts otherwise after a reset with the same seed.")
        return Finding("batch", "ok", "act_batch() gives an action per observation, the same ones again.")

    def _act_on_all_at_once(self) -> list[str]:
        policy, rows = self._factory(), len(self._observations)
        if hasattr(policy, "begin"):
            policy.begin(list(range(rows)), [seed_of(self._seed, row) for row in range(rows)])
        else:
            policy.reset(self._seed)
        seats = [Seat(f"agent_{row}", row, None, None, "check") for row in range(rows)]
        rngs = [np.random.default_rng((self._seed, row)) for row in range(rows)]
        actions = policy.act_batch(list(self._observations), seats, np.ones(rows, np.bool_), rngs)
        return [digest(action) for action in (actions.action if isinstance(actions, Acted) else actions)]


def acted(factory: Callable[[], Any], seed: int, observations: Sequence[Any]) -> list[str]:
    """Builds a policy and gives the digests of its actions."""
    return _act(factory(), seed, observations)


def _act(policy: Any, seed: int | None, observations: Sequence[Any], *, fresh: bool = True) -> list[str]:
    if seed is not None:
        policy.reset(seed)
    actions: list[str] = play(_Shown(observations, fresh), _Alone(policy), 0)
    return actions


class _Shown:
    """A world that shows observations one after another, whatever is done; its record is the digests of the actions.

    Args:
        observations: What it shows.
        fresh: Whether it shows a copy of each: a policy that changes what it is shown must not change what it is shown
            the next time.
    """

    def __init__(self, observations: Sequence[Any], fresh: bool) -> None:
        self._observations, self._fresh = observations, fresh
        self.episode: list[str] = []

    @property
    def over(self) -> bool:
        """Whether all have been shown."""
        return len(self.episode) == len(self._observations)

    def begin(self, seed: int, task: Any = None) -> dict[str, Any]:
        """Shows the first one."""
        return {} if self.over else self._next()

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Takes the action, and shows the next one."""
        self.episode.append(digest(actions["policy"]))
        return Step({} if self.over else self._next(), {}, {}, {}, {}, {})

    def _next(self) -> dict[str, Any]:
        shown = self._observations[len(self.episode)]
        return {"policy": codec.fresh(codec.pack(shown)) if self._fresh else shown}


class _Alone:
    """A policy as a team."""

    extras: Mapping[Any, Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def act(self, observations: Mapping[str, Any]) -> dict[str, Any]:
        """Asks the policy."""
        return {name: self._policy.act(obs) for name, obs in observations.items()}

    def tell(self, step: Step) -> None:
        """It is told nothing."""


def _observations(given: Any, seed: int) -> list[Any]:
    if hasattr(given, "sample") and hasattr(given, "seed"):
        space = codec.fresh(codec.pack(given))
        space.seed(seed_of(seed, "observations") % 2**32)
        return [space.sample() for _ in range(_SAMPLES)]
    shown = list(given)
    if not shown:
        raise BadInput("there are no observations to show the policy; give a space, or one observation or more")
    return shown
