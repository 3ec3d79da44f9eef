"""Is this env fit to be run in parallel? The questions that `check_env` asks, and `paceline doctor` too.

Everything is asked of the env on its own: plain calls in this process or in a new one, nothing of Paceline's between
them, and the process-wide generators in another state each time, as they would be in another program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from time import perf_counter
from typing import Any

from paceline.errors import BadInput
from paceline.testing.elsewhere import Failed, another_hash_seed, own_hash_seed, run_elsewhere, sendable
from paceline.testing.findings import Finding, Report
from paceline.testing.generators import strange_generators
from paceline.testing.looking import Look, look_at
from paceline.testing.playing import Difference, Moment, begins_again, difference, make_player, played

_OWN_GENERATOR = "Draw from self.np_random, which super().reset(seed=seed) seeds."
_OWN_GENERATOR_OF_TEXT = "Draw from a generator that reset(seed) makes: self.rng = np.random.default_rng(seed)."


def check_env(factory: Callable[[], Any], steps: int = 200, seed: int = 0) -> Report:
    """Checks that what `factory` builds keeps to its API and can be run in parallel.

    Asks whether it has spaces; whether reset and step answer as Gymnasium's `Env` or PettingZoo's `ParallelEnv` says;
    whether the recipe can be sent to a worker; whether it leaves the process-wide random generators alone; whether
    the observations that it returns stay as they are; and whether the same seed gives the same trajectory when it is
    reset again, built again, and built in another process.

    Args:
        factory: Builds the env; it is called several times.
        steps: How long each trajectory is.
        seed: Seeds the resets, and the actions, which are sampled from the action space.

    Returns:
        The findings; `raise_for_problems()` is the assertion.

    Raises:
        BadInput: what the factory builds is no env.
    """
    name = getattr(factory, "__qualname__", None) or repr(factory)
    return Report(name, tuple(conformance(Trial(factory, steps, seed))))


class Trial:
    """One env under examination: what has been seen of it so far.

    Args:
        factory: Builds it here.
        steps: How long each trajectory is.
        seed: Seeds it.
        recipe: Builds it in another process, if the factory itself need not travel there.
        seconds: How long a trajectory may take: then all are as long as the first got by then.
    """

    def __init__(
        self,
        factory: Callable[[], Any],
        steps: int,
        seed: int,
        recipe: Callable[[], Any] | None = None,
        seconds: float = math.inf,
    ) -> None:
        if steps < 1:
            raise BadInput(f"steps={steps} shows nothing; give 1 or more")
        if seed < 0:
            raise BadInput(f"seed={seed} cannot be given to reset(); give 0 or more")
        self.factory = factory
        self.recipe = recipe or factory
        self._most, self._seconds = steps, seconds
        self.seed = seed
        self._runs = 0
        self._alone: dict[int, list[Moment]] = {}
        self.verdicts: dict[str, bool] = {}  # how it was played → whether it gave the same
        self.longest = 0.0  # seconds that a trajectory took

    @cached_property
    def look(self) -> Look:
        """What the first, careful look has shown."""
        return look_at(self.factory, self.seed, self._most, self._seconds)

    @property
    def steps(self) -> int:
        """How long each trajectory is."""
        return self._most if self.look.stopped else self.look.steps

    @cached_property
    def sendable(self) -> Finding:
        """Whether the factory can be sent to a worker."""
        return sendable(self.factory)

    def alone(self, seed: int) -> list[Moment]:
        """What it gives from this seed with nobody else about."""
        if seed not in self._alone:
            self._alone[seed] = self.run(lambda: played(self.factory, seed, self.steps))
        return self._alone[seed]

    def run(self, work: Callable[[], Any]) -> Any:
        """Runs something with the process-wide generators in a state that they have not had before."""
        self._runs += 1
        start = perf_counter()
        with strange_generators(self._runs):
            answer = work()
        self.longest = max(self.longest, perf_counter() - start)
        return answer

    def compare(self, name: str, how: str, others: Callable[[], dict[int, list[Moment]]]) -> Finding:
        """Plays it otherwise, and says whether every seed gives what it gives alone.

        Args:
            name: The finding's name.
            how: How it was played, as the beginning of a sentence.
            others: Plays it: seed → trajectory.
        """
        self.verdicts[name] = False
        try:
            found = self.run(others)
            differs = [difference(self.alone(seed), trajectory) for seed, trajectory in found.items()]
        except Failed as error:
            return Finding(name, "problem", f"{how} it could not be played: {error}.")
        except Exception as error:
            return Finding(name, "problem", f"{how} it raised {type(error).__name__}: {error}.")
        for first in filter(None, differs):
            return self._differs(name, how, first)
        self.verdicts[name] = True
        return Finding(name, "ok", f"{how} it gives the same {_steps(self.steps)}.", {"steps": self.steps})

    def _differs(self, name: str, how: str, first: Difference) -> Finding:
        numbers = {"steps": self.steps, "first_difference": first.moment}
        sentence = f"{how} it goes another way: {first} differs."
        return Finding(name, "problem", sentence, numbers, self._suspicion(first))

    def _suspicion(self, first: Difference) -> str:
        if self.look.watch.touched:
            return "It draws from process-wide generators: see the finding of that name."
        if first.moment == 0:
            return f"Its seed does not decide where it starts. {_own_generator(self.look)}"
        if self._is_for_want_of_a_seed(first):
            return (
                "A reset() without a seed must go on with the generator it has, and not make a new one: with a seed at "
                "every reset it gives the same. Until then give episodes seeds: make_vec(…, reseed='episode')."
            )
        return "Something else than seed and actions moves it: time, files, the network, or state that envs share."

    def _is_for_want_of_a_seed(self, first: Difference) -> bool:
        """Whether a reset after an episode is to blame: one comes before, and if each has a seed nothing differs."""
        if self.look.text or not begins_again(self.alone(self.seed)[: first.moment + 1]):
            return False  # every reset of a text environment has a seed
        return self._gives_the_same_with_seeds

    @cached_property
    def _gives_the_same_with_seeds(self) -> bool:
        one, other = (self.run(lambda: played(self.factory, self.seed, self.steps, seeded=True)) for _ in range(2))
        return bool(one == other)


def conformance(trial: Trial) -> list[Finding]:
    """The questions of `check_env`; where the env cannot be played, only those that can be asked."""
    look = trial.look
    findings = [*_api(look), trial.sendable]
    if look.stopped:
        return findings
    same = [again(trial), restart(trial), process(trial)]
    return [*findings, generators(trial, same[0].verdict == "ok"), aliasing(look), *same]


def _api(look: Look) -> list[Finding]:
    good = _good(look)
    findings = []
    for name in (*good, *(name for name in look.complaints if name not in good)):
        if name in look.complaints:
            findings.append(Finding(name, "problem", f"{'. '.join(look.complaints[name].values())}."))
        elif name in look.seen:
            findings.append(Finding(name, "ok", good[name]))
    return findings


def _good(look: Look) -> dict[str, str]:
    if look.text:
        return {
            "spaces": "It is a text environment, whose actions are named or free text.",
            "reset": "reset(seed, mode) begins an episode, and render() shows it.",
            "step": "step() answers with state, reward, done and an info that says in the end whether it is a success.",
        }
    kind = "PettingZoo ParallelEnv" if look.parallel else "Gymnasium Env"
    return {
        "spaces": f"It is a {kind} with an observation space and an action space.",
        "reset": "reset(seed=…) answers with an observation of its space and an info.",
        "step": "step() answers with observation, reward, terminated, truncated and info, each of its type.",
    }


def generators(trial: Trial, same_again: bool) -> Finding:
    """Does it leave the process-wide generators alone?"""
    touched = trial.look.watch.touched
    if not touched:
        return Finding("generators", "ok", "It leaves the process-wide random generators alone.")
    names = _and(sorted({name for names in touched.values() for name in names}))
    where = _and([f"its {place}" if place == "constructor" else f"{place}()" for place in touched])
    yet = (
        "without it they are the same only as long as nobody else draws in between"
        if same_again
        else "reset(seed) does not restart those"
    )
    advice = (
        "Paceline gives each member streams of its own, so results are the same on inline, process and ray (threads "
        f"refuse it); yet {yet}. {_own_generator(trial.look)}"
    )
    numbers = {place: list(names) for place, names in touched.items()}
    return Finding(
        "generators", "problem", f"It uses {names} in {where}, which all of a process share.", numbers, advice
    )


def aliasing(look: Look) -> Finding:
    """Do the observations that it has returned stay as they are?"""
    advice = "Return a copy. Paceline itself copies what it keeps; other code that keeps an observation does not."
    if look.changed is not None:
        sentence = f"It changes observations after it has returned them, first in step {look.changed}."
        return Finding("aliasing", "problem", sentence, {"step": look.changed}, advice)
    if look.shared is not None:
        sentence = f"It returns the same memory again, first in step {look.shared}; so far with the same content."
        return Finding("aliasing", "warning", sentence, {"step": look.shared}, advice)
    return Finding("aliasing", "ok", "Observations that it has returned stay as they are.")


def again(trial: Trial) -> Finding:
    """Does another one, built here, give the same?"""
    seed = trial.seed
    return trial.compare(
        "again", "Built again and reset with the same seed", lambda: {seed: played(trial.factory, seed, trial.steps)}
    )


def restart(trial: Trial) -> Finding:
    """Does the same one give the same, once it is reset with its seed again?"""

    def second_play() -> dict[int, list[Moment]]:
        with closing(make_player(trial.factory, trial.seed)) as player:
            player.play(trial.steps)
            return {trial.seed: player.play(trial.steps)}

    return trial.compare("restart", "Reset with the same seed in mid-play", second_play)


def process(trial: Trial) -> Finding:
    """Does one in a process of its own, with other string hashes, give the same?"""
    if trial.recipe is trial.factory and trial.sendable.verdict != "ok":
        return Finding("process", "problem", "It cannot be tried in another process, because it cannot be sent there.")
    finding = trial.compare(
        "process", "In another process", lambda: {trial.seed: _elsewhere(trial, another_hash_seed())}
    )
    if "first_difference" not in finding.numbers or not _is_due_to_hashes(trial):
        return finding
    advice = "With the same PYTHONHASHSEED it is the same: it depends on the order of a set of strings. Sort them."
    return replace(finding, advice=advice)


def _is_due_to_hashes(trial: Trial) -> bool:
    ours = own_hash_seed()
    if ours is None:
        return False
    return trial.compare("hashes", "", lambda: {trial.seed: _elsewhere(trial, ours)}).verdict == "ok"


def _elsewhere(trial: Trial, hash_seed: str) -> list[Moment]:
    patience = max(60.0, 20 * trial.longest)
    moments: list[Moment] = run_elsewhere(
        played, trial.recipe, trial.seed, trial.steps, hash_seed=hash_seed, patience=patience
    )
    return moments


def _own_generator(look: Look) -> str:
    return _OWN_GENERATOR_OF_TEXT if look.text else _OWN_GENERATOR


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _and(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
