"""Speculation in ordered turns of a treasure hunt: turns a second without it, with it, and as `train` chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

from quiet import Quiet, Row, Slices, figure_row, gain_row, interleave
from train_parts import Training

from paceline.engine import Plan

AGENTS = (3, 8, 20)
TURNS = 50
WAYS = {"in order": False, "speculated": True, "auto": None}
_EPOCHS = 2  # of a slice
_BEFORE = 6  # epochs that are played before: agents have learned a little, and auto has looked


def turns_per_second(quiet: Quiet, rounds: int) -> Iterator[Row]:
    """Wall time of a turn, acting and the world's part in it; updates between epochs are not in it."""
    for agents in AGENTS:
        with ExitStack() as stack:
            made = {way: stack.enter_context(_training(agents, rounds, wanted)) for way, wanted in WAYS.items()}
            for training in made.values():
                training.play(_BEFORE)
            found = interleave(quiet, {way: _slice(training) for way, training in made.items()}, rounds)
            told = made["speculated"].trainer.speculation
            chosen = made["auto"].trainer.speculation
        ordered = found["in order"]
        yield replace(figure_row(f"{agents} agents, in order", ordered), ours=_rate(ordered))
        yield gain_row(f"{agents} agents, a turn: in order / speculated", found["speculated"], ordered)
        yield gain_row("… in order / as auto chooses", found["auto"], ordered, 1.0, within_noise=True)
        yield Row("… answers that were made again", f"{told.rate:.0%}" if told else "", "", "", "", str(chosen))


def _training(agents: int, rounds: int, wanted: bool | None) -> Training:
    epochs = _BEFORE + _EPOCHS * 20 * rounds  # slices that were disturbed are played again
    mission = f"treasure_hunt,agents={agents},steps={TURNS}"
    return Training(mission, "dqn,steps=2", epochs, Plan("inline"), turn="ordered", speculate=wanted)


def _slice(training: Training) -> Callable[[], float]:
    def measure() -> float:
        before = training.trainer.phases.seconds["collect"]
        training.play(_EPOCHS)
        return (training.trainer.phases.seconds["collect"] - before) / (_EPOCHS * TURNS)

    return measure


def _rate(slices: Slices) -> str:
    shown = f"{1 / slices.median():.0f} turns/s"
    if len(slices.kept()) < 3:
        return shown
    low, high = slices.interval()
    return f"{shown} [{1 / high:.0f}, {1 / low:.0f}]"
