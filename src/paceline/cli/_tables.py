"""Tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from paceline.cli._failures import show_failures
from paceline.cli._terminal import harmless
from paceline.evaluate import Comparison, Report, Score, Summary
from paceline.evaluate.replacement import Replacement, replacements

_SHOWN = 5
_PIPED = 200


def console() -> Console:
    """Standard output; what is piped is as wide as it needs to be. Names are shown as they are: [x] is no colour."""
    made = partial(Console, soft_wrap=True, markup=False, emoji=False)
    return made() if made().is_terminal else made(width=_PIPED)


def table(*columns: str, words: int = 1) -> Table:
    """A plain table: the first columns are words, the others numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number < words else "right", no_wrap=True)
    return made


def show_report(report: Report, *, stats: bool = False) -> None:
    """Prints scores, failures, and how to look further; with `stats` what missions and agents counted, too."""
    page, mixes = console(), replacements(report)
    page.print(_mixes(mixes) if mixes else _scores(report.scores()))
    page.print()
    for each in mixes:
        page.print(_worth(each))
    if stats:
        _show_stats(page, report)
    for note in report.notes[:_SHOWN]:
        page.print(Text(f"note: {harmless(note)}", style="dim"))
    show_failures(page, report)
    _show_verified(page, report)
    page.print(Text(_how(report), style="dim"))
    if not report.complete:
        page.print(Text(f"stopped after {len(report.episodes)} of {report.planned} episodes", style="red"))
    if report.out is not None:
        page.print(Text(f"results: {report.out}", style="dim"))
    page.print(Text.assemble("digest:  ", (report.digest, "bold")))


def _scores(scores: Sequence[Score]) -> Table:
    mishaps = [name for name in ("failed", "late") if any(getattr(score, name) for score in scores)]
    columns = ("mission", "policy", "seats", "episodes", "reward", "± 95 %", "std", "min", "max", "steps")
    made = table(*columns, *mishaps, words=2)
    for score in scores:
        made.add_row(
            "all" if score.mission == "*" else score.mission,
            score.policy,
            str(score.seats),
            str(score.reward.count),
            *numbers(score.reward),
            number(score.steps, 0),
            *(str(getattr(score, name)) for name in mishaps),
        )
    return made


def _mixes(found: Sequence[Replacement]) -> Table:
    made = table("mission", "candidate", "seats", "pool", "episodes", "score", "value", words=2)
    for each in found:
        for mix in each.mixes:
            row = (mix.mission, each.candidate if mix.candidates else "–", str(mix.candidates), str(mix.others))
            made.add_row(*row, str(mix.episodes), number(mix.score), number(mix.value))
    return made


def _worth(each: Replacement) -> str:
    pool = ", ".join(each.pool)
    return f"{each.mission}: {each.candidate} is worth {number(each.value)} over {pool} ({number(each.replacement)})"


def _show_stats(page: Console, report: Report) -> None:
    made = table("mission", "whose", "count", "mean", words=3)
    for mission, means in report.game_stats().items():
        for name, value in means["at_end"].items():
            made.add_row(mission, "game", name, number(value))
    for score in report.scores():
        for name, value in score.stats.items() if score.mission != "*" else ():
            made.add_row(score.mission, score.policy, name, number(value))
    page.print(made)
    page.print()


def numbers(summary: Summary) -> list[str]:
    """Mean, half width of the 95 % interval, deviation, least and most."""
    return [number(value) for value in (summary.mean, summary.ci, summary.std, summary.least, summary.most)]


def number(value: float | None, places: int = 2) -> str:
    """A number; a dash if there is none."""
    return "–" if value is None else f"{value:.{places}f}"


def _show_verified(page: Console, report: Report) -> None:
    if not report.verified:
        return
    wrong = [name for name, same in report.verified.items() if not same]
    if wrong:
        page.print(Text(f"played again here, these came out differently: {', '.join(wrong)}", style="red"))
    else:
        page.print(f"verified: {len(report.verified)} episodes played again here came out the same")


def _how(report: Report) -> str:
    plan: dict[str, Any] = report.plan
    count = plan.get("workers") if plan["backend"] != "inline" else None
    workers = f" on {count} worker{'s' if count > 1 else ''}" if count else ""
    played = f"{len(report.episodes)} episode{'s' if len(report.episodes) != 1 else ''}"
    return f"{played} in {report.seconds:.1f} s, {plan['backend']}{workers}: {plan['why']}"


def show_comparison(found: Sequence[Comparison], a: str, b: str) -> None:
    """Prints how B did against A."""
    page = console()
    made = table("mission", "episodes", "A", "B", "B − A", "± 95 %", "B wins", "ties", "win rate")
    for each in found:
        made.add_row(
            "all" if each.mission == "*" else each.mission,
            str(each.difference.count),
            number(each.a.mean),
            number(each.b.mean),
            number(each.difference.mean, 3),
            number(each.difference.ci, 3),
            str(each.wins),
            str(each.ties),
            f"{each.win_rate:.0%}",
        )
    page.print(f"A: {a}\nB: {b}\n")
    page.print(made)
    page.print()
    page.print(_verdict(found[-1]))


def _verdict(each: Comparison) -> str:
    if each.difference.ci is None:
        return "One episode says nothing about a difference."
    if not each.clear:
        return "No clear difference: the 95 % interval of B − A holds 0."
    assert each.difference.mean is not None
    return f"{'B' if each.difference.mean > 0 else 'A'} is better: the 95 % interval of B − A leaves out 0."
